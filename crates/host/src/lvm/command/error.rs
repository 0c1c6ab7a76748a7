//! What can go wrong with one of LVM's commands.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use asat_core::{Code, Problem};

use super::Version;
use super::lane::Wedge;
use super::refusal::Refusal;

/// An error of one of LVM's commands.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command is not on this machine.
    #[error("lvm is not installed: it is in none of /usr/sbin, /sbin and /usr/bin")]
    NotInstalled,
    /// Its version is one that asat does not know.
    #[error("{} is version {found}, and asat needs {oldest} or later", .binary.display())]
    TooOld {
        /// The command.
        binary: PathBuf,
        /// Its version.
        found: Version,
        /// The oldest that will do.
        oldest: Version,
    },
    /// It could not be started.
    #[error("cannot run `{command}`: {source}")]
    Start {
        /// The command.
        command: String,
        /// The machine's answer.
        source: io::Error,
    },
    /// A command does not end.
    #[error("{}", describe_wedge(.asked, .wedge))]
    Wedged {
        /// The command that was asked for.
        asked: String,
        /// The one that does not end; the same one, or one before it.
        wedge: Wedge,
    },
    /// A signal ended it.
    #[error("`{command}` did not end by itself: {status}; a volume may be left suspended")]
    Killed {
        /// The command.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// LVM refused.
    #[error("`{command}` failed with status {status}: {said}")]
    Refused {
        /// The command.
        command: String,
        /// Its exit status.
        status: i32,
        /// Why, as far as its words are known.
        refusal: Refusal,
        /// Its words.
        said: String,
    },
    /// What it wrote is not what was expected.
    #[error("the output of `{command}` cannot be read: {what}")]
    Unreadable {
        /// The command.
        command: String,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// Why LVM refused, where it did.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }

    /// Whether the command may have done something all the same.
    #[must_use]
    pub fn may_leave_something(&self) -> bool {
        match self {
            Self::NotInstalled | Self::TooOld { .. } | Self::Start { .. } => false,
            Self::Wedged { asked, wedge } => *asked == wedge.command,
            Self::Refused { refusal, .. } => *refusal != Refusal::AlreadyExists,
            Self::Killed { .. } | Self::Unreadable { .. } => true,
        }
    }
}

fn describe_wedge(asked: &str, wedge: &Wedge) -> String {
    let Wedge { command, since, pid, .. } = wedge;
    let process = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    if asked == command {
        format!("`{command}`{process} was started at {since} and does not end")
    } else {
        format!("`{asked}` was not run: `{command}`{process} was started at {since} and does not end")
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::NotInstalled | Error::TooOld { .. } => (
                Code::Configuration,
                "install the package lvm2 of a current distribution, or choose the backend `pages` for the store",
            ),
            Error::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => (
                Code::Configuration,
                "install the package lvm2 again, or choose the backend `pages` for the store",
            ),
            Error::Start { .. } => {
                (Code::Internal, "look at the permissions of lvm and the limits of the daemon")
            }
            Error::Wedged { .. } => (
                Code::LvmStuck,
                "see what it waits for: a suspended volume (dmsetup info -c), a disk that does not answer \
                 (the kernel's log), or another LVM command; asat continues by itself when it ends",
            ),
            Error::Killed { .. } => (Code::Internal, "look for suspended volumes: dmsetup info -c"),
            Error::Refused { refusal, .. } => refusal.advice(),
            Error::Unreadable { .. } => {
                (Code::Internal, "report this as a defect, with the output of `lvm version`")
            }
        };
        Self::new(code, error.to_string(), hint)
    }
}
