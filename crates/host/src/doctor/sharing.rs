//! Whether the daemon and the application can write one store without locking each other out.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use crate::store::sidecars::{Maker, Rights, groups_of, lock_out, user_name};

/// How the daemon's user and those who write a store get on beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The daemon is root or the store's owner, or what it makes there can be written by those who write the store.
    Shared,
    /// The daemon's user may not even read the store.
    Unreadable {
        /// That user.
        user: String,
    },
    /// The daemon can make nothing beside the store.
    ReadOnly {
        /// Whether the store is in WAL mode.
        wal: bool,
    },
    /// What the daemon would make beside the store would lock its application out, so the daemon makes nothing.
    LocksOut {
        /// Whether the store is in WAL mode.
        wal: bool,
        /// Who would be locked out, and why.
        why: String,
    },
    /// A file beside the store cannot be written by one of the two.
    Locked {
        /// The file.
        path: PathBuf,
        /// Who cannot write it.
        user: String,
    },
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// Judges a store for a daemon that runs as this user. Not for a process that opens the store through SQLite, whose locks
/// would be lost.
#[must_use]
pub fn sharing(store: &Path, daemon: u32) -> Sharing {
    look(store, daemon).unwrap_or_else(|error| Sharing::Unknown(error.to_string()))
}

fn look(store: &Path, daemon: u32) -> std::io::Result<Sharing> {
    let path = fs::canonicalize(store)?;
    let rights = |path: &Path| fs::metadata(path).map(|found| Rights::of(&found));
    let (file, folder) = (rights(&path)?, rights(path.parent().unwrap_or(&path))?);
    let owners = groups_of(file.user);
    let groups = groups_of(daemon);
    if !file.let_read(daemon, &groups) {
        return Ok(Sharing::Unreadable { user: user_name(daemon) });
    }
    let sidecars: Vec<PathBuf> = ["-wal", "-shm", "-journal"].map(|suffix| beside(&path, suffix)).into();
    let locked = |user: u32, groups: &[u32]| {
        let is_locked = |path: &&PathBuf| rights(path).is_ok_and(|found| !found.let_write(user, groups));
        let path = sidecars.iter().find(is_locked)?.clone();
        Some(Sharing::Locked { path, user: user_name(user) })
    };
    if let Some(locked) = locked(file.user, &owners) {
        return Ok(locked);
    }
    if daemon == 0 || daemon == file.user {
        return Ok(Sharing::Shared);
    }
    let wal = is_in_wal_mode(&path)?;
    if !folder.let_write(daemon, &groups) {
        return Ok(Sharing::ReadOnly { wal });
    }
    let group = User::from_uid(Uid::from_raw(daemon))?.map_or(daemon, |user| user.gid.as_raw());
    let maker = Maker { user: daemon, group, gives: false };
    Ok(match lock_out(file, folder, maker, |_| owners.clone()) {
        Some(why) => Sharing::LocksOut { wal, why },
        None if file.let_write(daemon, &groups) => locked(daemon, &groups).unwrap_or(Sharing::Shared),
        None => Sharing::ReadOnly { wal },
    })
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether the header says that the database is in WAL mode. As [`sharing`], not for a process that opens the store through SQLite.
pub fn is_in_wal_mode(path: &Path) -> std::io::Result<bool> {
    let mut header = [0; 20];
    let read = File::open(path)?.read_at(&mut header, 0)?;
    Ok(read == header.len() && header.ends_with(&[2, 2]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use rusqlite::Connection;

    use super::*;

    /// Debian's users `daemon` and `bin`, each in a group of its own number.
    const APPLICATION: u32 = 1;
    const ASAT: u32 = 2;

    fn judged(journal: &str, group: u32, folder: u32, file: u32) -> Sharing {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store.db");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", journal).unwrap();
        connection.execute_batch("create table t (a)").unwrap();
        drop(connection);
        for (path, mode) in [(&path, file), (&place.path().to_owned(), folder)] {
            chown(path, Some(APPLICATION), Some(group)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        sharing(&path, ASAT)
    }

    #[test]
    fn installations_are_told_apart() {
        assert!(rustix::process::geteuid().is_root(), "this test gives files to other users: run it as root");
        assert_eq!(judged("wal", APPLICATION, 0o2777, 0o666), Sharing::Shared);
        assert_eq!(judged("wal", APPLICATION, 0o755, 0o644), Sharing::ReadOnly { wal: true });
        assert_eq!(judged("delete", APPLICATION, 0o755, 0o644), Sharing::ReadOnly { wal: false });
        for (folder, file) in [(0o775, 0o664), (0o2775, 0o664)] {
            let found = judged("wal", ASAT, folder, file);
            let Sharing::LocksOut { wal: true, why } = &found else { panic!("{found:?}") };
            assert!(
                why.contains("the user daemon, to whom the store belongs, is not in that group"),
                "{why}"
            );
        }
        assert!(matches!(judged("delete", ASAT, 0o775, 0o664), Sharing::LocksOut { wal: false, .. }));
        for mode in [0o600, 0o660] {
            let user = "the user bin".to_owned();
            assert_eq!(judged("wal", APPLICATION, 0o755, mode), Sharing::Unreadable { user });
        }
    }

    #[test]
    fn what_an_earlier_start_has_left_is_found() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store.db");
        drop(Connection::open(&path).unwrap().execute_batch("create table t (a)"));
        let wal = place.path().join("store.db-wal");
        fs::write(&wal, "").unwrap();
        for (path, user) in [(&path, APPLICATION), (&place.path().to_owned(), APPLICATION), (&wal, ASAT)] {
            chown(path, Some(user), Some(user)).unwrap();
        }
        let user = "the user daemon".to_owned();
        assert_eq!(sharing(&path, ASAT), Sharing::Locked { path: wal.canonicalize().unwrap(), user });
    }
}
