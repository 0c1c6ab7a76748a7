//! No room for a snapshot, in the group or in the pool; and a trim that is not to be had.

use crate::lab::in_lab;
use crate::lab_bad_volumes::site::{Site, lab};

/// A guard that only looks: it would make room by itself, and drop what these tests keep.
const ONLY_LOOK: &str = "[guard]\nleast_free = \"1 KiB\"\nladder = [\"alarm\"]";

#[test]
fn lab_a_group_without_room_refuses_until_there_is_some() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "128M");
        ONLY_LOOK.clone_into(&mut site.world.config);
        let classic = "backend = \"lvm-classic\"\nsnapshot_size = \"64 MiB\"\n";
        site.restart_with(classic);
        site.publish();
        site.settle();
        // A snapshot takes 64 MiB here, and 56 are left.
        site.run("lvcreate", &["-q", "-L", "132M", "-n", "hog", "vg"]);
        site.write(64);
        let said = ["64.0 MiB", "vg has 56.0 MiB free", "8.0 MiB are missing", "vgextend", "snapshot_size"];
        site.refused(507, "storage_full", &said);
        site.run("lvremove", &["-q", "--yes", "vg/hog"]);
        site.check_that_all_is_well();

        // A device with a classic snapshot takes no discards; a version can be had without.
        site.restart_with(&format!("{classic}trim = true\nkeep_snapshots = 1"));
        site.publish();
        site.publish();
        let log = site.world.daemon.as_mut().unwrap().wait_for("cannot give freed blocks back").unwrap();
        let warning = log.lines().last().unwrap();
        assert!(warning.contains("WARN") && warning.contains("published without store.trim"), "{warning}");
        site.restart_with(&format!("{classic}trim = true"));
        site.check_that_all_is_well();
    });
}

/// Types what the document says of a pool that is full, with this machine's names.
fn give_room_by_the_document(site: &Site<'_>) {
    let recover = include_str!("../../../docs/recover.md");
    let (_, section) = recover.split_once("\n## The pool is full\n").unwrap();
    let commands = section.split("\n```text\n").nth(1).unwrap().split("\n```").next().unwrap();
    let disk = site.machine.disks[1].to_str().unwrap();
    let names = [("GROUP", "vg"), ("/dev/DISK", disk), ("POOL", "pool"), ("10G", "64M")];
    let commands = names.iter().fold(commands.to_owned(), |text, (name, here)| text.replace(name, here));
    assert_eq!(commands.lines().count(), 2, "{commands}");
    site.run("sh", &["-euc", &commands]);
}

#[test]
fn lab_a_pool_without_room_refuses_until_there_is_some() {
    in_lab(lab(2, "320M"), |machine| {
        let mut site = Site::thin(machine, "128M", "100M");
        ONLY_LOOK.clone_into(&mut site.world.config);
        site.restart_with("backend = \"lvm-thin\"\ntrim = true");
        site.publish();
        site.settle();
        fill_metadata(&site);
        site.write(64);
        let said = ["thin pool vg/pool is too full", "% of its metadata space", "--poolmetadatasize"];
        let problem = site.refused(507, "storage_full", &said);
        let detail = problem["detail"].as_str().unwrap();
        let percent = |of: &str| detail.split(of).next().unwrap().rsplit(' ').next().unwrap().parse::<f64>();
        assert!(percent(" % of its metadata").unwrap() > 75.0, "{detail}");
        site.run("lvextend", &["-q", "--poolmetadatasize", "+2M", "vg/pool"]);
        site.publish();
        site.settle();

        // Somebody else's volume takes nearly all of the rest.
        site.run("lvcreate", &["-q", "-V", "128M", "-n", "other", "--thinpool", "vg/pool"]);
        let (used, total) = in_use(&site, 5);
        let count = format!("count={}", total * 98 / 100 - used);
        site.run("dd", &["if=/dev/urandom", "of=/dev/vg/other", "bs=64K", &count, "oflag=direct"]);
        site.write(64);
        let said = ["thin pool vg/pool is too full", "% of its data space", "lvextend --size"];
        site.refused(507, "storage_full", &said);
        give_room_by_the_document(&site);
        site.publish();
        site.settle();
        site.run("lvremove", &["-q", "--yes", "vg/other"]);
        site.check_that_all_is_well();
    });
}

/// Fills the pool's metadata to just above 75 %. Each empty thin volume takes a block.
fn fill_metadata(site: &Site<'_>) {
    let (used, total) = in_use(site, 4);
    let ids = 1000..1000 + (total * 77 / 100 - used);
    let made = ids.map(|id| format!("dmsetup message vg-pool-tpool 0 'create_thin {id}' || exit\n"));
    site.run("sh", &["-c", &made.collect::<String>()]);
}

/// How many blocks of the pool's metadata (word 4 of its status) or data (5) are in use, and of how many.
fn in_use(site: &Site<'_>, word: usize) -> (u32, u32) {
    let status = site.run("dmsetup", &["status", "vg-pool-tpool"]);
    let (used, total) = status.split(' ').nth(word).unwrap().split_once('/').unwrap();
    (used.parse().unwrap(), total.parse().unwrap())
}
