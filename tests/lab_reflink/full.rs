//! Where the file system is full, a publication is refused, nothing of it is left, and the store is as it was.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde_json::json;

use crate::common::World;
use crate::lab::{Machine, in_lab};
use crate::site::{self, entries, publish};

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
}

/// The clones that there are, of whatever installation.
fn clones(folder: &Path) -> Vec<String> {
    let below = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let clones = below(folder).flat_map(|folder| below(&folder).collect::<Vec<_>>());
    clones.map(|clone| clone.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// A daemon whose state lies elsewhere than its store and the clones.
fn apart(machine: &Machine, xfs: &Path) -> World {
    let mut world = site::world(machine, xfs);
    fs::remove_file(world.path("state")).unwrap();
    fs::create_dir(world.path("state")).unwrap();
    world.store_config += &format!("\nclones = \"{}\"", xfs.join("clones").display());
    world
}

#[test]
fn lab_a_full_file_system_refuses_a_publication_and_keeps_what_there_is() {
    in_lab(site::lab(), |machine| {
        let xfs = site::xfs(machine);
        let mut world = apart(machine, &xfs);
        world.start();
        let first = publish(&world, "b");
        assert_eq!(clones(&xfs.join("clones")), std::slice::from_ref(&first));
        world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
        let filler = xfs.join("filler");
        fill(machine, &filler);
        world.send("POST", "/snapshots", &json!({})).expect_problem(507, "storage_full");
        // The one before went to make room, and of the one that failed nothing is left.
        assert_eq!(clones(&xfs.join("clones")), [""; 0]);
        assert_eq!(entries(&world, &first), "a,b");
        fs::remove_file(&filler).unwrap();
        assert_eq!(entries(&world, &publish(&world, "d")), "a,b,c,d");
    });
}
