//! The daemon that is measured: a process of its own, started, asked how large it grew, and ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use rustix::process::{Pid, Signal, kill_process};

use super::failed;
use super::statistics::{float, ms_since};

/// The kernel tells of processor time in hundredths of a second, whatever it counts in itself: `USER_HZ`, which is part
/// of its interface on every machine that asat is built for.
pub(super) const TICKS_PER_SECOND: f64 = 100.0;

/// How long the daemon may take to become ready or to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a daemon may have something left to do: it compares each version of a long history with the one before.
const BACKLOG: Duration = Duration::from_secs(3600);

/// How long a daemon is looked at to see whether it does anything.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// How long a daemon that nobody needs any more may take to end by itself.
const GRACE: Duration = Duration::from_secs(10);

/// The program that is measured: the one of the same build, which cargo puts into the same folder.
pub(super) fn program() -> Result<PathBuf, Problem> {
    let own = std::env::current_exe().map_err(|error| failed("find itself", error))?;
    let program = own.with_file_name("asat");
    if program.is_file() {
        return Ok(program);
    }
    let detail = format!("there is no program {} to measure", program.display());
    Err(Problem::new(Code::Configuration, detail, "build it as this one was built: `make bench` builds both"))
}

/// A daemon that is ready. Dropped, it is ended, by force where it does not end soon.
pub(super) struct Daemon {
    child: Child,
    log: Receiver<String>,
    /// From its start until it was ready, in milliseconds.
    pub(super) ready_ms: f64,
}

impl Daemon {
    /// Starts a daemon, and waits until it is ready.
    pub(super) fn start(config: &Path) -> Result<Self, Problem> {
        let cannot = |error| failed("start a daemon", error);
        let mut command = Command::new(program()?);
        command.arg("serve").arg("--config").arg(config).env("ASAT_LOG", "info");
        let since = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(cannot)?;
        let stderr = child.stderr.take();
        let (sender, log) = channel();
        // From here on an error ends the process too.
        let mut daemon = Self { child, log, ready_ms: 0.0 };
        let read = move || {
            for line in BufReader::new(stderr.into_iter().next()?).lines().map_while(Result::ok) {
                // The pipe is read to its end even where nobody listens, so that the daemon never waits for it.
                let _ = sender.send(line);
            }
            Some(())
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(read).map_err(cannot)?;
        daemon.wait_until_ready()?;
        daemon.ready_ms = ms_since(since);
        Ok(daemon)
    }

    fn wait_until_ready(&self) -> Result<(), Problem> {
        let (mut said, deadline) = (String::new(), Instant::now() + PATIENCE);
        loop {
            match self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.ends_with(": ready") => return Ok(()),
                Ok(line) => said = line,
                Err(RecvTimeoutError::Timeout) => return Err(failed("wait for the daemon any longer", said)),
                Err(RecvTimeoutError::Disconnected) => return Err(failed("use a daemon that ended", said)),
            }
        }
    }

    /// Waits until it uses next to no processor time.
    pub(super) async fn until_idle(&self) -> Result<(), Problem> {
        // A daemon that waits for requests uses less than this share of one processor.
        const IDLE_SHARE: f64 = 0.01;
        let (mut before, deadline) = (self.thread_seconds("")?, Instant::now() + BACKLOG);
        while Instant::now() < deadline {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let now = self.thread_seconds("")?;
            // Threads that have ended are not counted any more.
            if (now - before).abs() < IDLE_SHARE * BETWEEN_LOOKS.as_secs_f64() {
                return Ok(());
            }
            before = now;
        }
        Err(failed("wait for the daemon any longer", "it goes on working"))
    }

    /// The processor time of its threads whose names begin so, in seconds.
    pub(super) fn thread_seconds(&self, name: &str) -> Result<f64, Problem> {
        let cannot = |error: std::io::Error| failed("look at the daemon's threads", error);
        let mut nanoseconds = 0.0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id())).map_err(cannot)? {
            let thread = thread.map_err(cannot)?.path();
            // One that has ended meanwhile needs nothing any more.
            let Ok(comm) = fs::read_to_string(thread.join("comm")) else { continue };
            let Ok(stat) = fs::read_to_string(thread.join("schedstat")) else { continue };
            if comm.starts_with(name) {
                let spent = stat.split(' ').next().and_then(|word| word.parse::<f64>().ok());
                nanoseconds += spent.ok_or_else(|| failed("read a thread's time", &stat))?;
            }
        }
        Ok(nanoseconds / 1e9)
    }

    /// The most memory that it ever had resident, in bytes.
    pub(super) fn peak_rss_bytes(&self) -> Result<u64, Problem> {
        self.status_bytes("VmHWM:")
    }

    /// The memory that it has resident now, in bytes.
    pub(super) fn rss_bytes(&self) -> Result<u64, Problem> {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, field: &str) -> Result<u64, Problem> {
        let file = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&file).map_err(|error| failed("look at the daemon", error))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| failed("read the daemon's memory", field))
    }

    /// The processor time that it has used so far, with that of the commands that it has run, in seconds.
    pub(super) fn processor_seconds(&self) -> Result<f64, Problem> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.map_err(|error| failed("look at the daemon", error))?;
        let ticks =
            processor_ticks(&stat).ok_or_else(|| failed("read the daemon's processor time", &stat))?;
        Ok(float(ticks) / TICKS_PER_SECOND)
    }

    /// Ends it without a warning.
    pub(super) fn kill(mut self) -> Result<(), Problem> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| failed("kill the daemon", error))
    }

    /// Ends it as a service manager would.
    pub(super) fn stop(mut self) -> Result<(), Problem> {
        let stopped = kill_process(Pid::from_child(&self.child), Signal::TERM);
        stopped.map_err(|error| failed("stop the daemon", error))?;
        let deadline = Instant::now() + PATIENCE;
        // The log ends with the process.
        while self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        if Instant::now() >= deadline {
            return Err(failed("stop the daemon", "it goes on"));
        }
        let status = self.child.wait().map_err(|error| failed("wait for the daemon", error))?;
        if status.success() { Ok(()) } else { Err(failed("trust a daemon that failed", status)) }
    }
}

/// The processor time in a process's `stat`, in the kernel's ticks: its own as a user and in the kernel, and the same of
/// its children that have ended, which are the 14th to the 17th field (proc_pid_stat(5)).
pub(super) fn processor_ticks(stat: &str) -> Option<u64> {
    // The second field is a name, in brackets, that may have anything in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let times: Option<Vec<u64>> =
        fields.split(' ').skip(11).take(4).map(|field| field.parse().ok()).collect();
    times.filter(|times| times.len() == 4).map(|times| times.iter().sum())
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have a file system mounted, or be in the middle of a snapshot: it ends those best itself.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let deadline = Instant::now() + GRACE;
            while self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        }
        // One that has ended already needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_the_process_and_of_its_children() {
        let stat = "42 (a) name) S 1 42 42 0 -1 4194304 100 200 0 0 7 5 30 10 20 0 9 0 1234 5678 90";
        assert_eq!(processor_ticks(stat), Some(52));
        for hostile in ["", "42 (name) S 1 2 3", "42 (name) S 1 42 42 0 -1 4 1 2 0 0 7 x 30 10 20"] {
            assert_eq!(processor_ticks(hostile), None, "{hostile:?}");
        }
    }
}
