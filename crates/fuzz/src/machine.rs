//! What LVM and the kernel say.

use std::ops::Range;

use asat_host::dm::target::{OriginTable, PoolTable, Snapshot, SnapshotTable, Thin, ThinPool, ThinTable};
use asat_host::dm::wire::{self, Target};
use asat_host::lvm::names::{Installation, Record, Which, further, is_finished, made_by, named_for};
use asat_host::lvm::report::{LogicalVolume, parse_groups, parse_physical_volumes, parse_volumes};
use asat_host::lvm::units::{Bytes, Sectors};
use asat_host::lvm::{Whose, recognise};
use asat_host::outside;
use asat_host::store::{Told, parse_locks};
use asat_host::volume::mounts;
use asat_host::volume::stack::parse_uuid;

use crate::{pieces, text};

/// An installation that has recorded one version, as the corpus tells of it.
fn installation() -> Installation {
    let uuid = |text: &str| text.parse().unwrap();
    let record = Record {
        group: uuid("v2ilnJ-eanS-tbT3-hzP6-1kpH-Cu0r-2gYcrM"),
        origin: uuid("eCMUGc-db3n-FSli-WJg8-PRXL-cbK2-M9scQA"),
        volume: Which::MadeSince("2026-11-19T17:00:03Z".parse().unwrap()),
    };
    let id = "0193aa55c3d47e019f3b2c77d0e1f2a3".parse().unwrap();
    Installation { id, records: [("re_port-x@12".parse().unwrap(), record)].into() }
}

/// What is ours says so by all its marks.
fn check_marks(volume: &LogicalVolume, installation: &Installation) {
    let _ = (Told::read(further(volume)), is_finished(volume));
    if let Whose::Ours(ours) = recognise(volume, installation) {
        assert!(installation.records.contains_key(ours.version()));
        assert_eq!(made_by(volume), Some((installation.id.clone(), ours.version().clone())));
        assert_eq!(named_for(volume, &installation.id).as_ref(), Some(ours.version()));
    }
}

pub(crate) fn lvs(bytes: &[u8]) {
    let installation = installation();
    for volume in parse_volumes(&text(bytes)).unwrap_or_default() {
        check_marks(&volume, &installation);
        assert_eq!(volume.uuid.to_string().parse(), Ok(volume.uuid));
        assert_eq!(volume.name.as_str().parse(), Ok(volume.name));
    }
}

pub(crate) fn vgs(bytes: &[u8]) {
    for group in parse_groups(&text(bytes)).unwrap_or_default() {
        assert!(group.extent_size.0 > 0, "sizes are divided by it");
        let _ = (group.free.to_bytes(group.extent_size), Bytes(u64::MAX).to_extents(group.extent_size));
        assert_eq!(group.name.as_str().parse(), Ok(group.name));
    }
}

pub(crate) fn pvs(bytes: &[u8]) {
    for volume in parse_physical_volumes(&text(bytes)).unwrap_or_default() {
        assert_eq!(volume.uuid.to_string().parse(), Ok(volume.uuid));
    }
}

pub(crate) fn lvm_texts(bytes: &[u8]) {
    let text = text(bytes);
    let _ = outside::lvm_settings(&text);
    if let Some(version) = outside::lvm_version(&text) {
        assert_eq!(outside::lvm_version(&format!("LVM version: {version}")), Some(version));
    }
    if let Ok(uuid) = parse_uuid(&text) {
        assert_eq!(uuid.to_string(), text);
    }
}

pub(crate) fn thin_delta(bytes: &[u8]) {
    let same = outside::same_blocks(&text(bytes), [1, 2], 128).unwrap_or_default();
    // They follow one another, with something else between them.
    let in_order = |pair: &[Range<u64>]| pair[0].end < pair[1].start;
    assert!(same.iter().all(|range| range.start < range.end) && same.windows(2).all(in_order), "{same:?}");
}

