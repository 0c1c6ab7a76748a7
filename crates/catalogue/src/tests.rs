//! What can only be tested from inside: a full disk, and a schema with more than one version.

use std::fs;
use std::path::{Path, PathBuf};

use asat_core::event::Change;
use asat_core::version::Store;
use asat_core::{Code, Problem};
use jiff::Timestamp;

use super::*;
use crate::migrate::OLDEST;

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
    assert_eq!(names(folder.path()), ["catalogue.db", "catalogue.db-newest", &beside]);

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

/// A row in every table.
const ROWS: &str = "
    insert into store (name, path, added_at) values ('report', '/srv/report.db', '2026-01-01T00:00:00.000000000Z');
    insert into version (store, number, state, begun_at, cut_at, page_size, page_count, wal)
        values ('report', 1, 'ready', '2026-01-01T00:00:00.000000000Z', '2026-01-01T00:00:01.000000000Z', 4096, 3, 1);
    insert into publication (number, store, version, at, reused, writer_blocked_us, elapsed_us)
        values (1, 'report', 1, '2026-01-01T00:00:00.000000000Z', 0, 400, 5000);";

#[test]
fn a_catalogue_with_fingerprints_of_another_kind_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    drop(Catalogue::open(&path).unwrap());
    let version = format!("pragma journal_mode = delete; pragma user_version = {}", OLDEST - 1);
    Connection::open(&path).unwrap().execute_batch(&version).unwrap();
    let before = fs::read(&path).unwrap();
    let refusals = [
        Catalogue::open(&path).map(drop),
        Catalogue::look(&path, || None::<()>).map(drop),
        Catalogue::back_up(&path, &folder.path().join("copy.db")),
    ];
    for refused in refusals {
        let problem = Problem::from(refused.unwrap_err());
        assert_eq!(problem.code, Code::Configuration);
        assert!(
            problem.detail.contains(&format!("has schema version {}", OLDEST - 1))
                && problem.hint.contains("asat export"),
            "{problem}"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(names(folder.path()), ["catalogue.db", "catalogue.db-newest"]);
}

#[test]
fn what_no_record_says_is_refused_by_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let new = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    new.connection.execute_batch(ROWS).unwrap();
    let sound = format!("update version set fingerprint = 'blake3:{}'", "0".repeat(64));
    new.connection.execute(&sound, []).unwrap();
    for wrong in [
        "update publication set attributes = '[]'",
        "update publication set attributes = 'x'",
        "update publication set attributes = null",
        "insert into tag values ('report', 'a', 9, '2026-01-01T00:00:00.000000000Z')",
        "insert into tag values ('report', '', 1, '2026-01-01T00:00:00.000000000Z')",
        // A set without its instant names nothing, and so does an instant without a set.
        "update publication set set_name = 'month-end'",
        "update publication set set_cut_at = '2026-01-01T00:00:00.000000000Z'",
        "update publication set set_name = '', set_cut_at = '2026-01-01T00:00:00.000000000Z'",
        // A fingerprint says how it was made.
        "update version set fingerprint = '000102030405060708090a0b0c0d0e0f'",
    ] {
        assert!(new.connection.execute(wrong, []).is_err(), "{wrong}");
    }
}

#[test]
fn a_migration_that_fails_leaves_the_version_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    drop(Catalogue::open(&path).unwrap());
    let next = longer().get(..=KNOWN).unwrap().to_vec();
    let broken = [&next[..], &["create table half (a) strict; select no_such_function()"]].concat();
    assert!(matches!(Catalogue::open_with(&path, &broken), Err(Error::Sqlite { .. })));
    let brought = Catalogue::open_with(&path, &next).unwrap();
    assert!(!brought.connection.table_exists(None, "half").unwrap());
    assert_eq!(
        names(folder.path()),
        [
            "catalogue.db",
            "catalogue.db-newest",
            "catalogue.db-shm",
            "catalogue.db-wal",
            &format!("catalogue.db.v{KNOWN}")
        ]
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

/// What a start finds after a kill: the files as they are, without the index of the log.
fn after_a_kill(path: &Path) -> (tempfile::TempDir, Result<Register, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("catalogue.db");
    for suffix in ["", "-wal", newest::SUFFIX] {
        let (from, to) = (create::beside(path, suffix), create::beside(&image, suffix));
        if from.exists() {
            fs::copy(from, to).unwrap();
        }
    }
    let found = Catalogue::open(&image).and_then(|catalogue| catalogue.load());
    (folder, found)
}

#[test]
fn a_commit_that_failed_after_it_was_written_is_not_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut catalogue = Catalogue::open(&path).unwrap();
    catalogue.connection.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    // The index of the log has to grow after 4062 pages, and finds no room. By then the commit is in the log, and synced.
    catalogue.record(&[store("large", &format!("/srv/{}", "x".repeat(15 << 20)))]).unwrap();
    let mut lived = catalogue.load().unwrap();
    shared::tests::fail(true);
    let failed = (0..1000).find_map(|number| {
        let change = store(&format!("store-{number}"), "/srv/small.db");
        match catalogue.commit(std::slice::from_ref(&change)) {
            Ok(()) => {
                lived.evolve(&change);
                None
            }
            Err(error) => Some((change, error)),
        }
    });
    shared::tests::fail(false);
    let (change, error) = failed.expect("the index never grew");
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert_eq!(catalogue.load().unwrap(), lived);
    assert_eq!(after_a_kill(&path).1.unwrap(), lived);
    catalogue.record(std::slice::from_ref(&change)).unwrap();
    lived.evolve(&change);
    assert_eq!(catalogue.load().unwrap(), lived);
    assert_eq!(after_a_kill(&path).1.unwrap(), lived);
}

