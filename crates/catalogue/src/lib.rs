//! The catalogue: the durable record of stores, versions, publications, leases, intents, what the guard did and
//! who did what, kept in one SQLite file.
//!
//! The engine decides changes, and the catalogue commits them, all or nothing, before anything else happens.
//! Its rows are given back as changes too and folded into a [`Register`], so that what a restarted daemon
//! knows is what the one before it knew. Every row stands in plain columns, so that an administrator can
//! question the history with nothing but the `sqlite3` program.
//!
//! Only one process may have a catalogue open for writing. The lock on the state folder sees to that.

mod audit;
mod check;
mod create;
mod error;
mod guard;
mod log;
mod look;
mod migrate;
mod newest;
#[doc(hidden)]
pub mod outside;
mod place;
mod read;
mod seal;
mod shared;
#[cfg(test)]
mod tests;
mod trail;
mod values;
mod write;

use std::path::{Path, PathBuf};

use asat_core::boundary;
use asat_core::event::Change;
use asat_core::harm::Harm;
use asat_core::recorder::Commit;
use asat_core::register::Register;
use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::audit::Adding;
pub use crate::check::Check;
pub use crate::error::Error;
pub use crate::guard::About;
use crate::migrate::{MIGRATIONS, Migration};
use crate::newest::Newest;
use crate::place::Place;
use crate::seal::{Keeping, Seal};
pub use crate::trail::Trail;

/// The open catalogue.
#[derive(Debug)]
pub struct Catalogue {
    connection: Connection,
    path: PathBuf,
    installation: String,
    /// What the newest commit has written down.
    seal: Seal,
    keeping: Keeping,
    newest: Newest,
    place: Place,
    /// Why nothing is recorded any more: what is on the disk may not be what was answered.
    unsure: Option<String>,
    /// Why the newest commit is not named beside the catalogue.
    unnamed: Option<Error>,
    /// When it was written last before it was opened, as its files say.
    written_at: Option<Timestamp>,
    /// The check of its records, until it is known that they are sound.
    check: Option<Check>,
}

