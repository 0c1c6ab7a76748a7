//! One read transaction on a store: opened, waited for, and ended with every lock released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB};

use super::content::Content;
use super::error::Error;
use super::file::{StoreFile, with_steady};
use super::open;
use super::target::Target;
use super::wait::Wait;
use crate::clock;

/// A read transaction whose content is fixed.
pub(super) struct Transaction {
    connection: Connection,
    /// The file that is read.
    pub(super) file: Arc<StoreFile>,
    /// What was fixed.
    pub(super) content: Content,
    /// The instant just after it was fixed.
    pub(super) cut_at: Timestamp,
    /// The instant since which a lock may have been held.
    pub(super) since: Instant,
}

impl Transaction {
    /// Opens the store and fixes its content. A store that is replaced by another file meanwhile is opened
    /// again, so that the content is that of the file which has the name.
    pub(super) fn begin(store: &Target, wait: &Wait<'_>) -> Result<Self, Error> {
        with_steady(store, |file| Self::begin_on(file, wait))
    }

    /// Opens this file and fixes its content.
    pub(super) fn begin_on(file: Arc<StoreFile>, wait: &Wait<'_>) -> Result<Self, Error> {
        let connection = open::for_reading(&file)?;
        let (since, content, cut_at) = fix(&connection, &file, wait)?;
        Ok(Self { connection, file, content, cut_at, since })
    }

    /// The connection, for statements within the transaction.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The same, for statements that are bounded by handlers.
    pub(super) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Whether this process may only read the store.
    pub(super) fn is_read_only(&self) -> bool {
        self.connection.is_readonly(MAIN_DB).unwrap_or(true)
    }

    /// Whether closing the store moves its WAL into the file and removes it, where nobody else has it open.
    pub(super) fn tidies(&self, tidies: bool) -> Result<(), Error> {
        let set = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !tidies);
        set.map(drop).map_err(|error| self.file.explain(&error))
    }

    /// How long the transaction has lasted.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Lets what was fixed go, does something while the store is open and not read, and fixes its newest content.
    pub(super) fn renew<T>(
        &mut self,
        wait: &Wait<'_>,
        between: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.rest()?;
        let done = between(&self.connection)?;
        self.again(wait)?;
        Ok(done)
    }

    /// Lets what was fixed go. The store stays open, and nothing is to be read before [`Self::again`].
    pub(super) fn rest(&self) -> Result<(), Error> {
        self.connection.execute_batch("ROLLBACK").map_err(|error| self.file.explain(&error))
    }

    /// Fixes the newest content of a store that stayed open.
    pub(super) fn again(&mut self, wait: &Wait<'_>) -> Result<(), Error> {
        let fixed = fix(&self.connection, &self.file, wait);
        if fixed.is_err() && !self.connection.is_autocommit() {
            // It was begun, and nothing was fixed. If this fails, closing ends it.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        (self.since, self.content, self.cut_at) = fixed?;
        Ok(())
    }

    /// Ends the transaction, closes the store, and says how long the transaction lasted.
    pub(super) fn end(self) -> Duration {
        // Nothing was written, so there is nothing that ending could fail to do: where the statement fails,
        // closing releases the locks.
        let _ = self.connection.execute_batch("ROLLBACK");
        let _ = self.connection.close();
        self.since.elapsed()
    }
}

/// Takes the lock that fixes the content, and looks what that is.
fn fix(
    connection: &Connection,
    file: &StoreFile,
    wait: &Wait<'_>,
) -> Result<(Instant, Content, Timestamp), Error> {
    connection.execute_batch("BEGIN").map_err(|error| file.explain(&error))?;
    // BEGIN alone takes no lock: the first read does.
    let read = || connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    let (since, ()) = wait.until_free(file, read)?;
    let cut_at = clock::now();
    let content = Content::read(connection, &file.path)?;
    if content.wal {
        open::check_wal(connection, file)?;
    }
    let (main, wal) = file.lengths()?;
    content.check_lengths(&file.path, main, wal)?;
    Ok((since, content, cut_at))
}
