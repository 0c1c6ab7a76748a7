//! Files of other users in the place of a store. The daemon is root, and its stores belong to a user who is not.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use rusqlite::Connection;
use serde_json::json;

use crate::common::{Answer, PATIENCE, World};
use crate::hostile_owner::processes::workers;
use crate::hostile_owner::{assert_others_are_served, publish, world};

const OWNER: u32 = 65534;
const VICTIM: u32 = 2;

/// A daemon that is root, with the hostile store and its folder in its owner's hands; nothing if this is not root.
fn owned() -> Option<World> {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can give files to other users.
        return None;
    }
    let world = world();
    fs::set_permissions(world.folder.path(), Permissions::from_mode(0o755)).unwrap();
    for path in [world.store().parent().unwrap(), &world.store()] {
        give(path, OWNER);
    }
    Some(world)
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
}

/// A database of a user's, which everybody may read, in a folder where the store's owner can rename it.
fn database(world: &World, name: &str, user: u32) -> PathBuf {
    let path = world.path(name);
    Connection::open(&path).unwrap().execute_batch("create table secret (a)").unwrap();
    give(&path, user);
    path
}

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].as_str().unwrap().to_owned()
}

fn restore(world: &World) -> Answer {
    world.send("POST", "/stores/report/restore", &json!({ "version": "report@1" }))
}

#[test]
fn a_file_of_another_owner_is_neither_published_nor_overwritten_until_a_restart() {
    let Some(mut world) = owned() else { return };
    world.start();
    assert_eq!(publish(&world.socket()).status, 201);
    // As a pipeline does it that writes its report anew.
    let anew = database(&world, "anew.db", OWNER);
    fs::rename(anew, world.store()).unwrap();
    assert_eq!(publish(&world.socket()).status, 201);
    for user in [VICTIM, 0] {
        fs::rename(database(&world, "private.db", user), world.store()).unwrap();
        let before = fs::read(world.store()).unwrap();
        for answer in [publish(&world.socket()), restore(&world)] {
            assert_eq!(answer.status, 422, "{user}: {answer}");
            assert!(detail(&answer).contains("and belonged to the user nobody"), "{answer}");
        }
        assert_eq!(fs::read(world.store()).unwrap(), before, "{user}");
        assert_others_are_served(&world);
    }
    fs::rename(database(&world, "anew.db", VICTIM), world.store()).unwrap();
    assert!(world.stop().success());
    world.start();
    let answer = publish(&world.socket());
    assert_eq!(answer.status, 200, "it has what version 2 has: {answer}");
}

/// What everybody is told of a store in watch mode, once its marker was asked for in vain.
fn troubled(world: &World) -> serde_json::Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stores = world.get("/stores").json()["stores"].clone();
        let watched = stores.as_array().unwrap().iter().find(|store| store["name"] == "report").unwrap();
        if !watched["watch"]["trouble"].is_null() {
            return watched["watch"].clone();
        }
        assert!(Instant::now() < deadline, "no trouble: {stores}");
        thread::yield_now();
    }
}

#[test]
fn a_file_of_another_owner_is_asked_for_no_marker() {
    let Some(mut world) = owned() else { return };
    world.sqlite().execute_batch("create table secret (a)").unwrap();
    let watch = "[store.watch]\nmarker = \"select max(a) from secret\"\n";
    world.store_config = watch.to_owned() + &world.store_config;
    world.start();
    let private = database(&world, "private.db", VICTIM);
    Connection::open(&private).unwrap().execute_batch("insert into secret values ('of the victim')").unwrap();
    fs::rename(private, world.store()).unwrap();
    let told = troubled(&world).to_string();
    assert!(told.contains("and belonged to the user nobody") && !told.contains("of the victim"), "{told}");
    assert_others_are_served(&world);
}

#[test]
fn a_file_of_another_owner_is_in_no_set() {
    let Some(mut world) = owned() else { return };
    "[[set]]\nname = \"both\"\nstores = [\"report\", \"other\"]".clone_into(&mut world.config);
    world.start();
    let publish = || world.send("POST", "/snapshots", &json!({ "set": "both" }));
    let answer = publish();
    assert_eq!(answer.status, 201, "{answer}");
    fs::rename(database(&world, "private.db", VICTIM), world.store()).unwrap();
    let answer = publish();
    assert_eq!(answer.status, 422, "{answer}");
    assert!(detail(&answer).contains("and belonged to the user nobody"), "{answer}");
    assert_others_are_served(&world);
}

#[test]
fn whose_a_store_is_counts_from_the_start_and_not_from_the_first_request() {
    let Some(mut world) = owned() else { return };
    world.start();
    fs::rename(database(&world, "private.db", VICTIM), world.store()).unwrap();
    let answer = publish(&world.socket());
    assert_eq!(answer.status, 422, "{answer}");
    assert!(detail(&answer).contains("and belonged to the user nobody"), "{answer}");
}

#[test]
fn whose_a_store_is_no_link_of_another_user_says() {
    let Some(mut world) = owned() else { return };
    let (store, away) = (world.store(), world.path("away.db"));
    let private = database(&world, "private.db", 0);
    fs::rename(&store, &away).unwrap();
    symlink(&private, &store).unwrap();
    lchown(&store, Some(OWNER), Some(OWNER)).unwrap();
    world.start();
    let answer = publish(&world.socket());
    assert_eq!(answer.status, 422, "{answer}");
    fs::rename(&away, &store).unwrap();
    let answer = publish(&world.socket());
    assert_eq!(answer.status, 201, "{answer}");
    let [worker] = workers(&world)[..] else { panic!("one store was read") };
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    assert!(status.contains(&format!("Uid:\t{OWNER}\t{OWNER}")), "it is not root's store: {status}");
}

#[test]
fn a_restore_writes_what_the_owner_could_write_and_nothing_else() {
    let Some(mut world) = owned() else { return };
    world.start();
    assert_eq!(publish(&world.socket()).status, 201);
    world.sqlite().execute_batch("delete from t").unwrap();
    let folder = world.store().parent().unwrap().to_owned();
    // A journal, without which nothing is written, can be made by root alone.
    give(&folder, 0);
    let before = fs::read(world.store()).unwrap();
    let answer = restore(&world);
    assert!(answer.status >= 400, "{answer}");
    assert_eq!(fs::read(world.store()).unwrap(), before);
    give(&folder, OWNER);
    let answer = restore(&world);
    assert_eq!(answer.status, 200, "{answer}");
    assert_ne!(fs::read(world.store()).unwrap(), before);
    assert_eq!(fs::metadata(world.store()).unwrap().uid(), OWNER);
    assert_others_are_served(&world);
}
