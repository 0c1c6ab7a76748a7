//! Reading: rows become changes again, and the fold of those changes is the register.
//!
//! A row that cannot be read, or that speaks of something that is not there, is an error with its table and
//! its key. Leaving it out would make the daemon forget what it had promised.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use asat_core::audit::By;
use asat_core::check::CheckResult;
use asat_core::event::{Change, EffectId, Intent};
use asat_core::register::Register;
use asat_core::snapshot::Cost;
use asat_core::version::{
    Attributes, Content, Copy, End, Holding, Lease, LeaseId, Pin, Publication, SetPublication, Store, Tag,
    Version,
};
use asat_core::{SetName, StoreName, TagName, VersionId};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::Error;
use crate::seal;
use crate::values::{At, FilePath, Int, Json, Life, Page, Print, Text, Wait};

/// Reads everything.
pub(crate) fn load(connection: &Connection, path: &Path) -> Result<Register, Error> {
    let refused = |error| Error::sqlite("read", path, error);
    let transaction = connection.unchecked_transaction().map_err(refused)?;
    let mut loader = Loader { connection: &transaction, path, register: Register::default() };
    loader.stores()?;
    loader.versions()?;
    loader.publications()?;
    loader.tags()?;
    loader.leases()?;
    loader.intents()?;
    loader.clock()?;
    let register = loader.register;
    check_structure(&transaction, path)?;
    check_head(&transaction, path)?;
    seal::check(&transaction, path)?;
    Ok(register)
}

/// The name of the installation.
pub(crate) fn installation(connection: &Connection, path: &Path) -> Result<String, Error> {
    let sql = "select value from meta where key = 'installation'";
    match connection.query_row(sql, [], |row| row.get(0)) {
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            Err(Error::damaged(path, "table meta has no row for the installation"))
        }
        found => found.map_err(|error| Error::sqlite("read", path, error)),
    }
}

/// Asks SQLite about what reading the rows does not show: indexes, free pages, constraints.
pub(crate) fn check_structure(connection: &Connection, path: &Path) -> Result<(), Error> {
    let found = connection.query_row("pragma integrity_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(|error| Error::sqlite("check", path, error))?.as_str() {
        "ok" => Ok(()),
        complaint => Err(Error::damaged(path, complaint.to_owned())),
    }
}

/// Without knowing where the audit trail ends, nothing could be added to it.
fn check_head(connection: &Connection, path: &Path) -> Result<(), Error> {
    match crate::audit::head(connection) {
        Ok(_) => Ok(()),
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            Err(Error::damaged(path, "table audit_head does not say where the audit trail ends"))
        }
        Err(error @ rusqlite::Error::SqliteFailure(..)) => Err(Error::sqlite("read", path, error)),
        Err(error) => Err(Error::damaged(path, format!("table audit_head: {error}"))),
    }
}

struct Loader<'a> {
    connection: &'a Connection,
    path: &'a Path,
    register: Register,
}

