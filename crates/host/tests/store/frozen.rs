//! Reading a store's file as it lies in a mounted snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use asat_core::{Code, Problem};
use asat_host::store::read_frozen;
use tempfile::TempDir;

use crate::common::{AtPage, Collector, ask, collect, into_problem, listing, make_store, raw};
use crate::helper::Helper;
use crate::transfers::{copy, thaw};

const COUNT: &str = "SELECT count(*) || '' FROM t";

/// Files as a snapshot has them: 100 rows in the database file, 7 with the WAL.
fn snapshot(name: &str, sidecars: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live.db");
    let writer = make_store(&live, "wal", 100);
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); DELETE FROM t WHERE id > 7").unwrap();
    let place = folder.path().join("mounted");
    fs::create_dir(&place).unwrap();
    let path = place.join(name);
    for suffix in [""].iter().chain(sidecars) {
        copy(
            Path::new(&format!("{}{suffix}", live.display())),
            Path::new(&format!("{}{suffix}", path.display())),
        );
    }
    (folder, path)
}

#[test]
fn a_wal_counts_where_it_is_said_to() {
    for sidecars in [&["-wal"][..], &["-wal", "-shm"]] {
        for name in ["store.db", "a ?mode=ro&x=%20#'é.db"] {
            let (folder, path) = snapshot(name, sidecars);
            let before = listing(path.parent().unwrap());
            for (with_wal, rows) in [(false, "100"), (true, "7")] {
                assert_eq!(ask(&thaw(&path, with_wal), COUNT), rows);
                // The same where nothing can be made beside it.
                let elsewhere = folder.path().join("read");
                let report = Helper::read_frozen(&path, with_wal, &elsewhere);
                assert!(report.starts_with("read "), "{report}");
                assert_eq!(ask(&fs::read(&elsewhere).unwrap(), COUNT), rows);
            }
            assert_eq!(listing(path.parent().unwrap()), before);
        }
    }
}

#[test]
fn what_lies_beside_a_file_that_is_the_state_alone_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live.db");
    let writer = make_store(&live, "delete", 100);
    let kept = folder.path().join("kept.db");
    copy(&live, &kept);
    // Somebody had begun to write when the snapshot was taken: there is a journal, and the file is untouched.
    writer.execute_batch("BEGIN; DELETE FROM t WHERE id > 7").unwrap();
    copy(&folder.path().join("live.db-journal"), &folder.path().join("kept.db-journal"));
    let before = listing(folder.path());
    assert!(thaw(&kept, false) == raw(&kept));
    assert_eq!(listing(folder.path()), before);
}

#[test]
fn a_snapshot_without_what_it_should_have() {
    let (_folder, path) = snapshot("store.db", &[]);
    let failed = read_frozen(&path, true, &false.into(), &mut Collector::default()).unwrap_err();
    let (problem, begun) = into_problem(failed);
    assert_eq!((problem.code, begun), (Code::StoreUnreadable, false));
    assert!(problem.detail.contains("WAL is missing"), "{problem}");

    // With the WAL of another store, which SQLite reads as an empty one, pages past the file's end are missed.
    let whole = raw(&path);
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let failed = read_frozen(&path, false, &false.into(), &mut Collector::default()).unwrap_err();
    assert_eq!(into_problem(failed).0.code, Code::StoreUnreadable);
    fs::remove_file(&path).unwrap();
    let failed = read_frozen(&path, false, &false.into(), &mut Collector::default()).unwrap_err();
    assert_eq!(into_problem(failed).0.code, Code::StoreMissing);
}

#[test]
fn reading_ends_where_the_sink_or_the_caller_ends_it() {
    let (_folder, path) = snapshot("store.db", &["-wal"]);
    for with_wal in [false, true] {
        let stopped = read_frozen(&path, with_wal, &true.into(), &mut Collector::default()).unwrap_err();
        assert_eq!(into_problem(stopped), (into_problem_of_stop(&path), false));
        let full = Problem::new(Code::StorageFull, "the archive is full", "add space");
        let mut failing = AtPage(|number| if number == 3 { Err(full.clone()) } else { Ok(()) });
        let failed = read_frozen(&path, with_wal, &false.into(), &mut failing).unwrap_err();
        assert_eq!(into_problem(failed), (full, true));
    }
}

fn into_problem_of_stop(path: &Path) -> Problem {
    Problem::from(asat_host::store::Error::Stopping { path: path.to_owned() })
}

#[test]
fn what_was_read_does_not_stay_in_the_page_cache() {
    // Not in memory, where nothing can be dropped.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("store.db");
    drop(make_store(&path, "delete", 200_000));
    let length = fs::metadata(&path).unwrap().len();
    assert!(length > 32 << 20, "{length}");
    assert!(Command::new("sync").arg(&path).status().unwrap().success());
    let cached = || -> u64 {
        let output = Command::new("fincore").args(["-bno", "RES"]).arg(&path).output();
        let output = output.expect("this test needs the program fincore (package util-linux-extra)");
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    };
    assert!(cached() > 0);
    let mut most = 0;
    let mut sink = AtPage(|number: u32| {
        if number % 2048 == 2047 {
            most = most.max(cached());
        }
        Ok(())
    });
    // The first read drops what was written, the second one what it has read itself.
    for _ in 0..2 {
        read_frozen(&path, false, &false.into(), &mut sink).unwrap();
        assert_eq!(cached(), 0);
    }
    assert_eq!(collect(&path).0.page_count, u32::try_from(length / 4096).unwrap());
}
