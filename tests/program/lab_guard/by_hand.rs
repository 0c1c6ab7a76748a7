//! What an administrator does who knows no better, and what happens while the daemon does not run.

use crate::lab::{in_lab, wait_until};
use crate::lab_guard::seen::is_lost;
use crate::lab_guard::site::{Site, lab};

/// An archived version, and one that is only in its snapshot.
fn two_versions(machine: &crate::lab::Machine) -> Site<'_> {
    let site = Site::classic(machine, 2);
    // Nothing can be extended.
    site.leave_free(128);
    site.publish(1..=1, true);
    site.archived(1..=1);
    site.hold_up_archiving();
    site.publish(2..=2, true);
    site
}

/// The archived version is as it was, and the other one is lost for a reason that says all this; the next one is published as ever.
fn check_what_is_left(site: &mut Site<'_>, why: &[&str]) {
    wait_until("the archived version has lost its snapshot only", || site.state(1) == "ready archive");
    wait_until("the other one is lost", || site.state(2) == "lost ");
    let reason = site.version(2)["end_reason"].as_str().unwrap().to_owned();
    println!("{reason}");
    assert!(why.iter().all(|part| reason.contains(part)), "{reason}");
    site.let_archiving_go_on();
    site.publish(3..=3, false);
    site.archived(3..=3);
    site.check_contents();
    wait_until("an alarm tells of it", || site.alarms().iter().any(|key| key == "version report@2: lost"));
    site.end();
}

#[test]
fn lab_a_snapshot_that_is_removed_by_hand_is_missed() {
    in_lab(lab(), |machine| {
        let mut site = two_versions(machine);
        let second = crate::lab_store::ground::snapshot_of(&site.version(2)).unwrap();
        let states = site.states();
        // What the daemon does about the first one must not meet the second.
        let standing = site.ground.world.stand_still();
        for (version, _) in states {
            let mounted = site.ground.world.path("mnt/.snapshots").join(version["id"].as_str().unwrap());
            machine.run("umount", &[mounted.to_str().unwrap()]);
            machine
                .run("lvremove", &["-q", "--yes", &crate::lab_store::ground::snapshot_of(&version).unwrap()]);
        }
        drop(standing);
        // Whoever was about to archive it may find that before the guard does, and says the same in other words.
        check_what_is_left(&mut site, &[&second, "was removed", "in the archive"]);
    });
}

#[test]
fn lab_a_snapshot_that_fills_while_the_daemon_is_down_is_told_of_when_it_starts() {
    in_lab(lab(), |machine| {
        let mut site = two_versions(machine);
        let names: Vec<_> = site
            .states()
            .iter()
            .filter_map(|(version, _)| crate::lab_store::ground::snapshot_of(version))
            .collect();
        assert!(site.ground.world.stop().success());
        site.flood();
        for name in names {
            let status = crate::lab_guard::seen::dm_status(machine, &name).unwrap();
            assert!(is_lost(&status), "{name}: {status}");
        }
        let log = site.ground.world.start();
        println!("{log}");
        check_what_is_left(&mut site, &["was full"]);
    });
}
