//! Reading: rows become changes again, and the fold of those changes is the register.
//!
//! A row that cannot be read, or that speaks of something that is not there, is an error with its table and
//! its key. Leaving it out would make the daemon forget what it had promised.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use asat_core::check::CheckResult;
use asat_core::event::{Change, EffectId, Intent};
use asat_core::register::{Register, SPAN};
use asat_core::snapshot::Cost;
use asat_core::version::{
    Attributes, Content, Copy, End, Holding, Lease, LeaseId, Pin, Publication, SetPublication, Store, Tag,
    Version,
};
use asat_core::{By, SetName, StoreName, TagName, VersionId};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, Rows, Statement, ToSql, Transaction, params};

use crate::check;
use crate::error::Error;
use crate::values::{At, FilePath, Int, Json, Life, Page, Print, Text, Wait};

/// Reads everything, and checks it. With another connection to the same catalogue, that is done by it meanwhile. Every commit is checked
/// as it is, so it does not matter if the other connection sees a newer one.
pub(crate) fn load(
    connection: &Connection,
    other: Option<Connection>,
    path: &Path,
) -> Result<Register, Error> {
    thread::scope(|scope| {
        let check = |other| {
            thread::Builder::new().name("catalogue-check".to_owned()).spawn_scoped(scope, move || {
                let transaction = begin(&other, path)?;
                check::check_whole(&transaction, path)
            })
        };
        let checking = other.map(check).transpose().map_err(|source| Error::io("check", path, source))?;
        let register = read(connection, path)?;
        match checking {
            Some(checking) => checking.join().unwrap_or_else(|panic| resume_unwind(panic))?,
            None => check::check_whole(&*begin(connection, path)?, path)?,
        }
        Ok(register)
    })
}

/// Reads everything: the chunks of what is at rest as they are, and the rows of the rest.
pub(crate) fn read(connection: &Connection, path: &Path) -> Result<Register, Error> {
    let transaction = begin(connection, path)?;
    let mut loader = Loader::new(&transaction, path);
    loader.stores()?;
    let chunks = loader.chunks()?;
    for store in loader.names() {
        let mut first = i64::MIN;
        for number in chunks.get(&store).into_iter().flatten() {
            let numbers = numbers_in(*number);
            let between = first..=*numbers.start() - 1;
            // Most chunks follow each other.
            if !between.is_empty() {
                loader.versions(&store, between)?;
            }
            first = numbers.end().saturating_add(1);
        }
        loader.versions(&store, first..=i64::MAX)?;
    }
    loader.tags()?;
    loader.leases()?;
    loader.intents()?;
    loader.clock()?;
    Ok(loader.register)
}

/// Begins to read one commit.
pub(crate) fn begin<'a>(connection: &'a Connection, path: &Path) -> Result<Transaction<'a>, Error> {
    connection.unchecked_transaction().map_err(|error| Error::sqlite("read", path, error))
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

/// The numbers of the versions in a chunk. SQLite's integers end before those of the last chunks.
pub(crate) fn numbers_in(chunk: u64) -> RangeInclusive<i64> {
    let first = i64::try_from(chunk.saturating_mul(SPAN)).unwrap_or(i64::MAX);
    first..=first.saturating_add_unsigned(SPAN - 1)
}

