//! Objects as files of a folder. Every effect on the disk stands here, between two announced boundaries.
//!
//! An object becomes durable in this order: a file without a number is written and synced, renamed to its number unless a file has
//! that, and the folder is synced. A crash between any two steps leaves either nothing that counts or the whole object.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use asat_core::{StoreName, boundary};
use rustix::fs::{Advice, AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::layout::len_of;
use crate::objects::{Draft, Object, Objects, Stamp};

/// What the name of an object ends with.
const SUFFIX: &str = ".segment";
/// What the name of one that is being written ends with.
const UNFINISHED: &str = ".tmp";
/// A file that is kept beside them: what of a bucket is this archive's. It is of no concern here.
pub const REMOTE_NOTE: &str = "remote.json";
/// No archive comes to so many files. A higher number leaves none for those that follow it, so the file is foreign.
const MOST_FILES: u64 = 1 << 62;
/// A draft goes to the disk in pieces of this many bytes, while the next is written: little is left to do when it is to be durable.
const PIECE_BYTES: u64 = 8 << 20;

/// A folder with objects, which drafts share: it is locked for as long as one of those who have it lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: File,
    drafts: AtomicU64,
}

/// What opening an archive found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Files removed: half-written ones, and those that nothing needs since a crash.
    pub removed: Vec<String>,
    /// Files that are not the archive's. They are left alone.
    pub foreign: Vec<String>,
}

impl Folder {
    /// Opens the folder, making it where it is missing, takes the lock that keeps a second archive out, and removes what a crash has
    /// left half written: it must not be that of somebody at work.
    pub(crate) fn open(path: &Path) -> Result<(Arc<Self>, Opened), Error> {
        let at = |doing| move |source| Error::io(doing, path, source);
        if !path.is_dir() {
            boundary::pass("archive: create folder");
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at("create"))?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let parent = File::open(parent).map_err(at("open the folder above"))?;
                rustix::fs::fsync(&parent).map_err(|errno| at("sync the folder above")(errno.into()))?;
            }
            boundary::pass("archive: folder created");
        }
        let handle = File::open(path).map_err(at("open"))?;
        let locked = rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|errno| match errno {
            Errno::WOULDBLOCK => Error::busy(path, "another asat has it open"),
            errno => at("lock")(errno.into()),
        })?;
        // Where that lock does not hold, as on some network file systems, no two must write to one draft.
        let drafts = AtomicU64::new(RandomState::new().build_hasher().finish());
        let folder = Arc::new(Self { path: path.to_owned(), handle, drafts });
        let found = folder.tidy()?;
        Ok((folder, found))
    }

    /// Removes half-written files, and says what does not belong here.
    fn tidy(&self) -> Result<Opened, Error> {
        let mut found = Opened::default();
        for entry in entries(&self.path)? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_suffix(UNFINISHED).and_then(|stem| stem.parse().ok());
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && number.is_some_and(|number| draft_of(number) == name) {
                self.unlink(&name)?;
                found.removed.push(name);
            } else if number_of(&name).is_none() && name != REMOTE_NOTE {
                found.foreign.push(name);
            }
        }
        found.foreign.sort();
        Ok(found)
    }

    /// Renames a file unless another has the new name. Where the file system cannot do that at once, a second link does.
    fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        match rustix::fs::renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.handle, from, &self.handle, to, AtFlags::empty())?;
                rustix::fs::unlinkat(&self.handle, from, AtFlags::empty())
            }
            result => result,
        }
    }

    fn unlink(&self, name: &str) -> Result<(), Error> {
        let unlink = || rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
        match between("archive: unlink", "archive: unlinked", unlink) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", &self.path.join(name), errno.into())),
        }
    }
}

