//! Whatever the owner of a store does to it, the daemon goes on: it answers others, and its guard looks on.

mod files;
mod owners;
mod processes;
mod queries;
mod sizes;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Answer, PATIENCE, World, try_request};
use rusqlite::Connection;
use serde_json::json;

/// A daemon with the hostile store `report`, which has some pages, and with `other`, which belongs to somebody else.
fn world() -> World {
    let mut world = World::new();
    fill(&world.sqlite(), "delete");
    world.add_store("other", "create table t (a); insert into t values (0)", "");
    world
}

/// Gives a store some megabytes.
fn fill(store: &Connection, mode: &str) {
    store.pragma_update(None, "journal_mode", mode).unwrap();
    let rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000) \
                select i, randomblob(1000) from n";
    store.execute_batch(&format!("create table t (a, b); insert into t {rows}")).unwrap();
}

/// Lays a store in WAL mode down as a writer leaves it that was killed: with a WAL that counts, and without a `-shm`.
fn lay_down_with_wal(world: &World) {
    let away = world.path("away.db");
    let writer = Connection::open(&away).unwrap();
    writer.execute_batch("pragma wal_autocheckpoint = 0").unwrap();
    fill(&writer, "wal");
    for suffix in ["", "-wal"] {
        fs::copy(beside(&away, suffix), beside(&world.store(), suffix)).unwrap();
    }
}

fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Publishes the hostile store, whatever comes of it.
fn publish(socket: &Path) -> Answer {
    let body = json!({ "store": "report", "label": null }).to_string();
    let headers = [("Content-Type", "application/json")];
    try_request(socket, "POST", "/snapshots", &headers, body.as_bytes()).expect("the daemon is there")
}

/// How often the guard has looked.
fn looks(world: &World) -> u64 {
    let looks = world.get("/capacity").json()["looks"].clone();
    looks["full"].as_u64().unwrap() + looks["glances"].as_u64().unwrap()
}

/// Others are answered, and publish what they have just written; and the guard looks again.
fn assert_others_are_served(world: &World) {
    let before = looks(world);
    let other = Connection::open(world.store_at("other.db")).unwrap();
    other.execute_batch("insert into t select max(a) + 1 from t").unwrap();
    let published = world.send("POST", "/snapshots", &json!({ "store": "other" }));
    assert_eq!(published.status, 201, "{published}");
    assert_eq!(world.get("/healthz").status, 200);
    let versions = world.get("/versions?store=other");
    assert!(
        versions.status == 200 && !versions.json()["versions"].as_array().unwrap().is_empty(),
        "{versions}"
    );
    let deadline = std::time::Instant::now() + PATIENCE;
    while looks(world) == before {
        assert!(std::time::Instant::now() < deadline, "the guard stands still");
        thread::yield_now();
    }
}

/// The hostile store is published over and over while its owner is at work; until `enough` says so of an answer, or for some
/// rounds where it never does. Others are served meanwhile.
fn beside_its_owner(world: &World, at_work: impl Fn() + Sync, enough: impl Fn(&Answer) -> bool) -> bool {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also where the daemon has ended and this panics.
        let _stopping = Stopping(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                at_work();
            }
        });
        let found = (0..100).any(|_| enough(&publish(&world.socket())));
        assert_others_are_served(world);
        found
    })
}

/// Sets what it has as it goes.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
