//! A guest that runs: a group of processes, what they say, and their end.

use std::io::{BufRead as _, BufReader, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::processor::Processor;
use super::runner::Status;

/// How long a guest whose command has ended may take to write its disks.
const SYNC: Duration = Duration::from_secs(10);

/// How often a guest is reminded of its clock.
const NUDGE: Duration = Duration::from_millis(500);

/// The group of a guest's processes, led by its kernel. It ends with this value, whatever the test does.
pub struct Guest {
    kernel: Child,
    words: UnixStream,
    output: Option<Reader>,
    console: Option<Reader>,
    _processor: Processor,
}

type Reader = JoinHandle<Vec<u8>>;

impl Guest {
    /// Starts a command that has the socket to this runner as its standard input, and that runs on this processor.
    pub fn start(mut command: Command, processor: Processor) -> Self {
        let (words, theirs) = UnixStream::pair().unwrap();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut kernel = command.spawn().unwrap();
        // The command holds the guest's end of the socket: with it open here, the guest's end would not be seen.
        drop(command);
        let (output, console) = (kernel.stdout.take().unwrap(), kernel.stderr.take().unwrap());
        let on_end = words.try_clone().unwrap();
        let console = std::thread::spawn(move || {
            let said = read_all(console);
            // All processes of the guest have ended, so it has no more words.
            let _ = on_end.shutdown(Shutdown::Read);
            said
        });
        let output = std::thread::spawn(move || read_all(output));
        Self { kernel, words, output: Some(output), console: Some(console), _processor: processor }
    }

    /// Waits for what the guest says about its command, until the deadline.
    pub fn follow(&self, deadline: Instant) -> Status {
        let mut words = BufReader::new(&self.words);
        let mut status = None;
        let mut deadline = deadline;
        loop {
            match (self.next_word(&mut words, deadline).as_deref(), status) {
                (Some("synced"), Some(status)) => return status,
                (Some("cut"), None) => return Status::Cut,
                (Some(word), None) => {
                    let code = word.strip_prefix("exit ").and_then(|code| code.parse().ok());
                    status = Some(Status::Exit(code.unwrap_or_else(|| panic!("the guest said {word:?}"))));
                    deadline = Instant::now() + SYNC;
                }
                // A guest that cannot sync, as over a device that was left suspended, has still run its command.
                (_, Some(status)) => return status,
                (None, None) if Instant::now() < deadline => return Status::Died,
                (None, None) => return Status::Deadline,
            }
        }
    }

    /// The next line from the guest; none where it ended or the time is over.
    fn next_word(&self, words: &mut BufReader<&UnixStream>, deadline: Instant) -> Option<String> {
        while words.buffer().is_empty() && !self.says_something(deadline.min(Instant::now() + NUDGE)) {
            if Instant::now() >= deadline {
                return None;
            }
            self.nudge();
        }
        let mut line = String::new();
        match words.read_line(&mut line) {
            Ok(length) if length > 0 => Some(line.trim().to_owned()),
            _ => None,
        }
    }

    /// Waits for a word, or the end of all words.
    fn says_something(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let mut socket = [PollFd::new(&self.words, PollFlags::IN)];
        poll(&mut socket, Some(&left.try_into().unwrap())).unwrap_or_default() > 0
    }

    /// Sends the guest's kernel the signal of its timer, which it arms anew for each next moment. A guest was seen in which that
    /// timer had stopped for good: nothing woke by time any more, though whoever was awake went on. The signal should have the
    /// kernel look at its clock and arm its timer again; no guest was caught in that state to try it on.
    fn nudge(&self) {
        let pid = Pid::from_child(&self.kernel);
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        // Before it is the kernel, or has a timer, the signal would end it.
        if caught & (1 << (Signal::ALARM.as_raw() - 1)) != 0 {
            let _ = kill_process(pid, Signal::ALARM);
        }
    }

    /// Cuts the power; answers what was said on the output and on the console.
    pub fn end(mut self) -> (Vec<u8>, String) {
        self.cut();
        let rest = |reader: Option<Reader>| reader.unwrap().join().unwrap();
        let (output, console) = (rest(self.output.take()), rest(self.console.take()));
        (output, String::from_utf8_lossy(&console).into_owned())
    }

    fn cut(&mut self) {
        // The kernel is not waited for yet, so the group's number is still its own.
        let _ = kill_process_group(Pid::from_child(&self.kernel), Signal::KILL);
        let _ = self.kernel.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.output.is_some() {
            self.cut();
        }
    }
}

/// Reads to the end, on a thread of its own: the guest never waits for its reader.
fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    from.read_to_end(&mut all).unwrap();
    all
}
