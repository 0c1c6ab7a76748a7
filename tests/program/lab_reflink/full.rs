//! Where the file system is full, a publication is refused, nothing of it is left, and the store is as it was.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde_json::json;

use crate::common::World;
use crate::lab::{Machine, in_lab};
use crate::lab_reflink::site::{self, entries, publish};

/// Takes all the space that there is.
fn fill(machine: &Machine, file: &Path) {
    let name = file.to_str().unwrap();
    for size in ["1G", "256M", "64M", "16M", "4M", "1M"] {
        let grow = |length: u64| {
            machine.try_run("fallocate", &["-o", &length.to_string(), "-l", size, name]).is_ok()
        };
        while grow(fs::metadata(file).map_or(0, |file| file.len())) {}
    }
    let mut rest = File::options().append(true).create(true).open(file).unwrap();
    let full = std::iter::repeat_with(|| rest.write_all(&[1; 4096])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    // What a file system has set aside for records of its own is filled by small files.
    let small = (0..).map(|nth| fs::write(file.with_extension(nth.to_string()), [1; 2000]));
    let full = small.filter_map(Result::err).next().unwrap();
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
}

/// Gives back what the files with this name take.
fn empty(folder: &Path, name: &str) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if Path::new(&entry.file_name()).file_stem().is_some_and(|stem| stem == name) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// The clones that there are, of whatever installation.
fn clones(folder: &Path) -> Vec<String> {
    let below = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let clones = below(folder).flat_map(|folder| below(&folder).collect::<Vec<_>>());
    clones.map(|clone| clone.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A daemon whose state lies elsewhere than its store and the clones.
fn apart(machine: &Machine, ground: &Path) -> World {
    let mut world = site::world(machine, ground);
    fs::remove_file(world.path("state")).unwrap();
    fs::create_dir(world.path("state")).unwrap();
    world.store_config += &format!("\nclones = \"{}\"", ground.join("clones").display());
    world
}

#[test]
fn lab_a_full_file_system_refuses_a_publication_and_keeps_what_there_is() {
    in_lab(site::lab(), |machine| {
        let ground = site::cloning(machine);
        let mut world = apart(machine, &ground);
        world.start();
        let first = publish(&world, "b");
        assert_eq!(clones(&ground.join("clones")), std::slice::from_ref(&first));
        world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
        let filler = ground.join("filler");
        fill(machine, &filler);
        let answer = world.send("POST", "/snapshots", &json!({}));
        if answer.status == 201 {
            // A clone is a record, and btrfs keeps room for some.
            assert!(site::is_btrfs());
            world.archived("report@2");
            assert_eq!(entries(&world, "report@2"), "a,b,c");
        } else {
            answer.expect_problem(507, "storage_full");
            // The one before went to make room, and of the one that failed nothing is left.
            assert_eq!(clones(&ground.join("clones")), [""; 0]);
        }
        assert_eq!(entries(&world, &first), "a,b");
        empty(&ground, "filler");
        assert_eq!(entries(&world, &publish(&world, "d")), "a,b,c,d");
    });
}
