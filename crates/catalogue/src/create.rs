//! Files: how a catalogue comes into being, how one is known from a stranger, and how one is copied.
//!
//! A new catalogue is built under another name and renamed into place. At its own path there is therefore
//! never a half-made one, and its first page names its owner even before a write-ahead log is applied: a
//! stranger's file can be refused by reading 100 bytes, without SQLite having touched it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

use asat_core::boundary;
use rusqlite::Connection;

use crate::error::Error;
use crate::migrate::{self, Migration, OLDEST};
use crate::{check, newest, seal};

/// The mark of an asat catalogue in the file header ("asat" in ASCII).
const APPLICATION_ID: i32 = 0x6173_6174;
const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
/// What is added to the name of a catalogue that is to take the place of the one of that name, whatever happens.
const SUCCESSOR: &str = ".next";
/// The same of one that was to, where somebody has put yet another one there by hand.
const UNUSED: &str = ".unused";

/// Whether there is no catalogue at a path. An empty file counts as none.
pub(crate) fn is_missing(path: &Path) -> Result<bool, Error> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(Error::NoFile { path: path.to_owned() }),
        Ok(found) => Ok(found.len() == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

/// Creates an empty catalogue, of this installation or of a new one.
pub(crate) fn create(path: &Path, migrations: &[Migration], installation: Option<&str>) -> Result<(), Error> {
    // SQLite would apply a log that was left behind to the new file.
    check_no_log(path)?;
    put_in_place(path, |draft| {
        let mut connection = crate::connect(draft)?;
        let marked = connection.pragma_update(None, "application_id", APPLICATION_ID);
        marked.map_err(|error| Error::sqlite("create", draft, error))?;
        migrate::run(&mut connection, draft, 0, migrations)?;
        if let Some(installation) = installation {
            let named = name(&connection, installation).and_then(|()| seal::renew(&connection));
            named.map_err(|error| Error::sqlite("create", draft, error))?;
        }
        connection.close().map_err(|(_, error)| Error::sqlite("create", draft, error))
    })
}

/// Refuses where there is a log of a catalogue.
pub(crate) fn check_no_log(path: &Path) -> Result<(), Error> {
    for suffix in ["-wal", "-journal"] {
        let log = beside(path, suffix);
        if exists(&log)? {
            return Err(Error::Orphaned { path: path.to_owned(), log });
        }
    }
    Ok(())
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|source| Error::io("look at", path, source))
}

/// Gives an empty catalogue the name of an installation that was there before. Its audit trail begins with that.
fn name(connection: &Connection, installation: &str) -> rusqlite::Result<()> {
    connection.execute("update meta set value = ?1 where key = 'installation'", [installation])?;
    connection.execute("update audit_head set chain = ?1", [installation.repeat(2)]).map(drop)
}

/// Refuses a file that is no catalogue, or one of a schema version that is not known, by its header alone.
pub(crate) fn check_identity(path: &Path, known: usize) -> Result<(), Error> {
    let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
    let mut header = Vec::with_capacity(HEADER_BYTES);
    let read = file.take(HEADER_BYTES as u64).read_to_end(&mut header);
    read.map_err(|source| Error::io("read", path, source))?;
    if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
        return Err(Error::damaged(path, "it does not begin like a SQLite database"));
    }
    if header.get(68..72) != Some(APPLICATION_ID.to_be_bytes().as_slice()) {
        return Err(Error::Foreign { path: path.to_owned() });
    }
    // A log may still raise this version. Then the migrations refuse it.
    let found = header.get(60..64).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    if found < OLDEST {
        return Err(Error::Older { path: path.to_owned(), found });
    }
    Ok(())
}

/// Ends what is under way where it is recorded, as if it had not begun.
const LEAVE_OUT_CUTS: &str = "pragma foreign_keys = on;
    begin immediate;
    delete from version where state = 'cutting';
    update intent set open = 0 where kind in ('cut', 'cut_set');
    delete from intent where open = 0 and id < (select max(id) from intent);
    commit";

/// Writes a consistent copy of the open catalogue at `from`, in place of whatever is at `path`.
pub(crate) fn copy(connection: &Connection, from: &Path, path: &Path) -> Result<(), Error> {
    copy_and(connection, from, path, |_| Ok(()))
}

