//! The store's file: found, and looked at without opening it.
//!
//! Opening the file to look inside would be the convenient way, and on closing it this process would lose every
//! lock that SQLite holds on it. So it is opened with `O_PATH` at most, which gives a handle on the name's file
//! and neither its content nor its locks. While the handle is there, no other file can get the same inode.
//! A path that leads to a pipe is refused before SQLite could block on opening it.

use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ffi;
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;

use super::error::Error;
use super::links::{Followed, Foreign, Trust, follow, look_in};
use super::opened;
use super::sidecars::{self, Maker, Rights, groups_of};
use super::target::Target;

/// How often a store that is replaced while being opened is opened again.
const ATTEMPTS: u32 = 5;

/// Where a store's file is, and which file it is.
#[derive(Debug)]
pub(super) struct StoreFile {
    /// Its path with every link resolved, so that the sidecars are those beside the real file.
    pub(super) path: PathBuf,
    /// Its device and inode, which are nobody else's while this lives.
    pub(super) identity: (u64, u64),
    handle: File,
    /// The folder that it is in, whatever is on the path to it by now.
    folder: File,
}

impl StoreFile {
    /// Finds the store's file, and refuses what SQLite should not be asked to open.
    pub(super) fn find(store: &Target) -> Result<Self, Error> {
        let Target { path, owner } = store;
        let file = Self::find_by(path, Trust::Owner)?;
        let is = file.metadata()?.uid();
        match owner.filter(|owner| *owner != is) {
            Some(was) => {
                let [was, is] = [was, is].map(sidecars::user_name);
                Err(Error::OtherOwner { path: path.clone(), was, is })
            }
            None => Ok(file),
        }
    }

    /// Finds a file in a snapshot, whose folders and links are those of whoever wrote to its volume.
    pub(super) fn find_in_snapshot(path: &Path) -> Result<Self, Error> {
        Self::find_by(path, Trust::Own)
    }

    fn find_by(path: &Path, trust: Trust) -> Result<Self, Error> {
        let Followed { path: resolved, handle, folder, .. } = follow_own(path, trust)?;
        let metadata = handle.metadata().map_err(|source| Error::from_io("look at", path, source))?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_owned(), what: name_of(metadata.file_type()) });
        }
        // Whatever name is asked for, the application may have opened another one, with a WAL or a journal beside that.
        if metadata.nlink() > 1 {
            return Err(Error::Linked { path: path.to_owned(), links: metadata.nlink() });
        }
        // SQLite would take it for a new database, and throw a WAL beside it away.
        if metadata.len() == 0 {
            return Err(Error::Empty { path: path.to_owned() });
        }
        let file = Self { path: resolved, identity: identity_of(&metadata), handle, folder };
        for suffix in ["-journal", "-wal", "-shm"] {
            if let Some(other) = file.sidecar(suffix)?.filter(|metadata| !metadata.is_file()) {
                let path = file.beside(suffix);
                return Err(Error::NotAFile { path, what: name_of(other.file_type()) });
            }
        }
        Ok(file)
    }

    /// The path of a file beside the store.
    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    }

    /// The length of the file itself and of its WAL, in bytes.
    pub(super) fn lengths(&self) -> Result<(u64, u64), Error> {
        let main = self.metadata()?;
        let wal = self.sidecar("-wal")?;
        Ok((main.len(), wal.map_or(0, |metadata| metadata.len())))
    }

    /// The device and inode of the file and its sidecars, as far as they are there.
    pub(super) fn identities(&self) -> Vec<(u64, u64)> {
        let sidecars = ["-wal", "-shm"]
            .into_iter()
            .filter_map(|suffix| self.sidecar(suffix).ok().flatten().map(|metadata| identity_of(&metadata)));
        std::iter::once(self.identity).chain(sidecars).collect()
    }

    /// What the machine says of the file itself.
    pub(super) fn metadata(&self) -> Result<Metadata, Error> {
        self.handle.metadata().map_err(|source| Error::from_io("look at", &self.path, source))
    }

    /// What the machine says of a file beside the store, if it is there.
    pub(super) fn sidecar(&self, suffix: &str) -> Result<Option<Metadata>, Error> {
        let path = self.beside(suffix);
        let found = look_in(&self.folder, path.file_name().unwrap_or_default());
        match found.and_then(|handle| handle.metadata()) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::from_io("look at", &path, source)),
        }
    }

    /// Refuses where another file has the path now.
    pub(super) fn check_name(&self, store: &Target) -> Result<(), Error> {
        match Self::find(store)?.identity == self.identity {
            true => Ok(()),
            false => Err(Error::Replaced { path: store.path.clone() }),
        }
    }

    /// Refuses where SQLite has opened another file than this one: it goes by the path, on which somebody may have put another
    /// folder for just that moment.
    pub(super) fn check_opened(&self) -> Result<(), Error> {
        self.check_is_open(self.identity)
    }

    /// The same of the WAL, which SQLite opens as it reads.
    pub(super) fn check_wal_opened(&self) -> Result<(), Error> {
        match self.sidecar("-wal")? {
            Some(wal) => self.check_is_open(identity_of(&wal)),
            None => Err(Error::Replaced { path: self.path.clone() }),
        }
    }

    fn check_is_open(&self, identity: (u64, u64)) -> Result<(), Error> {
        let is_open = opened::is_open(identity);
        match is_open.map_err(|source| Error::from_io("look at what is open of", &self.path, source))? {
            true => Ok(()),
            false => Err(Error::Replaced { path: self.path.clone() }),
        }
    }

    /// Says why SQLite could not open the store. Its own words do not tell a file that may not be read from
    /// sidecars that may not be made, nor from those that may not be written.
    pub(super) fn explain(&self, error: &rusqlite::Error) -> Error {
        let code = error.sqlite_error().map_or(0, |error| error.extended_code);
        let is_permission = matches!(code & 0xff, ffi::SQLITE_CANTOPEN | ffi::SQLITE_READONLY);
        if (is_permission || code == ffi::SQLITE_IOERR_LOCK)
            && let Err(denied) = self.check_permission()
        {
            return denied;
        }
        // The path can be opened now, or is gone again since its permissions were looked at: no file had that name for a moment. It is
        // not opened for reading: a pipe would block, and closing a database drops the locks that SQLite has on it in this process.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if code == ffi::SQLITE_CANTOPEN
            && let Ok(_) | Err(Errno::NOENT) = rustix::fs::open(&self.path, flags, Mode::empty())
        {
            return Error::Replaced { path: self.path.clone() };
        }
        Error::from_sqlite("open", &self.path, error)
    }

    /// Says what this process is not allowed to do and would have to, to open the store.
    fn check_permission(&self) -> Result<(), Error> {
        rustix::fs::access(&self.path, Access::READ_OK)
            .map_err(|errno| Error::from_io("read", &self.path, errno.into()))?;
        self.check_makes_for_all()?;
        let needs = |what| Err(Error::NeedsWriting { path: self.path.clone(), what });
        let sidecars = || ["-wal", "-shm"].map(|suffix| self.beside(suffix)).into_iter();
        if let Some(locked) = sidecars().find(|path| path.exists() && !may_write(path)) {
            return needs(format!("{} may not be written by the daemon's user", locked.display()));
        }
        let folder = self.path.parent().unwrap_or(&self.path);
        if sidecars().all(|path| path.exists()) || (may_write(&self.path) && may_write(folder)) {
            return Ok(());
        }
        let missing = "it is in WAL mode, and its `-wal` or its `-shm` file is missing";
        match rustix::fs::access(folder, Access::WRITE_OK) {
            Err(Errno::ROFS) => needs(format!(
                "{missing}; the daemon sees {} as read-only (ReadWritePaths= in its unit permits more)",
                folder.display()
            )),
            _ => needs(missing.to_owned()),
        }
    }

    /// Refuses where this process could make files beside the store that those who write it could not write.
    pub(super) fn check_makes_for_all(&self) -> Result<(), Error> {
        match self.lock_out()? {
            Some(why) => Err(Error::LocksOut { path: self.path.clone(), why }),
            None => Ok(()),
        }
    }

    /// Why files that this process makes beside the store would lock others out of it, if it can make any.
    fn lock_out(&self) -> Result<Option<String>, Error> {
        let Some(folder) = self.path.parent().filter(|folder| may_write(folder)) else { return Ok(None) };
        let folder = fs::metadata(folder).map_err(|source| Error::from_io("look at", folder, source))?;
        let store = Rights::of(&self.metadata()?);
        Ok(sidecars::lock_out(store, Rights::of(&folder), Maker::own(), groups_of))
    }
}

