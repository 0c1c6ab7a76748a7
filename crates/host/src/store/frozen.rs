//! Reading a store's file from a mounted snapshot: nobody writes it, and nothing can be made beside it.
//!
//! Where the file alone is the state, it is opened as `immutable`: SQLite then takes no lock and looks at no file
//! beside it, and a WAL there may well hold later commits. Where file and WAL together are the state, SQLite is made to
//! believe that it is alone (`unix-none` has no locks, and in exclusive locking mode the wal-index is in memory), so
//! that it neither needs a `-shm` nor trusts the one that the snapshot happens to contain.
//!
//! The pages that were read are dropped from the machine's page cache as the read goes on: nobody else reads the snapshot, and
//! what the server's own programs have in the cache should stay there.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use asat_core::check::CheckResult;
use asat_core::{PageSize, Problem};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Advice, Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::check::{self, Checks};
use super::content::Content;
use super::error::Error;
use super::file::StoreFile;
use super::scan::{self, Source};
use super::{CutError, PageSink};

/// How many bytes are read before they are dropped from the page cache.
const WINDOW: u64 = 8 << 20;

/// What was read from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The size of the store's pages.
    pub page_size: PageSize,
    /// How many pages it has.
    pub page_count: u32,
    /// Whether the store was in WAL mode. The first page that the sink got says rollback mode in any case.
    pub wal: bool,
}

/// Reads all pages of the store's file in a mounted snapshot into `sink`, in order; with those in the WAL beside it only
/// where `with_wal` says so ([`super::StillState::with_wal`]). The file must not be in use: it is opened besides through SQLite.
///
/// # Errors
/// Where there is no readable database, the sink gives up, or `cancel` is set.
pub fn read_frozen(
    file: &Path,
    with_wal: bool,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
) -> Result<Frozen, CutError> {
    let mut begun = false;
    read(file, with_wal, cancel, sink, &mut begun).map_err(|error| CutError { error, begun })
}

fn read(
    path: &Path,
    with_wal: bool,
    cancel: &AtomicBool,
    sink: &mut dyn PageSink,
    begun: &mut bool,
) -> Result<Frozen, Error> {
    let (file, connection, content) = open(path, with_wal)?;
    let mut sink = Passing::new(sink, &file.path)?;
    let source = Source { connection: &connection, path, content, held: None };
    let handed = scan::hand_over(&source, cancel, &mut sink, begun);
    sink.drop_rest();
    if with_wal && let Ok(wal) = File::open(file.beside("-wal")) {
        forget(&wal, 0, None);
    }
    handed.map(|()| {
        let Content { page_size, page_count, wal } = content;
        Frozen { page_size, page_count, wal }
    })
}

/// Makes all checks on the store's file in a mounted snapshot, with the WAL beside it only where `with_wal` says so.
/// Nothing is written, and no other file is made.
///
/// # Errors
/// Where there is no readable database, or [`Error::Check`] where a check fails.
pub fn check_frozen(file: &Path, with_wal: bool, checks: &Checks<'_>) -> Result<Vec<CheckResult>, Error> {
    let (_, mut connection, _) = open(file, with_wal)?;
    check::examine(&mut connection, file, checks, None)
}

/// Opens the file, and begins to read it.
fn open(path: &Path, with_wal: bool) -> Result<(StoreFile, Connection, Content), Error> {
    let file = StoreFile::find_in_snapshot(path)?;
    let (main, wal) = file.lengths()?;
    if with_wal && wal == 0 {
        let what = "its WAL is missing in the snapshot".to_owned();
        return Err(Error::Damaged { path: path.to_owned(), what });
    }
    let connection = if with_wal { alone(&file.path) } else { immutable(&file.path) };
    let connection = connection.map_err(|error| Error::from_sqlite("open", path, &error))?;
    let content = Content::read(&connection, path)?;
    content.check_lengths(path, main, if with_wal { wal } else { 0 })?;
    Ok((file, connection, content))
}

/// Opens the file as one that never changes.
fn immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = "file://".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    ready(Connection::open_with_flags(uri, flags)?)
}

/// Opens the file and its WAL as one who is alone with them.
fn alone(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags_and_vfs(path, flags, "unix-none")?;
    // The snapshot is mounted read-only; where it is not, closing must not fold the WAL in either.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA locking_mode = exclusive")?;
    ready(connection)
}

/// Begins the transaction that is read.
fn ready(connection: Connection) -> rusqlite::Result<Connection> {
    super::open::guard(&connection)?;
    connection.execute_batch("PRAGMA query_only = on; BEGIN; SELECT count(*) FROM sqlite_schema")?;
    Ok(connection)
}

/// Hands pages on, and drops them from the page cache some way behind.
struct Passing<'a> {
    sink: &'a mut dyn PageSink,
    file: File,
    passed: u64,
    dropped: u64,
}

impl<'a> Passing<'a> {
    fn new(sink: &'a mut dyn PageSink, path: &Path) -> Result<Self, Error> {
        // Closing this loses no lock: none is taken on a snapshot's file.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = File::from(file.map_err(|errno| Error::from_io("read", path, errno.into()))?);
        Ok(Self { sink, file, passed: 0, dropped: 0 })
    }

    /// Counts what is passed on, and drops it from the cache now and then.
    fn pass(&mut self, pages: &[u8]) {
        self.passed += pages.len() as u64;
        if self.passed - self.dropped >= WINDOW {
            forget(&self.file, self.dropped, NonZeroU64::new(self.passed - self.dropped));
            self.dropped = self.passed;
        }
    }

    fn drop_rest(&self) {
        // What the kernel has read ahead lies behind the last page that was read.
        forget(&self.file, 0, None);
    }
}

impl PageSink for Passing<'_> {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.sink.begin(page_size, page_count)
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        self.pass(page);
        self.sink.page(number, page)
    }

    fn pages(&mut self, first: u32, pages: &[u8], page_size: PageSize) -> Result<(), Problem> {
        self.pass(pages);
        self.sink.pages(first, pages, page_size)
    }
}

/// Drops a part of a file from the page cache.
pub(super) fn forget(file: &File, offset: u64, length: Option<NonZeroU64>) {
    // This is advice. Where it is not taken, the cache is the worse for it and nothing else.
    let _ = rustix::fs::fadvise(file, offset, length, Advice::DontNeed);
}
