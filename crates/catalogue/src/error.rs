//! What can go wrong with the catalogue, told with the file concerned and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asat_core::{Code, Problem};
use rusqlite::{ErrorCode, ffi};

/// An error of the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine refused an operation on a file.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb: "read", "create".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// SQLite refused an operation.
    #[error("cannot {doing} the catalogue {}: {source}", .path.display())]
    Sqlite {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The catalogue.
        path: PathBuf,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The disk, or the quota on it, is full.
    #[error("no room to {doing} {}: {what}", .path.display())]
    Full {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer of SQLite or of the machine.
        what: String,
    },
    /// Another process holds the catalogue locked.
    #[error("cannot {doing} the catalogue {}: another process holds it locked", .path.display())]
    Busy {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The catalogue.
        path: PathBuf,
    },
    /// The file is not what was written.
    #[error("the catalogue {} is damaged: {what}", .path.display())]
    Damaged {
        /// The catalogue.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A row cannot be read.
    #[error("the catalogue {} is damaged: table {table}, row {row}: {what}", .path.display())]
    Row {
        /// The catalogue.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The values of the row's key.
        row: String,
        /// What is wrong with it, with the column where one is to blame.
        what: String,
    },
    /// A SQLite database of somebody else.
    #[error("{} is a SQLite database, but not a catalogue of asat", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The catalogue was written by an asat whose archives are not read any more.
    #[error(
        "the catalogue {} has schema version {found}, and this asat reads from {} on: fingerprints were made by a hash then that can be \
         forged, and the archives that they are of are not read any more", .path.display(), crate::migrate::OLDEST
    )]
    Older {
        /// The catalogue.
        path: PathBuf,
        /// The schema version that it has.
        found: usize,
    },
    /// The catalogue was written by a newer asat.
    #[error("the catalogue {} has schema version {found}, and this asat knows up to {known}", .path.display())]
    Newer {
        /// The catalogue.
        path: PathBuf,
        /// The schema version that it has.
        found: usize,
        /// The newest schema version that this build knows.
        known: usize,
    },
    /// The catalogue is gone, but its log is there.
    #[error("the catalogue {} is missing, but {} is there", .path.display(), .log.display())]
    Orphaned {
        /// The catalogue.
        path: PathBuf,
        /// Its write-ahead log or its journal.
        log: PathBuf,
    },
    /// A file of the catalogue is not where it was when it was opened.
    #[error(
        "the catalogue {} cannot be written: {} {what} while asat has it open, so that nothing that is recorded now would be there \
         after the next start", .path.display(), .file.display()
    )]
    Gone {
        /// The catalogue.
        path: PathBuf,
        /// The catalogue, its log, or the index of that.
        file: PathBuf,
        /// What became of it.
        what: &'static str,
    },
    /// Whether something was recorded is not known, so nothing more is.
    #[error(
        "nothing more is recorded in the catalogue {}, since it is not certain what is in it: {what}", .path.display()
    )]
    Unsure {
        /// The catalogue.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Whether the records are those that were committed could not be found out.
    #[error("the check of the catalogue {} has ended with a panic, and nothing is recorded without it", .path.display())]
    Unchecked {
        /// The catalogue.
        path: PathBuf,
    },
    /// The check of a catalogue has found this, and nothing is recorded in it any more.
    #[error("{0}")]
    Checked(Arc<Error>),
    /// What is there is no file.
    #[error("{} is a folder or a device, and no catalogue", .path.display())]
    NoFile {
        /// What has the catalogue's name.
        path: PathBuf,
    },
    /// There is something where a copy is to be.
    #[error("there is something at {} already, and a backup never replaces anything", .path.display())]
    Taken {
        /// The path that was named for the copy.
        path: PathBuf,
    },
    /// The catalogue cannot work where it is.
    #[error("the catalogue {} cannot be used: {what}", .path.display())]
    Unsuitable {
        /// The catalogue.
        path: PathBuf,
        /// Why not.
        what: String,
    },
}

impl Error {
    /// Sorts an error of the machine: a full disk is told apart, since something can be done about it.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { doing, path, what: source.to_string() }
            }
            _ => Self::Io { doing, path, source },
        }
    }

    /// Sorts an error of SQLite in the same way.
    pub(crate) fn sqlite(doing: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let (code, extended) = match &source {
            rusqlite::Error::SqliteFailure(failure, _) => (Some(failure.code), failure.extended_code),
            _ => (None, 0),
        };
        let what = source.to_string();
        match code {
            Some(ErrorCode::DiskFull) => Self::Full { doing, path, what },
            // The index of the write-ahead log cannot grow: SQLite reports a full disk this way.
            _ if [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMMAP].contains(&extended) => {
                Self::Full { doing, path, what }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { doing, path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, what },
            _ => Self::Sqlite { doing, path, source },
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    fn code(&self) -> Code {
        match self {
            Self::Full { .. } => Code::StorageFull,
            Self::Busy { .. } | Self::Taken { .. } => Code::InUse,
            Self::Damaged { .. }
            | Self::Row { .. }
            | Self::Orphaned { .. }
            | Self::Gone { .. }
            | Self::Unsure { .. } => Code::Damaged,
            Self::Foreign { .. }
            | Self::Older { .. }
            | Self::Newer { .. }
            | Self::NoFile { .. }
            | Self::Unsuitable { .. } => Code::Configuration,
            Self::Io { .. } | Self::Sqlite { .. } | Self::Unchecked { .. } => Code::Internal,
            Self::Checked(found) => found.code(),
        }
    }

    /// The hint that goes with the error: what to do next.
    fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "look at the disk and the folder's permissions, then try again",
            Self::Sqlite { .. } => "look at the disk and the file's permissions, then try again",
            Self::Full { .. } => "free or add space under the state folder, then try again",
            Self::Busy { .. } => "end whatever else has the catalogue open for writing",
            Self::Damaged { .. } | Self::Row { .. } => {
                "with the daemon stopped, move it and its logs away and put a copy by `asat backup` in its place; or type, which \
                 keeps it aside: asat rebuild-catalogue --replace"
            }
            Self::Foreign { .. } => "name a state folder of asat's own in the configuration",
            Self::Older { .. } => {
                "have the asat that wrote it write its versions out as databases (asat export), then begin with an empty state folder"
            }
            Self::Newer { .. } => "use the asat that wrote it or a newer one, or restore a backup",
            Self::Orphaned { .. } => {
                "bring the catalogue back; or type, which keeps its log aside: asat rebuild-catalogue"
            }
            Self::Gone { .. } => {
                "put the same file back if it was moved away, and restart asat; otherwise stop asat, and follow docs/recover.md (the catalogue \
                 is gone)"
            }
            Self::Unsure { .. } => {
                "look at the disk, and put the same file back if it was moved away; then restart asat, which uses what the catalogue \
                 has. If it is gone, stop asat, and follow docs/recover.md (the catalogue is gone)"
            }
            Self::Unchecked { .. } => {
                "this is a defect of asat: report what the log says before this, and start asat anew"
            }
            Self::Checked(found) => found.hint(),
            Self::NoFile { .. } => {
                "move it away, and put a copy by `asat backup` in its place; or type: asat rebuild-catalogue"
            }
            Self::Taken { .. } => {
                "name another file, as catalogue-$(date +%F-%H%M%S).db, or move away what is there"
            }
            Self::Unsuitable { .. } => "put the state folder on a local file system",
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = (error.code(), error.hint());
        Self::new(code, error.to_string(), hint)
    }
}