/// The same, and changes the copy before it is there. A copy of what was not committed is refused: it would be given a seal of its own,
/// and nothing would tell any more that it is damaged.
fn copy_and(
    connection: &Connection,
    from: &Path,
    path: &Path,
    change: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<(), Error> {
    put_in_place(path, |draft| {
        // The path is bound as text; Linux paths that are not UTF-8 cannot be named in SQL.
        let Some(name) = draft.to_str() else {
            let source = io::Error::new(io::ErrorKind::InvalidFilename, "the name is not UTF-8");
            return Err(Error::io("write a copy of the catalogue to", path, source));
        };
        // Before anything is copied: more may be committed meanwhile, and not less.
        let acknowledged = newest::read(from)?;
        let refused = |error| Error::sqlite("copy", path, error);
        connection.execute("vacuum into ?1", [name]).map_err(|error| Error::sqlite("copy", from, error))?;
        let copy = crate::connect(draft)?;
        // The copy has the seal of the transaction that was copied, and its rows and indexes are what SQLite found then.
        seal::check_newest(&copy, acknowledged.as_ref(), from)?;
        check::check_structure(&copy, from)?;
        seal::check(&copy, from)?;
        change(&copy).map_err(refused)?;
        // It may be put in the catalogue's place, and be older than what was acknowledged then.
        seal::renew(&copy).map_err(refused)
    })
}

/// Writes a consistent copy of an open catalogue to a path of somebody else's choice, where there is nothing yet. What is being cut
/// is not in it: once the copy is put back, that is a version like any that came later, and its snapshot is left alone. A daemon
/// that found it begun would take it for one that nobody was told of, and remove it.
pub(crate) fn copy_to_new(connection: &Connection, from: &Path, path: &Path) -> Result<(), Error> {
    // Two may do so at once, and what has the usual name of a draft there may be anybody's.
    let draft = beside(path, &format!(".{}.asat-draft", std::process::id()));
    let leave_out_cuts = |copy: &Connection| copy.execute_batch(LEAVE_OUT_CUTS);
    let made = copy_and(connection, from, &draft, leave_out_cuts).and_then(|()| {
        // A link takes no other file's place. Where the file system has none, nobody else's is looked for again.
        match fs::hard_link(&draft, path) {
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => fs::rename(&draft, path),
            linked => linked,
        }
        .map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Taken { path: path.to_owned() },
            _ => Error::io("write a copy of the catalogue to", path, source),
        })
    });
    discard(&draft)?;
    made?;
    sync_folder(path)
}

/// Has a file made under another name, readable by its owner alone, and renames it into place once it is
/// durable.
fn put_in_place(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let draft = beside(path, ".new");
    let made = make_durable(&draft, make).and_then(|()| {
        boundary::pass("catalogue: put in place");
        fs::rename(&draft, path).map_err(|source| Error::io("create", path, source))
    });
    if made.is_err() {
        // What is left of it is of no use, and the next attempt removes it too.
        let _ = discard(&draft);
        return made;
    }
    sync_folder(path)?;
    boundary::pass("catalogue: in place");
    Ok(())
}

fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| Error::io("make durable", folder, source))
}

/// Puts a closed catalogue in the place of what is at `path`, which is kept under a name of its own, with its log and the name of its
/// newest commit. The next opening of the catalogue after a crash finds one of the two, whole.
///
/// What is kept is not opened: it may be damaged, and to fold its log in would change it. The log is a part of the old one, and would
/// be applied to the new one: the old file must not be found without it, nor the new file with it. No step changes both names at once, so the new one is first renamed to where
/// [`take_place`] finds it; that decides it, and what is left to do is done by whoever comes next.
pub(crate) fn exchange(draft: &Path, path: &Path, kept: &str) -> Result<Option<PathBuf>, Error> {
    take_place(path)?;
    let synced = File::open(draft).and_then(|file| file.sync_all());
    synced.map_err(|source| Error::io("make durable", draft, source))?;
    let aside = |suffix: &str| beside(path, &format!(".{kept}{suffix}"));
    // Linked, and not moved: until it is decided, the old one is where it was.
    let found = link(path, &aside(""))?;
    for suffix in ["-wal", "-journal", newest::SUFFIX] {
        link(&beside(path, suffix), &aside(suffix))?;
    }
    boundary::pass("catalogue: kept");
    let successor = beside(path, SUCCESSOR);
    fs::rename(draft, &successor).map_err(|source| Error::io("create", &successor, source))?;
    sync_folder(path)?;
    boundary::pass("catalogue: decided");
    take_place(path)?;
    Ok(found.then(|| aside("")))
}

/// Whether another catalogue is to take the place of what is at `path`.
pub(crate) fn has_successor(path: &Path) -> Result<bool, Error> {
    exists(&beside(path, SUCCESSOR))
}

/// Goes on where [`exchange`] had decided that another catalogue takes the place of what is at `path`.
pub(crate) fn take_place(path: &Path) -> Result<(), Error> {
    if !has_successor(path)? {
        return Ok(());
    }
    let successor = beside(path, SUCCESSOR);
    match fs::metadata(path) {
        // It has another name, by which it is kept. It goes before its logs.
        Ok(file) if file.nlink() > 1 => {
            fs::remove_file(path).map_err(|source| Error::io("remove", path, source))?;
            boundary::pass("catalogue: taken out");
        }
        // It was put there since, by somebody who wants it there.
        Ok(_) => {
            let unused = beside(path, UNUSED);
            fs::rename(&successor, &unused).map_err(|source| Error::io("set aside", &successor, source))?;
            return sync_folder(path);
        }
        Err(source) if source.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::io("look at", path, source)),
    }
    discard(path)?;
    boundary::pass("catalogue: put in place");
    fs::rename(&successor, path).map_err(|source| Error::io("create", path, source))?;
    sync_folder(path)?;
    boundary::pass("catalogue: in place");
    Ok(())
}

/// Gives a file a second name; says whether it is there.
fn link(file: &Path, name: &Path) -> Result<bool, Error> {
    match fs::hard_link(file, name) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::io("keep", file, source)),
        Ok(()) => Ok(true),
    }
}

fn make_durable(draft: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    discard(draft)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft);
    let file = file.map_err(|source| Error::io("create", draft, source))?;
    make(draft)?;
    file.sync_all().map_err(|source| Error::io("make durable", draft, source))
}

/// Removes a file that is of no use any more, as of an unfinished attempt, and then its logs.
pub(crate) fn discard(draft: &Path) -> Result<(), Error> {
    for suffix in ["", "-journal", "-wal", "-shm", newest::SUFFIX] {
        let file = beside(draft, suffix);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &file, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A path beside another one: its name with something appended.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
