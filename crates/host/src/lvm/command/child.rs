//! A command's life: started, listened to, and left behind where it does not end.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::call::Call;
use super::error::Error;
use super::lane::{Lane, Wedge};
use super::refusal::refusal;
use crate::clock;

/// The report of ten thousand volumes.
const MOST_OUTPUT: usize = 16 << 20;
/// Enough for what one command has to say; LVM repeats a warning for every volume.
const MOST_ERRORS: usize = 64 << 10;
/// How long the output may stay open after the command's own end, held by something that it started.
const GRACE: Duration = Duration::from_millis(500);

static TICKETS: AtomicU64 = AtomicU64::new(0);

/// What became of a command.
struct Ended {
    status: ExitStatus,
    output: Captured,
    errors: Captured,
}

/// What a command wrote, as far as it is kept.
#[derive(Clone, Default)]
struct Captured {
    bytes: Vec<u8>,
    cut: bool,
}

pub(super) fn run(binary: &Path, call: &Call, deadline: Duration, lane: &Lane) -> Result<String, Error> {
    if let Some(wedge) = lane.wedged() {
        return Err(Error::Wedged { asked: call.to_string(), wedge });
    }
    let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
    let since = clock::now();
    let pid = Arc::new(Mutex::new(None));
    let (end, ended) = mpsc::sync_channel(1);
    let minder = Minder { ticket, lane: lane.clone(), pid: Arc::clone(&pid), end };
    minder
        .start(command(binary, call))
        .map_err(|source| Error::Start { command: call.to_string(), source })?;

    let end = match ended.recv_timeout(deadline) {
        Ok(end) => end,
        Err(RecvTimeoutError::Timeout) => {
            // Both sides decide under the lane's lock: the command has ended by now, or its minder will
            // find the wedge.
            let mut wedges = lane.lock();
            match ended.try_recv() {
                Ok(end) => end,
                Err(_) => {
                    let pid = *lock(&pid);
                    let wedge = Wedge { command: call.to_string(), since, pid, ticket };
                    wedges.push(wedge.clone());
                    return Err(Error::Wedged { asked: call.to_string(), wedge });
                }
            }
        }
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("its thread ended early")),
    };
    judge(call, end.map_err(|source| Error::Start { command: call.to_string(), source })?)
}

fn command(binary: &Path, call: &Call) -> Command {
    let mut command = Command::new(binary);
    command
        .args(call.words())
        .current_dir("/")
        .env_clear()
        // Messages are recognised by their words, so they must be the original ones.
        .env("LC_ALL", "C")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        // The daemon's files are closed on exec; what a service manager left open is no news.
        .env("LVM_SUPPRESS_FD_WARNINGS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

/// The thread that starts a command and stays with it. Starting is its work too, for even that waits
/// where the program lies on a volume that is suspended.
struct Minder {
    ticket: u64,
    lane: Lane,
    pid: Arc<Mutex<Option<u32>>>,
    end: SyncSender<io::Result<Ended>>,
}

impl Minder {
    fn start(self, command: Command) -> io::Result<()> {
        thread::Builder::new().name("lvm-command".to_owned()).spawn(move || {
            let end = self.mind(command);
            let mut wedges = self.lane.lock();
            wedges.retain(|wedge| wedge.ticket != self.ticket);
            // Where the caller has gone, nobody wants to know.
            let _ = self.end.try_send(end);
        })?;
        Ok(())
    }

    fn mind(&self, mut command: Command) -> io::Result<Ended> {
        let mut child = command.spawn()?;
        *lock(&self.pid) = Some(child.id());
        let output = child.stdout.take().map(|pipe| listen(pipe, MOST_OUTPUT)).transpose();
        let errors = child.stderr.take().map(|pipe| listen(pipe, MOST_ERRORS)).transpose();
        let status = child.wait()?;
        let taken = |listener: Option<Listener>| listener.map(Listener::take).unwrap_or_default();
        Ok(Ended { status, output: taken(output?), errors: taken(errors?) })
    }
}

/// What is being read from a pipe.
struct Listener {
    captured: Arc<Mutex<Captured>>,
    closed: Receiver<()>,
}

/// Reads a pipe to its end and keeps the beginning. What is too much is read all the same: a command
/// that found its pipe full or closed could stop with a volume suspended.
fn listen(mut pipe: impl Read + Send + 'static, most: usize) -> io::Result<Listener> {
    let captured = Arc::new(Mutex::new(Captured::default()));
    let kept = Arc::clone(&captured);
    let (close, closed) = mpsc::sync_channel::<()>(1);
    thread::Builder::new().name("lvm-output".to_owned()).spawn(move || {
        let _close = close;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = match pipe.read(&mut chunk) {
                Ok(read) if read > 0 => chunk.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return,
            };
            let mut captured = lock(&kept);
            let room = most.saturating_sub(captured.bytes.len());
            captured.cut |= read.len() > room;
            captured.bytes.extend(read.iter().take(room));
        }
    })?;
    Ok(Listener { captured, closed })
}

impl Listener {
    fn take(self) -> Captured {
        // Nothing is ever sent: the channel closes with the pipe.
        let _ = self.closed.recv_timeout(GRACE);
        lock(&self.captured).clone()
    }
}

/// Turns a command's end into its output or an error.
fn judge(call: &Call, ended: Ended) -> Result<String, Error> {
    let errors = String::from_utf8_lossy(&ended.errors.bytes).into_owned();
    match ended.status.code() {
        Some(0) => {}
        Some(status) => {
            let refusal = refusal(status, &errors);
            return Err(Error::Refused { command: call.to_string(), status, refusal, said: gist(&errors) });
        }
        None => return Err(Error::Killed { command: call.to_string(), status: ended.status }),
    }
    let unreadable = |what: &str| Error::Unreadable { command: call.to_string(), what: what.to_owned() };
    if ended.output.cut {
        return Err(unreadable("it is longer than any that asat expects"));
    }
    String::from_utf8(ended.output.bytes).map_err(|_| unreadable("it is not UTF-8"))
}

/// What a command said, without its warnings, in one short line.
fn gist(errors: &str) -> String {
    let lines =
        errors.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("WARNING:"));
    let line: String = lines.collect::<Vec<_>>().join("; ");
    line.chars().filter(|c| !c.is_control()).take(600).collect()
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
