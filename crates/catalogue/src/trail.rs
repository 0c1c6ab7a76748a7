//! The audit trail as it is read: in pages, and as a whole to see whether it is what was written.

use std::path::{Path, PathBuf};

use asat_core::By;
use asat_core::VersionId;
use asat_core::audit::{Action, Deed, Filter, Link, Page, Place, TrailEntry, Verdict};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use crate::audit::{beginning, head, link};
use crate::error::Error;
use crate::read::{Fault, explain, installation, name};
use crate::values::{At, Int, Json, Text};

/// How many entries are looked at in one transaction. A long one would keep the catalogue's log from being used again.
const AT_ONCE: u32 = 10_000;

/// The audit trail of a catalogue that somebody else may have open for writing. To read it holds nobody up.
#[derive(Debug)]
pub struct Trail {
    connection: Connection,
    path: PathBuf,
}

impl Trail {
    /// Opens the trail of a catalogue that is there.
    ///
    /// # Errors
    /// What SQLite answered.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { connection: crate::read_only(path)?, path: path.to_owned() })
    }

    /// Entries that a filter wants, newest first, at most `limit`, and only those with a number below `before` where
    /// that is given.
    ///
    /// # Errors
    /// [`Error::Row`], naming the entry, where one cannot be read.
    pub fn page(&self, filter: &Filter, before: Option<u64>, limit: u32) -> Result<Page, Error> {
        const SQL: &str = "select * from audit
            where (?1 is null or store = ?1) and (?2 is null or version = ?2) and (?3 is null or actor = ?3)
              and (?4 is null or action = ?4) and (?5 is null or at >= ?5) and (?6 is null or at <= ?6)
              and (?7 is null or number < ?7)
            order by number desc limit ?8";
        let refused = |error| Error::sqlite("read", &self.path, error);
        let version = filter.version.as_ref();
        let stores = [filter.store.as_ref(), version.map(|version| &version.store)];
        let [store, of_version] = stores;
        if let (Some(store), Some(other)) = (store, of_version)
            && store != other
        {
            return Ok(Page { entries: Vec::new(), more: false, head: self.head()? });
        }
        let transaction = self.connection.unchecked_transaction().map_err(refused)?;
        let mut statement = transaction.prepare(SQL).map_err(refused)?;
        let values = params![
            store.or(of_version).map(Text),
            version.map(|version| Int(version.number)),
            filter.actor,
            filter.action.map(Action::text),
            filter.from.map(At),
            filter.to.map(At),
            before.map(|before| Int(before.min(i64::MAX.unsigned_abs()))),
            limit.saturating_add(1),
        ];
        let mut rows = statement.query(values).map_err(refused)?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next().map_err(refused)? {
            entries.push(entry(row).map_err(|fault| self.bad(row, fault))?);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok(Page { entries, more, head: self.head()? })
    }

    /// Where the trail ends.
    ///
    /// # Errors
    /// What SQLite answered.
    pub fn head(&self) -> Result<Place, Error> {
        head(&self.connection).map_err(|error| Error::sqlite("read", &self.path, error))
    }

    /// Follows the chain from its beginning to where the trail ends, past a place that was noted down where one is given.
    ///
    /// # Errors
    /// What SQLite answered. A trail that is not what was written is no error but a verdict.
    pub fn verify(&self, noted: Option<Place>) -> Result<Verdict, Error> {
        let refused = |error| Error::sqlite("read", &self.path, error);
        let ends = self.connection.unchecked_transaction().map_err(refused)?;
        let head = self.head()?;
        let last: Option<i64> =
            ends.query_row("select max(number) from audit", [], |row| row.get(0)).map_err(refused)?;
        drop(ends);
        let installation = installation(&self.connection, &self.path)?;
        let Some(chain) = beginning(&installation) else {
            return Err(Error::damaged(&self.path, "the name of the installation is not 32 digits"));
        };
        let mut walk = Walk { at: Place { number: 0, chain }, noted, broken: None };
        walk.see_noted();
        while walk.broken.is_none() && walk.at.number < head.number {
            if self.walk_on(&mut walk, head)? == 0 {
                let (next, end) = (walk.at.number + 1, head.number);
                let what = if next == end {
                    format!("entry {end} is gone")
                } else {
                    format!("entries {next} to {end} are gone")
                };
                walk.broken = Some((next, what));
            }
        }
        walk.see_end(head, last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0));
        Ok(Verdict { sound: walk.at.number, broken: walk.broken })
    }

    /// Looks at some more entries; answers at how many.
    fn walk_on(&self, walk: &mut Walk, head: Place) -> Result<u64, Error> {
        const SQL: &str =
            "select number, at, actor, request, action, store, version, details, chain from audit
            where number > ?1 and number <= ?2 order by number limit ?3";
        let refused = |error| Error::sqlite("read", &self.path, error);
        let mut statement = self.connection.prepare_cached(SQL).map_err(refused)?;
        let values = params![Int(walk.at.number), Int(head.number), AT_ONCE];
        let mut rows = statement.query(values).map_err(refused)?;
        let mut seen = 0;
        while walk.broken.is_none()
            && let Some(row) = rows.next().map_err(refused)?
        {
            walk.step(row).map_err(refused)?;
            seen += 1;
        }
        Ok(seen)
    }

    fn bad(&self, row: &Row<'_>, fault: Fault) -> Error {
        let (path, what) = (self.path.clone(), explain(row, fault));
        Error::Row { path, table: "audit", row: name(row, 1), what }
    }
}

