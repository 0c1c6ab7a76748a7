//! Classic snapshots that are too small for a flood, in a group that has space for all, or not.

use serde_json::Value;

use crate::lab::{Fs, Machine, in_lab};
use crate::lab_guard::ballast::{FLOOD_MIB, flood, make_ballast};
use crate::lab_guard::seen::{check_holds, dm_status, is_lost};
use crate::lab_guard::site::{CALM, Site, leave_free};

use super::{Dmeventd, roomy, with_dmeventd};

/// So many classic snapshots that dmeventd watches, with so many MiB for them if not the whole group; answers how many
/// are lost in a flood.
fn lost_with_dmeventd(machine: &Machine, count: usize, free: Option<u64>) -> usize {
    let dmeventd = Dmeventd::configured(machine);
    let group = machine.volume_group("vg", &[0]);
    let origin = group.origin("data", "192M", Fs::Ext4);
    let ballast = origin.path("ballast");
    make_ballast(&ballast, FLOOD_MIB);
    if let Some(mib) = free {
        leave_free(machine, mib);
    }
    let names: Vec<String> = (1..=count).map(|n| format!("vg/snap{n}")).collect();
    for name in &names {
        let name = name.strip_prefix("vg/").unwrap();
        machine.run("lvcreate", &["-q", "-s", "-L", "64M", "-c", "4k", "-n", name, "vg/data"]);
    }
    dmeventd.check_that_it_watches("vg/snap1");
    let flood = flood(&ballast);
    let states = || names.iter().map(|name| dm_status(machine, name).unwrap()).collect::<Vec<_>>();
    dmeventd.may_look(|| states().iter().all(|status| is_lost(status)));
    let states = states();
    println!("dmeventd: {flood:?}; {states:#?}");
    drop(group);
    states.iter().filter(|status| is_lost(status)).count()
}

/// A version, and what the kernel says of its snapshot, if it has one.
type State = (Value, Option<String>);

/// The versions, newest first, and what the kernel says of each one's snapshot when all is written.
fn states_after_flood(site: &Site<'_>) -> Vec<State> {
    let flood = flood(&site.ballast);
    assert_eq!(flood.failed, 0, "{flood:?}");
    let states = site.states();
    println!("asat: {flood:?}; {states:#?}");
    states
}

/// Whether a version's snapshot is there and whole.
fn is_whole((_, status): &&State) -> bool {
    status.as_ref().is_some_and(|status| !is_lost(status))
}

/// The same with asat: as many versions that are pinned hot.
fn lost_with_asat(machine: &Machine, count: usize) -> usize {
    let mut site = Site::classic(machine, count);
    site.publish(1..=count, true);
    site.ground.settled(count);
    // What it means to do in peace is done.
    site.at_peace();
    let states = states_after_flood(&site);
    site.check_contents();
    check_holds(&site.end());
    count - states.iter().filter(is_whole).count()
}

#[test]
fn lab_ten_snapshots_that_lvm_s_own_monitor_loses_are_kept() {
    in_lab(roomy(), |machine| assert_eq!(lost_with_asat(machine, 10), 0));
}

fn compare(machine: &Machine, count: usize) {
    let (dmeventd, asat) = (lost_with_dmeventd(machine, count, None), lost_with_asat(machine, count));
    println!("of {count} snapshots, dmeventd lost {dmeventd}, and asat {asat}");
}

#[test]
#[ignore = "for a table of docs/benchmarks.md"]
fn lab_bench_ten_snapshots_beside_dmeventd() {
    in_lab(with_dmeventd(), |machine| compare(machine, 10));
}

#[test]
#[ignore = "for a table of docs/benchmarks.md"]
fn lab_bench_twenty_snapshots_beside_dmeventd() {
    in_lab(with_dmeventd(), |machine| compare(machine, 20));
}

/// Space for six snapshots of 64 MiB, and for one more extension: a flood takes more than 100 MiB of each.
const SCARCE: u64 = 448;

/// Six versions with asat, of which three are in the archive as well; answers how many are lost.
fn lost_with_asat_where_space_runs_out(machine: &Machine) -> usize {
    let mut site = Site::classic_with(machine, 6, CALM);
    site.leave_free(SCARCE);
    site.publish(1..=3, false);
    site.archived(1..=3);
    site.hold_up_archiving();
    site.publish(4..=6, false);
    let states = states_after_flood(&site);
    // They are listed newest first.
    let (needed, archived) = states.split_at(3);
    assert_eq!(needed.iter().filter(is_whole).count(), 3, "{states:#?}");
    let dropped = 3 - archived.iter().filter(is_whole).count();
    println!("of the 3 versions that are in the archive, asat gave {dropped} snapshots up for the others");
    site.let_archiving_go_on();
    site.archived(1..=6);
    site.check_contents();
    let versions = site.ground.settled(6);
    let log = site.end();
    assert!(log.contains("action=\"demote\""), "{log}");
    check_holds(&log);
    6 - versions.iter().filter(|version| version["state"] == "ready").count()
}

#[test]
fn lab_a_group_that_runs_out_gives_the_space_of_archived_versions_to_the_others() {
    in_lab(roomy(), |machine| assert_eq!(lost_with_asat_where_space_runs_out(machine), 0));
}

#[test]
#[ignore = "for a table of docs/benchmarks.md"]
fn lab_bench_a_group_that_runs_out_beside_dmeventd() {
    in_lab(with_dmeventd(), |machine| {
        let dmeventd = lost_with_dmeventd(machine, 6, Some(SCARCE));
        let asat = lost_with_asat_where_space_runs_out(machine);
        println!(
            "of 6 snapshots with too little space, dmeventd lost {dmeventd}, and asat {asat} of 6 versions"
        );
    });
}
