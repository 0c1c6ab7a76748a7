//! A store that a worker holds still.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::call::{SLACK, ask, unexpected};
use super::pool::{As, Lent, Workers};
use super::words::{Order, Reply};
use crate::store::{Error, Limits, StillState};

/// As [`crate::store::Still`]. Dropping it releases every lock and closes the store.
#[derive(Debug)]
pub struct Still {
    lent: Lent,
    state: StillState,
    is_released: bool,
}

impl Workers {
    /// As [`crate::store::still()`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn still(
        &self,
        path: &Path,
        limits: &Limits,
        cancel: &AtomicBool,
        must_hold: bool,
    ) -> Result<Still, Error> {
        let mut lent = self.lend(path, As::Owner)?;
        let order = Order::Still { store: lent.place(), limits: *limits, must_hold };
        match ask(&mut lent, &order, limits.busy + limits.hold + SLACK, cancel) {
            Ok(Reply::Still(state)) => Ok(Still::new(lent, *state)),
            Ok(other) => Err(unexpected(&lent, &other)),
            Err(error) => {
                lent.done();
                Err(error)
            }
        }
    }
}

impl Still {
    pub(super) fn new(lent: Lent, state: StillState) -> Self {
        Self { lent, state, is_released: false }
    }

    /// The state that is held.
    #[must_use]
    pub fn state(&self) -> &StillState {
        &self.state
    }

    /// As [`StillState::settle`] of the state that is held.
    #[must_use]
    pub fn settle(&self) -> bool {
        self.state.settle()
    }

    /// As [`crate::store::Still::release`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails: then the locks are gone, since nobody knows when.
    pub fn release(mut self) -> Result<Duration, Error> {
        match self.let_go()? {
            Reply::Took(blocked) => Ok(blocked),
            other => Err(unexpected(&self.lent, &other)),
        }
    }

    fn let_go(&mut self) -> Result<Reply, Error> {
        self.is_released = true;
        let reply = ask(&mut self.lent, &Order::Release, SLACK, &AtomicBool::new(false));
        self.lent.done();
        reply
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if !self.is_released {
            // Where this fails, the worker has ended, and its locks with it.
            let _ = self.let_go();
        }
    }
}