#[test]
fn where_a_commit_that_failed_cannot_be_taken_out_nothing_more_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue.db");
    let mut catalogue = Catalogue::open(&path).unwrap();
    catalogue.record(&[store("report", "/srv/report.db")]).unwrap();
    let before = catalogue.load().unwrap();
    let (log, aside) = (create::beside(&path, "-wal"), folder.path().join("aside"));
    let failed = catalogue.transact("fail to write", |transaction| {
        fs::rename(&log, &aside).unwrap();
        let orphan = "insert into tag values ('none', 'a', 1, '2026-01-01T00:00:00.000000000Z')";
        transaction.execute_batch(&format!("pragma defer_foreign_keys = on; {orphan}"))
    });
    fs::rename(&aside, &log).unwrap();
    for answer in [failed, catalogue.record(&[store("later", "/srv/later.db")])] {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Unsure { .. }), "{error}");
        let problem = Problem::from(error);
        assert!(problem.detail.contains("FOREIGN KEY") && problem.hint.contains("restart"), "{problem}");
    }
    drop(catalogue);
    let mut again = Catalogue::open(&path).unwrap();
    assert_eq!(again.load().unwrap(), before);
    again.record(&[store("later", "/srv/later.db")]).unwrap();
}

#[test]
fn what_is_deleted_or_replaced_while_it_is_open_is_written_no_more() {
    for suffix in ["", "-wal", "-shm"] {
        for replaced in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("catalogue.db");
            let mut catalogue = Catalogue::open(&path).unwrap();
            catalogue.record(&[store("report", "/srv/report.db")]).unwrap();
            let before = catalogue.load().unwrap();
            let (file, aside) = (create::beside(&path, suffix), folder.path().join("aside"));
            fs::rename(&file, &aside).unwrap();
            if replaced {
                fs::copy(&aside, &file).unwrap();
            }
            for _ in 0..2 {
                let error = catalogue.record(&[store("later", "/srv/later.db")]).unwrap_err();
                assert!(matches!(error, Error::Gone { .. }), "{error}");
                let said = error.to_string();
                let what = if replaced { "was replaced" } else { "was deleted or moved away" };
                assert!(said.contains(&format!("catalogue.db{suffix} {what}")), "{said}");
                assert_eq!(Problem::from(error).code, Code::Damaged);
            }
            // The very file is brought back, and nothing was recorded meanwhile.
            fs::rename(&aside, &file).unwrap();
            assert_eq!(catalogue.load().unwrap(), before);
            catalogue.record(&[store("later", "/srv/later.db")]).unwrap();
            assert_eq!(after_a_kill(&path).1.unwrap(), catalogue.load().unwrap());
        }
    }
}

#[test]
fn a_sum_that_is_kept_is_that_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
    catalogue
        .transact("fill", |transaction| {
            transaction.execute_batch(ROWS)?;
            transaction
                .execute("insert into tag values ('report', 'a', 1, '2026-01-01T00:00:00.000000000Z')", [])?;
            transaction.execute_batch("update tag set name = 'b'; update version set page_count = 4")
        })
        .unwrap();
    catalogue.load().unwrap();
    // What goes with another row is subtracted as well.
    catalogue
        .transact("empty", |transaction| {
            transaction.execute_batch("delete from tag; delete from publication; delete from version")
        })
        .unwrap();
    catalogue.load().unwrap();
    let changes =
        ["update version set page_count = 5", "delete from publication", "drop index lease_on_version"];
    for change in changes {
        let folder = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
        catalogue.transact("fill", |transaction| transaction.execute_batch(ROWS)).unwrap();
        Connection::open(catalogue.path()).unwrap().execute_batch(change).unwrap();
        let error = catalogue.load().unwrap_err();
        assert!(error.to_string().contains("not what was committed"), "{change}: {error}");
    }
}
