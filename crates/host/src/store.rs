//! Reading a live store: all its pages, as they were at one committed instant.
//!
//! The store is opened through SQLite as any other client would open it, and its pages are read in order
//! from its file or the `sqlite_dbpage` table under one read transaction. So SQLite's own locks make the state
//! consistent, in every journal mode, and no other process needs to know of asat.
//!
//! What the store's other users notice:
//! * In WAL mode, nothing: readers and writers go on. The WAL cannot be reset before the read has ended, so
//!   it grows by what is committed meanwhile.
//! * In the rollback-journal modes, a commit waits while the read lasts. That time is measured, and bounded
//!   by [`Limits::hold`].
//!
//! Reading never writes anything into the store, except what SQLite owes it from before: a hot journal, left by a
//! crash, is rolled back, and the WAL of a store that nobody else has open is checkpointed on closing. For
//! this the store is opened read-write where that is allowed. Where it is not, a store in rollback mode is read
//! all the same, and one in WAL mode if its `-wal` and `-shm` files are there; otherwise it is refused, for
//! SQLite would make these files, and a reader cannot remove them.
//!
//! A process that opens an idle WAL-mode store makes `-wal` and `-shm` with the permissions of the store, and
//! they are its user's until it closes the store, or for good where it is killed (root gives them to the store's owner). So the
//! daemon runs as the store's user, as root, or with a group that the owner is in and that the store's folder hands on. Where
//! it does none of these, a store in WAL mode is refused, as those who write it would be locked out.
//!
//! Several stores are read as they were at one instant by [`fix_together`].
//!
//! Where the store's volume can be snapshotted, or its file cloned, [`still()`] holds the store such that a snapshot contains
//! one committed state, and [`read_frozen`] reads it there; [`read_changed`] reads what a clone has changed.
//!
//! A [`Tracker`] keeps a store in WAL mode open, so that the next read is one of what has changed.
//!
//! A store is written to by [`restore`] alone, when somebody asks for it.
//!
//! SQLite's locks are POSIX locks, which a process loses on *any* close of the file. No code in this process
//! may open a store's files other than through SQLite, with `O_PATH`, in a thread with descriptors of its own
//! ([`crate::clones`]), or for as long as the store is open and no longer locked when they are closed (a [`Tracker`]).

mod ask;
mod changed;
pub(crate) mod check;
mod codes;
mod consistency;
mod content;
mod error;
mod file;
mod frozen;
mod holders;
mod in_file;
pub(crate) mod links;
mod open;
mod opened;
mod opened_file;
mod restore;
mod scan;
pub(crate) mod sidecars;
mod signature;
mod still;
mod target;
mod told;
mod track;
mod transaction;
pub(crate) mod under_way;
mod wait;
mod wal;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use asat_core::check::CheckResult;
use asat_core::event::CutFailure;
use asat_core::{PageSize, Problem};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use ask::ask;
pub use changed::read_changed;
pub use check::{Checks, check_query};
pub use consistency::{Fixed, Member, Moment, fix_together};
pub(crate) use consistency::{Take, Taking, common_limits, together};
use content::Content;
pub use error::{Error, HOW_TO_SHARE};
pub(crate) use file::owner_of;
pub use frozen::{Frozen, check_frozen, read_frozen};
pub use holders::{Holder, Lock, parse_locks};
pub use restore::{Restoring, restore};
pub(crate) use restore::{open_source, restore_from};
use scan::Source;
pub use signature::{Before, Signature, is_local};
pub use still::{CommitWait, Still, StillState, Witness, still};
pub use target::Target;
pub use told::{Told, Unclear};
pub use track::{Followed, Following, Tracker};
use transaction::Transaction;
use wait::Wait;

/// How long a cut may wait, and how long it may make others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long to wait for the store's lock.
    pub busy: Duration,
    /// How long a commit may have to wait for the read to end, in the rollback-journal modes.
    pub hold: Duration,
}

/// Has the machine write out what it has yet to write to the store's file system: all of it is on the disk then, if
/// only in the file system's log.
pub fn write_out(path: &Path) {
    // The store's file itself must not be opened: its locks would be lost.
    let folder = std::fs::canonicalize(path).ok().and_then(|path| std::fs::File::open(path.parent()?).ok());
    if let Some(folder) = folder {
        // Where this fails, the snapshot is found not to have the state.
        let _ = rustix::fs::syncfs(&folder);
    }
}

/// What takes a store's pages as they are read.
pub trait PageSink {
    /// The content is fixed, and its pages will follow: `page_count` of them.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem>;

    /// Is told before the first page that commits wait until the last one is taken.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn hurry(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    /// Takes a page. They come in order, from number 1, each exactly once.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem>;

