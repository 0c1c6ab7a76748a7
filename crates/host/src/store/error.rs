//! What can keep a store from being read, told with its path and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use asat_core::{Code, Problem};

use super::holders::{Holder, list};

/// An error of reading a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has that name.
    #[error("the store {} is not there", .path.display())]
    Missing {
        /// The store's path.
        path: PathBuf,
    },
    /// Something else has that name.
    #[error("{} is {what}, and should be a file", .path.display())]
    NotAFile {
        /// The path of the store or of a file beside it.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A link leads from one user to another one's file.
    #[error("the store {} is not followed: {} is a symbolic link of {user} and leads to a file of {owner}", .path.display(), .link.display())]
    ForeignLink {
        /// The store's path.
        path: PathBuf,
        /// Where the link is.
        link: PathBuf,
        /// Whose it is.
        user: String,
        /// Whose the file is.
        owner: String,
    },
    /// The file has several names.
    #[error(
        "the store {} has {links} names (hard links): SQLite finds a database's WAL and journal by its name, so what was \
         committed under another name would be missing here",
        .path.display()
    )]
    Linked {
        /// The store's path.
        path: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// The file is another user's than it was.
    #[error("the store {} belongs to {is}, and belonged to {was} when asat first saw it", .path.display())]
    OtherOwner {
        /// The store's path.
        path: PathBuf,
        /// Whose it was.
        was: String,
        /// Whose it is.
        is: String,
    },
    /// The file has no bytes.
    #[error("the store {} is empty: there is nothing to keep", .path.display())]
    Empty {
        /// The store's path.
        path: PathBuf,
    },
    /// The file does not begin as SQLite's files do.
    #[error("the store {} is not a SQLite database, or it is encrypted, or of a format that this SQLite does not know", .path.display())]
    NotADatabase {
        /// The store's path.
        path: PathBuf,
    },
    /// SQLite does not read such a database.
    #[error("SQLite cannot read the store {}: {what}", .path.display())]
    Unsupported {
        /// The store's path.
        path: PathBuf,
        /// What SQLite says.
        what: String,
    },
    /// The file contradicts itself.
    #[error("the store {} is damaged: {what}", .path.display())]
    Damaged {
        /// The store's path.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// This process may not read the store.
    #[error("the store {} may not be read: {source}", .path.display())]
    Denied {
        /// The path of the store or of a file beside it.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// Reading it would take writing beside it, and that is not allowed.
    #[error("the store {} cannot be read without writing in its folder: {what}", .path.display())]
    NeedsWriting {
        /// The store's path.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// What this process makes beside the store would lock others out of it.
    #[error("the store {} is not opened, to lock nobody out of it: {why}", .path.display())]
    LocksOut {
        /// The store's path.
        path: PathBuf,
        /// Who would be locked out, and why.
        why: String,
    },
    /// Its lock was not to be had in time.
    #[error("the store {} stayed locked for {} ms{}", .path.display(), .waited.as_millis(), list(.holders))]
    Busy {
        /// The store's path.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Who held locks on it at the end, as far as that can be told.
        holders: Vec<Holder>,
    },
    /// Reading on would have held writers for too long.
    #[error(
        "writers of the store {} would have been held for more than {} ms: {read} of {pages} pages were read in {} ms",
        .path.display(), .bound.as_millis(), .held.as_millis()
    )]
    HoldExceeded {
        /// The store's path.
        path: PathBuf,
        /// The bound.
        bound: Duration,
        /// How long they were held.
        held: Duration,
        /// How many pages had been read.
        read: u32,
        /// How many there are.
        pages: u32,
    },
    /// The state was not kept before writers had to be let go.
    #[error(
        "writers of the store {} were released after {} ms, before its state had been fixed: they may be held for {} ms",
        .path.display(), .held.as_millis(), .bound.as_millis()
    )]
    HoldBroken {
        /// The store's path.
        path: PathBuf,
        /// The bound.
        bound: Duration,
        /// How long they were held.
        held: Duration,
    },
    /// Somebody committed after the state that was to be left had been kept.
    #[error("the store {} was written to after its state had been kept; it is as it was left", .path.display())]
    Changed {
        /// The store's path.
        path: PathBuf,
    },
    /// SQLite does not change the page size of a store in WAL mode.
    #[error(
        "the store {} has pages of {store} bytes and is in WAL mode, and the version has pages of {version} bytes",
        .path.display()
    )]
    OtherPageSize {
        /// The store's path.
        path: PathBuf,
        /// The size of its pages.
        store: u32,
        /// The size of the version's pages.
        version: u32,
    },
    /// This process may only read the store.
    #[error("the store {} may not be written by the daemon's user", .path.display())]
    ReadOnly {
        /// The store's path.
        path: PathBuf,
    },
    /// Restoring on would have held writers for too long.
    #[error(
        "writers of the store {} would have been held for more than {} ms: {left} of {pages} pages were left after \
         {} ms; the store is as it was",
        .path.display(), .bound.as_millis(), .held.as_millis()
    )]
    RestoreTooLong {
        /// The store's path.
        path: PathBuf,
        /// The bound.
        bound: Duration,
        /// How long they were held.
        held: Duration,
        /// How many pages were still to be written.
        left: u32,
        /// How many there are.
        pages: u32,
    },
    /// Each time it was opened, another file had its name.
    #[error("the store {} was replaced by another file each time it was opened", .path.display())]
    Replaced {
        /// The store's path.
        path: PathBuf,
    },
    /// The machine or SQLite refused an operation.
    #[error("cannot {doing} {}: {reason}", .path.display())]
    Failed {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The path of the store or of a file beside it.
        path: PathBuf,
        /// The answer.
        reason: String,
        /// Whether the disk is full.
        full: bool,
    },
    /// The caller asked to stop.
    #[error("reading the store {} was stopped as asked", .path.display())]
    Stopping {
        /// The store's path.
        path: PathBuf,
    },
    /// The content does not meet a check.
    #[error("the store {} does not meet the check {check:?}: {what}", .path.display())]
    Check {
        /// The store's path.
        path: PathBuf,
        /// The check's name.
        check: String,
        /// What was expected, and what was found.
        what: String,
    },
    /// The marker of watch mode has no value.
    #[error("the marker of the store {} has no value: {what}", .path.display())]
    Marker {
        /// The store's path.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A check took longer than writers may be held.
    #[error(
        "writers of the store {} would have been held for more than {} ms: the check {check:?} did not end within {} ms",
        .path.display(), .bound.as_millis(), .held.as_millis()
    )]
    CheckHeld {
        /// The store's path.
        path: PathBuf,
        /// The check's name.
        check: String,
        /// How long writers may be held.
        bound: Duration,
        /// How long the check had gone on.
        held: Duration,
    },
    /// What the process that works on the store said, or what became of it.
    #[error("{}", .problem.detail)]
    Worker {
        /// What happened.
        problem: Problem,
        /// Whether the store's lock was not to be had in time.
        is_busy: bool,
    },
    /// The sink gave up.
    #[error("{0}")]
    Sink(Problem),
}

