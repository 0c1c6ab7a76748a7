//! The contract is one, whatever the stores are cut by: the tests of this suite that depend on it run again in the lab, with
//! their stores on logical volumes.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::ground::{BACKEND, FOLDERS};
use crate::lab::{Fs, Lab, Machine, Volume, in_lab};

/// What depends on how versions are held. Who may do what, how versions are called and found, what is listened to and what
/// queries may do is the same above all backends, and is tried once, by pages.
const HELD: [&str; 17] = [
    "checks::",
    "commits::delete",
    "commits::wal",
    "commits::a_commit",
    "download::the_download_is_the_as_at_copy_byte_for_byte",
    "harm::",
    "keeping::",
    "moving::",
    "opening::",
    "publishing::",
    "relying::",
    "repairing::",
    "restoring::",
    "retiring::",
    "sets::",
    "shadow::",
    "surviving::",
];
/// How many tests run side by side, each with a daemon and a volume of its own: they wait for LVM most of the time.
const THREADS: usize = 3;
/// What one test takes of the disks at the most, many times over.
const DISK: &str = "4G";

fn lab() -> Lab {
    Lab::new().disks(1, DISK).memory("1G").deadline(Duration::from_secs(2400))
}

/// The tests of this suite, on these volumes.
fn suite(machine: &Machine, volumes: &[Volume], backend: &str, arguments: &[&str]) -> Command {
    let mut command = machine.command(std::env::current_exe().unwrap().to_str().unwrap());
    let folders = std::env::join_paths(volumes.iter().map(|volume| volume.path(""))).unwrap();
    command.env_remove(crate::lab::WHERE).env(FOLDERS, folders).env(BACKEND, backend);
    command.args(HELD).args(arguments);
    command
}

/// Runs the suite on a volume for each test that runs at a time. Nothing of it is left on the volumes.
fn holds_on(machine: &Machine, backend: &str, volume: impl Fn(&str) -> Volume) {
    let volumes: Vec<Volume> = (1..=THREADS).map(|nth| volume(&format!("data{nth}"))).collect();
    let listed = suite(machine, &volumes, backend, &["--list"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let tests = listed.lines().filter(|line| line.ends_with(": test")).count();
    let threads = format!("--test-threads={THREADS}");
    let mut suite = suite(machine, &volumes, backend, &[&threads]).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    // Each line is passed on as it comes, with the seconds until then: if a test hangs, the last ones name it.
    let lines = BufReader::new(suite.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> =
        lines.inspect(|line| println!("{:>4} {line}", began.elapsed().as_secs())).collect();
    assert!(suite.wait().unwrap().success(), "{backend}");
    // A run that found no test would have succeeded too.
    let all = format!("test result: ok. {tests} passed; 0 failed; 0 ignored");
    assert!(tests > 0 && said.iter().any(|line| line.starts_with(&all)), "{backend}: {all:?} was not said");
    assert_eq!(machine.run("lvs", &["--noheadings", "-o", "lv_name", "@asat"]).trim(), "");
}

#[test]
fn lab_the_contract_holds_on_classic_snapshots() {
    in_lab(lab(), |machine| {
        let group = machine.volume_group("contract", &[0]);
        holds_on(machine, "lvm-classic", |name| group.origin(name, "256M", Fs::Ext4));
    });
}

#[test]
fn lab_the_contract_holds_on_thin_snapshots() {
    in_lab(lab(), |machine| {
        let group = machine.volume_group("contract", &[0]);
        group.thin_pool("pool", "2G");
        holds_on(machine, "lvm-thin", |name| group.thin_origin("pool", name, "512M", Fs::Xfs));
    });
}

#[test]
fn lab_the_contract_holds_where_stores_are_cloned() {
    in_lab(lab(), |machine| {
        let group = machine.volume_group("contract", &[0]);
        holds_on(machine, "reflink", |name| group.origin(name, "1G", Fs::Xfs));
    });
}
