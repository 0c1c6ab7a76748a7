//! Checking: whether the records are those that were committed.
//!
//! Reading them shows some damage; the rest is found by going through all of it, which takes as long as the history is. So a daemon that
//! starts on a long one has it done beside its work, and records nothing until it is over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use asat_core::StoreName;
use rusqlite::Connection;

use crate::error::Error;
use crate::read::{Fault, Loader, bad, begin, numbers_in};
use crate::values::{Int, Text};
use crate::{read_only, seal};

/// The check of a catalogue in which nothing is recorded until that is over. It is run once, by the first who needs to know what it finds;
/// the others wait for it.
#[derive(Clone, Debug)]
pub struct Check(Arc<Run>);

#[derive(Debug)]
struct Run {
    path: Box<Path>,
    /// Opened with the catalogue, and used once: that it cannot be opened is no damage, and what is put in its place is not what was read.
    connection: Mutex<Option<Connection>>,
    has_begun: AtomicBool,
    /// What it has found, once it is over: nothing if the catalogue is sound.
    found: OnceLock<Option<Arc<Error>>>,
}

impl Check {
    pub(crate) fn of(path: &Path) -> Result<Self, Error> {
        Ok(Self(Arc::new(Run {
            path: path.into(),
            connection: Mutex::new(Some(read_only(path)?)),
            has_begun: AtomicBool::new(false),
            found: OnceLock::new(),
        })))
    }

    /// Checks everything, which takes as long as reading every record, or waits for the one who does.
    ///
    /// # Errors
    /// What is wrong with it; [`Error::Unchecked`] if that cannot be found out.
    pub fn run(&self) -> Result<(), Error> {
        self.0.has_begun.store(true, Ordering::Relaxed);
        told(self.0.found.get_or_init(|| self.0.look_at_all().err().map(Arc::new)).as_ref())
    }

    /// What it has found, if it is over.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn so_far(&self) -> Result<(), Error> {
        told(self.0.found.get().and_then(Option::as_ref))
    }

    /// Whether it is under way, or over.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Relaxed)
    }
}

fn told(found: Option<&Arc<Error>>) -> Result<(), Error> {
    found.map_or(Ok(()), |found| Err(Error::Checked(Arc::clone(found))))
}

impl Run {
    fn look_at_all(&self) -> Result<(), Error> {
        let unchecked = || Error::Unchecked { path: self.path.to_path_buf() };
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        let connection = connection.ok_or_else(unchecked)?;
        let look = || check_whole(&*begin(&connection, &self.path)?, &self.path);
        // What nobody has checked is not believed.
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| Err(unchecked()))
    }
}

/// Refuses a catalogue whose file is not sound, whose records are not those that were committed, or whose chunks say something else than
/// its rows. The connection has begun to read one commit.
pub(crate) fn check_whole(connection: &Connection, path: &Path) -> Result<(), Error> {
    check_structure(connection, path)?;
    check_head(connection, path)?;
    seal::check(connection, path)?;
    check_chunks(connection, path)
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

/// Reads the rows of each chunk, and packs them anew.
fn check_chunks(connection: &Connection, path: &Path) -> Result<(), Error> {
    let refused = |error| Error::sqlite("read", path, error);
    let mut loader = Loader::new(connection, path);
    loader.stores()?;
    let stores = loader.register;
    let mut statement = connection.prepare("select store, number, packed from chunk").map_err(refused)?;
    let mut chunks = statement.query([]).map_err(refused)?;
    while let Some(row) = chunks.next().map_err(refused)? {
        let of_row = (|| {
            let (Text(store), Int(number)) = (row.get::<_, Text<StoreName>>(0)?, row.get(1)?);
            let mut rows = Loader { connection, path, register: stores.clone() };
            rows.versions(&store, numbers_in(number))?;
            match rows.register.packed(&store, number) {
                Some(packed) if row.get_ref(2)?.as_blob() == Ok(&packed) => Ok(()),
                _ => Err(Fault::Meaning("it does not say what the rows of its versions say".to_owned())),
            }
        })();
        of_row.map_err(|fault| bad(path, "chunk", 2, row, fault))?;
    }
    Ok(())
}
