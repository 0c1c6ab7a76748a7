//! Clones of stores' files: a file of its own that shares all its blocks with the store's (`FICLONE`), until either is
//! written. XFS and btrfs make them.
//!
//! The clones of one installation lie in a folder of their own, which bears its id; each has a folder in that, which is named
//! for its version:
//!
//! ```text
//! <folder>/<installation>/report@12/report.db        the store's file
//! <folder>/<installation>/report@12/report.db-wal    its WAL, where that belongs to the version
//! <folder>/<installation>/report@12/told             what is known of the version, once it is one
//! ```
//!
//! Nobody but asat's own user gets into them. A clone is only touched where it has its version's
//! name, its folder is a real one of this user, and is the recorded one ([`Folder::look`]). All else is left alone.

mod error;
mod probe;
mod told;
mod unchanged;

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use asat_core::{StoreName, VersionId, boundary};
use jiff::Timestamp;
use rustix::fs::{IFlags, Mode, OFlags, ioctl_ficlone, ioctl_getflags, ioctl_setflags, openat};

use crate::apart::apart;
use crate::fiemap;
use crate::store::links::{Followed, follow_trusted};
pub use error::Error;
pub use probe::{MANY_PIECES, is_tested, pieces, probe};
use told::TOLD;
pub use unchanged::Unchanged;

/// The folder of an installation's clones.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// What was cloned.
#[derive(Clone, Debug)]
pub struct Cloned {
    /// What tells the clone's folder from any other that ever has its name.
    pub identity: String,
    /// What the store's file was like when it had been cloned.
    pub source: Metadata,
}

/// What tells whether a clone's file was touched, or replaced, since it was made to last: its inode, and the instant of its last
/// change, which nobody can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    changed: (i64, i64),
}

/// Which clone is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The one with this identity.
    Known(&'a str),
    /// One that was about to be made at this instant: whatever looks like it, and does not say that it was whole before.
    MadeSince(Timestamp),
}

/// What can be said of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    Here {
        /// As [`Cloned::identity`].
        identity: String,
        /// Whether the file is in it.
        whole: bool,
    },
    /// It is not there; something else may have its name, as this says.
    Gone(Option<&'static str>),
    /// The folder of all clones is not there: its file system may not be mounted.
    Unseen,
}

impl Folder {
    /// The folder at this path. It need not be there before the first clone.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folder of a version's clone.
    #[must_use]
    pub fn of(&self, id: &VersionId) -> PathBuf {
        self.0.join(id.to_string())
    }

    /// The store's file in a version's clone.
    #[must_use]
    pub fn file(&self, id: &VersionId) -> PathBuf {
        self.of(id).join(file_name(&id.store))
    }

