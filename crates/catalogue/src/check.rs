//! Checking: whether the records are those that were committed.
//!
//! Reading them shows some damage; the rest is found by going through all of it, which takes as long as the history is. So a daemon that
//! starts on a long one has it done beside its work, and records nothing until it is over.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use asat_core::StoreName;
use rusqlite::Connection;

use crate::error::Error;
use crate::read::{Fault, Loader, bad, numbers_in};
use crate::values::{Int, Text};
use crate::{read_only, seal};

/// The check of a catalogue as it was at some time.
#[derive(Debug)]
pub struct Check {
    connection: Connection,
    path: PathBuf,
    outcome: Outcome,
}

/// What a check has found, once it is over: nothing if the catalogue is sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome(Arc<OnceLock<Option<Arc<Error>>>>);

impl Check {
    /// A check of a catalogue as it is now: what is committed later is not seen.
    pub(crate) fn begin(path: &Path) -> Result<Self, Error> {
        let connection = read_only(path)?;
        let refused = |error| Error::sqlite("read", path, error);
        connection.execute_batch("begin; select * from meta limit 1").map_err(refused)?;
        Ok(Self { connection, path: path.to_owned(), outcome: Outcome::default() })
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    /// Checks everything, which takes as long as reading every record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn run(self) -> Result<(), Error> {
        let found = check_whole(&self.connection, &self.path).err().map(Arc::new);
        let found = self.outcome.0.get_or_init(|| found);
        found.as_ref().map_or(Ok(()), |found| Err(Error::Checked(Arc::clone(found))))
    }
}

impl Drop for Check {
    /// What nobody has checked is not believed.
    fn drop(&mut self) {
        let what = "its records were not checked, as that was broken off";
        self.outcome.0.get_or_init(|| Some(Arc::new(Error::damaged(&self.path, what))));
    }
}

impl Outcome {
    /// What the check has found, if it is over.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn so_far(&self) -> Result<(), Error> {
        self.0.get().and_then(Option::as_ref).map_or(Ok(()), |found| Err(Error::Checked(Arc::clone(found))))
    }

    /// Waits for the end of the check.
    ///
    /// # Errors
    /// What it has found.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.0.wait().as_ref().map_or(Ok(()), |found| Err(Error::Checked(Arc::clone(found))))
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
