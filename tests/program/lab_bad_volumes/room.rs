//! No room for a snapshot, in the group, in its metadata area or in the pool; and a trim that is not to be had.

use crate::lab::{in_lab, wait_until};
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

/// Gives the volume `hog` so many tags that of the group's metadata area no more than so many bytes are free.
fn fill_metadata_area(site: &Site<'_>, free: u64) {
    loop {
        let tags = (metadata_area_free(site).saturating_sub(free) / 900).min(100);
        if tags == 0 {
            return;
        }
        let names = (0..tags).map(|tag| format!("{:x>880}", format!("{}_{tag}_", metadata_area_free(site))));
        let options: Vec<String> = names.flat_map(|name| ["--addtag".to_owned(), name]).collect();
        let mut arguments = vec!["-q", "vg/hog"];
        arguments.extend(options.iter().map(String::as_str));
        site.run("lvchange", &arguments);
    }
}

/// How many bytes are free of the group's metadata area.
fn metadata_area_free(site: &Site<'_>) -> u64 {
    let free = ["--noheadings", "--units", "b", "--nosuffix", "-o", "vg_mda_free", "vg"];
    site.run("vgs", &free).trim().parse().unwrap()
}

#[test]
fn lab_a_metadata_area_is_never_filled_by_snapshots() {
    in_lab(lab(2, "320M"), |machine| {
        let disk = machine.disks[0].to_str().unwrap();
        machine.run("pvcreate", &["-q", "--metadatasize", "64k", "--dataalignment", "64k", disk]);
        let mut site = Site::thin(machine, "128M", "100M");
        site.restart_with("backend = \"lvm-thin\"\nkeep_snapshots = 20");
        site.run("lvcreate", &["-q", "-L", "4M", "-n", "hog", "vg"]);
        fill_metadata_area(&site, 14 << 10);
        // Some fit. Then the oldest that is in the archive gives way to each new one.
        for _ in 0..8 {
            site.write(64);
            site.publish();
            wait_until("all is in the archive", || site.is_archived());
        }
        let free = metadata_area_free(&site);
        assert!((5 << 10..13 << 10).contains(&free), "{free} bytes are free");
        let snapshots = site.run("lvs", &["--noheadings", "-o", "lv_name", "-S", "origin=data", "vg"]);
        assert!((2..8).contains(&snapshots.lines().count()), "{snapshots}");

        // If nothing can give way, the publication is refused, and what must be extended still can be.
        ONLY_LOOK.clone_into(&mut site.world.config);
        site.restart_with("backend = \"lvm-thin\"");
        site.settle();
        fill_metadata_area(&site, 4 << 10);
        site.restart();
        site.write(64);
        site.refused(
            507,
            "storage_full",
            &["metadata area of the volume group vg is nearly full", "docs/recover.md"],
        );
        site.run("lvextend", &["-q", "-L", "+4M", "vg/pool"]);
        give_room_by_the_document(&site, "The metadata area of the volume group is full");
        site.check_that_all_is_well();
    });
}

/// Types what a section of the document says, with this machine's names.
fn give_room_by_the_document(site: &Site<'_>, section: &str) {
    let recover = include_str!("../../../docs/recover.md");
    let (_, section) = recover.split_once(&format!("\n## {section}\n")).unwrap();
    let commands = section.split("\n```text\n").nth(1).unwrap().split("\n```").next().unwrap();
    let [old, disk] = [0, 1].map(|nth| site.machine.disks[nth].to_str().unwrap());
    let names = [("GROUP", "vg"), ("/dev/DISK", disk), ("/dev/OLD", old), ("POOL", "pool"), ("10G", "64M")];
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
        give_room_by_the_document(&site, "The pool is full");
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