impl Loader<'_> {
    fn stores(&mut self) -> Result<(), Error> {
        let sql = "select * from store order by name";
        self.each("store", 1, sql, |_, row| Ok(vec![Change::Store(store(row)?)]))
    }

    fn versions(&mut self) -> Result<(), Error> {
        let mut holdings: BTreeMap<VersionId, Vec<Holding>> = BTreeMap::new();
        let sql = "select * from holding order by store, number, position";
        self.each("holding", 3, sql, |_, row| {
            holdings.entry(version_id(row, "number")?).or_default().push(holding(row)?);
            Ok(Vec::new())
        })?;
        let sql = "select * from version order by store, number";
        self.each("version", 2, sql, |register, row| {
            let mut version = version(row)?;
            known(register.history(&version.id.store).is_ok(), "store", &version.id.store)?;
            version.holdings = holdings.remove(&version.id).unwrap_or_default();
            Ok(vec![Change::Version(Box::new(version))])
        })?;
        match holdings.into_keys().next() {
            Some(id) => Err(self.bad("holding", id.to_string(), "there is no such version")),
            None => Ok(()),
        }
    }

    fn publications(&mut self) -> Result<(), Error> {
        let mut checks: BTreeMap<u64, Vec<CheckResult>> = BTreeMap::new();
        let sql = "select * from check_result order by publication, position";
        self.each("check_result", 2, sql, |_, row| {
            checks.entry(row.get::<_, Int>("publication")?.0).or_default().push(check(row)?);
            Ok(Vec::new())
        })?;
        let sql = "select * from publication order by number";
        self.each("publication", 1, sql, |register, row| {
            let mut publication = publication(row)?;
            known(register.entry(&publication.version).is_ok(), "version", &publication.version)?;
            publication.checks = checks.remove(&publication.number).unwrap_or_default();
            Ok(vec![Change::Published(publication)])
        })?;
        match checks.into_keys().next() {
            Some(number) => Err(self.bad("check_result", number.to_string(), "there is no such publication")),
            None => Ok(()),
        }
    }

    fn tags(&mut self) -> Result<(), Error> {
        self.each("tag", 2, "select * from tag order by store, name", |register, row| {
            let tag = Tag {
                name: row.get::<_, Text<TagName>>("name")?.0,
                version: version_id(row, "version")?,
                set_at: row.get::<_, At>("set_at")?.0,
            };
            known(register.entry(&tag.version).is_ok(), "version", &tag.version)?;
            Ok(vec![Change::Tagged(tag)])
        })
    }

    fn leases(&mut self) -> Result<(), Error> {
        self.each("lease", 1, "select * from lease order by id", |register, row| {
            let lease = lease(row)?;
            known(register.entry(&lease.version).is_ok(), "version", &lease.version)?;
            Ok(vec![Change::Lease(lease)])
        })
    }

    fn intents(&mut self) -> Result<(), Error> {
        self.each(
            "intent",
            1,
            "select id, at, actor, request, effect, open from intent order by id",
            |_, row| {
                let (intent, open) = (intent(row)?, row.get("open")?);
                let id = intent.id;
                let intended = Change::Intended(intent);
                Ok(if open { vec![intended] } else { vec![intended, Change::Concluded(id)] })
            },
        )
    }

    fn clock(&mut self) -> Result<(), Error> {
        self.each("meta", 1, "select key, value from meta where key = 'clock'", |_, row| {
            Ok(vec![Change::Clock(row.get::<_, Json<_>>("value")?.0)])
        })
    }

    /// Folds the rows of a query in. The row's first columns are its key.
    fn each(
        &mut self,
        table: &'static str,
        key_columns: usize,
        sql: &str,
        mut read: impl FnMut(&Register, &Row<'_>) -> Result<Vec<Change>, Fault>,
    ) -> Result<(), Error> {
        let refused = |error| Error::sqlite("read", self.path, error);
        let mut statement = self.connection.prepare(sql).map_err(refused)?;
        let mut rows = statement.query([]).map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let changes = read(&self.register, row)
                .map_err(|fault| self.bad(table, name(row, key_columns), &explain(row, fault)))?;
            changes.iter().for_each(|change| self.register.evolve(change));
        }
        Ok(())
    }

    fn bad(&self, table: &'static str, row: String, what: &str) -> Error {
        Error::Row { path: self.path.to_owned(), table, row, what: what.to_owned() }
    }
}

fn store(row: &Row<'_>) -> rusqlite::Result<Store> {
    Ok(Store {
        name: row.get::<_, Text<StoreName>>("name")?.0,
        path: row.get::<_, FilePath>("path")?.0,
        added_at: row.get::<_, At>("added_at")?.0,
        damage: row.get::<_, Option<Json<_>>>("damage")?.map(|Json(damage)| damage),
    })
}

fn version_id(row: &Row<'_>, number: &str) -> rusqlite::Result<VersionId> {
    Ok(VersionId { store: row.get::<_, Text<StoreName>>("store")?.0, number: row.get::<_, Int>(number)?.0 })
}

fn holding(row: &Row<'_>) -> Result<Holding, Fault> {
    match row.get::<_, String>("kind")?.as_str() {
        "archive" => Ok(Holding::Archive { bytes: row.get::<_, Int>("bytes")?.0 }),
        "snapshot" => Ok(Holding::Snapshot(row.get::<_, Json<_>>("snapshot")?.0)),
        other => Err(Fault::Meaning(format!("{other:?} is no kind of holding"))),
    }
}

fn version(row: &Row<'_>) -> rusqlite::Result<Version> {
    Ok(Version {
        id: version_id(row, "number")?,
        state: row.get::<_, Life>("state")?.0,
        begun_at: row.get::<_, At>("begun_at")?.0,
        content: content(row)?,
        holdings: Vec::new(),
        copy: copy(row)?,
        pin: pin(row)?,
        end: end(row)?,
    })
}

fn content(row: &Row<'_>) -> rusqlite::Result<Option<Content>> {
    let Some(At(cut_at)) = row.get("cut_at")? else { return Ok(None) };
    Ok(Some(Content {
        cut_at,
        fingerprint: row.get::<_, Option<Print>>("fingerprint")?.map(|print| print.0),
        page_size: row.get::<_, Page>("page_size")?.0,
        page_count: row.get("page_count")?,
        wal: row.get("wal")?,
    }))
}

fn copy(row: &Row<'_>) -> rusqlite::Result<Option<Copy>> {
    let Some(Int(bytes)) = row.get("copy_bytes")? else { return Ok(None) };
    let in_snapshot = row.get("copy_in_snapshot")?;
    Ok(Some(Copy { in_snapshot, bytes, used_at: row.get::<_, At>("copy_used_at")?.0 }))
}

