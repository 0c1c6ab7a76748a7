//! Lanes: effects of one kind wait for one another, effects of different kinds never do.
//!
//! Each store has a lane of its own, in which its cuts and retirements follow one another in the order in which
//! they were intended, another one in which versions come out of their snapshots into the archive, and one in which
//! the archive is compacted, weighed and repaired, which takes its time. As-at copies
//! have one lane for all stores, and so has the removal of snapshots. A lane is a thread that lives from its
//! first effect to the daemon's end.
//!
//! The cut of a set is in the lanes of all its stores: they meet, and while one performs it the others rest. Effects are put
//! into all their lanes before the next one is, so there is always a first one whose lanes come to it, whatever the sets have in common.

mod meeting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use asat_core::audit::By;
use asat_core::event::{Effect, EffectId};
use asat_core::{Host, StoreName};

use super::message::Message;
use crate::log;
use meeting::{Meeting, PATIENCE};
use tracing::Span;

/// Which effects wait for one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lane {
    Store(StoreName),
    Archive(StoreName),
    Compaction(StoreName),
    Copies,
    Volumes,
}

impl Lane {
    /// The lanes of an effect; several have to be free for it together.
    fn of(effect: &Effect) -> Vec<Self> {
        let lane = match effect {
            Effect::CutSet { members, .. } => {
                return members.iter().map(|member| Self::Store(member.version.store.clone())).collect();
            }
            Effect::Cut { version, .. } | Effect::Restore { version, .. } | Effect::Retire { version } => {
                Self::Store(version.store.clone())
            }
            Effect::Archive { version } => Self::Archive(version.store.clone()),
            Effect::DropSnapshot { .. } => Self::Volumes,
            // What is weighed is what compaction has left, and no file is written anew by both at once.
            Effect::Compact { store } | Effect::Weigh { store } | Effect::Repair { store } => {
                Self::Compaction(store.clone())
            }
            Effect::MakeCopy { .. } | Effect::DropCopy { .. } => Self::Copies,
        };
        vec![lane]
    }
}

/// What is put into a lane: an effect, and whose request has caused it.
type Task = (Arc<Meeting>, Span);

pub(super) struct Lanes<H: Host> {
    host: Arc<H>,
    finished: Sender<Message>,
    open: HashMap<Lane, (Sender<Task>, JoinHandle<()>)>,
    closed: bool,
}

impl<H: Host> Lanes<H> {
    pub(super) fn new(host: Arc<H>, finished: Sender<Message>) -> Self {
        Self { host, finished, open: HashMap::new(), closed: false }
    }

    /// Puts an effect that somebody wants into its lane.
    pub(super) fn perform(&mut self, id: EffectId, by: &By, effect: Effect) {
        if self.closed {
            // Nobody would wait for its end. The intent stays open: the effect is settled at the next start.
            return;
        }
        let lanes = Lane::of(&effect);
        let version = effect.version().map(tracing::field::display);
        if let Err(error) = lanes.iter().try_for_each(|lane| self.have_open(lane)) {
            // The intent stays open: the effect is settled at the next start.
            tracing::error!(
                version,
                effect = id.0,
                "cannot start a thread for the effect {}: {error}",
                effect.text()
            );
            return;
        }
        let (meeting, cause) = (Arc::new(Meeting::new(id, effect, lanes.len())), log::caused_by(by));
        for lane in lanes {
            if let Some((sender, _)) = self.open.get(&lane)
                && sender.send((Arc::clone(&meeting), cause.clone())).is_err()
            {
                tracing::error!(effect = id.0, ?lane, "the lane has died; restart the daemon");
            }
        }
    }

    fn have_open(&mut self, lane: &Lane) -> std::io::Result<()> {
        if !self.open.contains_key(lane) {
            let opened = self.open_lane()?;
            self.open.insert(lane.clone(), opened);
        }
        Ok(())
    }

    fn open_lane(&self) -> std::io::Result<(Sender<Task>, JoinHandle<()>)> {
        let (sender, tasks) = channel::<Task>();
        let (host, finished) = (Arc::clone(&self.host), self.finished.clone());
        let work = move || {
            for (meeting, cause) in tasks {
                // A driver that is gone settles the open intent at the next start.
                let tell = |id, outcome| drop(finished.send(Message::Finished(id, outcome)));
                cause.in_scope(|| meeting.attend(PATIENCE, |effect| host.perform(effect), tell));
            }
        };
        Ok((sender, Builder::new().name("lane".to_owned()).spawn(work)?))
    }

    /// Whether nothing more is performed.
    pub(super) fn are_closed(&self) -> bool {
        self.closed
    }

    /// Waits for everything under way. What came of it is among the messages then.
    pub(super) fn close(&mut self) {
        self.closed = true;
        let (senders, threads): (Vec<_>, Vec<_>) = self.open.drain().map(|(_, lane)| lane).unzip();
        drop(senders);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a lane ended with a panic; what it did is settled at the next start");
            }
        }
    }
}
