//! What can go wrong with the brake.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use asat_core::{Code, Problem};

use crate::dm;

/// An error of the brake.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process cannot be started.
    #[error("the process of the brake, {program:?}, cannot be started: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process was started, and is not ready to hold anything.
    #[error("the process of the brake did not become ready: {0}")]
    NotReady(Trouble),
    /// The process works, and did not hold the device.
    #[error("the brake does not hold {device:?}: {said}")]
    Refused {
        /// The device's UUID.
        device: String,
        /// Why.
        said: String,
    },
    /// The process failed as it was to hold the device. It was ended, and the device is not suspended.
    #[error("the brake could not hold {device:?}: {trouble}")]
    Failed {
        /// The device's UUID.
        device: String,
        /// What became of the process.
        trouble: Trouble,
    },
    /// The process failed, and the device could not be resumed in time either. A thread goes on trying.
    #[error("{device:?} may still be suspended by the brake, and is not resumed: {trouble}")]
    StillHeld {
        /// The device's UUID.
        device: String,
        /// What became of the process.
        trouble: Trouble,
    },
    /// An earlier device is not resumed yet.
    #[error("the brake holds nothing before {0:?} is resumed, which a failed process of it had suspended")]
    Unsettled(String),
    /// What the brake may have held cannot be read, or not be struck out.
    #[error("what the brake may have held cannot be read or struck out in {folder:?}: {source}")]
    Records {
        /// Their folder.
        folder: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The device-mapper cannot be used, or refuses.
    #[error(transparent)]
    Mapper(#[from] dm::Error),
    /// Standard input or output of the process failed.
    #[error("the brake cannot hear its daemon: {0}")]
    Deaf(#[from] io::Error),
}

/// What became of a process that failed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It has ended.
    #[error("its process has ended")]
    Ended,
    /// It did not answer.
    #[error("its process did not answer within {0:?}")]
    Silent(Duration),
    /// It gave an answer to something else.
    #[error("its process answered {0:?}")]
    Unexpected(String),
    /// Its pipes failed.
    #[error("its process cannot be spoken to: {0}")]
    Io(#[from] io::Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let hint = match error {
            Error::Mapper(error) => return error.into(),
            Error::StillHeld { .. } | Error::Unsettled(_) => "run `asat brake --let-go` as root",
            Error::Records { .. } => {
                "see whether root may read and write there, and what of it is suspended: dmsetup info"
            }
            Error::Refused { .. } => "see whether somebody else has suspended it: dmsetup info",
            Error::Start { .. } | Error::NotReady(_) | Error::Failed { .. } | Error::Deaf(_) => {
                "see whether the program is still there and may be run, and look at the kernel's log"
            }
        };
        Self::new(Code::Internal, error.to_string(), hint)
    }
}
