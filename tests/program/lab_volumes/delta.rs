//! What it would bring to ask a thin pool what has changed between two snapshots: measured beside reading the later one whole,
//! which is what archiving does.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use asat_archive::fingerprint::page_hash;

use crate::lab::{Fs, Lab, Machine, in_lab};

const MIB: usize = 1 << 20;
/// The size of the file that stands for a store, and how many of its pages change between two snapshots.
const FILE_MIB: usize = 700;
const CHANGES: usize = 400;
const PAIRS: u8 = 3;
const PAGE: usize = 4096;

/// Reads a file and hashes its pages; nothing of it is in memory at first.
fn read_whole(file: &Path) -> Duration {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    let (began, mut buffer) = (Instant::now(), vec![0; MIB]);
    let (mut file, mut hashes) = (File::open(file).unwrap(), [0; 32]);
    while file.read(&mut buffer).unwrap() > 0 {
        hashes = buffer.chunks(PAGE).map(page_hash).fold(hashes, |_, hash| hash);
    }
    println!("the last hash: {hashes:x?}");
    began.elapsed()
}

/// Asks the pool what differs between two snapshots; answers how long that took, and how many ranges differ.
fn ask_pool(machine: &Machine, pool: &str, ids: [&str; 2]) -> (Duration, usize) {
    let began = Instant::now();
    let tell = |what: &str| machine.run("dmsetup", &["message", &format!("{pool}-tpool"), "0", what]);
    tell("reserve_metadata_snap");
    let (of, metadata) = (["--thin1", ids[0], "--thin2", ids[1]], format!("/dev/mapper/{pool}_tmeta"));
    let told = machine.run("thin_delta", &[&["--metadata-snap"][..], &of, &[&metadata]].concat());
    tell("release_metadata_snap");
    (began.elapsed(), told.matches("<different").count())
}

#[test]
#[ignore = "it measures: cargo test --release --test lab delta -- --ignored --nocapture"]
fn lab_measures_what_it_takes_to_ask_a_pool_what_has_changed() {
    in_lab(Lab::new().disks(1, "3G"), |machine| {
        let group = machine.volume_group("delta", &[0]);
        group.thin_pool("pool", "2500M");
        let origin = group.thin_origin("pool", "data", "1G", Fs::Ext4);
        let file = File::create(origin.path("file")).unwrap();
        let content: Vec<u8> = (0..=u8::MAX).cycle().take(MIB).collect();
        (0..FILE_MIB).for_each(|mib| file.write_all_at(&content, (mib * MIB) as u64).unwrap());
        file.sync_all().unwrap();
        let name = origin.device.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let pool = format!("{}-pool", name.replace('-', "--"));
        let snapshot = |name: String| {
            let snapshot = group.thin_snapshot(&origin, &name);
            let id =
                machine.run("lvs", &["--noheadings", "-o", "thin_id", snapshot.device.to_str().unwrap()]);
            (snapshot, id.trim().to_owned())
        };
        for pair in 0..PAIRS {
            let (_, before) = snapshot(format!("before{pair}"));
            for change in 0..CHANGES {
                let page = (change * 9973 + usize::from(pair)) % (FILE_MIB * MIB / PAGE);
                file.write_all_at(&[pair + 1; PAGE], (page * PAGE) as u64).unwrap();
            }
            file.sync_all().unwrap();
            let (mut after, id) = snapshot(format!("after{pair}"));
            group.mount_snapshot(&mut after);
            let whole = read_whole(&after.path("file"));
            group.unmount(&mut after);
            let (asked, ranges) = ask_pool(machine, &pool, [&before, &id]);
            println!("pair {pair}: whole {whole:?}, asked {asked:?}: {ranges} ranges differ");
            assert!(ranges > 0);
        }
    });
}
