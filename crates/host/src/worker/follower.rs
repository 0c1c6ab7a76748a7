//! A worker that tracks a store between publications.

use std::path::Path;

use asat_core::boundary;
use asat_core::check::CheckResult;

use super::call::{SLACK, stream, time_of, unexpected};
use super::pool::{As, Lent, Workers};
use super::words::{Order, Reply};
use crate::store::{Checks, CutError, Error, Followed, Following, Limits, PageSink, Read};

/// As [`crate::store::Tracker`]. Dropping it closes the store.
#[derive(Debug)]
pub struct Follower {
    lent: Lent,
}

impl Workers {
    /// A worker that tracks this store from its first read on.
    ///
    /// # Errors
    /// If the worker cannot be started.
    pub fn follow(&self, path: &Path) -> Result<Follower, Error> {
        let mut lent = self.lend(path, As::Owner)?;
        lent.bind();
        Ok(Follower { lent })
    }
}

impl Follower {
    /// As [`crate::store::Tracker::read`].
    ///
    /// # Errors
    /// Those of that function, and if the worker fails.
    pub fn read(
        &mut self,
        following: Following,
        limits: &Limits,
        checks: &Checks<'_>,
        sink: &mut dyn PageSink,
    ) -> Result<(Read, Vec<CheckResult>, Followed), CutError> {
        let order = Order::Follow {
            store: self.lent.place(),
            following,
            limits: *limits,
            checks: checks.checks.to_vec(),
        };
        let patience = limits.busy + time_of(checks.checks) + SLACK;
        let made = || checks.checks.iter().for_each(|_| boundary::pass("checks: made"));
        let (reply, begun) = stream(&mut self.lent, &order, patience, checks.cancel, sink, made)?;
        match reply {
            Reply::Followed(read, results, followed) => Ok((read, results, followed)),
            other => Err(CutError { error: unexpected(&self.lent, &other), begun }),
        }
    }

    /// Whether the worker has ended, and nothing is known any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lent.is_over()
    }
}
