//! A machine under a real systemd, for tests of the service: namespaces of its own on this kernel, over a throw-away view of
//! this machine's files.
//!
//! A test calls [`in_machine`] with what it checks. Outside, the machine is booted, and the very same test runs inside it,
//! as root. One that cannot boot fails and says what is missing; it never skips.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Set inside.
const INSIDE: &str = "ASAT_NSPAWN";
/// How a check ends its process inside. A test runner that finds no test ends with 0, and that proves nothing.
const PASSED: i32 = 71;
/// After so many seconds a machine is ended.
const DEADLINE_S: u32 = 400;
/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs that boot it, and the Debian packages that have them.
const NEEDS: [(&str, &str); 4] = [
    ("systemd-nspawn", "systemd-container"),
    ("systemctl", "systemd"),
    ("unshare", "util-linux"),
    ("timeout", "coreutils"),
];

/// Runs the check under a systemd of its own; the test that calls this passes if and only if the check did.
///
/// The check must be a closure written in the test itself: its name leads back to the test.
pub fn in_machine<Check: Fn()>(check: Check) {
    if std::env::var_os(INSIDE).is_some() {
        check();
        std::process::exit(PASSED);
    }
    let test = test_of::<Check>();
    demand();
    let out = tempfile::Builder::new().prefix("asat-nspawn.").tempdir().unwrap();
    fs::write(out.path().join("check.service"), unit(&test)).unwrap();
    let booted = boot(out.path());
    let read = |name: &str| fs::read_to_string(out.path().join(name)).unwrap_or_default();
    let (output, status) = (read("output"), read("status"));
    assert!(
        status.trim() == PASSED.to_string(),
        "{test} failed inside, with the status {status:?} ({:?}):\n{output}\n--- console\n{}{}",
        booted.status,
        String::from_utf8_lossy(&booted.stdout),
        String::from_utf8_lossy(&booted.stderr)
    );
    println!("{output}");
}

/// The unit that runs the test inside and then ends the machine.
fn unit(test: &str) -> String {
    let binary = std::env::current_exe().unwrap();
    let line = format!("{} {test} --exact --include-ignored --nocapture --test-threads=1", binary.display());
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    format!(
        "[Service]\nType=exec\nEnvironment={INSIDE}=1 RUST_BACKTRACE=0 HOME={home}\nExecStart={line}\nStandardOutput=append:/out/output\n\
         StandardError=append:/out/output\n\
         ExecStopPost=/bin/sh -c 'echo \"$$EXIT_STATUS\" > /out/status; systemctl poweroff --force'\n"
    )
}

fn boot(out: &Path) -> Output {
    static MACHINES: AtomicU32 = AtomicU32::new(0);
    let number = MACHINES.fetch_add(1, Ordering::Relaxed);
    let name = format!("asat-{}-{number}", std::process::id());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/nspawn/boot");
    let mut boot = Command::new(script);
    boot.arg(out).arg(name).arg(DEADLINE_S.to_string());
    // A machine has a /tmp of its own, and what was built may lie on another file system than the root.
    for folder in seen() {
        boot.arg(format!("--bind-ro={}", folder.display()));
    }
    boot.stdin(Stdio::null()).output().unwrap()
}

/// What was built, and from what.
fn seen() -> Vec<PathBuf> {
    let binary = std::env::current_exe().unwrap();
    // The test binary lies in `deps`; programs of the package lie one folder higher.
    vec![binary.ancestors().nth(2).unwrap().to_owned(), PathBuf::from(env!("CARGO_MANIFEST_DIR"))]
}

/// Fails with what is missing, and the command that installs it.
fn demand() {
    let paths = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let found = |program: &str| paths.iter().any(|folder| Path::new(folder).join(program).exists());
    let missing: Vec<_> = NEEDS.iter().filter(|(program, _)| !found(program)).collect();
    let list = |what: fn(&(&'static str, &'static str)) -> &'static str| {
        missing.iter().map(|need| what(need)).collect::<Vec<_>>().join(" ")
    };
    assert!(
        missing.is_empty(),
        "no machine can be booted without {}. Install with:\n    sudo apt-get install --no-install-recommends {}",
        list(|need| need.0),
        list(|need| need.1)
    );
    assert!(
        rustix::process::geteuid().is_root(),
        "to boot a machine with systemd-nspawn wants root: run this test with sudo"
    );
}

/// The name of the test that a closure is written in, as the test runner knows it.
fn test_of<Check>() -> String {
    let name = std::any::type_name::<Check>();
    let name = name.split("::{{closure}}").next().unwrap();
    name.split_once("::").expect("a crate's name comes first").1.to_owned()
}

/// Runs a program that must succeed; answers what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = tried(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program that must not succeed; answers what it said.
pub fn refused(program: &str, arguments: &[&str]) -> String {
    let output = tried(program, arguments);
    assert!(!output.status.success(), "{program} {arguments:?} should have failed: {}", said(&output));
    said(&output)
}

pub fn tried(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

pub fn said(output: &Output) -> String {
    let mut text = format!("{}\n", output.status);
    for part in [&output.stdout, &output.stderr] {
        writeln!(text, "{}", String::from_utf8_lossy(part)).unwrap();
    }
    text
}

/// What systemd says of a unit.
pub fn property(unit: &str, name: &str) -> String {
    run("systemctl", &["show", "--value", "--property", name, unit]).trim().to_owned()
}

/// What the service has logged.
pub fn log() -> String {
    run("journalctl", &["--sync"]);
    run("journalctl", &["--no-pager", "--output=cat", "--unit=asat.service"])
}

/// Polls a condition until it holds: of what happens in systemd, a test is told nothing otherwise.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come to be that {what}\n{}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
