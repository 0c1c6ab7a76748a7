//! What can go wrong with the tree of versions, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};

/// An error of the tree of versions.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine, or this user, has no FUSE.
    #[error("FUSE cannot be had: {0}")]
    Unavailable(String),
    /// Whoever mounts for this user does not have others look.
    #[error("FUSE cannot be had for others than this user: /etc/fuse.conf does not allow it")]
    OnlyOwner,
    /// Something else is where the tree belongs.
    #[error("{} is in the way of the tree of versions: {what}", .path.display())]
    InTheWay {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The tree was mounted, and is seen no more.
    #[error("the tree of versions is not at {} any more: {what}", .path.display())]
    Gone {
        /// Where it was.
        path: PathBuf,
        /// What has become of it.
        what: String,
    },
    /// The tree is mounted, and nobody answers who looks into it.
    #[error("the tree of versions at {} is dead: {what}", .path.display())]
    Dead {
        /// Where it is.
        path: PathBuf,
        /// What whoever looks into it gets.
        what: String,
    },
    /// The machine refused.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What was to be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// The error of a tree that somebody has unmounted.
    pub(super) fn unmounted(path: &Path) -> Self {
        Self::Gone { path: path.to_owned(), what: "it was unmounted".to_owned() }
    }

    /// The error of an operation on a path.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let hint = match &error {
            Error::Unavailable(_) => {
                "load the kernel's module (modprobe fuse), and run the daemon as root or install fuse3"
            }
            Error::OnlyOwner => {
                "write the line user_allow_other into /etc/fuse.conf, set fuse.allow_other = false, or run the daemon as root"
            }
            Error::InTheWay { .. } => {
                "unmount or move away what is there, or name another folder as fuse.root"
            }
            Error::Gone { .. } => "stop the daemon to take the tree away",
            Error::Dead { .. } => "restart the daemon, which mounts it anew",
            Error::Io { .. } => "look at fuse.root in the configuration, and at the kernel's log",
        };
        Self::new(Code::Configuration, error.to_string(), hint)
    }
}
