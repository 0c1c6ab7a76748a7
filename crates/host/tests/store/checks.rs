//! Checks: made in the transaction that is read, bounded, and unable to do anything but read.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_core::check::{Check, CheckResult, Expected, Test, Value};
use asat_core::{Code, Problem};
use asat_host::store::{Checks, Limits, check_frozen, read_checked};
use rusqlite::Connection;

use crate::common::{AtPage, Collector, PATIENT, assert_free, collect, into_problem, listing, make_store};

/// The counter that never ends.
const ENDLESS: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n where i < 0";

fn check(test: Test) -> Check {
    Check { name: "the check".to_owned(), test, deadline: Duration::from_secs(20) }
}

fn asking(sql: &str, expected: Expected) -> Check {
    check(Test::Query { sql: sql.to_owned(), expected })
}

/// Reads a store once it has met the checks.
fn read(
    path: &Path,
    limits: &Limits,
    checks: &[Check],
) -> Result<(Vec<CheckResult>, Vec<u8>), (Problem, bool)> {
    let (cancel, mut sink) = (Arc::default(), Collector::default());
    let checks = Checks { checks, cancel: &cancel };
    match read_checked(path, limits, &checks, &mut sink) {
        Ok((_, results)) => Ok((results, sink.bytes)),
        Err(failed) => {
            assert_eq!(sink.announced.is_some(), failed.begun);
            Err(into_problem(failed))
        }
    }
}

/// What the check says that the store does not meet.
fn refusal(path: &Path, check: Check) -> String {
    let (problem, begun) = read(path, &PATIENT, &[check]).expect_err("the check was met");
    assert!(problem.code == Code::CheckFailed && !begun, "{problem:?}");
    assert!(problem.detail.contains("\"the check\""), "{problem:?}");
    problem.detail
}

fn found(path: &Path, check: Check) -> String {
    let (results, _) = read(path, &PATIENT, &[check]).unwrap();
    let [CheckResult { name, passed: true, found, .. }] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!(name, "the check");
    found.clone()
}

/// A store with what queries may be asked about, in the given journal mode.
fn store(path: &Path, journal: &str) -> Connection {
    let writer = make_store(path, journal, 500);
    writer
        .execute_batch(
            "create view doubled as select id * 2 as twice from t;
             create virtual table words using fts5(word);
             insert into words values ('close'), ('open');
             create table account(id integer primary key);
             create table booking(id integer primary key, account references account(id), what);
             insert into account values (1);
             insert into booking values (1, 1, x'00ff'), (2, 1, null), (3, 1, 'text');",
        )
        .unwrap();
    writer
}

#[test]
fn what_holds_is_found_in_every_journal_mode_and_the_pages_are_the_same() {
    for journal in ["wal", "delete", "truncate", "persist"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writer = store(&path, journal);
        let zero = || Expected::Equals(Value::Integer(0));
        let checks = [
            (asking("select id from t where text is null", Expected::NoRows), "no rows"),
            (asking("select count(*) from t where id > 500;", zero()), "0"),
            (asking("select count(*) from t", Expected::AtLeast(Value::Integer(500))), "500"),
            (asking("select max(twice) from doubled", Expected::Equals(Value::text("1000"))), "1000"),
            (
                asking(
                    "select word from words where words match 'clo*'",
                    Expected::Equals(Value::text("close")),
                ),
                "\"close\"",
            ),
            (check(Test::QuickCheck), "ok"),
            (check(Test::ForeignKeyCheck), "no rows"),
        ];
        let (checks, expected): (Vec<_>, Vec<_>) = checks.into_iter().unzip();
        let (results, bytes) = read(&path, &PATIENT, &checks).unwrap();
        assert_eq!(
            results.iter().map(|result| result.found.as_str()).collect::<Vec<_>>(),
            expected,
            "{journal}"
        );
        assert!(bytes == collect(&path).1, "{journal}");
        drop(writer);
        assert_free(&path);
    }
}

#[test]
fn what_does_not_hold_is_told_with_its_first_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = store(&path, "wal");
    writer.execute_batch("pragma foreign_keys = off; insert into booking values (4, 9, 'x')").unwrap();
    let null = || Expected::Equals(Value::text("0"));
    let cases = [
        (
            asking("select id, what from booking", Expected::NoRows),
            "there are 4 rows: (1, a blob of 2 bytes), (2, NULL), (3, \"text\"), (4, \"x\")",
        ),
        (
            asking("select id from t", Expected::NoRows),
            "more than 10 rows: (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), …",
        ),
        (asking("select sum(id) from t where id > 500", null()), "NULL was found"),
        (asking("select what from booking where id = 3", null()), "\"text\" was found"),
        (asking("select what from booking where id = 1", null()), "a blob of 2 bytes was found"),
        (asking("select id from t where id < 3", null()), "there are 2 rows: (1), (2)"),
        (asking("select 1, 2", null()), "the row has 2 columns"),
        (asking("select 1 where 0", null()), "there are no rows"),
        (
            asking("select count(*) from t", Expected::AtLeast(Value::Integer(501))),
            "at least 501 was expected, and 500 was found",
        ),
        (asking("select printf('%.*c', 1000000, 'x')", null()), "\"xxxxxxxxxx"),
        (check(Test::ForeignKeyCheck), "1 row refer to rows that are not there"),
    ];
    for (check, expected) in cases {
        let test = check.test.clone();
        let said = refusal(&path, check);
        assert!(said.contains(expected) && said.len() < 2000, "{test:?}: {said}");
    }
}

