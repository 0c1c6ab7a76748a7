//! The audit trail for people: its last entries on the status page, and all of it at `/page/audit`.

use std::sync::Arc;

use asat_core::audit::{Action, Filter};
use asat_core::{Problem, StoreName};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;

use super::super::access::{Caller, SignedIn};
use super::super::extract::{self, Parameters};
use super::super::{Answer, Face, cursor};
use super::words::{Moment, shortened};
use super::{Frame, encoded, given};
use asat_wire::AuditEntry;

/// How many entries stand on the status page, and on a page of the trail.
pub(super) const ON_HOME: u32 = 8;
const ON_PAGE: u32 = 100;
/// How much of a detail stands there. All of it is in the trail's JSON.
const MOST_OF_DETAIL: usize = 160;

/// Which entries to show.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrailParameters {
    store: Option<String>,
    actor: Option<String>,
    action: Option<String>,
    cursor: Option<String>,
}

/// Something that was done.
pub(super) struct Event {
    pub(super) number: u64,
    pub(super) at: Moment,
    pub(super) actor: String,
    pub(super) action: String,
    pub(super) version: String,
    pub(super) details: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "trail.html")]
struct Page {
    frame: Frame,
    events: Vec<Event>,
    stores: Vec<String>,
    actions: Vec<&'static str>,
    store: String,
    actor: String,
    action: String,
    is_newest: bool,
    older_href: Option<String>,
}

impl Event {
    fn new(entry: AuditEntry, now: Timestamp) -> Self {
        let details = entry.details.into_iter();
        Self {
            number: entry.number,
            at: Moment::new(entry.at, now),
            actor: entry.actor,
            action: entry.action,
            version: entry.version,
            details: details
                .map(|(name, text)| (name.replace('_', " "), shortened(&text, MOST_OF_DETAIL)))
                .collect(),
        }
    }
}

/// The newest entries of a filter with numbers below `before`, and whether there are more.
async fn read(
    face: &Face,
    filter: &Filter,
    before: Option<u64>,
    limit: u32,
    now: Timestamp,
) -> Result<(Vec<Event>, bool), Problem> {
    let (handle, wanted) = (face.handle.clone(), filter.clone());
    let page = face.work.run(move || handle.trail(&wanted, before, limit)).await?;
    let entries = page.entries.into_iter().map(AuditEntry::new);
    Ok((entries.map(|entry| Event::new(entry, now)).collect(), page.more))
}

/// The last entries, of one store or of all.
pub(super) async fn newest(
    face: &Face,
    store: Option<StoreName>,
    now: Timestamp,
) -> Result<Vec<Event>, Problem> {
    let filter = Filter { store, ..Filter::default() };
    Ok(read(face, &filter, None, ON_HOME, now).await?.0)
}

pub(super) async fn show(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Extension(signed_in): Extension<SignedIn>,
    Parameters(parameters): Parameters<TrailParameters>,
) -> Answer<Response> {
    let now = face.machine.believed().time;
    let (store, actor, action) = (given(parameters.store), given(parameters.actor), given(parameters.action));
    let filter = Filter {
        store: store.as_deref().map(extract::store).transpose()?,
        actor: actor.clone(),
        action: action.as_deref().map(str::parse).transpose()?,
        ..Filter::default()
    };
    let before = parameters.cursor.as_deref().map(|text| cursor::read_number(text, &filter)).transpose()?;
    let (events, more) = read(&face, &filter, before, ON_PAGE, now).await?;
    let last = events.last().filter(|_| more);
    let older_href = last.map(|event| {
        let query = [("store", &store), ("actor", &actor), ("action", &action)];
        let said =
            query.into_iter().filter_map(|(name, text)| Some(format!("{name}={}&", encoded(text.as_ref()?))));
        let cursor = encoded(&cursor::write_number(event.number, &filter));
        format!("/page/audit?{}cursor={cursor}", said.collect::<String>())
    });
    let engine = face.handle.engine();
    let stores = engine.register().stores().map(|history| history.store.name.to_string()).collect();
    drop(engine);
    let page = Page {
        frame: Frame::of(&caller, signed_in),
        events,
        stores,
        actions: Action::ALL.map(Action::text).to_vec(),
        store: store.unwrap_or_default(),
        actor: actor.unwrap_or_default(),
        action: action.unwrap_or_default(),
        is_newest: before.is_none(),
        older_href,
    };
    Ok(super::answer(StatusCode::OK, &page))
}