impl Catalogue {
    /// Opens the catalogue, and creates it where there is none. An older one is brought up to date, after a
    /// copy of it was put beside it as `<path>.v<N>`.
    ///
    /// # Errors
    /// [`Error::Foreign`] and [`Error::Newer`], both of which leave the file as it is; [`Error::Damaged`];
    /// or what the machine answered.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, MIGRATIONS)
    }

    /// The same. Where it is created, it is that of this installation, and else of a new one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_of(path: &Path, installation: Option<&str>) -> Result<Self, Error> {
        create::take_place(path)?;
        if create::is_missing(path)? {
            create::create(path, MIGRATIONS, installation)?;
        }
        Self::open(path)
    }

    fn open_with(path: &Path, migrations: &[Migration]) -> Result<Self, Error> {
        create::take_place(path)?;
        // Bringing it forward writes to it.
        let written_at = written_at(path);
        if create::is_missing(path)? {
            create::create(path, migrations, None)?;
        }
        create::check_identity(path, migrations.len())?;
        let mut connection = connect(path)?;
        migrate::bring_forward(&mut connection, path, migrations)?;
        let asked = |error| Error::sqlite("set up", path, error);
        let mode: String = connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
            .map_err(asked)?;
        if mode != "wal" {
            let what = format!("its file system offers no write-ahead log, only journal mode {mode}");
            return Err(Error::Unsuitable { path: path.to_owned(), what });
        }
        connection.pragma_update(None, "foreign_keys", true).map_err(asked)?;
        let installation = read::installation(&connection, path)?;
        let seal =
            seal::read(&connection, path)?.ok_or_else(|| Error::damaged(path, "it has no table seal"))?;
        let keeping = Keeping::begin(&connection).map_err(asked)?;
        let newest = Newest::begin(path, &seal)?;
        let place = Place::of(path)?;
        let path = path.to_owned();
        let (unsure, unnamed, check) = (None, None, None);
        Ok(Self {
            connection,
            path,
            installation,
            seal,
            keeping,
            newest,
            place,
            unsure,
            unnamed,
            written_at,
            check,
        })
    }

    /// The name of this installation: 32 hexadecimal digits that were drawn when the catalogue was created.
    #[must_use]
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// The newest commit.
    #[must_use]
    pub fn newest_commit(&self) -> Commit {
        Commit { line: self.seal.line.clone(), number: self.seal.number }
    }

    /// When it was written last before it was opened, by what the machine's clock said then; nothing where its files do not tell.
    #[must_use]
    pub fn written_at(&self) -> Option<Timestamp> {
        self.written_at
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Commits changes durably, all or nothing.
    ///
    /// # Errors
    /// [`Error::Full`] where the disk is full; otherwise what SQLite answered. Nothing has changed then, and a later call may well
    /// succeed. After [`Error::Unsure`] alone it is not known whether anything has, and nothing more is recorded.
    pub fn record(&mut self, changes: &[Change]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        match self.commit(changes) {
            // Space is given back by retiring versions, and that too must be recorded first.
            Err(Error::Full { .. }) if self.reuse_log() => self.commit(changes),
            result => result,
        }
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.transact("record a change in", |transaction| {
            let mut trail = Adding::new(transaction);
            changes.iter().try_for_each(|change| write::apply(transaction, &mut trail, change))?;
            trail.finish()
        })
    }

    /// Writes and commits. After an error nothing has changed, neither for those who read now nor for a daemon that starts after a kill;
    /// where that is not certain, nothing is recorded any more.
    fn transact(
        &mut self,
        doing: &'static str,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        self.check()?;
        self.have_checked()?;
        let refused = |error| Error::sqlite(doing, &self.path, error);
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, behavior).map_err(refused)?;
        self.keeping.go_on_from(&self.seal);
        write(&transaction).map_err(refused)?;
        let seal = self.keeping.seal(&transaction, &self.seal).map_err(refused)?;
        boundary::pass("catalogue: commit");
        if let Err(error) = transaction.commit() {
            let error = refused(error);
            let Err(failed) = log::cut(&self.connection, &self.path) else { return Err(error) };
            self.unsure = Some(format!("{error}; {failed}"));
            return self.check();
        }
        boundary::pass("catalogue: committed");
        // What was deleted meanwhile has taken the commit with it, or somebody has it still and brings it back.
        if let Err(error) = self.place.check() {
            self.unsure = Some(error.to_string());
            return Err(error);
        }
        self.unnamed = self.newest.name(&seal).err();
        self.seal = seal;
        Ok(())
    }

    /// Finds out whether anything can be recorded: the catalogue's files have to be where they were, and nothing wrong was found.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Unsure`] and [`Error::Checked`].
    pub fn check(&self) -> Result<(), Error> {
        if let Some(what) = &self.unsure {
            return Err(Error::Unsure { path: self.path.clone(), what: what.clone() });
        }
        self.check.as_ref().map_or(Ok(()), Check::so_far)?;
        self.place.check()
    }

    /// Why the newest commit could not be named beside the catalogue, if it could not. It is durable all the same; that it is there would
    /// not be noticed if it were damaged.
    pub fn take_unnamed(&mut self) -> Option<Error> {
        self.unnamed.take()
    }

    /// Carries the log over into the catalogue, so that its space on the disk is written again from the
    /// beginning. Says whether that was possible.
    fn reuse_log(&self) -> bool {
        let busy =
            self.connection.query_row("pragma wal_checkpoint(restart)", [], |row| row.get::<_, bool>(0));
        busy.is_ok_and(|busy| !busy)
    }

    /// Reads every row back.
    ///
    /// # Errors
    /// [`Error::Row`], naming the table and the row, where one cannot be read; [`Error::Damaged`].
    pub fn load(&self) -> Result<Register, Error> {
        let read = |other| read::load(&self.connection, Some(other), &self.path);
        read_only(&self.path).and_then(read).inspect_err(|_| {
            // It stays as it is: its log is not applied when it is closed. That this cannot be asked for, says less than what is wrong.
            let _ = keep_log(&self.connection, true);
        })
    }

    /// Whether it is so short that to check it takes no longer than the rest of a start.
    ///
    /// # Errors
    /// What SQLite answered.
    pub fn is_short(&self) -> Result<bool, Error> {
        const SHORT_BYTES: i64 = 256 << 10;
        let sql = "select page_count * page_size from pragma_page_count, pragma_page_size";
        let bytes = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let bytes = bytes.map_err(|error| Error::sqlite("read", &self.path, error))?;
        Ok(bytes <= SHORT_BYTES)
    }

    /// Reads the records, and leaves it to the caller when they are checked: that takes the longer, the longer the history is, and reading
    /// them does not. Nothing is recorded before that: the first commit runs the check if nobody else has, and fails if it finds something.
    ///
    /// # Errors
    /// As [`Self::load`], of what is read.
    pub fn read(&mut self) -> Result<(Register, Check), Error> {
        // As long as it may be damaged, it stays as it is: its log is not applied when it is closed.
        keep_log(&self.connection, true).map_err(|error| Error::sqlite("read", &self.path, error))?;
        let check = Check::of(&self.path)?;
        let register = read::read(&self.connection, &self.path)?;
        self.check = Some(check.clone());
        Ok((register, check))
    }

    /// Waits for the check if somebody has begun it. If the catalogue is sound, its log is applied when it is closed. If nobody has begun the
    /// check, none is needed: the log is left as it is.
    ///
    /// # Errors
    /// What the check has found.
    pub fn end_check(&mut self) -> Result<(), Error> {
        match &self.check {
            Some(check) if check.has_begun() => self.have_checked(),
            _ => Ok(()),
        }
    }

    fn have_checked(&mut self) -> Result<(), Error> {
        if let Some(check) = &self.check {
            check.run()?;
            keep_log(&self.connection, false).map_err(|error| Error::sqlite("read", &self.path, error))?;
            self.check = None;
        }
        Ok(())
    }

    /// Reads everything as [`Self::load`] does, beside somebody who may have the catalogue open for writing, and holds it against what
    /// was acknowledged. The audit trail is not followed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(path: &Path) -> Result<(), Error> {
        // Before anything is read: more may be committed meanwhile, and not less.
        let acknowledged = newest::read(path)?;
        let connection = read_only(path)?;
        let refused = |error| Error::sqlite("read", path, error);
        let transaction = connection.unchecked_transaction().map_err(refused)?;
        seal::check_newest(&transaction, acknowledged.as_ref(), path)?;
        drop(transaction);
        read::load(&connection, Some(read_only(path)?), path).map(drop)
    }

    /// Whether there is no catalogue at a path. An empty file counts as none.
    ///
    /// # Errors
    /// What the machine answered.
    pub fn is_missing(path: &Path) -> Result<bool, Error> {
        create::is_missing(path)
    }

    /// Finds out what would keep a daemon from opening the catalogue at `path`, as far as that shows without changing anything, and
    /// without being in the way of one that has it open. `hold` is asked if that may be so: it answers something that keeps daemons away
    /// while it lives, and nothing if one is there; then no more than the header is looked at.
    ///
    /// # Errors
    /// What opening it would answer.
    pub fn look<T>(path: &Path, hold: impl FnOnce() -> Option<T>) -> Result<Vec<Harm>, Error> {
        look::look(path, hold)
    }

    /// Writes a consistent copy of the catalogue at `path`, which a daemon may have open, to a path at which there is no
    /// file yet. What is being cut at this moment is not in it.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Newer`] and [`Error::Taken`]; [`Error::Damaged`] if its records are not what was committed, or the
    /// newest commit is older than one that was acknowledged; or what the machine answered. Nothing is left at `to` then.
    pub fn back_up(path: &Path, to: &Path) -> Result<(), Error> {
        create::check_identity(path, MIGRATIONS.len())?;
        let taken = to.try_exists().map_err(|source| Error::io("look at", to, source))?;
        if taken {
            return Err(Error::Taken { path: to.to_owned() });
        }
        create::copy_to_new(&read_only(path)?, path, to)
    }

    /// An empty catalogue of this installation, or of a new one, that is to take the place of the one at `path`, or of none. Until
    /// [`Self::put_in_place`] nothing is changed there.
    ///
    /// # Errors
    /// What the machine answered.
    pub fn begin_anew(path: &Path, installation: Option<&str>) -> Result<Self, Error> {
        let draft = create::beside(path, ".anew");
        create::discard(&draft)?;
        Self::open_of(&draft, installation)
    }

    /// Gives up a catalogue that was begun anew.
    ///
    /// # Errors
    /// What the machine answered.
    pub fn give_up(self) -> Result<(), Error> {
        let Self { connection, path: draft, .. } = self;
        drop(connection);
        create::discard(&draft)
    }

    /// Puts a catalogue that was begun anew at `path`. What is there is kept beside it, under a name with the suffix
    /// `.<kept>`, which is answered.
    ///
    /// # Errors
    /// What the machine answered.
    pub fn put_in_place(self, path: &Path, kept: &str) -> Result<Option<PathBuf>, Error> {
        let Self { connection, path: draft, .. } = self;
        // Its log goes with its last connection.
        connection.close().map_err(|(_, error)| Error::sqlite("create", &draft, error))?;
        newest::forget(&draft)?;
        create::exchange(&draft, path, kept)
    }
}

