//! `exec`: a command runs on a version, which is leased for exactly as long.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use asat_client::{Client, Request};
use asat_core::{Code, Problem};
use asat_wire::{Mount, RenewRequest};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::args::ExecArgs;
use super::open;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::signals::Signals;

/// What `{}` in an argument stands for is put in its place.
const PLACE: &[u8] = b"{}";
/// The exit status for a command that is there and cannot be run, as shells have it.
const NOT_RUN: u8 = 126;
/// The exit status for a command that is not there, as shells have it.
const NOT_FOUND: u8 = 127;

pub(super) async fn exec(
    args: &ExecArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let mount =
        open::lease(&args.find, (args.holder.as_deref(), args.ttl), client, bars, (output, signals)).await?;
    let status = match run(&args.command, &mount) {
        Ok(child) => attend(child, args.ttl, &mount, client, output, signals).await,
        Err(error) => Err(error),
    };
    // The command has ended. Its status is what the caller wants, also if the lease cannot be given back.
    open::give_back(&mount, client, output, signals).await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Exit(code(status))),
        Err(error) => {
            let command = args.command.first().map_or_else(String::new, |name| name.display().to_string());
            let detail = format!("cannot run {command}: {error}");
            output.problem(&Problem::new(Code::Invalid, detail, "name a program in PATH, or its whole path"));
            Err(Failure::Exit(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }))
        }
    }
}

fn run(command: &[OsString], mount: &Mount) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it has no name"));
    };
    Command::new(program)
        .args(arguments.iter().map(|argument| filled(argument, OsStr::new(&mount.path))))
        .env("ASAT_PATH", &mount.path)
        .env("ASAT_VERSION", &mount.version)
        .spawn()
}

/// An argument with the path in each place for it.
fn filled(argument: &OsStr, path: &OsStr) -> OsString {
    let mut rest = argument.as_bytes();
    let mut whole = Vec::with_capacity(rest.len());
    while let Some(at) = rest.windows(PLACE.len()).position(|bytes| bytes == PLACE) {
        whole.extend_from_slice(rest.get(..at).unwrap_or_default());
        whole.extend_from_slice(path.as_bytes());
        rest = rest.get(at.saturating_add(PLACE.len())..).unwrap_or_default();
    }
    whole.extend_from_slice(rest);
    OsString::from_vec(whole)
}

/// Waits for the command; meanwhile its lease is renewed, and it hears of the signals that come here.
async fn attend(
    mut child: Child,
    ttl: u32,
    mount: &Mount,
    client: &Client,
    output: &Output,
    signals: &mut Signals,
) -> io::Result<ExitStatus> {
    // The handle stays that of this process, also if its number is given to another one. Without it the command hears of what is typed
    // at its terminal, and of nothing else.
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
    let mut ended = pin!(tokio::task::spawn_blocking(move || child.wait()));
    let mut renewals = pin!(renew_again_and_again(mount, ttl, client, output));
    loop {
        tokio::select! {
            status = &mut ended => return status?,
            (signal, _) = signals.next() => pass_on(handle.as_ref(), signal),
            never = &mut renewals => match never {},
        }
    }
}

/// Renews the lease thrice in its time.
async fn renew_again_and_again(mount: &Mount, ttl: u32, client: &Client, output: &Output) -> Infallible {
    let mut renewal = tokio::time::interval(Duration::from_secs(u64::from(ttl)) / 3);
    renewal.tick().await;
    loop {
        renewal.tick().await;
        if let Err(problem) = renew(mount, ttl, client).await {
            output.remark_apart(format!("the lease of {} is not renewed: {}", mount.version, problem.detail));
        }
    }
}

async fn renew(mount: &Mount, ttl: u32, client: &Client) -> Result<Mount, Problem> {
    let request = Request::put(&["versions", &mount.version, "mounts", &mount.lease]);
    client.ask(&request.json(&RenewRequest { ttl_seconds: ttl })?).await
}

/// Tells the command of a signal that came here. What is typed at its terminal, the kernel has told it already; it would hear of
/// it twice, which some programs take for an order to end at once.
fn pass_on(command: Option<&OwnedFd>, signal: Signal) {
    let is_typed = [Signal::INT, Signal::QUIT].contains(&signal);
    if let Some(command) = command.filter(|_| !(is_typed && is_in_foreground())) {
        // A command that has ended meanwhile needs no signal.
        let _ = pidfd_send_signal(command, signal);
    }
}

/// Whether this process and the command are those that hear what is typed at the terminal: their group is the terminal's (`proc(5)`,
/// `stat`).
fn is_in_foreground() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    is_foreground(&stat)
}

fn is_foreground(stat: &str) -> bool {
    // The name of the program may have anything in it, and ends with the last bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    matches!((fields.get(2), fields.get(5)), (Some(group), Some(foreground)) if group == foreground)
}

/// The exit status as shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|number| number.saturating_add(128));
    status.code().or_else(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_put_in_each_place_for_it() {
        let filled = |argument: &str| filled(OsStr::new(argument), OsStr::new("/a b")).into_string().unwrap();
        for (argument, expected) in [
            ("{}", "/a b"),
            ("file:{}?mode=ro", "file:/a b?mode=ro"),
            ("{}{}", "/a b/a b"),
            ("{{}}", "{/a b}"),
            ("{ }", "{ }"),
            ("", ""),
        ] {
            assert_eq!(filled(argument), expected, "{argument}");
        }
    }

    #[test]
    fn the_exit_status_is_that_of_shells() {
        for (raw, expected) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (2, 130), (15, 143)] {
            assert_eq!(code(ExitStatus::from_raw(raw)), expected, "{raw}");
        }
    }

    #[test]
    fn the_terminal_s_group_hears_what_is_typed() {
        assert!(is_foreground("7 (a) b) S 1 7 7 34816 7 4194304 0"));
        assert!(!is_foreground("7 (a) b) S 1 7 7 34816 9 4194304 0"));
        assert!(!is_foreground("7 (asat) S 1 7 7 0 -1 4194304 0") && !is_foreground(""));
    }
}
