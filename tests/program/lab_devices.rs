//! What device-mapper does, as far as asat builds on it; with this the lab shows that it is real.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lab::{Fs, Lab, Machine, Volume, VolumeGroup, in_lab};

const MIB: usize = 1 << 20;

/// Writes a file and waits until the disk has it.
fn write(path: &Path, content: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
}

/// Cuts a snapshot between two contents of a file, and reads both back.
fn check_that_it_holds(
    group: &VolumeGroup<'_>,
    origin: &Volume,
    cut: impl FnOnce(&VolumeGroup<'_>) -> Volume,
) {
    let (old, new) = (vec![b'o'; 3 * MIB], vec![b'n'; 3 * MIB]);
    write(&origin.path("store"), &old);
    let mut snapshot = cut(group);
    write(&origin.path("store"), &new);
    write(&origin.path("later"), b"later");
    group.mount_snapshot(&mut snapshot);
    assert!(fs::read(snapshot.path("store")).unwrap() == old, "{snapshot:?} has changed");
    assert!(!snapshot.path("later").exists(), "{snapshot:?} has what came later");
    assert!(File::create(snapshot.path("mine")).is_err(), "{snapshot:?} can be written");
    assert!(fs::read(origin.path("store")).unwrap() == new);
    group.unmount(&mut snapshot);
}

fn snapshots_hold(machine: &Machine, fs: Fs) {
    let group = machine.volume_group("classic", &[0]);
    let origin = group.origin("data", "320M", fs);
    check_that_it_holds(&group, &origin, |group| group.classic_snapshot(&origin, "cut", "64M"));
    assert!(group.status(&group.volume("cut", fs)).contains(" snapshot "));
    let thin = machine.volume_group("thin", &[1]);
    thin.thin_pool("pool", "512M");
    let origin = thin.thin_origin("pool", "data", "400M", fs);
    check_that_it_holds(&thin, &origin, |group| group.thin_snapshot(&origin, "cut"));
    assert!(thin.status(&thin.volume("cut", fs)).contains(" thin "));
}

#[test]
fn lab_snapshots_hold_the_old_content_on_ext4() {
    in_lab(Lab::new().disks(2, "1G"), |machine| snapshots_hold(machine, Fs::Ext4));
}

#[test]
fn lab_snapshots_hold_the_old_content_on_xfs() {
    in_lab(Lab::new().disks(2, "1G"), |machine| snapshots_hold(machine, Fs::Xfs));
}

#[test]
fn lab_a_classic_snapshot_that_overflows_reads_invalid_and_harms_nobody_else() {
    in_lab(Lab::new(), |machine| {
        let group = machine.volume_group("vg", &[0]);
        let origin = group.origin("data", "128M", Fs::Ext4);
        write(&origin.path("store"), &vec![b'o'; 16 * MIB]);
        let small = group.classic_snapshot(&origin, "small", "8M");
        let mut large = group.classic_snapshot(&origin, "large", "64M");
        let (used, whole) = {
            let status = group.status(&small);
            let (used, whole) = status.split(' ').nth(3).unwrap().split_once('/').unwrap();
            (used.parse::<u64>().unwrap(), whole.parse::<u64>().unwrap())
        };
        assert!(used < whole && whole == 8 * 2048, "{used} of {whole} sectors");
        write(&origin.path("store"), &vec![b'n'; 16 * MIB]);
        write(&origin.path("more"), &vec![b'n'; 16 * MIB]);
        // The kernel gives the snapshot up beside the write, a moment later.
        let patience = Instant::now() + Duration::from_secs(10);
        while !group.status(&small).ends_with(" Invalid") {
            assert!(Instant::now() < patience, "{}", group.status(&small));
        }
        let attributes =
            machine.run("lvs", &["--noheadings", "-o", "lv_attr", &format!("{}/small", group.name)]);
        assert!(attributes.trim().starts_with("swi-I"), "{attributes}");
        group.mount_snapshot(&mut large);
        assert!(fs::read(large.path("store")).unwrap() == vec![b'o'; 16 * MIB]);
    });
}
