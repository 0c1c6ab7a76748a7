//! The seal: what shows that the records are those that were committed last.
//!
//! SQLite checks no page of a database, and of a log that is damaged in the middle it takes what is before that and leaves out the
//! rest without a word. So every commit is numbered, and writes down the sum of the hashes of all rows. A row that changes is
//! subtracted as it was and added as it is, by triggers that only this connection has; nothing else is read for it. Whoever reads all
//! rows adds them up again.
//!
//! The audit trail is left out: it is a chain, and as long as everything that ever happened. Where it ends is a row like others.
//!
//! The sum holds against a bad disk, not against somebody who can write the file. For that there is the audit trail.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Result, params};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::newest;
use crate::values::Int;

/// The tables whose rows are not in the sum.
const LEFT_OUT: &str = "('audit', 'seal')";

/// What a commit writes down of all that were before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Which catalogue it is: a copy that may take its place has another one, and may be older.
    pub(crate) line: String,
    /// How many commits there were.
    pub(crate) number: u64,
    /// The sum over all rows.
    pub(crate) sum: u128,
}

/// The sum that a connection's triggers keep.
#[derive(Debug)]
pub(crate) struct Keeping(Arc<Mutex<u128>>);

impl Keeping {
    /// Has a connection keep the sum of all rows that it changes.
    pub(crate) fn begin(connection: &Connection) -> Result<Self> {
        let keeping = Self(Arc::default());
        offer(connection, "add_row", &keeping.0, u128::wrapping_add)?;
        offer(connection, "subtract_row", &keeping.0, u128::wrapping_sub)?;
        for (table, columns) in tables(connection)? {
            let [old, new] = ["old", "new"].map(|row| {
                let columns: Vec<String> = columns.iter().map(|column| format!(", {row}.{column}")).collect();
                columns.concat()
            });
            let (add, subtract) =
                (format!("select add_row('{table}'{new});"), format!("select subtract_row('{table}'{old});"));
            for (event, does) in
                [("insert", &add), ("delete", &subtract), ("update", &format!("{subtract} {add}"))]
            {
                connection.execute_batch(&format!(
                    "create temp trigger seal_{table}_{event} after {event} on main.{table} begin {does} end"
                ))?;
            }
        }
        Ok(keeping)
    }

    /// Goes on from what the newest commit has written down.
    pub(crate) fn go_on_from(&self, seal: &Seal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seal.sum;
    }

    /// Writes down, in the transaction of a commit, what is then after the one before.
    pub(crate) fn seal(&self, connection: &Connection, before: &Seal) -> Result<Seal> {
        let sum = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seal = Seal { line: before.line.clone(), number: before.number + 1, sum };
        let mut write = connection.prepare_cached("update seal set number = ?1, sum = ?2")?;
        write.execute(params![Int(seal.number), text(seal.sum)])?;
        Ok(seal)
    }
}

/// What the newest commit has written down. A catalogue of an older schema has nothing.
pub(crate) fn read(connection: &Connection, path: &Path) -> Result<Option<Seal>, Error> {
    let refused = |error| Error::sqlite("read", path, error);
    if !connection.table_exists(Some("main"), "seal").map_err(refused)? {
        return Ok(None);
    }
    let row = connection.query_row("select line, number, sum from seal", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Int>(1)?.0, row.get::<_, String>(2)?))
    });
    let bad = |what: &str| Error::damaged(path, format!("table seal: {what}"));
    match row.optional() {
        Err(error @ rusqlite::Error::SqliteFailure(..)) => Err(refused(error)),
        Err(error) => Err(bad(&error.to_string())),
        Ok(None) => Err(bad("it has no row")),
        Ok(Some((line, number, sum))) => match u128::from_str_radix(&sum, 16) {
            Ok(sum) => Ok(Some(Seal { line, number, sum })),
            Err(_) => Err(bad("its sum is none")),
        },
    }
}

/// Refuses a catalogue that ends before the newest commit that was acknowledged.
pub(crate) fn check_newest(
    connection: &Connection,
    acknowledged: Option<&Seal>,
    path: &Path,
) -> Result<(), Error> {
    read(connection, path)?.map_or(Ok(()), |found| newest::check(&found, acknowledged, path))
}