/// When a catalogue or its log was written last.
fn written_at(path: &Path) -> Option<Timestamp> {
    let files = [path.to_owned(), create::beside(path, "-wal")];
    let modified = |file: &PathBuf| std::fs::metadata(file).and_then(|found| found.modified()).ok();
    files.iter().filter_map(modified).filter_map(|time| Timestamp::try_from(time).ok()).max()
}

/// How much of the catalogue a connection keeps in memory, in KiB, as SQLite takes it. All of it is read once, in order, and a commit needs
/// few pages of it again.
const CACHE_KIB: i32 = -512;

/// Opens a connection that changes nothing.
fn read_only(path: &Path) -> Result<Connection, Error> {
    shared::reserve();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let refused = |error| Error::sqlite("open", path, error);
    let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    set_up(&connection).map_err(refused)?;
    Ok(connection)
}

/// Opens a connection that commits durably. It never creates the file.
fn connect(path: &Path) -> Result<Connection, Error> {
    shared::reserve();
    let refused = |error| Error::sqlite("open", path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "synchronous", "full").map_err(refused)?;
    set_up(&connection).map_err(refused)?;
    Ok(connection)
}

/// What all connections have in common.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    // Otherwise SQLite prepares a statement anew whenever its parameters are others, to see whether another plan is better now.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", CACHE_KIB)
}

/// Whether the log stays as it is when its last connection is closed.
fn keep_log(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}
