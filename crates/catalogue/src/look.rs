//! Looks at a catalogue that is somebody else's to use: no file beside it is made or changed.

use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{env, io};

use asat_core::harm::Harm;
use rusqlite::{Connection, OpenFlags};

use crate::create;
use crate::error::Error;
use crate::migrate::MIGRATIONS;
use crate::seal::Seal;
use crate::{newest, read, seal};

/// Finds out what would keep a daemon from opening the catalogue at `path`, and what it says is lost or damaged. If a log is beside it, a
/// daemon is at work or was killed. `hold` tells which: it answers something that keeps daemons away while it lives, and nothing if one is
/// there. Beside one only the header is looked at, since what follows may change under the eyes of somebody who takes no lock.
pub(crate) fn look<T>(path: &Path, hold: impl FnOnce() -> Option<T>) -> Result<Vec<Harm>, Error> {
    if create::has_successor(path)? {
        return Ok(Vec::new());
    }
    if create::is_missing(path)? {
        return create::check_no_log(path).map(|()| Vec::new());
    }
    create::check_identity(path, MIGRATIONS.len())?;
    match create::check_no_log(path).and_then(|()| read_all(path)) {
        // Somebody may have begun to write meanwhile.
        Err(_) if create::check_no_log(path).is_err() => {
            hold().map_or(Ok(Vec::new()), |held| read_copy(path, held))
        }
        result => result,
    }
}

/// Reads it as a file that never changes.
fn read_all(path: &Path) -> Result<Vec<Harm>, Error> {
    let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // By its number, since a name may have characters that mean something else here.
    let uri = format!("file:/proc/self/fd/{}?immutable=1", file.as_raw_fd());
    let connection =
        Connection::open_with_flags(uri, flags).map_err(|error| Error::sqlite("look into", path, error))?;
    examine(&connection, newest::read(path)?.as_ref(), path)
}

/// Reads a copy of it with its log, since SQLite makes files beside what has one. What keeps daemons away is let go once the copy is made.
fn read_copy<T>(path: &Path, held: T) -> Result<Vec<Harm>, Error> {
    let folder = Folder::make()?;
    let copy = folder.0.join("catalogue.db");
    for suffix in ["", "-wal", "-journal"] {
        let file = create::beside(path, suffix);
        match fs::copy(&file, create::beside(&copy, suffix)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Whatever it is, it is nothing that would keep a daemon from the catalogue.
            copied => copied.map(drop).map_err(|source| Error::Io { doing: "copy", path: file, source })?,
        }
    }
    let acknowledged = newest::read(path)?;
    drop(held);
    let connection = Connection::open(&copy).map_err(|error| Error::sqlite("look into", path, error))?;
    examine(&connection, acknowledged.as_ref(), path)
}

fn examine(connection: &Connection, acknowledged: Option<&Seal>, path: &Path) -> Result<Vec<Harm>, Error> {
    let asked = |error| Error::sqlite("look into", path, error);
    let version: u32 = connection.query_row("pragma user_version", [], |row| row.get(0)).map_err(asked)?;
    // An older one is read once it is brought forward.
    if usize::try_from(version).is_ok_and(|version| version == MIGRATIONS.len()) {
        read::installation(connection, path)?;
        seal::check_newest(connection, acknowledged, path)?;
        return Ok(read::load(connection, None, path)?.harms());
    }
    Ok(Vec::new())
}

/// A folder for a copy that nobody else may look into. It is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, Error> {
        let path = env::temp_dir().join(format!("asat-look.{}", std::process::id()));
        // Whatever has that name already is somebody else's, and is left alone.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| Error::Io { doing: "make", path: path.clone(), source })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in the folder for what may be removed at any time.
        let _ = fs::remove_dir_all(&self.0);
    }
}
