//! Opening a store, such that nothing in its schema is executed and that it is written by nobody's mistake.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::error::Error;
use super::file::StoreFile;

/// The path has no links, so one that SQLite meets was put there meanwhile.
const COMMON: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX.union(OpenFlags::SQLITE_OPEN_NOFOLLOW);
const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(COMMON);

const READ_ONLY: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(COMMON);

/// Opens the store such that it cannot be changed through this connection. It is opened read-write where that is
/// allowed, for what SQLite owes it from before. No lock is taken yet.
///
/// Where sidecars that this process makes would lock others out, none is made, whatever comes and goes meanwhile.
pub(super) fn for_reading(file: &StoreFile) -> Result<Connection, Error> {
    let failed = |error: rusqlite::Error| file.explain(&error);
    let makes_none = match file.check_makes_for_all() {
        Err(Error::LocksOut { .. }) => true,
        checked => checked.map(|()| false)?,
    };
    let flags = if makes_none { READ_ONLY } else { READ_WRITE };
    let connection = Connection::open_with_flags(&file.path, flags).map_err(failed)?;
    guard(&connection).map_err(failed)?;
    if makes_none {
        // In this mode a WAL is opened under a writer's lock only. That is refused before a file is made, as the connection
        // is read-only, and `explain` then says why.
        connection.execute_batch("PRAGMA locking_mode = exclusive").map_err(failed)?;
    }
    connection.execute_batch("PRAGMA query_only = on").map_err(failed)?;
    Ok(connection)
}

/// Opens the store to take its writers' lock. No lock is taken yet.
pub(super) fn for_holding(file: &StoreFile) -> Result<Connection, Error> {
    let connection = for_writing(file)?;
    guard(&connection).map_err(|error| file.explain(&error))?;
    Ok(connection)
}

/// Opens the store as one who writes it. No lock is taken yet, and no sidecar is made.
pub(super) fn for_writing(file: &StoreFile) -> Result<Connection, Error> {
    let failed = |error: rusqlite::Error| file.explain(&error);
    let connection = Connection::open_with_flags(&file.path, READ_WRITE).map_err(failed)?;
    // Before the first read, which would make sidecars.
    check_writable(&connection, file)?;
    file.check_makes_for_all()?;
    Ok(connection)
}

/// Refuses a store that this process may only read.
pub(super) fn check_writable(connection: &Connection, file: &StoreFile) -> Result<(), Error> {
    match connection.is_readonly(MAIN_DB).map_err(|error| file.explain(&error))? {
        true => Err(Error::ReadOnly { path: file.path.clone() }),
        false => Ok(()),
    }
}

/// Lets nothing in the schema be executed, and nothing wait or map memory behind our back.
pub(super) fn guard(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(setting, on)?;
    }
    connection.execute_batch("PRAGMA mmap_size = 0")
}
