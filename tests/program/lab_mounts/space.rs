//! What space mounted versions take, and how blocks that a file system has freed go back to the pool.

use std::fs::{self, File};
use std::io::Write as _;
use std::time::{Duration, Instant};

use asat_host::mounts::{Error, trim};

use crate::lab::{Fs, Lab, in_lab};
use crate::lab_mounts::site::{Kind, Site, id, read};

#[test]
fn lab_freed_blocks_go_back_to_the_pool() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        for fs in [Fs::Ext4, Fs::Xfs] {
            let site = Site::set_up(machine, Kind::Thin, fs);
            let folder = site.origin.folder.clone().unwrap();
            fs::write(site.origin.path("large"), vec![1_u8; 32 << 20]).unwrap();
            machine.run("sync", &[]);
            let full = site.used(&site.origin);
            fs::remove_file(site.origin.path("large")).unwrap();
            machine.run("sync", &[]);
            assert_eq!(site.used(&site.origin), full, "they went back by themselves");
            // XFS tells of what was removed when it has come to that, which may be a moment later.
            let patience = Instant::now() + Duration::from_secs(20);
            loop {
                let told = trim(&folder).unwrap();
                let left = site.used(&site.origin);
                println!("{fs:?}: told of {told} bytes, pool used {full} -> {left} blocks of 64 KiB");
                if told >= 32 << 20 && left + 500 <= full {
                    break;
                }
                assert!(Instant::now() < patience, "{told} {full} {left}");
            }
        }
    });
}

#[test]
fn lab_what_takes_no_discards_is_named() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Classic, Fs::Ext4);
        let _snapshot = site.cut("v1");
        let folder = site.origin.folder.clone().unwrap();
        let error = trim(&folder).unwrap_err();
        assert!(matches!(&error, Error::NoTrim(path) if *path == folder), "{error}");
    });
}

/// What was deleted and still open at the cut has no name in the snapshot. ext4 frees its blocks as it mounts, even
/// read-only and without its log, and writes its maps for that; XFS does not.
#[test]
fn lab_to_mount_a_snapshot_takes_little_space_or_none() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        for (fs, most) in [(Fs::Ext4, 256), (Fs::Xfs, 0)] {
            let site = Site::set_up(machine, Kind::Classic, fs);
            site.sql("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(1000000))");
            let nameless = site.origin.path("nameless");
            let mut open = File::create(&nameless).unwrap();
            open.write_all(&vec![1; 40 << 20]).unwrap();
            fs::remove_file(&nameless).unwrap();
            let snapshot = site.cut("v1");
            let before = site.used(&snapshot);
            site.mount(&id(1), &snapshot).unwrap();
            machine.run("sync", &[]);
            let taken = site.used(&snapshot) - before;
            println!("{fs:?}: {taken} sectors to mount");
            assert!(taken <= most, "{fs:?}: {taken} sectors");
            let path = site.show(&id(1)).unwrap();
            assert_eq!(read(machine, &path, "SELECT count(*) FROM t; PRAGMA integrity_check"), "1\nok");
            site.mounts.unmount(&id(1)).unwrap();
        }
    });
}
