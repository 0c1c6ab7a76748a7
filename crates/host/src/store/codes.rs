//! What SQLite's result codes say of a store.

use std::io;
use std::path::Path;

use rusqlite::ffi;

use super::error::Error;

impl Error {
    /// Sorts an error of SQLite, by what it is about: the file's content, its permissions, or the machine. A lock that others hold is
    /// told apart before this. The statements are our own, so one that SQLite does not understand is about the content.
    pub(super) fn from_sqlite(doing: &'static str, path: &Path, source: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = source.to_string();
        let Some(code) = source.sqlite_error().map(|error| error.extended_code) else {
            // What was read is not what every database has.
            return Self::Damaged { path, what: reason };
        };
        match code {
            ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_DATA | ffi::SQLITE_IOERR_CORRUPTFS => {
                return Self::Damaged { path, what: reason };
            }
            ffi::SQLITE_CANTOPEN_SYMLINK | ffi::SQLITE_READONLY_DBMOVED => return Self::Replaced { path },
            _ => {}
        }
        match code & 0xff {
            ffi::SQLITE_NOTADB => Self::NotADatabase { path },
            ffi::SQLITE_CORRUPT | ffi::SQLITE_FORMAT => Self::Damaged { path, what: reason },
            ffi::SQLITE_ERROR
            | ffi::SQLITE_TOOBIG
            | ffi::SQLITE_CONSTRAINT
            | ffi::SQLITE_MISMATCH
            | ffi::SQLITE_RANGE
            | ffi::SQLITE_SCHEMA
            | ffi::SQLITE_EMPTY
            | ffi::SQLITE_NOLFS => Self::Unsupported { path, what: reason },
            ffi::SQLITE_PERM | ffi::SQLITE_AUTH => {
                Self::Denied { path, source: io::Error::new(io::ErrorKind::PermissionDenied, reason) }
            }
            ffi::SQLITE_READONLY => Self::NeedsWriting { path, what: reason },
            code => Self::Failed { doing, path, reason, full: code == ffi::SQLITE_FULL },
        }
    }
}

/// Whether SQLite says that it may not write something.
pub(super) fn is_read_only(error: &rusqlite::Error) -> bool {
    let primary = error.sqlite_error().map(|error| error.extended_code & 0xff);
    matches!(primary, Some(ffi::SQLITE_READONLY | ffi::SQLITE_CANTOPEN))
}

/// Whether SQLite says that somebody else's lock is in the way, so that trying again makes sense.
pub(super) fn is_lock(error: &rusqlite::Error) -> bool {
    let primary = error.sqlite_error().map(|error| error.extended_code & 0xff);
    matches!(primary, Some(ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL))
}
