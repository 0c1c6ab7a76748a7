//! What is read is what was committed, page for page.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;

use asat_core::{PageSize, Problem};
use asat_host::store::{PageSink, read_pages};
use rusqlite::Connection;

use crate::common::{PATIENT, ask, collect, fill, make_store, raw};
use crate::helper::Helper;
use crate::transfers;

#[test]
fn every_page_size_in_every_journal_mode() {
    let folder = tempfile::tempdir().unwrap();
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536_u32] {
        for journal in ["delete", "truncate", "persist", "memory", "wal"] {
            for auto_vacuum in 0..3 {
                let path = folder.path().join(format!("{page_size}-{journal}-{auto_vacuum}.db"));
                let writer = Connection::open(&path).unwrap();
                let header = format!("PRAGMA page_size = {page_size}; PRAGMA auto_vacuum = {auto_vacuum};");
                writer.execute_batch(&header).unwrap();
                fill(&writer, journal, 300);
                writer.execute_batch("DELETE FROM t WHERE id % 3 = 0").unwrap();
                let asked_at = asat_host::clock::now();
                let (read, pages) = collect(&path);
                drop(writer);
                assert!(asked_at <= read.cut_at && read.cut_at <= asat_host::clock::now());
                assert_eq!(read.page_size.bytes(), page_size);
                assert_eq!(read.wal, journal == "wal");
                assert!(pages == raw(&path), "{}", path.display());
                assert_eq!(ask(&pages, "SELECT count(*) || '' FROM t"), "200");
                assert_eq!(ask(&pages, "PRAGMA journal_mode"), "delete");
                assert!(!read.wal || read.writer_blocked.is_zero());
                assert!(read.wal || !read.writer_blocked.is_zero());
            }
        }
    }
}

#[test]
fn encodings_and_reserved_bytes_make_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    for encoding in ["UTF-8", "UTF-16le", "UTF-16be"] {
        let path = folder.path().join(format!("{encoding} ?mode=ro&x=%20#'.db"));
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch(&format!("PRAGMA encoding = '{encoding}'")).unwrap();
        fill(&writer, "wal", 100);
        let (_, pages) = collect(&path);
        drop(writer);
        assert!(pages == raw(&path));
    }
}

#[test]
fn a_schema_that_would_execute_code_executes_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "wal", 10);
    writer
        .execute_batch(
            "CREATE VIEW v AS SELECT load_extension('/nowhere') FROM t;
             CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT load_extension('/nowhere'); END;
             CREATE INDEX e ON t (abs(id)); CREATE TABLE c (x DEFAULT (random()), y AS (abs(x)));
             PRAGMA writable_schema = on;
             INSERT INTO sqlite_schema VALUES
               ('table', 'ghost', 'ghost', 0, 'CREATE VIRTUAL TABLE ghost USING no_such_module(x)');
             INSERT INTO sqlite_schema VALUES
               ('view', 'sqlite_dbpages', 'sqlite_dbpages', 0, 'CREATE VIEW sqlite_dbpages AS SELECT 1');",
        )
        .unwrap();
    let (_, pages) = collect(&path);
    drop(writer);
    assert!(pages == raw(&path));
}

#[test]
fn a_store_that_shrinks_or_has_free_pages() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["delete", "wal"] {
        let path = folder.path().join(format!("{journal}.db"));
        let writer = make_store(&path, journal, 5000);
        let (whole, _) = collect(&path);
        writer.execute_batch("DELETE FROM t WHERE id > 50").unwrap();
        let (freed, pages) = collect(&path);
        assert_eq!(freed.page_count, whole.page_count);
        assert_eq!(ask(&pages, "SELECT count(*) || '' FROM t"), "50");
        writer.execute_batch("VACUUM").unwrap();
        let (shrunk, pages) = collect(&path);
        assert!(shrunk.page_count * 4 < whole.page_count);
        assert_eq!(ask(&pages, "SELECT count(*) || '' FROM t"), "50");
        drop(writer);
        assert!(pages == raw(&path));
    }
}

