//! Files that are not what they should be: strangers, newer ones, damaged ones. Each is an error that says
//! what is wrong and where, and none of them is changed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, Dice};
use asat_catalogue::{Catalogue, Error};
use asat_core::event::{Change, Effect, EffectId, Intent};
use asat_core::register::Register;
use asat_core::version::{LeaseId, State};
use asat_core::{Code, Problem, VersionId};
use rusqlite::Connection;

fn sql(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(&format!("pragma foreign_keys = off; {sql}")).unwrap();
}

/// A closed catalogue with two versions and something of everything.
fn filled(folder: &Path) -> PathBuf {
    let path = folder.join("catalogue.db");
    let mut dice = Dice(7);
    let mut catalogue = Catalogue::open(&path).unwrap();
    let id = |number| VersionId { store: "report".parse().unwrap(), number };
    let mut changes = vec![Change::Store(common::store(&mut dice, id(1).store))];
    for number in 1..=2 {
        changes.push(Change::Version(Box::new(common::version(&mut dice, id(number), State::Ready))));
        changes.push(Change::Published(common::publication(&mut dice, number, id(number))));
    }
    changes.push(Change::Lease(common::lease(&mut dice, LeaseId("l-1".into()), id(1))));
    let effect = Effect::Retire { version: id(1) };
    changes.push(Change::Intended(Intent { id: EffectId(0), at: dice.instant(), by: dice.by(), effect }));
    catalogue.record(&changes).unwrap();
    path
}

/// Every file of a folder with its length and a sum of its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, usize, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sum = |bytes: &[u8]| bytes.iter().fold(7, |sum: u64, &byte| sum.wrapping_mul(31) ^ u64::from(byte));
    let describe = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        (path, bytes.len(), sum(&bytes))
    };
    let mut files: Vec<_> = entries.map(describe).collect();
    files.sort();
    files
}

#[test]
fn a_strangers_database_is_refused_and_untouched() {
    for mode in ["delete", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.db");
        sql(&path, &format!("pragma journal_mode = {mode}; create table t (a); insert into t values (1)"));
        let before = files(folder.path());
        let error = Catalogue::open(&path).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        assert_eq!(files(folder.path()), before);
        let problem = Problem::from(error);
        assert_eq!(problem.code, Code::Configuration);
        assert!(problem.detail.contains("catalogue.db") && !problem.hint.is_empty());
    }
}

#[test]
fn a_newer_catalogue_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    sql(&path, "pragma user_version = 4711");
    let before = files(folder.path());
    let error = Catalogue::open(&path).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 4711, .. }), "{error}");
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_catalogue_that_only_its_log_makes_newer_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("pragma user_version = 4711").unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let image = crashed.path().join("catalogue.db");
    fs::copy(&path, &image).unwrap();
    fs::copy(path.with_extension("db-wal"), image.with_extension("db-wal")).unwrap();
    let before = files(crashed.path());
    let error = Catalogue::open(&image).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 4711, .. }), "{error}");
    // SQLite leaves an index of the log beside it.
    fs::remove_file(image.with_extension("db-shm")).unwrap();
    assert_eq!(files(crashed.path()), before);
}

