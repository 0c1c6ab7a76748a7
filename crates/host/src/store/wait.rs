//! Waiting for a lock that others hold.
//!
//! The wait is a loop of our own and not SQLite's busy handler, for two reasons: it can be cancelled, and the
//! instant just before the attempt that succeeded is known, from which the time that writers are held is measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::codes::is_lock;
use super::error::Error;
use super::file::StoreFile;
use super::{Limits, holders};

/// The longest pause between two attempts to get a lock. A writer that never pauses lets go of its lock for some
/// microseconds at a time, which many attempts find and few do not.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// The patience for a store's locks, and what may end it.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) limits: &'a Limits,
    pub(super) cancel: &'a AtomicBool,
    /// Since when there is patience: all waits of one call share it.
    pub(super) since: Instant,
}

impl Wait<'_> {
    /// Tries until nobody's lock is in the way, and returns the instant just before the attempt that succeeded too.
    pub(super) fn until_free<T>(
        &self,
        file: &StoreFile,
        attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> Result<(Instant, T), Error> {
        self.until_free_at(file, || {}, attempt)
    }

    /// The same, and after each pause waits for what is likely to be a good moment.
    pub(super) fn until_free_at<T>(
        &self,
        file: &StoreFile,
        moment: impl Fn(),
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> Result<(Instant, T), Error> {
        let mut pause = Duration::from_millis(1);
        loop {
            self.check(file)?;
            let since = Instant::now();
            match attempt() {
                Ok(value) => return Ok((since, value)),
                Err(error) if is_lock(&error) => {}
                Err(error) => return Err(file.explain(&error)),
            }
            let (waited, busy) = (self.since.elapsed(), self.limits.busy);
            if waited >= busy {
                return Err(Error::Busy { path: file.path.clone(), waited, holders: holders::find(file) });
            }
            std::thread::sleep(pause.min(busy.saturating_sub(waited)));
            moment();
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether the wait is still wanted.
    pub(super) fn check(&self, file: &StoreFile) -> Result<(), Error> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::Stopping { path: file.path.clone() });
        }
        Ok(())
    }
}