/// Takes rows in.
pub(crate) struct Loader<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) path: &'a Path,
    pub(crate) register: Register,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(connection: &'a Connection, path: &'a Path) -> Self {
        Self { connection, path, register: Register::default() }
    }

    pub(crate) fn stores(&mut self) -> Result<(), Error> {
        let sql = "select * from store order by name";
        self.each("store", 1, sql, |_, row| Ok([Change::Store(store(row)?)]))
    }

    /// The names of the stores.
    fn names(&self) -> Vec<StoreName> {
        self.register.stores().map(|history| history.store.name.clone()).collect()
    }

    /// The chunks of all stores; answers their numbers.
    pub(crate) fn chunks(&mut self) -> Result<BTreeMap<StoreName, Vec<u64>>, Error> {
        let mut numbers: BTreeMap<StoreName, Vec<u64>> = BTreeMap::new();
        let mut statement = self.prepare("select store, number, packed, hash from chunk order by 1, 2")?;
        let refused = |error| Error::sqlite("read", self.path, error);
        let mut rows = statement.query([]).map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let (store, number) = self.chunk(row).map_err(|fault| bad(self.path, "chunk", 2, row, fault))?;
            numbers.entry(store).or_default().push(number);
        }
        Ok(numbers)
    }

    /// Takes a chunk in.
    fn chunk(&mut self, row: &Row<'_>) -> Result<(StoreName, u64), Fault> {
        let mut columns = Columns::of(row);
        let (store, number) = (columns.next::<Text<StoreName>>()?.0, columns.next::<Int>()?.0);
        known(self.register.history(&store).is_ok(), "store", &store)?;
        let packed = row.get_ref(2)?.as_blob().map_err(|error| Fault::Meaning(error.to_string()))?;
        let hash = row.get_ref(3)?.as_blob().map_err(|error| Fault::Meaning(error.to_string()))?;
        // What has this hash was written by a commit, and is not looked at more closely.
        if blake3::hash(packed).as_bytes() != hash || !self.register.put_chunk(&store, number, packed.into())
        {
            return Err(Fault::Meaning("its bytes are not those that were committed".to_owned()));
        }
        Ok((store, number))
    }

    /// The versions of a store with these numbers, and their publications.
    pub(crate) fn versions(&mut self, store: &StoreName, numbers: RangeInclusive<i64>) -> Result<(), Error> {
        let range = params![Text(store), numbers.start(), numbers.end()];
        let holdings = "select store, number, position, kind, bytes, snapshot from holding
            where store = ?1 and number between ?2 and ?3 order by 1, 2, 3";
        let mut holdings = self.prepare(holdings)?;
        let mut holdings = Parts::begin("version", ("holding", 3), &mut holdings, range, self.path, holding)?;
        let sql = "select store, number, state, begun_at, cut_at, fingerprint, page_size, page_count, wal,
            copy_bytes, copy_in_snapshot, copy_used_at,
            pin_reason, pin_owner, pin_set_at, pin_expires_at, pin_hot,
            ended_at, end_reason, purge_after
            from version where store = ?1 and number between ?2 and ?3 order by 1, 2";
        self.each_in("version", 2, sql, range, |_, row| {
            let mut version = version(&mut Columns::of(row))?;
            version.holdings = holdings.of(&version.id)?;
            Ok([Change::Version(Box::new(version))])
        })?;
        holdings.end::<()>()?;
        let checks = "select publication, position, name, passed, found, took_us from check_result
            where publication in (select number from publication where store = ?1 and version between ?2 and ?3)
            order by 1, 2";
        let mut checks = self.prepare(checks)?;
        let mut checks =
            Parts::begin("publication", ("check_result", 2), &mut checks, range, self.path, check)?;
        let sql =
            "select number, store, version, at, label, certified_by, business_date, note, attributes, key,
            set_name, set_cut_at, reused, writer_blocked_us, hold, snapshot_us, elapsed_us
            from publication where store = ?1 and version between ?2 and ?3 order by 1";
        self.each_in("publication", 1, sql, range, |register, row| {
            let mut publication = publication(&mut Columns::of(row))?;
            known(has(register, &publication.version), "version", &publication.version)?;
            publication.checks = checks.of(&publication.number)?;
            Ok([Change::Published(publication)])
        })?;
        checks.end()
    }

    fn tags(&mut self) -> Result<(), Error> {
        self.each("tag", 2, "select * from tag order by store, name", |register, row| {
            let tag = Tag {
                name: row.get::<_, Text<TagName>>("name")?.0,
                version: version_id(row, "version")?,
                set_at: row.get::<_, At>("set_at")?.0,
            };
            known(has(register, &tag.version), "version", &tag.version)?;
            Ok([Change::Tagged(tag)])
        })
    }

    fn leases(&mut self) -> Result<(), Error> {
        self.each("lease", 1, "select * from lease order by id", |register, row| {
            let lease = lease(row)?;
            known(has(register, &lease.version), "version", &lease.version)?;
            Ok([Change::Lease(lease)])
        })
    }

    fn intents(&mut self) -> Result<(), Error> {
        self.each(
            "intent",
            1,
            "select id, at, actor, request, effect, open from intent order by id",
            |_, row| {
                let (intent, open) = (intent(row)?, row.get::<_, bool>("open")?);
                let id = intent.id;
                let intended = Change::Intended(intent);
                let concluded = (!open).then_some(Change::Concluded(id));
                Ok([intended].into_iter().chain(concluded))
            },
        )
    }

    fn clock(&mut self) -> Result<(), Error> {
        self.each("meta", 1, "select key, value from meta where key = 'clock'", |_, row| {
            Ok([Change::Clock(row.get::<_, Json<_>>("value")?.0)])
        })
    }

    /// Folds the rows of a query in. The row's first columns are its key.
    fn each<C: IntoIterator<Item = Change>>(
        &mut self,
        table: &'static str,
        key_columns: usize,
        sql: &str,
        read: impl FnMut(&Register, &Row<'_>) -> Result<C, Fault>,
    ) -> Result<(), Error> {
        self.each_in(table, key_columns, sql, params![], read)
    }

    /// The same of a query with parameters.
    fn each_in<C: IntoIterator<Item = Change>>(
        &mut self,
        table: &'static str,
        key_columns: usize,
        sql: &str,
        parameters: &[&dyn ToSql],
        mut read: impl FnMut(&Register, &Row<'_>) -> Result<C, Fault>,
    ) -> Result<(), Error> {
        let mut statement = self.prepare(sql)?;
        let refused = |error| Error::sqlite("read", self.path, error);
        let mut rows = statement.query(parameters).map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let changes =
                read(&self.register, row).map_err(|fault| bad(self.path, table, key_columns, row, fault))?;
            changes.into_iter().for_each(|change| self.register.take_in(change));
        }
        Ok(())
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>, Error> {
        self.connection.prepare_cached(sql).map_err(|error| Error::sqlite("read", self.path, error))
    }
}

/// Rows that are parts of those of another table, by whose key they are ordered. Both are read side by side.
struct Parts<'a, K, P> {
    /// What they are parts of.
    of: &'static str,
    table: &'static str,
    key_columns: usize,
    path: &'a Path,
    rows: Rows<'a>,
    read: fn(&mut Columns<'_>) -> Result<(K, P), Fault>,
    next: Option<(K, P)>,
}

impl<'a, K: PartialOrd + Display, P> Parts<'a, K, P> {
    fn begin(
        of: &'static str,
        (table, key_columns): (&'static str, usize),
        statement: &'a mut Statement<'_>,
        parameters: &[&dyn ToSql],
        path: &'a Path,
        read: fn(&mut Columns<'_>) -> Result<(K, P), Fault>,
    ) -> Result<Self, Error> {
        let rows = statement.query(parameters).map_err(|error| Error::sqlite("read", path, error))?;
        let mut parts = Self { of, table, key_columns, path, rows, read, next: None };
        parts.advance()?;
        Ok(parts)
    }

    /// Reads the next part; answers the one before.
    fn advance(&mut self) -> Result<Option<P>, Error> {
        let row = self.rows.next().map_err(|error| Error::sqlite("read", self.path, error))?;
        let (read, path, table, key_columns) = (self.read, self.path, self.table, self.key_columns);
        let read =
            |row| read(&mut Columns::of(row)).map_err(|fault| bad(path, table, key_columns, row, fault));
        Ok(std::mem::replace(&mut self.next, row.map(read).transpose()?).map(|(_, part)| part))
    }

    /// The parts of the row with this key, which comes after those that were asked for before.
    fn of(&mut self, key: &K) -> Result<Vec<P>, Error> {
        if self.next.as_ref().is_some_and(|(next, _)| next < key) {
            return self.end();
        }
        let mut parts = Vec::new();
        while self.next.as_ref().is_some_and(|(next, _)| next == key) {
            parts.extend(self.advance()?);
        }
        // Most have one, and there are very many.
        parts.shrink_to_fit();
        Ok(parts)
    }

    /// Refuses a part that belongs to nothing.
    fn end<T: Default>(&self) -> Result<T, Error> {
        let Some((key, _)) = &self.next else { return Ok(T::default()) };
        let (what, row) = (format!("there is no such {}", self.of), key.to_string());
        Err(Error::Row { path: self.path.to_owned(), table: self.table, row, what })
    }
}

/// The columns of a row, one after another. To look for each by its name takes longer than all else that is done with a row, so
/// those of tables with many rows are read in order.
struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    fn of(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        let column = self.next;
        self.next += 1;
        self.row.get(column)
    }

    /// The first of so many columns, of which all have a value or none; where they have none, the others are left out.
    fn next_of<T: FromSql>(&mut self, columns: usize) -> rusqlite::Result<Option<T>> {
        let first: Option<T> = self.next()?;
        if first.is_none() {
            self.next += columns - 1;
        }
        Ok(first)
    }

    fn version_id(&mut self) -> rusqlite::Result<VersionId> {
        Ok(VersionId { store: self.next::<Text<StoreName>>()?.0, number: self.next::<Int>()?.0 })
    }
}

pub(crate) fn bad(
    path: &Path,
    table: &'static str,
    key_columns: usize,
    row: &Row<'_>,
    fault: Fault,
) -> Error {
    match fault {
        Fault::Part(error) => error,
        fault => {
            let (path, name) = (path.to_owned(), name(row, key_columns));
            Error::Row { path, table, row: name, what: explain(row, fault) }
        }
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

fn holding(row: &mut Columns<'_>) -> Result<(VersionId, Holding), Fault> {
    let (id, _position) = (row.version_id()?, row.next::<Int>()?);
    let (kind, bytes) = (row.next::<String>()?, row.next::<Int>()?.0);
    let holding = match kind.as_str() {
        "archive" => Holding::Archive { bytes },
        "snapshot" => Holding::Snapshot(row.next::<Json<_>>()?.0),
        other => return Err(Fault::Meaning(format!("{other:?} is no kind of holding"))),
    };
    Ok((id, holding))
}

fn version(row: &mut Columns<'_>) -> rusqlite::Result<Version> {
    Ok(Version {
        id: row.version_id()?,
        state: row.next::<Life>()?.0,
        begun_at: row.next::<At>()?.0,
        content: content(row)?,
        holdings: Vec::new(),
        copy: copy(row)?,
        pin: pin(row)?,
        end: end(row)?,
    })
}

fn content(row: &mut Columns<'_>) -> rusqlite::Result<Option<Content>> {
    let Some(At(cut_at)) = row.next_of(5)? else { return Ok(None) };
    Ok(Some(Content {
        cut_at,
        fingerprint: row.next::<Option<Print>>()?.map(|print| print.0),
        page_size: row.next::<Page>()?.0,
        page_count: row.next()?,
        wal: row.next()?,
    }))
}

fn copy(row: &mut Columns<'_>) -> rusqlite::Result<Option<Box<Copy>>> {
    let Some(Int(bytes)) = row.next_of(3)? else { return Ok(None) };
    Ok(Some(Box::new(Copy { bytes, in_snapshot: row.next()?, used_at: row.next::<At>()?.0 })))
}

fn pin(row: &mut Columns<'_>) -> rusqlite::Result<Option<Box<Pin>>> {
    let Some(reason) = row.next_of(5)? else { return Ok(None) };
    Ok(Some(Box::new(Pin {
        reason,
        owner: row.next()?,
        set_at: row.next::<At>()?.0,
        expires_at: row.next::<Option<At>>()?.map(|at| at.0),
        hot: row.next()?,
    })))
}

fn end(row: &mut Columns<'_>) -> rusqlite::Result<Option<Box<End>>> {
    let Some(At(at)) = row.next_of(3)? else { return Ok(None) };
    let (reason, purge_after) = (row.next()?, row.next::<Option<At>>()?.map(|at| at.0));
    Ok(Some(Box::new(End { at, reason, purge_after })))
}

fn publication(row: &mut Columns<'_>) -> rusqlite::Result<Publication> {
    Ok(Publication {
        number: row.next::<Int>()?.0,
        version: row.version_id()?,
        at: row.next::<At>()?.0,
        attributes: Attributes {
            label: row.next()?,
            certified_by: row.next()?,
            business_date: row.next::<Option<Text<_>>>()?.map(|date| date.0),
            note: row.next()?,
            free: row.next::<Json<_>>()?.0,
        },
        key: row.next()?,
        of_set: of_set(row)?,
        reused: row.next()?,
        cost: Cost {
            writer_blocked_us: row.next::<Int>()?.0,
            hold: row.next::<Wait>()?.0,
            snapshot_us: row.next::<Int>()?.0,
        },
        elapsed_us: row.next::<Int>()?.0,
        checks: Vec::new(),
    })
}

fn of_set(row: &mut Columns<'_>) -> rusqlite::Result<Option<SetPublication>> {
    let Some(Text(set)) = row.next_of::<Text<SetName>>(2)? else { return Ok(None) };
    Ok(Some(SetPublication { set, cut_at: row.next::<At>()?.0 }))
}

fn check(row: &mut Columns<'_>) -> Result<(u64, CheckResult), Fault> {
    let (publication, _position) = (row.next::<Int>()?.0, row.next::<Int>()?);
    let (name, passed, found) = (row.next()?, row.next()?, row.next()?);
    Ok((publication, CheckResult { name, passed, found, took_us: row.next::<Int>()?.0 }))
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

/// Whether there is a version.
fn has(register: &Register, id: &VersionId) -> bool {
    register.history(&id.store).is_ok_and(|history| history.versions.headline(id.number).is_some())
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
    /// A row that belongs to it is not what it should be.
    Part(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Part(error)
    }
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
        Fault::Part(error) => return error.to_string(),
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
