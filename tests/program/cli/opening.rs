//! `open` and `exec`: from a day to an open file in one step, and a command that runs on it.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{answered, at_a_terminal, done, refused, sum, text, world, world_with_history};
use crate::common::{PATIENCE, World};

/// Two versions, each with a label of its own and a business day, and a third one with the label of the second.
fn certified() -> World {
    let world = world();
    for (nth, label, day) in
        [(1, "october", "2026-10-31"), (2, "november", "2026-11-30"), (3, "november", "2026-11-30")]
    {
        world.sqlite().execute("UPDATE t SET x = ?1", [nth]).unwrap();
        done(&world, &["publish", "-l", label, "-b", day]);
    }
    world
}

/// The leases that are open.
fn leases(world: &World) -> Value {
    world.get("/leases").json()["leases"].clone()
}

#[test]
fn a_day_or_a_label_leads_to_an_open_file_in_one_step() {
    let world = certified();
    let cut_at = world.get("/versions/report@2").json()["cut_at"].as_str().unwrap().to_owned();
    for (arguments, version, content) in [
        (&["open", "report", "--business-date", "2026-10-31"][..], "report@1", "1"),
        (&["open", "report", "-b", "2026-11-15"], "report@1", "1"),
        (&["open", "--business-date", "2026-11-30"], "report@3", "3"),
        (&["open", "report", "--label", "october"], "report@1", "1"),
        (&["open", "report", "--as-of", &cut_at], "report@2", "2"),
        (&["open", "report", "--as-of", "now"], "report@3", "3"),
        (&["open", "report@latest"], "report@3", "3"),
    ] {
        // No terminal reads it, so the path is all that is printed, and nothing is said beside it.
        let output = world.asat(arguments);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{output:?}");
        let printed = text(&output.stdout);
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(printed.contains(version), "{arguments:?}: {printed}");
        assert_eq!(sum(printed.trim_end()), content, "{arguments:?}");
    }
    let opened = answered(&world, &["open", "report", "--as-of", "now", "--ttl", "90m", "--holder", "audit"]);
    assert_eq!((&opened["version"], &opened["holder"]), (&json!("report@3"), &json!("audit")));
}

#[test]
fn what_does_not_lead_to_one_version_opens_none() {
    let world = certified();
    for (arguments, exit_code, code, said) in [
        (&["open", "report", "--label", "november"][..], 3, "invalid", "report@3, report@2"),
        (&["open", "report", "--label", "december"], 4, "unknown_version", "december"),
        (&["open", "report", "--as-of", "2020-01-01"], 4, "before_first", "report"),
        (&["open", "report"], 3, "invalid", "no version of report is named"),
        (&["open"], 3, "invalid", "no version is named"),
        (&["open", "report@1", "--as-of", "now"], 3, "invalid", "one version already"),
    ] {
        let problem = refused(&world, arguments, exit_code, code);
        assert!(problem["detail"].as_str().unwrap().contains(said), "{arguments:?}: {problem}");
    }
    assert_eq!(leases(&world), json!([]));
}

#[test]
fn a_command_runs_on_a_version_and_its_lease_ends_with_it() {
    let world = world_with_history();
    let content =
        done(&world, &["exec", "report@1", "--", "sqlite3", "-readonly", "{}", "SELECT sum(x) FROM t"]);
    assert_eq!(content, "1\n");
    let found = done(
        &world,
        &["exec", "report", "--as-of", "now", "--", "sh", "-c", "echo $ASAT_VERSION; test -r $ASAT_PATH"],
    );
    assert_eq!(found, "report@2\n");
    // Nothing reads the arguments but the command.
    let given = done(&world, &["exec", "report@1", "--", "echo", "file:{}?mode=ro", "$HOME", "*"]);
    assert!(given.starts_with("file:/") && given.contains("/report.db?mode=ro $HOME *\n"), "{given}");

    for (command, expected) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["/nothing/of/this/name"], 127),
        (&["/"], 126),
    ] {
        let output = world.asat(&[&["exec", "report@1", "--"], command].concat());
        assert_eq!(output.status.code(), Some(expected), "{command:?}: {output:?}");
        assert_eq!(leases(&world), json!([]), "{command:?}");
    }
    let output = world.asat(&["exec", "report@1", "--", "/nothing/of/this/name"]);
    assert!(text(&output.stderr).starts_with("asat: cannot run /nothing/of/this/name: "), "{output:?}");
    assert_eq!(world.asat(&["exec", "report@9", "--", "true"]).status.code(), Some(4));
}

