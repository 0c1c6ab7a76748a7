//! Several versions of one file system are mounted at once, and stock clients read what is shown of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use asat_host::mounts::{Mounted, Mounts, in_use};

use crate::lab::{Fs, Lab, Machine, Volume, in_lab};
use crate::lab_mounts::site::{KINDS, Kind, Site, id, names, numbers, read, read_as};

#[test]
fn lab_versions_on_ext4_are_shown_side_by_side() {
    in_lab(Lab::new().disks(2, "1G"), |machine| versions_are_shown(machine, Fs::Ext4));
}

#[test]
fn lab_versions_on_xfs_are_shown_side_by_side() {
    in_lab(Lab::new().disks(2, "1G"), |machine| versions_are_shown(machine, Fs::Xfs));
}

fn versions_are_shown(machine: &Machine, fs: Fs) {
    for kind in KINDS {
        let site = Site::set_up(machine, kind, fs);
        site.sql("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))");
        let versions: Vec<(u64, Volume)> = (1..=3)
            .map(|number| {
                let snapshot = site.cut(&format!("v{number}"));
                site.sql("INSERT INTO t VALUES (zeroblob(100000))");
                (number, snapshot)
            })
            .collect();
        for (number, snapshot) in &versions {
            // What is done already is not done again.
            for time in ["first", "second"] {
                let began = Instant::now();
                assert_eq!(site.mount(&id(*number), snapshot).unwrap(), site.mounts.inside(&id(*number)));
                let mounted = began.elapsed();
                assert_eq!(site.show(&id(*number)).unwrap(), site.mounts.path(&id(*number)));
                println!("{kind:?} {fs:?} {time}: mounted in {mounted:?}, shown after {:?}", began.elapsed());
            }
        }
        for (number, _) in &versions {
            check_shown(&site, *number);
        }
        let origin = machine.run("sqlite3", &[site.store().to_str().unwrap(), "SELECT count(*) FROM t"]);
        assert_eq!(origin.trim(), "4");

        // After a crash of the daemon, all of them are found.
        let mounts = Mounts::new(site.root.clone());
        let mounted = |(number, snapshot): &(u64, Volume)| Mounted {
            id: id(*number),
            device: numbers(snapshot),
            shown: true,
        };
        assert_eq!(mounts.survey().unwrap(), versions.iter().map(mounted).collect::<Vec<_>>());
        mounts.hide(&id(2)).unwrap();
        let shown: Vec<bool> = mounts.survey().unwrap().iter().map(|mounted| mounted.shown).collect();
        assert_eq!(shown, [true, false, true]);
        for (number, snapshot) in &versions {
            assert!(in_use(&snapshot.device).unwrap());
            for _ in 0..2 {
                mounts.unmount(&id(*number)).unwrap();
            }
            assert!(!in_use(&snapshot.device).unwrap());
            site.remove(snapshot).unwrap();
        }
        assert_eq!(mounts.survey().unwrap(), []);
        assert_eq!(
            (names(&site.root), names(&site.root.join(".snapshots"))),
            (vec![".snapshots".into()], vec![])
        );
    }
}

/// One version as its readers see it.
fn check_shown(site: &Site<'_>, number: u64) {
    let (machine, path) = (site.machine, site.mounts.path(&id(number)));
    let folder = path.parent().unwrap();
    assert_eq!(
        read(machine, &path, "SELECT count(*) FROM t; PRAGMA integrity_check"),
        format!("{number}\nok")
    );
    assert_eq!(names(folder), ["report.db"]);
    // The group of the root folder decides who comes here, and nobody else sees the whole file system.
    assert!(!read_as(machine, 65534, &path, "SELECT 1 FROM t").status.success());
    let inside = site.mounts.inside(&id(number)).join("srv/report.db");
    assert!(!read_as(machine, 0, &inside, "SELECT 1 FROM t").status.success());
    let modes =
        [&site.root, &site.root.join(".snapshots")].map(|path| fs::metadata(path).unwrap().permissions());
    assert_eq!(modes.map(|mode| mode.mode() & 0o7777), [0o750, 0o700]);
    // Not even root writes to it, or beside it by way of it.
    let refused = machine.try_run("sqlite3", &[path.to_str().unwrap(), "DELETE FROM t"]).unwrap_err();
    assert!(refused.contains("readonly"), "{refused}");
    assert_eq!(names(folder), ["report.db"]);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts: Vec<&str> =
        table.lines().filter(|line| line.contains(&format!("/report@{number}"))).collect();
    assert_eq!(mounts.len(), 2, "{table}");
    assert!(mounts.iter().all(|line| line.contains(" ro,nosuid,nodev,noexec,noatime ")), "{table}");
}

/// A superblock may say that the kernel is to stop where it finds an error, and an overflow makes one.
#[test]
fn lab_a_snapshot_that_overflows_while_it_is_mounted_does_not_stop_the_host() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Classic, Fs::Ext4);
        machine.run("tune2fs", &["-e", "panic", site.origin.device.to_str().unwrap()]);
        let names: Vec<String> = (0..600).map(|number| format!("many/{number}")).collect();
        fs::create_dir(site.origin.path("many")).unwrap();
        names.iter().for_each(|name| fs::write(site.origin.path(name), "").unwrap());
        site.sql("CREATE TABLE t (x)");
        let snapshot = site.cut("v1");
        site.mount(&id(1), &snapshot).unwrap();
        site.show(&id(1)).unwrap();
        // The names are read before the snapshot is lost, and the inodes are not: ext4 takes those for its own error.
        assert_eq!(
            crate::lab_mounts::site::names(&site.mounts.inside(&id(1)).join("many")).len(),
            names.len()
        );
        fs::write(site.origin.path("large"), vec![1_u8; 40 << 20]).unwrap();
        machine.run("sync", &[]);
        let patience = Instant::now() + Duration::from_secs(20);
        while !site.group.status(&snapshot).ends_with(" Invalid") {
            assert!(Instant::now() < patience, "{}", site.group.status(&snapshot));
        }
        let inside = site.mounts.inside(&id(1));
        let lost = names.iter().filter(|name| fs::metadata(inside.join(name)).is_err()).count();
        assert!(lost > 0, "everything was cached");
        site.mounts.unmount(&id(1)).unwrap();
        site.remove(&snapshot).unwrap();
        fs::write(site.origin.path("after"), "the origin is as it was").unwrap();
    });
}
