//! Bringing a store back: SQLite's online backup writes a version over it, in one transaction of the store.
//!
//! Other connections see the old state or the new one, and a crash in the middle is rolled back by the store's
//! own journal or WAL, whoever opens it next. The journal mode stays as it is.
//!
//! No commit may be lost that nobody kept. So the store is watched from before it is compared with the state that
//! was kept until the backup holds the lock that keeps writers out: where anybody has committed in between, the
//! backup ends before its first page. In WAL mode a second connection watches, which can read while the first one
//! has the lock. In the rollback modes nobody can, and the connection that writes watches itself: in exclusive
//! locking mode it keeps its lock from the last look to the backup.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::Problem;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::codes::{is_lock, is_read_only};
use super::error::Error;
use super::file::StoreFile;
use super::target::Target;
use super::{Limits, holders, open};

/// How long SQLite waits for a lock before it is looked whether the wait is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);

/// How many pages are written between two looks at the clock.
const STEP: i32 = 256;

/// What a restore is to heed.
#[derive(Clone, Copy, Debug)]
pub struct Restoring<'a> {
    /// A database in rollback mode with the content that the store is to have. Nobody else uses it.
    pub source: &'a Path,
    /// How long to wait for the lock, and how long writers may be held, in every journal mode.
    pub limits: &'a Limits,
    /// Ends the restore where it is set; the store is as it was then.
    pub cancel: &'a AtomicBool,
}

/// Gives a store the content of another database, and says how long a commit could have had to wait.
///
/// `unchanged` is asked whether the store is as it was kept; it may read it. `told` hears how many pages are
/// written, and of how many. After an error the store is as it was.
///
/// # Errors
/// Where the store cannot be written, its lock is not to be had in time, somebody commits meanwhile, writers would
/// be held for too long, the page sizes do not fit, there is no room, or `cancel` is set.
pub fn restore(
    store: impl Into<Target>,
    restoring: &Restoring<'_>,
    unchanged: impl FnOnce() -> Result<bool, Problem>,
    told: &mut dyn FnMut(u32, u32),
) -> Result<Duration, Error> {
    restore_from(&open_source(restoring.source)?, &store.into(), restoring, unchanged, told)
}

/// Opens the database that is written over a store.
pub(crate) fn open_source(path: &Path) -> Result<Connection, Error> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| Error::from_sqlite("open", path, &error))
}

/// As [`restore`], of a database that is open.
pub(crate) fn restore_from(
    source: &Connection,
    target: &Target,
    restoring: &Restoring<'_>,
    unchanged: impl FnOnce() -> Result<bool, Problem>,
    told: &mut dyn FnMut(u32, u32),
) -> Result<Duration, Error> {
    let file = StoreFile::find(target)?;
    let wait = Wait { file: &file, restoring, since: Instant::now() };
    let mut store = Watched::open(&wait)?;
    check_page_size(&file, source, &store)?;
    if !unchanged().map_err(Error::Sink)? {
        return Err(Error::Changed { path: file.path.clone() });
    }
    file.check_name(target)?;
    let wait = Wait { since: Instant::now(), ..wait };
    let locked = store.lock(&wait)?;
    let held = overwrite(source, &mut store, &wait, locked, told)?;
    file.check_name(target)?;
    Ok(held)
}

/// A connection that is to write the store, and knows whether anybody else has.
struct Watched {
    writer: Connection,
    /// A second connection, in WAL mode.
    watch: Option<Connection>,
    page_size: u32,
    seen: i64,
}

impl Watched {
    fn open(wait: &Wait<'_>) -> Result<Self, Error> {
        let writer = open(wait.file)?;
        let mode: String = wait.until_free("read", || {
            writer.execute_batch("PRAGMA synchronous = full")?;
            writer.query_row("PRAGMA journal_mode", [], |row| row.get(0))
        })?;
        let failed = |error: rusqlite::Error| Error::from_sqlite("read", &wait.file.path, &error);
        let page_size = writer.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failed)?;
        let is_wal = mode == "wal";
        if is_wal {
            open::check_wal(&writer, wait.file)?;
        }
        let watch = if is_wal { Some(open(wait.file)?) } else { None };
        let seen = wait.until_free("read", || data_version(watch.as_ref().unwrap_or(&writer)))?;
        Ok(Self { writer, watch, page_size, seen })
    }

    /// In the rollback modes, keeps writers out from here on, and answers since when.
    fn lock(&self, wait: &Wait<'_>) -> Result<Option<Instant>, Error> {
        if self.watch.is_some() {
            return Ok(None);
        }
        let failed = |error: rusqlite::Error| Error::from_sqlite("lock", &wait.file.path, &error);
        let locked = wait.until_free("lock", || {
            let locked = Instant::now();
            self.writer.execute_batch("BEGIN IMMEDIATE").map(|()| locked)
        })?;
        // Not before: in this mode a lock for reading would stay as well, and another writer could not end.
        self.writer.execute_batch("PRAGMA locking_mode = exclusive").map_err(failed)?;
        let seen = data_version(&self.writer).map_err(failed)?;
        // The lock stays, as the locking mode says. The backup wants no transaction of the connection's own.
        self.writer.execute_batch("ROLLBACK").map_err(failed)?;
        self.check(seen, wait)?;
        Ok(Some(locked))
    }

    fn check(&self, seen: i64, wait: &Wait<'_>) -> Result<(), Error> {
        if seen == self.seen { Ok(()) } else { Err(Error::Changed { path: wait.file.path.clone() }) }
    }
}