#[test]
fn a_log_without_its_catalogue_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    for log in ["catalogue.db-wal", "catalogue.db-journal"] {
        fs::write(folder.path().join(log), "left behind").unwrap();
        let error = Catalogue::open(&path).unwrap_err();
        assert!(error.to_string().contains(log), "{error}");
        fs::remove_file(folder.path().join(log)).unwrap();
    }
    fs::write(folder.path().join("catalogue.db.new"), "an attempt that was interrupted").unwrap();
    fs::write(&path, "").unwrap();
    assert_eq!(Catalogue::open(&path).unwrap().load().unwrap(), Register::default());
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("no/such/folder.db")] {
        let error = Catalogue::open(&path).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_row_that_cannot_be_read_is_named() {
    let cases = [
        ("update version set begun_at = 'yesterday' where number = 2", "version", "report@2", "begun_at"),
        (
            "update version set cut_at = '2026-13-01T00:00:00Z' where number = 1",
            "version",
            "report@1",
            "cut_at",
        ),
        ("update version set state = 'gone' where number = 2", "version", "report@2", "gone"),
        (
            "update version set fingerprint = 'blake3:' || replace(hex(zeroblob(32)), '0', 'x')",
            "version",
            "report@1",
            "fingerprint",
        ),
        ("update version set page_size = 1000 where number = 2", "version", "report@2", "page_size"),
        ("update version set number = -1 where number = 1", "version", "report@-1", "number"),
        (
            "insert into holding values ('report', 1, 7, 'archive', -5, null)",
            "holding",
            "report@1@7",
            "bytes",
        ),
        ("insert into holding values ('report', 1, 7, 'tape', 1, null)", "holding", "report@1@7", "tape"),
        (
            "insert into holding values ('report', 1, 7, 'snapshot', 1, '{}')",
            "holding",
            "report@1@7",
            "missing field",
        ),
        (
            "insert into holding values ('report', 9, 0, 'archive', 1, null)",
            "holding",
            "report@9",
            "no such version",
        ),
        ("update store set name = '../x'", "store", "../x", "store name"),
        ("update store set name = 'other'", "lease", "l-1", "no version report@1"),
        (
            "update publication set business_date = '2026-02-30' where number = 2",
            "publication",
            "2",
            "business_date",
        ),
        ("update publication set hold = 'always' where number = 1", "publication", "1", "always"),
        ("update publication set version = 77 where number = 1", "publication", "1", "no version report@77"),
        ("update lease set expires_at = ''", "lease", "l-1", "expires_at"),
        ("update lease set store = 'other'", "lease", "l-1", "no version other@1"),
        ("update intent set effect = '{}'", "intent", "0", "missing field"),
        ("update intent set effect = '{\"effect\":\"explode\"}'", "intent", "0", "explode"),
        ("update intent set at = 'now'", "intent", "0", "column at"),
    ];
    for (damage, table, row, word) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = filled(folder.path());
        sql(&path, &format!("pragma ignore_check_constraints = on; {damage}"));
        let error = Catalogue::open(&path).unwrap().load().unwrap_err();
        let text = error.to_string();
        for part in [table, row, word, "catalogue.db"] {
            assert!(text.contains(part), "{damage}: {text} does not say {part}");
        }
        assert_eq!(Problem::from(error).code, Code::Damaged, "{damage}");
    }
}

#[test]
fn json_that_is_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let json = b"{\"effect\":\"retire\"";
    let at = bytes.windows(json.len()).position(|window| window == json).unwrap();
    bytes[at + 9] = b';';
    fs::write(&path, bytes).unwrap();
    let error = read(&path).unwrap_err();
    assert!(matches!(error, Error::Row { table: "intent", .. }), "{error}");
}

/// Opens and reads; any damage must be an error or of no consequence.
fn read(path: &Path) -> Result<Register, Error> {
    Catalogue::open(path)?.load()
}

#[test]
fn a_damaged_file_is_an_error_or_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(folder.path());
    let truth = read(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    let mut dice = Dice(8);
    for round in 0..300 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(1 + dice.below(whole.len() - 1)),
            1 => {
                let at = dice.below(whole.len() / 512) * 512;
                bytes[at..at + 512].fill_with(|| dice.roll().to_le_bytes()[0]);
            }
            // Structures stand at the beginning of each page.
            _ => {
                let at = dice.below(whole.len() / 4096) * 4096 + dice.below(16);
                bytes[at] = bytes[at].wrapping_add(1 + dice.roll().to_le_bytes()[0] % 255);
            }
        }
        let copy = tempfile::tempdir().unwrap();
        let damaged = copy.path().join("catalogue.db");
        fs::write(&damaged, &bytes).unwrap();
        match read(&damaged) {
            // Random bytes may hit a free corner.
            Ok(register) => assert_eq!(register, truth, "round {round}"),
            Err(error) => {
                found += 1;
                assert!(error.to_string().contains("catalogue.db"), "{error}");
            }
        }
    }
    assert!(found > 150, "only {found} of 300 kinds of damage were found");
    fs::write(&path, b"not a database").unwrap();
    assert!(matches!(read(&path), Err(Error::Damaged { .. })));
}
