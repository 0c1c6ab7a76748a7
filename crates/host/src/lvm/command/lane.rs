//! What all calls of LVM share: whether one of them is stuck.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// The lane that LVM's commands run in. Clones are the same lane.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    wedges: Arc<Mutex<Vec<Wedge>>>,
}

/// A command that outlived its deadline and is still running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wedge {
    /// The command.
    pub command: String,
    /// When it was started.
    pub since: Timestamp,
    /// Its process id, where it got as far as having one.
    pub pid: Option<u32>,
    /// Tells wedges of the same command apart.
    pub(super) ticket: u64,
}

impl Lane {
    /// The command that has been stuck for longest, if one is.
    #[must_use]
    pub fn wedged(&self) -> Option<Wedge> {
        self.lock().first().cloned()
    }

    /// The wedges, for whoever must look and change in one step.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Wedge>> {
        // A list is whole after every step, so a panic elsewhere cannot have left half of one.
        self.wedges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
