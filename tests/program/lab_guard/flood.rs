//! A flood: more is written to the volume, as fast as it goes, than its snapshots have room for.

use crate::lab::{in_lab, wait_until};
use crate::lab_guard::ballast::FLOOD_MIB;
use crate::lab_guard::seen::is_lost;
use crate::lab_guard::site::{Site, lab};

const SNAPSHOTS: usize = 5;

#[test]
fn lab_snapshots_that_are_too_small_for_a_flood_are_extended_in_time() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic(machine, SNAPSHOTS);
        site.publish(1..=SNAPSHOTS, true);
        site.ground.settled(SNAPSHOTS);
        let took = site.flood();
        let states = site.states();
        println!("{FLOOD_MIB} MiB written in {took:?}; {states:#?}");
        assert_eq!(states.len(), SNAPSHOTS);
        for (version, status) in &states {
            assert!(status.as_ref().is_some_and(|status| !is_lost(status)), "{status:?} {version:#}");
        }
        site.check_contents();
        let log = site.end();
        assert!(log.contains("action=\"extend\"") && !log.contains("WARN"), "{log}");
    });
}

#[test]
fn lab_snapshots_of_archived_versions_go_where_there_is_no_space_and_no_version_is_lost() {
    in_lab(lab(), |machine| {
        let mut site = Site::classic(machine, SNAPSHOTS);
        site.publish(1..=4, false);
        site.ground.settled(SNAPSHOTS);
        machine.run("lvcreate", &["-q", "-l", "100%FREE", "-n", "taken", "vg"]);
        let took = site.flood();
        println!("{FLOOD_MIB} MiB written in {took:?}; {:#?}", site.states());
        let versions = site.ground.settled(SNAPSHOTS);
        assert!(versions.iter().all(|version| version["state"] == "ready"), "{versions:#?}");
        // One may be full before its turn to go comes; then it goes for that.
        let lost = |(_, status): &(_, Option<String>)| status.as_ref().is_some_and(|status| is_lost(status));
        wait_until("no snapshot that is lost is left", || !site.states().iter().any(lost));
        site.check_contents();
        machine.run("lvremove", &["-q", "--yes", "vg/taken"]);
        let log = site.end();
        assert!(log.contains("action=\"demote\""), "{log}");
    });
}
