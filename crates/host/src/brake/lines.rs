//! Lines from a pipe, waited for with a deadline, in a buffer of fixed size: no line asks for memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The most bytes of a line with its end.
pub(super) const MOST: usize = 512;

/// A pipe, and what has been read from it and not taken yet.
#[derive(Debug)]
pub(super) struct Lines<F> {
    from: F,
    bytes: [u8; MOST],
    filled: usize,
    taken: usize,
    /// Whether the beginning of the next line was thrown away.
    beheaded: bool,
}

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// A line that was longer than any may be.
    TooLong,
    /// Nothing before the deadline.
    Nothing,
    /// The pipe has ended, or it is time to stop.
    End,
}

impl<F: AsFd> Lines<F> {
    pub(super) fn new(from: F) -> Self {
        Self { from, bytes: [0; MOST], filled: 0, taken: 0, beheaded: false }
    }

    /// Waits for a line, until the deadline, or until `stop` can be read or has ended.
    pub(super) fn next(
        &mut self,
        deadline: Option<Instant>,
        stop: Option<BorrowedFd<'_>>,
    ) -> io::Result<Heard<'_>> {
        loop {
            let waiting = self.bytes.get(self.taken..self.filled).unwrap_or_default();
            if let Some(length) = waiting.iter().position(|&byte| byte == b'\n') {
                let begin = self.taken;
                self.taken += length + 1;
                if std::mem::take(&mut self.beheaded) {
                    return Ok(Heard::TooLong);
                }
                return Ok(Heard::Line(self.bytes.get(begin..begin + length).unwrap_or_default()));
            }
            self.make_room();
            let stop_first = stop.unwrap_or(self.from.as_fd());
            let mut both = [
                PollFd::from_borrowed_fd(stop_first, PollFlags::IN),
                PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            ];
            match poll(&mut both, left_until(deadline).as_ref()) {
                Ok(0) => return Ok(Heard::Nothing),
                Ok(_) if stop.is_some() && !both[0].revents().is_empty() => return Ok(Heard::End),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if both[1].revents().is_empty() {
                continue;
            }
            let room = self.bytes.get_mut(self.filled..).unwrap_or_default();
            match rustix::io::read(&self.from, room) {
                Ok(0) => return Ok(Heard::End),
                Ok(read) => self.filled += read,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Moves what is there to the front; a line that fills the whole buffer is thrown away.
    fn make_room(&mut self) {
        self.bytes.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        if self.filled == MOST {
            (self.filled, self.beheaded) = (0, true);
        }
    }
}

/// How long to wait; `None` without end.
pub(super) fn left_until(deadline: Option<Instant>) -> Option<Timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    // Seconds that do not fit are for ever.
    Timespec::try_from(left).ok()
}

#[cfg(test)]
mod tests;
