//! Why a pool did not say what two snapshots have in common.

use std::io;
use std::path::PathBuf;

use asat_core::{Code, Problem};

use crate::{dm, program};

/// Why a pool did not say what two snapshots have in common. Whoever asks reads everything then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command is not there.
    #[error("{0} is not installed, which tells what has changed between two thin snapshots")]
    NotInstalled(&'static str),
    /// Somebody else reads the pool's metadata, or did and never said that it was over.
    #[error("the pool {0} keeps a state of its metadata for somebody else")]
    Reserved(String),
    /// The pool could not be told that it was over.
    #[error("the pool {pool} still keeps a state of its metadata: {source}")]
    Kept {
        /// The name of its device.
        pool: String,
        /// What the device-mapper said.
        source: dm::Error,
    },
    /// It has other layers above or below.
    #[error("the device {0} is no plain thin volume")]
    NotThin(String),
    /// Nothing is in common then.
    #[error("the two snapshots lie in different pools")]
    TwoPools,
    /// A device that a table names, or its node.
    #[error("the device {0} is not there")]
    NoDevice(String),
    /// Something else is mounted there.
    #[error("{} does not lie on the device {device}", .path.display())]
    Elsewhere {
        /// The file.
        path: PathBuf,
        /// The name of the device.
        device: String,
    },
    /// A file could not be looked at.
    #[error("cannot look where {} lies: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// What is kept for us could not be recorded.
    #[error("cannot record in {} what the pool keeps: {source}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// The device-mapper refused.
    #[error(transparent)]
    Mapper(#[from] dm::Error),
    /// The command failed.
    #[error(transparent)]
    Program(#[from] program::Error),
    /// What the command said cannot be read.
    #[error("the report of thin_delta cannot be read: {0}")]
    Report(&'static str),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::NotInstalled(_) => Self::new(
                Code::Configuration,
                text,
                "install thin-provisioning-tools (thin-provisioning-tools or device-mapper-persistent-data)",
            ),
            Error::Reserved(pool) | Error::Kept { pool, .. } => {
                let hint =
                    format!("if nobody reads it any more: dmsetup message {pool} 0 release_metadata_snap");
                Self::new(Code::InUse, text, hint)
            }
            Error::Mapper(source) => source.into(),
            Error::NotThin(_) | Error::TwoPools | Error::NoDevice(_) | Error::Elsewhere { .. } => {
                Self::new(Code::NotReadable, text, "see what lies on the volume: lvs -a, dmsetup ls --tree")
            }
            Error::Record { .. } => Self::new(Code::Internal, text, "look at the state folder"),
            Error::Io { .. } => Self::new(Code::NotReadable, text, "look at the kernel's log"),
            Error::Program(_) | Error::Report(_) => Self::new(
                Code::Internal,
                text,
                "see whether it runs by hand, and which version it is: thin_delta --version",
            ),
        }
    }
}
