//! An archive to which a newer asat has written, as after an upgrade that was taken back: what this one cannot read it refuses, says
//! why, and leaves as it is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::World;
use crate::recovery::{asat, refused};

/// What is said of a file of a newer format.
const SAID: &str = "segment has format version 7, and this asat reads 6";

/// A stopped daemon with three versions, of which the file of one is by a newer asat.
fn stopped(newer: u64) -> World {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.start();
    for version in 1..=3 {
        change(&world, version);
        world.publish(&format!("close {version}"));
    }
    assert!(world.stop().success());
    renew(&world.segment(newer));
    world
}

fn change(world: &World, version: u32) {
    let entry = format!("{version}").repeat(9000);
    world.sqlite().execute("insert into ledger values (?1)", [entry]).unwrap();
}

/// Has a file be of the format version after the one that this asat writes. The first and the last twelve bytes are all that keeps its
/// meaning then, so no checksum is made anew.
fn renew(segment: &Path) {
    step(segment, 1);
}

/// Takes that back.
fn age(segment: &Path) {
    step(segment, -1);
}

fn step(segment: &Path, by: i8) {
    let mut bytes = fs::read(segment).unwrap();
    for at in [8, bytes.len() - 12] {
        bytes[at] = bytes[at].wrapping_add_signed(by);
    }
    fs::write(segment, bytes).unwrap();
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// What is in the state folder, but for the file that says who runs.
fn state(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = files(&world.path("state"));
    found.remove(&world.path("state/lock"));
    found
}

/// Compares files without showing what is in them.
fn expect_same(after: &BTreeMap<PathBuf, Vec<u8>>, before: &BTreeMap<PathBuf, Vec<u8>>) {
    assert!(after.keys().eq(before.keys()), "{:?} instead of {:?}", after.keys(), before.keys());
    let changed = after.iter().find(|(path, bytes)| before[*path] != **bytes);
    assert!(changed.is_none(), "{} has changed", changed.unwrap().0.display());
}

#[test]
fn a_file_of_a_newer_format_keeps_the_daemon_from_starting_until_the_newer_asat_is_back() {
    for newer in 1..=3 {
        let mut world = stopped(newer);
        let archive = world.path("state/archive");
        let before = files(&archive);
        expect_no_start(&world);
        expect_same(&files(&archive), &before);
        age(&world.segment(newer));
        world.start();
        assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
    }
}

/// A start that is refused because of a newer file.
fn expect_no_start(world: &World) {
    let mut daemon = world.spawn();
    let log = daemon.wait_for("listen: ready").expect_err("it should not start");
    assert_eq!(daemon.exit().code(), Some(12), "{log}");
    assert!(log.contains(SAID) && log.contains("use the asat that wrote it, or a newer one"), "{log}");
}

#[test]
fn versions_of_a_newer_format_that_are_not_recorded_keep_the_daemon_from_starting() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.start();
    world.publish("before the upgrade");
    assert!(world.stop().success());
    let (catalogue, copy) = (world.path("state/catalogue.db"), world.path("copy.db"));
    fs::copy(&catalogue, &copy).unwrap();
    let (newest, its_copy) = (world.path("state/catalogue.db-newest"), world.path("copy.db-newest"));
    fs::copy(&newest, &its_copy).unwrap();
    world.start();
    change(&world, 2);
    world.publish("after the upgrade");
    assert!(world.stop().success());
    fs::copy(&copy, &catalogue).unwrap();
    fs::copy(&its_copy, &newest).unwrap();
    let segment = world.segment(2);
    let readable = fs::read(&segment).unwrap();
    renew(&segment);
    let before = state(&world);
    for _ in 0..2 {
        expect_no_start(&world);
        expect_same(&state(&world), &before);
    }
    // Without it, what is recorded is there.
    let aside = world.path("aside");
    fs::rename(&segment, &aside).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@1/database").status, 200);
    assert_eq!(world.get("/versions/report@2").status, 404);
    assert!(world.stop().success());
    fs::remove_file(aside).unwrap();
    // The asat that wrote it takes it over.
    fs::write(&segment, readable).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@2").json()["publications"][0]["label"], "after the upgrade");
}

#[test]
fn no_catalogue_is_made_of_an_archive_of_a_newer_format() {
    for newer in 1..=3 {
        let world = stopped(newer);
        fs::remove_file(world.path("state/catalogue.db")).unwrap();
        let before = state(&world);
        let refusal = refused(&asat(&world, &["rebuild-catalogue"]));
        assert!(refusal.contains(SAID), "{refusal}");
        expect_same(&state(&world), &before);
        expect_no_start(&world);
        let archive = world.path("state/archive");
        let of_archive = before.into_iter().filter(|(path, _)| path.starts_with(&archive)).collect();
        expect_same(&files(&archive), &of_archive);
    }
}
