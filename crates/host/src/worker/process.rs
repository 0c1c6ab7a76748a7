//! A worker as the daemon has it: started, told, heard, and ended.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::Trouble;
use super::frames::{self, HEAD, Kind};
use super::words::{Order, Said};

/// How long the process may take to start, on a machine that is busy.
const START: Duration = Duration::from_secs(20);
/// How long it may take to end what it was told to end.
const GRACE: Duration = Duration::from_secs(3);
/// How often it is looked whether an answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// What of the environment says where temporary files go, which large sorts need.
const ENVIRONMENT: [&str; 2] = ["TMPDIR", "SQLITE_TMPDIR"];

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard<'a> {
    Said(Said),
    /// Pages, one after the other.
    Pages(&'a [u8]),
}

/// A worker that is ready. It ends with the value.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    socket: UnixStream,
    frame: Vec<u8>,
    /// Whether it was told to end what it does, and must not be asked again.
    pub(super) is_spoiled: bool,
}

impl Process {
    pub(super) fn start(program: &Path, arguments: &[OsString]) -> Result<Self, Trouble> {
        let (ours, theirs) = UnixStream::pair().map_err(Trouble::Start)?;
        ours.set_nonblocking(true).map_err(Trouble::Start)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/");
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        // What is typed at the daemon's terminal is for the daemon, whose end the worker sees for itself.
        command.process_group(0);
        let child = command.spawn().map_err(Trouble::Start)?;
        // The command has the other end of the socket too, and the worker's end would not show.
        drop(command);
        let mut process = Self { child, socket: ours, frame: Vec::new(), is_spoiled: false };
        match process.hear(START, &AtomicBool::new(false))? {
            Heard::Said(Said::Ready) => Ok(process),
            Heard::Said(Said::Failed { problem, .. }) => {
                Err(Trouble::Start(io::Error::other(problem.detail)))
            }
            other => Err(nonsense(&other)),
        }
    }

    /// Whether it waits for the next request.
    pub(super) fn is_ready(&mut self) -> bool {
        let answers = |process: &mut Self| {
            process.tell(&Order::Ping)?;
            process
                .hear(Duration::from_secs(1), &AtomicBool::new(false))
                .map(|heard| matches!(heard, Heard::Said(Said::Ready)))
        };
        matches!(self.child.try_wait(), Ok(None)) && answers(self).unwrap_or(false)
    }

    /// Tells it what is wanted.
    pub(super) fn tell(&mut self, order: &Order) -> Result<(), Trouble> {
        let frame = frames::words(order).map_err(Trouble::Io)?;
        let mut rest = &frame[..];
        let until = Instant::now() + START;
        while !rest.is_empty() {
            match (&self.socket).write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, until, START)?;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Waits for what it says. Where `cancel` is set meanwhile it is told so, and has little time left.
    pub(super) fn hear(&mut self, patience: Duration, cancel: &AtomicBool) -> Result<Heard<'_>, Trouble> {
        let mut time = Time { until: Instant::now() + patience, patience };
        let mut head = [0; HEAD];
        self.fill(&mut head, &mut time, cancel)?;
        let Some((kind, length)) = Kind::read(head) else {
            return Err(Trouble::Nonsense("what is no frame".to_owned()));
        };
        let mut frame = std::mem::take(&mut self.frame);
        frame.resize(length, 0);
        self.fill(&mut frame, &mut time, cancel)?;
        self.frame = frame;
        match kind {
            Kind::Pages => Ok(Heard::Pages(&self.frame)),
            Kind::Words => match serde_json::from_slice(&self.frame) {
                Ok(said) => Ok(Heard::Said(said)),
                Err(error) => Err(Trouble::Nonsense(format!("words that are not understood: {error}"))),
            },
        }
    }

    fn fill(&mut self, mut buffer: &mut [u8], time: &mut Time, cancel: &AtomicBool) -> Result<(), Trouble> {
        while !buffer.is_empty() {
            if !self.is_spoiled && cancel.load(Ordering::Relaxed) {
                self.is_spoiled = true;
                time.until = time.until.min(Instant::now() + GRACE);
                self.tell(&Order::Cancel)?;
            }
            match (&self.socket).read(buffer) {
                Ok(0) => return Err(self.ended()),
                Ok(read) => buffer = buffer.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, time.until, time.patience)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Waits for the socket, for some time.
    fn wait(&mut self, flags: PollFlags, until: Instant, patience: Duration) -> Result<(), Trouble> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // What it does just now is of no use to anybody any more, and may hold locks.
            let _ = self.child.kill();
            return Err(Trouble::Silent(patience));
        }
        let left = Timespec::try_from(left.min(LOOK)).ok();
        match poll(&mut [PollFd::new(&self.socket, flags)], left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Trouble::Io(errno.into())),
        }
    }

    fn failed(&mut self, error: io::Error) -> Trouble {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.ended(),
            _ => Trouble::Io(error),
        }
    }

    /// How it ended: it has closed its end of the socket, and nothing else is to come of it.
    fn ended(&mut self) -> Trouble {
        self.give_time(GRACE);
        // One that has ended by itself keeps its own status.
        let _ = self.child.kill();
        Trouble::Ended(self.child.wait().ok())
    }

    /// Waits until it has ended, for some time.
    fn give_time(&self, time: Duration) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        let until = Instant::now() + time;
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)], left.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It closes the store properly where it is given the time, so that nothing is left beside it.
        let _ = self.socket.shutdown(Shutdown::Both);
        if matches!(self.child.try_wait(), Ok(None)) {
            self.give_time(GRACE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Until when there is time, and what is said where it is over.
struct Time {
    until: Instant,
    patience: Duration,
}

/// What was heard in the wrong place.
pub(super) fn nonsense(heard: &Heard<'_>) -> Trouble {
    Trouble::Nonsense(match heard {
        Heard::Pages(_) => "pages that nobody asked for".to_owned(),
        Heard::Said(said) => {
            let said: String = format!("{said:?}").chars().take(100).collect();
            format!("{said}, which nobody asked for")
        }
    })
}