/// How far the chain was followed.
struct Walk {
    /// The last entry that is as it was written.
    at: Place,
    noted: Option<Place>,
    broken: Option<(u64, String)>,
}

impl Walk {
    /// Looks at the next entry.
    fn step(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let next = self.at.number + 1;
        let mut fields = [const { Vec::new() }; 8];
        for (column, field) in fields.iter_mut().enumerate() {
            *field = match row.get_ref(column)? {
                ValueRef::Null => Vec::new(),
                ValueRef::Integer(number) => number.to_string().into_bytes(),
                ValueRef::Real(number) => number.to_string().into_bytes(),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
            };
        }
        let number = row.get::<_, i64>(0)?;
        if u64::try_from(number).ok() != Some(next) {
            self.broken = Some((next, format!("entry {next} is gone")));
            return Ok(());
        }
        let chain = link(self.at.chain, fields.each_ref().map(Vec::as_slice));
        let recorded = match row.get_ref(8)? {
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<Link>().ok())
            }
            _ => None,
        };
        if recorded == Some(chain) {
            self.at = Place { number: next, chain };
            self.see_noted();
        } else {
            self.broken =
                Some((next, format!("entry {next} is not what was written, or the one before it is not")));
        }
        Ok(())
    }

    /// Compares this place with the one that was noted down.
    fn see_noted(&mut self) {
        let Some(noted) = self.noted.filter(|noted| noted.number == self.at.number) else { return };
        if noted.chain != self.at.chain {
            let what = format!("entry {} is not the one that was noted down", noted.number);
            self.broken = Some((noted.number, what));
        }
    }

    /// Compares the place that was come to with where the trail is said to end.
    fn see_end(&mut self, head: Place, last: u64) {
        if self.broken.is_some() {
            return;
        }
        let next = self.at.number + 1;
        self.broken = if last > head.number {
            Some((next, format!("entry {next} comes after the end of the trail, which is {}", head.number)))
        } else if head.chain != self.at.chain {
            Some((head.number, format!("the trail is said to end with another entry {}", head.number)))
        } else {
            self.noted.filter(|noted| noted.number > head.number).map(|noted| {
                (
                    next,
                    format!("entry {} was noted down, and the trail ends with {}", noted.number, head.number),
                )
            })
        };
    }
}

fn entry(row: &Row<'_>) -> Result<TrailEntry, Fault> {
    let action = row.get::<_, Text<ActionText>>("action")?.0.0;
    let by = By { actor: row.get("actor")?, request: row.get("request")? };
    let version = VersionId {
        store: row.get::<_, Text<asat_core::StoreName>>("store")?.0,
        number: row.get::<_, Int>("version")?.0,
    };
    let deed = Deed {
        at: row.get::<_, At>("at")?.0,
        by,
        action,
        version,
        details: row.get::<_, Json<_>>("details")?.0,
    };
    Ok(TrailEntry {
        number: row.get::<_, Int>("number")?.0,
        deed,
        chain: row.get::<_, Text<Link>>("chain")?.0,
    })
}

/// An action as it is read.
struct ActionText(Action);

impl std::str::FromStr for ActionText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("{text:?} is nothing that is done"))
    }
}
