//! A store that is tracked: a publication reads what has changed, and each version is what the store was.

use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::json;

use crate::common::World;

/// A daemon that tracks its store, and a writer that has it open.
fn world(config: &str) -> (World, Connection) {
    let mut world = World::new();
    world.store_config = "track = \"wal\"".to_owned();
    world.config = config.to_owned();
    let writer = world.sqlite();
    writer
        .execute_batch(
            "pragma journal_mode = wal; create table t (id integer primary key, v);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
             insert into t select i, randomblob(1000) from n",
        )
        .unwrap();
    writer.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    world.start();
    (world, writer)
}

/// How a metric of the store stands.
fn metric(world: &World, name: &str) -> u64 {
    let text = String::from_utf8(world.get("/metrics").body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

/// How often all of the store was read, how often what had changed, and how many pages in all.
fn reads(world: &World) -> [u64; 3] {
    [
        metric(world, "asat_store_reads_total{store=\"report\",pages=\"all\"}"),
        metric(world, "asat_store_reads_total{store=\"report\",pages=\"changed\"}"),
        metric(world, "asat_pages_read_total{store=\"report\"}"),
    ]
}

fn content(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    connection.query_row("select group_concat(hex(v)) from t", [], |row| row.get(0)).unwrap()
}

/// Publishes the store, and holds the version against it; answers what that read.
fn publish(world: &World, label: &str) -> [u64; 3] {
    let before = reads(world);
    let published = world.publish(label);
    let id = published["version"]["id"].as_str().unwrap().to_owned();
    assert_eq!(published["reused"], false, "{published}");
    assert!(content(&world.open(&id)) == content(&world.store()), "{id}");
    let after = reads(world);
    [0, 1, 2].map(|nth| after[nth] - before[nth])
}

#[test]
fn what_has_changed_is_read_and_after_a_gap_all_of_it() {
    let (world, writer) = world("");
    let all = publish(&world, "first")[2];
    assert!(all > 700, "{all}");
    for round in 0..5 {
        writer.execute("update t set v = randomblob(1000) where id = ?1", [round * 300 + 7]).unwrap();
        if round == 3 {
            writer.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        }
        let [whole, changed, pages] = publish(&world, &format!("round {round}"));
        assert_eq!((whole, changed), (0, 1), "round {round}");
        assert!(pages < 6, "{pages} pages in round {round}");
    }
    // The process that follows the WAL is killed, with all that it knew.
    let killed = Command::new("pkill").args(["-KILL", "-P", &world.pid().to_string()]).status().unwrap();
    assert!(killed.success());
    writer.execute("update t set v = randomblob(1000) where id = 9", []).unwrap();
    let [whole, changed, pages] = publish(&world, "killed");
    assert_eq!((whole, changed, pages), (1, 0, all));
    writer.execute("update t set v = randomblob(1000) where id = 19", []).unwrap();
    assert_eq!(publish(&world, "again")[..2], [0, 1]);
    // Another file takes the store's place.
    let other = world.path("other.db");
    writer.execute("vacuum into ?1", [other.to_str()]).unwrap();
    drop(writer);
    let changed = Connection::open(&other).unwrap();
    changed.execute_batch("pragma journal_mode = wal; delete from t where id % 3 = 0").unwrap();
    drop(changed);
    wait_until_closed(&world.store());
    std::fs::rename(other, world.store()).unwrap();
    let [whole, changed, _] = publish(&world, "replaced");
    assert_eq!((whole, changed), (1, 0));
}

#[test]
fn what_changed_since_a_set_is_known_too() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.db");
    let both = format!(
        "[[store]]\nname = \"other\"\npath = \"{}\"\n[[set]]\nname = \"both\"\nstores = [\"other\", \"report\"]",
        other.display()
    );
    Connection::open(&other).unwrap().execute_batch("create table t (a)").unwrap();
    let (world, writer) = world(&both);
    let publish = |label: &str| {
        let published =
            world.send("POST", "/snapshots", &json!({ "store": "report", "label": label })).json();
        let id = published["version"]["id"].as_str().unwrap_or_else(|| panic!("{published}")).to_owned();
        assert!(content(&world.open(&id)) == content(&world.store()), "{id}");
    };
    let write = |id: u32| {
        writer.execute("update t set v = randomblob(1000) where id = ?1", [id]).unwrap();
    };
    publish("first");
    write(100);
    assert_eq!(world.send("POST", "/snapshots", &json!({ "set": "both", "label": "set" })).status, 201);
    let before = reads(&world);
    write(900);
    publish("after the set");
    let after = reads(&world);
    assert_eq!((after[0], after[1]), (before[0], before[1] + 1));
    assert!(after[2] - before[2] < 9, "{before:?} {after:?}");
}

/// Waits until the daemon has closed a store that nobody else has open.
fn wait_until_closed(store: &Path) {
    let mut wal = store.as_os_str().to_owned();
    wal.push("-wal");
    while Path::new(&wal).exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_page_that_was_missed_is_found_by_the_comparison_and_told() {
    let (mut world, writer) = world("[track]\ncheck = \"1ms\"");
    publish(&world, "first");
    writer.execute("update t set v = randomblob(1000) where id = 9", []).unwrap();
    let [whole, changed, _] = publish(&world, "second");
    assert_eq!((whole, changed), (1, 0), "it is due to be compared");
    assert_eq!(metric(&world, "asat_pages_missed_total{store=\"report\"}"), 0);
    // Somebody changes a page behind SQLite's back, and sets the time of the file back.
    let (store, stamp) = (world.store(), world.path("stamp"));
    let run = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
    };
    let (store, stamp) = (store.to_str().unwrap(), stamp.to_str().unwrap());
    run("touch", &["-r", store, stamp]);
    let target = format!("of={store}");
    // The middle of a page far from the first is the middle of a row's blob.
    run(
        "dd",
        &["if=/dev/urandom", &target, "bs=1", "count=16", "seek=2050000", "conv=notrunc", "status=none"],
    );
    run("touch", &["-r", stamp, store]);
    writer.execute("update t set v = randomblob(1000) where id = 10", []).unwrap();
    let [whole, ..] = publish(&world, "third");
    assert_eq!(whole, 1);
    assert_eq!(metric(&world, "asat_pages_missed_total{store=\"report\"}"), 1);
    world.wait_for_log("it is not tracked any more");
    writer.execute("update t set v = randomblob(1000) where id = 9", []).unwrap();
    assert_eq!(publish(&world, "fourth")[..2], [1, 0]);
}
