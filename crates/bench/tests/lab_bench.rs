//! `asat-bench valuation` on volumes, `asat-bench guard` and `asat-bench reading`: what they report, what they refuse, and that
//! they leave nothing, neither on the disks nor elsewhere.
//!
//! The measurements of full size are for `make bench-lab`. Options such as `--back-to-back` are handed to them in
//! `ASAT_BENCH_OPTIONS`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

#[path = "../../../tests/program/lab/mod.rs"]
mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use lab::{Lab, Machine, in_lab};

/// Options for the measurements of full size.
const OPTIONS: &str = "ASAT_BENCH_OPTIONS";

/// The benchmark on the first three disks of the machine, with its folder in `dir`.
fn bench(machine: &Machine, backend: &str, dir: &Path) -> Command {
    let disks: Vec<_> = machine.disks.iter().take(3).map(|disk| disk.to_str().unwrap()).collect();
    bench_on(machine, backend, &disks.join(","), dir)
}

fn bench_on(machine: &Machine, backend: &str, disks: &str, dir: &Path) -> Command {
    let mut command = machine.command(env!("CARGO_BIN_EXE_asat-bench"));
    command.args(["valuation", "--backend", backend, "--disks", disks, "--dir"]).arg(dir);
    command
}

/// What is on the disks by the programs that look for such things, and what is mounted and active.
fn traces(machine: &Machine) -> String {
    let mut found = String::new();
    for disk in &machine.disks {
        found += &machine.run("wipefs", &["--no-act", "--noheadings", disk.to_str().unwrap()]);
    }
    found += &machine.run("vgs", &["--noheadings"]);
    found += &machine.run("pvs", &["--noheadings"]);
    found += &machine.run("dmsetup", &["ls"]).replace("No devices found\n", "");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains("asat") && !line.contains(" hostfs "))
            .map(|line| format!("{line}\n")),
    );
    found
}

