//! What can only be tested from inside: a full disk, and a schema with more than one version.

use std::fs;
use std::path::{Path, PathBuf};

use asat_core::audit::By;
use asat_core::event::Change;
use asat_core::guard::{Entry, Outcome, Rung};
use asat_core::snapshot::Hold;
use asat_core::version::{Holding, Store, Tag};
use asat_core::{Code, Problem};
use jiff::Timestamp;

use super::*;

/// How many schemas there are.
const KNOWN: usize = MIGRATIONS.len();

/// They, and two more of a later asat.
fn longer() -> Vec<Migration> {
    let later = [
        "create table extra (a text) strict; insert into extra select name from store",
        "alter table extra add column b integer not null default 7",
    ];
    [MIGRATIONS, &later].concat()
}

fn store(name: &str, path: &str) -> Change {
    let added_at = Timestamp::UNIX_EPOCH;
    Change::Store(Store { name: name.parse().unwrap(), path: PathBuf::from(path), added_at, damage: None })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_is_told_apart_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    catalogue.record(&[store("report", "/srv/report.db")]).unwrap();
    let before = catalogue.load().unwrap();

    let pages: u32 = catalogue.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    let bound = |catalogue: &Catalogue, pages: u32| {
        let bounded = catalogue
            .connection
            .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, u32>(0));
        assert_eq!(bounded.unwrap(), pages);
    };
    bound(&catalogue, pages);
    let long = format!("/srv/{}", "x".repeat(100_000));
    for _ in 0..3 {
        let error = catalogue.record(&[store("small", "/srv/small.db"), store("large", &long)]).unwrap_err();
        assert!(error.to_string().contains("catalogue.db"), "{error}");
        let problem = Problem::from(error);
        assert_eq!(problem.code, Code::StorageFull, "{problem}");
        assert!(!problem.hint.is_empty());
        assert_eq!(catalogue.load().unwrap(), before);
    }
    catalogue.record(&[store("small", "/srv/small.db")]).unwrap();
    bound(&catalogue, 1_000_000);
    catalogue.record(&[store("large", &long)]).unwrap();
    assert_eq!(catalogue.load().unwrap().stores().count(), 3);
}

#[test]
fn an_older_catalogue_is_brought_forward_and_kept_beside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut old = Catalogue::open(&path).unwrap();
    old.record(&[store("report", "/srv/report.db")]).unwrap();
    let (lived, installation) = (old.load().unwrap(), old.installation().to_owned());
    drop(old);
    let beside = format!("catalogue.db.v{KNOWN}");
    fs::write(folder.path().join(&beside), "of an earlier attempt").unwrap();

    let new = Catalogue::open_with(&path, &longer()).unwrap();
    assert_eq!(new.load().unwrap(), lived);
    assert_eq!(new.installation(), installation);
    let extra: (String, u32) =
        new.connection.query_row("select a, b from extra", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(extra, ("report".to_owned(), 7));
    drop(new);
    assert_eq!(names(folder.path()), ["catalogue.db", &beside]);

    // Opened again, nothing is left to be done; an older asat refuses it, and can go back to the copy.
    drop(Catalogue::open_with(&path, &longer()).unwrap());
    let refused = Catalogue::open_with(&path, &longer()[..=KNOWN]);
    let (newer, older) = (KNOWN + 2, KNOWN + 1);
    assert!(
        matches!(refused, Err(Error::Newer { found, known, .. }) if (found, known) == (newer, older)),
        "{refused:?}"
    );
    let kept = Catalogue::open(&folder.path().join(&beside)).unwrap();
    assert_eq!(kept.load().unwrap(), lived);
}

/// A catalogue as the first schema has it, with a row in every table.
const FIRST: &str = "
    insert into store values ('report', '/srv/report.db', '2026-01-01T00:00:00.000000000Z');
    insert into version (store, number, state, begun_at, cut_at, fingerprint, page_size, page_count, wal,
            copy_bytes, copy_used_at)
        values ('report', 1, 'ready', '2026-01-01T00:00:00.000000000Z', '2026-01-01T00:00:01.000000000Z',
            '000102030405060708090a0b0c0d0e0f', 4096, 3, 1, 12288, '2026-01-02T00:00:00.000000000Z');
    insert into holding values ('report', 1, 0, 'archive', 700);
    insert into publication values (1, 'report', 1, '2026-01-01T00:00:00.000000000Z', 'close', null, null,
            null, null, 0, 400, 5000);
    insert into lease values ('l', 'report', 1, 'ann', '2026-01-02T00:00:00.000000000Z',
            '2026-01-03T00:00:00.000000000Z');";

#[test]
fn a_catalogue_of_the_first_schema_keeps_all_that_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let old = Catalogue::open_with(&path, &MIGRATIONS[..1]).unwrap();
    old.connection.execute_batch(FIRST).unwrap();
    drop(old);
    let register = Catalogue::open(&path).unwrap().load().unwrap();
    let entry = register.entry(&"report@1".parse().unwrap()).unwrap();
    let (version, publication) = (&entry.version, register.publication(1).unwrap());
    assert_eq!(version.holdings, [Holding::Archive { bytes: 700 }]);
    assert!(version.content.as_ref().unwrap().fingerprint.is_some());
    assert!(version.copy.as_ref().is_some_and(|copy| copy.bytes == 12288 && !copy.in_snapshot));
    assert_eq!((publication.cost.writer_blocked_us, publication.cost.hold), (400, Hold::Nobody));
    assert_eq!(publication.checks, []);
    assert_eq!(register.leases().count(), 1);
}

