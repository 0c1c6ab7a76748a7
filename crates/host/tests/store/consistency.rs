//! Several stores at one instant: who is held, for how long, and that nobody is where it comes to nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_host::store::{Checks, Error, Limits, Member, Moment, fix_together};
use rusqlite::Connection;

use crate::common::{Collector, PATIENT, ask, make_store};

/// Two stores in these journal modes, with the connections that made them.
fn stores(folder: &Path, journals: [&str; 2]) -> [(PathBuf, Connection); 2] {
    let names = ["a.db", "b.db"].map(|name| folder.join(name));
    let [a, b] = names;
    let (first, second) = (make_store(&a, journals[0], 200), make_store(&b, journals[1], 300));
    [(a, first), (b, second)]
}

fn member<'a>(path: &'a Path, limits: &'a Limits) -> Member<'a> {
    Member { path, limits, by_snapshot: false }
}

fn refused(result: Result<(jiff::Timestamp, Vec<Moment>), (usize, Error)>) -> (usize, Problem) {
    let (index, error) = result.map(drop).unwrap_err();
    (index, error.into())
}

/// Reads what was fixed, and asks it something.
fn read(moment: Moment, sql: &str) -> String {
    let Moment::Read(fixed) = moment else { panic!("it is read") };
    let (mut sink, cancel) = (Collector::default(), Arc::default());
    fixed.read(&Checks { checks: &[], cancel: &cancel }, &mut sink).unwrap();
    ask(&sink.bytes, sql)
}

/// Asserts that nobody keeps a writer out. The application still has the store open.
fn assert_not_held(path: &Path) {
    let writer = Connection::open(path).unwrap();
    writer.busy_timeout(Duration::ZERO).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; CREATE TABLE free (x); DROP TABLE free; COMMIT").unwrap();
}

const COUNT: &str = "SELECT cast(count(*) AS text) FROM t";

#[test]
fn what_is_fixed_stays_and_nobody_waits_for_it_in_wal_mode() {
    let folder = tempfile::tempdir().unwrap();
    let [(a, first), (b, second)] = stores(folder.path(), ["wal", "wal"]);
    let members = [member(&a, &PATIENT), member(&b, &PATIENT)];
    let (cut_at, moments) = fix_together(&members, &AtomicBool::new(false)).unwrap();
    assert!(cut_at <= jiff::Timestamp::now());
    for writer in [&first, &second] {
        writer.busy_timeout(Duration::ZERO).unwrap();
        writer.execute_batch("DELETE FROM t WHERE id > 10").unwrap();
    }
    let counted: Vec<String> = moments.into_iter().map(|moment| read(moment, COUNT)).collect();
    assert_eq!(counted, ["200", "300"]);
    [&a, &b].into_iter().for_each(|path| assert_not_held(path));
}

#[test]
fn in_the_rollback_modes_commits_wait_until_all_pages_are_read() {
    for journal in ["delete", "truncate", "persist"] {
        let folder = tempfile::tempdir().unwrap();
        let [(a, first), (b, second)] = stores(folder.path(), [journal, "wal"]);
        let members = [member(&a, &PATIENT), member(&b, &PATIENT)];
        let (_, mut moments) = fix_together(&members, &AtomicBool::new(false)).unwrap();
        first.busy_timeout(Duration::ZERO).unwrap();
        assert!(first.execute_batch("DELETE FROM t").is_err(), "{journal}");
        second.execute_batch("DELETE FROM t").unwrap();
        assert_eq!(read(moments.remove(0), COUNT), "200");
        first.execute_batch("DELETE FROM t").unwrap();
        assert_eq!(read(moments.remove(0), COUNT), "300");
        [&a, &b].into_iter().for_each(|path| assert_not_held(path));
    }
}

