//! Every effect on the disk, each between two announced boundaries.
//!
//! A file becomes durable in this order: created under a temporary name, written, synced, renamed, and its
//! folder synced. A crash between any two steps leaves either nothing that counts or the whole file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use asat_core::boundary;
use rustix::fs::FlockOperation;

use crate::error::Error;

/// An archive's folder, opened and locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: File,
}

/// What tells whether a file is as it was: it changes where somebody writes to it or puts another in its place, and not where it is
/// renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), bytes: metadata.len(), modified }
    }
}

/// A regular file in the folder.
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: std::ffi::OsString,
    /// Its length in bytes; `None` for what is no regular file.
    pub(crate) bytes: Option<u64>,
}

impl Folder {
    /// Opens the folder, making it where it is missing, and takes the lock that keeps a second archive out:
    /// opening removes half-written files, which must not be those of somebody at work.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
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
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), handle }),
            Err(errno) if errno == rustix::io::Errno::WOULDBLOCK => {
                Err(Error::Busy { folder: path.to_owned(), what: "another asat has it open" })
            }
            Err(errno) => Err(at("lock")(errno.into())),
        }
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes can be written here, as far as the file system says.
    pub(crate) fn free_bytes(&self) -> Result<u64, Error> {
        let at = |errno: rustix::io::Errno| Error::io("look for room in", &self.path, errno.into());
        let space = rustix::fs::fstatvfs(&self.handle).map_err(at)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Lists what is in the folder.
    pub(crate) fn list(&self) -> Result<Vec<Listed>, Error> {
        let at = |source| Error::io("list", &self.path, source);
        let mut listed = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(at)? {
            let entry = entry.map_err(at)?;
            let metadata = entry.metadata().map_err(at)?;
            let bytes = metadata.is_file().then_some(metadata.len());
            listed.push(Listed { name: entry.file_name(), bytes });
        }
        Ok(listed)
    }

    /// Creates a file for writing. A leftover of the same name is replaced.
    pub(crate) fn create(&self, name: &str) -> Result<File, Error> {
        let path = self.path.join(name);
        boundary::pass("archive: create");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        boundary::pass("archive: created");
        file.map_err(|source| Error::io("create", &path, source))
    }

    /// Writes one byte of a file anew, durably.
    pub(crate) fn put_byte(&self, name: &str, offset: u64, byte: u8) -> Result<(), Error> {
        let path = self.path.join(name);
        let at = |doing| move |source| (doing, source);
        boundary::pass("archive: put byte");
        let file = OpenOptions::new().write(true).open(&path).map_err(at("open"));
        let put = file.and_then(|file| {
            file.write_all_at(&[byte], offset).map_err(at("write"))?;
            rustix::fs::fsync(&file).map_err(|errno| ("sync", errno.into()))
        });
        boundary::pass("archive: byte put");
        put.map_err(|(doing, source)| Error::io(doing, &path, source))
    }

    /// Makes a file's content durable.
    pub(crate) fn sync(&self, file: &File, name: &str) -> Result<(), Error> {
        boundary::pass("archive: fsync");
        let result = rustix::fs::fsync(file);
        boundary::pass("archive: fsynced");
        result.map_err(|errno| Error::io("sync", &self.path.join(name), errno.into()))
    }

    /// Renames a file, replacing one that has the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        boundary::pass("archive: rename");
        let result = rustix::fs::renameat(&self.handle, from, &self.handle, to);
        boundary::pass("archive: renamed");
        result.map_err(|errno| Error::io("rename", &self.path.join(from), errno.into()))
    }

    /// Removes a file. That it is not there any more is no error.
    pub(crate) fn unlink(&self, name: &str) -> Result<(), Error> {
        boundary::pass("archive: unlink");
        let result = rustix::fs::unlinkat(&self.handle, name, rustix::fs::AtFlags::empty());
        boundary::pass("archive: unlinked");
        match result {
            Err(errno) if errno != rustix::io::Errno::NOENT => {
                Err(Error::io("remove", &self.path.join(name), errno.into()))
            }
            _ => Ok(()),
        }
    }

    /// Makes renames and removals durable.
    pub(crate) fn sync_folder(&self) -> Result<(), Error> {
        boundary::pass("archive: fsync folder");
        let result = rustix::fs::fsync(&self.handle);
        boundary::pass("archive: folder fsynced");
        result.map_err(|errno| Error::io("sync", &self.path, errno.into()))
    }

    /// What tells whether a file is as it was.
    pub(crate) fn stamp(&self, name: &str) -> io::Result<Stamp> {
        Ok(Stamp::of(&fs::symlink_metadata(self.path.join(name))?))
    }

    /// Opens a file for reading.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NOFOLLOW;
        Ok(rustix::fs::openat(&self.handle, name, flags, rustix::fs::Mode::empty())?.into())
    }
}
