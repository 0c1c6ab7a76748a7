//! What the store's other users notice, and how long anybody waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use asat_host::store::{Limits, read_pages};
use rusqlite::Connection;

use crate::common::{
    AtPage, Collector, PATIENT, assert_free, collect, into_problem, listing, make_store, refusal,
};
use crate::helper::Helper;
use crate::own_locks::own_locks;

const SHORT: Limits = Limits { busy: Duration::from_millis(60), hold: Duration::from_secs(20) };

#[test]
fn a_busy_store_says_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    for (journal, sql) in [
        ("delete", "BEGIN EXCLUSIVE"),
        ("wal", "PRAGMA locking_mode = exclusive; DELETE FROM t WHERE id = 1"),
    ] {
        let path = folder.path().join(format!("{journal}.db"));
        drop(make_store(&path, journal, 10));
        let helper = Helper::execute(&path, sql);
        let before = listing(folder.path());
        let started = Instant::now();
        let (problem, begun) = refusal(&path, &SHORT);
        assert!(started.elapsed() >= SHORT.busy);
        assert_eq!((problem.code, begun), (Code::StoreBusy, false), "{problem}");
        assert!(problem.detail.contains(&format!("(process {})", helper.pid())), "{problem}");
        assert!(!problem.detail.contains(&format!("(process {})", std::process::id())), "{problem}");
        assert_eq!(before, listing(folder.path()));
        drop(helper);
        collect(&path);
        assert_free(&path);
    }
}

#[test]
fn a_lock_that_goes_in_time_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "delete", 10);
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let reading = std::thread::spawn({
        let path = path.clone();
        move || collect(&path)
    });
    assert!(!reading.is_finished());
    writer.execute_batch("DELETE FROM t; COMMIT").unwrap();
    reading.join().unwrap();
    assert_free(&path);
}

#[test]
fn waiting_ends_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "delete", 10);
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let cancel = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_pages(&path, &PATIENT, &cancel, &mut Collector::default()));
        cancel.store(true, Ordering::Relaxed);
        reading.join().unwrap().unwrap_err()
    });
    let (problem, begun) = into_problem(failed);
    assert_eq!((problem.code, begun), (Code::Stopping, false));
}

#[test]
fn writers_are_held_for_a_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 5000));
    let limits = Limits { hold: Duration::from_millis(200), ..PATIENT };
    let mut sink = AtPage(|number| {
        if number == 20 {
            std::thread::sleep(limits.hold * 2);
        }
        Ok(())
    });
    let (problem, begun) = into_problem(read_pages(&path, &limits, &false.into(), &mut sink).unwrap_err());
    assert_eq!((problem.code, begun), (Code::HoldExceeded, true));
    // Pages 18 to 33 are read at once.
    assert!(problem.detail.contains("33 of "), "{problem}");
    assert!(problem.hint.contains("max_hold") && problem.hint.contains("WAL"), "{problem}");
    assert_free(&path);
}

#[test]
fn in_rollback_mode_a_commit_waits_and_the_wait_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "delete", 100);
    writer.busy_timeout(Duration::ZERO).unwrap();
    let mut refused = 0;
    let pause = Duration::from_millis(3);
    let mut sink = AtPage(|_| {
        refused += u32::from(writer.execute_batch("DELETE FROM t WHERE id = 1").is_err());
        std::thread::sleep(pause);
        Ok(())
    });
    let read = read_pages(&path, &PATIENT, &false.into(), &mut sink).unwrap();
    assert_eq!(refused, read.page_count);
    assert!(read.writer_blocked >= pause * read.page_count);
    drop(writer);
    assert_free(&path);
}

#[test]
fn in_wal_mode_commits_and_checkpoints_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "wal", 1000);
    writer.busy_timeout(Duration::ZERO).unwrap();
    let (_, before) = collect(&path);
    let mut pages = Vec::new();
    struct Writing<'a>(&'a Connection, &'a mut Vec<u8>);
    impl asat_host::store::PageSink for Writing<'_> {
        fn begin(&mut self, _: asat_core::PageSize, _: u32) -> Result<(), Problem> {
            Ok(())
        }
        fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
            self.1.extend_from_slice(page);
            self.0.execute("UPDATE t SET text = ?1 WHERE id % 10 = 0", [number]).unwrap();
            if number.is_multiple_of(10) {
                self.0.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
            }
            Ok(())
        }
    }
    // A hold of nothing is no bound in WAL mode: nobody is held.
    let limits = Limits { hold: Duration::ZERO, ..PATIENT };
    let read = read_pages(&path, &limits, &false.into(), &mut Writing(&writer, &mut pages)).unwrap();
    assert_eq!(read.writer_blocked, Duration::ZERO);
    assert!(pages == before);
    assert!(collect(&path).1 != before);
}

#[test]
fn no_lock_is_left_however_reading_ends() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["delete", "wal"] {
        let path = folder.path().join(format!("{journal}.db"));
        drop(make_store(&path, journal, 1000));
        let before = listing(folder.path());
        let cancel = AtomicBool::new(false);
        let mut stopping = AtPage(|number| {
            cancel.store(number >= 30, Ordering::Relaxed);
            Ok(())
        });
        let failed = read_pages(&path, &PATIENT, &cancel, &mut stopping).unwrap_err();
        assert_eq!(into_problem(failed).0.code, Code::Stopping);
        let full = Problem::new(Code::StorageFull, "the archive is full", "add space");
        let mut failing = AtPage(|number| if number == 7 { Err(full.clone()) } else { Ok(()) });
        let failed = read_pages(&path, &PATIENT, &false.into(), &mut failing).unwrap_err();
        assert_eq!(into_problem(failed), (full, true));
        let panicked = std::panic::catch_unwind(|| {
            let mut sink = AtPage(|number| if number == 9 { panic!("a defect in the sink") } else { Ok(()) });
            read_pages(&path, &PATIENT, &false.into(), &mut sink).map(|_| ())
        });
        assert!(panicked.is_err());
        let failed = read_pages(&path, &PATIENT, &true.into(), &mut Collector::default()).unwrap_err();
        assert!(!failed.begun);
        assert_eq!(listing(folder.path()), before);
        assert_free(&path);
    }
}

#[test]
fn two_reads_at_once_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "delete", 500);
    writer.busy_timeout(Duration::ZERO).unwrap();
    let mut sink = AtPage(|_| {
        collect(&path);
        // Between connections of one process SQLite itself keeps the peace: the kernel is asked too.
        assert!(!own_locks(&path).is_empty(), "the outer read still holds its lock");
        assert!(writer.execute_batch("DELETE FROM t").is_err());
        Ok(())
    });
    read_pages(&path, &PATIENT, &false.into(), &mut sink).unwrap();
}
