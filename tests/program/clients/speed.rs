//! A writer at full speed: whatever instant a cut takes, it takes a committed state, and one of the request's
//! time.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;

use crate::clients::client::{Python, integrity, python};
use crate::clients::{close, open, publish};
use crate::common::World;

/// A process that commits without pause.
struct Writer {
    child: Child,
}

impl Writer {
    /// Starts the writer and waits until it has committed.
    fn start(store: &Path, journal: &str) -> Self {
        let mut child = python(include_str!("writer.py"), &[store.to_str().unwrap(), journal]);
        let mut committed = BufReader::new(child.stdout.take().unwrap());
        assert!(committed.read_line(&mut String::new()).unwrap() > 0, "the writer has failed");
        // Whatever else it says is read away, so that it never waits for a reader.
        std::thread::spawn(move || committed.read_to_end(&mut Vec::new()));
        Self { child }
    }

    /// Lets the writer end after its transaction.
    fn stop(mut self) {
        self.child.stdin = None;
        assert!(self.child.wait().unwrap().success(), "the writer has failed");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A test that failed leaves no writer behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_version_is_one_committed_state_with_a_write_ahead_log() {
    publish_under_fire("wal");
}

#[test]
fn a_version_is_one_committed_state_with_a_journal_that_is_deleted() {
    publish_under_fire("delete");
}

#[test]
fn a_version_is_one_committed_state_with_a_journal_that_is_truncated() {
    publish_under_fire("truncate");
}

#[test]
fn a_version_is_one_committed_state_with_a_journal_that_is_kept() {
    publish_under_fire("persist");
}

fn publish_under_fire(journal: &str) {
    let mut world = World::new();
    world.store_config = "busy_timeout = \"50s\"".to_owned();
    let store = world.store();
    std::fs::create_dir(world.path("store")).unwrap();
    let mut python = Python::start();
    fill(&store, journal, &mut python);
    world.start();
    let writer = Writer::start(&store, journal);

    let mut published: Vec<(String, i64, i64)> = Vec::new();
    while published.len() < 12 {
        let before = python.number(&store, GENERATION);
        let answer = publish(&world, "report");
        let after = python.number(&store, GENERATION);
        let version = answer["version"]["id"].as_str().unwrap().to_owned();
        if answer["reused"] == false {
            published.push((version, before, after));
        } else {
            // No commit came in between, so the newest version holds for these moments too.
            let newest = published.last_mut().unwrap();
            assert!(newest.0 == version && newest.1 <= before);
        }
    }
    writer.stop();
    python.close(&store);

    for (version, before, after) in &published {
        let opened = open(&world, version);
        assert_eq!(integrity(&opened.uri), "ok", "{version}");
        let state = python.query(&opened.uri, STATE);
        let [generation, bookings, balance] = [0, 1, 2].map(|column| state[0][column].as_i64().unwrap());
        assert_eq!((balance, bookings), (0, 2 * generation), "{version} is not one committed state");
        assert!(
            (*before..=*after).contains(&generation),
            "{version} is of generation {generation}; it was asked for at {before} and there at {after}"
        );
        close(&world, version, &opened);
    }
    let (first, last) = (&published[0], &published[published.len() - 1]);
    assert!(last.1 > first.2, "the writer did not go on: {first:?} {last:?}");
    world.stop();
}

const GENERATION: &str = "SELECT number FROM generation";

const STATE: &str = "SELECT (SELECT number FROM generation),
    (SELECT sum(booked) FROM debit) + (SELECT sum(booked) FROM credit),
    (SELECT sum(amount) FROM debit) + (SELECT sum(amount) FROM credit)";

/// Two tables that cancel, about four megabytes.
fn fill(store: &Path, journal: &str, python: &mut Python) {
    let account = "(account INTEGER PRIMARY KEY, amount INTEGER, booked INTEGER, note TEXT)";
    let rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
        SELECT i, 0, 0, printf('%0400d', i) FROM n";
    python.run(
        store,
        &[
            &format!("PRAGMA journal_mode = {journal}"),
            "PRAGMA synchronous = off",
            "BEGIN",
            &format!("CREATE TABLE debit {account}"),
            "CREATE TABLE generation (number INTEGER)",
            &format!("CREATE TABLE credit {account}"),
            &format!("INSERT INTO debit {rows}"),
            &format!("INSERT INTO credit {rows}"),
            "INSERT INTO generation VALUES (0)",
            "COMMIT",
        ],
    );
}
