//! Stock clients read versions by their paths.

use std::fs;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use rustix::fs::{Advice, AtFlags, fadvise, statat};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::json;

use crate::common::World;
use crate::lab::{Lab, in_lab, wait_until};
use crate::lab_tree::{FUSE, at, configured, connect, errno, publish, rows, said, stock, tree, world};

/// The owner of what the daemon shows, and somebody else.
const ROOT: u32 = 0;
const NOBODY: u32 = 65534;

/// So much after what was read is left for the kernel to ask for.
const SKIPPED_BYTES: u64 = 128 << 10;

#[test]
fn lab_every_version_is_read_by_its_path_as_it_was() {
    in_lab(Lab::new(), |_| {
        let world = world(3);
        assert_eq!(names(&tree(&world)), ["as-of", "latest", "report@1", "report@2", "report@3"]);
        for version in 1..=3 {
            let path = at(&world, &format!("report@{version}/report.db"));
            assert_eq!(rows(&connect(&path)), version);
            assert_eq!(said(&stock(ROOT, &path)), format!("ok {version}"));
            let cut_at = world.get(&format!("/versions/report@{version}")).json()["cut_at"].clone();
            let as_of = at(&world, &format!("as-of/{}/report.db", cut_at.as_str().unwrap()));
            assert_eq!(rows(&connect(&as_of)), version);
            assert_eq!(fs::canonicalize(&as_of).unwrap(), fs::canonicalize(&path).unwrap());
        }
        for path in
            ["report@4", "report@1/report.db-wal", "as-of/2000-01-01T00:00:00Z/report.db", "as-of/soon"]
        {
            let error = fs::metadata(at(&world, path)).unwrap_err();
            assert_eq!(errno(&error), Errno::NOENT, "{path}");
        }
    });
}

#[test]
fn lab_a_file_in_the_tree_has_the_bytes_of_the_copy_and_of_the_download() {
    in_lab(Lab::new(), |_| {
        let mut world = configured("", 2);
        let copy = world.open("report@1");
        assert!(copy.starts_with(world.path("state")), "{}", copy.display());
        let copied = fs::read(copy).unwrap();
        world.stop();
        FUSE.clone_into(&mut world.config);
        world.start_under_contract();
        let path = world.open("report@1");
        assert_eq!(path, at(&world, "report@1/report.db"), "the lease's path is the one in the tree");
        assert_eq!(world.get("/versions/report@1").json()["path"], json!(path));
        assert!(
            fs::read(&path).unwrap() == copied && world.get("/versions/report@1/database").body == copied
        );
        assert_eq!(fs::metadata(&path).unwrap().len(), u64::try_from(copied.len()).unwrap());
        // Nothing was copied for the newest, of which there was no copy before.
        world.open("report@latest");
        assert_eq!(names(&world.path("state/copies")).iter().filter(|name| name.contains('@')).count(), 1);
    });
}

#[test]
fn lab_the_newest_is_followed_at_each_opening_and_an_open_file_stays_what_it_was() {
    in_lab(Lab::new(), |_| {
        let world = world(1);
        let latest = at(&world, "latest/report.db");
        let before = connect(&latest);
        assert_eq!(rows(&before), 1);
        publish(&world, 2);
        assert_eq!((rows(&before), rows(&connect(&latest))), (1, 2));
        let target = fs::read_link(&latest).unwrap();
        assert_eq!(target, Path::new("../report@2/report.db"));
    });
}

#[test]
fn lab_ten_readers_at_once_beside_a_writer_that_publishes() {
    in_lab(Lab::new(), |_| {
        let world = world(3);
        std::thread::scope(|scope| {
            for reader in 0..10 {
                let world = &world;
                scope.spawn(move || {
                    for round in 0..6 {
                        let version = 1 + (reader + round) % 3;
                        let path = at(world, &format!("report@{version}/report.db"));
                        assert_eq!(rows(&connect(&path)), version, "reader {reader}, round {round}");
                        assert!(rows(&connect(&at(world, "latest/report.db"))) >= 3);
                    }
                });
            }
            (4..=8).for_each(|version| publish(&world, version));
        });
        assert_eq!(rows(&connect(&at(&world, "latest/report.db"))), 8);
    });
}

