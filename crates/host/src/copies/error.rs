//! What can go wrong with a copy, told with the file concerned and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};

/// An error of the as-at copies.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is less room than the copy needs.
    #[error("no room for the as-at copy {}: it needs {needed} bytes, and {free} are free", .path.display())]
    NoRoom {
        /// The copy's path.
        path: PathBuf,
        /// Its size.
        needed: u64,
        /// What is free for this process.
        free: u64,
    },
    /// What was written is not as long as it should be.
    #[error("the as-at copy {} has {found} bytes, and should have {expected}", .path.display())]
    Length {
        /// The copy's path.
        path: PathBuf,
        /// The length that was announced.
        expected: u64,
        /// The length that was written.
        found: u64,
    },
    /// Something that is not a copy has the name of one.
    #[error("{} is in the way of an as-at copy, and is not one", .0.display())]
    InTheWay(PathBuf),
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
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::NoRoom { .. } => (Code::StorageFull, FREE),
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (Code::StorageFull, FREE),
                _ => (Code::Internal, "look at the disk and the permissions of the folder of copies"),
            },
            Error::Length { .. } => (Code::Internal, "report this as a defect"),
            Error::InTheWay(_) => (Code::Internal, "move it elsewhere, then try again"),
        };
        Self::new(code, error.to_string(), hint)
    }
}

const FREE: &str = "release leases on other as-at copies, or free space on their disk";