    /// Takes pages of this size that follow one another, from the first on.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn pages(&mut self, first: u32, pages: &[u8], page_size: PageSize) -> Result<(), Problem> {
        (first..)
            .zip(pages.chunks_exact(page_size.as_usize()))
            .try_for_each(|(number, page)| self.page(number, page))
    }

    /// Is told, in the same order, that a page is as it was in the version that this one is compared with. Answers whether that
    /// will do; if not, the page itself follows.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn same(&mut self, _number: u32) -> Result<bool, Problem> {
        Ok(false)
    }

    /// The same of several pages, from the first to the last. If not all of them will do, all follow.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn same_run(&mut self, _first: u32, _last: u32) -> Result<bool, Problem> {
        Ok(false)
    }

    /// Is told, in the same order, that so many pages from the next one on should be as they were. They follow all the same, for this to be
    /// held against them.
    ///
    /// # Errors
    /// Ends the read with this problem.
    fn claim(&mut self, _count: u32) -> Result<(), Problem> {
        Ok(())
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The size of the store's pages.
    pub page_size: PageSize,
    /// How many pages it has.
    pub page_count: u32,
    /// Whether the store is in WAL mode. The first page that the sink got says rollback mode in any case.
    pub wal: bool,
    /// The instant just after the content was fixed.
    pub cut_at: Timestamp,
    /// How long a commit could have had to wait; nothing in WAL mode.
    pub writer_blocked: Duration,
}

/// Why a read came to nothing.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CutError {
    /// What happened.
    pub error: Error,
    /// Whether the sink was begun. If not, nothing of the store was handed over.
    pub begun: bool,
}

impl From<CutError> for CutFailure {
    fn from(failed: CutError) -> Self {
        Self { problem: failed.error.into(), begun: failed.begun, left: None, lacks: None }
    }
}

/// Reads all pages of a store into `sink`, as they were at one committed instant.
///
/// The first page is handed over with the file-format versions of a rollback-mode database (bytes 18 and 19),
/// so that a copy opens read-only without sidecars. Memory stays small whatever the size of the store. When
/// this returns, the store is closed and no lock is left on it, however it ended.
///
/// Calls for different stores may run at the same time, and so may calls for the same one.
///
/// # Errors
/// Where there is no readable store, its lock is not to be had in time, writers would be held for too long,
/// the sink gives up, or `cancel` is set.
pub fn read_pages(
    store: impl Into<Target>,
    limits: &Limits,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
) -> Result<Read, CutError> {
    read(&store.into(), limits, cancel, None, sink).map(|(read, _)| read)
}

/// As [`read_pages`], once the content has met all checks, which are made in the same transaction. In the rollback-journal
/// modes they are part of the read that commits wait for, and bounded with it by [`Limits::hold`].
///
/// # Errors
/// Those of [`read_pages`], and [`Error::Check`] where a check fails. The sink was not begun then.
pub fn read_checked(
    store: impl Into<Target>,
    limits: &Limits,
    checks: &Checks<'_>,
    sink: &mut dyn PageSink,
) -> Result<(Read, Vec<CheckResult>), CutError> {
    read(&store.into(), limits, checks.cancel, Some(checks), sink)
}

fn read(
    store: &Target,
    limits: &Limits,
    cancel: &AtomicBool,
    checks: Option<&Checks<'_>>,
    sink: &mut dyn PageSink,
) -> Result<(Read, Vec<CheckResult>), CutError> {
    let wait = Wait { limits, cancel, since: Instant::now() };
    let transaction = Transaction::begin(store, &wait).map_err(|error| CutError { error, begun: false })?;
    hand_over(transaction, limits.hold, cancel, checks, sink)
}

/// Hands over what a transaction has fixed, once it has met all checks, and ends it.
fn hand_over(
    mut transaction: Transaction,
    hold: Duration,
    cancel: &AtomicBool,
    checks: Option<&Checks<'_>>,
    sink: &mut dyn PageSink,
) -> Result<(Read, Vec<CheckResult>), CutError> {
    let mut begun = false;
    let (content, cut_at, file) = (transaction.content, transaction.cut_at, transaction.file.clone());
    let held = (!content.wal).then_some((transaction.since, hold));
    let results = checks.map(|checks| check::examine(transaction.connection_mut(), &file.path, checks, held));
    let results = results.transpose().map(Option::unwrap_or_default);
    let source = Source { connection: transaction.connection(), path: &file.path, content, held };
    let handed =
        results.and_then(|results| scan::hand_over(&source, cancel, sink, &mut begun).map(|()| results));
    // The locks go here, whether the pages were handed over or not.
    let held = transaction.end();
    let writer_blocked = if content.wal { Duration::ZERO } else { held };
    let Content { page_size, page_count, wal } = content;
    let read = Read { page_size, page_count, wal, cut_at, writer_blocked };
    handed.map(|results| (read, results)).map_err(|error| CutError { error, begun })
}
