//! The contract is one, whatever the stores are cut by: the tests of this suite that depend on it run again in the lab, with
//! their stores on logical volumes.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::ground::{BACKEND, FOLDERS};
use crate::lab::{Fs, Lab, Machine, Volume, in_lab};

/// What depends on how versions are held. Who may do what, how versions are called and found, what is listened to and what
/// queries may do is the same above all backends, and is tried once, by pages.
const HELD: [&str; 11] = [
    "api::checks::",
    "api::download::the_download_is_the_as_at_copy_byte_for_byte",
    "api::keeping::",
    "api::moving::",
    "api::opening::",
    "api::publishing::",
    "api::relying::",
    "api::restoring::",
    "api::retiring::",
    "api::sets::",
    "api::surviving::",
];
/// What depends on how a store is held still and looked at while others write to it. That is the same for all snapshots of volumes,
/// so it is tried on thin ones, and where stores are cloned.
const BESIDE_WRITERS: [&str; 6] = [
    "api::commits::delete::a_",
    "api::commits::wal::a_",
    "api::commits::a_commit",
    "api::sets::what_is_written_to_one_store_after_the_other_is_never_torn_apart",
    "api::sets::where_one_store_is_busy_none_is_published",
    "api::shadow::",
];
/// Tests among those that ask nothing of how versions are held: of keys, leases, records and pages that are in the archive already.
const ABOVE: [&str; 27] = [
    "checks::a_daemon_that_stops_waits_for_a_check_no_longer_than_for_any_request",
    "checks::a_store_that_meets_no_check_can_be_brought_back_and_is_kept_as_it_was",
    "checks::the_first_check_that_is_not_met_is_named_and_what_is_corrected_is_published",
    "checks::what_was_checked_stays_with_the_publication",
    "keeping::a_pin_stops_counting_when_it_expires",
    "keeping::a_pinned_version_is_not_retired_and_the_refusal_says_why",
    "keeping::a_retired_version_keeps_its_record_with_when_and_why_and_nothing_else",
    "keeping::nothing_can_be_done_with_a_retired_version_but_looking_at_its_record",
    "keeping::retention_without_rules_keeps_everything",
    "opening::a_lease_belongs_to_its_version_under_every_name_of_it",
    "opening::a_lease_is_granted_for_a_time_within_bounds_and_renewed_from_now_on",
    "opening::a_lease_that_nobody_renews_ends_by_itself",
    "opening::a_leased_version_is_not_retired_and_the_refusal_names_the_holder",
    "opening::what_cannot_be_opened_says_why",
    "opening::where_the_room_for_copies_is_used_up_by_leases_the_next_is_refused_with_the_numbers",
    "publishing::a_request_with_the_same_idempotency_key_gets_the_same_answer_whatever_happened_since",
    "publishing::an_idempotency_key_is_not_taken_for_another_publication",
    "publishing::an_idempotency_key_outlives_the_daemon",
    "publishing::of_several_stores_one_must_be_named",
    "publishing::with_one_store_nothing_has_to_be_said",
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

/// The tests of the API, on these volumes.
fn suite(machine: &Machine, volumes: &[Volume], backend: &str, arguments: &[&str]) -> Command {
    let mut command = machine.command(std::env::current_exe().unwrap().to_str().unwrap());
    let folders = std::env::join_paths(volumes.iter().map(|volume| volume.path(""))).unwrap();
    command.env_remove(crate::lab::WHERE).env(FOLDERS, folders).env(BACKEND, backend);
    let skipped = ABOVE.iter().chain(if backend == "lvm-classic" { &BESIDE_WRITERS[..] } else { &[] });
    command.args(HELD).args(BESIDE_WRITERS).args(skipped.flat_map(|name| ["--skip", name])).args(arguments);
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
