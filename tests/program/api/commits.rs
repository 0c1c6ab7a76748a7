//! Every commit counts: whatever a writer was about while a publication looked at the store, once its commit has
//! returned the next publication has it, and watch mode publishes it.
//!
//! The writer is halted after each single step of a commit, in every journal mode and at every level of `synchronous`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::api::configured;
use crate::common::halting::Writer;
use crate::common::{PATIENCE, World};

/// The levels of `synchronous`. Each cut of a volume takes a second, so not all are tried there.
fn levels(world: &World) -> &'static [&'static str] {
    if world.ground.is_volume() { &["full"] } else { &["off", "normal", "full", "extra"] }
}

/// A daemon, its store with a number in it, and a connection that keeps the store's wal-index alive.
fn world(mode: &str, config: &str) -> (World, Connection) {
    let world = configured("", &format!("busy_timeout = \"20ms\"\n{config}"));
    let keeper = world.sqlite();
    keeper.execute_batch("create table number (n integer); insert into number values (0)").unwrap();
    let set: String =
        keeper.query_row(&format!("pragma journal_mode = {mode}"), [], |row| row.get(0)).unwrap();
    assert_eq!(set, mode);
    (world, keeper)
}

/// A writer of this journal mode and level of `synchronous`.
fn writer(world: &World, store: &Path, mode: &str, level: &str) -> Writer {
    let mut writer = Writer::start(store, world.folder.path());
    writer.execute(&format!("pragma journal_mode = {mode}"));
    writer.execute(&format!("pragma synchronous = {level}"));
    writer
}

fn update(n: i64) -> String {
    format!("update number set n = {n}")
}

/// Waits until the times of a store's files lie so far back that a write would move them.
fn wait_for_ticks(store: &Path) {
    let is_old = |suffix: &str| {
        let mut name = store.as_os_str().to_owned();
        name.push(suffix);
        let Ok(metadata) = std::fs::metadata(name) else { return true };
        let changed =
            Duration::new(metadata.ctime().try_into().unwrap(), metadata.ctime_nsec().try_into().unwrap());
        let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed);
        age.is_ok_and(|age| age > Duration::from_millis(26))
    };
    while !["", "-wal"].into_iter().all(is_old) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number in a version, as a stock client reads it.
fn number_in(world: &World, id: &Value) -> i64 {
    let mounts = format!("/versions/{}/mounts", id.as_str().unwrap());
    let answer = world.send("POST", &mounts, &json!({ "holder": "test" }));
    assert_eq!(answer.status, 201, "{answer}");
    let mount = answer.json();
    let path = mount["path"].as_str().unwrap();
    let copy = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let number = copy.query_row("select n from number", [], |row| row.get(0)).unwrap();
    // A caller may have so many leases and no more.
    let ended = world.request("DELETE", &format!("/leases/{}", mount["lease"].as_str().unwrap()), &[], b"");
    assert!(ended.status < 300, "{ended}");
    number
}

/// Publishes the store, which nobody has locked; answers the number that was published.
fn published(world: &World) -> i64 {
    number_in(world, &world.publish("close")["version"]["id"])
}

/// Publishes while a writer is halted: it has a lock, or it is not in the way.
fn publish_meanwhile(world: &World, body: &Value) {
    let answer = world.send("POST", "/snapshots", body);
    assert!([200, 201].contains(&answer.status) || answer.json()["code"] == "store_busy", "{answer}");
}

fn counts(mode: &str) {
    let (world, _keeper) = world(mode, "");
    let store = world.store();
    let (mut n, mut halts) = (0, Vec::new());
    for level in levels(&world) {
        let mut writer = writer(&world, &store, mode, level);
        for step in 1.. {
            n += 1;
            let Some(halted) = writer.until(step, &update(n)) else { break };
            let what = format!("{mode}, {level}, after step {step}, {halted}");
            for _ in 0..2 {
                wait_for_ticks(&store);
                publish_meanwhile(&world, &json!({ "label": "meanwhile" }));
            }
            writer.finish();
            assert_eq!(published(&world), n, "{what}");
            halts.push(what);
        }
    }
    assert!(halts.len() > levels(&world).len(), "{halts:?}");
}

fn counts_beside_kills(mode: &str) {
    let (world, mut keeper) = world(mode, "");
    let store = world.store();
    let mut n = 0;
    for step in 1.. {
        let mut writer = writer(&world, &store, mode, "full");
        n += 1;
        writer.execute(&update(n));
        n += 1;
        let Some(halted) = writer.until(step, &update(n)) else { return assert!(step > 2) };
        let what = format!("{mode}, after step {step}, {halted}");
        wait_for_ticks(&store);
        publish_meanwhile(&world, &json!({ "label": "meanwhile" }));
        drop(writer);
        // Without a journal that outlives the writer, its store may be anything, as SQLite's documentation says.
        let seen = keeper.query_row("select n from number", [], |row| row.get::<_, i64>(0)).unwrap();
        if !["memory", "off"].contains(&mode) {
            assert!([n - 1, n].contains(&seen), "{what}: {seen}");
        }
        assert_eq!(published(&world), seen, "{what}");
        wait_for_ticks(&store);
        assert_eq!(published(&world), seen, "{what}, once more");
        // Once nobody has the store open, what the writer left is recovered, and may be a commit.
        drop(keeper);
        let seen = seen_by_all(&store);
        assert_eq!(published(&world), seen, "{what}, recovered");
        keeper = keeper_of(&store);
    }
}

