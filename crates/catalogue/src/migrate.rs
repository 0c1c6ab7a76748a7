//! Migrations: the schema's history in one ordered table.
//!
//! The n-th entry takes a catalogue from version n - 1 to version n, in one transaction with the new
//! `user_version`. An entry that was released is never edited. An existing catalogue is copied before it is
//! changed, so that going back to an older asat stays possible.

use std::path::Path;

use asat_core::boundary;
use rusqlite::{Connection, TransactionBehavior};

use crate::create;
use crate::error::Error;
use crate::{newest, seal};

/// The SQL that takes a catalogue one version further.
pub(crate) type Migration = &'static str;

/// Every migration that this build knows.
pub(crate) const MIGRATIONS: &[Migration] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
    include_str!("schema/11.sql"),
    include_str!("schema/12.sql"),
    include_str!("schema/13.sql"),
];

/// The oldest version that is brought forward. Those before had other fingerprints, so the entries up to here only make new
/// catalogues.
pub(crate) const OLDEST: usize = 9;

/// Brings an existing catalogue to the newest version, and keeps a copy of what it was.
pub(crate) fn bring_forward(
    connection: &mut Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<(), Error> {
    let refused = |error| Error::sqlite("open", path, error);
    // A catalogue that is refused stays as it is: its log is not applied when it is closed.
    crate::keep_log(connection, true).map_err(refused)?;
    let found = version(connection, path)?;
    let known = migrations.len();
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    seal::check_newest(connection, newest::read(path)?.as_ref(), path)?;
    if found < known {
        seal::check(connection, path)?;
    }
    crate::keep_log(connection, false).map_err(refused)?;
    if found < known {
        create::copy(connection, path, &create::beside(path, &format!(".v{found}")))?;
        run(connection, path, found, migrations)?;
    }
    Ok(())
}

/// Runs every migration after the `done` first ones.
pub(crate) fn run(
    connection: &mut Connection,
    path: &Path,
    done: usize,
    migrations: &[Migration],
) -> Result<(), Error> {
    let refused = |error| Error::sqlite("bring up to date", path, error);
    // A table that is made anew is dropped first, and nothing that refers to it shall go with it: references are
    // checked at the end instead (<https://www.sqlite.org/lang_altertable.html#otheralter>).
    connection.pragma_update(None, "foreign_keys", false).map_err(refused)?;
    for (number, sql) in (1..).zip(migrations).skip(done) {
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).map_err(refused)?;
        transaction.execute_batch(sql).map_err(refused)?;
        check_references(&transaction, path)?;
        transaction.pragma_update(None, "user_version", number).map_err(refused)?;
        seal::renew(&transaction).map_err(refused)?;
        boundary::pass("catalogue: migrate");
        transaction.commit().map_err(refused)?;
        boundary::pass("catalogue: migrated");
    }
    connection.pragma_update(None, "foreign_keys", true).map_err(refused)
}

/// Refuses a catalogue with a row that refers to one which is not there.
fn check_references(connection: &Connection, path: &Path) -> Result<(), Error> {
    let refused = |error| Error::sqlite("check", path, error);
    let mut statement = connection.prepare("pragma foreign_key_check").map_err(refused)?;
    let mut found = statement.query_map([], |row| row.get::<_, String>(0)).map_err(refused)?;
    match found.next() {
        None => Ok(()),
        Some(table) => {
            let table = table.map_err(refused)?;
            Err(Error::damaged(path, format!("a row of table {table} refers to one that is not there")))
        }
    }
}

/// The schema version that a catalogue has.
fn version(connection: &Connection, path: &Path) -> Result<usize, Error> {
    let refused = |error| Error::sqlite("open", path, error);
    let found: i32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(refused)?;
    match usize::try_from(found) {
        Ok(found) if found > 0 => Ok(found),
        _ => Err(Error::damaged(path, format!("its schema version is {found}"))),
    }
}
