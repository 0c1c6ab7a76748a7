//! What can go wrong with a snapshot.

use asat_core::{Code, Problem};

use crate::dm;
use crate::lvm::command::{self, Refusal};
use crate::lvm::names::TooLong;

/// An error of a snapshot. Volumes are written as `group/volume`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// LVM refused, or could not be asked.
    #[error(transparent)]
    Lvm(#[from] command::Error),
    /// The kernel would not take its name.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// LVM ended well, but the kernel does not show the device.
    #[error("the volume {volume} is there, but not its device: {source}")]
    Unseen {
        /// The snapshot.
        volume: String,
        /// The kernel's answer.
        source: dm::Error,
    },
    /// The pool that it is in cannot be asked.
    #[error("the pool of the volume {volume} does not say how it is: {source}")]
    Pool {
        /// The snapshot.
        volume: String,
        /// The kernel's answer.
        source: dm::Error,
    },
    /// LVM has removed it and did not tell its pool, and the pool refused to hear of it from us.
    #[error("the volume {volume} is removed, but its pool still has it as number {number}: {source}")]
    Kept {
        /// The snapshot.
        volume: String,
        /// Its number in the pool.
        number: u64,
        /// The kernel's answer.
        source: dm::Error,
    },
    /// LVM ended well, but the device of that name is another one.
    #[error("the device of the volume {volume} has the UUID {uuid:?}, which is none of LVM's")]
    OtherDevice {
        /// The snapshot.
        volume: String,
        /// The device's UUID.
        uuid: String,
    },
    /// The device is there, and nothing below `/dev` leads to it.
    #[error("the volume {0} is active, but no node in /dev leads to its device")]
    NoNode(String),
    /// Somebody has given it another name.
    #[error("the snapshot {volume} is called {now} now")]
    Elsewhere {
        /// The snapshot's own name.
        volume: String,
        /// What it is called.
        now: String,
    },
    /// Somebody has made snapshots of it, which would go with it.
    #[error("the snapshot {0} is the origin of others, which asat did not make")]
    HasSnapshots(String),
    /// It was being made when the machine or the daemon stopped. What it holds may be of a later moment: LVM
    /// finishes a thin snapshot whenever it next works on the pool, and the kernel takes a classic one whose
    /// header did not reach the disk for a new one.
    #[error("the snapshot {0} was left behind half made, and nothing says of which moment it is")]
    HalfMade(String),
    /// It has overflowed, so its content is lost.
    #[error("the snapshot {0} has overflowed, and its content is lost")]
    Lost(String),
    /// It is no classic snapshot.
    #[error("the volume {0} is no classic snapshot, and has no space of its own")]
    NoOwnSpace(String),
}

impl Error {
    /// Why LVM refused, where it did.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Lvm(error) => error.refusal(),
            _ => None,
        }
    }

    /// Whether a command that failed like this may have left something behind. If not, whatever is there with the
    /// marks of what was to be made was there before.
    #[must_use]
    pub fn may_leave_something(&self) -> bool {
        match self {
            Self::Lvm(error) => error.may_leave_something(),
            Self::TooLong(_) => false,
            _ => true,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match error {
            Error::Lvm(error) => return error.into(),
            Error::TooLong(error) => return error.into(),
            Error::Unseen { .. } | Error::OtherDevice { .. } => {
                (Code::Internal, "see whether the volume is active (lvs), and look at the kernel's log")
            }
            Error::Pool { .. } => (Code::Internal, "look at the pool (lvs --all), and at the kernel's log"),
            Error::Kept { .. } => (
                Code::Internal,
                "have the pool give it up: dmsetup message GROUP-POOL-tpool 0 'delete NUMBER'",
            ),
            Error::NoNode(_) => {
                (Code::Internal, "let the daemon see the machine's /dev, or make the nodes: vgscan --mknodes")
            }
            Error::Elsewhere { .. } => {
                (Code::Internal, "give it its name back (lvrename), or remove it by hand")
            }
            Error::HasSnapshots(_) => (Code::InUse, "see which they are (lvs -a), and remove them first"),
            Error::HalfMade(_) => (Code::Internal, "let it be removed"),
            Error::Lost(_) => (Code::Internal, "nothing can bring it back; let it be removed"),
            Error::NoOwnSpace(_) => (Code::Internal, "look at the volumes: lvs -a"),
        };
        Self::new(code, error.to_string(), hint)
    }
}
