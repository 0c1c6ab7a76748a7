//! Random histories: connections come and go and do all that SQLite lets them do, and after each publication what was read is
//! held against the whole store. `HISTORIES=n` says how many there are, and `HISTORIES_FROM=n` is the seed of the first.

use std::fs;
use std::path::{Path, PathBuf};

use asat_host::store::Tracker;
use rusqlite::Connection;

use super::{AMPLE, Mirror, folder, tick};
use crate::common::collect;

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

struct History {
    dice: Dice,
    path: PathBuf,
    connections: Vec<Connection>,
    tracker: Tracker,
    mirror: Mirror,
    tokens: Vec<u64>,
    bound: u64,
    page_size: u64,
    /// What happened, for who reads of a failure.
    told: Vec<String>,
    /// Publications of which it was known what changed, and the others.
    known: u32,
    whole: u32,
}

impl History {
    fn new(seed: u64, folder: &Path) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let path = folder.join(format!("{seed}.db"));
        let first = Connection::open(&path).unwrap();
        let page_size = [512, 1024, 4096][usize::try_from(dice.below(3)).unwrap()];
        let vacuum = dice.below(3);
        first
            .execute_batch(&format!(
                "pragma page_size = {page_size}; pragma auto_vacuum = {vacuum}; pragma journal_mode = wal;
                 create table t (id integer primary key, v); create table u (k text primary key, v) without rowid;
                 with recursive n(i) as (select 1 union all select i + 1 from n where i < 60)
                 insert into t select i, randomblob(300) from n"
            ))
            .unwrap();
        let bound = [AMPLE, 60_000, 200_000][usize::try_from(dice.below(3)).unwrap()];
        let tracker = tracker(&path, &mut dice);
        let mut history = Self {
            dice,
            path,
            connections: vec![first],
            tracker,
            mirror: Mirror::default(),
            tokens: Vec::new(),
            bound,
            page_size,
            told: Vec::new(),
            known: 0,
            whole: 0,
        };
        history.tune(0);
        history
    }

    fn tune(&mut self, nth: usize) {
        let autocheckpoint = [0, 5, 20, 1000][usize::try_from(self.dice.below(4)).unwrap()];
        let cache = [1, 2000][usize::try_from(self.dice.below(2)).unwrap()];
        // Where a WAL that begins anew is cut: not at all, soon, within a frame, and after a frame.
        let after_a_frame = 32 + (10 + self.dice.below(60)) * (24 + self.page_size);
        let limits = ["-1", "0", "45000", &after_a_frame.to_string()].map(str::to_owned);
        let limit = &limits[usize::try_from(self.dice.below(4)).unwrap()];
        let sql = format!(
            "pragma busy_timeout = 0; pragma synchronous = off; pragma wal_autocheckpoint = {autocheckpoint};
             pragma cache_size = {cache}; pragma journal_size_limit = {limit}"
        );
        let _ = self.connections[nth].execute_batch(&sql);
    }

    /// Executes something on some connection. It may fail, as where somebody else has a lock.
    fn sql(&mut self, sql: &str) {
        if self.connections.is_empty() {
            return self.open();
        }
        let nth = usize::try_from(self.dice.below(self.connections.len() as u64)).unwrap();
        let done = self.connections[nth].execute_batch(sql);
        self.told.push(format!("{nth}: {sql} {}", if done.is_ok() { "" } else { "(refused)" }));
    }

    fn open(&mut self) {
        self.connections.push(Connection::open(&self.path).unwrap());
        self.told.push("open".to_owned());
        self.tune(self.connections.len() - 1);
    }

    fn close_all(&mut self) {
        self.connections.clear();
        self.told.push("close all".to_owned());
    }

    /// Puts other bytes where the store is, in place or by another file.
    fn replace(&mut self) {
        self.close_all();
        if fs::metadata(beside(&self.path, "-wal")).is_ok_and(|wal| wal.len() > 0) {
            // Its frames would count for the other file: nobody can do that.
            let only = Connection::open(&self.path).unwrap();
            only.busy_timeout(std::time::Duration::ZERO).unwrap();
            let _ = only.execute_batch("pragma wal_checkpoint(truncate)");
            drop(only);
            if fs::metadata(beside(&self.path, "-wal")).is_ok_and(|wal| wal.len() > 0) {
                return;
            }
        }
        let other = self.path.with_extension("other");
        let _ = fs::remove_file(&other);
        let copy = Connection::open(&self.path).unwrap();
        copy.execute("vacuum into ?1", [other.to_str()]).unwrap();
        drop(copy);
        let copy = Connection::open(&other).unwrap();
        copy.execute_batch("update t set v = randomblob(300) where id % 7 = 1; pragma journal_mode = wal")
            .unwrap();
        drop(copy);
        // No time is that of the last write.
        self.wait_for_time();
        // A checkpoint writes the file as well: it is seen before anything else is.
        (0..2).for_each(|_| tick(&mut self.tracker));
        // A mark that is let go is looked at later.
        if self.bound != AMPLE || self.dice.one_in(2) {
            fs::rename(&other, &self.path).unwrap();
            self.told.push("another file".to_owned());
        } else {
            fs::copy(&other, &self.path).unwrap();
            self.told.push("copied over".to_owned());
            self.publish();
        }
    }

    /// Waits until the clock of files has moved.
    fn wait_for_time(&self) {
        let (probe, modified) = (self.path.with_extension("probe"), |path: &Path| {
            fs::metadata(path).unwrap().modified().unwrap()
        });
        let since = modified(&self.path);
        loop {
            fs::write(&probe, b"").unwrap();
            if modified(&probe) > since {
                return;
            }
        }
    }

    fn publish(&mut self) {
        // An earlier version may be the newest that was kept.
        let back = if self.dice.one_in(6) { 2 } else { 1 };
        let since = self.tokens.len().checked_sub(back).map(|nth| self.tokens[nth]);
        let audit = self.dice.one_in(8);
        let (_, followed) = self.mirror.read(&mut self.tracker, self.bound, since, audit);
        self.told.push(format!("publish since {since:?}: {followed:?}"));
        let truth = collect(&self.path).1;
        assert!(truth == self.mirror.pages.concat(), "a page was missed: {:#?}", self.told);
        match followed.token {
            Some(token) => self.tokens.push(token),
            None => self.tokens.clear(),
        }
        if followed.whole.is_some() { self.whole += 1 } else { self.known += 1 }
    }

    fn step(&mut self) {
        let id = self.dice.below(80);
        match self.dice.below(30) {
            0..4 => self.sql(&format!("update t set v = randomblob({}) where id = {id}", 100 + 37 * id)),
            4..6 => self.sql("insert into t (v) values (randomblob(700))"),
            6 => self.sql(&format!("insert or replace into u values ('{id}', randomblob(200))")),
            7 => self.sql(&format!("delete from t where id % 5 = {}", id % 5)),
            8 => self.sql(
                "insert into t (v) select randomblob(900) from
                 (with recursive n(i) as (select 1 union all select i + 1 from n where i < 40) select i from n)",
            ),
            9 => self.sql("begin; update t set v = randomblob(400); rollback"),
            10 => self.sql("vacuum"),
            11 => self.sql("pragma incremental_vacuum(3)"),
            12 => self.sql("pragma wal_checkpoint(passive)"),
            13 => self.sql("pragma wal_checkpoint(full)"),
            14 => self.sql("pragma wal_checkpoint(restart)"),
            15 => self.sql("pragma wal_checkpoint(truncate)"),
            16 => self.sql("begin; select count(*) from t"),
            17 => self.sql("commit"),
            18 => self.sql(&format!("create table if not exists x{id} (a); insert into x{id} values (1)")),
            19 => self.sql(&format!("drop table if exists x{id}")),
            20 => self.open(),
            21 if self.connections.len() > 1 => drop(self.connections.pop()),
            21 => self.close_all(),
            22 if self.dice.one_in(3) => {
                self.sql("pragma journal_mode = delete");
                self.sql("update t set v = 5 where id = 3");
                self.sql("pragma journal_mode = wal");
            }
            23 if self.dice.one_in(4) => self.replace(),
            24 if self.dice.one_in(4) => {
                self.close_all();
                // In one process, SQLite goes on with the wal-index of a store that is still open.
                self.tracker = tracker(&self.path, &mut self.dice);
                self.tokens.clear();
                let _ = fs::remove_file(beside(&self.path, "-wal"));
                let _ = fs::remove_file(beside(&self.path, "-shm"));
                self.told.push("the WAL is deleted".to_owned());
            }
            25 if self.dice.one_in(6) => {
                self.tracker = tracker(&self.path, &mut self.dice);
                self.tokens.clear();
                self.told.push("the tracker is another one".to_owned());
            }
            26 if self.dice.one_in(12) => {
                // It may close the store, if what it does is told from what others do later by the times of files.
                let settled = std::time::Instant::now() + std::time::Duration::from_millis(30);
                while std::time::Instant::now() < settled {
                    tick(&mut self.tracker);
                }
                self.told.push("time".to_owned());
            }
            26..28 => {
                tick(&mut self.tracker);
                self.told.push("tick".to_owned());
            }
            _ => self.publish(),
        }
    }
}

fn tracker(path: &Path, dice: &mut Dice) -> Tracker {
    let tracker = Tracker::new(path);
    if dice.one_in(2) { tracker } else { tracker.stay_open() }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn whatever_happens_no_page_is_missed() {
    let from = number("HISTORIES_FROM", 1);
    let (mut known, mut whole) = (0, 0);
    for seed in from..from + number("HISTORIES", 2000) {
        let folder = folder();
        let mut history = History::new(seed, folder.path());
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            history.publish();
            (0..history.dice.below(40)).for_each(|_| history.step());
            history.publish();
        }));
        assert!(failed.is_ok(), "HISTORIES_FROM={seed}: {:#?}", history.told);
        known += history.known;
        whole += history.whole;
    }
    assert!(known > whole / 4, "{known} were known, and {whole} read whole");
}