#[test]
fn what_is_damaged_is_found_by_a_quick_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 500));
    let mut bytes = fs::read(&path).unwrap();
    // A leaf of the table or of its index: its cells begin where no cell can.
    let leaf =
        (1..bytes.len() / 4096).map(|page| page * 4096).find(|at| [10, 13].contains(&bytes[*at])).unwrap();
    bytes[leaf + 8..leaf + 12].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert!(refusal(&path, check(Test::QuickCheck)).contains("damaged"));
}

#[test]
fn nothing_but_reading_is_done_whatever_is_asked() {
    for journal in ["wal", "delete"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writer = store(&path, journal);
        let other = folder.path().join("other.db");
        let other = other.display();
        let before = collect(&path).1;
        let beside = listing(folder.path());
        for sql in [
            "delete from t".to_owned(),
            "insert into t values (9999, 'x') returning id".to_owned(),
            "with n as (select 1) update t set text = 'x' returning id".to_owned(),
            "create table x(y)".to_owned(),
            "create temp table x(y)".to_owned(),
            "drop view doubled".to_owned(),
            "insert into words(words) values ('rebuild')".to_owned(),
            format!("attach '{other}' as other"),
            format!("vacuum into '{other}'"),
            "vacuum".to_owned(),
            "reindex".to_owned(),
            "analyze".to_owned(),
            "commit".to_owned(),
            "rollback".to_owned(),
            "begin".to_owned(),
            "savepoint x".to_owned(),
            "pragma query_only = off".to_owned(),
            "pragma journal_mode = delete".to_owned(),
            "pragma wal_checkpoint(truncate)".to_owned(),
            "select * from pragma_database_list".to_owned(),
            "select load_extension('libc.so.6')".to_owned(),
            "select 1; delete from t".to_owned(),
            String::new(),
            "-- nothing".to_owned(),
            "select * from missing".to_owned(),
            "selct 1".to_owned(),
            "select zeroblob(900000000)".to_owned(),
        ] {
            refusal(&path, asking(&sql, Expected::NoRows));
            assert_eq!(listing(folder.path()), beside, "{journal}: {sql}");
        }
        assert!(collect(&path).1 == before, "{journal}");
        drop(writer);
        assert_free(&path);
    }
}

#[test]
fn a_query_without_end_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = store(&path, "wal");
    let endless = Check { deadline: Duration::from_millis(50), ..asking(ENDLESS, Expected::NoRows) };
    assert!(refusal(&path, endless).contains("did not end within 50 ms"));

    // An answer of any number of rows is not read to its end.
    let rows = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n";
    assert!(refusal(&path, asking(rows, Expected::NoRows)).contains("more than 10 rows"));

    let (cancel, endless) = (Arc::new(AtomicBool::new(true)), [asking(ENDLESS, Expected::NoRows)]);
    let checks = Checks { checks: &endless, cancel: &cancel };
    let stopped = read_checked(&path, &PATIENT, &checks, &mut Collector::default()).unwrap_err();
    assert_eq!(into_problem(stopped).0.code, Code::Stopping);
    drop(writer);
    assert_free(&path);
}

#[test]
fn writers_who_wait_for_a_check_wait_no_longer_than_they_may() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let _writer = store(&path, "delete");
    let limits = Limits { hold: Duration::from_millis(50), ..PATIENT };
    let (problem, begun) = read(&path, &limits, &[asking(ENDLESS, Expected::NoRows)]).unwrap_err();
    assert_eq!((problem.code, begun), (Code::HoldExceeded, false), "{problem:?}");
    assert!(problem.detail.contains("\"the check\""), "{problem:?}");
    assert_free(&path);
}

#[test]
fn what_is_checked_is_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = store(&path, "wal");
    // Somebody commits between the checks and the pages.
    let committed = std::cell::Cell::new(false);
    let mut pages = Vec::new();
    let mut sink = AtPage(|number| {
        if !committed.replace(true) {
            writer.execute_batch("delete from t").unwrap();
        }
        pages.push(number);
        Ok(())
    });
    let (cancel, checks) =
        (Arc::default(), [asking("select count(*) from t", Expected::Equals(Value::Integer(500)))]);
    let checks = Checks { checks: &checks, cancel: &cancel };
    let (first, results) = read_checked(&path, &PATIENT, &checks, &mut sink).unwrap();
    assert_eq!(results[0].found, "500");
    assert_eq!(pages.len(), first.page_count as usize);
    let empty = asking("select count(*) from t", Expected::Equals(Value::Integer(0)));
    assert_eq!(found(&path, empty), "0");
}

#[test]
fn a_file_that_nobody_writes_is_checked_with_nothing_made_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = store(&path, "wal");
    let frozen = folder.path().join("frozen");
    fs::create_dir(&frozen).unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("store.db{suffix}");
        fs::copy(folder.path().join(&name), frozen.join(&name)).unwrap();
    }
    drop(writer);
    let (file, cancel, before) = (frozen.join("store.db"), Arc::default(), listing(&frozen));
    let rows = |rows| [asking("select count(*) from booking", Expected::Equals(Value::Integer(rows)))];
    let ask = |checks: &[Check]| check_frozen(&file, true, &Checks { checks, cancel: &cancel });
    assert_eq!(ask(&rows(3)).unwrap()[0].found, "3");
    let failed = Problem::from(ask(&rows(4)).unwrap_err());
    assert_eq!(failed.code, Code::CheckFailed);
    assert_eq!(listing(&frozen), before);
}