/// What somebody sees who opens the store.
fn seen_by_all(store: &Path) -> i64 {
    let connection = keeper_of(store);
    connection.query_row("select n from number", [], |row| row.get(0)).unwrap()
}

fn keeper_of(store: &Path) -> Connection {
    let connection = Connection::open(store).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection
}

fn counts_in_watch_mode(mode: &str) {
    let marker = "[store.watch]\nmarker = \"select n from number\"\ndeadline = \"20ms\"";
    let (world, _keeper) = world(mode, marker);
    let store = world.store();
    let mut events = world.listen();
    let watch = |world: &World| world.get("/stores").json()["stores"][0]["watch"].clone();
    let mut n = 0;
    for level in levels(&world) {
        let mut writer = writer(&world, &store, mode, level);
        for step in 1.. {
            n += 1;
            let asked = watch(&world)["asked_at"].clone();
            let Some(halted) = writer.until(step, &update(n)) else { break };
            // Of what is written beside the database, nobody need be told.
            let is_told = mode == "wal" || halted.ends_with(".db");
            while is_told && watch(&world)["asked_at"] == asked && watch(&world)["trouble"].is_null() {
                std::thread::sleep(Duration::from_millis(2));
            }
            writer.finish();
            let label = n.to_string();
            if watch(&world)["published"] != label.as_str() {
                events.until(|name, data| name == "watch" && data["watch"]["published"] == label.as_str());
            }
        }
    }
    assert!(n > 2);
}

fn counts_in_sets(mode: &str) {
    let mut world = World::new();
    "[[set]]\nname = \"both\"\nstores = [\"report\", \"ledger\"]".clone_into(&mut world.config);
    "busy_timeout = \"20ms\"".clone_into(&mut world.store_config);
    let table = format!(
        "pragma journal_mode = {mode}; create table number (n integer); insert into number values (0)"
    );
    let config = format!("busy_timeout = \"20ms\"\n{}", world.ground.asked());
    world.sqlite().execute_batch(&table).unwrap();
    world.add_store("ledger", &table, &config);
    world.start_under_contract();
    let (report, ledger) = (world.store(), world.store_at("ledger.db"));
    let keepers = [keeper_of(&report), keeper_of(&ledger)];
    keepers.iter().for_each(|keeper| drop(keeper.query_row("select n from number", [], |_| Ok(()))));
    let body = json!({ "set": "both", "label": "close" });
    let mut n = 0;
    for level in levels(&world) {
        let mut writer = writer(&world, &ledger, mode, level);
        for step in 1.. {
            n += 1;
            let Some(halted) = writer.until(step, &update(n)) else { break };
            wait_for_ticks(&ledger);
            // The set waits for the writer; its store alone may be published.
            publish_meanwhile(&world, &body);
            publish_meanwhile(&world, &json!({ "store": "ledger", "label": "alone" }));
            writer.finish();
            let answer = world.send("POST", "/snapshots", &body);
            assert!([200, 201].contains(&answer.status), "{answer}");
            let all = answer.json()["published"].clone();
            let numbers: Vec<i64> = all
                .as_array()
                .unwrap()
                .iter()
                .map(|each| number_in(&world, &each["version"]["id"]))
                .collect();
            assert!(numbers.contains(&n), "{mode}, {level}, after step {step}, {halted}: {numbers:?}");
        }
    }
}

macro_rules! in_each_mode {
    ($($name:ident: $mode:literal,)*) => { $(
        mod $name {
            #[test]
            fn a_commit_that_has_returned_is_in_the_next_version() {
                super::counts($mode);
            }

            #[test]
            fn a_writer_that_is_killed_leaves_no_version_of_another_state() {
                super::counts_beside_kills($mode);
            }

            #[test]
            fn watch_mode_publishes_each_commit() {
                super::counts_in_watch_mode($mode);
            }
        }
    )* };
}

in_each_mode! {
    wal: "wal",
    delete: "delete",
    truncate: "truncate",
    persist: "persist",
    memory: "memory",
    off: "off",
}

#[test]
fn a_commit_in_a_wal_that_has_returned_is_in_the_next_version_of_a_set() {
    counts_in_sets("wal");
}

#[test]
fn a_commit_with_a_journal_that_has_returned_is_in_the_next_version_of_a_set() {
    counts_in_sets("delete");
}
