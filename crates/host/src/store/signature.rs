//! Whether a store may have been written to, told in microseconds: without a lock, and without opening it.
//!
//! Whoever commits writes to the database file or to its WAL, and the kernel gives what is written the time of its clock's
//! last tick. So files that have the same times as before were not written to since, if those times lay further back than a
//! tick when they were looked at first. A checkpoint writes without changing the content: then, and whenever in doubt, the
//! store counts as changed, and its pages are compared.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How coarse file times are: they are those of the kernel's last tick, of which there are at least 100 a second. This is more
/// than two ticks.
pub(super) const TICKS: Duration = Duration::from_millis(25);

/// How coarse they are where inodes have no room for less than seconds (ext4 with inodes of 128 bytes).
pub(super) const SECONDS: Duration = Duration::from_millis(1025);

/// File systems of this machine alone: what `stat` says of a file there is so at that moment, whoever wrote to it. The numbers are
/// those of `linux/magic.h`: ext4, XFS, btrfs, tmpfs, overlayfs, F2FS, ZFS, bcachefs.
const LOCAL: [u64; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e];

/// What a store's files were like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The WAL's path, beside the file that the store's path leads to.
    wal_path: PathBuf,
    main: Stamp,
    /// The WAL, where there is one with anything in it.
    wal: Option<Stamp>,
}

/// What tells of writes to a file. Nobody can set the time of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Signature {
    /// What the files of the store at this path are like. `None` where what is found does not tell of every write, as on a
    /// network's file systems, where other machines write.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        if !is_local(path)? {
            return None;
        }
        Self::glance(path)
    }

    /// This signature, where nobody has written to the files since the one `before` was taken, nor shortly before `since`,
    /// which came after that: whatever is committed after `since` moves their times. `None` where somebody has.
    ///
    /// Of the WAL only its content's time is looked at for that: as root, SQLite gives a WAL that it opens to the store's owner
    /// anew each time, which moves the time of its last change.
    #[must_use]
    pub fn settled(self, before: &Self, since: Timestamp) -> Option<Self> {
        let changed = before.wal.zip(self.wal).map(|(_, now)| now.changed);
        let wal = before.wal.map(|wal| Stamp { changed: changed.unwrap_or(wal.changed), ..wal });
        let is_same = (&self.wal_path, self.main, self.wal) == (&before.wal_path, before.main, wal);
        let written = [Some(self.main.changed), self.wal.map(|wal| wal.modified)];
        let is_settled = is_same && written.into_iter().flatten().all(|time| is_before(time, since));
        is_settled.then_some(self)
    }

    /// What the files of the store at this path are like at this moment, on whatever file system. A commit of the same moment may
    /// leave them as they are.
    #[must_use]
    pub fn glance(path: &Path) -> Option<Self> {
        let wal_path = wal_of(path)?;
        let (main, wal) = look(path, &wal_path).ok()?;
        Some(Self { wal_path, main, wal })
    }

    /// Whether the store at the path is the same, and nobody has written to it since.
    #[must_use]
    pub fn still_holds(&self, path: &Path) -> bool {
        look(path, &self.wal_path).is_ok_and(|found| found == (self.main, self.wal))
    }
}

/// Whether a file or folder is on a file system of this machine alone; nothing where that cannot be said.
#[must_use]
pub fn is_local(path: &Path) -> Option<bool> {
    let kind = u64::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()?;
    Some(LOCAL.contains(&kind))
}

fn wal_of(path: &Path) -> Option<PathBuf> {
    let mut wal_path = path.canonicalize().ok()?.into_os_string();
    wal_path.push("-wal");
    Some(PathBuf::from(wal_path))
}