#[test]
fn lab_nobody_writes_and_the_mode_says_who_reads() {
    in_lab(Lab::new(), |_| {
        for (section, owner_reads, others_read) in [
            ("", true, false),
            ("mode = \"0444\"\n", true, true),
            ("mode = \"0444\"\nallow_other = false\n", true, false),
            ("mode = \"0440\"\ngroup = \"65534\"\n", true, true),
        ] {
            let world = configured(&format!("{FUSE}{section}"), 1);
            let_others_through(&world);
            let path = at(&world, "report@1/report.db");
            for (user, reads) in [(ROOT, owner_reads), (NOBODY, others_read)] {
                let said = said(&stock(user, &path));
                assert_eq!(said == "ok 1", reads, "{section:?} {user}: {said}");
            }
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o222, 0);
            let writing = fs::File::options().write(true).open(&path).unwrap_err();
            assert_eq!(errno(&writing), Errno::ROFS);
            for path in ["new", "report@1/report.db-journal"] {
                assert_eq!(errno(&fs::write(at(&world, path), "").unwrap_err()), Errno::ROFS, "{path}");
            }
        }
    });
}

/// A world's folder is its owner's alone.
fn let_others_through(world: &World) {
    let through = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(world.folder.path(), through).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Nobody asks the daemon for what the kernel knows: the pages that were read, and that nothing is beside the database.
#[test]
fn lab_what_was_looked_at_is_kept_by_the_kernel() {
    in_lab(Lab::new(), |_| {
        let world = world(2);
        let folder = fs::File::open(at(&world, "report@1")).unwrap();
        let mut database = fs::File::open(at(&world, "report@1/report.db")).unwrap();
        let mut look = move || {
            let mut bytes = Vec::new();
            database.rewind().unwrap();
            database.read_to_end(&mut bytes).unwrap();
            let beside = ["-journal", "-wal", "-shm"]
                .map(|suffix| statat(&folder, format!("report.db{suffix}"), AtFlags::empty()).unwrap_err());
            assert_eq!(beside, [Errno::NOENT; 3]);
            let size = statat(&folder, "report.db", AtFlags::empty()).unwrap().st_size;
            assert_eq!(bytes.len(), usize::try_from(size).unwrap());
            bytes
        };
        let (sender, looked) = channel();
        let (go_on, again) = channel::<()>();
        let looking = spawn(move || {
            sender.send(look()).unwrap();
            again.recv().unwrap();
            sender.send(look()).unwrap();
        });
        let patience = Duration::from_secs(60);
        let before = looked.recv_timeout(patience).unwrap();
        world.signal(Signal::STOP);
        go_on.send(()).unwrap();
        let during = looked.recv_timeout(patience);
        world.signal(Signal::CONT);
        assert!(during.expect("the daemon was asked, and could not answer") == before);
        looking.join().unwrap();
    });
}

/// If a program reads the beginning of a short version, the kernel is given the rest before the program asks for it.
#[test]
fn lab_the_kernel_is_given_the_rest_of_a_short_version() {
    in_lab(Lab::new(), |_| {
        let world = world(20);
        let path = at(&world, "report@20/report.db");
        let file = fs::File::open(&path).unwrap();
        // So the kernel asks for nothing by itself.
        fadvise(&file, 0, None, Advice::Random).unwrap();
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
        let size = fs::metadata(&path).unwrap().len();
        let wanted = size - SKIPPED_BYTES;
        assert!(size > 2 * SKIPPED_BYTES, "{size}");
        wait_until("most of it is in the kernel", || {
            let said = Command::new("fincore").args(["-bno", "RES"]).arg(&path).output();
            let said = said.expect("this test needs the program fincore (package util-linux-extra)");
            String::from_utf8(said.stdout).unwrap().trim().parse::<u64>().unwrap() >= wanted
        });
        assert_eq!(rows(&connect(&path)), 20);
    });
}
