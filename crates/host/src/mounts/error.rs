//! What can go wrong with a mounted version, told with the path concerned and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};

/// The kinds of file system of which snapshots are known to mount without any recovery and beside their origin.
pub(crate) const SUPPORTED: &str = "ext4 and xfs";

/// An error of the mounted versions.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Snapshots of such a file system cannot be mounted.
    #[error("a snapshot with a file system {0:?} cannot be mounted: {SUPPORTED} can")]
    UnsupportedFs(String),
    /// A device node leads to another device than it should, or to none.
    #[error("{} is not the device {}:{}, but {found}", .path.display(), .expected.0, .expected.1)]
    NotTheDevice {
        /// The node.
        path: PathBuf,
        /// The device that it should be, major and minor.
        expected: (u32, u32),
        /// What it is.
        found: String,
    },
    /// Something else is where a version belongs.
    #[error("{} is in the way of a version: {what}", .path.display())]
    InTheWay {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The snapshot is not mounted.
    #[error("no snapshot is mounted at {}", .0.display())]
    NotMounted(PathBuf),
    /// The snapshot has no such file.
    #[error("the snapshot has no file {}", .0.display())]
    NoSuchFile(PathBuf),
    /// What the snapshot has there is no plain file.
    #[error("{} in the snapshot is not a plain file, or a link or a mount is on the way to it", .0.display())]
    NotAFile(PathBuf),
    /// The file is no SQLite database, or one that cannot be in rollback mode.
    #[error("{} cannot be set to rollback mode: {what}", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What it has instead.
        what: String,
    },
    /// The file does not say what was written.
    #[error("{} was set to rollback mode through its device, and does not say so: {what}", .path.display())]
    NotAsWritten {
        /// The file.
        path: PathBuf,
        /// What it says.
        what: &'static str,
    },
    /// Somebody uses it.
    #[error("{} is in use", .0.display())]
    Busy(PathBuf),
    /// The file system or its device cannot give freed blocks back.
    #[error("the file system at {} cannot give freed blocks back", .0.display())]
    NoTrim(PathBuf),
    /// This process may not do it.
    #[error("this process may not {doing} {}", .path.display())]
    NotPermitted {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
    },
    /// The machine refused an operation.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
}

impl Error {
    /// An error of the machine, ready to be given the source.
    pub(super) fn io<Source: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(Source) -> Self {
        let path = path.to_owned();
        move |source| match source.into() {
            source if source.kind() == io::ErrorKind::PermissionDenied => Self::NotPermitted { doing, path },
            source => Self::Io { doing, path, source },
        }
    }

    /// Something that lies where a version belongs.
    pub(super) fn in_the_way(path: &Path, what: &str) -> Self {
        Self::InTheWay { path: path.to_owned(), what: what.to_owned() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::UnsupportedFs(_) => (
                Code::Configuration,
                "move the store to such a file system, or choose the backend `pages` for it",
            ),
            Error::NotTheDevice { .. } => (Code::Internal, "see whether the volume is active: lvs"),
            Error::InTheWay { .. } => (Code::Internal, "unmount it or move it elsewhere, then try again"),
            Error::NotMounted(_) => {
                (Code::Internal, "see what has unmounted it, then open the version again")
            }
            Error::NoSuchFile(_) | Error::NotAFile(_) => {
                (Code::StoreMissing, "look at the store's path in the configuration")
            }
            Error::NotADatabase { .. } => (
                Code::StoreUnreadable,
                "see whether the store is a SQLite database: sqlite3 FILE 'PRAGMA quick_check'",
            ),
            Error::NotAsWritten { .. } => {
                (Code::Internal, "report this as a defect, with the kernel's version")
            }
            Error::Busy(_) => (Code::InUse, "close what uses it (fuser -vm PATH names it), then try again"),
            Error::NoTrim(_) => {
                (Code::Configuration, "see whether the pool takes discards: lvs -o +discards")
            }
            Error::NotPermitted { .. } => {
                (Code::Configuration, "run the daemon as root, or choose the backend `pages` for the store")
            }
            Error::Io { .. } => (Code::Internal, "look at the kernel's log"),
        };
        Self::new(code, error.to_string(), hint)
    }
}
