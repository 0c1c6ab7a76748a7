//! A store in a rollback mode is not held for the snapshot; whether somebody wrote in between is found out afterwards.
//!
//! In place of the snapshot stands the store's file itself, as it is at the moment of the check.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use asat_host::store::{CommitWait, StillState, still};
use rusqlite::Connection;

use crate::common::{PATIENT, make_store};
use crate::helper::Helper;

/// The state of a store which nobody holds when this returns.
fn fixed(path: &Path) -> StillState {
    let held = still(path, &PATIENT, &AtomicBool::new(false), false).unwrap();
    let state = held.state().clone();
    assert_eq!(state.hold, CommitWait::Nobody);
    held.release().unwrap();
    state
}

#[test]
fn what_is_done_to_a_store_and_whether_it_is_another_state() {
    let folder = tempfile::tempdir().unwrap();
    let spilling = "PRAGMA cache_size = 5; BEGIN; UPDATE t SET text = id";
    for journal in ["delete", "truncate", "persist", "memory", "off"] {
        for (sql, same) in [
            ("SELECT count(*) FROM t", true),
            ("BEGIN; SELECT count(*) FROM t", true),
            // A transaction that is under way, and has not touched the file.
            ("BEGIN; DELETE FROM t WHERE id = 1", true),
            ("BEGIN; DELETE FROM t WHERE id = 1; ROLLBACK", true),
            ("DELETE FROM t WHERE id = 1", false),
            ("PRAGMA user_version = 5", false),
            ("VACUUM", false),
            // One whose pages are in the file already, and not committed.
            (spilling, false),
            ("PRAGMA journal_mode = wal", false),
        ] {
            let path = folder.path().join("store.db");
            drop(make_store(&path, journal, 5000));
            let state = fixed(&path);
            let other = Helper::execute(&path, &format!("PRAGMA journal_mode = {journal}; {sql}"));
            assert_eq!(state.witness.difference(&path).unwrap().is_none(), same, "{journal}: {sql}");
            drop(other);
            std::fs::remove_file(&path).unwrap();
            let _ = std::fs::remove_file(folder.path().join("store.db-journal"));
        }
    }
}

#[test]
fn a_write_right_after_the_look_moves_the_times_for_certain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "delete", 10);
    for round in 0..30 {
        // Written just now: a second write within the same tick would leave the times as they are.
        writer.execute("UPDATE t SET text = ?1 WHERE id = 1", [round]).unwrap();
        let state = fixed(&path);
        writer.execute("UPDATE t SET text = ?1 WHERE id = 1", [round + 100]).unwrap();
        assert!(state.witness.difference(&path).unwrap().is_some());
    }
}

#[test]
fn a_checkpoint_right_after_the_cut_moves_the_times_for_certain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "wal", 10);
    let mut before = None;
    for round in 0..30 {
        // Each round is done in less than a tick, but for what it waits for.
        writer.execute("UPDATE t SET text = ?1 WHERE id = 1", [round + 100]).unwrap();
        let held = still(&path, &PATIENT, &AtomicBool::new(false), false).unwrap();
        let state = held.state().clone();
        assert!(held.settle());
        held.release().unwrap();
        assert_ne!(before.as_ref(), Some(&state.witness), "round {round}");
        before = Some(state.witness);
    }
}

#[test]
fn a_file_of_the_same_times_and_size_is_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 10));
    let state = fixed(&path);
    let copy = folder.path().join("copy.db");
    let status = std::process::Command::new("cp").arg("-p").arg(&path).arg(&copy).status().unwrap();
    assert!(status.success() && state.witness.difference(&path).unwrap().is_none());
    assert!(state.witness.difference(&copy).unwrap().is_some());
    assert!(state.witness.difference(&folder.path().join("missing.db")).unwrap().is_some());
}

#[test]
fn times_that_somebody_sets_back_do_not_deceive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "off", 10);
    let state = fixed(&path);
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    // The page's own counter goes back too, as where a file is copied over another.
    writer.execute_batch("PRAGMA user_version = 7; PRAGMA user_version = 0").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert!(state.witness.difference(&path).unwrap().is_some());
}

#[test]
fn a_wal_with_a_commit_too_many_or_too_few_is_another_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "wal", 100);
    let _reader = Helper::execute(&path, "BEGIN; SELECT * FROM t");
    writer.execute_batch("DELETE FROM t WHERE id = 1").unwrap();
    let held = still(&path, &PATIENT, &AtomicBool::new(false), false).unwrap();
    let state = held.state().clone();
    assert!(state.with_wal && state.witness.difference(&path).unwrap().is_none());
    held.release().unwrap();
    // What is rolled back leaves frames behind, and none of them commits.
    writer.execute_batch("PRAGMA cache_size = 5; BEGIN; UPDATE t SET text = id; ROLLBACK").unwrap();
    assert!(state.witness.difference(&path).unwrap().is_none());
    commit(&writer);
    assert!(state.witness.difference(&path).unwrap().is_some());
    drop(writer);
    std::fs::File::options()
        .write(true)
        .open(folder.path().join("store.db-wal"))
        .unwrap()
        .set_len(40)
        .unwrap();
    assert!(state.witness.difference(&path).unwrap().is_some());
}

fn commit(writer: &Connection) {
    writer.execute_batch("DELETE FROM t WHERE id = 2").unwrap();
}
