//! Holding a store still: what is held is one committed state, and writers are held as little as it takes.

#![allow(clippy::print_stdout)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use asat_core::{Code, Problem};
use asat_host::store::{CommitWait, Error, Limits, Still, still};
use rusqlite::Connection;

use crate::common::{PATIENT, assert_free, collect, listing, make_store};
use crate::helper::{Helper, TRANSFER};
use crate::own_locks::own_locks;
use crate::transfers::{self, copy, copy_slowly, generation, live, thaw};

/// What makes a store in WAL mode hard to hold still: every commit is checkpointed, and the WAL begun anew.
const RESTLESS: &str = "PRAGMA synchronous = off; PRAGMA wal_autocheckpoint = 1";

fn hold(path: &Path, must_hold: bool) -> Still {
    still(path, &PATIENT, &AtomicBool::new(false), must_hold).unwrap()
}

fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// Whether this process holds read-lock 0 of a store in WAL mode: byte 123 of its `-shm` file, as SQLite's documentation
/// of the WAL says. No checkpoint of any process writes the database file then.
fn keeps_checkpoints_off(path: &Path) -> bool {
    own_locks(&beside(path, "-shm")).iter().any(|lock| lock.contains(" READ ") && lock.ends_with(" 123 123"))
}

/// What every write to a file moves.
fn times(path: &Path) -> (u64, SystemTime, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.len(), metadata.modified().unwrap(), metadata.ctime_nsec())
}

/// Waits until somebody has committed after this generation.
fn commits_after(connection: &Connection, generation: i64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while live(connection) <= generation {
        assert!(Instant::now() < deadline, "nobody commits");
        std::thread::yield_now();
    }
}

#[test]
fn the_file_alone_is_one_committed_state_while_others_commit_and_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for page_size in [512, 4096, 65536] {
        let path = folder.path().join(format!("{page_size}.db"));
        transfers::make(&path, "wal", page_size);
        let _others = [
            Helper::repeat(&path, RESTLESS, TRANSFER),
            Helper::repeat(&path, "PRAGMA synchronous = off", TRANSFER),
            // These do not wait for anybody: a checkpoint that waits has the writers' lock meanwhile.
            Helper::repeat(&path, "PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(TRUNCATE)"),
            Helper::repeat(&path, "PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(PASSIVE)"),
        ];
        let watch = connect(&path);
        commits_after(&watch, 0);
        for round in 0..4 {
            let before = live(&watch);
            let held = hold(&path, round % 2 == 1);
            let state = held.state().clone();
            let snapshot = folder.path().join("snapshot.db");
            // A checkpoint of another process may take so long that the WAL is taken into the snapshot too.
            if state.with_wal {
                copy_slowly(&path, &snapshot, 5, || {});
                copy(&beside(&path, "-wal"), &beside(&snapshot, "-wal"));
            } else {
                assert!(keeps_checkpoints_off(&path));
                let at = times(&path);
                copy_slowly(&path, &snapshot, 5, || commits_after(&watch, live(&watch)));
                assert_eq!(times(&path), at);
            }
            let blocked = held.release().unwrap();
            commits_after(&watch, before);
            let pages = thaw(&snapshot, state.with_wal);
            assert_eq!(pages.len(), state.page_size.as_usize() * state.page_count as usize);
            let kept = generation(&pages);
            assert!(before <= kept && kept <= live(&watch), "{before} {kept}");
            assert_eq!(state.with_wal, state.hold == CommitWait::Snapshot);
            assert_eq!(blocked.is_zero(), state.hold == CommitWait::Nobody);
            seen.push((page_size, state.hold, blocked));
            fs::remove_file(&snapshot).unwrap();
        }
    }
    println!("others commit and checkpoint: {seen:?}");
    assert!(seen.iter().any(|(_, hold, _)| *hold != CommitWait::Snapshot));
}

