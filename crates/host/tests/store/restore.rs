//! Restoring: the store is as it was or as it is wanted, whatever happens, and no commit is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_host::store::{Limits, Restoring, restore};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{PATIENT, ask, assert_free, collect, listing, make_store};
use crate::helper::Helper;

const SHORT: Limits = Limits { busy: Duration::from_millis(60), hold: Duration::from_secs(20) };
const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];
const ALL: &str =
    "SELECT count(*) || ' ' || coalesce(sum(length(text)), 0) || ' ' || coalesce(max(text), '') FROM t";

/// A store, and a version of it with this many rows.
struct World {
    folder: TempDir,
    store: PathBuf,
    version: PathBuf,
}

impl World {
    fn new(journal: &str, rows: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, version) = (folder.path().join("store.db"), folder.path().join("version"));
        drop(make_store(&store, journal, rows));
        fs::write(&version, collect(&store).1).unwrap();
        Self { folder, store, version }
    }

    fn sql(&self, sql: &str) {
        let connection = Connection::open(&self.store).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    fn restore_with(&self, limits: &Limits, unchanged: impl FnOnce() -> bool) -> Result<Duration, Problem> {
        let cancel = AtomicBool::new(false);
        let restoring = Restoring { source: &self.version, limits, cancel: &cancel };
        Ok(restore(&self.store, &restoring, || Ok(unchanged()), &mut |_, _| {})?)
    }

    fn restore(&self) -> Result<Duration, Problem> {
        self.restore_with(&PATIENT, || true)
    }

    fn refused(&self, limits: &Limits, unchanged: impl FnOnce() -> bool) -> Problem {
        let problem = self.restore_with(limits, unchanged).unwrap_err();
        assert!(!problem.hint.is_empty(), "{problem:?}");
        problem
    }

    fn content(&self) -> String {
        ask(&collect(&self.store).1, ALL)
    }

    fn wanted(&self) -> String {
        ask(&fs::read(&self.version).unwrap(), ALL)
    }
}

/// A database without what SQLite counts in its header: changes, schema changes, and its own version.
fn without_counters(mut bytes: Vec<u8>) -> Vec<u8> {
    for counter in [24..28, 40..44, 92..100] {
        bytes[counter].fill(0);
    }
    bytes
}

fn journal_mode(path: &Path) -> String {
    Connection::open(path).unwrap().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
}

#[test]
fn the_store_has_the_versions_pages_and_its_own_journal_mode() {
    let changes =
        ["DELETE FROM t WHERE id > 10; VACUUM", "INSERT INTO t SELECT NULL, text FROM t", "DROP TABLE t"];
    for journal in MODES {
        for change in changes {
            let world = World::new(journal, 2000);
            world.sql(change);
            let open = Connection::open(&world.store).unwrap();
            let _: i64 = open.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
            assert!(world.restore().unwrap() > Duration::ZERO);
            let (_, bytes) = collect(&world.store);
            assert!(
                without_counters(bytes) == without_counters(fs::read(&world.version).unwrap()),
                "{journal}: {change}"
            );
            let seen: String = open.query_row(ALL, [], |row| row.get(0)).unwrap();
            assert_eq!(seen, world.wanted(), "a connection that was open all the time");
            assert_eq!(journal_mode(&world.store), if journal == "wal" { "wal" } else { "delete" });
            open.execute_batch("INSERT INTO t (text) VALUES ('goes on')").unwrap();
            drop(open);
            assert_free(&world.store);
            let names: Vec<PathBuf> = listing(world.folder.path()).into_keys().collect();
            assert_eq!(names, [Path::new("store.db"), Path::new("version")]);
        }
    }
}

#[test]
fn another_page_size_is_taken_on_where_sqlite_can() {
    let world = World::new("delete", 500);
    world.sql("PRAGMA page_size = 1024; VACUUM; DELETE FROM t WHERE id > 9");
    world.restore().unwrap();
    assert_eq!((world.content(), collect(&world.store).0.page_size.bytes()), (world.wanted(), 4096));

    world.sql("PRAGMA page_size = 1024; VACUUM; PRAGMA journal_mode = wal; DELETE FROM t WHERE id > 9");
    let problem = world.refused(&PATIENT, || true);
    assert_eq!(problem.code, Code::Invalid);
    assert!(problem.detail.contains("1024") && problem.detail.contains("4096"), "{problem}");
    assert!(world.content().starts_with("9 "));
}

#[test]
fn a_store_that_is_locked_is_left_alone_and_says_who_has_it() {
    for (journal, sql) in [
        ("delete", "BEGIN IMMEDIATE"),
        ("delete", "BEGIN EXCLUSIVE"),
        ("wal", "BEGIN IMMEDIATE"),
        ("delete", "BEGIN; SELECT * FROM t"),
    ] {
        let world = World::new(journal, 100);
        world.sql("DELETE FROM t WHERE id > 9");
        let helper = Helper::execute(&world.store, sql);
        let problem = world.refused(&SHORT, || true);
        assert_eq!(problem.code, Code::StoreBusy, "{journal} {sql}: {problem}");
        assert!(problem.detail.contains(&format!("(process {})", helper.pid())), "{problem}");
        drop(helper);
        assert!(world.content().starts_with("9 "));
        assert_free(&world.store);
        world.restore().unwrap();
        assert_eq!(world.content(), world.wanted());
    }
}

