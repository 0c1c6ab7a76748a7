//! A thin volume can be cut by snapshots of both kinds: asat takes those that cost less, as long as there is room.

use crate::lab::{in_lab, wait_until};
use crate::lab_bad_volumes::site::{Site, lab};

/// The kind of snapshot that the newest version was cut by.
fn publish_and_look(site: &mut Site<'_>) -> String {
    let version = site.publish_kib(64);
    let kind = version["holdings"][0]["backend"].as_str().unwrap_or_else(|| panic!("{version:#}")).to_owned();
    site.check_content();
    site.settle();
    kind
}

#[test]
fn lab_thin_volumes_are_cut_by_the_snapshots_that_cost_less_and_have_room() {
    in_lab(lab(1, "512M"), |machine| {
        let mut site = Site::thin(machine, "160M", "128M");
        let cut_by = |log: &str, kind: &str| {
            let told = format!("backend=\"{kind}\"");
            assert!(log.contains("cut by snapshots") && log.contains(&told), "{told} is not in {log}");
        };
        cut_by(&site.restart_with("backend = \"auto\""), "lvm-classic");
        assert_eq!(publish_and_look(&mut site), "lvm-classic");

        // Snapshots that stay are better thin.
        cut_by(&site.restart_with("backend = \"auto\"\nkeep_snapshots = 1"), "lvm-thin");
        cut_by(&site.restart_with("backend = \"auto\""), "lvm-classic");

        // Somebody takes the rest of the group while the daemon runs.
        site.run("lvcreate", &["-q", "-l", "100%FREE", "-n", "taken", "vg"]);
        assert_eq!(publish_and_look(&mut site), "lvm-thin");
        cut_by(&site.restart_with("backend = \"auto\""), "lvm-thin");
        assert_eq!(publish_and_look(&mut site), "lvm-thin");

        // Who has chosen gets what was chosen, or nothing.
        cut_by(&site.restart_with("backend = \"lvm-classic\""), "lvm-classic");
        // The thin one of the last version is no base for these, and goes.
        wait_until("it is let go", || site.snapshots().is_empty());
        site.write(64);
        site.refused(507, "storage_full", &["the volume group vg has 0 B free", "vgextend"]);
        site.run("lvremove", &["-q", "--yes", "vg/taken"]);
        assert_eq!(publish_and_look(&mut site), "lvm-classic");
        cut_by(&site.restart_with("backend = \"lvm-thin\""), "lvm-thin");
        assert_eq!(publish_and_look(&mut site), "lvm-thin");

        // A classic snapshot of a thin volume outlives the daemon.
        site.restart_with("backend = \"lvm-classic\"\nkeep_snapshots = 1");
        let kept = site.publish();
        let mut daemon = site.world.daemon.take().unwrap();
        daemon.child.kill().unwrap();
        daemon.exit();
        site.restart_with("backend = \"lvm-classic\"\nkeep_snapshots = 1");
        assert!(site.state(&kept).contains("snapshot"), "{}", site.state(&kept));
        site.check_content();
        site.restart_with("backend = \"auto\"");
        site.check_that_all_is_well();
    });
}
