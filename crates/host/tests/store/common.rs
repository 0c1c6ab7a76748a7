//! What the tests share: a sink that collects, and stores to read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use asat_core::{Code, PageSize, Problem};
use asat_host::store::{CutError, Limits, PageSink, Read, read_pages};
use rusqlite::Connection;

use crate::own_locks::own_locks;

pub(crate) const PATIENT: Limits = Limits { busy: Duration::from_secs(20), hold: Duration::from_secs(20) };

/// Collects the pages, and checks that they come as promised.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) announced: Option<(PageSize, u32)>,
    pub(crate) hurried: bool,
    pub(crate) bytes: Vec<u8>,
    pub(crate) pages: u32,
}

impl PageSink for Collector {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        assert_eq!(self.announced.replace((page_size, page_count)), None);
        Ok(())
    }

    fn hurry(&mut self) -> Result<(), Problem> {
        assert_eq!((self.pages, self.hurried), (0, false));
        self.hurried = true;
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        let (page_size, page_count) = self.announced.unwrap();
        assert_eq!((number, page.len()), (self.pages + 1, page_size.as_usize()));
        assert!(number <= page_count);
        self.pages = number;
        self.bytes.extend_from_slice(page);
        Ok(())
    }
}

/// Calls a function at each page.
pub(crate) struct AtPage<F>(pub(crate) F);

impl<F: FnMut(u32) -> Result<(), Problem>> PageSink for AtPage<F> {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, number: u32, _: &[u8]) -> Result<(), Problem> {
        (self.0)(number)
    }
}

/// Reads a store whole.
pub(crate) fn collect(path: &Path) -> (Read, Vec<u8>) {
    let mut sink = Collector::default();
    let read = read_pages(path, &PATIENT, &AtomicBool::new(false), &mut sink).unwrap();
    assert_eq!(sink.announced, Some((read.page_size, read.page_count)));
    assert_eq!(sink.pages, read.page_count);
    assert_eq!(sink.hurried, !read.wal, "commits wait in the rollback modes");
    (read, sink.bytes)
}

/// Reads a store that cannot be read, and says why.
pub(crate) fn refusal(path: &Path, limits: &Limits) -> (Problem, bool) {
    let failed = read_pages(path, limits, &AtomicBool::new(false), &mut Collector::default());
    into_problem(failed.unwrap_err())
}

pub(crate) fn into_problem(failed: CutError) -> (Problem, bool) {
    let begun = failed.begun;
    let problem = Problem::from(failed.error);
    assert!(!problem.detail.is_empty());
    assert!(problem.code == Code::Internal || !problem.hint.is_empty(), "{problem:?}");
    (problem, begun)
}

/// A store's file as it is, with the file-format versions of rollback mode.
pub(crate) fn raw(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes[18..20].fill(1);
    bytes
}

/// Opens a copy as a stock client would, checks it, and asks it something.
pub(crate) fn ask(bytes: &[u8], sql: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    let uri = format!("file:{}?mode=ro", path.display());
    let copy = Connection::open_with_flags(
        uri,
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI,
    )
    .unwrap();
    let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    copy.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// A store with some tables, in the given journal mode. The connection that made it is still open.
pub(crate) fn make_store(path: &Path, journal: &str, rows: u32) -> Connection {
    let writer = Connection::open(path).unwrap();
    writer.busy_timeout(Duration::from_secs(20)).unwrap();
    fill(&writer, journal, rows);
    writer
}

pub(crate) fn fill(writer: &Connection, journal: &str, rows: u32) {
    writer.execute_batch(&format!("PRAGMA synchronous = off; PRAGMA journal_mode = {journal};")).unwrap();
    writer
        .execute_batch(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);
             CREATE INDEX t_text ON t (text);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO t SELECT i, hex(randomblob(60)) FROM n;"
        ))
        .unwrap();
}

/// The names, inodes and lengths of what is in a folder.
pub(crate) fn listing(folder: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        (entry.file_name().into(), (metadata.ino(), metadata.len()))
    });
    entries.collect()
}

/// Asserts that this process holds no lock on the store, and that a writer can write at once.
pub(crate) fn assert_free(path: &Path) {
    assert_eq!(own_locks(path), [""; 0]);
    let writer = Connection::open(path).unwrap();
    writer.busy_timeout(Duration::ZERO).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE free (x); DROP TABLE free; COMMIT").unwrap();
}
