//! One read transaction on a store: opened, waited for, and ended with every lock released.
//!
//! The wait for the lock is a loop of our own and not SQLite's busy handler, for two reasons: it can be
//! cancelled, and the instant just before the attempt that succeeded is known, from which the time that
//! writers are held is measured.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::PageSize;
use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use super::error::{Error, is_lock};
use super::file::StoreFile;
use super::{Limits, holders};
use crate::clock;

/// How often a store that is replaced while being opened is opened again.
const ATTEMPTS: u32 = 5;

/// The longest pause between two attempts to get the lock.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// A read transaction whose content is fixed.
pub(super) struct Transaction {
    connection: Connection,
    /// The file that is read.
    pub(super) file: Arc<StoreFile>,
    /// What was fixed.
    pub(super) content: Content,
    since: Instant,
}

/// What a read transaction has fixed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) page_size: PageSize,
    pub(super) page_count: u32,
    pub(super) wal: bool,
    pub(super) cut_at: Timestamp,
}

impl Transaction {
    /// Opens the store and fixes its content. A store that is replaced by another file meanwhile is opened
    /// again, so that the content is that of the file which has the name.
    pub(super) fn begin(path: &Path, limits: &Limits, cancel: &AtomicBool) -> Result<Self, Error> {
        let started = Instant::now();
        for _ in 0..ATTEMPTS {
            let file = Arc::new(StoreFile::find(path)?);
            let begun = Self::begin_on(Arc::clone(&file), limits, started, cancel);
            // What was found out about a path may be about two files, so an error counts no more than a success.
            if StoreFile::find(path)?.identity == file.identity {
                return begun;
            }
            match begun {
                Ok(transaction) => {
                    let _ = transaction.end();
                }
                Err(error) if error.ends_waiting() => return Err(error),
                Err(_) => {}
            }
        }
        Err(Error::Replaced { path: path.to_owned() })
    }

    fn begin_on(
        file: Arc<StoreFile>,
        limits: &Limits,
        started: Instant,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let connection = open(&file)?;
        let since = wait_for_lock(&connection, &file, limits, started, cancel)?;
        let cut_at = clock::now();
        let content = describe(&connection, &file, cut_at)?;
        Ok(Self { connection, file, content, since })
    }

    /// The connection, for statements within the transaction.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// How long the transaction has lasted.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends the transaction, closes the store, and says how long the transaction lasted.
    pub(super) fn end(self) -> Duration {
        // Nothing was written, so there is nothing that ending could fail to do: where the statement fails,
        // closing releases the locks.
        let _ = self.connection.execute_batch("ROLLBACK");
        let _ = self.connection.close();
        self.since.elapsed()
    }
}

/// Opens the store such that it cannot be changed through this connection, and that nothing in its schema is
/// executed. No lock is taken yet.
fn open(file: &StoreFile) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |error: rusqlite::Error| explain(file, &error);
    let connection = Connection::open_with_flags(&file.path, flags).map_err(failed)?;
    connection.busy_timeout(Duration::ZERO).map_err(failed)?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(setting, on).map_err(failed)?;
    }
    if file.would_keep_sidecars() {
        // In this mode a WAL is opened under a writer's lock only, which is refused before a file is made.
        connection.execute_batch("PRAGMA locking_mode = exclusive").map_err(failed)?;
    }
    connection.execute_batch("PRAGMA query_only = on; PRAGMA mmap_size = 0; BEGIN").map_err(failed)?;
    Ok(connection)
}

/// Takes the lock that fixes the content, and returns the instant since which it may have been held.
fn wait_for_lock(
    connection: &Connection,
    file: &StoreFile,
    limits: &Limits,
    started: Instant,
    cancel: &AtomicBool,
) -> Result<Instant, Error> {
    let mut pause = Duration::from_millis(1);
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Stopping { path: file.path.clone() });
        }
        let since = Instant::now();
        // BEGIN alone takes no lock: the first read does.
        match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            Ok(()) => return Ok(since),
            Err(error) if is_lock(&error) => {}
            Err(error) => return Err(explain(file, &error)),
        }
        let waited = started.elapsed();
        if waited >= limits.busy {
            return Err(Error::Busy { path: file.path.clone(), waited, holders: holders::find(file) });
        }
        std::thread::sleep(pause.min(limits.busy.saturating_sub(waited)));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Says why SQLite could not open the store. Its own words do not tell a file that may not be read from
/// sidecars that may not be made.
fn explain(file: &StoreFile, error: &rusqlite::Error) -> Error {
    let code = error.sqlite_error().map_or(0, |error| error.extended_code);
    if (code & 0xff == ffi::SQLITE_CANTOPEN || code == ffi::SQLITE_IOERR_LOCK)
        && let Err(denied) = file.check_permission()
    {
        return denied;
    }
    Error::from_sqlite("open", &file.path, error)
}

/// Reads what the content is like.
fn describe(connection: &Connection, file: &StoreFile, cut_at: Timestamp) -> Result<Content, Error> {
    let failed = |error: rusqlite::Error| Error::from_sqlite("read", &file.path, &error);
    let damaged = |what: String| Error::Damaged { path: file.path.clone(), what };
    // Pages are used once. This is a setting of the connection, not of the store.
    connection.execute_batch("PRAGMA cache_size = 16").map_err(failed)?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).map_err(failed);
    let bytes = number("PRAGMA page_size")?;
    let page_size = PageSize::new(bytes).ok_or_else(|| damaged(format!("its page size is {bytes}")))?;
    let page_count = number("PRAGMA page_count")?;
    if page_count == 0 {
        return Err(Error::Empty { path: file.path.clone() });
    }
    let (write_version, read_version) = connection
        .query_row("SELECT data FROM sqlite_dbpage WHERE pgno = 1", [], |row| {
            let page = row.get_ref(0)?.as_blob()?;
            Ok((page.get(18).copied(), page.get(19).copied()))
        })
        .map_err(failed)?;
    let wal = match (write_version, read_version) {
        (Some(1 | 2), Some(2)) => true,
        (Some(1 | 2), Some(1)) => false,
        _ => return Err(damaged("its file format is newer than this SQLite".to_owned())),
    };
    let content = Content { page_size, page_count, wal, cut_at };
    check_length(file, &content)?;
    Ok(content)
}

/// Refuses a store of which a part is missing. SQLite itself refuses one whose file is much too short for the
/// size in its header, but reads zeros in place of the end of its last page, and past the file's end where a
/// WAL says that there are more pages.
fn check_length(file: &StoreFile, content: &Content) -> Result<(), Error> {
    let page_size = u64::from(content.page_size.bytes());
    let page_count = u64::from(content.page_count);
    let (main, wal) = file.lengths()?;
    let in_file = main / page_size;
    // Each page past the end must be in a frame of the WAL, except the one of the lock bytes, which is nowhere.
    let frames = wal.saturating_sub(32) / (page_size + 24);
    let lock_page = (1 << 30) / page_size + 1;
    let nowhere = u64::from((in_file..page_count).contains(&(lock_page - 1)));
    if page_count > in_file + frames + nowhere {
        let what =
            format!("it has {page_count} pages; its file holds {in_file}, and its WAL at most {frames}");
        return Err(Error::Damaged { path: file.path.clone(), what });
    }
    Ok(())
}