#[test]
fn file_and_wal_together_are_the_state_where_a_reader_keeps_checkpoints_from_completing() {
    let folder = tempfile::tempdir().unwrap();
    for page_size in [512, 4096, 65536] {
        let path = folder.path().join(format!("{page_size}.db"));
        transfers::make(&path, "wal", page_size);
        let _reader = Helper::execute(&path, "BEGIN; SELECT * FROM t");
        let _others = [
            Helper::repeat(&path, RESTLESS, TRANSFER),
            Helper::repeat(&path, "PRAGMA busy_timeout = 0", "PRAGMA wal_checkpoint(TRUNCATE)"),
        ];
        let watch = connect(&path);
        commits_after(&watch, 0);
        for _ in 0..2 {
            let before = live(&watch);
            let held = hold(&path, false);
            let state = held.state().clone();
            assert!(state.with_wal && state.hold == CommitWait::Snapshot, "{state:?}");
            let at = live(&watch);
            let snapshot = folder.path().join("snapshot.db");
            copy_slowly(&path, &snapshot, 5, || assert_eq!(live(&watch), at));
            copy(&beside(&path, "-wal"), &beside(&snapshot, "-wal"));
            let blocked = held.release().unwrap();
            println!("a reader is in the way: {blocked:?} with the copying");
            let pages = thaw(&snapshot, true);
            assert_eq!(pages.len(), state.page_size.as_usize() * state.page_count as usize);
            assert!(before <= at && generation(&pages) == at);
            commits_after(&watch, at);
            fs::remove_file(&snapshot).unwrap();
        }
    }
}

#[test]
fn in_the_rollback_modes_a_held_store_is_one_committed_state() {
    let folder = tempfile::tempdir().unwrap();
    for (page_size, journal) in
        [512, 4096, 65536].into_iter().flat_map(|size| ["delete", "truncate", "persist"].map(|j| (size, j)))
    {
        let path = folder.path().join(format!("{journal}-{page_size}.db"));
        transfers::make(&path, journal, page_size);
        let first =
            format!("PRAGMA synchronous = off; PRAGMA journal_mode = {journal}; PRAGMA cache_size = 5");
        let _writer = Helper::repeat(&path, &first, TRANSFER);
        let watch = connect(&path);
        commits_after(&watch, 0);
        for _ in 0..2 {
            let before = live(&watch);
            let held = hold(&path, true);
            let state = held.state().clone();
            assert!(!state.wal && !state.with_wal && state.hold == CommitWait::Snapshot, "{state:?}");
            let snapshot = folder.path().join("snapshot.db");
            copy_slowly(&path, &snapshot, 3, || {});
            let blocked = held.release().unwrap();
            println!("{journal}, {page_size}: {blocked:?} with the copying");
            let pages = thaw(&snapshot, false);
            assert_eq!(pages.len(), state.page_size.as_usize() * state.page_count as usize);
            let kept = generation(&pages);
            assert!(before <= kept, "{before} {kept}");
            commits_after(&watch, kept);
            fs::remove_file(&snapshot).unwrap();
        }
    }
}

#[test]
fn a_writer_that_never_pauses_waits_for_the_last_frames_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    transfers::make(&path, "wal", 4096);
    let _writer = Helper::transfer(&path);
    let watch = connect(&path);
    let mut seen = Vec::new();
    // Chance decides whether a commit falls between the steps each time they are tried: go on until it did.
    for _ in 0..2000 {
        commits_after(&watch, live(&watch));
        let held = hold(&path, false);
        let (hold, at) = (held.state().hold, live(&watch));
        // On a slow disk the writer's own checkpoint may outlast the patience for it.
        if hold != CommitWait::Snapshot {
            assert!(keeps_checkpoints_off(&path), "{hold:?}");
            commits_after(&watch, at);
        }
        seen.push((hold, held.release().unwrap()));
        if seen.len() >= 10 && hold == CommitWait::Checkpoint {
            break;
        }
    }
    println!("one writer that never pauses: {seen:?}");
    assert!(seen.iter().any(|(hold, _)| *hold == CommitWait::Checkpoint));
}

