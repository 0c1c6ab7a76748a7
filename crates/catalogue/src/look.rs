//! Looks at a catalogue that is somebody else's to use: nothing is locked, and no file is made or changed.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use asat_core::harm::Harm;
use rusqlite::{Connection, OpenFlags};

use crate::create;
use crate::error::Error;
use crate::migrate::MIGRATIONS;
use crate::{newest, read, seal};

/// Finds out what would keep a daemon from opening the catalogue at `path`, and what it says is lost or damaged. Where a log is beside it, a daemon is at work or was
/// killed, and only its header is looked at: what follows may be changed under the eyes of somebody who takes no lock.
pub(crate) fn look(path: &Path) -> Result<Vec<Harm>, Error> {
    if create::has_successor(path)? {
        return Ok(Vec::new());
    }
    if create::is_missing(path)? {
        return create::check_no_log(path).map(|()| Vec::new());
    }
    create::check_identity(path, MIGRATIONS.len())?;
    match create::check_no_log(path).and_then(|()| read_all(path)) {
        // Somebody may have begun to write meanwhile.
        Err(_) if create::check_no_log(path).is_err() => Ok(Vec::new()),
        result => result,
    }
}

/// Reads it as a file that never changes.
fn read_all(path: &Path) -> Result<Vec<Harm>, Error> {
    let asked = |error| Error::sqlite("look into", path, error);
    let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // By its number, since a name may have characters that mean something else here.
    let uri = format!("file:/proc/self/fd/{}?immutable=1", file.as_raw_fd());
    let connection = Connection::open_with_flags(uri, flags).map_err(asked)?;
    let version: u32 = connection.query_row("pragma user_version", [], |row| row.get(0)).map_err(asked)?;
    // An older one is read once it is brought forward.
    if usize::try_from(version).is_ok_and(|version| version == MIGRATIONS.len()) {
        read::installation(&connection, path)?;
        seal::check_newest(&connection, newest::read(path)?.as_ref(), path)?;
        return Ok(read::load(&connection, path)?.harms());
    }
    Ok(Vec::new())
}