#[test]
fn a_store_that_stays_locked_is_named_and_no_other_is_held_any_longer() {
    let folder = tempfile::tempdir().unwrap();
    let [(a, _first), (b, second)] = stores(folder.path(), ["wal", "delete"]);
    let impatient = Limits { busy: Duration::from_millis(50), ..PATIENT };
    let members = [member(&a, &PATIENT), member(&b, &impatient)];
    second.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (index, problem) = refused(fix_together(&members, &AtomicBool::new(false)));
    assert_eq!((index, problem.code), (1, Code::StoreBusy));
    assert!(problem.detail.contains("b.db"), "{problem}");
    assert_not_held(&a);
    second.execute_batch("COMMIT").unwrap();
    fix_together(&members, &AtomicBool::new(false)).unwrap();
    assert_not_held(&b);
}

#[test]
fn a_program_that_locks_the_stores_the_other_way_round_gets_on() {
    let folder = tempfile::tempdir().unwrap();
    let [(a, first), (b, second)] = stores(folder.path(), ["wal", "delete"]);
    second.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let fixing = scope.spawn(|| {
            let members = [member(&a, &PATIENT), member(&b, &PATIENT)];
            fix_together(&members, &AtomicBool::new(false)).map(drop)
        });
        let tries = rusqlite::Connection::open(&a).unwrap();
        tries.busy_timeout(Duration::ZERO).unwrap();
        while tries.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
            thread::yield_now();
        }
        // Whoever holds the first store lets it go again while the second one is not to be had.
        first.execute_batch("BEGIN IMMEDIATE; DELETE FROM t; COMMIT").unwrap();
        second.execute_batch("COMMIT").unwrap();
        fixing.join().unwrap().unwrap();
    });
}

#[test]
fn a_hold_that_would_last_too_long_ends_and_nothing_is_fixed() {
    let folder = tempfile::tempdir().unwrap();
    let [(a, _first), (b, _second)] = stores(folder.path(), ["wal", "delete"]);
    let hasty = Limits { hold: Duration::ZERO, ..PATIENT };
    let members = [member(&a, &PATIENT), member(&b, &hasty)];
    let (_, problem) = refused(fix_together(&members, &AtomicBool::new(false)));
    assert_eq!(problem.code, Code::HoldExceeded, "{problem}");
    [&a, &b].into_iter().for_each(|path| assert_not_held(path));
}

#[test]
fn a_store_that_is_not_there_is_named_before_anybody_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let [(a, _first), _] = stores(folder.path(), ["wal", "wal"]);
    let missing = folder.path().join("missing.db");
    let members = [member(&a, &PATIENT), member(&missing, &PATIENT)];
    let (index, problem) = refused(fix_together(&members, &AtomicBool::new(false)));
    assert_eq!((index, problem.code), (1, Code::StoreMissing));
    assert_not_held(&a);
}

#[test]
fn a_daemon_that_stops_ends_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let [(a, _first), (b, second)] = stores(folder.path(), ["wal", "wal"]);
    second.execute_batch("BEGIN IMMEDIATE").unwrap();
    let members = [member(&a, &PATIENT), member(&b, &PATIENT)];
    let (_, problem) = refused(fix_together(&members, &AtomicBool::new(true)));
    assert_eq!(problem.code, Code::Stopping);
    assert_not_held(&a);
}

#[test]
fn stores_that_are_held_still_together_are_held_as_they_would_be_alone() {
    for journals in [["wal", "wal"], ["delete", "wal"]] {
        let folder = tempfile::tempdir().unwrap();
        let [(a, first), (b, second)] = stores(folder.path(), journals);
        let members = [&a, &b].map(|path| Member { by_snapshot: true, ..member(path, &PATIENT) });
        let (cut_at, moments) = fix_together(&members, &AtomicBool::new(false)).unwrap();
        second.busy_timeout(Duration::ZERO).unwrap();
        second.execute_batch("DELETE FROM t").unwrap();
        if journals[0] == "delete" {
            // Writers of a store in a rollback mode are held until the snapshot is there.
            first.busy_timeout(Duration::ZERO).unwrap();
            assert!(first.execute_batch("DELETE FROM t").is_err());
        }
        for moment in moments {
            let Moment::Still(still) = moment else { panic!("it is held still") };
            assert_eq!(still.state().cut_at, cut_at);
            assert!(!still.state().with_wal);
            still.release().unwrap();
        }
        drop(first);
        assert_not_held(&a);
    }
}
