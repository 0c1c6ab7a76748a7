//! What the pages of a version must be: the same transactions once more leave the same ones.

use std::path::Path;

use rusqlite::Connection;

use crate::lab_store::ledger;

/// What is to become of the header's bytes that are no content: the journal mode, and how often SQLite wrote the first
/// page. The replay of the same transactions writes that page as often, but not with a daemon's checkpoints.
const COUNTERS: [std::ops::Range<usize>; 3] = [18..20, 24..28, 92..100];

/// The same transactions once more, in a store of the same kind: its pages are what they must be.
pub struct Replay {
    store: Connection,
    seq: u64,
}

impl Replay {
    pub fn new(path: &Path, journal: &str) -> Self {
        let store = ledger::create(path, journal);
        store.execute_batch("pragma synchronous = off; pragma wal_autocheckpoint = 1000").unwrap();
        Self { store, seq: 0 }
    }

    pub fn set_journal(&self, journal: &str) {
        ledger::set_journal(&self.store, journal);
    }

    /// The pages after so many transactions. They are asked for in the order of time.
    pub fn pages_at(&mut self, seq: u64) -> Vec<u8> {
        for next in self.seq + 1..=seq {
            ledger::commit(&mut self.store, next).unwrap();
        }
        self.seq = self.seq.max(seq);
        assert_eq!(self.seq, seq, "a later version has an older state");
        pages(&self.store)
    }
}

/// The pages of a store as a read transaction sees them.
pub fn pages(store: &Connection) -> Vec<u8> {
    let mut select = store.prepare("select data from sqlite_dbpage order by pgno").unwrap();
    let mut rows = select.query(()).unwrap();
    let mut pages = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        pages.extend_from_slice(row.get_ref(0).unwrap().as_blob().unwrap());
    }
    pages
}

/// The pages without the counters that say nothing of the content.
pub fn content(mut pages: Vec<u8>) -> Vec<u8> {
    for range in COUNTERS {
        pages[range].fill(0);
    }
    pages
}
