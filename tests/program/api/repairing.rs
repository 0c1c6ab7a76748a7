//! Damage is put right from whatever still has the content, by an effect that stands in the audit trail; of what is left everybody is told.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::api::harm::{alarm, check_told, code, out};
use crate::api::{publish_change, world};
use crate::common::ground::held_by;
use crate::common::{World, parts};

/// A page of the first version's file is another; answers the file and what it was.
fn flip_first(world: &World) -> (PathBuf, Vec<u8>) {
    let segment = world.segment(1);
    let whole = fs::read(&segment).unwrap();
    let mut bytes = whole.clone();
    let half = bytes.len() / 2;
    bytes[half] ^= 0x10;
    fs::write(&segment, bytes).unwrap();
    (segment, whole)
}

/// The repairs in the audit trail, newest first.
fn repairs(world: &World) -> Vec<Value> {
    world.get("/audit?action=repair").json()["entries"].as_array().unwrap().clone()
}

/// A store whose first version is in the archive alone.
fn archived() -> World {
    let world = world();
    world.sqlite().execute("insert into ledger values (randomblob(50000))", []).unwrap();
    world.publish("1");
    publish_change(&world, "2");
    world.settled("report@2");
    world.until("report@1", |version| held_by(version) == BTreeSet::from(["archive"]));
    world
}

#[test]
fn what_is_put_right_is_told_and_written_down_with_what_gave_the_content() {
    let world = archived();
    let (segment, _) = flip_first(&world);
    let file = segment.display().to_string();
    let ran = world.asat(&["verify"]);
    // That a disk changes bytes somebody should know, even if nothing is lost.
    assert_eq!(code(&ran), Some(9), "{ran:?}");
    for said in ["damage was found, and is put right", &format!("put right: {file}, from the store")] {
        assert!(out(&ran).contains(said), "{said}: {ran:?}");
    }
    let ran = world.asat(&["verify"]);
    assert!(code(&ran) == Some(0) && out(&ran).contains("everything as it was written"), "{ran:?}");
    let [entry] = repairs(&world).try_into().unwrap();
    assert_eq!(entry["version"], "report@1");
    let details = json!({ "file": file, "from": "the store", "outcome": "put right" });
    assert_eq!(entry["details"], details, "{entry}");
    assert_ne!(entry["actor"], "asat");
    assert_eq!(world.get("/healthz").json()["status"], "ok");
}

#[test]
fn damage_that_nothing_puts_right_is_told_of_until_the_file_is_back() {
    let world = archived();
    world.sqlite().execute_batch("delete from ledger; vacuum; insert into ledger values ('x')").unwrap();
    for label in ["3", "4"] {
        publish_change(&world, label);
    }
    world.settled("report@4");
    for version in ["report@2", "report@3"] {
        world.until(version, |version| held_by(version) == BTreeSet::from(["archive"]));
    }
    let (segment, whole) = flip_first(&world);
    assert_eq!(code(&world.asat(&["verify"])), Some(9));
    check_told(&world, "cannot be read in full: report@1");
    let damaged = alarm(&world, "store report: damaged");
    assert!(damaged["hint"].as_str().unwrap().contains("docs/recover.md"), "{damaged}");
    let outcome = &repairs(&world)[0]["details"]["outcome"];
    assert_eq!(outcome, "nothing has the content any more");
    // Whoever may read may verify, and the trail cannot be trimmed.
    let noted = repairs(&world);
    assert_eq!(code(&world.asat(&["verify"])), Some(9));
    assert_eq!(repairs(&world), noted);

    fs::write(segment, whole).unwrap();
    let ran = world.asat(&["verify"]);
    assert_eq!(code(&ran), Some(0), "{ran:?}");
    assert_eq!(world.get("/healthz").json()["status"], "ok");
    assert_eq!(repairs(&world)[0]["details"]["outcome"], "found as it was written");
}

#[test]
fn that_the_store_could_not_be_asked_is_not_taken_for_that_nothing_has_the_content() {
    let world = archived();
    let (segment, _) = flip_first(&world);
    let aside = world.store_at("aside.db");
    fs::rename(world.store(), &aside).unwrap();
    let ran = world.asat(&["verify"]);
    if world.ground.keeps_base() {
        // The newest version's snapshot has the content, too.
        assert!(out(&ran).contains(&format!("put right: {}", segment.display())), "{ran:?}");
        return;
    }
    assert!(code(&ran) == Some(9) && out(&ran).contains("it could not be put right"), "{ran:?}");
    let outcome = repairs(&world)[0]["details"]["outcome"].as_str().unwrap().to_owned();
    assert!(outcome.starts_with("failed: ") && outcome.contains("report.db"), "{outcome}");
    let health = world.get("/healthz").json();
    assert_eq!(health["status"], "degraded", "{health}");

    fs::rename(&aside, world.store()).unwrap();
    let ran = world.asat(&["verify"]);
    assert!(out(&ran).contains(&format!("put right: {}, from the store", segment.display())), "{ran:?}");
    assert_eq!(world.get("/healthz").json()["status"], "ok");
}

/// What the daemon has read so far, with its workers, in bytes.
fn bytes_read(world: &World) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", world.daemon.as_ref().unwrap().child.id())).unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Whoever may read may verify, and in the rollback-journal modes the store's writers wait for each read of it.
#[test]
fn the_store_is_read_once_however_many_versions_are_lost() {
    const VERSIONS: u64 = 12;
    let world = archived();
    if world.ground.keeps_base() {
        // The newest version's snapshot is read as well.
        return;
    }
    world.sqlite().execute("insert into ledger values (randomblob(4000000))", []).unwrap();
    for number in 3..=VERSIONS {
        publish_change(&world, &number.to_string());
    }
    world.settled(&format!("report@{VERSIONS}"));
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    // The index of the longest file, so that no version comes out.
    let files = fs::read_dir(world.path("state/archive/report")).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let [index, ..] = parts(&bytes);
    bytes[index..index + 20].fill(0);
    fs::write(&segment, bytes).unwrap();

    let before = bytes_read(&world);
    let ran = world.asat(&["verify"]);
    let read = bytes_read(&world) - before;
    assert_eq!(code(&ran), Some(9), "{ran:?}");
    let size = fs::metadata(world.store()).unwrap().len();
    // The archive is read twice, and what of the store is read passes through a worker.
    assert!(read < 6 * size, "{read} bytes were read, and the store has {size}");
}

/// What the log says of what was put right.
const PUT_RIGHT: &str = "is put right from the store";

/// The next version is stored without what is damaged below, and the versions that are there get it back from the store.
#[test]
fn what_a_start_finds_damaged_below_the_next_version_is_put_right_without_being_asked() {
    let mut world = archived();
    if world.ground.is_volume() {
        // It is stored upon what its snapshot has, and nothing is read for it before.
        return;
    }
    let content = world.get("/versions/report@1/database").body;
    assert!(world.stop().success());
    flip_first(&world);
    let until_ready = world.start();
    if !until_ready.contains(PUT_RIGHT) {
        world.wait_for_log(PUT_RIGHT);
    }
    let entry = repairs(&world).remove(0);
    assert_eq!(
        (&entry["actor"], &entry["details"]["outcome"]),
        (&json!("asat"), &json!("put right")),
        "{entry}"
    );
    assert!(world.get("/versions/report@1/database").body == content);
    let ran = world.asat(&["verify"]);
    assert_eq!(code(&ran), Some(0), "{ran:?}");
}