pub(crate) fn dm_answers(bytes: &[u8]) {
    let _ = (wire::version(bytes), wire::is_too_small(bytes), wire::is_suspended(bytes));
    if let Some(devices) = wire::devices(bytes) {
        assert!(devices.len() <= bytes.len() / 13, "{} devices in {} bytes", devices.len(), bytes.len());
    }
    if let Some(state) = wire::state(bytes) {
        assert!(
            state.targets.len() <= bytes.len() / 4,
            "{} targets in {} bytes",
            state.targets.len(),
            bytes.len()
        );
        state.targets.iter().for_each(read_target);
    }
}

fn read_target(target: &Target) {
    let _ = (Snapshot::parse(target), Thin::parse(target), ThinPool::parse(target));
    let _ = (PoolTable::parse(target), ThinTable::parse(target));
    let _ = (SnapshotTable::parse(target), OriginTable::parse(target));
}

pub(crate) fn dm_targets(bytes: &[u8]) {
    for kind in ["snapshot", "thin", "thin-pool", "snapshot-origin"] {
        let (start, length) = (Sectors(0), Sectors(u64::MAX));
        let target = Target { start, length, kind: kind.to_owned(), text: text(bytes) };
        read_target(&target);
        // A state that is not understood is never taken for a healthy one of another kind.
        let other = Target { kind: "linear".to_owned(), ..target };
        assert!(
            Snapshot::parse(&other).is_err()
                && Thin::parse(&other).is_err()
                && ThinPool::parse(&other).is_err()
        );
    }
}

pub(crate) fn mountinfo(bytes: &[u8]) {
    let table = text(bytes);
    let mounts = mounts::parse(&table);
    assert!(mounts.len() <= table.lines().count());
    for mount in mounts {
        assert!(mount.root.is_absolute() && mount.mount_point.is_absolute());
        assert_eq!(mount.inside(&mount.mount_point), Some(mount.root.clone()));
        let inside = mount.inside(&mount.mount_point.join("report.db")).expect("it is below the mount");
        assert!(inside.starts_with(&mount.root));
    }
    let _ = mounts::parse_mount_id(&table);
}

pub(crate) fn locks(bytes: &[u8]) {
    let list = text(bytes);
    let locks = parse_locks(&list);
    assert!(locks.len() <= list.lines().count() && locks.iter().all(|lock| lock.pid > 0));
}

pub(crate) fn counters(bytes: &[u8]) {
    let text = text(bytes);
    let _ = (outside::process_time(&text), outside::counted(&text));
    if let Some((device, inode)) = outside::journal(&text) {
        assert_eq!(outside::journal(&format!("{device}:{inode}")), Some((device, inode)));
    }
}

/// Extents are shorter in the corpus than the kernel's: with numbers of four bytes, of 4 KiB each.
fn map(bytes: &[u8]) -> Vec<outside::Told> {
    let number = |bytes: &[u8]| {
        let number = u32::from_le_bytes(bytes.try_into().unwrap());
        // The last ones are far beyond.
        u64::from(number) << if number > 0xffff_ff00 { 32 } else { 12 }
    };
    let extents = bytes.as_chunks::<16>().0.iter();
    extents
        .map(|bytes| {
            let flags = u32::from_le_bytes(bytes[12..].try_into().unwrap());
            (number(&bytes[..4]), number(&bytes[4..8]), number(&bytes[8..12]), flags)
        })
        .collect()
}

pub(crate) fn extents(bytes: &[u8]) {
    let [one, other] = pieces(bytes);
    let (one, other) = (map(one), map(other));
    let unchanged = outside::unchanged(&one, &other);
    assert_eq!(unchanged, outside::unchanged(&other, &one), "neither of two maps comes first");
    if let Some(unchanged) = unchanged {
        let mapped: u64 = one.iter().map(|(_, _, length, _)| length).sum();
        assert!(unchanged.bytes() <= mapped);
    }
}
