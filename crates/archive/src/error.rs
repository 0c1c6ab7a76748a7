//! What can go wrong in an archive, told with the file concerned and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};
use rustix::io::Errno;

use crate::layout::VERSION;

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
    /// A file is of another format than this build reads.
    #[error("{} has format version {found}, and this asat reads {} alone", .path.display(), VERSION)]
    Format {
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
    /// A file that is somewhere else cannot be had at this moment.
    #[error("cannot read {}: {what}", .path.display())]
    Away {
        /// The file.
        path: PathBuf,
        /// What keeps it away.
        what: String,
    },
    /// The archive is written by another asat.
    #[error("the archive {} is written by another asat, and only read here", .folder.display())]
    ReadOnly {
        /// Where it is.
        folder: PathBuf,
    },
    /// The caller broke a rule of the interface.
    #[error("archive misused: {0}")]
    Misuse(String),
    /// More pages than this machine can keep hashes of.
    #[error(
        "version {number} would have {page_count} pages, more than this machine's memory can keep hashes of"
    )]
    TooManyPages {
        /// The version that was to be written.
        number: u64,
        /// How many pages it is said to have.
        page_count: u32,
    },
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

    /// The file that it is about.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::Full { path, .. }
            | Self::Damaged { path, .. }
            | Self::Format { path, .. }
            | Self::Away { path, .. } => Some(path),
            _ => None,
        }
    }

    pub(crate) fn busy(folder: &Path, what: &'static str) -> Self {
        Self::Busy { folder: folder.to_owned(), what }
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
                source.kind() == io::ErrorKind::NotFound || Errno::from_io_error(source) == Some(Errno::IO)
            }
            _ => false,
        }
    }

    /// Whether it says something of what is stored. What the machine refuses at this moment only keeps from looking.
    pub(crate) fn is_finding(&self) -> bool {
        self.is_loss()
            || !matches!(
                self,
                Self::Io { .. } | Self::Full { .. } | Self::Busy { .. } | Self::Away { .. } | Self::Stopped
            )
    }

    /// Whether stored data cannot be had: a loss that was met in reading, as a disk that fails loses nothing of what it is given.
    fn is_of_stored_data(&self) -> bool {
        self.is_loss() && !matches!(self, Self::Io { doing, .. } if !matches!(*doing, "open" | "read"))
    }

    /// The hint that goes with the error: what to do next.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } if self.is_of_stored_data() => {
                "type asat verify: it puts right what it can, and names the versions that need this file; for the rest, put \
                 the file back from a backup, or import an export of the version (docs/recover.md)"
            }
            Self::Io { source, .. } if is_out_of_files(source) => {
                "each version that is read has files of the archive open: raise the daemon's limit of open files (LimitNOFILE=), or \
                 have fewer versions open at a time; nothing is damaged"
            }
            Self::Io { .. } => "look at the disk and the folder's permissions, then try again",
            Self::Full { .. } => "free or add space under the archive, or retire versions",
            Self::Damaged { .. } => {
                "verify the archive: that puts right what it can, and says which versions are affected; for the rest, restore this file from a backup"
            }
            Self::Format { found: ..=4, .. } => {
                "have it taken over into today's format: asat archive upgrade"
            }
            Self::Format { found: ..VERSION, .. } => {
                "export the versions with the asat that wrote it, and import them into an empty archive"
            }
            Self::Format { .. } => "use the asat that wrote it, or a newer one",
            Self::Busy { .. } => "try again when it has ended",
            Self::Away { .. } => "look at the network and at the service, then try again; nothing is damaged",
            Self::ReadOnly { .. } => "do it on the machine that publishes the store",
            Self::TooManyPages { .. } => {
                "run `PRAGMA integrity_check` on the store: its header may be forged; a store of that size needs more memory"
            }
            Self::NoSuchVersion { .. } | Self::Misuse(_) | Self::Stopped => "",
        }
    }
}

/// What was read, or why it is lost.
///
/// # Errors
/// What the machine refuses at this moment, be it that nothing is lost.
pub(crate) fn unless_refused<T>(read: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match read {
        Err(error) if !error.is_loss() => Err(error),
        read => Ok(read),
    }
}

/// Whether the process has as many files open as it may, or the machine has.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Full { .. } => Code::StorageFull,
            Error::Damaged { .. } => Code::Damaged,
            Error::Io { .. } if error.is_of_stored_data() => Code::Damaged,
            Error::Io { ref source, .. } if is_out_of_files(source) => Code::TooManyFiles,
            Error::Format { .. } | Error::NoSuchVersion { .. } => Code::NotReadable,
            Error::Busy { .. } => Code::InUse,
            Error::Away { .. } => Code::RemoteUnavailable,
            Error::ReadOnly { .. } => Code::ReadOnly,
            Error::TooManyPages { .. } => Code::StoreUnreadable,
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
    fn what_cannot_be_read_any_more_is_lost_and_what_cannot_be_tried_now_is_not() {
        for (doing, errno, code) in [
            ("open", 2, Code::Damaged),
            ("read", 5, Code::Damaged),
            ("create", 2, Code::Internal),
            ("open", 24, Code::TooManyFiles),
            ("open", 23, Code::TooManyFiles),
            ("open", 13, Code::Internal),
            ("read", 12, Code::Internal),
        ] {
            let error =
                Error::io(doing, Path::new("/a/000000000007.segment"), io::Error::from_raw_os_error(errno));
            assert_eq!(error.is_loss(), matches!(errno, 2 | 5), "{error}");
            assert_eq!(Problem::from(error).code, code, "{doing}: {errno}");
        }
    }

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
