//! `GET /v1/events`: what happens, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use asat_core::event::Change;
use asat_core::version::{State as VersionState, Version};
use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use tokio::sync::{broadcast, watch};

use super::Face;
use crate::daemon::Notice;
use asat_wire::{Names, PastAction};

/// Follows what happens from now on.
///
/// `version`, `publication`, `tag`, `lease` and `progress` events have a JSON object each. A `guard` event has an action of
/// the guard. `alarm` events come as an alarm begins, is acknowledged and is over. A `diff` event has the tables that a new
/// version changed, as soon as it is in the archive. `watch` events come as the marker of a store moves, is published, or
/// gives trouble. A listener that is too slow gets `missed` with how many it missed, and should list anew.
#[utoipa::path(
    get, path = "/events", tag = "daemon",
    responses((status = 200, description = "The events", content_type = "text/event-stream", body = String))
)]
pub(super) async fn events(
    State(face): State<Arc<Face>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let listener = Listener { notices: face.handle.listen(), stopping: face.stopping.clone(), face };
    let batches = stream::unfold(listener, |mut listener| async {
        let events = listener.next().await?;
        Some((stream::iter(events.into_iter().map(Ok)), listener))
    });
    Sse::new(batches.flatten()).keep_alive(KeepAlive::default())
}

struct Listener {
    face: Arc<Face>,
    notices: broadcast::Receiver<Notice>,
    stopping: watch::Receiver<bool>,
}

impl Listener {
    /// The events of the next notice; `None` when the daemon stops.
    async fn next(&mut self) -> Option<Vec<Event>> {
        let notice = tokio::select! {
            notice = self.notices.recv() => notice,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
        };
        match notice {
            Ok(Notice::Progress(progress)) => Some(event("progress", &progress)),
            Ok(Notice::Guard(entry)) => {
                let standing = self.face.handle.standing();
                Some(event("guard", &PastAction::new(&entry, Names(&standing.names))))
            }
            Ok(Notice::Alarm(alarm, over)) => {
                let standing = self.face.handle.standing();
                let alarm = super::capacity::alarm(&alarm, Names(&standing.names));
                Some(event("alarm", &serde_json::json!({ "alarm": alarm, "over": over })))
            }
            Ok(Notice::Diff(diff)) => Some(event("diff", &*diff)),
            Ok(Notice::Watch(store, watched)) => {
                let watch = super::stores::watched(&watched);
                Some(event("watch", &serde_json::json!({ "store": store, "watch": watch })))
            }
            Ok(Notice::Changed(changes)) => {
                Some(changes.iter().flat_map(|change| self.written(change)).collect())
            }
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                Some(event("missed", &serde_json::json!({ "missed": missed })))
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    fn written(&self, change: &Change) -> Vec<Event> {
        let engine = self.face.handle.engine();
        let register = engine.register();
        match change {
            // Nobody is told of a version that may yet turn out to be none.
            Change::Version(version) if version.state == VersionState::Cutting => Vec::new(),
            Change::Version(version) => match register.entry(&version.id) {
                Ok(entry) => {
                    // As this change has left it: by now it may be in another state, of which the next event tells.
                    let entry = entry.with(Version::clone(version));
                    event("version", &self.face.listed(register, &entry))
                }
                Err(_) => Vec::new(),
            },
            Change::Published(publication) => {
                let said = asat_wire::Publication::new(publication);
                let id = publication.version.to_string();
                event(
                    "publication",
                    &serde_json::json!({ "version": id, "reused": publication.reused, "publication": said }),
                )
            }
            Change::Lease(lease) => match self.face.mount(register, lease) {
                Ok(mount) => event("lease", &mount),
                Err(_) => Vec::new(),
            },
            Change::Tagged(tag) => event("tag", &asat_wire::Tag::new(tag)),
            Change::Untagged(store, name) => {
                event("tag", &serde_json::json!({ "store": store, "name": name, "deleted": true }))
            }
            Change::LeaseEnded(id) => event("lease", &serde_json::json!({ "lease": id, "ended": true })),
            Change::Store(_)
            | Change::Discarded(_)
            | Change::Packed(_)
            | Change::Intended(_)
            | Change::Concluded(_)
            | Change::Clock(_)
            | Change::Noted(_) => Vec::new(),
        }
    }
}

fn event(name: &str, data: &impl Serialize) -> Vec<Event> {
    match Event::default().event(name).json_data(data) {
        Ok(event) => vec![event],
        Err(error) => {
            tracing::error!("an event could not be written: {error}");
            Vec::new()
        }
    }
}
