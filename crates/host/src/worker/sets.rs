//! Several stores as they were at one instant, each with a worker of its own.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use asat_core::check::CheckResult;
use jiff::Timestamp;

use super::call::{SLACK, ask, read, time_of, unexpected};
use super::held::Still;
use super::pool::{As, Lent, Workers};
use super::words::{Order, Reply};
use crate::store::{Checks, CutError, Error, Limits, Member, PageSink, Read, Take, common_limits, together};

/// What is fixed of a store.
#[derive(Debug)]
pub enum Moment {
    /// A read transaction.
    Read(Fixed),
    /// The store is held still, until a snapshot of it is there.
    Still(Box<Still>),
}

/// A read transaction whose content was fixed together with that of others.
#[derive(Debug)]
pub struct Fixed {
    lent: Lent,
}

impl Workers {
    /// As [`crate::store::fix_together`].
    ///
    /// # Errors
    /// Those of that function, and where a worker fails.
    pub fn fix_together(
        &self,
        members: &[Member<'_>],
        cancel: &AtomicBool,
    ) -> Result<(Timestamp, Vec<Moment>), (usize, Error)> {
        let mut takings = Vec::new();
        for (index, (member, limits)) in members.iter().zip(common_limits(members)).enumerate() {
            let lent = self.lend(member.path, As::Owner).map_err(|error| (index, error))?;
            let (by_snapshot, since) = (member.by_snapshot, Instant::now());
            takings.push(Taking { lent, limits, by_snapshot, cancel, since, held_since: since });
        }
        together(takings)
    }
}

/// A member, with its worker.
struct Taking<'a> {
    lent: Lent,
    limits: Limits,
    by_snapshot: bool,
    cancel: &'a AtomicBool,
    since: Instant,
    held_since: Instant,
}

impl Taking<'_> {
    fn step(&mut self, order: &Order) -> Result<(), Error> {
        let patience = self.limits.busy + self.limits.hold + SLACK;
        match ask(&mut self.lent, order, patience, self.cancel)? {
            Reply::Nothing => Ok(()),
            other => Err(unexpected(&self.lent, &other)),
        }
    }
}

impl Take for Taking<'_> {
    type Moment = Moment;

    fn prepare(&mut self) -> Result<(), Error> {
        let store = self.lent.place();
        self.step(&Order::Join { store, limits: self.limits, by_snapshot: self.by_snapshot })
    }

    fn hold(&mut self, others_held: Option<Duration>) -> Result<(), Error> {
        self.step(&Order::Hold { others_held })?;
        self.held_since = Instant::now();
        Ok(())
    }

    fn held(&self) -> Duration {
        self.held_since.elapsed()
    }

    fn free(&mut self) -> Result<(), Error> {
        self.step(&Order::Free)
    }

    fn has_time(&self) -> bool {
        self.since.elapsed() < self.limits.busy
    }

    fn fix(&mut self) -> Result<(), Error> {
        self.step(&Order::Fix)
    }

    fn let_go(mut self, cut_at: Timestamp) -> Result<Moment, Error> {
        match ask(&mut self.lent, &Order::LetGo { cut_at }, SLACK, self.cancel)? {
            Reply::Fixed => Ok(Moment::Read(Fixed { lent: self.lent })),
            Reply::Still(state) => Ok(Moment::Still(Box::new(Still::new(self.lent, *state)))),
            other => Err(unexpected(&self.lent, &other)),
        }
    }
}

impl Fixed {
    /// As [`crate::store::Fixed::read`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails.
    pub fn read(
        mut self,
        checks: &Checks<'_>,
        sink: &mut dyn PageSink,
    ) -> Result<(Read, Vec<CheckResult>), CutError> {
        let order = Order::ReadFixed { checks: checks.checks.to_vec() };
        read(&mut self.lent, &order, time_of(checks.checks) + SLACK, checks, sink)
    }
}