#[test]
fn what_is_not_committed_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["delete", "wal"] {
        let path = folder.path().join(format!("{journal}.db"));
        let writer = make_store(&path, journal, 10);
        let (_, before) = collect(&path);
        writer.execute_batch("BEGIN IMMEDIATE; DELETE FROM t").unwrap();
        assert!(collect(&path).1 == before);
        writer.execute_batch("COMMIT").unwrap();
        assert_eq!(ask(&collect(&path).1, "SELECT count(*) || '' FROM t"), "0");
    }
}

#[test]
fn each_read_is_one_committed_state_while_another_process_commits() {
    let folder = tempfile::tempdir().unwrap();
    for journal in ["delete", "truncate", "wal"] {
        let path = folder.path().join(format!("{journal}.db"));
        transfers::make(&path, journal, 1024);
        let writer = Helper::transfer(&path);
        let mut generations = std::collections::BTreeSet::new();
        // The writer may be slow to start or to get the lock: read until there were states enough.
        for _ in 0..500 {
            generations.insert(transfers::generation(&collect(&path).1));
            if generations.len() >= 8 {
                break;
            }
        }
        assert!(generations.len() >= 8, "{journal}: {generations:?}");
        drop(writer);
    }
}

#[test]
fn a_hot_journal_is_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "delete", 5000);
    let (_, before) = collect(&path);
    writer.execute_batch("PRAGMA cache_size = 5; BEGIN; UPDATE t SET text = id").unwrap();
    let crashed = folder.path().join("crashed.db");
    fs::copy(&path, &crashed).unwrap();
    fs::copy(folder.path().join("store.db-journal"), folder.path().join("crashed.db-journal")).unwrap();
    assert!(raw(&crashed) != before, "the crash left a half-written store");
    assert!(collect(&crashed).1 == before);
    assert!(!folder.path().join("crashed.db-journal").exists());
}

#[test]
fn a_wal_that_a_crash_left_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let writer = make_store(&path, "wal", 100);
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); DELETE FROM t WHERE id > 7").unwrap();
    let crashed = folder.path().join("crashed.db");
    fs::copy(&path, &crashed).unwrap();
    fs::copy(folder.path().join("store.db-wal"), folder.path().join("crashed.db-wal")).unwrap();
    assert_eq!(ask(&collect(&crashed).1, "SELECT count(*) || '' FROM t"), "7");
    assert!(!folder.path().join("crashed.db-wal").exists(), "nobody else has it open: it was checkpointed");
}

/// Compares pages with those of a file, without keeping them.
struct Compare {
    file: fs::File,
    page_size: u64,
    lock_page: u32,
    pages: u32,
}

impl PageSink for Compare {
    fn begin(&mut self, _: PageSize, page_count: u32) -> Result<(), Problem> {
        assert!(page_count > self.lock_page);
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        self.pages += 1;
        if number == self.lock_page {
            assert!(page.iter().all(|&byte| byte == 0));
        } else if number > self.lock_page - 3 {
            let mut expected = vec![0; page.len()];
            self.file.read_exact_at(&mut expected, u64::from(number - 1) * self.page_size).unwrap();
            assert!(page == expected, "page {number}");
        }
        Ok(())
    }
}

#[test]
fn the_page_of_the_lock_bytes_is_read_as_zeros() {
    // In memory where that is to be had: holes take no time to read there.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("store.db");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA page_size = 65536; CREATE TABLE t (x)").unwrap();
    drop(writer);
    // A sparse file of a little over 1 GiB, with something in its last pages.
    let (page_size, lock_page, page_count) = (65536_u64, 16385_u32, 16390_u32);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.set_len(page_size * u64::from(page_count)).unwrap();
    file.write_all_at(&page_count.to_be_bytes(), 28).unwrap();
    for number in lock_page - 2..=page_count {
        let text = format!("this is page {number}");
        file.write_all_at(text.as_bytes(), page_size * u64::from(number - 1)).unwrap();
    }
    let mut sink = Compare { file, page_size, lock_page, pages: 0 };
    let read = read_pages(&path, &PATIENT, &false.into(), &mut sink).unwrap();
    assert_eq!((read.page_count, sink.pages), (page_count, page_count));
}
