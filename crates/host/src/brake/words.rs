//! What the daemon and the brake's process say to each other, a line each.
//!
//! A line that is not exactly as it should be is refused, and nothing happens.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::volume::DeviceUuid;
use crate::volume::stack::parse_uuid;

/// What the daemon wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Suspend this device, for at most so long: `hold LVM-... 2000`, in milliseconds.
    Hold(DeviceUuid, Duration),
    /// Resume what is suspended: `release`.
    Release,
}

/// What the process answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It takes requests: `ready locked`, or `ready unlocked` where its memory could not be locked.
    Ready {
        /// Whether its memory is locked.
        locked: bool,
    },
    /// The device is suspended: `held`.
    Held,
    /// It is not suspended any more, and was for so long: `released 153000`, in microseconds.
    Released(Duration),
    /// Nothing was done: `failed` and why.
    Failed(Cow<'static, str>),
}

/// Why a line is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Bad {
    #[error("a line is `hold`, a device's UUID and milliseconds, or `release`")]
    Line,
    #[error("the UUID is not that of a logical volume's device")]
    Uuid,
    #[error("the time is not a number of milliseconds above 0")]
    Time,
}

impl Request {
    /// Reads a line, without its end.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Bad> {
        let text = std::str::from_utf8(line).map_err(|_| Bad::Line)?;
        let mut words = text.split(' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("release"), None, None, None) => Ok(Self::Release),
            (Some("hold"), Some(uuid), Some(time), None) => {
                let uuid = parse_uuid(uuid).map_err(|_| Bad::Uuid)?;
                let time = number(time).filter(|&milliseconds| milliseconds > 0);
                Ok(Self::Hold(uuid, Duration::from_millis(time.ok_or(Bad::Time)?)))
            }
            _ => Err(Bad::Line),
        }
    }
}

impl Answer {
    /// Reads a line, without its end.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        match text.split_once(' ') {
            None if text == "held" => Some(Self::Held),
            Some(("ready", "locked")) => Some(Self::Ready { locked: true }),
            Some(("ready", "unlocked")) => Some(Self::Ready { locked: false }),
            Some(("released", time)) => Some(Self::Released(Duration::from_micros(number(time)?))),
            Some(("failed", why)) => Some(Self::Failed(why.to_owned().into())),
            _ => None,
        }
    }

    /// Nothing was done, for this reason, on one line.
    pub(crate) fn failed(why: &impl fmt::Display) -> Self {
        Self::Failed(why.to_string().replace(char::is_control, " ").into())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold(uuid, most) => write!(f, "hold {uuid} {}", most.as_millis()),
            Self::Release => f.write_str("release"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { locked: true } => f.write_str("ready locked"),
            Self::Ready { locked: false } => f.write_str("ready unlocked"),
            Self::Held => f.write_str("held"),
            Self::Released(time) => write!(f, "released {}", time.as_micros()),
            Self::Failed(why) => write!(f, "failed {why}"),
        }
    }
}

/// A number in digits alone, where `u64::from_str` would also take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