/// What others do, and what a commit has to wait for then.
const WAYS: [(&str, &str, bool, CommitWait); 9] = [
    ("wal", "", false, CommitWait::Nobody),
    ("wal", "", true, CommitWait::Nobody),
    ("wal", "DELETE FROM t WHERE id = 1", false, CommitWait::Nobody),
    ("wal", "DELETE FROM t WHERE id = 1; BEGIN; SELECT * FROM t", false, CommitWait::Nobody),
    ("wal", "BEGIN IMMEDIATE; DELETE FROM t", false, CommitWait::Nobody),
    ("delete", "", false, CommitWait::Nobody),
    ("delete", "", true, CommitWait::Snapshot),
    ("delete", "BEGIN; SELECT * FROM t", false, CommitWait::Nobody),
    ("delete", "BEGIN IMMEDIATE; DELETE FROM t", false, CommitWait::Nobody),
];

#[test]
fn nobody_is_held_where_nobody_commits() {
    let folder = tempfile::tempdir().unwrap();
    for (journal, others, must_hold, expected) in WAYS {
        let path = folder.path().join("store.db");
        drop(make_store(&path, journal, 100));
        let other = (!others.is_empty()).then(|| Helper::execute(&path, others));
        let before = listing(folder.path());
        let held = hold(&path, must_hold);
        let state = held.state().clone();
        assert_eq!((state.hold, state.with_wal, state.wal), (expected, false, journal == "wal"), "{others}");
        // The store's file, for a snapshot in which nobody has written since.
        assert!(state.witness.difference(&path).unwrap().is_none());
        let blocked = held.release().unwrap();
        println!("{journal}, {others:?}, must hold: {must_hold}: {expected:?} {blocked:?}");
        assert_eq!(blocked.is_zero(), journal == "wal");
        assert_eq!(
            listing(folder.path()).into_keys().collect::<Vec<_>>(),
            before.into_keys().collect::<Vec<_>>()
        );
        drop(other);
        assert_free(&path);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_file(&path).unwrap();
    }
}

/// A store in WAL mode with a reader that is behind, so that it must be held for the snapshot.
fn pinned(path: &Path) -> (Helper, Connection) {
    let writer = make_store(path, "wal", 100);
    let reader = Helper::execute(path, "BEGIN; SELECT * FROM t");
    writer.execute_batch("DELETE FROM t WHERE id = 1").unwrap();
    (reader, writer)
}

#[test]
fn writers_are_let_go_when_the_time_is_up() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["delete", "wal"] {
        let path = folder.path().join(format!("{journal}.db"));
        let others = (journal == "wal").then(|| pinned(&path));
        if others.is_none() {
            drop(make_store(&path, journal, 100));
        }
        let limits = Limits { hold: Duration::from_millis(40), ..PATIENT };
        let held = still(&path, &limits, &AtomicBool::new(false), true).unwrap();
        assert_eq!(held.state().hold, CommitWait::Snapshot);
        // This waits for as long as it has to. Nobody releases anything.
        connect(&path).execute_batch("DELETE FROM t WHERE id = 2").unwrap();
        let problem = Problem::from(held.release().unwrap_err());
        assert_eq!(problem.code, Code::HoldExceeded, "{problem}");
        assert!(problem.detail.contains("for 40 ms"), "{problem}");
        // Not before the time, and when it was up at the latest as soon as the machine had a moment.
        let words = problem.detail.split_once("released after ").unwrap().1;
        let after: u64 = words.split(' ').next().unwrap().parse().unwrap();
        assert!((40..2000).contains(&after), "{problem}");
        drop(others);
        assert_free(&path);
    }
}

