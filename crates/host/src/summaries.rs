//! Summaries of what differs between versions, kept beside the catalogue so that nobody has to compare the same versions again.
//!
//! All of it can be made anew from the archive, so a file that cannot be read is begun anew, be it when it is opened or when something is
//! looked for in it. What was kept last may be missing after a power cut.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use asat_core::StoreName;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

/// The layout of the file. One of another number is begun anew.
const LAYOUT: i64 = 1;
/// So many summaries are kept, those that were made last.
const MOST: i64 = 20_000;

const TABLES: &str = "
    CREATE TABLE summary(old TEXT NOT NULL, new TEXT NOT NULL, text TEXT NOT NULL, UNIQUE(old, new));
    CREATE TABLE told(reader TEXT, store TEXT, number INTEGER NOT NULL, PRIMARY KEY(reader, store)) WITHOUT ROWID;
";

/// The file, and what is in it.
pub struct Summaries {
    path: PathBuf,
    /// Is told if the file cannot be used.
    warn: fn(&str),
    connection: Mutex<Option<Connection>>,
}

impl Summaries {
    /// Opens the file, or begins it. If that fails, nothing is kept; `warn` is told of it.
    #[must_use]
    pub fn open(path: &Path, warn: fn(&str)) -> Self {
        let connection = open(path).map_or_else(|error| begin_anew(path, warn, &error), Some);
        Self { path: path.to_owned(), warn, connection: Mutex::new(connection) }
    }

    /// The summary of what differs between two contents, if it is kept.
    #[must_use]
    pub fn find(&self, old: &str, new: &str) -> Option<String> {
        self.with(|connection| {
            let find = "SELECT text FROM summary WHERE old = ?1 AND new = ?2";
            connection.prepare_cached(find)?.query_row([old, new], |row| row.get(0)).optional()
        })
        .flatten()
    }

    /// Keeps a summary.
    pub fn keep(&self, old: &str, new: &str, text: &str) {
        self.with(|connection| {
            let keep = "INSERT OR REPLACE INTO summary(old, new, text) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(keep)?.execute([old, new, text])?;
            let forget = "DELETE FROM summary WHERE rowid <= (SELECT max(rowid) FROM summary) - ?1";
            connection.prepare_cached(forget)?.execute([MOST])
        });
    }

    /// The newest version of a store that a reader was told of.
    #[must_use]
    pub fn told(&self, reader: &str, store: &StoreName) -> Option<u64> {
        let number = self.with(|connection| {
            let find = "SELECT number FROM told WHERE reader = ?1 AND store = ?2";
            let row = params![reader, store.as_str()];
            connection.prepare_cached(find)?.query_row(row, |row| row.get::<_, i64>(0)).optional()
        });
        number.flatten().and_then(|number| u64::try_from(number).ok())
    }

