//! A store that can be audited: whatever copy of it turns up, it says by itself whether it is a committed state.
//!
//! Every commit moves money between accounts on many pages, and raises the generation in the book. The money
//! in the bank is always the same; a checksum in the book binds the balances to the generation. A copy that
//! mixes two commits fails the audit.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

use rusqlite::{Connection, OpenFlags};

use crate::common::{PATIENCE, World};

const ACCOUNTS: i64 = 64;
const MONEY: i64 = 64_000;

/// A source of repeatable chance (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    /// The seed of this run: that of the variable `SEED`, or a new one. Either way it is printed, so that a
    /// failure can be replayed.
    pub fn of_the_day() -> Self {
        let new = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = std::env::var("SEED").ok().map_or_else(new, |seed| seed.parse().unwrap());
        println!("replay with SEED={seed}");
        Self(seed)
    }

    /// A number from 0 to before `end`.
    pub fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % end as u64) as i64
    }
}

/// Opens the bank in the world's store, in a journal mode. `filler_kib` makes the file larger.
pub fn open(world: &World, journal_mode: &str, filler_kib: u64) -> Connection {
    let mut bank = world.sqlite();
    bank.pragma_update(None, "journal_mode", journal_mode).unwrap();
    bank.pragma_update(None, "synchronous", "off").unwrap();
    let schema = "create table book (generation integer not null, checksum integer not null);
         create table account (id integer primary key, balance integer not null, padding blob);
         create table filler (data blob);
         insert into book values (0, 0);";
    bank.execute_batch(schema).unwrap();
    let transaction = bank.transaction().unwrap();
    for id in 1..=ACCOUNTS {
        transaction.execute("insert into account values (?1, 1000, randomblob(900))", [id]).unwrap();
    }
    transaction.execute("update book set checksum = (select sum(id * balance) from account)", ()).unwrap();
    transaction.commit().unwrap();
    for _ in 0..filler_kib.div_ceil(64) {
        bank.execute_batch("insert into filler values (randomblob(65536))").unwrap();
    }
    bank
}

/// Moves money, and answers the generation that this commit made.
pub fn commit(bank: &mut Connection, dice: &mut Dice) -> i64 {
    let transaction = bank.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    for _ in 0..3 {
        let (from, to, sum) = (dice.below(ACCOUNTS) + 1, dice.below(ACCOUNTS) + 1, dice.below(100));
        let change = "update account set balance = balance + ?1 where id = ?2";
        transaction.prepare_cached(change).unwrap().execute((-sum, from)).unwrap();
        transaction.prepare_cached(change).unwrap().execute((sum, to)).unwrap();
    }
    let enter =
        "update book set generation = generation + 1, checksum = (select sum(id * balance) from account)
                 returning generation";
    let generation = transaction.prepare_cached(enter).unwrap().query_row((), |row| row.get(0)).unwrap();
    transaction.commit().unwrap();
    generation
}

/// Checks that a plain read-only file is a committed state of the bank, with a stock client's means; answers
/// its generation.
pub fn audit(path: &Path) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let copy = Connection::open_with_flags(path, flags).unwrap();
    let whole: String = copy.query_row("pragma integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok", "{}", path.display());
    let sums = "select (select sum(balance) from account), (select sum(id * balance) from account), checksum, generation from book";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let (money, checksum, entered, generation): (i64, i64, i64, i64) = copy.query_row(sums, (), row).unwrap();
    assert_eq!((money, checksum), (MONEY, entered), "{} mixes commits", path.display());
    generation
}

/// Audits the content of a download.
pub fn audit_bytes(world: &World, name: &str, content: &[u8]) -> i64 {
    let path = world.path(&format!("audited-{}", name.replace('@', "-")));
    std::fs::write(&path, content).unwrap();
    let generation = audit(&path);
    std::fs::remove_file(&path).unwrap();
    generation
}

/// The store's content as a version should have it: the pages as they are in its file, but in rollback mode.
pub fn content(store: &Path) -> Vec<u8> {
    let mut wal = store.as_os_str().to_owned();
    wal.push("-wal");
    assert!(std::fs::metadata(wal).map_or(0, |wal| wal.len()) == 0, "the application has closed the store");
    let mut content = std::fs::read(store).unwrap();
    content[18..20].fill(1);
    content
}

/// A writer that commits as fast as it can until it is told to stop.
pub struct Writer {
    committed: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(mut bank: Connection, mut dice: Dice) -> Self {
        bank.busy_timeout(PATIENCE).unwrap();
        let (committed, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let (tell, told) = (Arc::clone(&committed), Arc::clone(&stop));
        let write = move || {
            while !told.load(Ordering::SeqCst) {
                tell.store(commit(&mut bank, &mut dice), Ordering::SeqCst);
            }
        };
        Self { committed, stop, thread: Some(std::thread::spawn(write)) }
    }

    /// The newest generation that is surely committed. One more may be.
    pub fn committed(&self) -> i64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Ends the writer. That it never met an error is part of the test.
    pub fn stop(mut self) -> i64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().expect("the store's writer was disturbed");
        self.committed()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A test that failed must not leave a writer behind on a folder that is being removed.
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}
