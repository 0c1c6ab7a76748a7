//! What can only be tested from inside: a full disk, and a schema with more than one version.

use std::fs;
use std::path::{Path, PathBuf};

use asat_core::event::Change;
use asat_core::version::Store;
use asat_core::{Code, Problem};
use jiff::Timestamp;

use super::*;

const LONGER: &[Migration] = &[
    MIGRATIONS[0],
    "create table extra (a text) strict; insert into extra select name from store",
    "alter table extra add column b integer not null default 7",
];

fn store(name: &str, path: &str) -> Change {
    let added_at = Timestamp::UNIX_EPOCH;
    Change::Store(Store { name: name.parse().unwrap(), path: PathBuf::from(path), added_at })
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
    let mut old = Catalogue::open_with(&path, &LONGER[..1]).unwrap();
    old.record(&[store("report", "/srv/report.db")]).unwrap();
    let (lived, installation) = (old.load().unwrap(), old.installation().to_owned());
    drop(old);
    fs::write(folder.path().join("catalogue.db.v1"), "of an earlier attempt").unwrap();

    let new = Catalogue::open_with(&path, LONGER).unwrap();
    assert_eq!(new.load().unwrap(), lived);
    assert_eq!(new.installation(), installation);
    let extra: (String, u32) =
        new.connection.query_row("select a, b from extra", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(extra, ("report".to_owned(), 7));
    drop(new);
    assert_eq!(names(folder.path()), ["catalogue.db", "catalogue.db.v1"]);

    // Opened again, nothing is left to be done; an older asat refuses it, and can go back to the copy.
    drop(Catalogue::open_with(&path, LONGER).unwrap());
    let refused = Catalogue::open_with(&path, &LONGER[..2]);
    assert!(matches!(refused, Err(Error::Newer { found: 3, known: 2, .. })), "{refused:?}");
    let kept = Catalogue::open_with(&folder.path().join("catalogue.db.v1"), &LONGER[..1]).unwrap();
    assert_eq!(kept.load().unwrap(), lived);
}

#[test]
fn a_migration_that_fails_leaves_the_version_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    drop(Catalogue::open_with(&path, &LONGER[..1]).unwrap());
    let broken = [LONGER[0], LONGER[1], "create table half (a) strict; select no_such_function()"];
    assert!(matches!(Catalogue::open_with(&path, &broken), Err(Error::Sqlite { .. })));
    let second = Catalogue::open_with(&path, &LONGER[..2]).unwrap();
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
