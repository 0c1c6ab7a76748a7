//! The folders, and every effect on them, each between two announced boundaries.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use asat_archive::Error;
use asat_core::boundary;
use rustix::fs::{AtFlags, FlockOperation, RenameFlags};
use rustix::io::Errno;

use crate::pack::io;

/// A folder that is open.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) handle: File,
}

impl Place {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let handle = File::open(path).map_err(|source| io("open", path, source))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// Takes the lock that each asat takes which has the archive open, so that none writes to it meanwhile.
    pub(crate) fn lock(&self) -> Result<(), Error> {
        match rustix::fs::flock(&self.handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => {
                Err(Error::Busy { folder: self.path.clone(), what: "another asat has it open" })
            }
            Err(errno) => Err(io("lock", &self.path, errno.into())),
        }
    }

    /// What is in it: names, and the lengths of regular files.
    pub(crate) fn list(&self) -> Result<Vec<(String, Option<u64>)>, Error> {
        let at = |source| io("list", &self.path, source);
        let mut listed = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(at)? {
            let entry = entry.map_err(at)?;
            let metadata = entry.metadata().map_err(at)?;
            let bytes = metadata.is_file().then_some(metadata.len());
            listed.push((entry.file_name().to_string_lossy().into_owned(), bytes));
        }
        listed.sort();
        Ok(listed)
    }

    /// Has two names within it change places at once.
    pub(crate) fn exchange(&self, one: &str, other: &str) -> Result<(), Error> {
        boundary::pass("upgrade: exchange");
        let result = rustix::fs::renameat_with(&self.handle, one, &self.handle, other, RenameFlags::EXCHANGE);
        boundary::pass("upgrade: exchanged");
        result.map_err(|errno| io("exchange", &self.path.join(one), errno.into()))
    }

    pub(crate) fn remove_file(&self, name: &str) -> Result<(), Error> {
        boundary::pass("upgrade: unlink");
        let result = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
        boundary::pass("upgrade: unlinked");
        result.map_err(|errno| io("remove", &self.path.join(name), errno.into()))
    }

    pub(crate) fn remove_folder(&self, name: &str) -> Result<(), Error> {
        boundary::pass("upgrade: remove folder");
        let result = rustix::fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR);
        boundary::pass("upgrade: folder removed");
        result.map_err(|errno| io("remove", &self.path.join(name), errno.into()))
    }

    /// Makes what was renamed and removed durable.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        boundary::pass("upgrade: fsync folder");
        let result = rustix::fs::fsync(&self.handle);
        boundary::pass("upgrade: folder fsynced");
        result.map_err(|errno| io("sync", &self.path, errno.into()))
    }
}
