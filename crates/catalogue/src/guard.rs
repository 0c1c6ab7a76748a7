//! The guard's log: written as things happen, read when somebody asks why.
//!
//! It is no part of the register. Nothing is decided by it, and only the newest rows are kept.

use asat_core::VersionId;
use asat_core::guard::{GuardEntry, Outcome, Target};
use rusqlite::{Row, params};

use crate::Catalogue;
use crate::error::Error;
use crate::read::{Fault, explain, name};
use crate::values::{At, Int, OnLadder, Text};

/// What a question to the log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// Everything.
    Anything,
    /// One version.
    Version(&'a VersionId),
    /// One target.
    Target(&'a Target),
}

impl Catalogue {
    /// How many rows of the guard's log are kept.
    pub const MOST_LOGGED: u64 = 100_000;

    /// Adds to the guard's log durably, in the order in which things happened, all or nothing. The oldest rows
    /// beyond [`Catalogue::MOST_LOGGED`] go.
    ///
    /// # Errors
    /// As [`Catalogue::record`]: nothing has changed then.
    pub fn log_guard(&mut self, entries: &[GuardEntry]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        match self.add_entries(entries) {
            Err(Error::Full { .. }) if self.reuse_log() => self.add_entries(entries),
            result => result,
        }
    }

    fn add_entries(&mut self, entries: &[GuardEntry]) -> Result<(), Error> {
        const ADD: &str =
            "insert into guard_log (at, target, store, version, rung, reason, outcome, failure, took_ms)
            values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        const SWEEP: &str = "delete from guard_log where number <= (select max(number) from guard_log) - ?1";
        self.transact("add to the guard's log in", |transaction| {
            for entry in entries {
                let (outcome, failure) = match &entry.outcome {
                    Outcome::Done => ("done", None),
                    Outcome::Failed(why) => ("failed", Some(why)),
                    Outcome::Stalled => ("stalled", None),
                };
                let version = entry.version.as_ref();
                let values = params![
                    At(entry.at),
                    Text(&entry.target),
                    version.map(|version| Text(&version.store)),
                    version.map(|version| Int(version.number)),
                    entry.rung.text(),
                    entry.reason,
                    outcome,
                    failure,
                    Int(entry.took_ms),
                ];
                transaction.prepare_cached(ADD)?.execute(values)?;
            }
            transaction.execute(SWEEP, [Int(Self::MOST_LOGGED)]).map(drop)
        })
    }

    /// The newest rows of the guard's log, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Row`], naming the row, where one cannot be read.
    pub fn guard_log(&self, about: About<'_>, limit: u32) -> Result<Vec<GuardEntry>, Error> {
        let refused = |error| Error::sqlite("read", &self.path, error);
        let (filter, values) = match about {
            About::Anything => ("?1 is null and ?2 is null", (None, None)),
            About::Version(id) => {
                ("store = ?1 and version = ?2", (Some(id.store.to_string()), Some(Int(id.number))))
            }
            About::Target(target) => ("target = ?1 and ?2 is null", (Some(target.to_string()), None)),
        };
        let sql = format!("select * from guard_log where {filter} order by number desc limit ?3");
        let mut statement = self.connection.prepare_cached(&sql).map_err(refused)?;
        let mut rows = statement.query(params![values.0, values.1, limit]).map_err(refused)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(refused)? {
            found.push(entry(row).map_err(|fault| Error::Row {
                path: self.path.clone(),
                table: "guard_log",
                row: name(row, 1),
                what: explain(row, fault),
            })?);
        }
        Ok(found)
    }
}

fn entry(row: &Row<'_>) -> Result<GuardEntry, Fault> {
    let store: Option<Text<asat_core::StoreName>> = row.get("store")?;
    let version = match store {
        Some(Text(store)) => Some(VersionId { store, number: row.get::<_, Int>("version")?.0 }),
        None => None,
    };
    let outcome = match row.get::<_, String>("outcome")?.as_str() {
        "done" => Outcome::Done,
        "failed" => Outcome::Failed(row.get("failure")?),
        "stalled" => Outcome::Stalled,
        other => return Err(Fault::Meaning(format!("{other:?} is no outcome"))),
    };
    Ok(GuardEntry {
        at: row.get::<_, At>("at")?.0,
        target: row.get::<_, Text<Target>>("target")?.0,
        version,
        rung: row.get::<_, OnLadder>("rung")?.0,
        reason: row.get("reason")?,
        outcome,
        took_ms: row.get::<_, Int>("took_ms")?.0,
    })
}
