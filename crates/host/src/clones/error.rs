//! What can go wrong with a clone, told with the file concerned and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};

/// An error of the clones.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something lies where a clone belongs.
    #[error("{} is in the way of a clone: {what}", .path.display())]
    InTheWay {
        /// Where it lies.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The folder of all clones is not there.
    #[error("the folder {} of clones is not there; its file system may not be mounted", .0.display())]
    Unseen(PathBuf),
    /// Files cannot be cloned there.
    #[error("{} cannot be cloned: {why}", .path.display())]
    NoClones {
        /// The file, or the folder that clones should be made in.
        path: PathBuf,
        /// Why not.
        why: String,
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
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::CrossesDevices => {
                Self::NoClones { path, why: "the folder of clones is on another file system".to_owned() }
            }
            io::ErrorKind::Unsupported => {
                Self::NoClones { path, why: "its file system has no reflinks".to_owned() }
            }
            _ => Self::Io { doing, path, source },
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::InTheWay { .. } => (Code::Internal, "move it elsewhere, then try again"),
            Error::Unseen(_) => (Code::NotReadable, "mount its file system, and restart asat"),
            Error::NoClones { .. } => {
                (Code::Configuration, "see `asat doctor`, or write backend \"pages\" for the store")
            }
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    (Code::StorageFull, "free space on the store's file system")
                }
                io::ErrorKind::PermissionDenied => (
                    Code::Configuration,
                    "let the daemon's user read the store and write to the folder of clones",
                ),
                io::ErrorKind::NotFound => {
                    (Code::StoreMissing, "look at the store's path in the configuration")
                }
                _ => (Code::Internal, "look at the kernel's log"),
            },
        };
        Self::new(code, error.to_string(), hint)
    }
}