#[test]
fn a_catalogue_of_the_second_schema_takes_a_log_of_the_guard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let old = Catalogue::open_with(&path, &MIGRATIONS[..2]).unwrap();
    let report = store("report", "/srv/report.db");
    let sql = "insert into store values ('report', '/srv/report.db', '1970-01-01T00:00:00.000000000Z')";
    old.connection.execute_batch(sql).unwrap();
    drop(old);
    let mut lived = Register::default();
    lived.evolve(&report);
    let mut new = Catalogue::open(&path).unwrap();
    assert_eq!(new.load().unwrap(), lived);
    assert_eq!(new.guard_log(About::Anything, 10).unwrap(), []);
    let entry = Entry {
        at: Timestamp::UNIX_EPOCH,
        target: "group vg".parse().unwrap(),
        version: None,
        rung: Rung::Extend,
        reason: "why".to_owned(),
        outcome: Outcome::Done,
        took_ms: 7,
    };
    new.log_guard(std::slice::from_ref(&entry)).unwrap();
    assert_eq!(new.guard_log(About::Anything, 10).unwrap(), [entry]);
}

#[test]
fn a_catalogue_of_the_fourth_schema_begins_a_trail_and_knows_its_intents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let old = Catalogue::open_with(&path, &MIGRATIONS[..4]).unwrap();
    let intent = "insert into store values ('report', '/srv/report.db', '2026-01-01T00:00:00.000000000Z');
        insert into intent (id, at, effect, open)
        values (3, '2026-01-01T00:00:00.000000000Z', '{\"effect\":\"compact\",\"store\":\"report\"}', 1)";
    old.connection.execute_batch(intent).unwrap();
    drop(old);
    let new = Catalogue::open(&path).unwrap();
    let register = new.load().unwrap();
    assert_eq!(register.intents().map(|intent| intent.by.clone()).collect::<Vec<_>>(), [By::asat()]);
    let trail = Trail::open(&path).unwrap();
    let head = trail.head().unwrap();
    assert_eq!((head.number, head.chain.to_string()), (0, new.installation().repeat(2)));
    assert_eq!(trail.verify(Some(head)).unwrap().broken, None);
}

#[test]
fn publications_of_the_fifth_schema_have_no_attributes_of_their_own_and_take_tags() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let old = Catalogue::open_with(&path, &MIGRATIONS[..1]).unwrap();
    old.connection.execute_batch(FIRST).unwrap();
    drop(old);
    drop(Catalogue::open_with(&path, &MIGRATIONS[..5]).unwrap());
    let mut new = Catalogue::open(&path).unwrap();
    let mut lived = new.load().unwrap();
    assert!(lived.publication(1).unwrap().attributes.free.is_empty());
    let tag = Change::Tagged(Tag {
        name: "month-end".parse().unwrap(),
        version: "report@1".parse().unwrap(),
        set_at: Timestamp::UNIX_EPOCH,
    });
    new.record(std::slice::from_ref(&tag)).unwrap();
    lived.evolve(&tag);
    assert_eq!(new.load().unwrap(), lived);
    // No other than an object, and no tag of a version that is not there.
    for wrong in [
        "update publication set attributes = '[]'",
        "update publication set attributes = 'x'",
        "update publication set attributes = null",
        "insert into tag values ('report', 'a', 9, '2026-01-01T00:00:00.000000000Z')",
        "insert into tag values ('report', '', 1, '2026-01-01T00:00:00.000000000Z')",
    ] {
        assert!(new.connection.execute(wrong, []).is_err(), "{wrong}");
    }
}

#[test]
fn publications_of_the_sixth_schema_are_of_no_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let old = Catalogue::open_with(&path, &MIGRATIONS[..1]).unwrap();
    old.connection.execute_batch(FIRST).unwrap();
    drop(old);
    drop(Catalogue::open_with(&path, &MIGRATIONS[..6]).unwrap());
    let new = Catalogue::open(&path).unwrap();
    assert_eq!(new.load().unwrap().publication(1).unwrap().of_set, None);
    // A set without its instant names nothing, and so does an instant without a set.
    for wrong in [
        "update publication set set_name = 'month-end'",
        "update publication set set_cut_at = '2026-01-01T00:00:00.000000000Z'",
        "update publication set set_name = '', set_cut_at = '2026-01-01T00:00:00.000000000Z'",
    ] {
        assert!(new.connection.execute(wrong, []).is_err(), "{wrong}");
    }
}

#[test]
fn a_migration_that_fails_leaves_the_version_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    drop(Catalogue::open_with(&path, &MIGRATIONS[..1]).unwrap());
    let broken = [MIGRATIONS[0], MIGRATIONS[1], "create table half (a) strict; select no_such_function()"];
    assert!(matches!(Catalogue::open_with(&path, &broken), Err(Error::Sqlite { .. })));
    let second = Catalogue::open_with(&path, &MIGRATIONS[..2]).unwrap();
    assert!(!second.connection.table_exists(None, "half").unwrap());
    assert_eq!(
        names(folder.path()),
        ["catalogue.db", "catalogue.db-shm", "catalogue.db-wal", "catalogue.db.v1"]
    );
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    assert!(Catalogue::open_with(&path, &["create table t ("]).is_err());
    assert_eq!(names(folder.path()), [""; 0]);
    assert!(Catalogue::open(&path).is_ok());
}
