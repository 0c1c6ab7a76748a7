//! Stores above one gibibyte, where SQLite leaves out the page with the bytes that it locks.

use crate::clients::bytes::expect_download;
use crate::clients::client::{Python, integrity};
use crate::clients::{close, open, publish_new};
use crate::common::World;

/// Where SQLite takes its locks; the page around it is never used.
const LOCK_BYTE: u64 = 1 << 30;

#[test]
fn a_store_beyond_the_lock_byte_is_kept_whole() {
    let mut world = World::new();
    expect_room(&world, 4 << 30);
    let store = world.store();
    std::fs::create_dir(world.path("store")).unwrap();
    let mut python = Python::start();
    python.run(
        &store,
        &[
            "PRAGMA page_size = 65536",
            "PRAGMA journal_mode = off",
            "PRAGMA synchronous = off",
            "CREATE TABLE bulk (data BLOB)",
            "CREATE TABLE beyond (id INTEGER PRIMARY KEY, note TEXT)",
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 16)
             INSERT INTO bulk SELECT zeroblob(67108864) FROM n",
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO beyond SELECT i, printf('%0500d', i) FROM n",
            "PRAGMA journal_mode = wal",
        ],
    );
    assert!(
        python.number(&store, "PRAGMA page_count") * 65536 > i64::try_from(LOCK_BYTE).unwrap() + (1 << 20)
    );
    world.start();

    let first = publish_new(&world, "report");
    python.run(&store, &["UPDATE beyond SET note = 'changed' WHERE id > 1990"]);
    let second = publish_new(&world, "report");

    for (version, changed) in [(first, 0), (second, 10)] {
        let opened = open(&world, &version);
        assert_eq!(integrity(&opened.uri), "ok", "{version}");
        let rows = python.query(&opened.uri, "SELECT count(*), sum(note = 'changed') FROM beyond");
        assert_eq!(rows, serde_json::json!([[2000, changed]]), "{version}");
        expect_download(&world, &version, &opened.path);
        close(&world, &version, &opened);
    }
    world.stop();
}

fn expect_room(world: &World, bytes: u64) {
    let space = rustix::fs::statvfs(world.folder.path()).unwrap();
    let free = space.f_bavail * space.f_frsize;
    let folder = world.folder.path().display();
    assert!(
        free >= bytes,
        "{folder} has {free} bytes left, and this test needs {bytes}: set TMPDIR to another folder"
    );
}
