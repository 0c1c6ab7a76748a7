//! The workload of 2014: a book of valuations, in which each run values every investment anew.
//!
//! A run is one transaction: for every investment, in no order, it ends the validity of the previous valuation
//! and adds the new one. Each row has 24 bytes of data. New rows go to the table's end, and so do the ended ones of
//! the run before; but the index by which a previous valuation is found has each investment in another place, so
//! that a run touches nearly all of its pages. After 95 runs of 10,000 rows the store has 49 MB, and its versions
//! differ in 721 MB of pages in all.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;

use super::args::JournalMode;
use super::failed;
use super::statistics::ms_since;

const SCHEMA: &str = "
    create table valuation (
        id integer primary key,
        investment integer not null,
        units integer not null,
        value real not null,
        valid_from integer not null,
        valid_to integer not null
    );
    create index valuation_of_investment on valuation (investment);";
const END_PREVIOUS: &str = "update valuation set valid_to = ?2
    where id = (select max(id) from valuation where investment = ?1)";
const ADD: &str = "insert into valuation (investment, units, value, valid_from, valid_to)
    values (?1, ?2, ?3, ?4, 99991231)";
const TOTALS: &str =
    "select count(*), sum(units), sum(valid_to), sum(cast(value * 1000 as integer)) from valuation";
const LOOK_UP: &str = "select value from valuation where investment = ?1 order by id desc limit 1";

/// A store with the book.
pub(super) struct Book {
    connection: Connection,
}

/// What a report would say of the whole book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    rows: i64,
    units: i64,
    valid_to: i64,
    value_thousandths: i64,
}

/// A run's rows, made before the clock starts.
pub(super) struct Run {
    day: i64,
    rows: Vec<(i64, i64, f64)>,
}

impl Run {
    /// The `number`th run over `count` investments, the same whenever it is made.
    pub(super) fn new(number: u32, count: u32) -> Self {
        let mut random = Random(u64::from(number));
        let mut rows: Vec<_> = (1..=i64::from(count))
            .map(|n| {
                let units = (1 << 23) + random.below((1 << 31) - (1 << 23));
                (
                    investment(n),
                    units,
                    f64::from(u32::try_from(random.below(1 << 32)).unwrap_or(0)) / 4_294_967.296,
                )
            })
            .collect();
        for last in (1..rows.len()).rev() {
            let other = usize::try_from(random.below(i64::try_from(last).unwrap_or(0) + 1)).unwrap_or(0);
            rows.swap(last, other);
        }
        Self { day: 20_140_101 + i64::from(number), rows }
    }
}

impl Book {
    /// Makes a store with an empty book.
    pub(super) fn create(path: &Path, mode: JournalMode) -> Result<Self, Problem> {
        let made = Connection::open(path).and_then(|connection| {
            connection.pragma_update(None, "page_size", 4096)?;
            connection.pragma_update(None, "journal_mode", mode.text())?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.busy_timeout(Duration::from_secs(60))?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        });
        Ok(Self { connection: made.map_err(|error| failed("make a store", error))? })
    }

    /// Opens a store with a book.
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let opened =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|connection| {
                connection.busy_timeout(Duration::from_secs(60))?;
                Ok(connection)
            });
        Ok(Self { connection: opened.map_err(|error| failed("open a store", error))? })
    }

    /// Commits a run; answers how many milliseconds that took.
    pub(super) fn value_anew(&mut self, run: &Run) -> Result<f64, Problem> {
        let since = Instant::now();
        let committed = self.connection.transaction().and_then(|transaction| {
            {
                let mut end_previous = transaction.prepare_cached(END_PREVIOUS)?;
                let mut add = transaction.prepare_cached(ADD)?;
                for (investment, units, value) in &run.rows {
                    end_previous.execute(params![investment, run.day])?;
                    add.execute(params![investment, units, value, run.day])?;
                }
            }
            transaction.commit()
        });
        committed.map_err(|error| failed("commit a run", error))?;
        Ok(ms_since(since))
    }

    /// Commits one new valuation; answers how many milliseconds that took.
    pub(super) fn value_one(&mut self, nth: i64) -> Result<f64, Problem> {
        self.value_anew(&Run { day: 20_140_101, rows: vec![(investment(nth), 1 << 30, 0.5)] })
    }

    /// How long it is, wherever its pages are.
    pub(super) fn bytes(&self) -> Result<u64, Problem> {
        let bytes = self.connection.query_row(
            "select page_count * page_size from pragma_page_count, pragma_page_size",
            [],
            |row| row.get::<_, i64>(0),
        );
        bytes.map(|bytes| u64::try_from(bytes).unwrap_or(0)).map_err(|error| failed("read a store", error))
    }

    /// What a report would say of it.
    pub(super) fn totals(&self) -> Result<Totals, Problem> {
        totals(&self.connection)
    }
}