impl Error {
    /// Sorts an error of the machine.
    pub(crate) fn from_io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return Self::NotAFile { path, what: "a symbolic link that leads to itself" };
        }
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            kind => {
                let full = matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                Self::Failed { doing, path, reason: source.to_string(), full }
            }
        }
    }

    /// Whether there is no time left to try again.
    pub(super) fn ends_waiting(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Stopping { .. })
    }

    /// Whether the store's lock was not to be had in time.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Worker { is_busy: true, .. })
    }

    fn code(&self) -> Code {
        match self {
            Self::Missing { .. } => Code::StoreMissing,
            Self::NotAFile { .. }
            | Self::Linked { .. }
            | Self::Empty { .. }
            | Self::ForeignLink { .. }
            | Self::OtherOwner { .. }
            | Self::Unsupported { .. }
            | Self::NotADatabase { .. }
            | Self::Damaged { .. }
            | Self::Denied { .. }
            | Self::ReadOnly { .. }
            | Self::LocksOut { .. }
            | Self::NeedsWriting { .. } => Code::StoreUnreadable,
            Self::Busy { .. } | Self::Changed { .. } | Self::Replaced { .. } => Code::StoreBusy,
            Self::OtherPageSize { .. } => Code::Invalid,
            Self::HoldExceeded { .. }
            | Self::HoldBroken { .. }
            | Self::CheckHeld { .. }
            | Self::RestoreTooLong { .. } => Code::HoldExceeded,
            Self::Check { .. } => Code::CheckFailed,
            Self::Marker { .. } => Code::MarkerFailed,
            Self::Failed { full: true, .. } => Code::StorageFull,
            Self::Failed { .. } => Code::Internal,
            Self::Stopping { .. } => Code::Stopping,
            Self::Sink(problem) | Self::Worker { problem, .. } => problem.code,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "correct the store's `path`, or publish when the file is back",
            Self::NotAFile { .. } => "name the database file itself as the store's `path`",
            Self::ForeignLink { .. } => {
                "name the file itself as the store's `path`, or have root make the link"
            }
            Self::OtherOwner { .. } => {
                "find out who put it there; if that is right, restart asat, which then takes it for its owner's"
            }
            Self::Unsupported { .. } => {
                "open it with the program that wrote it: it may be of a newer SQLite, or damaged (`PRAGMA integrity_check`)"
            }
            Self::Linked { .. } => {
                "name the file that the application opens as the store's `path`, and remove the other names (`find -samefile` \
                 finds them) or make them symbolic links"
            }
            Self::Empty { .. } => "publish when the database has its first table",
            Self::NotADatabase { .. } => {
                "correct the store's `path`; databases that are encrypted or of a newer format cannot be kept"
            }
            Self::Damaged { .. } => {
                "run `PRAGMA integrity_check` on the store, and restore it from a version"
            }
            Self::Denied { .. } => {
                "let the daemon's user read the file and pass through the folders above it"
            }
            Self::LocksOut { .. } | Self::NeedsWriting { .. } | Self::ReadOnly { .. } => HOW_TO_SHARE,
            Self::Busy { .. } => "try again, or raise `busy_timeout`; a long transaction is in the way",
            Self::Check { .. } => {
                "nothing was published; correct the data, or the check in the configuration, and publish again"
            }
            Self::Marker { .. } => "correct `marker` in [store.watch], or what it asks for in the store",
            Self::HoldExceeded { .. } | Self::CheckHeld { .. } => {
                "raise `max_hold`, or put the store into WAL mode"
            }
            Self::HoldBroken { .. } => {
                "raise `max_hold`; in WAL mode, without long reading transactions, writers are not held"
            }
            Self::Changed { .. } => "restore again when nobody writes to the store",
            Self::OtherPageSize { .. } => {
                "take the store out of WAL mode first (`PRAGMA journal_mode = delete`), or export the version"
            }
            Self::RestoreTooLong { .. } => "raise `max_hold`",
            Self::Replaced { .. } => "try again when the file is no longer being replaced",
            Self::Failed { full: true, .. } => "free space on the disk that holds the store",
            Self::Failed { .. } => "look at the disk and the store's folder, then try again",
            Self::Stopping { .. } => "publish again when the daemon is back",
            Self::Sink(_) | Self::Worker { .. } => "",
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Sink(problem) | Error::Worker { problem, .. } => problem,
            error => Self::new(error.code(), error.to_string(), error.hint()),
        }
    }
}

/// What lets a daemon and an application of different users write to one store.
pub const HOW_TO_SHARE: &str = "put the daemon's user into the application's group (`usermod --append --groups`), give the store's folder and \
                     files to that group (`chgrp -R`, `chmod -R g+w`), and have new files get it (`chmod g+s` on the folder). Permit \
                     the folder in ReadWritePaths= of the unit, and restart asat; see docs/install.md";
