//! Commands that do not come to their end: by a signal, or as nobody reads what they print.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, Read as _};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{answered, text, world_with_history};
use crate::common::World;

/// A command that hears of signals whatever runs the tests: some ignore a signal, and that is inherited.
fn command(world: &World, arguments: &[&str]) -> Command {
    let mut asat = Command::new("env");
    asat.args(["--default-signal", env!("CARGO_BIN_EXE_asat")]).args(arguments);
    asat.env("ASAT_SERVER", format!("unix:{}", world.socket().display()));
    asat.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    asat
}

/// Waits until a child listens for signals, which it does with a thread of this name.
fn wait_until_it_listens(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let listens = || {
        let is_it = |task: fs::DirEntry| name(task) == "signals\n";
        fs::read_dir(&tasks).is_ok_and(|tasks| tasks.flatten().any(is_it))
    };
    // The handlers are there when SIGTERM is among the signals that are caught.
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> 14 & 1 == 1)
    };
    while !(listens() && catches()) {
        std::thread::yield_now();
    }
}

#[test]
fn a_signal_ends_a_command_that_waits_for_its_input() {
    let world = world_with_history();
    let pipe = world.path("pipe");
    let made = Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap();
    assert!(made.success());
    let path = pipe.to_str().unwrap();
    for arguments in [&["sql"][..], &["sql", "--file", path], &["stores", "--token-file", path]] {
        for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut child = command(&world, arguments).stdin(Stdio::piped()).spawn().unwrap();
            wait_until_it_listens(&child);
            kill_process(Pid::from_child(&child), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(expected), "{arguments:?} {signal:?}");
        }
    }
}

#[test]
fn a_signal_ends_a_command_whose_output_nobody_reads() {
    let world = world_with_history();
    let query = "with recursive n(i) as (select 1 union all select i + 1 from n limit 200000) select i, 'a row' from n";
    let mut child = command(&world, &["sql", "--limit", "200000", query]).spawn().unwrap();
    wait_until_it_listens(&child);
    // It has begun to print, and the rest is more than a pipe holds.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// The writing end of a pipe that is full, and its other end.
fn full() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // So much a pipe holds (`pipe(7)`).
    std::io::Write::write_all(&mut writer, &[0; 64 << 10]).unwrap();
    (reader, writer)
}

#[test]
fn a_signal_ends_a_command_whose_messages_nobody_reads() {
    let world = world_with_history();
    let (_reader, writer) = full();
    let mut child = command(&world, &["show", "report@99"]).stderr(writer).spawn().unwrap();
    wait_until_it_listens(&child);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_command_hears_of_a_signal_though_nobody_reads_what_asat_says() {
    let world = world_with_history();
    let (_reader, writer) = full();
    let mut asat =
        command(&world, &["exec", "report@1", "--ttl", "1s", "--", "sh", "-c", "echo; exec sleep 1000"]);
    let mut child = asat.stderr(writer).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let lease = answered(&world, &["leases"])["leases"][0]["lease"].as_str().unwrap().to_owned();
    answered(&world, &["leases", "revoke", &lease, "--reason", "a test"]);
    // It cannot be renewed any more, and a thread says so.
    let threads = || fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count);
    let before = threads();
    while threads() == before {
        std::thread::yield_now();
    }
    // The first one is the command's. What asat says of the lease in the end waits for a reader, too.
    while child.try_wait().unwrap().is_none() {
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        std::thread::yield_now();
    }
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_second_signal_ends_what_waits_for_a_daemon_that_does_not_answer() {
    let world = world_with_history();
    let still = world.stand_still();
    for arguments in [&["open", "report@1"][..], &["exec", "report@1", "--", "true"]] {
        let mut child = command(&world, arguments).spawn().unwrap();
        wait_until_it_listens(&child);
        while child.try_wait().unwrap().is_none() {
            // What has ended meanwhile hears of no signal.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            std::thread::yield_now();
        }
        assert_eq!(child.wait().unwrap().code(), Some(143), "{arguments:?}");
    }
    drop(still);
}

/// Starts a command that runs on a version until it is ended, and answers that command's process, too.
fn running(world: &World, ttl: &str) -> (Child, Pid) {
    let arguments = ["exec", "report@1", "--ttl", ttl, "--", "sh", "-c", "echo $$; exec sleep 1000"];
    let mut child = command(world, &arguments).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, Pid::from_raw(line.trim().parse().unwrap()).unwrap())
}

fn has_ended(process: Pid) -> bool {
    rustix::process::test_kill_process(process).is_err()
}

