//! A file system that clones files, and a daemon whose store and state lie on it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::World;
use crate::common::ground::held_by;
use crate::lab::{Lab, Machine};

/// Which file system the checks are to have, where that is not XFS.
pub const FS: &str = "ASAT_LAB_FS";

pub fn is_btrfs() -> bool {
    std::env::var(FS).as_deref() == Ok("btrfs")
}

/// A guest with a disk for the file system.
pub fn lab() -> Lab {
    Lab::new().disks(1, "4G")
}

/// The file system. It stays mounted for as long as the guest runs.
pub fn cloning(machine: &Machine) -> PathBuf {
    let (disk, folder) = (machine.disks[0].to_str().unwrap(), machine.mount_point());
    match std::env::var(FS).as_deref() {
        Err(_) => machine.run("mkfs.xfs", &["-q", "-f", "-m", "reflink=1", disk]),
        Ok("btrfs") => machine.run("mkfs.btrfs", &["-q", "-f", disk]),
        Ok(other) => panic!("{FS} is `btrfs` or is not set; it is `{other}`"),
    };
    mount(machine, &folder);
    folder
}

pub fn mount(machine: &Machine, folder: &Path) {
    machine.run("mount", &[machine.disks[0].to_str().unwrap(), folder.to_str().unwrap()]);
}

/// A daemon that has not started, with its store in one folder of the file system and its state in another.
pub fn world(machine: &Machine, ground: &Path) -> World {
    let world = World::new();
    for name in ["store", "state"] {
        std::fs::create_dir_all(ground.join(name)).unwrap();
        symlink(ground.join(name), world.path(name)).unwrap();
    }
    let mut world = world;
    world.env = machine.env();
    world.store_config = "backend = \"reflink\"".to_owned();
    let content = "create table ledger(entry text); insert into ledger values ('a')";
    world.sqlite().execute_batch(content).unwrap();
    world
}

/// Writes to the store and publishes it; waits until the version is in the archive, and the clone before it is gone.
pub fn publish(world: &World, entry: &str) -> String {
    world.sqlite().execute("insert into ledger values (?1)", [entry]).unwrap();
    let id = world.publish(entry)["version"]["id"].as_str().unwrap().to_owned();
    world.archived(&id);
    let number: u64 = id.rsplit('@').next().unwrap().parse().unwrap();
    if number > 1 {
        world.until(&format!("report@{}", number - 1), |version| !held_by(version).contains("snapshot"));
    }
    id
}

/// The folder of a version's clone.
pub fn clone_of(version: &Value) -> PathBuf {
    let holdings = version["holdings"].as_array().unwrap();
    let snapshot = holdings.iter().find(|holding| holding["kind"] == "snapshot").expect("it has a clone");
    PathBuf::from(snapshot["name"].as_str().unwrap())
}

/// What a version says, as a client downloads it.
pub fn entries(world: &World, id: &str) -> String {
    let answer = world.get(&format!("/versions/{id}/database"));
    assert_eq!(answer.status, 200, "{id}: {answer}");
    let copy = world.path("downloaded.db");
    std::fs::write(&copy, answer.body).unwrap();
    let sql = "select group_concat(entry) from (select entry from ledger order by rowid)";
    rusqlite::Connection::open(&copy).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}
