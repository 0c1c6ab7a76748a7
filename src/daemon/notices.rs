//! What the daemon tells those who listen.

use std::sync::Arc;

use asat_core::StoreName;
use asat_core::event::Change;
use asat_core::guard::GuardEntry;
use asat_core::version::State;
use asat_wire::{Diff, Progress};
use tokio::sync::{broadcast, watch};

use super::guard::Alarm;
use super::watch::Watched;

/// Something that is told.
#[derive(Clone, Debug)]
pub enum Notice {
    /// These changes were committed.
    Changed(Arc<Vec<Change>>),
    /// A long effect has come this far.
    Progress(Progress),
    /// The guard did this.
    Guard(Box<GuardEntry>),
    /// An alarm began or was acknowledged, or it is over.
    Alarm(Box<Alarm>, bool),
    /// A version is in the archive, and what it changed is known.
    Diff(Arc<Diff>),
    /// The marker of a store has moved or was published, or watch mode has trouble with it or no more.
    Watch(StoreName, Box<Watched>),
}

/// How many notices a slow listener may be behind before it misses some.
const NOTICES: usize = 1024;

/// The way to send the notices.
#[derive(Clone)]
pub struct Notices {
    all: broadcast::Sender<Notice>,
    archived: watch::Sender<()>,
    recorded: watch::Sender<()>,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            all: broadcast::channel(NOTICES).0,
            archived: watch::channel(()).0,
            recorded: watch::channel(()).0,
        }
    }
}

impl Notices {
    /// Tells it to all who listen, of whom there may be none.
    pub fn send(&self, notice: Notice) {
        let is_archived = |change: &Change| match change {
            Change::Version(version) => version.state == State::Ready && version.is_archived(),
            _ => false,
        };
        let tells_of_archived =
            matches!(&notice, Notice::Changed(changes) if changes.iter().any(is_archived));
        let tells_of_records = matches!(&notice, Notice::Changed(_));
        let _ = self.all.send(notice);
        if tells_of_archived {
            self.tell_archived();
        }
        if tells_of_records {
            self.recorded.send_replace(());
        }
    }

    /// Listens to all from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.all.subscribe()
    }

    /// Tells those who wait for it that something has come into an archive, or was merged there.
    pub(super) fn tell_archived(&self) {
        self.archived.send_replace(());
    }

    /// What changes whenever something was recorded.
    #[must_use]
    pub fn recorded(&self) -> watch::Receiver<()> {
        self.recorded.subscribe()
    }

    /// What changes whenever a version has come into an archive, or something of one that is there has changed. Who waits for that
    /// alone is not woken for anything else.
    #[must_use]
    pub fn archived(&self) -> watch::Receiver<()> {
        self.archived.subscribe()
    }
}
