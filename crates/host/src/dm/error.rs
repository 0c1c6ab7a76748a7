//! What can go wrong with a question to the device-mapper.

use std::io;

use asat_core::{Code, Problem};

/// An error of the device-mapper.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no device-mapper, or nobody made its control node.
    #[error("/dev/mapper/control is not there: this kernel has no device-mapper loaded")]
    Absent,
    /// This process may not ask.
    #[error("this process may not use /dev/mapper/control")]
    NotPermitted,
    /// No device has that name or UUID.
    #[error("there is no device-mapper device {0:?}")]
    NoSuchDevice(String),
    /// A name or UUID that no device can have.
    #[error("{0:?} can be no device-mapper name: it is empty, too long, or has a NUL in it")]
    BadName(String),
    /// A UUID of something else than a logical volume, which is not ours to suspend or resume.
    #[error("{0:?} is not the UUID of a logical volume's device")]
    NotAVolume(String),
    /// The device is suspended, and not by us.
    #[error("{0:?} is suspended by somebody else")]
    Suspended(String),
    /// The kernel's interface is another one.
    #[error("the kernel's device-mapper speaks version {0}.x of its interface, and asat version 4")]
    Version(u32),
    /// The kernel tells nobody of events.
    #[error("the kernel's device-mapper has version {0}.{1}, and tells of events from 4.37 on")]
    NoEvents(u32, u32),
    /// The answer is not built as the interface says.
    #[error("the device-mapper's answer for {object:?} cannot be read: {what}")]
    Unreadable {
        /// The device, or `devices` for the list.
        object: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A target's state is not written as any kernel that is known writes it.
    #[error("the state of a {kind} target cannot be read: {text:?}")]
    UnknownState {
        /// The kind of target.
        kind: &'static str,
        /// The kernel's text.
        text: String,
    },
    /// The kernel refused the question.
    #[error("the device-mapper refused to {doing} {object:?}: {source}")]
    Io {
        /// What was asked, as a verb.
        doing: &'static str,
        /// The device, or `devices` for the list.
        object: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::Absent => {
                (Code::Configuration, "load the module dm-mod, or choose the backend `pages` for the store")
            }
            Error::NotPermitted => {
                (Code::Configuration, "run the daemon as root, or choose the backend `pages` for the store")
            }
            Error::NoSuchDevice(_) => (Code::Internal, "see whether the volume is active: lvs"),
            Error::Suspended(_) => (Code::InUse, "see whether a command of LVM is at work on it"),
            Error::NotAVolume(_)
            | Error::BadName(_)
            | Error::Version(_)
            | Error::NoEvents(..)
            | Error::Unreadable { .. }
            | Error::UnknownState { .. } => {
                (Code::Internal, "report this as a defect, with the kernel's version")
            }
            Error::Io { .. } => (Code::Internal, "look at the kernel's log"),
        };
        Self::new(code, error.to_string(), hint)
    }
}
