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
/// Tests among those that ask nothing of how versions are held: of keys, leases, records and pages that are in the archive already.
const ABOVE: [&str; 26] = [
    "checks::the_first_check_that_is_not_met_is_named_and_what_is_corrected_is_published",
    "checks::what_was_checked_stays_with_the_publication",
    "harm::a_file_that_goes_while_the_daemon_runs_is_written_once_more_as_long_as_it_is_open",
    "keeping::a_pin_stops_counting_when_it_expires",
    "keeping::nothing_can_be_done_with_a_retired_version_but_looking_at_its_record",
    "keeping::retention_without_rules_keeps_everything",
    "opening::a_lease_belongs_to_its_version_under_every_name_of_it",
    "opening::a_lease_is_granted_for_a_time_within_bounds_and_renewed_from_now_on",
    "opening::a_lease_that_nobody_renews_ends_by_itself",
    "opening::a_leased_version_is_not_retired_and_the_refusal_names_the_holder",
    "opening::what_cannot_be_opened_says_why",
    "publishing::a_request_with_the_same_idempotency_key_gets_the_same_answer_whatever_happened_since",
    "publishing::an_idempotency_key_is_not_taken_for_another_publication",
    "publishing::an_idempotency_key_outlives_the_daemon",
    "publishing::of_several_stores_one_must_be_named",
    "publishing::with_one_store_nothing_has_to_be_said",
    "repairing::damage_that_nothing_puts_right_is_told_of_until_the_file_is_back",
    "repairing::what_a_start_finds_damaged_below_the_next_version_is_put_right_without_being_asked",
    "repairing::what_is_put_right_is_told_and_written_down_with_what_gave_the_content",
    "restoring::what_cannot_be_restored_is_refused",
    "retiring::what_is_retired_now_cannot_be_brought_back",
    "sets::a_set_is_known_after_a_restart",
    "sets::one_key_publishes_a_set_once",
    "sets::the_client_publishes_a_set",
    "sets::what_is_no_request_for_a_set_is_refused_and_changes_nothing",
    "sets::where_one_store_is_not_there_none_is_published",
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
    command.args(HELD).args(ABOVE.map(|name| ["--skip", name]).as_flattened()).args(arguments);
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
