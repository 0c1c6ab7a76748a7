//! Stores whose sums stay the same in every committed state, and copies taken by another process.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use asat_host::store::read_frozen;
use rusqlite::Connection;

use crate::common::{Collector, ask, fill};

/// A store for [`crate::helper::TRANSFER`].
pub(crate) fn make(path: &Path, journal: &str, page_size: u32) {
    let writer = Connection::open(path).unwrap();
    let header = format!("PRAGMA page_size = {page_size}; PRAGMA auto_vacuum = incremental");
    writer.execute_batch(&header).unwrap();
    fill(&writer, journal, 600);
    writer
        .execute_batch(
            "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (id INTEGER PRIMARY KEY, v);
             CREATE TABLE filling (x); CREATE TABLE generation (g); CREATE TABLE echo (g);
             INSERT INTO a SELECT id, 1000 FROM t; INSERT INTO b SELECT id, 1000 FROM t;
             INSERT INTO generation VALUES (0); INSERT INTO echo VALUES (0);",
        )
        .unwrap();
}

/// The generation of a state, having checked that the state is a committed one.
pub(crate) fn generation(pages: &[u8]) -> i64 {
    let state = ask(
        pages,
        "SELECT ((SELECT sum(v) FROM a) + (SELECT sum(v) FROM b)) || ' ' || g FROM echo JOIN generation USING (g)",
    );
    let (sum, generation) = state.split_once(' ').unwrap();
    assert_eq!(sum, "1200000");
    generation.parse().unwrap()
}

/// What a live store's generation is.
pub(crate) fn live(connection: &Connection) -> i64 {
    connection.query_row("SELECT g FROM generation", [], |row| row.get(0)).unwrap()
}

/// Copies a file part by part, calling `between` after each. A process of its own does it, as a snapshot would: this
/// process would lose its locks.
pub(crate) fn copy_slowly(from: &Path, to: &Path, parts: u64, mut between: impl FnMut()) {
    let length = std::fs::metadata(from).unwrap().len();
    let size = length.div_ceil(parts);
    for part in 0..parts {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", from.display())).arg(format!("of={}", to.display()));
        command.args(["conv=notrunc", "status=none", "count=1"]).arg(format!("bs={size}"));
        assert!(command.arg(format!("skip={part}")).arg(format!("seek={part}")).status().unwrap().success());
        between();
    }
}

/// Copies a file in one go, by a process of its own.
pub(crate) fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// Reads a copy as if it lay in a snapshot.
pub(crate) fn thaw(file: &Path, with_wal: bool) -> Vec<u8> {
    let mut sink = Collector::default();
    let read = read_frozen(file, with_wal, &AtomicBool::new(false), &mut sink).unwrap();
    assert_eq!(sink.announced, Some((read.page_size, read.page_count)));
    sink.bytes
}
