//! The process that holds a device. Its whole life is one loop; how it holds and lets go is [`Holder`]'s.

use std::io::{Cursor, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};

use super::MOST_HOLD;
use super::error::Error;
use super::lines::{Heard, Lines, MOST};
use super::words::{Answer, Request};
use crate::dm::{self, Control};
use crate::volume::DeviceUuid;

/// Between two attempts to resume a device.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// Between two looks at whether what is held is still suspended: LVM resumes an origin at the end of each command that
/// changes one of its snapshots, and a writer at full speed fills a few hundred kilobytes in this time.
const LOOK: Duration = Duration::from_millis(1);

/// How long to wait for somebody else to resume what he has suspended. LVM does at the end of each command.
const OTHERS: Duration = Duration::from_millis(250);

/// Takes requests from `input` and answers on `output`, until the input ends, or until `stop` can be read or has ended.
/// Nothing is held when it returns, or when it unwinds.
///
/// # Errors
/// Where there is no device-mapper that it may use, and where the input fails.
pub fn serve(input: impl AsFd, output: impl AsFd, stop: impl AsFd) -> Result<(), Error> {
    let (output, stop) = (output.as_fd(), stop.as_fd());
    let control = Control::open().inspect_err(|error| say(output, &Answer::failed(error)))?;
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_ok();
    let mut lines = Lines::new(input);
    let mut holder = Holder { control, held: None, last: None };
    say(output, &Answer::Ready { locked });
    loop {
        // Whoever speaks without pause does not keep it from letting go.
        holder.hold_on();
        let answer = match lines.next(holder.next_look(), Some(stop))? {
            Heard::Nothing => continue,
            Heard::End => return Ok(()),
            Heard::TooLong => Answer::Failed("the line is too long".into()),
            Heard::Line(b"release") => holder.release(),
            // To read any other line may ask for memory.
            Heard::Line(_) if holder.held.is_some() => Answer::Failed("a device is held already".into()),
            Heard::Line(line) => match Request::parse(line) {
                Ok(Request::Hold(volume, most)) => holder.hold(volume, most),
                Ok(Request::Release) => holder.release(),
                Err(bad) => Answer::failed(&bad),
            },
        };
        say(output, &answer);
    }
}

/// Holds one device, or none. A device is let go with the value.
struct Holder {
    control: Control,
    held: Option<SuspendedDevice>,
    /// How long the last one was held, until somebody asks.
    last: Option<Duration>,
}

/// A device that is suspended.
struct SuspendedDevice {
    uuid: String,
    since: Instant,
    most: Duration,
}

impl Holder {
    fn hold(&mut self, volume: DeviceUuid, most: Duration) -> Answer {
        let (uuid, most) = (volume.to_string(), most.min(MOST_HOLD));
        self.last = None;
        // Writers wait from the moment at which the kernel begins to suspend.
        let mut held = SuspendedDevice { uuid, since: Instant::now(), most };
        let patience = held.since + OTHERS;
        while let Err(error) = self.control.suspend(&held.uuid) {
            if !matches!(error, dm::Error::Suspended(_)) || Instant::now() >= patience {
                return Answer::failed(&error);
            }
            thread::sleep(LOOK);
            held.since = Instant::now();
        }
        let in_time = held.since.elapsed() < most;
        self.held = Some(held);
        if in_time {
            return Answer::Held;
        }
        self.let_go();
        Answer::Failed("to suspend it took longer than it was to be held".into())
    }

    fn release(&mut self) -> Answer {
        self.let_go();
        self.last.take().map_or(Answer::Failed("nothing was held".into()), Answer::Released)
    }

    /// When to look again at what is held.
    fn next_look(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| (held.since + held.most).min(Instant::now() + LOOK))
    }

    /// Lets go where it is time to, and suspends again what LVM has resumed before.
    fn hold_on(&mut self) {
        let Some(held) = &self.held else { return };
        if held.since.elapsed() >= held.most {
            return self.let_go();
        }
        // Where that fails, it is tried again at the next look.
        let _ = self.control.suspend_again_within_memory(&held.uuid);
    }

    /// Resumes what is held, until that works. A device that is gone has no writers.
    fn let_go(&mut self) {
        let Some(held) = &self.held else { return };
        while let Err(errno) = self.control.resume_within_memory(&held.uuid) {
            if errno == Errno::NXIO {
                break;
            }
            thread::sleep(PAUSE);
        }
        self.last = Some(held.since.elapsed());
        self.held = None;
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Writes an answer, if it can be written without waiting. Whoever does not read misses it, and takes the process for
/// one that does not answer.
fn say(output: BorrowedFd<'_>, answer: &Answer) {
    let mut line = [b'\n'; MOST];
    let (text, _end) = line.split_at_mut(MOST - 1);
    let mut text = Cursor::new(text);
    // What does not fit is left out.
    let _ = write!(text, "{answer}");
    let length = usize::try_from(text.position()).unwrap_or_default() + 1;
    let mut ready = [PollFd::from_borrowed_fd(output, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut ready, Some(&at_once)) == Ok(1) {
        let _ = rustix::io::write(output, line.get(..length).unwrap_or_default());
    }
}