impl Objects for Arc<Folder> {
    fn draft(&self) -> Result<Box<dyn Draft>, Error> {
        let (folder, name) = (Arc::clone(self), draft_of(self.drafts.fetch_add(1, Ordering::Relaxed)));
        let path = folder.path.join(&name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = between("archive: create", "archive: created", || options.open(&path));
        let file = file.map_err(|source| Error::io("create", &path, source))?;
        Ok(Box::new(Unfinished { file, path, name, folder, written: 0, begun: 0, is_done: false }))
    }

    fn open(&self, number: u64) -> Result<Arc<dyn Object>, Error> {
        let (name, path) = (name_of(number), self.name(number));
        // Nobody is waited for who has to open the other end of it.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.handle, &name, flags, Mode::empty());
        let file: File = file.map_err(|errno| Error::io("open", &path, errno.into()))?.into();
        // Who reads knows better than the system what will be needed next, and says so.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        let metadata = file.metadata().map_err(|source| Error::io("look at", &path, source))?;
        if !metadata.is_file() {
            return Err(Error::damaged(&path, "it is no file"));
        }
        Ok(Arc::new(Finished { path, file, len: metadata.len() }))
    }

    fn list(&self) -> Result<Vec<u64>, Error> {
        let names = entries(&self.path)?.into_iter().map(|entry| entry.file_name());
        let mut numbers: Vec<u64> = names.filter_map(|name| number_of(name.to_str()?)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn delete(&self, number: u64) -> Result<(), Error> {
        self.unlink(&name_of(number))
    }

    fn room(&self) -> Option<u64> {
        // What is reserved for the administrator is not counted.
        let space = rustix::fs::fstatvfs(&self.handle).ok()?;
        Some(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn name(&self, number: u64) -> PathBuf {
        self.path.join(name_of(number))
    }

    fn place(&self) -> &Path {
        &self.path
    }
}

/// The stores that have an archive of their name in `folder`.
pub fn stores_in(folder: &Path) -> Result<Vec<StoreName>, Error> {
    let entries = match entries(folder) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let kind = entry.file_type().map_err(|source| Error::io("list", folder, source))?;
        let name = entry.file_name();
        names.extend(name.to_str().filter(|_| kind.is_dir()).and_then(|name| name.parse().ok()));
    }
    Ok(names)
}

/// All that is in a folder.
fn entries(path: &Path) -> Result<Vec<fs::DirEntry>, Error> {
    let entries = fs::read_dir(path).and_then(Iterator::collect);
    entries.map_err(|source| Error::io("list", path, source))
}

/// Takes a step between two announced boundaries.
fn between<T>(before: &'static str, after: &'static str, step: impl FnOnce() -> T) -> T {
    boundary::pass(before);
    let result = step();
    boundary::pass(after);
    result
}

/// The name of an object's file. All have the same length, so that a listing has them in order.
pub(crate) fn name_of(number: u64) -> String {
    format!("{number:012}{SUFFIX}")
}

/// The name of a draft.
fn draft_of(number: u64) -> String {
    format!("{number:020}{UNFINISHED}")
}

pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    ((1..=MOST_FILES).contains(&number) && name_of(number) == name).then_some(number)
}

/// A file that has no number yet.
struct Unfinished {
    file: File,
    path: PathBuf,
    name: String,
    folder: Arc<Folder>,
    /// How much was written, and how much of that is on its way to the disk.
    written: u64,
    begun: u64,
    is_done: bool,
}

impl Draft for Unfinished {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|source| Error::io("write", &self.path, source))?;
        self.written += len_of(bytes);
        let piece = NonZeroU64::new(self.written - self.begun);
        if piece.is_some_and(|piece| piece.get() >= PIECE_BYTES) {
            // The system begins to write what it is told will not be needed, and keeps what is not written yet.
            let _ = rustix::fs::fadvise(&self.file, self.begun, piece, Advice::DontNeed);
            self.begun = self.written;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        let synced = between("archive: fsync", "archive: fsynced", || rustix::fs::fsync(&self.file));
        synced.map_err(|errno| Error::io("sync", &self.path, errno.into()))
    }

    fn create(mut self: Box<Self>, number: u64) -> Result<(), Error> {
        self.settle()?;
        let (folder, name) = (Arc::clone(&self.folder), name_of(number));
        match between("archive: rename", "archive: renamed", || folder.rename(&self.name, &name)) {
            Ok(()) => self.is_done = true,
            Err(Errno::EXIST) => {
                let what = "another asat has written to it since this one opened it";
                return Err(Error::busy(&folder.path, what));
            }
            Err(errno) => return Err(Error::io("rename", &self.path, errno.into())),
        }
        let sync = || rustix::fs::fsync(&folder.handle);
        let synced = between("archive: fsync folder", "archive: folder fsynced", sync);
        synced.map_err(|errno| {
            // The caller is told that it failed, so it must not be there after a crash either.
            let _ = folder.unlink(&name);
            Error::io("sync", &folder.path, errno.into())
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_done {
            // Where even this fails, the next opening removes the file.
            let _ = self.folder.unlink(&self.name);
        }
    }
}

/// A file that is open for reading.
#[derive(Debug)]
struct Finished {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Object for Finished {
    fn name(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(buffer, offset).map_err(|source| match source.kind() {
            // It was cut short after it was opened: that is damage, not a refusal.
            io::ErrorKind::UnexpectedEof => Error::damaged(&self.path, "it was cut short while it was read"),
            _ => Error::io("read", &self.path, source),
        })
    }

    fn expect(&self, offset: u64, len: u64) {
        if let Some(len) = NonZeroU64::new(len) {
            let _ = rustix::fs::fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        let (mine, named) = (self.file.metadata().ok()?, fs::symlink_metadata(&self.path).ok()?);
        let stamp = |metadata: &fs::Metadata| Stamp {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        };
        Some(stamp(&named)).filter(|named| named.inode == mine.ino())
    }
}
