//! The ways in which a version is read, each one timed on a plain file and in the tree in turns.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use asat_core::Problem;
use rusqlite::Connection;

use super::site::{Shelf, forget};
use crate::statistics::{Paired, ms_since};
use crate::workload::{Random, Totals, look_up_of, look_up_text, open_copy, totals};
use crate::{differs, tools};

/// How many look-ups are timed together in one connection.
const LOOK_UPS: i64 = 1000;
/// How many of them where nothing is kept yet.
const COLD_LOOK_UPS: i64 = 100;
/// How many new connections are timed together.
const CONNECTIONS: i64 = 20;

/// A file and its plain twin.
pub(super) struct Pair<'a> {
    pub(super) shelf: &'a Shelf,
    pub(super) plain: PathBuf,
    pub(super) tree: PathBuf,
    pub(super) rows: u32,
    pub(super) expected: &'a Totals,
}

/// Reads a file in one way; answers the milliseconds that it took, and what was found, which must be the same in both.
type Once = fn(&Pair<'_>, &Path, round: u32) -> Result<(f64, String), Problem>;

/// A way of reading.
pub(super) struct Way {
    pub(super) name: &'static str,
    /// How many times slower than a plain file it may be, where that is promised.
    pub(super) at_most: Option<f64>,
    /// Whether the kernel keeps all of either file, or nothing.
    warm: bool,
    rounds: u32,
    once: Once,
}

const fn way(name: &'static str, at_most: Option<f64>, warm: bool, rounds: u32, once: Once) -> Way {
    Way { name, at_most, warm, rounds, once }
}

/// All of them; opening the file is part of each, as it is for somebody who is not the first.
pub(super) const ALL: [Way; 6] = [
    way("warm scan", Some(1.15), true, 21, scan),
    way("warm look-ups, one connection", Some(1.15), true, 21, look_ups),
    way("warm look-ups, a process each", Some(1.15), true, 101, process),
    way("warm look-ups, a connection each", None, true, 21, connections),
    way("cold scan", Some(1.5), false, 21, scan),
    way("cold look-ups", Some(1.5), false, 21, cold_look_ups),
];

impl Pair<'_> {
    /// Times a way in rounds, in which the plain file comes first in turns.
    pub(super) fn measure(&self, way: &Way) -> Result<Paired, Problem> {
        // Once without a clock, so that both are warm, and the version stays open: how long opening it takes for the first
        // time is a figure of its own.
        let (plain, tree) = (&self.plain, &self.tree);
        scan(self, plain, 0)?;
        let _open = connect(tree)?;
        scan(self, tree, 0)?;
        let mut pairs = Vec::new();
        for round in 0..way.rounds {
            let (plain, tree) = if round % 2 == 0 {
                let plain = self.timed(way, plain, round)?;
                (plain, self.timed(way, tree, round)?)
            } else {
                let tree = self.timed(way, tree, round)?;
                (self.timed(way, plain, round)?, tree)
            };
            if plain.1 != tree.1 {
                return Err(differs(format!("the plain file has {}, the tree {}", plain.1, tree.1)));
            }
            pairs.push((plain.0, tree.0));
        }
        Ok(Paired::of(&pairs))
    }

    fn timed(&self, way: &Way, path: &Path, round: u32) -> Result<(f64, String), Problem> {
        if !way.warm {
            [&self.plain, &self.tree].into_iter().try_for_each(|path| forget(path))?;
            self.shelf.forget_archive()?;
        }
        (way.once)(self, path, round)
    }

    /// The investments that a round looks up.
    fn investments(&self, round: u32, count: i64) -> impl Iterator<Item = i64> + use<> {
        let (mut random, rows) = (Random(u64::from(round) + 1), i64::from(self.rows));
        (0..count).map(move |_| 1 + random.below(rows))
    }
}

/// The first query on a file, with its opening; answers the milliseconds.
pub(super) fn first_query(path: &Path, rows: u32) -> Result<f64, Problem> {
    let since = Instant::now();
    look_up_of(&connect(path)?, i64::from(rows))?;
    Ok(ms_since(since))
}

fn connect(path: &Path) -> Result<Connection, Problem> {
    open_copy(&format!("file:{}", path.display()))
}

fn scan(pair: &Pair<'_>, path: &Path, _: u32) -> Result<(f64, String), Problem> {
    let since = Instant::now();
    let connection = connect(path)?;
    let found = totals(&connection)?;
    let took_ms = ms_since(since);
    if found != *pair.expected {
        let what = format!("{} has {found:?}, not {:?}", path.display(), pair.expected);
        return Err(differs(what));
    }
    Ok((took_ms, String::new()))
}

fn look_ups(pair: &Pair<'_>, path: &Path, round: u32) -> Result<(f64, String), Problem> {
    look_up_many(path, pair.investments(round, LOOK_UPS))
}

fn cold_look_ups(pair: &Pair<'_>, path: &Path, round: u32) -> Result<(f64, String), Problem> {
    look_up_many(path, pair.investments(round, COLD_LOOK_UPS))
}

fn look_up_many(path: &Path, investments: impl Iterator<Item = i64>) -> Result<(f64, String), Problem> {
    let since = Instant::now();
    let connection = connect(path)?;
    let mut sum = 0.0;
    for investment in investments {
        sum += look_up_of(&connection, investment)?;
    }
    Ok((ms_since(since), sum.to_string()))
}

fn connections(pair: &Pair<'_>, path: &Path, round: u32) -> Result<(f64, String), Problem> {
    let since = Instant::now();
    let mut sum = 0.0;
    for investment in pair.investments(round, CONNECTIONS) {
        sum += look_up_of(&connect(path)?, investment)?;
    }
    Ok((ms_since(since), sum.to_string()))
}

fn process(pair: &Pair<'_>, path: &Path, round: u32) -> Result<(f64, String), Problem> {
    let investment = pair.investments(round, 1).next().unwrap_or(1);
    let question = look_up_text(investment);
    let arguments = [OsStr::new("-readonly"), path.as_os_str(), OsStr::new(&question)];
    let since = Instant::now();
    let found = tools::run("sqlite3", &arguments)?;
    Ok((ms_since(since), found))
}
