//! The rule for the space of a classic snapshot, against the kernel's own arithmetic.

use std::fs;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Instant;

use asat_core::sizing;
use asat_host::dm::Selector;
use asat_host::dm::target::Snapshot as Status;
use asat_host::lvm::units::Bytes;
use asat_host::lvm::{Call, Space};

use crate::lab::{Lab, in_lab};
use crate::lab_volumes::site::Site;
use crate::lab_volumes::snapshots::{Keeper, MIB};

/// With extents as small as chunks, LVM rounds nothing.
#[test]
fn lab_a_snapshot_of_the_most_that_is_needed_never_overflows_and_one_chunk_less_does() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        let small = Call::new("vgchange").option("--physicalextentsize", "4k").operand(&site.group);
        site.lvm.run(&small).unwrap();
        site.classic("data", "64m");
        let mut keeper = Keeper::at(&site);
        let chunk = 4096;
        let most = sizing::most_needed(64 * MIB, chunk);
        let mut overwritten = |number, size| {
            let (_, ours) =
                keeper.take(number, "data", Space::Own { size: Bytes(size), chunk: Bytes(chunk) });
            let status = || {
                let state = site.control.status(Selector::Uuid(&ours.device_uuid())).unwrap();
                Status::parse(&state.targets[0]).unwrap()
            };
            let Status::Valid { total, .. } = status() else { panic!() };
            let began = Instant::now();
            site.write("data", 64).unwrap();
            println!("{size} bytes, {total}: {:?} after {:?}", status(), began.elapsed());
            if size < most {
                site.wait_until("it overflows", || status() == Status::Invalid);
            }
            let status = status();
            site.lvm.remove(&site.control, &ours).unwrap();
            (total.to_bytes(), status)
        };
        let (total, status) = overwritten(1, most);
        assert!(total == Some(Bytes(most)) && matches!(status, Status::Valid { .. }), "{status:?}");
        assert_eq!(overwritten(2, most - chunk), (Some(Bytes(most - chunk)), Status::Invalid));
        // LVM knows the same bound.
        let (total, status) = overwritten(3, most + 16 * chunk);
        assert!(total == Some(Bytes(most)) && matches!(status, Status::Valid { .. }), "{status:?}");
    });
}

/// Single pages are written here and there, as a store's writer does.
#[test]
fn lab_small_chunks_copy_least_for_scattered_pages() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "256m");
        let mut keeper = Keeper::at(&site);
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap();
        let mut options = fs::OpenOptions::new();
        options.write(true).custom_flags(direct);
        let data = options.open(format!("/dev/{}", site.of("data"))).unwrap();
        let mut buffer = vec![b'x'; 8192];
        let aligned = buffer.as_ptr().align_offset(4096);
        let page = &mut buffer[aligned..aligned + 4096];

        let mut copied = Vec::new();
        for (number, chunk) in (1..).zip([4 << 10, 16 << 10, 64 << 10, 256 << 10]) {
            let size = Bytes(sizing::most_needed(256 * MIB, chunk));
            let (made, ours) = keeper.take(number, "data", Space::Own { size, chunk: Bytes(chunk) });
            let cow = format!("{}-cow", site.device(made.ours.name().as_str()));
            let (major, minor) = site.control.status(Selector::Name(&cow)).unwrap().number;
            let written = || -> u64 {
                let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).unwrap();
                stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
            };
            let (before, began) = (written(), Instant::now());
            let mut random = 20_141_119_u64;
            for _ in 0..2000 {
                // Knuth's MMIX generator: the same pages in every run.
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                data.write_all_at(page, (random >> 33) % 65_536 * 4096).unwrap();
            }
            let (bytes, elapsed) = (written() - before, began.elapsed());
            println!(
                "chunks of {:>3} KiB: {:>5.1} MiB written in {elapsed:?}",
                chunk >> 10,
                bytes as f64 / MIB as f64
            );
            copied.push(bytes);
            site.lvm.remove(&site.control, &ours).unwrap();
        }
        assert!(copied.is_sorted(), "{copied:?}");
    });
}
