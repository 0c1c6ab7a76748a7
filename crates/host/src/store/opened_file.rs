//! A file that SQLite has open, read through SQLite's own descriptor: to open it once more and close it would lose its locks.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;

use rusqlite::{Connection, ffi};

use super::wal::INDEX;

/// The length of the wal-index's first part, as SQLite maps it (`WALINDEX_PGSZ`).
const INDEX_PART: c_int = 32 << 10;

/// The most that is read at once. SQLite's own files take less than 128 KiB.
pub(super) const MOST_AT_ONCE: usize = 64 << 10;

/// A file of a connection's database "main".
pub(super) struct OpenedFile<'a> {
    /// It keeps the file open. No other thread uses it meanwhile: it is not `Sync`.
    _connection: &'a Connection,
    file: *mut ffi::sqlite3_file,
    methods: &'a ffi::sqlite3_io_methods,
}

impl<'a> OpenedFile<'a> {
    /// The database's file; nothing if SQLite has none open.
    pub(super) fn database(connection: &'a Connection) -> Option<Self> {
        Self::of(connection, ffi::SQLITE_FCNTL_FILE_POINTER)
    }

    /// Its WAL if it is in WAL mode and was read; nothing if SQLite has none open. In a rollback mode it is the journal.
    pub(super) fn wal(connection: &'a Connection) -> Option<Self> {
        Self::of(connection, ffi::SQLITE_FCNTL_JOURNAL_POINTER)
    }

    fn of(connection: &'a Connection, which: c_int) -> Option<Self> {
        let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
        // SAFETY: the connection is open for as long as it is borrowed. SQLite writes a pointer to the file where it is told, or fails; the
        // file and its methods stay where they are as long as the connection is open and does not change the journal mode, which nobody does
        // who borrows it for reading.
        // https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntlfilepointer
        let methods = unsafe {
            let told = ptr::from_mut(&mut file).cast();
            if ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), which, told) != ffi::SQLITE_OK
            {
                return None;
            }
            file.as_ref()?.pMethods.as_ref()?
        };
        Some(Self { _connection: connection, file, methods })
    }

    /// Fills the buffer from this offset on. Answers whether the file has as much there, and could be read.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> bool {
        let Some(read) = self.methods.xRead else { return false };
        buffer.chunks_mut(MOST_AT_ONCE).zip((offset..).step_by(MOST_AT_ONCE)).all(|(part, at)| {
            let (Ok(length), Ok(at)) = (c_int::try_from(part.len()), i64::try_from(at)) else { return false };
            // SAFETY: the file is open, as its connection is, and SQLite writes as many bytes at most as the buffer has.
            // https://www.sqlite.org/c3ref/io_methods.html
            let answer = unsafe { read(self.file, part.as_mut_ptr().cast(), length, at) };
            answer == ffi::SQLITE_OK
        })
    }

    /// How long it is; nothing if that cannot be told.
    pub(super) fn length(&self) -> Option<u64> {
        let mut length = 0;
        // SAFETY: the file is open, as its connection is, and SQLite writes a number where it is told.
        let answer = unsafe { self.methods.xFileSize?(self.file, &raw mut length) };
        u64::try_from(length).ok().filter(|_| answer == ffi::SQLITE_OK)
    }

    /// The first words of the wal-index, which others write meanwhile; nothing if SQLite has none in shared memory that it may write. This is
    /// asked of the database's file. SQLite itself has just read them there: if somebody cuts that file short, either ends the process.
    pub(super) fn wal_index(&self) -> Option<&[AtomicU32; INDEX / 4]> {
        let mut part: *mut c_void = ptr::null_mut();
        // SAFETY: the file is open, as its connection is, and SQLite writes where it has mapped the part, or nothing if it has not.
        let answer = unsafe { self.methods.xShmMap?(self.file, 0, INDEX_PART, 0, &raw mut part) };
        if answer != ffi::SQLITE_OK || part.is_null() {
            return None;
        }
        // SAFETY: SQLite has mapped more than is read here, at the start of a page of memory, and keeps it for as long as the connection is
        // open. Others write it meanwhile, as one does with atomics.
        unsafe { part.cast::<[AtomicU32; INDEX / 4]>().as_ref() }
    }

    /// Whether a connection, of whatever process, holds the lock of those who write. If that cannot be told, nobody does.
    pub(super) fn is_reserved(&self) -> bool {
        let mut reserved: c_int = 0;
        let Some(check) = self.methods.xCheckReservedLock else { return false };
        // SAFETY: the file is open, as its connection is, and SQLite writes a number where it is told.
        let answer = unsafe { check(self.file, &raw mut reserved) };
        answer == ffi::SQLITE_OK && reserved != 0
    }
}