/// Writes the source over the store. Where it gives up, dropping the backup rolls the store back.
fn overwrite(
    source: &Connection,
    store: &mut Watched,
    wait: &Wait<'_>,
    locked: Option<Instant>,
    told: &mut dyn FnMut(u32, u32),
) -> Result<Duration, Error> {
    let path = &wait.file.path;
    let failed = |error: rusqlite::Error| Error::from_sqlite("restore", path, &error);
    let Watched { writer, watch, seen, .. } = store;
    let backup = Backup::new(source, writer).map_err(failed)?;
    // No page yet: this takes the lock and begins the transaction.
    let attempt = wait.until_free("lock", || {
        let attempt = Instant::now();
        free(backup.step(0)?)?;
        Ok(attempt)
    })?;
    let since = locked.unwrap_or(attempt);
    if let Some(watch) = watch
        && data_version(watch).map_err(failed)? != *seen
    {
        return Err(Error::Changed { path: path.clone() });
    }
    loop {
        let done = wait.until_free("restore", || free(backup.step(STEP)?))?;
        let held = since.elapsed();
        if done {
            return Ok(held);
        }
        let progress = backup.progress();
        let count = |pages| u32::try_from(pages).unwrap_or(0);
        let (left, pages) = (count(progress.remaining), count(progress.pagecount));
        told(pages.saturating_sub(left), pages);
        if wait.restoring.cancel.load(Ordering::Relaxed) {
            return Err(Error::Stopping { path: path.clone() });
        }
        let bound = wait.restoring.limits.hold;
        if held > bound {
            return Err(Error::RestoreTooLong { path: path.clone(), bound, held, left, pages });
        }
    }
}

/// Whether a step was the last one; one that found a lock is an error as any statement's would be.
fn free(step: StepResult) -> rusqlite::Result<bool> {
    match step {
        StepResult::Done => Ok(true),
        StepResult::More => Ok(false),
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            Some("the store is locked".to_owned()),
        )),
    }
}

/// Opens the store to write it, as any client would.
fn open(file: &StoreFile) -> Result<Connection, Error> {
    let failed = |error: rusqlite::Error| file.explain(&error);
    let connection = open::for_writing(file)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    connection.execute_batch("PRAGMA mmap_size = 0").map_err(failed)?;
    Ok(connection)
}

/// A number that moves with every commit of another connection.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0))
}

fn check_page_size(file: &StoreFile, source: &Connection, store: &Watched) -> Result<(), Error> {
    let failed = |error: rusqlite::Error| Error::from_sqlite("read", &file.path, &error);
    let version: u32 = source.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failed)?;
    if store.watch.is_some() && version != store.page_size {
        return Err(Error::OtherPageSize { path: file.path.clone(), store: store.page_size, version });
    }
    Ok(())
}

/// The patience for a lock, and what may end it.
#[derive(Clone, Copy)]
struct Wait<'a> {
    file: &'a StoreFile,
    restoring: &'a Restoring<'a>,
    since: Instant,
}

impl Wait<'_> {
    /// Tries until nobody's lock is in the way. SQLite sleeps between two attempts.
    fn until_free<T>(
        &self,
        doing: &'static str,
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let path = &self.file.path;
        loop {
            if self.restoring.cancel.load(Ordering::Relaxed) {
                return Err(Error::Stopping { path: path.clone() });
            }
            match attempt() {
                Err(error) if is_lock(&error) => {}
                Err(error) if is_read_only(&error) => return Err(self.file.explain(&error)),
                other => return other.map_err(|error| Error::from_sqlite(doing, path, &error)),
            }
            let waited = self.since.elapsed();
            if waited >= self.restoring.limits.busy {
                let holders = holders::find(self.file);
                return Err(Error::Busy { path: path.clone(), waited, holders });
            }
            // Some locks are refused without SQLite's own pause.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
