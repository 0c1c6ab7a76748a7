//! Thin pools, and what the kernel says of them.

use crate::lab::{Fs, Machine, Volume, VolumeGroup};
use crate::lab_guard::seen::dm_status;

/// A pool with 2 MiB of metadata, and a volume in it.
pub fn with_little_metadata(machine: &Machine) -> (VolumeGroup<'_>, Volume) {
    let group = machine.volume_group("vg", &[0]);
    machine.run("vgchange", &["-q", "--physicalextentsize", "1M", "vg"]);
    let small = ["--poolmetadatasize", "2M", "--poolmetadataspare", "n", "--chunksize", "64K"];
    let pool = ["-q", "--yes", "--type", "thin-pool", "-L", "1536M", "-n", "pool", "vg"];
    machine.run("lvcreate", &[&pool[..], &small].concat());
    let volume = group.thin_origin("pool", "data", "640M", Fs::Ext4);
    (group, volume)
}

/// What the kernel says of the pool.
pub fn status(machine: &Machine) -> String {
    dm_status(machine, "mapper/vg-pool-tpool").unwrap()
}

/// How many blocks of the pool's metadata (word 4 of its status) or data (5) are in use, and of how many.
pub fn in_use(status: &str, word: usize) -> (u64, u64) {
    let (used, total) = status.split(' ').nth(word).unwrap().split_once('/').unwrap();
    (used.parse().unwrap(), total.parse().unwrap())
}

/// The modes that the kernel has put the pool in since its log was cleared, as `out-of-data-space (queue IO)`.
pub fn modes(machine: &Machine) -> Vec<String> {
    let log = machine.run("dmesg", &[]);
    let modes = log.lines().filter_map(|line| line.split_once("switching pool to "));
    modes.map(|(_, mode)| mode.trim_end_matches(" mode").to_owned()).collect()
}