/// Refuses records that are not those that were committed.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let Some(seal) = read(connection, path)? else { return Ok(()) };
    if sum_up(connection).map_err(|error| Error::sqlite("read", path, error))? == seal.sum {
        return Ok(());
    }
    Err(Error::damaged(
        path,
        "its records are not what was committed: their sum is not the one that was written down",
    ))
}

/// Writes down what is there, in a transaction or a file that nobody else has. A copy begins another line.
pub(crate) fn renew(connection: &Connection) -> Result<()> {
    if !connection.table_exists(Some("main"), "seal")? {
        return Ok(());
    }
    let sum = text(sum_up(connection)?);
    connection.execute("update seal set line = lower(hex(randomblob(16))), sum = ?1", [sum]).map(drop)
}

/// Adds all rows up, with what the schema says of them.
fn sum_up(connection: &Connection) -> Result<u128> {
    let sum = Arc::default();
    offer(connection, "sum_row", &sum, u128::wrapping_add)?;
    // A table may be rewritten in another order, and its place in the file is another one then.
    let schema = "select count(sum_row('sqlite_schema', type, name, tbl_name, sql)) from main.sqlite_schema";
    let version = "select count(sum_row('user_version', user_version)) from pragma_user_version";
    let of_table = |(table, columns): &(String, Vec<String>)| {
        let columns = columns.join(", ");
        format!("select count(sum_row('{table}', {columns})) from main.{table} not indexed")
    };
    let tables: Vec<String> = tables(connection)?.iter().map(of_table).collect();
    for sql in [schema, version].into_iter().chain(tables.iter().map(String::as_str)) {
        connection.query_row(sql, [], |_| Ok(()))?;
    }
    let sum = *sum.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(sum)
}

/// Offers a connection a function that changes a sum by the hash of a row.
fn offer(
    connection: &Connection,
    name: &str,
    sum: &Arc<Mutex<u128>>,
    change: fn(u128, u128) -> u128,
) -> Result<()> {
    let sum = Arc::clone(sum);
    connection.create_scalar_function(name, -1, FunctionFlags::SQLITE_UTF8, move |row| {
        let hash = hash(row);
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = change(*sum, hash);
        Ok(true)
    })
}

/// The hash of a row, the name of its table first.
fn hash(row: &Context<'_>) -> u128 {
    // Hashed at once: of pieces as small as these the hash takes each by itself.
    let mut whole = Vec::with_capacity(512);
    for column in 0..row.len() {
        let (kind, bytes) = match row.get_raw(column) {
            ValueRef::Null => (0_u8, &[][..]),
            ValueRef::Integer(number) => (1, &number.to_be_bytes()[..]),
            ValueRef::Real(number) => (2, &number.to_be_bytes()[..]),
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(blob) => (4, blob),
        };
        whole.push(kind);
        whole.extend_from_slice(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        whole.extend_from_slice(bytes);
    }
    let hash: [u8; 32] = Sha256::digest(&whole).into();
    hash.first_chunk().map_or(0, |first| u128::from_be_bytes(*first))
}

/// The tables whose rows are in the sum, with their columns, as SQL names them.
fn tables(connection: &Connection) -> Result<Vec<(String, Vec<String>)>> {
    let sql = format!(
        "select s.name, c.name from main.sqlite_schema s, pragma_table_info(s.name) c
        where s.type = 'table' and s.name not like 'sqlite%' and s.name not in {LEFT_OUT} order by s.name, c.cid"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut tables: Vec<(String, Vec<String>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (table, column): (String, String) = (row.get(0)?, row.get(1)?);
        let column = format!("\"{column}\"");
        match tables.last_mut().filter(|(last, _)| *last == table) {
            Some((_, columns)) => columns.push(column),
            None => tables.push((table, vec![column])),
        }
    }
    Ok(tables)
}

/// A sum as it is written.
pub(crate) fn text(sum: u128) -> String {
    format!("{sum:032x}")
}
