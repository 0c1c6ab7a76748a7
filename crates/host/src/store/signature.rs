//! Whether a store may have been written to, told in microseconds: without a lock, and without opening it.
//!
//! Whoever commits writes to the database file or to its WAL, and the kernel gives what is written the time of its clock's
//! last tick. So files that have the same times as before were not written to since, if those times lay further back than a
//! tick when they were looked at first. A checkpoint writes without changing the content: then, and whenever in doubt, the
//! store counts as changed, and its pages are compared.
//!
//! # Why no commit that has returned is missed
//!
//! A signature stands for the content that was read between two looks ([`Before::look`] and [`Before::settled`]) that found the
//! same times, all of them older than a tick at the first. It is relied on for as long as the files still have those
//! times. A commit that the read did not see would have to become visible later without moving them:
//!
//! * **In the rollback modes** (`DELETE`, `TRUNCATE`, `PERSIST`, `MEMORY`, `OFF`) a commit writes the database file, and nobody
//!   can read from before its first write there until after the journal has ended, whatever `synchronous` says and however long
//!   a sync takes: the writer has the lock for itself. So what becomes visible after the read was written after the
//!   read, and the writes moved the times. The journal itself need not be looked at. A writer that was killed leaves a journal
//!   that the next reader rolls back, by writes to the database file. `locking_mode=EXCLUSIVE` keeps the lock for longer.
//! * **In WAL mode** a commit writes its frames, syncs them if `synchronous` says so, and then becomes visible by the
//!   wal-index alone, which moves no times. That is why a signature counts only if the WAL had no such frames
//!   ([`super::under_way`]) after the first look and before the read. From then on a commit has to write frames,
//!   and that moves the WAL's times. It holds for writers that are killed as well, whose frames count once the WAL is recovered.
//! * **The last write** may have got its time long before its bytes are in the file, if the file system made it wait. In the rollback
//!   modes the lock is held until the bytes are there. In WAL mode the last write of a transaction is never the first one of its
//!   last frame: the head of that frame, which is what is looked for, is in the file before.
//! * **Memory maps**: SQLite reads through them (`mmap_size`), and writes files by `write`. Only a SQLite that was
//!   compiled with `SQLITE_MMAP_READWRITE`, which nobody ships, writes through them; then times tell nothing.
//!
//! For a snapshot or a clone the same holds: what it fixed is what a reader sees after the first look.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::under_way;
use crate::clock;

/// How coarse file times are: they are those of the kernel's last tick, of which there are at least 100 a second. This is more
/// than two ticks.
pub(super) const TICKS: Duration = Duration::from_millis(25);

/// How coarse they are where inodes have no room for less than seconds (ext4 with inodes of 128 bytes).
pub(super) const SECONDS: Duration = Duration::from_millis(1025);

/// File systems of this machine alone: what `stat` says of a file there is so at that moment, whoever wrote to it. The numbers are
/// those of `linux/magic.h`: ext4, XFS, btrfs, tmpfs, overlayfs, F2FS, ZFS, bcachefs.
const LOCAL: [u64; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e];

/// What a store's files are like before it is read.
#[derive(Clone, Debug)]
pub struct Before {
    signature: Option<Signature>,
    is_commit_under_way: bool,
    since: Timestamp,
}

impl Before {
    /// Looks at the files of the store at this path, which is about to be read.
    #[must_use]
    pub fn look(path: &Path) -> Self {
        // In this order: nobody writes to what is looked at next without moving the times of the first.
        let signature = Signature::of(path);
        let is_commit_under_way = is_commit_under_way(path);
        Self { signature, is_commit_under_way, since: clock::now() }
    }

    /// Whether there was a commit that readers did not see yet, and that may become visible without a write to the files.
    #[must_use]
    pub fn is_commit_under_way(&self) -> bool {
        self.is_commit_under_way
    }

    /// What the files are like now that the store was read. `None` if a commit that was not read might leave them as they are.
    #[must_use]
    pub fn settled(&self, path: &Path) -> Option<Signature> {
        let before = self.signature.as_ref().filter(|_| !self.is_commit_under_way)?;
        Signature::of(path)?.settled(before, self.since)
    }
}

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
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Signature {
    /// What the files of the store at this path are like. `None` where what is found does not tell of every write, as on a
    /// network's file systems, where other machines write.
    fn of(path: &Path) -> Option<Self> {
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
    fn settled(self, before: &Self, since: Timestamp) -> Option<Self> {
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
        let wal_path = beside(path, "-wal")?;
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

/// Whether a commit is under way that readers of the store at this path do not see yet; also if that cannot be told.
fn is_commit_under_way(path: &Path) -> bool {
    let beside = |suffix| beside(path, suffix);
    beside("-wal").zip(beside("-shm")).is_some_and(|(wal, index)| under_way::is_in(&wal, &index))
}

/// The path of a file beside the one that the store's path leads to; nothing if there is none.
fn beside(path: &Path, suffix: &str) -> Option<PathBuf> {
    let mut name = path.canonicalize().ok()?.into_os_string();
    name.push(suffix);
    Some(PathBuf::from(name))
}

fn look(path: &Path, wal_path: &Path) -> io::Result<(Stamp, Option<Stamp>)> {
    let wal = match std::fs::symlink_metadata(wal_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        wal => Some(wal?).filter(|wal| wal.len() > 0),
    };
    Ok((Stamp::of(&std::fs::metadata(path)?), wal.as_ref().map(Stamp::of)))
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file was last written to so long before this instant that whatever is written after it moves the times.
    pub(super) fn is_settled(&self, at: Timestamp) -> bool {
        is_before(self.changed, at) && is_before(self.modified, at)
    }

    /// Whether this is the same file, of the same length, and not written to since.
    pub(super) fn is_unwritten(&self, since: &Self) -> bool {
        let of = |stamp: &Self| (stamp.device, stamp.inode, stamp.length, stamp.modified);
        of(self) == of(since)
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
