//! A database in WAL mode is set to rollback mode through its snapshot's device: two bytes, and no other.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use asat_host::mounts::{Error, into_rollback_mode};
use rusqlite::Connection;

use crate::lab::{Fs, Lab, Machine, in_lab};
use crate::lab_mounts::site::{INSIDE, KINDS, Kind, Site, id, read};

/// No file system has smaller blocks, and a device is written in no smaller ones.
const BLOCK: usize = 512;

#[test]
fn lab_on_ext4_a_wal_database_is_shown_without_its_log() {
    in_lab(Lab::new().disks(2, "1G"), |machine| only_the_main_file_is_shown(machine, Fs::Ext4));
}

#[test]
fn lab_on_xfs_a_wal_database_is_shown_without_its_log() {
    in_lab(Lab::new().disks(2, "1G"), |machine| only_the_main_file_is_shown(machine, Fs::Xfs));
}

/// A store in WAL mode: ten rows in its main file, and five more in its log for as long as this is open.
fn wal_store(path: &Path) -> Connection {
    let store = Connection::open(path).unwrap();
    store.pragma_update(None, "journal_mode", "wal").unwrap();
    store.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    let insert = |rows: usize| "INSERT INTO t VALUES (zeroblob(9000));".repeat(rows);
    store.execute_batch(&format!("CREATE TABLE t (x); {}", insert(10))).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, u32>(0)).unwrap();
    store.execute_batch(&insert(5)).unwrap();
    store
}

/// A hash of each block of a device.
fn blocks(device: &Path) -> Vec<u64> {
    let mut file = File::open(device).unwrap();
    let mut chunk = vec![0; 2048 * BLOCK];
    let mut hashes = Vec::new();
    while let Ok(()) = file.read_exact(&mut chunk) {
        hashes.extend(chunk.chunks(BLOCK).map(|block| {
            let mut hasher = DefaultHasher::new();
            hasher.write(block);
            hasher.finish()
        }));
    }
    hashes
}

fn block(device: &Path, number: usize) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    let file = File::open(device).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, (number * BLOCK) as u64).unwrap();
    bytes
}

fn only_the_main_file_is_shown(machine: &Machine, fs: Fs) {
    for kind in KINDS {
        let site = Site::set_up(machine, kind, fs);
        let store = wal_store(&site.store());
        let snapshot = site.cut("v1");
        let device = &snapshot.device;
        let image = fs::read(site.store()).unwrap();
        let untouched = blocks(device);
        site.mount(&id(1), &snapshot).unwrap();
        let file = site.mounts.file(&id(1), Path::new(INSIDE));
        let log = fs::metadata(file.with_extension("db-wal")).unwrap().len();
        assert!(log > 5 * 9000, "the snapshot has no log to be kept away: {log}");
        // Somebody, such as an archive, has read the file through the cache.
        assert!(fs::read(&file).unwrap() == image);
        assert!(blocks(device) == untouched, "to mount it has changed the snapshot");

        let used = site.used(&snapshot);
        let began = Instant::now();
        assert!(into_rollback_mode(&file, device).unwrap());
        let took = began.elapsed();
        println!("{kind:?} {fs:?}: {took:?}, used {used} -> {}", site.used(&snapshot));
        let began = Instant::now();
        assert!(into_rollback_mode(&file, device).unwrap());
        println!("{kind:?} {fs:?}: {:?} where nothing is to be done", began.elapsed());

        let now = blocks(device);
        let changed: Vec<usize> = (0..now.len()).filter(|at| now[*at] != untouched[*at]).collect();
        let [at] = changed[..] else { panic!("{changed:?}") };
        let mut expected = image.clone();
        expected[18..20].copy_from_slice(&[1, 1]);
        assert!(block(device, at) == expected[..BLOCK]);
        assert!(fs::read(&file).unwrap() == expected);
        assert!(fs::read(site.store()).unwrap() == image, "the origin has changed");
        assert!(block(&site.origin.device, at) == image[..BLOCK], "the origin's device has changed");

        let path = site.show(&id(1)).unwrap();
        assert_eq!(read(machine, &path, "SELECT count(*) FROM t; PRAGMA integrity_check"), "10\nok");
        let rows: u32 = store.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 15);
        // After a mount anew it is what the disk has.
        site.mounts.unmount(&id(1)).unwrap();
        site.mount(&id(1), &snapshot).unwrap();
        assert!(fs::read(&file).unwrap() == expected);
        site.mounts.unmount(&id(1)).unwrap();
    }
}

#[test]
fn lab_what_cannot_be_set_to_rollback_mode_is_left_as_it_is() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        let site = Site::set_up(machine, Kind::Thin, Fs::Xfs);
        let _store = wal_store(&site.store());
        let at = |name: &str| site.origin.path(name);
        // A file whose blocks are another one's too, one that is a hole, one that is none, and one beside it.
        machine.run(
            "cp",
            &["--reflink=always", site.store().to_str().unwrap(), at("shared.db").to_str().unwrap()],
        );
        File::create(at("hole.db")).unwrap().set_len(8192).unwrap();
        File::create(at("empty.db")).unwrap();
        fs::write(at("text.db"), "SQLite format 3 is what I am about").unwrap();
        std::os::unix::fs::symlink("srv/report.db", at("link.db")).unwrap();
        let snapshot = site.cut("v1");
        let device = &snapshot.device;
        let inside = site.mount(&id(1), &snapshot).unwrap();
        let untouched = blocks(device);
        for name in ["shared.db", "srv/report.db"] {
            assert!(!into_rollback_mode(&inside.join(name), device).unwrap(), "{name} is shared");
        }
        for name in ["hole.db", "empty.db", "text.db"] {
            let error = into_rollback_mode(&inside.join(name), device).unwrap_err();
            assert!(matches!(&error, Error::NotADatabase { path, .. } if path.ends_with(name)), "{error}");
        }
        let error = into_rollback_mode(&inside.join("link.db"), device).unwrap_err();
        assert!(matches!(&error, Error::NotAFile(_)), "{error}");
        // The origin's device has the very same blocks.
        let error = into_rollback_mode(&inside.join("shared.db"), &site.origin.device).unwrap_err();
        assert!(matches!(&error, Error::NotTheDevice { path, .. } if *path == site.origin.device), "{error}");
        assert!(blocks(device) == untouched);
    });
}

/// As on a kernel that lets nobody write to the device of a mounted file system.
#[test]
fn lab_where_the_device_cannot_be_written_nothing_is_done() {
    in_lab(Lab::new().disks(2, "1G"), |machine| {
        for kind in KINDS {
            let site = Site::set_up(machine, kind, Fs::Ext4);
            let _store = wal_store(&site.store());
            let snapshot = site.cut("v1");
            site.mount(&id(1), &snapshot).unwrap();
            let (file, device) = (site.mounts.file(&id(1), Path::new(INSIDE)), &snapshot.device);
            machine.run("blockdev", &["--setro", device.to_str().unwrap()]);
            let untouched = fs::read(&file).unwrap();
            assert!(!into_rollback_mode(&file, device).unwrap());
            assert!(fs::read(&file).unwrap() == untouched);
            machine.run("blockdev", &["--setrw", device.to_str().unwrap()]);
            assert!(into_rollback_mode(&file, device).unwrap());
        }
    });
}
