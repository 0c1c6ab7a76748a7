//! A restore, by a worker: it asks back, and tells how far it has come.

use std::path::Path;
use std::time::Duration;

use asat_core::Problem;

use super::call::{SLACK, unexpected};
use super::identity::Identity;
use super::pool::{As, Workers};
use super::process::{Heard, nonsense};
use super::words::{Order, Reply, Said};
use crate::store::{Error, Restoring};

impl Workers {
    /// As [`crate::store::restore`].
    ///
    /// # Errors
    /// Those of that function, and where the worker fails. One that was ended in the middle leaves a journal or a WAL, by which the
    /// next one who opens the store rolls it back.
    pub fn restore(
        &self,
        path: &Path,
        restoring: &Restoring<'_>,
        unchanged: impl FnOnce() -> Result<bool, Problem>,
        told: &mut dyn FnMut(u32, u32),
    ) -> Result<Duration, Error> {
        let Restoring { source, limits, cancel } = *restoring;
        let owner = self.owner(path)?;
        // The version lies in a folder that is the daemon's alone. So the worker opens that first, and acts as the owner then.
        let mut lent = self.lend(path, As::Own)?;
        let (store, user) = (owner.place(path), owner.identity.as_ref().map(Identity::to_string));
        let order = Order::Restore { store, source: source.into(), limits: *limits, user };
        let patience = limits.busy.saturating_mul(2) + limits.hold + SLACK;
        let mut unchanged = Some(unchanged);
        lent.with(|process| process.tell(&order))?;
        let result = loop {
            let said = lent.with(|process| match process.hear(patience, cancel)? {
                Heard::Said(said) => Ok(said),
                other => Err(nonsense(&other)),
            })?;
            match said {
                Said::Progress(done, of) => told(done, of),
                Said::Done(reply) => break Ok(reply),
                Said::Failed { problem, is_busy } => break Err(Error::Worker { problem, is_busy }),
                Said::IsUnchanged if unchanged.is_some() => {
                    let Some(unchanged) = unchanged.take() else { continue };
                    let answer = Order::Unchanged(unchanged());
                    lent.with(|process| process.tell(&answer))?;
                }
                other => return lent.with(|_| Err(nonsense(&Heard::Said(other)))),
            }
        };
        // The worker is not the user any more that it was started as: it ends.
        match result? {
            Reply::Took(held) => Ok(held),
            other => Err(unexpected(&lent, &other)),
        }
    }
}