/// A command that runs until it is told to end.
fn waiting(world: &World, options: &[&str], command: &[&str]) -> Child {
    // Tests may be run by something that ignores a signal, as nohup does, and that is inherited.
    let mut asat = Command::new("env");
    asat.args(["--default-signal", env!("CARGO_BIN_EXE_asat")]);
    asat.env("ASAT_SERVER", format!("unix:{}", world.socket().display()));
    asat.args(["exec", "report@1"]).args(options).arg("--").args(command);
    let mut child = asat.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // It says when it runs.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn a_signal_ends_the_command_and_the_lease() {
    let world = world_with_history();
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut child = waiting(&world, &[], &["sh", "-c", "echo; exec sleep 1000"]);
        assert_eq!(leases(&world)[0]["version"], "report@1");
        refused(&world, &["retire", "report@1", "--yes"], 5, "leased");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{signal:?}");
        assert_eq!(leases(&world), json!([]), "{signal:?}");
    }
    // A command that ends in its own way says how.
    let mut child =
        waiting(&world, &[], &["sh", "-c", "trap 'exit 3' TERM; echo; while :; do sleep 0.05; done"]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(leases(&world), json!([]));
}

/// Counts how often it is interrupted.
const INTERRUPTED: &str = "
import signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print('[y/N] ', end='', flush=True)
end = time.monotonic() + 30
while count == 0 and time.monotonic() < end:
    time.sleep(0.05)
time.sleep(0.5)
print('interrupted', count)
raise SystemExit(5)
";

#[test]
fn what_is_typed_at_the_terminal_reaches_the_command_once() {
    let world = world_with_history();
    let output = at_a_terminal(&world, "\u{3}", &["exec", "report@1", "--", "python3", "-c", INTERRUPTED]);
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(5) && said.contains("interrupted 1\r\n"), "{output:?}");
    assert_eq!(leases(&world), json!([]));
}

#[test]
fn a_command_that_goes_on_without_its_terminal_does_so_here() {
    let world = world_with_history();
    let mut asat = Command::new("sh");
    asat.env("ASAT_SERVER", format!("unix:{}", world.socket().display())).stdin(Stdio::null());
    let command = "trap '' HUP; exec \"$0\" exec report@1 -- sh -c 'echo; exec sleep 1000'";
    let mut child =
        asat.args(["-c", command, env!("CARGO_BIN_EXE_asat")]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143), "it ends by the second signal");
    assert_eq!(leases(&world), json!([]));
}

#[test]
fn a_lease_is_renewed_as_long_as_the_command_runs() {
    let world = world_with_history();
    let mut child = waiting(&world, &["--ttl", "2s"], &["sh", "-c", "echo; exec sleep 1000"]);
    let ends = || leases(&world)[0]["expires_at"].as_str().map(str::to_owned);
    let first = ends().unwrap();
    let begin = Instant::now();
    while ends().is_none_or(|now| now <= first) || begin.elapsed() < Duration::from_secs(3) {
        assert!(begin.elapsed() < PATIENCE, "it is not renewed");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
}

#[test]
fn what_was_given_up_is_never_silently_left_out() {
    let world = world_with_history();
    done(&world, &["tag", "report", "close", "report@1"]);
    let moved = done(&world, &["tag", "report", "close", "report@2"]);
    assert_eq!(moved, "report@close leads to report@2; before, it led to report@1\n");
    done(&world, &["retire", "report@1", "--yes"]);
    refused(&world, &["open", "report", "--label", "first"], 12, "retired");
    let folder = world.path("exported");
    let output = world.asat(&["export", "report@1..2", "--to", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "asat: left out, as retired: report@1\n");

    done(&world, &["tag", "report", "close", "--delete"]);
    let would = done(&world, &["retire", "report@2", "--dry-run"]);
    assert!(would.contains("it is the newest of its store"), "{would}");
    done(&world, &["retire", "report@2", "--yes"]);
    let output = world.asat(&["ls", "report"]);
    assert!(text(&output.stderr).contains("asat ls report --state any"), "{output:?}");
}

#[test]
fn the_older_of_a_time_and_a_named_version_comes_first() {
    let world = world_with_history();
    let between = answered(&world, &["show", "report@1"])["cut_at"].as_str().unwrap().to_owned();
    for (version, as_of) in [("report@1", "now"), ("report@2", between.as_str())] {
        let output = world.asat(&["diff", version, "--as-of", as_of]);
        assert!(text(&output.stdout).starts_with("report@1 -> report@2\n"), "{version} {as_of}: {output:?}");
    }
}