fn look(path: &Path, wal_path: &Path) -> io::Result<(Stamp, Option<Stamp>)> {
    let wal = match std::fs::symlink_metadata(wal_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        wal => Some(wal?).filter(|wal| wal.len() > 0),
    };
    Ok((Stamp::of(&std::fs::metadata(path)?), wal.as_ref().map(Stamp::of)))
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Whether a file's time lies longer before an instant than it is coarse.
fn is_before((seconds, nanoseconds): (i64, i64), since: Timestamp) -> bool {
    let time = i32::try_from(nanoseconds).ok().and_then(|nanos| Timestamp::new(seconds, nanos).ok());
    let grain = SignedDuration::try_from(if nanoseconds == 0 { SECONDS } else { TICKS });
    match (time, grain) {
        (Some(time), Ok(grain)) => since.duration_since(time) > grain,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;

    use super::*;
    use crate::clock;

    /// A store that was written long ago, as far as anybody can wait for that in a test: its signature is taken of later.
    fn later() -> Timestamp {
        clock::now() + SignedDuration::from_secs(5)
    }

    fn settled(path: &Path, since: Timestamp) -> Option<Signature> {
        let before = Signature::of(path)?;
        Signature::of(path)?.settled(&before, since)
    }

    fn store(folder: &Path, mode: &str) -> (PathBuf, Connection) {
        let path = folder.join("größe 1.db");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection.execute_batch("create table t (a); insert into t values (1)").unwrap();
        (path, connection)
    }

    #[test]
    fn whatever_is_committed_shows() {
        let changes = [
            ("a commit", "insert into t values (2)"),
            ("a commit of the same length", "update t set a = 7"),
            ("a schema", "create table u (b)"),
            ("a vacuum", "vacuum"),
            ("another journal mode", "pragma journal_mode = truncate"),
        ];
        for mode in ["wal", "delete", "truncate", "persist"] {
            for (name, sql) in changes {
                let folder = tempfile::tempdir().unwrap();
                let (path, connection) = store(folder.path(), mode);
                let before = settled(&path, later()).unwrap();
                assert!(before.still_holds(&path), "{mode}, before {name}");
                // The tick must have moved: a signature counts from the instant for which it is settled.
                while !is_before(before.main.changed, clock::now()) {
                    std::thread::yield_now();
                }
                connection.execute_batch(sql).unwrap();
                // Which journal is used is written into the file where a WAL is, or was.
                let is_same = mode != "wal" && name == "another journal mode";
                assert_eq!(before.still_holds(&path), is_same, "{mode}, {name}");
            }
        }
    }

    #[test]
    fn what_commits_nothing_does_not_show() {
        let folder = tempfile::tempdir().unwrap();
        let (path, connection) = store(folder.path(), "delete");
        let before = settled(&path, later()).unwrap();
        connection.query_row("select count(*) from t", [], |_| Ok(())).unwrap();
        connection.execute_batch("begin immediate; insert into t values (5); rollback").unwrap();
        assert!(before.still_holds(&path));
    }

    #[test]
    fn a_wal_that_is_given_to_its_owner_again_was_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _connection) = store(folder.path(), "wal");
        let before = Signature::of(&path).unwrap();
        while !is_before(before.wal.unwrap().changed, clock::now()) {
            std::thread::yield_now();
        }
        std::os::unix::fs::chown(&before.wal_path, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        let given = Signature::of(&path).unwrap();
        assert_ne!(given, before, "who looks for writes does not trust it");
        let since = clock::now();
        assert_eq!(given.clone().settled(&before, since), Some(given.clone()), "who has just read it does");
        assert!(given.still_holds(&path));
        // Somebody who writes and sets the time of that back changes the length, or is seen by the time of the change.
        fs::File::options().append(true).open(&before.wal_path).unwrap().set_len(1 << 20).unwrap();
        assert!(!given.still_holds(&path));
        assert_eq!(Signature::of(&path).unwrap().settled(&before, later()), None);
    }

    #[test]
    fn a_store_that_was_just_written_to_has_no_signature() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _connection) = store(folder.path(), "wal");
        assert_eq!(settled(&path, clock::now() - SignedDuration::from_secs(1)), None);
        assert_eq!(settled(&folder.path().join("none.db"), later()), None);
    }

    #[test]
    fn another_file_under_the_name_is_another_store() {
        let folder = tempfile::tempdir().unwrap();
        let (path, connection) = store(folder.path(), "delete");
        drop(connection);
        let before = settled(&path, later()).unwrap();
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        assert!(!before.still_holds(&path));
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let linked = settled(&link, later()).unwrap();
        assert!(linked.still_holds(&link) && linked.still_holds(&path));
        fs::remove_file(&path).unwrap();
        assert!(!linked.still_holds(&link));
    }
}