    /// Clones a store's file for a version, and with `with_wal` its WAL as well. Nobody may write what is cloned meanwhile, so
    /// that both are of one state; the store's locks are kept. It lasts once [`Folder::sync`] was called. What a failure
    /// leaves is removed.
    ///
    /// # Errors
    /// Where the file system does not clone, or something has the clone's name.
    pub fn take(&self, id: &VersionId, store: &Path, with_wal: bool) -> Result<Cloned, Error> {
        make(&self.0)?;
        self.check_ours(&self.0)?;
        let (folder, file) = (self.of(id), self.file(id));
        boundary::pass("clones: take");
        DirBuilder::new().mode(0o700).create(&folder).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::InTheWay { path: folder.clone(), what: "it is none that is known" }
            }
            _ => Error::io("make", &folder)(error),
        })?;
        boundary::pass("clones: folder made");
        let cloned = apart(|| {
            // Both are taken from one folder, whatever is put on the path to it meanwhile.
            let Followed { folder, path, .. } = follow_trusted(store)?;
            let source = clone(&folder, &path, &file)?;
            boundary::pass("clones: file cloned");
            if with_wal {
                // The file first: what a checkpoint moves from the WAL to the file meanwhile is in the WAL's clone still.
                clone(&folder, &beside(&path), &beside(&file))?;
            }
            Ok(source)
        });
        let taken = cloned.map_err(Error::io("clone", store)).and_then(|source| {
            let metadata = fs::symlink_metadata(&folder).map_err(Error::io("look at", &folder))?;
            Ok(Cloned { identity: identity(&metadata), source })
        });
        if taken.is_err() {
            // Nobody else knows of it. What cannot be removed now is left alone, and told of at the next start.
            let _ = self.empty(id).and_then(|()| fs::remove_dir(&folder));
        }
        taken
    }

    /// Has the file in a clone say that it is in rollback mode: one in WAL mode could not be opened without its sidecars. This
    /// comes before [`Folder::sync`], and is the only thing that is ever written to a clone.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn into_rollback_mode(&self, id: &VersionId) -> Result<(), Error> {
        let path = self.file(id);
        let written =
            OpenOptions::new().write(true).open(&path).and_then(|file| file.write_all_at(&[1, 1], 18));
        written.map_err(Error::io("write", &path))
    }

    /// Makes a clone last, whatever happens to the machine, with what is `told` of its version. From here on it stays as it is.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn sync(&self, id: &VersionId, with_wal: bool, told: &[String]) -> Result<Stamp, Error> {
        let (folder, file, lines) = (self.of(id), self.file(id), self.of(id).join(TOLD));
        let wal = with_wal.then(|| beside(&file));
        for path in std::iter::once(&file).chain(&wal) {
            sync(path)?;
        }
        // After the clone itself: where this is whole, so is that.
        let text: String = told.iter().flat_map(|line| [line, "\n"]).collect();
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&lines);
        let written = options.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(Error::io("write", &lines))?;
        for path in [&lines, &folder, &self.0] {
            sync(path)?;
        }
        boundary::pass("clones: taken");
        Ok(Stamp::of(&fs::symlink_metadata(&file).map_err(Error::io("look at", &file))?))
    }

    /// Looks whether a version's clone is there.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn look(&self, id: &VersionId, which: Which<'_>) -> Result<Presence, Error> {
        let folder = self.of(id);
        let metadata = match fs::symlink_metadata(&folder) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let gone = matches!(which, Which::MadeSince(_)) || self.0.is_dir();
                return Ok(if gone { Presence::Gone(None) } else { Presence::Unseen });
            }
            Err(error) => return Err(Error::io("look at", &folder)(error)),
        };
        let identity = identity(&metadata);
        if let Some(why) = foreign(&metadata) {
            return Ok(Presence::Gone(Some(why)));
        }
        let another = match which {
            Which::Known(known) => (known != identity).then_some("it is not the folder that is recorded"),
            Which::MadeSince(_) if !self.has_only_ours(id)? => Some("there is something else in it"),
            Which::MadeSince(at) => {
                self.is_older(id, at)?.then_some("it was made before, for another version")
            }
        };
        if another.is_some() {
            return Ok(Presence::Gone(another));
        }
        let file = self.file(id);
        let whole = match fs::symlink_metadata(&file) {
            Ok(metadata) => metadata.is_file(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(Error::io("look at", &file)(error)),
        };
        Ok(Presence::Here { identity, whole })
    }

    /// Removes a version's clone. That it is gone is no error. Answers why something is left with its name, if there is.
    ///
    /// # Errors
    /// Where it cannot be seen, or the machine refuses.
    pub fn remove(&self, id: &VersionId, which: Which<'_>) -> Result<Option<&'static str>, Error> {
        match self.look(id, which)? {
            Presence::Gone(left) => return Ok(left),
            Presence::Unseen => return Err(Error::Unseen(self.0.clone())),
            Presence::Here { .. } => {}
        }
        let folder = self.of(id);
        boundary::pass("clones: remove");
        self.empty(id).map_err(Error::io("empty", &folder))?;
        boundary::pass("clones: emptied");
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Ok(Some("somebody has put something into its folder"));
            }
            removed => removed.map_err(Error::io("remove", &folder))?,
        }
        sync(&self.0)?;
        boundary::pass("clones: removed");
        Ok(None)
    }

    /// The names of everything that is in the folder.
    ///
    /// # Errors
    /// Where it cannot be listed.
    pub fn list(&self) -> Result<Vec<PathBuf>, Error> {
        let failed = |error| Error::io("list", &self.0)(error);
        match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => {
                let paths = entries.map_err(failed)?.map(|entry| entry.map(|entry| entry.path()));
                paths.collect::<io::Result<_>>().map_err(failed)
            }
        }
    }

    /// What a version's clone has in common with another one's: everything that is not told is to be read. `None` where that
    /// cannot be told, as where the other one is no longer what `stamp` says.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn unchanged(
        &self,
        id: &VersionId,
        (base, stamp): (&VersionId, Stamp),
    ) -> Result<Option<Unchanged>, Error> {
        let open = |id: &VersionId| {
            let path = self.file(id);
            let file = File::open(&path).map_err(Error::io("read", &path))?;
            Ok::<_, Error>((file, path))
        };
        let ((mine, my_path), (theirs, their_path)) = (open(id)?, open(base)?);
        let extents = |file: &File, path: &Path| {
            fiemap::extents(file).map_err(|errno| Error::io("ask the place of", path)(errno.into()))
        };
        let (mine, their_extents) = (extents(&mine, &my_path)?, extents(&theirs, &their_path)?);
        // After its extents: what was put in its place until then is seen.
        let metadata = theirs.metadata().map_err(Error::io("look at", &their_path))?;
        let (Some(mine), Some(theirs)) = (mine, their_extents) else { return Ok(None) };
        if Stamp::of(&metadata) != stamp {
            return Ok(None);
        }
        Ok(Unchanged::between(&mine, &theirs))
    }

    /// In how many pieces a version's clone lies, and so the store did; `None` where the file system cannot tell.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn pieces(&self, id: &VersionId) -> Result<Option<u32>, Error> {
        let path = self.file(id);
        let file = File::open(&path).map_err(Error::io("read", &path))?;
        fiemap::count(&file).map_err(|errno| Error::io("ask the place of", &path)(errno.into()))
    }

    /// Removes the files that a clone may have.
    fn empty(&self, id: &VersionId) -> io::Result<()> {
        let file = self.file(id);
        for path in [self.of(id).join(TOLD), beside(&file), file] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn has_only_ours(&self, id: &VersionId) -> Result<bool, Error> {
        let (folder, file) = (self.of(id), self.file(id));
        let failed = |error| Error::io("list", &folder)(error);
        let ours = [folder.join(TOLD), beside(&file), file];
        for entry in fs::read_dir(&folder).map_err(failed)? {
            if !ours.contains(&entry.map_err(failed)?.path()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_ours(&self, folder: &Path) -> Result<(), Error> {
        let metadata = fs::symlink_metadata(folder).map_err(Error::io("look at", folder))?;
        foreign(&metadata).map_or(Ok(()), |what| Err(Error::InTheWay { path: folder.to_owned(), what }))
    }
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self { inode: file.ino(), changed: (file.ctime(), file.ctime_nsec()) }
    }
}

/// The name of the file in a clone of this store. The store's own name may be none that can be recorded.
#[must_use]
pub fn file_name(store: &StoreName) -> String {
    format!("{store}.db")
}

/// The WAL beside a database.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Why a folder is not one that this process has made.
fn foreign(metadata: &Metadata) -> Option<&'static str> {
    if !metadata.is_dir() {
        Some("it is not a folder")
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        Some("it is another user's")
    } else if metadata.mode() & 0o077 != 0 {
        Some("others may look into it")
    } else {
        None
    }
}

/// A folder's inode and the instant at which it was made: no two folders of one file system have both.
fn identity(metadata: &Metadata) -> String {
    let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    format!("{:x}-{:x}", metadata.ino(), made.map_or(0, |made| made.as_nanos()))
}

/// Clones a file into a new one; answers what it was like then. This must be done apart where it is a store's.
fn clone(folder: &File, from: &Path, to: &Path) -> io::Result<Metadata> {
    // Where somebody has put a pipe there, opening it does not wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let name = from.file_name().unwrap_or_default();
    let source = File::from(openat(folder, name, flags, Mode::empty())?);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    // What btrfs writes in place (`chattr +C`) it clones only into a file that it will write so too.
    if ioctl_getflags(&source).is_ok_and(|flags| flags.contains(IFlags::NOCOW)) {
        ioctl_setflags(&made, IFlags::NOCOW)?;
    }
    ioctl_ficlone(&made, &source)?;
    source.metadata()
}

/// Makes a folder that only this user gets into, with those above it, to last.
fn make(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    make(parent)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        // Two stores may begin at the same time.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Error::io("make", folder)(error)),
        _ => sync(parent),
    }
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("sync", path))
}

#[cfg(test)]
mod tests;
