//! Asking for the marker of watch mode: one query that only reads, bounded, and whatever comes of it without a trace.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use asat_core::check::{Rows, Value};
use asat_core::{Code, Problem};
use asat_host::store::ask;
use rusqlite::Connection;

const PATIENCE: Duration = Duration::from_secs(20);
const ENDLESS: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n where i < 0";

fn store(mode: &str) -> (tempfile::TempDir, std::path::PathBuf, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.db");
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", mode).unwrap();
    connection.execute_batch("create table t (a); insert into t values (41), (42)").unwrap();
    (folder, path, connection)
}

fn asked(path: &std::path::Path, sql: &str, deadline: Duration) -> Result<Rows, Problem> {
    Ok(ask(path, sql, deadline, PATIENCE, &Arc::default())?)
}

#[test]
fn a_query_is_answered_and_leaves_nothing_in_every_journal_mode() {
    for mode in ["wal", "delete", "truncate", "persist"] {
        let (folder, path, connection) = store(mode);
        let rows = asked(&path, "select max(a) from t", PATIENCE).unwrap();
        assert_eq!(rows.first, [[Value::Integer(42)]], "{mode}");
        drop(connection);
        let names = || {
            let entries = fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = (names(), fs::read(&path).unwrap());
        asked(&path, "select max(a) from t", PATIENCE).unwrap();
        assert_eq!((names(), fs::read(&path).unwrap()), before, "{mode}");
    }
}

#[test]
fn what_does_anything_but_read_and_what_does_not_end_is_refused() {
    let (_folder, path, connection) = store("wal");
    for (sql, deadline, part) in [
        ("insert into t values (1)", PATIENCE, "something else than reading"),
        ("delete from t returning a", PATIENCE, "something else than reading"),
        ("pragma user_version = 7", PATIENCE, "not authorized"),
        ("attach 'x' as x", PATIENCE, "not"),
        ("select 1; delete from t", PATIENCE, "not authorized"),
        ("select a from missing", PATIENCE, "no such table: missing"),
        ("", PATIENCE, "not"),
        (ENDLESS, Duration::from_millis(50), "did not end within 50 ms"),
    ] {
        let refused = asked(&path, sql, deadline).unwrap_err();
        assert_eq!(refused.code, Code::MarkerFailed, "{sql}: {refused}");
        assert!(refused.detail.contains(part) && refused.detail.contains("report.db"), "{sql}: {refused}");
    }
    let rows: u32 = connection.query_row("select count(*) from t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}

#[test]
fn a_store_that_is_locked_missing_or_none_is_told_apart() {
    let (folder, path, connection) = store("delete");
    connection.execute_batch("begin exclusive").unwrap();
    let short = Duration::from_millis(20);
    assert_eq!(asked(&path, "select 1", short).map_err(|p| p.code), Err(Code::StoreBusy));
    connection.execute_batch("rollback").unwrap();
    assert_eq!(
        asked(&folder.path().join("none.db"), "select 1", short).map_err(|p| p.code),
        Err(Code::StoreMissing)
    );
    fs::write(folder.path().join("text.db"), "x".repeat(5000)).unwrap();
    let refused = asked(&folder.path().join("text.db"), "select 1", short).map_err(|p| p.code);
    assert_eq!(refused, Err(Code::StoreUnreadable));
}

#[test]
fn writers_are_held_no_longer_than_they_may_and_a_stop_ends_the_query() {
    let (_folder, path, _connection) = store("delete");
    let since = Instant::now();
    let held =
        ask(&path, ENDLESS, PATIENCE, Duration::from_millis(50), &Arc::default()).map_err(Problem::from);
    assert!(held.unwrap_err().detail.contains("did not end within 50 ms"));
    assert!(since.elapsed() < PATIENCE);
    let stopped =
        ask(&path, ENDLESS, PATIENCE, PATIENCE, &Arc::new(AtomicBool::new(true))).map_err(Problem::from);
    assert_eq!(stopped.unwrap_err().code, Code::Stopping);
}
