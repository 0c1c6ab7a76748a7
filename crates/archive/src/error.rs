//! What can go wrong in an archive, told with the file concerned and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};

/// An error of the archive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine refused an operation on a file.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb: "read", "create".
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// The disk, or the quota on it, is full.
    #[error("no room to {doing} {}: {source}", .path.display())]
    Full {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// A file is not what was written.
    #[error("{} is damaged: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with page and version where they are known.
        what: String,
    },
    /// A file is of a format that this build does not know.
    #[error("{} has format version {found}, and this asat reads up to {}", .path.display(), crate::footer::VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format version that it has.
        found: u32,
    },
    /// The version is not in the archive.
    #[error("version {number} is not in the archive {}", .folder.display())]
    NoSuchVersion {
        /// The version asked for.
        number: u64,
        /// The archive's folder.
        folder: PathBuf,
    },
    /// Another change of the same archive is under way.
    #[error("the archive {} is in use: {what}", .folder.display())]
    Busy {
        /// The archive's folder.
        folder: PathBuf,
        /// What is under way.
        what: &'static str,
    },
    /// The caller broke a rule of the interface.
    #[error("archive misused: {0}")]
    Misuse(String),
    /// The caller asked to stop.
    #[error("stopped as asked, before the end")]
    Stopped,
}

impl Error {
    /// Sorts an error of the machine: a full disk is told apart, since something can be done about it.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { doing, path, source },
            _ => Self::Io { doing, path, source },
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    /// Whether what was to be read cannot be had: it is damaged, the disk does not give it, or its file is gone.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Io { source, .. } => {
                source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == Some(EIO)
            }
            _ => false,
        }
    }

    /// Whether it may come of a version that was given up while it was looked at.
    pub(crate) fn may_be_moved(&self) -> bool {
        self.is_loss() || matches!(self, Self::NoSuchVersion { .. })
    }

    /// The hint that goes with the error: what to do next.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.raw_os_error() == Some(EMFILE) => {
                "raise the daemon's limit of open files (LimitNOFILE=), or retire and compact old versions"
            }
            Self::Io { .. } => "look at the disk and the folder's permissions, then try again",
            Self::Full { .. } => "free or add space under the archive, or retire versions",
            Self::Damaged { .. } => {
                "verify the archive: that puts right what it can, and says which versions are affected; for the rest, restore this file from a backup"
            }
            Self::Newer { .. } => "use the asat that wrote it, or a newer one",
            Self::Busy { .. } => "try again when it has ended",
            Self::NoSuchVersion { .. } | Self::Misuse(_) | Self::Stopped => "",
        }
    }
}

/// `EIO` on Linux: the disk could not read a sector.
const EIO: i32 = 5;

/// `EMFILE` on Linux: the process has as many files open as it may.
const EMFILE: i32 = 24;

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Full { .. } => Code::StorageFull,
            Error::Damaged { .. } => Code::Damaged,
            Error::Newer { .. } | Error::NoSuchVersion { .. } => Code::NotReadable,
            Error::Busy { .. } => Code::InUse,
            Error::Stopped => Code::Stopping,
            Error::Io { .. } | Error::Misuse(_) => Code::Internal,
        };
        let hint = error.hint();
        Self::new(code, error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart() {
        for (errno, code) in [(28, Code::StorageFull), (122, Code::StorageFull), (5, Code::Internal)] {
            let error = Error::io("write", Path::new("/a/7.tmp"), io::Error::from_raw_os_error(errno));
            let problem = Problem::from(error);
            assert_eq!(problem.code, code);
            assert!(problem.detail.contains("/a/7.tmp") && !problem.hint.is_empty(), "{problem}");
        }
    }
}
