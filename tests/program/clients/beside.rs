//! Beside the store: a publication leaves the store's folder as it found it.

use std::path::Path;

use crate::clients::bytes::{beside, names};
use crate::clients::client::{Python, integrity};
use crate::clients::{open, publish, publish_new};
use crate::common::World;

#[test]
fn nothing_is_left_beside_a_store_that_nobody_has_open() {
    for journal in ["wal", "delete", "truncate", "persist", "memory", "off"] {
        let mut world = World::new();
        let (store, folder) = (world.store(), world.path("store"));
        std::fs::create_dir(&folder).unwrap();
        let mut python = Python::start();
        let mode = format!("PRAGMA journal_mode = {journal}");
        python.run(&store, &[&mode, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)"]);
        python.close(&store);
        let look = || (names(&folder), std::fs::read(&store).unwrap());
        let before = look();
        world.start();
        publish_new(&world, "report");
        assert!(look() == before, "{journal}: {:?} became {:?}", before.0, names(&folder));

        assert_eq!(publish(&world, "report")["reused"], true);
        world.stop();
        assert!(look() == before, "{journal}: {:?} became {:?}", before.0, names(&folder));
    }
}

#[test]
fn a_client_that_goes_on_writing_finds_its_own_files_beside_the_store() {
    for journal in ["wal", "delete", "truncate", "persist"] {
        let mut world = World::new();
        let (store, folder) = (world.store(), world.path("store"));
        std::fs::create_dir(&folder).unwrap();
        world.start();
        let mut python = Python::start();
        let mode = format!("PRAGMA journal_mode = {journal}");
        python.run(&store, &[&mode, "CREATE TABLE t (x)"]);
        for number in 0..5 {
            python.run(&store, &[&format!("INSERT INTO t VALUES ({number})")]);
            let before = names(&folder);
            publish_new(&world, "report");
            assert_eq!(names(&folder), before, "{journal}");
        }
        python.close(&store);
        assert_eq!(integrity(store.to_str().unwrap()), "ok", "{journal}");
        let last = open(&world, "report@5");
        assert_eq!(
            python.query(&last.uri, "SELECT group_concat(x) FROM t"),
            serde_json::json!([["0,1,2,3,4"]])
        );
        world.stop();
    }
}

#[test]
fn what_a_client_that_died_had_committed_is_in_the_version() {
    for journal in ["wal", "delete"] {
        let mut world = World::new();
        let (store, folder) = (world.store(), world.path("store"));
        std::fs::create_dir(&folder).unwrap();
        die_amid_a_transaction(&store, journal);
        let left = if journal == "wal" { "-wal" } else { "-journal" };
        assert!(beside(&store, left).metadata().unwrap().len() > 0, "{journal}: nothing was left to recover");

        world.start();
        let version = publish_new(&world, "report");
        let opened = open(&world, &version);
        assert_eq!(integrity(&opened.uri), "ok", "{journal}");
        let mut python = Python::start();
        let rows = python.query(&opened.uri, "SELECT count(*), sum(x) FROM t");
        assert_eq!(rows, serde_json::json!([[2000, 2000]]), "{journal}");
        // Whoever opens the store next finds it recovered, as after any other client.
        assert_eq!(names(&folder), ["report.db"], "{journal}");
        world.stop();
    }
}

/// Leaves a store as a client leaves it that commits, changes more than its cache holds, and is killed.
fn die_amid_a_transaction(store: &Path, journal: &str) {
    let mut python = Python::start();
    let mode = format!("PRAGMA journal_mode = {journal}");
    python.run(store, &[&mode, "PRAGMA synchronous = off", "CREATE TABLE t (x, filler)"]);
    python.run(
        store,
        &[
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO t SELECT 1, zeroblob(1000) FROM n",
            "PRAGMA cache_size = 5",
            "BEGIN",
            "UPDATE t SET x = 2",
        ],
    );
    python.kill();
}
