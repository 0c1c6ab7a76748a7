//! The brake's process as the daemon has it: started, asked, and ended.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, Trouble};
use super::lines::{Heard, Lines};
use super::process::PAUSE;
use super::words::{Answer, Request};
use crate::dm::{self, Control};

/// How long the process may take to start, on a machine that is busy.
const START: Duration = Duration::from_secs(10);

/// A process that is ready. It ends with the value.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<ChildStdout>,
    locked: bool,
}

impl Process {
    /// Starts it, and waits until it is ready.
    pub(super) fn start(program: &Path, arguments: &[OsString]) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        // What is typed at the daemon's terminal is for the daemon, whose end the process sees for itself.
        command.process_group(0);
        let failed = |source| Error::Start { program: program.to_owned(), source };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::Error::other("it has no pipes")));
        };
        let mut process = Self { child, input, output: Lines::new(output), locked: false };
        match process.hear(START) {
            Ok(Answer::Ready { locked }) => {
                process.locked = locked;
                Ok(process)
            }
            Ok(other) => Err(Error::NotReady(Trouble::Unexpected(other.to_string()))),
            Err(trouble) => Err(Error::NotReady(trouble)),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether its memory is locked.
    pub(super) fn is_locked(&self) -> bool {
        self.locked
    }

    /// Itself, where it has not ended by itself.
    pub(super) fn unless_ended(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, request: &Request, patience: Duration) -> Result<Answer, Trouble> {
        // One short line: the pipe has room for it, since none before it was left unanswered.
        self.input.write_all(format!("{request}\n").as_bytes()).map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Trouble::Ended,
            _ => Trouble::Io(error),
        })?;
        self.hear(patience)
    }

    fn hear(&mut self, patience: Duration) -> Result<Answer, Trouble> {
        match self.output.next(Some(Instant::now() + patience), None)? {
            Heard::Line(line) => Answer::parse(line)
                .ok_or_else(|| Trouble::Unexpected(String::from_utf8_lossy(line).into_owned())),
            Heard::TooLong => Err(Trouble::Unexpected("a line that is too long".to_owned())),
            Heard::Nothing => Err(Trouble::Silent(patience)),
            Heard::End => Err(Trouble::Ended),
        }
    }

    /// Has the kernel end it. One that waits for the kernel itself ends when that wait does.
    fn kill(&mut self) {
        // One that has ended is no error, and there is no other.
        let _ = self.child.kill();
    }

    fn wait(&mut self) {
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.wait();
    }
}

/// Ends a process that failed, and resumes the device that it may have suspended, however long that takes.
///
/// The device is resumed before the process has ended, for the process may be waiting for that very device; and
/// after, for until then it may have suspended it anew. One that somebody else has suspended at that very moment is
/// resumed too: nothing tells them apart, and to leave a device suspended is the worse mistake.
pub(super) fn resume_after(mut process: Process, control: &Control, device: &str) {
    process.kill();
    resume(control, device);
    process.wait();
    resume(control, device);
}

fn resume(control: &Control, device: &str) {
    while let Err(error) = control.resume(device) {
        if matches!(error, dm::Error::NoSuchDevice(_)) {
            return;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Result<Process, Error> {
        Process::start(Path::new("/bin/sh"), &["-c".into(), script.into()])
    }

    /// What a process says, and what is made of it: each script is asked once, where it becomes ready.
    #[test]
    fn a_process_that_fails_is_told_from_one_that_answers() {
        let long = format!("echo ready locked; read line; echo held {}", "x".repeat(600));
        for (script, expected) in [
            ("echo ready unlocked; read line; echo \"failed $line\"", "failed release"),
            ("echo ready locked; read line; echo released 1500", "released 1500"),
            ("", "NotReady(Ended)"),
            ("exit 3", "NotReady(Ended)"),
            ("echo held", "NotReady(Unexpected(\"held\"))"),
            ("echo failed as it must", "NotReady(Unexpected(\"failed as it must\"))"),
            ("echo Ready", "NotReady(Unexpected(\"Ready\"))"),
            ("echo ready locked; read line", "Ended"),
            ("echo ready locked; read line; echo held by nobody", "Unexpected(\"held by nobody\")"),
            ("echo ready locked; read line; printf half; read line", "Silent(100ms)"),
            (&long, "Unexpected(\"a line that is too long\")"),
        ] {
            // Only one that is to be silent has little time to be.
            let patience = Duration::from_millis(if expected.starts_with("Silent") { 100 } else { 20_000 });
            let found = match start(script).map(|mut process| process.ask(&Request::Release, patience)) {
                Ok(Ok(answer)) => answer.to_string(),
                Ok(Err(trouble)) => format!("{trouble:?}"),
                Err(error) => format!("{error:?}"),
            };
            assert_eq!(found, expected, "{script}");
        }
        let error = Process::start(Path::new("/nowhere/asat"), &[]).unwrap_err();
        assert!(matches!(&error, Error::Start { .. }), "{error}");
    }

    #[test]
    fn a_process_that_has_ended_is_noticed_and_one_that_stands_still_is_ended() {
        let mut ended = start("echo ready locked; exec cat >/dev/null").unwrap();
        ended.kill();
        ended.wait();
        let answer = ended.ask(&Request::Release, Duration::from_secs(20));
        assert!(matches!(answer, Err(Trouble::Ended)), "{answer:?}");
        assert!(ended.unless_ended().is_none());
        // It would go on for ever; what is dropped has ended.
        let stopped = start("echo ready locked; kill -STOP $$; read line").unwrap();
        let id = stopped.id();
        let stopped = stopped.unless_ended().unwrap();
        drop(stopped);
        assert!(!Path::new("/proc").join(id.to_string()).exists());
    }
}