/// Nothing is left: no volume, no mount, no signature, no file.
fn check_that_nothing_is_left(machine: &Machine, dir: &Path) {
    assert_eq!(traces(machine), "");
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

/// A run of three publications.
fn tiny(machine: &Machine, backend: &str, options: &[&str]) -> Value {
    let (dir, out) = (machine.folder("bench"), machine.folder("out").join("report.json"));
    let mut command = bench(machine, backend, &dir);
    command.args(["--iterations", "3", "--rows", "200", "--out"]).arg(&out).args(options);
    let output = command.output().unwrap();
    let (text, said) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{said}");
    println!("{text}");
    for told in ["writer slow-down, all runs", "lvcreate of a plain snapshot", "report@3", "TARGET"] {
        assert!(text.contains(told), "{told:?} is not in\n{text}");
    }
    check_that_nothing_is_left(machine, &dir);
    serde_json::from_slice(&fs::read(out).unwrap()).unwrap()
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn check_report(report: &Value, backend: &str) {
    let figures = &report["figures"];
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("no {name} in {figures:#}"));
    assert_eq!((&figures["backend"], &figures["publications"]), (&backend.into(), &3.into()));
    assert_eq!(report["setting"]["file_system"], "ext4");
    let bytes = ["unversioned_device_bytes", "asat_device_bytes", "plain_device_bytes"].map(number);
    assert!(bytes[0] > 0.0 && bytes[1] > 0.0 && bytes[2] > bytes[0], "{bytes:?}");
    assert!(number("kept_bytes") > 0.0 && number("plain_kept_bytes") > 0.0);
    assert_eq!(figures["writer_around"].as_array().unwrap().last().unwrap()["publication"], 3);
    // What LVM took is told apart from what asat took.
    let median =
        |name: &str| figures[name]["median"].as_f64().unwrap_or_else(|| panic!("no {name} in {figures:#}"));
    for part in ["lvcreate_ms", "own_ms"] {
        assert!(median(part) > 0.0 && median(part) < median("publish_elapsed_ms"), "{figures:#}");
    }
    let targets = report["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 3, "{targets:#?}");
}

#[test]
fn lab_bench_on_a_thin_volume_of_which_classic_snapshots_are_best() {
    in_lab(Lab::new().disks(3, "1G"), |machine| {
        let report = tiny(machine, "auto", &[]);
        check_report(&report, "auto");
        assert!(report["figures"]["settled_ms"]["max"].as_f64().unwrap() > 0.0, "{report:#}");
    });
}

#[test]
fn lab_bench_on_thin_snapshots() {
    in_lab(Lab::new().disks(3, "1G"), |machine| {
        let report = tiny(machine, "lvm-thin", &["--back-to-back", "--keep-snapshots", "1"]);
        check_report(&report, "lvm-thin");
        assert!(report["figures"]["settled_ms"].is_null(), "{report:#}");
    });
}

/// Runs the benchmark on these disks, which it must refuse for this reason.
fn check_refusal(machine: &Machine, disks: [&Path; 3], why: &str) {
    let (dir, before) = (machine.folder("bench"), traces(machine));
    let disks = disks.map(|disk| disk.to_str().unwrap()).join(",");
    let output = bench_on(machine, "lvm-classic", &disks, &dir).arg("--iterations=3").output().unwrap();
    let said = utf8(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains(why), "{why:?} is not in {said:?}");
    assert_eq!(traces(machine), before, "something has changed");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn lab_bench_refuses_disks_that_are_in_use_or_not_empty() {
    in_lab(Lab::new().disk_sizes(&["1G", "1G", "1G", "700M"]), |machine| {
        let [a, b, odd, small] = machine.disks.as_slice() else { panic!("{:?}", machine.disks) };
        let name = odd.to_str().unwrap();
        let run = |program: &str, arguments: &[&str]| machine.run(program, arguments);
        let refused = |why: &str| check_refusal(machine, [a, b, odd], &format!("{name} {why}"));

        run("mkfs.ext4", &["-q", name]);
        refused("is not empty: it carries ext4");
        let at = machine.mount_point();
        run("mount", &[name, at.to_str().unwrap()]);
        refused(&format!("is mounted at {}", at.display()));
        run("umount", &[at.to_str().unwrap()]);
        run("wipefs", &["-q", "--all", name]);
        run("pvcreate", &["-q", name]);
        refused("is not empty: it carries LVM2_member");
        run("vgcreate", &["-q", "somebody", name]);
        run("lvcreate", &["-q", "-L", "64M", "-n", "data", "somebody"]);
        refused("is in use");
        check_refusal(machine, [a, Path::new("/dev/somebody/data"), b], "is neither a disk nor a partition");
        run("vgremove", &["-q", "--force", "--force", "--yes", "somebody"]);
        run("pvremove", &["-q", name]);

        check_refusal(machine, [a, b, a], "the same device");
        check_refusal(
            machine,
            [small, b, odd],
            &format!("{} has 734003200 bytes, and this run needs", small.display()),
        );
        let file = machine.folder("files").join("disk");
        fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
        check_refusal(machine, [a, b, &file], "is not a block device");
    });
}

#[test]
fn options_of_the_other_backends_are_refused() {
    for (options, why) in [
        (&["--backend", "lvm-thin"][..], "need --disks"),
        (&["--back-to-back"], "are for the backends lvm-classic, lvm-thin and auto"),
        (&["--backend", "lvm-thin", "--disks", "/dev/a,/dev/b,/dev/c", "--while-writing"], "backend pages"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_asat-bench"));
        let output = command.args(["valuation"]).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{options:?}");
        assert!(utf8(&output.stderr).contains(why), "{output:?}");
    }
}

/// The benchmark of the guard on the machine's first disk, with its folder in `dir`.
fn bench_guard(machine: &Machine, dir: &Path) -> Command {
    let mut command = machine.command(env!("CARGO_BIN_EXE_asat-bench"));
    command.args(["guard", "--disk", machine.disks[0].to_str().unwrap(), "--dir"]).arg(dir);
    command
}

#[test]
fn lab_bench_of_the_guard() {
    in_lab(Lab::new().disk_sizes(&["4G", "16M"]).deadline(Duration::from_secs(240)), |machine| {
        let (dir, out) = (machine.folder("bench"), machine.folder("out").join("report.json"));
        let mut command = bench_guard(machine, &dir);
        command.args(["--snapshots=3", "--seconds=3", "--extensions=2", "--out"]).arg(&out);
        let output = command.output().unwrap();
        let (text, said) = (utf8(&output.stdout), utf8(&output.stderr));
        assert!(output.status.success(), "{said}");
        println!("{text}");
        check_that_nothing_is_left(machine, &dir);
        let report: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
        let figures = &report["figures"];
        assert!(figures["extensions"].as_u64().unwrap() >= 2, "{report:#}");
        assert!(figures["added_ms"]["median"].as_f64().unwrap() > 0.0, "{report:#}");
        for idle in ["idle", "idle_at_the_shortest_tick"] {
            assert!(figures[idle]["looks"].as_u64().unwrap() > 0, "{report:#}");
            assert!(figures[idle]["looking_percent"].as_f64().unwrap() > 0.0, "{report:#}");
        }
        assert_eq!(report["targets"].as_array().unwrap().len(), 5, "{report:#}");
        let mut command = bench_guard(machine, &dir);
        let output = command.args(["--thin", "--snapshots=3", "--seconds=3", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        check_that_nothing_is_left(machine, &dir);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&report["figures"]["thin"], report["targets"].as_array().unwrap().len()),
            (&json!(true), 2)
        );
        let small = [machine.disks[1].to_str().unwrap(), "--snapshots=3"];
        let mut command = machine.command(env!("CARGO_BIN_EXE_asat-bench"));
        let output = command.args(["guard", "--disk"]).args(small).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(utf8(&output.stderr).contains("name a larger disk"), "{output:?}");
    });
}

#[test]
fn lab_bench_reads_in_every_way_and_leaves_nothing() {
    in_lab(Lab::new().deadline(Duration::from_secs(180)), |machine| {
        let (dir, out) = (machine.folder("bench"), machine.folder("out").join("report.json"));
        let [dir, out] = [&dir, &out].map(|path| path.to_str().unwrap());
        let arguments = ["reading", "--versions", "3", "--rows", "200", "--dir", dir, "--out", out];
        let text = machine.run(env!("CARGO_BIN_EXE_asat-bench"), &arguments);
        assert!(text.contains("first query on each version") && text.contains("TARGET"), "{text}");
        let report: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
        let chosen = report["figures"]["chosen"].as_array().unwrap();
        let versions: Vec<_> = chosen.iter().map(|chosen| chosen["version"].as_str().unwrap()).collect();
        assert_eq!(versions, ["report@1", "report@2", "report@3"]);
        for way in chosen.iter().flat_map(|chosen| chosen["ways"].as_array().unwrap()) {
            assert!(way["times"]["ratio"]["median"].as_f64().unwrap() > 0.0, "{way}");
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        // The program itself lies on a mount of the guest's, wherever that is.
        assert!(
            !mounts.lines().any(|mount| mount.contains("asat") && !mount.contains(" hostfs ")),
            "{mounts}"
        );
    });
}

/// Starts a run, and waits until it says this.
fn start(mut command: Command, word: &str) -> (Child, BufReader<impl std::io::Read>) {
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(word) {
        assert!(lines.read_line(&mut said).unwrap() > 0, "it never said {word:?}: {said}");
    }
    (run, lines)
}

#[test]
fn lab_bench_that_is_interrupted_leaves_empty_disks() {
    in_lab(Lab::new().disks(3, "1G"), |machine| {
        let dir = machine.folder("bench");
        let mut command = bench(machine, "lvm-thin", &dir);
        command.arg("--iterations=3");
        let (mut run, _lines) = start(command, "making three volumes");
        kill_process(Pid::from_child(&run), Signal::INT).unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(130));
        check_that_nothing_is_left(machine, &dir);
    });
}

#[test]
fn lab_bench_whose_daemon_dies_leaves_empty_disks() {
    in_lab(Lab::new().disks(3, "1G"), |machine| {
        let dir = machine.folder("bench");
        let mut command = bench(machine, "lvm-classic", &dir);
        command.args(["--iterations=20", "--rows=50"]);
        let (mut run, mut lines) = start(command, "10 of 20 publications");
        let daemon = children(run.id()).into_iter().find(|id| command_line(*id).contains(" serve ")).unwrap();
        kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut lines, &mut said).unwrap();
        assert!(!run.wait().unwrap().success(), "{said}");
        check_that_nothing_is_left(machine, &dir);
    });
}

fn children(id: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let lists = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect()
}

fn command_line(id: i32) -> String {
    let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// A guest for the full workload. asat's archive is on a disk of its own, as it should be.
fn full_lab() -> Lab {
    let options = std::env::var(OPTIONS).unwrap_or_default();
    let lab = Lab::new().disk_sizes(&["2G", "12G", "1G", "2G"]).memory("1G").env(OPTIONS, &options);
    lab.deadline(Duration::from_secs(2 * 3600))
}

fn full(machine: &Machine, backend: &str) {
    let (disk, dir) = (machine.disks[3].to_str().unwrap(), machine.mount_point());
    machine.run("mkfs.ext4", &["-q", disk]);
    machine.run("mount", &[disk, dir.to_str().unwrap()]);
    let options = std::env::var(OPTIONS).unwrap();
    let mut command = bench(machine, backend, &dir);
    let Output { status, stdout, stderr } = command.args(options.split_whitespace()).output().unwrap();
    println!("{}{}", utf8(&stdout), utf8(&stderr));
    assert!(status.success());
}

#[test]
#[ignore = "it measures: make bench-lab"]
fn lab_bench_full_classic() {
    in_lab(full_lab(), |machine| full(machine, "lvm-classic"));
}

#[test]
#[ignore = "it measures: make bench-lab"]
fn lab_bench_full_auto() {
    in_lab(full_lab(), |machine| full(machine, "auto"));
}

#[test]
#[ignore = "it measures: make bench-lab"]
fn lab_bench_full_thin() {
    in_lab(full_lab(), |machine| full(machine, "lvm-thin"));
}

#[test]
#[ignore = "it measures: make bench-lab"]
fn lab_bench_full_guard() {
    let lab = Lab::new().disk_sizes(&["20G", "2G"]).memory("1G").deadline(Duration::from_secs(1800));
    in_lab(lab.env(OPTIONS, &std::env::var(OPTIONS).unwrap_or_default()), |machine| {
        let (disk, dir) = (machine.disks[1].to_str().unwrap(), machine.mount_point());
        machine.run("mkfs.ext4", &["-q", disk]);
        machine.run("mount", &[disk, dir.to_str().unwrap()]);
        let options = std::env::var(OPTIONS).unwrap();
        let mut command = bench_guard(machine, &dir);
        let Output { status, stdout, stderr } = command.args(options.split_whitespace()).output().unwrap();
        println!("{}{}", utf8(&stdout), utf8(&stderr));
        assert!(status.success());
    });
}
