//! The pieces of the benchmark on volumes that need no daemon, on a real device-mapper.

#[path = "../../../../../tests/program/lab/mod.rs"]
mod lab;

use std::path::Path;

use lab::{Lab, Machine, in_lab};

use super::*;
use crate::args::{Backend, JournalMode, VolumesArgs};

fn workload(backend: Backend, iterations: u32, rows: u32) -> ValuationArgs {
    let volumes = VolumesArgs { disks: None, back_to_back: false, keep_snapshots: 0 };
    let journal_mode = JournalMode::Wal;
    ValuationArgs { iterations, rows, journal_mode, backend, while_writing: false, volumes }
}

#[test]
fn the_sizes_of_the_full_workload_fit_the_disks_that_are_asked_for() {
    let sizes = Sizes::of(&workload(Backend::LvmClassic, 95, 10_000), Kind::Classic);
    assert_eq!((sizes.volume_bytes, sizes.snapshot_bytes), (256 << 20, 104 << 20));
    let Three { asat, plain, none } = sizes.disk_bytes;
    assert!(asat <= 1 << 30 && plain <= 12 << 30 && none <= 512 << 20, "{asat}, {plain}, {none}");
    let small = Sizes::of(&workload(Backend::LvmThin, 3, 100), Kind::Thin).disk_bytes;
    assert!([small.asat, small.plain, small.none].iter().all(|bytes| *bytes < 1000 << 20), "{small:?}");
    let auto = Sizes::of(&workload(Backend::Auto, 95, 10_000), Kind::Thin);
    assert!(
        auto.disk_bytes.asat > auto.volume_bytes + auto.spare_bytes && auto.disk_bytes.asat <= 2 << 30,
        "{auto:?}"
    );
}

/// Two stores, one with plain snapshots; answers what each wrote to its disk.
fn run_two(machine: &Machine, backend: Backend, kind: Kind) -> (u64, u64) {
    let args = workload(backend, 3, 500);
    let sizes = Sizes::of(&args, kind);
    let (lvm, folder) = (Lvm::find().unwrap(), machine.folder(args.backend.text()));
    let shape = Shape { kind, volume_bytes: sizes.volume_bytes, spare_bytes: sizes.spare_bytes };
    let make = |disk: &Path, name: &str| {
        let disk = Disk::empty(disk).unwrap();
        let ground = Ground::make(disk, (&lvm, name), &shape, folder.join(name), &|text| panic!("{text}"));
        let ground = ground.unwrap();
        let book = Book::create(&ground.folder.join(STORE), JournalMode::Wal).unwrap();
        (ground, book)
    };
    let (plain, mut plain_book) = make(&machine.disks[0], "bench_plain");
    let (none, mut none_book) = make(&machine.disks[1], "bench_none");
    let snapshots = Snapshots { kind, bytes: sizes.snapshot_bytes };
    let before = (plain.written_bytes().unwrap(), none.written_bytes().unwrap());
    for number in 1..=args.iterations {
        let run = Run::new(number, args.rows);
        assert!(plain_book.value_anew(&run).unwrap() > 0.0 && none_book.value_anew(&run).unwrap() > 0.0);
        assert!(snapshots.take(&plain, number).unwrap() > 0.0);
    }
    let after = (plain.written_bytes().unwrap(), none.written_bytes().unwrap());
    assert_eq!(plain_book.totals().unwrap(), none_book.totals().unwrap());
    snapshots.check(&plain, args.iterations).unwrap();
    assert!(snapshots.check(&plain, args.iterations + 1).is_err());
    assert!(snapshots.taken_bytes(&plain).unwrap() > snapshots.taken_bytes(&none).unwrap());
    drop((plain_book, none_book));
    plain.remove().unwrap();
    // Whoever fails half-way drops it instead.
    drop(none);
    for disk in &machine.disks {
        Disk::empty(disk).unwrap();
    }
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn lab_disks_tell_plain_snapshots_from_none_and_are_empty_afterwards() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        for (backend, kind) in [(Backend::LvmClassic, Kind::Classic), (Backend::LvmThin, Kind::Thin)] {
            let (plain, none) = run_two(machine, backend, kind);
            assert!(plain > none && none > 0, "{kind:?}: {plain} and {none}");
        }
    });
}
