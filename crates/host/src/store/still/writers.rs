//! Writers held, for a bounded time.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::reserved::wait_for_moment;
use crate::store::error::Error;
use crate::store::file::StoreFile;
use crate::store::open;
use crate::store::wait::Wait;
use crate::store::write_out;

/// The writers' lock. A thread of its own holds it and lets go when the time is up: whoever asked for it may be stuck
/// in a command of the volume manager just then. Dropping it lets writers go.
pub(in crate::store) struct Writers {
    /// The instant since which they may have been held.
    pub(in crate::store) since: Instant,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Released>>,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug)]
struct Released {
    /// For how long a commit could have had to wait.
    held: Duration,
    /// The bound, if it was that which ended the hold.
    broken_at: Option<Duration>,
}

impl Writers {
    /// Waits for the writers' lock and holds it. Nothing is written.
    pub(super) fn hold(file: &Arc<StoreFile>, wait: &Wait<'_>) -> Result<Self, Error> {
        // Taking the snapshot does so too; done before, it is not done while writers are held.
        write_out(&file.path);
        Self::take(file, wait)
    }

    /// The same at once, for where nothing waits for the disk meanwhile.
    pub(in crate::store) fn take(file: &Arc<StoreFile>, wait: &Wait<'_>) -> Result<Self, Error> {
        let connection = open::for_holding(file)?;
        let begin = || connection.execute_batch("BEGIN IMMEDIATE");
        let (since, ()) = wait.until_free_at(file, || wait_for_moment(&connection), begin)?;
        connection.execute_batch("PRAGMA query_only = on").map_err(|error| file.explain(&error))?;
        let (stop, stopped) = mpsc::channel();
        let bound = wait.limits.hold;
        let keep = move || {
            let left = bound.saturating_sub(since.elapsed());
            // If no time is left from the beginning, it does not matter whether the stop has come already.
            let timed_out = matches!(stopped.recv_timeout(left), Err(RecvTimeoutError::Timeout));
            let broken = left.is_zero() || timed_out;
            let held = let_go(connection, since);
            Released { held, broken_at: broken.then_some(bound) }
        };
        let thread = thread::Builder::new().name("hold".to_owned()).spawn(keep);
        let thread = thread.map_err(|source| Error::from_io("start a thread for", &file.path, source))?;
        Ok(Self { since, stop: Some(stop), thread: Some(thread) })
    }

    /// For how long writers have been held.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Lets writers go, and says for how long a commit could have had to wait.
    pub(super) fn let_go(mut self) -> Duration {
        self.stop().held
    }

    /// The same where nobody may have written until now.
    ///
    /// # Errors
    /// Where they had been let go before, since they had been held for as long as they may be.
    pub(in crate::store) fn release(mut self, path: &Path) -> Result<Duration, Error> {
        let Released { held, broken_at } = self.stop();
        match broken_at {
            Some(bound) => Err(Error::HoldBroken { path: path.to_owned(), bound, held }),
            None => Ok(held),
        }
    }

    fn stop(&mut self) -> Released {
        drop(self.stop.take());
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        // A thread that panicked has dropped its connection, at a moment that nobody knows.
        ended.unwrap_or_else(|| Released { held: self.age(), broken_at: Some(self.age()) })
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

fn let_go(connection: Connection, since: Instant) -> Duration {
    // Nothing was written. Where the statement fails, closing releases the lock.
    let held = connection.execute_batch("ROLLBACK").map(|()| since.elapsed());
    let _ = connection.close();
    held.unwrap_or_else(|_| since.elapsed())
}
