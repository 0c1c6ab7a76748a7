//! What is acknowledged can be read, whatever has become of the archive below it.

use std::fs;
use std::path::PathBuf;

use crate::api::moving::{close, lease, read};
use crate::api::world;
use crate::common::{World, parts};

/// The files of the archive, and what is in them.
fn segments(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = world.path("state").join("archive/report");
    let mut segments: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// What the store has, as one reads it in a version.
fn content(world: &World) -> String {
    let sql = "select group_concat(entry) from (select entry from ledger order by rowid)";
    world.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Publishes, and opens what was acknowledged.
fn check(world: &World, label: &str, what: &str) {
    let published = world.publish(label);
    let id = published["version"]["id"].as_str().unwrap().to_owned();
    world.settled(&id);
    let (lease, path) = lease(world, &id);
    assert!(read(&path) == content(world), "{what}: {id} is another");
    close(world, &lease);
}

#[test]
fn what_is_published_upon_a_flipped_bit_can_be_read() {
    let mut world = world();
    // Each page of the table is of another version, and some are differences upon those.
    for n in 0..4 {
        let row = format!("{n}{}", "x".repeat(9000 + n));
        world.sqlite().execute("insert into ledger values (?1)", [row]).unwrap();
        world.publish(&format!("close {n}"));
        world.settled(&format!("report@{}", n + 1));
    }
    assert!(world.stop().success());
    let sound = segments(&world);
    assert_eq!(sound.len(), 4);
    for (path, bytes) in &sound {
        let what = path.display().to_string();
        let mut flipped = bytes.clone();
        // The frames begin after the header; this is in the first and in the last one.
        let [frames_end, ..] = parts(bytes);
        flipped[20] ^= 1;
        flipped[frames_end - 3] ^= 1;
        fs::write(path, flipped).unwrap();
        world.start();
        check(&world, "unchanged", &what);
        world.sqlite().execute("insert into ledger values ('a little')", []).unwrap();
        check(&world, "changed a little", &what);
        check(&world, "unchanged again", &what);
        assert!(world.stop().success());
    }
}