#[test]
fn signals_that_come_at_once_leave_no_command_and_no_lease() {
    let world = world_with_history();
    for others in
        [&[Signal::INT][..], &[Signal::HUP], &[Signal::TERM], &[Signal::QUIT, Signal::HUP, Signal::INT]]
    {
        let (mut child, run) = running(&world, "10m");
        for signal in [&[Signal::TERM][..], others].concat() {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        assert!(child.wait().unwrap().code().is_some(), "{others:?}");
        assert!(has_ended(run), "{others:?}: the command runs on");
        assert_eq!(answered(&world, &["leases"])["leases"], json!([]), "{others:?}");
    }
}

#[test]
fn a_command_hears_of_a_signal_though_the_daemon_does_not_answer() {
    let world = world_with_history();
    let (mut child, run) = running(&world, "1s");
    let sockets = || {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
        let named = open.filter_map(|open| fs::read_link(open.path()).ok());
        named.filter(|name| name.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    let still = world.stand_still();
    // A renewal is under way, which no answer comes to.
    while sockets() == before {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    // It ends before asat does, which tries to give the lease back.
    while !has_ended(run) {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    drop(still);
}

#[test]
fn an_export_that_is_ended_by_several_signals_leaves_nothing() {
    let world = world_with_history();
    let folder = world.path("out");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("x.db");
    for _ in 0..10 {
        let mut child = command(&world, &["export", "report@1", "--to", file.to_str().unwrap(), "--force"])
            .spawn()
            .unwrap();
        wait_until_it_listens(&child);
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            // It may have ended by then.
            let _ = kill_process(Pid::from_child(&child), signal);
        }
        child.wait().unwrap();
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "x.db"), "{left:?}");
    }
}

#[test]
fn a_closed_pipe_changes_nothing_of_how_a_command_ends() {
    let mut world = world_with_history();
    let ends = |world: &World, arguments: &[&str]| {
        let mut child = command(world, arguments).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap().code(), said)
    };
    let silently = |code: i32| (Some(code), String::new());
    assert_eq!(ends(&world, &["stores"]), silently(0));
    for how in [&[][..], &["--rows"], &["--format", "jsonl"], &["--format", "sql"], &["--json"]] {
        let arguments = [&["diff", "report@1", "report@2"], how].concat();
        assert_eq!(ends(&world, &arguments), silently(1), "{how:?}");
    }
    // What somebody must look after is told all the same.
    let config = std::mem::replace(&mut world.config, "nothing = 1".to_owned());
    world.reload("the new configuration is refused");
    assert_eq!(ends(&world, &["status"]), silently(13));
    let shown = text(&world.asat(&["status"]).stdout);
    assert!(shown.contains("is refused, so the configuration before stays"), "{shown}");
    assert!(shown.contains("asat serve --check --config ") && !shown.contains("nothing = "), "{shown}");
    world.config = config;
    world.reload("is in force");
    assert_eq!(ends(&world, &["status"]), silently(0));
}

#[test]
fn a_lease_of_which_nobody_learns_is_given_back() {
    let world = world_with_history();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&world, &["open", "report@1"]).stdout(full()).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("cannot write to standard output"),
        "{output:?}"
    );
    assert_eq!(answered(&world, &["leases"])["leases"], json!([]));

    let mut child = command(&world, &["open", "report@1"]).stdout(closed()).spawn().unwrap();
    assert!(child.wait().unwrap().code().is_some());
    assert_eq!(answered(&world, &["leases"])["leases"], json!([]));
    // What was done stays done, and it is said.
    let output = command(&world, &["pin", "report@1", "--reason", "audit"]).stdout(full()).output().unwrap();
    assert!(text(&output.stderr).contains("done all the same"), "{output:?}");
    assert_eq!(answered(&world, &["show", "report@1"])["pin"]["reason"], "audit");
}

/// The writing end of a pipe that nobody reads.
fn closed() -> std::io::PipeWriter {
    let (_, writer) = std::io::pipe().unwrap();
    writer
}

#[test]
fn a_mistake_on_the_command_line_is_told_as_json_if_that_is_wanted() {
    let world = world_with_history();
    let output = world.asat(&["publis", "--json"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let problem: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    let expected = json!({
        "code": "invalid", "detail": "unrecognized subcommand 'publis'", "hint": "a similar subcommand exists: 'publish'"
    });
    assert_eq!(problem, expected);
    let output = world.asat(&["--json", "--version"]);
    assert!(output.status.success() && text(&output.stdout).starts_with("asat "), "{output:?}");
}