#[test]
fn a_commit_waits_for_as_long_as_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 100));
    let held = hold(&path, true);
    let pause = Duration::from_millis(30);
    let waited = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let connection = connect(&path);
            let started = Instant::now();
            connection.execute_batch("DELETE FROM t WHERE id = 1").unwrap();
            started.elapsed()
        });
        std::thread::sleep(pause);
        let blocked = held.release().unwrap();
        assert!(blocked >= pause);
        (writer.join().unwrap(), blocked)
    });
    println!("waited and said: {waited:?}");
    assert_free(&path);
}

#[test]
fn no_lock_and_no_file_is_left_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    for (journal, must_hold, is_pinned) in
        [("delete", false, false), ("delete", true, false), ("wal", false, false), ("wal", false, true)]
    {
        let path = folder.path().join(format!("{journal}-{must_hold}-{is_pinned}.db"));
        let others = is_pinned.then(|| pinned(&path));
        if others.is_none() {
            drop(make_store(&path, journal, 100));
        }
        let names = || listing(folder.path()).into_keys().collect::<Vec<PathBuf>>();
        let before = names();
        drop(hold(&path, must_hold));
        assert_eq!(names(), before);
        let cancelled = still(&path, &PATIENT, &AtomicBool::new(true), must_hold).unwrap_err();
        assert!(matches!(cancelled, Error::Stopping { .. }), "{cancelled}");
        assert_eq!(names(), before);
        let killed = Helper::still(&path, must_hold, None);
        let expected = if must_hold || is_pinned { "Snapshot" } else { "Nobody" };
        assert_eq!(killed.report, expected);
        killed.kill();
        drop(others);
        // This one also folds the WAL of the killed process in.
        assert_free(&path);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn a_store_that_is_replaced_meanwhile_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (journal, must_hold) in [("delete", false), ("delete", true), ("wal", false)] {
        let path = folder.path().join("store.db");
        drop(make_store(&path, journal, 100));
        let next = folder.path().join("next.db");
        drop(make_store(&next, journal, 10));
        let held = hold(&path, must_hold);
        fs::rename(&next, &path).unwrap();
        assert!(held.state().witness.difference(&path).unwrap().is_some());
        assert!(matches!(held.release().unwrap_err(), Error::Replaced { .. }));
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(folder.path().join(format!("store.db{suffix}")));
        }
    }
}

#[test]
fn a_store_that_may_only_be_read() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (journal, must_hold, folder_mode, file_mode, expected) in [
        ("delete", false, 0o755, 0o644, "Nobody"),
        ("delete", true, 0o755, 0o644, "may not be written"),
        ("delete", true, 0o755, 0o666, "Snapshot"),
        ("delete", false, 0o755, 0o600, "may not be read"),
        ("wal", false, 0o777, 0o666, "Nobody"),
        ("wal", false, 0o777, 0o644, "to lock nobody out of it"),
        ("wal", false, 0o755, 0o644, "cannot be read without writing"),
        ("wal", false, 0o755, 0o666, "cannot be read without writing"),
    ] {
        let place = folder.path().join(format!("{journal}-{must_hold}-{folder_mode:o}-{file_mode:o}"));
        fs::create_dir(&place).unwrap();
        let path = place.join("store.db");
        drop(make_store(&path, journal, 100));
        chown(&path, Some(1), Some(1)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(folder_mode)).unwrap();
        let before = listing(&place);
        let helper = Helper::still(&path, must_hold, Some(65534));
        assert!(
            helper.report.contains(expected),
            "{journal} {folder_mode:o} {file_mode:o}: {}",
            helper.report
        );
        drop(helper);
        assert_eq!(listing(&place), before);
        // With the application connected, its sidecars are there, and still only to be read.
        if journal == "wal" && file_mode == 0o644 {
            let application = Helper::execute(&path, "DELETE FROM t WHERE id = 1");
            let helper = Helper::still(&path, must_hold, Some(65534));
            let expected = if folder_mode == 0o777 { expected } else { "may not be written" };
            assert!(helper.report.contains(expected), "{}", helper.report);
            drop(application);
        }
        assert_eq!(collect(&path).0.wal, journal == "wal");
    }
}
