//! A store whose content follows from one number: how many transactions it has seen.
//!
//! Transaction n does what n says and nothing else. So a copy that turns up anywhere says by itself which transaction was
//! its last, and is either exactly the state after that one or wrong.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

const ACCOUNTS: u64 = 64;
/// How many of the newest entries stay.
const ENTRIES: u64 = 150;
/// The money of all accounts, always.
const MONEY: i64 = 64_000;
/// Rows that no transaction touches, so that a version is more than a moment's reading.
const FILLER: u64 = 512;

/// Makes the store, as it is before its first transaction.
pub fn create(path: &Path, journal: &str) -> Connection {
    let mut store = connect(path);
    set_journal(&store, journal);
    let schema = "create table book (seq integer not null);
         create table account (id integer primary key, balance integer not null, touched integer, padding blob);
         create table entry (seq integer primary key, note blob);
         create index note_of_entry on entry (substr(note, 1, 8));
         create table filler (data blob);
         insert into book values (0);";
    store.execute_batch(schema).unwrap();
    let transaction = store.transaction().unwrap();
    for id in 0..ACCOUNTS {
        let row = params![id as i64, MONEY / ACCOUNTS as i64, padding(0, id)];
        transaction.execute("insert into account values (?1, ?2, 0, ?3)", row).unwrap();
    }
    for row in 0..FILLER {
        transaction.execute("insert into filler values (?1)", [noise(row, 3000)]).unwrap();
    }
    transaction.commit().unwrap();
    store
}

/// A connection of the store's application. It is patient: a lock that nobody gives back is found all the same.
pub fn connect(path: &Path) -> Connection {
    let store = Connection::open(path).unwrap();
    store.busy_timeout(crate::common::PATIENCE).unwrap();
    store.set_prepared_statement_cache_capacity(32);
    store
}

pub fn set_journal(store: &Connection, journal: &str) {
    let set: String =
        store.query_row(&format!("pragma journal_mode = {journal}"), (), |row| row.get(0)).unwrap();
    assert_eq!(set, journal);
}

/// How many transactions the store has seen.
pub fn seq(store: &Connection) -> u64 {
    store.query_row("select seq from book", (), |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// Performs the transaction of this number; an error leaves the store as it was.
pub fn commit(store: &mut Connection, seq: u64) -> rusqlite::Result<()> {
    let transaction = store.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (id, change) in transfers(seq) {
        let sql = "update account set balance = balance + ?1, touched = ?2, padding = ?3 where id = ?4";
        let row = params![change, seq as i64, padding(seq, id), id as i64];
        transaction.prepare_cached(sql)?.execute(row)?;
    }
    transaction
        .prepare_cached("insert into entry values (?1, ?2)")?
        .execute(params![seq as i64, note(seq)])?;
    transaction
        .prepare_cached("delete from entry where seq <= ?1")?
        .execute([seq as i64 - ENTRIES as i64])?;
    transaction.prepare_cached("update book set seq = ?1")?.execute([seq as i64])?;
    transaction.commit()
}

/// The state after a number of transactions, row by row.
pub struct Model {
    pub seq: u64,
    balances: [i64; ACCOUNTS as usize],
    touched: [u64; ACCOUNTS as usize],
}

impl Model {
    pub fn new() -> Self {
        Self {
            seq: 0,
            balances: [MONEY / ACCOUNTS as i64; ACCOUNTS as usize],
            touched: [0; ACCOUNTS as usize],
        }
    }

    pub fn at(seq: u64) -> Self {
        let mut model = Self::new();
        for next in 1..=seq {
            for (id, change) in transfers(next) {
                model.balances[id as usize] += change;
                model.touched[id as usize] = next;
            }
        }
        Self { seq, ..model }
    }

    /// Checks that a plain read-only file is exactly this state, with a stock client's means.
    pub fn check(&self, copy: &Connection) {
        assert_eq!(seq(copy), self.seq);
        let mut accounts =
            copy.prepare("select id, balance, touched, padding from account order by id").unwrap();
        let mut rows = accounts.query(()).unwrap();
        for id in 0..ACCOUNTS {
            let row = rows.next().unwrap().expect("an account is missing");
            let (balance, touched) = (self.balances[id as usize], self.touched[id as usize]);
            let found: (i64, i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
            assert_eq!(found, (id as i64, balance, touched as i64), "at transaction {}", self.seq);
            assert!(row.get_ref(3).unwrap().as_blob().unwrap() == padding(touched, id), "account {id}");
        }
        assert!(rows.next().unwrap().is_none());
        let mut entries = copy.prepare("select seq, note from entry order by seq").unwrap();
        let mut rows = entries.query(()).unwrap();
        for seq in self.seq.saturating_sub(ENTRIES) + 1..=self.seq {
            let row = rows.next().unwrap().expect("an entry is missing");
            assert_eq!(row.get::<_, i64>(0).unwrap() as u64, seq);
            assert!(row.get_ref(1).unwrap().as_blob().unwrap() == note(seq), "entry {seq}");
        }
        assert!(rows.next().unwrap().is_none());
    }
}

/// Opens a version as any client would, and checks it; answers which transaction was its last.
pub fn audit(path: &Path) -> u64 {
    audit_open(&Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap())
}

/// Checks that SQLite finds a database whole, and that it has the rows that it must have.
pub fn audit_open(copy: &Connection) -> u64 {
    let whole: String = copy.query_row("pragma integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok", "{:?}", copy.path());
    let seq = seq(copy);
    Model::at(seq).check(copy);
    seq
}

/// The accounts that a transaction changes, and by how much: as much is given as taken.
fn transfers(seq: u64) -> [(u64, i64); 2] {
    let chance = mix(seq);
    let (from, sum) = (chance % ACCOUNTS, (chance >> 32) as i64 % 100);
    let to = (from + 1 + (chance >> 16) % (ACCOUNTS - 1)) % ACCOUNTS;
    [(from, -sum), (to, sum)]
}

fn padding(seq: u64, id: u64) -> Vec<u8> {
    noise(seq.wrapping_mul(ACCOUNTS).wrapping_add(id), 400)
}

/// Mostly a part of a page, at times more than one.
fn note(seq: u64) -> Vec<u8> {
    let chance = mix(!seq);
    noise(!seq, if chance.is_multiple_of(16) { 6000 } else { 40 + chance as usize % 900 })
}

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let words = (0..length.div_ceil(8) as u64).flat_map(|n| mix(seed.rotate_left(20) ^ n).to_le_bytes());
    words.take(length).collect()
}

/// A number that has nothing in common with its neighbours' (splitmix64).
pub fn mix(number: u64) -> u64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