/// Opens an as-at copy as any reader would.
pub(super) fn open_copy(uri: &str) -> Result<Connection, Problem> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).map_err(|error| failed("open a copy", error))
}

/// Reads the whole table.
pub(super) fn totals(connection: &Connection) -> Result<Totals, Problem> {
    let read = connection.query_row(TOTALS, [], |row| {
        let (rows, units) = (row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0));
        let (valid_to, value) = (row.get::<_, Option<i64>>(2)?, row.get::<_, Option<i64>>(3)?);
        let (valid_to, value_thousandths) = (valid_to.unwrap_or(0), value.unwrap_or(0));
        Ok(Totals { rows, units, valid_to, value_thousandths })
    });
    read.map_err(|error| failed("read a store", error))
}

/// Looks one valuation up.
pub(super) fn look_up(connection: &Connection) -> Result<f64, Problem> {
    look_up_of(connection, 1)
}

/// Looks up how the `nth` investment is valued.
pub(super) fn look_up_of(connection: &Connection, nth: i64) -> Result<f64, Problem> {
    let found = connection
        .prepare_cached(LOOK_UP)
        .and_then(|mut statement| statement.query_row([investment(nth)], |row| row.get(0)));
    found.map_err(|error| failed("ask a copy", error))
}

/// The same question as a text.
pub(super) fn look_up_text(nth: i64) -> String {
    LOOK_UP.replace("?1", &investment(nth).to_string())
}

/// The number that an investment is known by; every one takes four bytes.
fn investment(nth: i64) -> i64 {
    10_000_000 + nth * 7
}

/// Counts the pages in which a store differs from what it was when they were last counted.
#[derive(Default)]
pub(super) struct ChangedPages {
    hashes: Vec<u64>,
}

impl ChangedPages {
    /// Their bytes, and those of all pages.
    pub(super) fn count(&mut self, path: &Path) -> Result<(u64, u64), Problem> {
        let cannot = |error: rusqlite::Error| failed("compare pages", error);
        let connection = Connection::open(path).map_err(cannot)?;
        let mut statement = connection.prepare("select data from sqlite_dbpage").map_err(cannot)?;
        let mut rows = statement.query([]).map_err(cannot)?;
        let (mut nth, mut changed, mut all) = (0, 0, 0);
        while let Some(row) = rows.next().map_err(cannot)? {
            let page = row.get_ref(0).map_err(cannot)?.as_blob().map_err(|error| cannot(error.into()))?;
            let mut hasher = DefaultHasher::new();
            hasher.write(page);
            let (hash, bytes) = (hasher.finish(), u64::try_from(page.len()).unwrap_or(0));
            match self.hashes.get_mut(nth) {
                Some(known) if *known == hash => {}
                Some(known) => (*known, changed) = (hash, changed + bytes),
                None => {
                    self.hashes.push(hash);
                    changed += bytes;
                }
            }
            (nth, all) = (nth + 1, all + bytes);
        }
        Ok((changed, all))
    }
}

/// Numbers that look random and are the same in every run (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number from zero to below `bound`, which is small beside 2^63.
    pub(super) fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        i64::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap_or(0) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_values_every_investment_once_and_ends_the_previous_valuations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.db");
        let mut book = Book::create(&path, JournalMode::Wal).unwrap();
        let mut changed = ChangedPages::default();
        assert_eq!(changed.count(&path).unwrap(), (3 * 4096, 3 * 4096));
        for number in 1..=3 {
            book.value_anew(&Run::new(number, 500)).unwrap();
        }
        let totals = book.totals().unwrap();
        assert_eq!(totals.rows, 1500);
        assert_eq!(totals.valid_to, 500 * (99_991_231 + 20_140_104 + 20_140_103));
        assert!(changed.count(&path).unwrap().0 > 0);
        assert_eq!(changed.count(&path).unwrap().0, 0);
        let copy = open_copy(&format!("file:{}?mode=ro", path.display())).unwrap();
        assert_eq!(super::totals(&copy).unwrap(), totals);
        assert!(look_up(&copy).unwrap() >= 0.0);
    }
}