#[test]
fn readers_in_wal_mode_go_on_with_what_they_see() {
    let world = World::new("wal", 100);
    world.sql("DELETE FROM t WHERE id > 9");
    let reader = Connection::open(&world.store).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = || reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(), 9);
    world.restore().unwrap();
    assert_eq!(count(), 9);
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(), 100);
}

#[test]
fn what_was_committed_after_the_state_was_kept_is_not_lost() {
    for journal in MODES {
        let world = World::new(journal, 100);
        world.sql("DELETE FROM t WHERE id > 9");
        let late = || {
            world.sql("DELETE FROM t WHERE id > 8");
            true
        };
        assert_eq!(world.refused(&PATIENT, late).code, Code::StoreBusy);
        assert!(world.content().starts_with("8 "), "{journal}");
        assert_eq!(world.refused(&PATIENT, || false).code, Code::StoreBusy);
        assert!(world.content().starts_with("8 "), "{journal}");
        assert_free(&world.store);
    }
}

#[test]
fn a_restore_that_takes_too_long_or_is_stopped_changes_nothing() {
    for journal in MODES {
        let world = World::new(journal, 20_000);
        world.sql("DELETE FROM t WHERE id > 9; VACUUM");
        let limits = Limits { hold: Duration::ZERO, ..PATIENT };
        assert_eq!(world.refused(&limits, || true).code, Code::HoldExceeded);
        let cancel = AtomicBool::new(false);
        let restoring = Restoring { source: &world.version, limits: &PATIENT, cancel: &cancel };
        let mut stop = |done, pages| cancel.store(done * 2 > pages, Ordering::Relaxed);
        let stopped = restore(&world.store, &restoring, || Ok(true), &mut stop).unwrap_err();
        assert_eq!(Problem::from(stopped).code, Code::Stopping);
        assert!(world.content().starts_with("9 "));
        assert_free(&world.store);
    }
}

#[test]
fn on_a_full_disk_the_store_stays_as_it_was() {
    for journal in MODES {
        let world = World::new(journal, 30_000);
        let disk = world.folder.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let report = Helper::restore_on_a_small_disk(&disk, journal, &world.version);
        assert_eq!(report, "StorageFull true", "{journal}");
    }
}

#[test]
fn killed_amid_it_the_store_is_as_it_was_or_as_it_is_wanted() {
    for journal in MODES {
        for nth in [1, 2, 4, 6] {
            let world = World::new(journal, 30_000);
            world.sql("DELETE FROM t WHERE id % 3 > 0; INSERT INTO t (text) VALUES ('old')");
            let old = world.content();
            Helper::restore_and_die(&world.store, &world.version, nth);
            // The next visitor, whoever it is, makes it whole.
            let content = world.content();
            assert!(content == old || content == world.wanted(), "{journal} {nth}: {content}");
            assert_free(&world.store);
            world.restore().unwrap();
            assert_eq!(world.content(), world.wanted());
        }
    }
}

#[test]
fn a_busy_writer_loses_no_commit_and_readers_see_no_mix() {
    for journal in ["delete", "wal"] {
        let world = World::new(journal, 3000);
        world.sql(
            "CREATE TABLE a (v); CREATE TABLE b (v); INSERT INTO a VALUES (0); INSERT INTO b VALUES (0)",
        );
        fs::write(&world.version, collect(&world.store).1).unwrap();
        let connect = || {
            let connection = Connection::open(&world.store).unwrap();
            connection.busy_timeout(Duration::from_secs(20)).unwrap();
            connection
        };
        let look = |connection: &Connection| -> (i64, i64) {
            connection
                .query_row("SELECT a.v, b.v FROM a, b", [], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
        };
        let stop = AtomicBool::new(false);
        let (mut kept, mut restored) = (0, 0);
        let committed = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (connection, mut committed) = (connect(), 0);
                while !stop.load(Ordering::Relaxed) {
                    let one = "BEGIN IMMEDIATE; UPDATE a SET v = v + 1; UPDATE b SET v = v + 1; COMMIT";
                    connection.execute_batch(one).unwrap();
                    committed += 1;
                    // The pace of an application; nothing waits for it.
                    std::thread::sleep(Duration::from_millis(3));
                }
                committed
            });
            scope.spawn(|| {
                let connection = connect();
                while !stop.load(Ordering::Relaxed) {
                    let (a, b) = look(&connection);
                    assert_eq!(a, b, "{journal}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            for _ in 0..300 {
                let mut seen = 0;
                let unchanged = || {
                    seen = look(&connect()).0;
                    true
                };
                match world.restore_with(&PATIENT, unchanged) {
                    Ok(_) => (kept, restored) = (kept + seen, restored + 1),
                    Err(problem) => assert_eq!(problem.code, Code::StoreBusy, "{journal}: {problem}"),
                }
                if restored == 10 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        assert!(restored > 0, "{journal}");
        let (a, b) = look(&connect());
        assert_eq!((a, kept + a), (b, committed), "{journal}: every commit was kept or is there");
    }
}