/// Does something with the file that has the name. Where the name is another file's by then, that is dropped and
/// done again: what was found out about a path may be about two files, so an error counts no more than a success.
pub(super) fn with_steady<T>(
    store: &Target,
    mut attempt: impl FnMut(Arc<StoreFile>) -> Result<T, Error>,
) -> Result<T, Error> {
    for _ in 0..ATTEMPTS {
        let file = Arc::new(StoreFile::find(store)?);
        let done = attempt(Arc::clone(&file));
        match (file.check_name(store), done) {
            (Ok(()), Err(Error::Replaced { .. })) => {}
            (Ok(()), done) => return done,
            (Err(Error::Replaced { .. }), Err(error)) if error.ends_waiting() => return Err(error),
            (Err(Error::Replaced { .. }), _) => {}
            (Err(error), _) => return Err(error),
        }
    }
    Err(Error::Replaced { path: store.path.clone() })
}

/// Whose a store's file is.
pub(crate) fn owner_of(path: &Path) -> Result<u32, Error> {
    let metadata = follow_own(path, Trust::Owner)?.handle.metadata();
    metadata.map(|metadata| metadata.uid()).map_err(|source| Error::from_io("look at", path, source))
}

/// Follows a path, and no stranger's link.
fn follow_own(path: &Path, trust: Trust) -> Result<Followed, Error> {
    let found = follow(path, trust).map_err(|source| Error::from_io("find", path, source))?;
    if let Some(Foreign { link, user, owner }) = found.foreign {
        let [user, owner] = [user, owner].map(sidecars::user_name);
        return Err(Error::ForeignLink { path: path.to_owned(), link, user, owner });
    }
    Ok(found)
}

fn identity_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

fn name_of(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "a folder"
    } else if file_type.is_fifo() {
        "a pipe"
    } else if file_type.is_socket() {
        "a socket"
    } else if file_type.is_symlink() {
        "a symbolic link"
    } else {
        "a device"
    }
}