fn pin(row: &Row<'_>) -> rusqlite::Result<Option<Pin>> {
    let Some(reason) = row.get("pin_reason")? else { return Ok(None) };
    Ok(Some(Pin {
        reason,
        owner: row.get("pin_owner")?,
        set_at: row.get::<_, At>("pin_set_at")?.0,
        expires_at: row.get::<_, Option<At>>("pin_expires_at")?.map(|at| at.0),
        hot: row.get("pin_hot")?,
    }))
}

fn end(row: &Row<'_>) -> rusqlite::Result<Option<End>> {
    let Some(At(at)) = row.get("ended_at")? else { return Ok(None) };
    let purge_after = row.get::<_, Option<At>>("purge_after")?.map(|at| at.0);
    Ok(Some(End { at, reason: row.get("end_reason")?, purge_after }))
}

fn publication(row: &Row<'_>) -> rusqlite::Result<Publication> {
    Ok(Publication {
        number: row.get::<_, Int>("number")?.0,
        version: version_id(row, "version")?,
        at: row.get::<_, At>("at")?.0,
        attributes: Attributes {
            label: row.get("label")?,
            certified_by: row.get("certified_by")?,
            business_date: row.get::<_, Option<Text<_>>>("business_date")?.map(|date| date.0),
            note: row.get("note")?,
            free: row.get::<_, Json<_>>("attributes")?.0,
        },
        key: row.get("key")?,
        of_set: of_set(row)?,
        reused: row.get("reused")?,
        cost: Cost {
            writer_blocked_us: row.get::<_, Int>("writer_blocked_us")?.0,
            hold: row.get::<_, Wait>("hold")?.0,
            snapshot_us: row.get::<_, Int>("snapshot_us")?.0,
        },
        elapsed_us: row.get::<_, Int>("elapsed_us")?.0,
        checks: Vec::new(),
    })
}

fn of_set(row: &Row<'_>) -> rusqlite::Result<Option<SetPublication>> {
    let Some(Text(set)) = row.get::<_, Option<Text<SetName>>>("set_name")? else { return Ok(None) };
    Ok(Some(SetPublication { set, cut_at: row.get::<_, At>("set_cut_at")?.0 }))
}

fn check(row: &Row<'_>) -> rusqlite::Result<CheckResult> {
    let (name, passed, found) = (row.get("name")?, row.get("passed")?, row.get("found")?);
    Ok(CheckResult { name, passed, found, took_us: row.get::<_, Int>("took_us")?.0 })
}

fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        id: LeaseId(row.get("id")?),
        version: version_id(row, "version")?,
        holder: row.get("holder")?,
        actor: row.get("actor")?,
        granted_at: row.get::<_, At>("granted_at")?.0,
        expires_at: row.get::<_, At>("expires_at")?.0,
    })
}

fn intent(row: &Row<'_>) -> rusqlite::Result<Intent> {
    Ok(Intent {
        id: EffectId(row.get::<_, Int>("id")?.0),
        at: row.get::<_, At>("at")?.0,
        by: By { actor: row.get("actor")?, request: row.get("request")? },
        effect: row.get::<_, Json<_>>("effect")?.0,
    })
}

/// Refuses a row that speaks of something that is not there: folding it in would leave it out silently.
fn known(known: bool, kind: &str, name: &impl Display) -> Result<(), Fault> {
    if known { Ok(()) } else { Err(Fault::Meaning(format!("there is no {kind} {name}"))) }
}

/// Why a row cannot be read.
pub(crate) enum Fault {
    /// A column is not what it should be.
    Column(rusqlite::Error),
    /// The columns are well, but not what they say.
    Meaning(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Column(error)
    }
}

/// The values of a row's key, as far as they can be shown.
pub(crate) fn name(row: &Row<'_>, key_columns: usize) -> String {
    let show = |column| match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).chars().take(80).collect(),
        other => format!("{other:?}"),
    };
    (0..key_columns).map(show).collect::<Vec<_>>().join("@")
}

/// What is wrong with a row, with the column that is to blame.
pub(crate) fn explain(row: &Row<'_>, fault: Fault) -> String {
    let in_column = |index, what: String| {
        let column = row.as_ref().column_name(index).unwrap_or("?");
        format!("column {column}: {what}")
    };
    let error = match fault {
        Fault::Column(error) => error,
        Fault::Meaning(what) => return what,
    };
    match error {
        rusqlite::Error::FromSqlConversionFailure(index, _, cause) => in_column(index, cause.to_string()),
        rusqlite::Error::IntegralValueOutOfRange(index, number) => {
            in_column(index, format!("{number} is out of range"))
        }
        rusqlite::Error::InvalidColumnType(index, _, kind) => in_column(index, format!("it holds {kind}")),
        other => other.to_string(),
    }
}
