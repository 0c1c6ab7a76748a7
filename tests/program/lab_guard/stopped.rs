//! The daemon stands still for a while, as under a debugger or on a machine that swaps.

use std::time::{Duration, Instant};

use crate::lab::{in_lab, wait_until};
use crate::lab_brake::writer::Writer;
use crate::lab_guard::ballast::FLOOD_MIB;
use crate::lab_guard::seen::{check_holds, is_lost};
use crate::lab_guard::site::{Site, lab};

const SNAPSHOTS: usize = 3;

fn check(mut site: Site<'_>) {
    let states = site.states();
    assert_eq!(states.len(), SNAPSHOTS);
    for (version, status) in &states {
        println!("{}: {status:?}", version["id"]);
        assert!(status.as_ref().is_some_and(|status| !is_lost(status)), "{status:?} {version:#}");
    }
    site.check_contents();
    check_holds(&site.end());
}

fn pinned<'a>(machine: &'a crate::lab::Machine) -> Site<'a> {
    let site = Site::classic(machine, SNAPSHOTS);
    site.publish(1..=SNAPSHOTS, true);
    site.archived(1..=SNAPSHOTS);
    site.at_peace();
    site
}

#[test]
fn lab_a_daemon_that_stands_still_for_20_s_under_a_steady_writer_loses_nothing() {
    in_lab(lab(), |machine| {
        let site = pinned(machine);
        // 2 MiB a second: less in 20 s than a snapshot has at first.
        let writer = Writer::at_pace(&site.ballast, FLOOD_MIB as u64, 1, Duration::from_millis(500));
        writer.expect_writing("before");
        site.signal("-STOP");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(20) {
            writer.expect_writing("meanwhile");
        }
        println!("{} MiB were written when the daemon went on", writer.count());
        site.signal("-CONT");
        site.at_peace();
        writer.expect_writing("after");
        println!("a write took {:?} at the longest", writer.longest());
        writer.stop();
        println!("alarms: {:?}; then a flood took {:?}", site.alarms(), site.flood());
        check(site);
    });
}

#[test]
fn lab_a_brake_lets_go_of_writers_by_itself_while_the_daemon_stands_still() {
    in_lab(lab(), |machine| {
        let site = pinned(machine);
        // Less than the snapshots have room for: nothing else would save them now.
        let writer = Writer::start(&site.ballast, 60, 1);
        while !site.is_held() {
            assert!(!writer.is_done(), "nobody was held");
        }
        site.signal("-STOP");
        assert!(site.is_held(), "it was over before the daemon stood still");
        let (since, before) = (Instant::now(), writer.count());
        wait_until("writers go on", || writer.count() > before + 1 || writer.is_done());
        println!(
            "after {before} MiB writers were held, and went on {:?} after the daemon stood still",
            since.elapsed()
        );
        assert!(since.elapsed() < Duration::from_millis(2500));
        wait_until("it is done", || writer.is_done());
        println!("a write took {:?} at the longest", writer.longest());
        writer.join();
        site.signal("-CONT");
        site.at_peace();
        check(site);
    });
}