    /// Takes note that a reader was told of a version of a store.
    pub fn tell(&self, reader: &str, store: &StoreName, number: u64) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.with(|connection| {
            let tell = "INSERT OR REPLACE INTO told(reader, store, number) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(tell)?.execute(params![reader, store.as_str(), number])
        });
    }

    /// Asks the file something. What fails is as if it were not kept. A damaged file is begun anew; one that fails otherwise, as on a full
    /// disk, is not asked again.
    fn with<T>(&self, ask: impl Fn(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let mut connection = self.lock();
        let mut answer = ask(connection.as_ref()?);
        if let Err(error) = &answer
            && let Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) = error.sqlite_error_code()
        {
            *connection = None;
            *connection = begin_anew(&self.path, self.warn, error);
            answer = ask(connection.as_ref()?);
        }
        if let Err(error) = &answer {
            (self.warn)(&format!("{} is not used until the next start: {error}", self.path.display()));
            *connection = None;
        }
        answer.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin_anew(path: &Path, warn: fn(&str), why: &rusqlite::Error) -> Option<Connection> {
    warn(&format!("{} cannot be used, and is begun anew: {why}", path.display()));
    // If it cannot be removed, opening it fails next and says why. SQLite itself removes a journal without its file.
    let _ = fs::remove_file(path);
    let connection = open(path).inspect_err(|error| {
        warn(&format!("{} cannot be made, so that summaries are not kept: {error}", path.display()));
    });
    connection.ok()
}

/// Nothing is checked here: that would take the longer, the more is kept.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    // What differs between versions is for those alone who may see the versions. If it cannot be made so, opening it says why.
    let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let _ = made.and_then(|file| file.set_permissions(fs::Permissions::from_mode(0o600)));
    let connection = Connection::open(path)?;
    // It is small, and has no log beside it: on a full disk, room is for versions. Its journal is emptied and not deleted, as a program
    // that copies the folder fails if a file is deleted meanwhile.
    connection
        .execute_batch("PRAGMA page_size = 1024; PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256")?;
    match connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
        LAYOUT => Ok(connection),
        0 => {
            connection.execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {LAYOUT}; COMMIT"))?;
            Ok(connection)
        }
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_after_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summaries.db");
        let summaries = Summaries::open(&path, |_| {});
        assert_eq!(summaries.find("report@1", "report@2"), None);
        summaries.keep("report@1", "report@2", "a");
        summaries.keep("report@1", "report@2", "b");
        summaries.tell("page", &"report".parse().unwrap(), 2);
        drop(summaries);
        let summaries = Summaries::open(&path, |_| {});
        assert_eq!(summaries.find("report@1", "report@2").as_deref(), Some("b"));
        assert_eq!(summaries.find("report@2", "report@1"), None);
        assert_eq!(summaries.told("page", &"report".parse().unwrap()), Some(2));
        assert_eq!(summaries.told("other", &"report".parse().unwrap()), None);
        assert_eq!(summaries.told("page", &"other".parse().unwrap()), None);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summaries.db");
        fs::write(&path, "no database, and long enough to be one of those that SQLite looks at".repeat(100))
            .unwrap();
        let summaries = Summaries::open(&path, |_| {});
        summaries.keep("report@1", "report@2", "a");
        assert_eq!(summaries.find("report@1", "report@2").as_deref(), Some("a"));
    }

    #[test]
    fn a_file_that_turns_out_to_be_damaged_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summaries.db");
        let summaries = Summaries::open(&path, |_| {});
        (0..100).for_each(|nth| summaries.keep("report@1", &format!("report@{nth}"), &"x".repeat(1000)));
        drop(summaries);
        let mut bytes = fs::read(&path).unwrap();
        // The first pages say what the file is, and are sound.
        bytes[8192..].fill(0x55);
        fs::write(&path, bytes).unwrap();
        let summaries = Summaries::open(&path, |_| {});
        assert_eq!(summaries.find("report@1", "report@70"), None);
        summaries.keep("report@1", "report@2", "a");
        assert_eq!(summaries.find("report@1", "report@2").as_deref(), Some("a"));
    }

    #[test]
    fn the_journal_of_a_file_that_cannot_be_read_does_not_come_into_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summaries.db");
        let (journal, aside) = (path.with_extension("db-journal"), folder.path().join("aside"));
        let summaries = Summaries::open(&path, |_| {});
        (0..100).for_each(|nth| summaries.keep("report@1", &format!("old {nth}"), &"x".repeat(1000)));
        drop(summaries);
        // A change that is broken off once it has written to the file, as by a kill.
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE summary SET text = text || 'y'")
            .unwrap();
        assert!(fs::metadata(&journal).unwrap().len() > 10_000);
        fs::copy(&journal, &aside).unwrap();
        drop(connection);
        for lost in [true, false] {
            fs::copy(&aside, &journal).unwrap();
            fs::remove_file(&path).unwrap();
            if !lost {
                fs::write(&path, "no database".repeat(10_000)).unwrap();
            }
            let summaries = Summaries::open(&path, |_| {});
            summaries.keep("report@1", "report@2", "a");
            drop(summaries);
            let summaries = Summaries::open(&path, |said| panic!("{said}"));
            assert_eq!(summaries.find("report@1", "report@2").as_deref(), Some("a"));
        }
    }

    #[test]
    fn a_folder_that_is_not_there_keeps_nothing_and_disturbs_nobody() {
        let summaries = Summaries::open(Path::new("/nonexistent/summaries.db"), |_| {});
        summaries.keep("report@1", "report@2", "a");
        assert_eq!(summaries.find("report@1", "report@2"), None);
    }
}
