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
    file.check_opened()?;
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
    file.check_opened()?;
    // Before the first read, which would make sidecars.
    check_writable(&connection, file)?;
    file.check_makes_for_all()?;
    Ok(connection)
}

/// Refuses where SQLite, which has read the store in WAL mode, has opened another WAL than the one beside the file.
pub(super) fn check_wal(connection: &Connection, file: &StoreFile) -> Result<(), Error> {
    file.check_wal_opened().inspect_err(|_| {
        // Nothing of it may get into the file as the connection is closed.
        let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    })
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const FILES: [&str; 2] = ["store.db", "store.db-wal"];

    /// A folder with a store as a writer leaves it that was killed: with a WAL that counts.
    fn lay_down(folder: &Path, content: &str) {
        let away = tempfile::tempdir().unwrap();
        let writer = Connection::open(away.path().join("store.db")).unwrap();
        let sql =
            format!("pragma journal_mode = wal; create table t (a); insert into t values ('{content}')");
        writer.execute_batch(&sql).unwrap();
        fs::create_dir(folder).unwrap();
        for name in FILES {
            fs::copy(away.path().join(name), folder.join(name)).unwrap();
        }
    }

    fn read(connection: &Connection) -> String {
        connection.query_row("SELECT a FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_file_whose_name_was_nobodys_for_a_moment_was_replaced_and_one_that_is_gone_is_missing() {
        let site = tempfile::tempdir().unwrap();
        let folder = site.path().join("owner");
        lay_down(&folder, "own");
        let file = StoreFile::find(&(&folder.join("store.db")).into()).unwrap();
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let away = Connection::open_with_flags(site.path().join("away.db"), flags).unwrap_err();
        let said = file.explain(&away);
        assert!(matches!(said, Error::Replaced { .. }), "{said}");
        fs::remove_file(folder.join("store.db")).unwrap();
        let said = file.explain(&away);
        assert!(matches!(said, Error::Missing { .. }), "{said}");
    }

    #[test]
    fn only_the_file_that_was_looked_at_is_opened_whatever_is_put_on_the_path_for_a_moment() {
        let site = tempfile::tempdir().unwrap();
        let at = |name: &str| site.path().join(name);
        lay_down(&at("owner"), "own");
        lay_down(&at("victim"), "private");
        let exchange = |one: &str, other: &str| {
            fs::rename(at("owner"), at(one)).unwrap();
            fs::rename(at(other), at("owner")).unwrap();
        };
        let file = StoreFile::find(&(&at("owner/store.db")).into()).unwrap();
        exchange("away", "victim");
        let refused = [for_reading(&file).err(), for_writing(&file).err(), for_holding(&file).err()];
        for refused in refused {
            assert!(matches!(refused, Some(Error::Replaced { .. })), "{refused:?}");
        }
        exchange("victim", "away");
        let connection = for_reading(&file).unwrap();
        // SQLite opens the WAL when it reads for the first time.
        exchange("away", "victim");
        let private = read(&connection);
        let refused = check_wal(&connection, &file);
        assert!(matches!(refused, Err(Error::Replaced { .. })), "{private} {refused:?}");
        drop(connection);
        exchange("victim", "away");
        let connection = for_reading(&file).unwrap();
        assert_eq!(read(&connection), "own");
        check_wal(&connection, &file).unwrap();
    }
}
