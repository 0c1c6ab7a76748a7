//! Lanes: effects of one kind wait for one another, effects of different kinds never do.
//!
//! Each store has a lane of its own, in which its cuts and retirements follow one another in the order in which
//! they were intended, another one in which versions come out of their snapshots into the archive, and one in which
//! the archive is compacted and weighed, which takes its time. As-at copies
//! have one lane for all stores, and so has the removal of snapshots. A lane is a thread that lives from its
//! first effect to the daemon's end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use asat_core::event::{Effect, EffectId};
use asat_core::{Host, StoreName};

use super::message::Message;

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
    fn of(effect: &Effect) -> Self {
        match effect {
            Effect::Cut { version, .. } | Effect::Restore { version, .. } | Effect::Retire { version } => {
                Self::Store(version.store.clone())
            }
            Effect::Archive { version } => Self::Archive(version.store.clone()),
            Effect::DropSnapshot { .. } => Self::Volumes,
            // What is weighed is what compaction has left.
            Effect::Compact { store } | Effect::Weigh { store } => Self::Compaction(store.clone()),
            Effect::MakeCopy { .. } | Effect::DropCopy { .. } => Self::Copies,
        }
    }
}

/// An effect to perform, by its name.
type Work = (EffectId, Effect);

pub(super) struct Lanes<H: Host> {
    host: Arc<H>,
    finished: Sender<Message>,
    open: HashMap<Lane, (Sender<Work>, JoinHandle<()>)>,
    closed: bool,
}

impl<H: Host> Lanes<H> {
    pub(super) fn new(host: Arc<H>, finished: Sender<Message>) -> Self {
        Self { host, finished, open: HashMap::new(), closed: false }
    }

    /// Puts an effect into its lane.
    pub(super) fn perform(&mut self, id: EffectId, effect: Effect) {
        if self.closed {
            // Nobody would wait for its end. The intent stays open: the effect is settled at the next start.
            return;
        }
        let lane = Lane::of(&effect);
        if !self.open.contains_key(&lane) {
            match self.open_lane() {
                Ok(opened) => drop(self.open.insert(lane.clone(), opened)),
                Err(error) => {
                    // The intent stays open: the effect is settled at the next start.
                    tracing::error!(effect = id.0, "cannot start a thread for an effect: {error}");
                    return;
                }
            }
        }
        if let Some((sender, _)) = self.open.get(&lane)
            && sender.send((id, effect)).is_err()
        {
            tracing::error!(effect = id.0, ?lane, "the lane has died; restart the daemon");
        }
    }

    fn open_lane(&self) -> std::io::Result<(Sender<Work>, JoinHandle<()>)> {
        let (sender, effects) = channel::<Work>();
        let (host, finished) = (Arc::clone(&self.host), self.finished.clone());
        let work = move || {
            for (id, effect) in effects {
                let outcome = host.perform(&effect);
                // A driver that is gone settles the open intent at the next start.
                let _ = finished.send(Message::Finished(id, outcome));
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
