//! Not enough space for all: who needs it most gets it, and what becomes of the others is said.

use crate::lab::{in_lab, wait_until};
use crate::lab_guard::ballast::FLOOD_MIB;
use crate::lab_guard::seen::{check_holds, is_lost};
use crate::lab_guard::site::{CALM, Site, lab};

/// Whether a version's snapshot is there and whole.
fn is_whole(site: &Site<'_>, number: usize) -> bool {
    let states = site.states();
    let mut of_it = states.iter().filter(|(version, _)| version["number"] == number);
    of_it.any(|(_, status)| status.as_ref().is_some_and(|status| !is_lost(status)))
}

fn print_flood(site: &Site<'_>) {
    let took = site.flood();
    println!("{FLOOD_MIB} MiB written in {took:?}");
    for (version, status) in site.states() {
        println!("{}: {} {status:?}", version["id"], version["state"]);
    }
}

#[test]
fn lab_of_two_that_need_the_last_extents_the_one_that_is_not_archived_gets_them() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic_with(machine, 2, CALM);
        // Both would be full with 64 MiB, and one of them with 96.
        site.leave_free(192);
        site.publish(1..=1, true);
        site.archived(1..=1);
        site.hold_up_archiving();
        site.publish(2..=2, true);
        print_flood(&site);
        println!("alarms: {:?}", site.alarms());
        assert!(is_whole(&site, 2) && site.state(2) == "ready snapshot", "{:#}", site.version(2));
        wait_until("the other one is in the archive only", || site.state(1) == "ready archive");
        site.let_archiving_go_on();
        site.archived(1..=2);
        site.check_contents();
        let log = site.end();
        let said = |what: &[&str]| log.lines().any(|line| what.iter().all(|part| line.contains(part)));
        assert!(said(&["done", "snapshot report@2", "action=\"extend\""]), "{log}");
        assert!(said(&["ERROR", "snapshot report@1: short"]), "{log}");
        check_holds(&log);
    });
}

#[test]
fn lab_a_group_that_somebody_empties_between_two_looks_loses_no_version() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic_with(machine, 4, CALM);
        site.leave_free(384);
        site.publish(1..=2, false);
        site.publish(3..=4, true);
        site.archived(1..=4);
        site.at_peace();
        // The guard believes in this space until LVM says something else.
        machine.run("lvcreate", &["-q", "-l", "100%FREE", "-n", "theirs", "vg"]);
        print_flood(&site);
        assert!(is_whole(&site, 3) && is_whole(&site, 4), "{:#?}", site.states());
        site.check_contents();
        let log = site.end();
        println!("extensions that failed: {}", log.matches(": failed: ").count());
        assert!(log.contains("action=\"demote\""), "{log}");
        check_holds(&log);
    });
}
