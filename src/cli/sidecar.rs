//! Files that SQLite keeps beside a database, which no command replaces: the database is read together with them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How their names end (<https://www.sqlite.org/tempfiles.html>).
const SUFFIXES: [&str; 3] = ["-wal", "-journal", "-shm"];

/// The database that is there and beside which SQLite takes a file for its own, if the file is called so.
pub(super) fn database_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes();
    let database = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix.as_bytes()))?;
    let database = path.with_file_name(OsStr::from_bytes(database));
    database.is_file().then_some(database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_name_if_the_database_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.db"), "").unwrap();
        for (name, database) in [
            ("a.db-wal", true),
            ("a.db-journal", true),
            ("a.db-shm", true),
            ("a.db", false),
            ("b.db-wal", false),
            ("-wal", false),
        ] {
            assert_eq!(database_of(&path(name)), database.then(|| path("a.db")), "{name}");
        }
    }
}
