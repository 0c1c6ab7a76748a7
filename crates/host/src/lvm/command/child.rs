//! A command's life: started, waited for, and left behind if it does not end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::call::Call;
use super::error::Error;
use super::lane::{Lane, Wedge};
use super::refusal::refusal;
use crate::clock;

/// The report of ten thousand volumes.
const MOST_OUTPUT: usize = 16 << 20;
/// Enough for what one command has to say; LVM repeats a warning for every volume.
const MOST_ERRORS: usize = 64 << 10;

static TICKETS: AtomicU64 = AtomicU64::new(0);

/// What became of a command.
struct Ended {
    status: ExitStatus,
    output: Captured,
    errors: Captured,
}

/// What a command wrote, as far as it is read.
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
        let (output, errors) = (in_memory()?, in_memory()?);
        let mut child = command.stdout(output.try_clone()?).stderr(errors.try_clone()?).spawn()?;
        *lock(&self.pid) = Some(child.id());
        let status = child.wait()?;
        Ok(Ended {
            status,
            output: Captured::from(&output, MOST_OUTPUT)?,
            errors: Captured::from(&errors, MOST_ERRORS)?,
        })
    }
}

/// A file in memory for a command to write to, and not a pipe: a command that found its pipe full, or closed because the
/// daemon was killed, would end with a volume suspended. Nor does anybody wait for what the command has started and left
/// behind. It has no path, as a file system may lie on a volume that is suspended.
fn in_memory() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("asat-lvm", MemfdFlags::CLOEXEC)?.into())
}

impl Captured {
    /// The beginning of a file; the command's own place in it stays as it is.
    fn from(file: &File, most: usize) -> io::Result<Self> {
        let written = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let mut bytes = vec![0; written.min(most)];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self { bytes, cut: written > most })
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
