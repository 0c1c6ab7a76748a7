//! Events of the device-mapper, as they happen.
//!
//! The kernel tells of each event of a target, and of each change of what devices there are: a classic snapshot that has
//! just become invalid, a thin pool that has reached its low-water mark or has changed its mode. It says that something
//! has happened, and not what: whoever hears it looks for himself.

use std::io::PipeReader;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::control::Control;
use super::error::Error;

/// From this version on, the kernel tells of events to whoever polls the control node.
const SINCE: (u32, u32) = (4, 37);

/// A control node that is polled for events.
#[derive(Debug)]
pub struct Events {
    control: Control,
}

impl Events {
    /// Hears of all that happens from now on.
    ///
    /// # Errors
    /// As [`Control::open`], and with [`Error::NoEvents`] where the kernel tells nobody.
    pub fn open() -> Result<Self, Error> {
        let control = Control::open()?;
        match control.version()? {
            (major, minor, _) if (major, minor) < SINCE => Err(Error::NoEvents(major, minor)),
            _ => Ok(Self { control }),
        }
    }

    /// Waits until something has happened since this was called last, and answers true; or until the other end of the pipe
    /// is closed, and answers false.
    ///
    /// # Errors
    /// Where the kernel refuses to wait.
    pub fn wait(&self, end: &PipeReader) -> Result<bool, Error> {
        let mut polled = [PollFd::new(&self.control, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        while let Err(errno) = poll(&mut polled, None) {
            if errno != Errno::INTR {
                let (doing, object) = ("wait for", "events".to_owned());
                return Err(Error::Io { doing, object, source: errno.into() });
            }
        }
        let [_, end] = polled;
        if !end.revents().is_empty() {
            return Ok(false);
        }
        // What happens from here on is heard at the next call, whatever is seen before.
        self.control.arm()?;
        Ok(true)
    }
}
