//! The tree of versions as a file system of its own, by FUSE: any program opens a version by its path.
//!
//! Which names there are and where they lead is for `asat_core::tree` to say, and what may be opened for whoever
//! implements [`Versions`]; here the kernel's questions are passed on, and its caches are told what never changes.
//!
//! A reader's second look at a page costs no more than with a plain file, as the kernel keeps what it was given.
//! SQLite asks before each transaction whether there is a journal or a WAL beside the database; where the answer
//! "no" could not be kept, short queries would take seven times as long.

mod error;
mod files;
mod inodes;
mod mounted;
mod mounting;
#[cfg(test)]
mod tests;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use asat_core::register::Register;
use asat_core::{Problem, VersionId};
use fuser::Session;

pub use error::Error;
pub use mounted::clean;
pub use mounting::{Reach, check, reach};
pub use watch::Watch;

use crate::volume::mounts::Mount;
use files::{Ending, Files};

/// What the tree shows.
pub trait Versions: Send + Sync + 'static {
    /// A version that somebody has open. Dropping it says that nobody reads it any more.
    type Open: Content;

    /// Looks at the records.
    fn look<T>(&self, look: impl FnOnce(&Register) -> T) -> T;

    /// A version that can be opened without waiting.
    fn opened(&self, id: &VersionId) -> Option<Arc<Self::Open>>;

    /// Opens a version. It may take a while; it is asked on a thread of its own.
    ///
    /// # Errors
    /// Where the version cannot be read.
    fn open(&self, id: &VersionId) -> Result<Arc<Self::Open>, Problem>;
}

/// The bytes of a version.
pub trait Content: Send + Sync + 'static {
    /// How many there are.
    fn length(&self) -> u64;

    /// Fills the buffer from a place on, and answers how many bytes there were: fewer only at the end.
    ///
    /// # Errors
    /// Where they are damaged, or cannot be read.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether reading may take as long as a service far away takes to answer: then each reader waits by himself.
    fn is_far(&self) -> bool {
        false
    }

    /// The same as [`Self::read_at`], but no reader has asked for the bytes yet. If they cannot be read, the answer is nothing, and nothing is logged.
    fn read_unasked(&self, at: u64, buffer: &mut [u8]) -> Option<usize>;

    /// Prepares what is likely to be read next. It is asked when the answer is out, so that nobody waits for it.
    fn look_ahead(&self);
}

/// Where the tree is mounted, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The folder. It is made where it is missing.
    pub root: PathBuf,
    /// The name of the file system in the mount table; a mount of that name at the root is taken for a stale one.
    pub name: String,
    /// Whether others than the user of this process may look, as far as the mode lets them.
    pub allow_other: bool,
    /// The permissions of the files; folders can be entered by whoever may read. Nobody may write.
    pub mode: u16,
    /// The group that files and folders belong to; that of this process where none is named.
    pub group: Option<u32>,
}

/// A mounted tree that is not served yet: who looks into it waits.
pub struct Tree<V: Versions> {
    session: Session<Files<V>>,
    versions: Arc<OnceLock<V>>,
    root: PathBuf,
    mount: u64,
    ending: Arc<Ending>,
}

/// A tree that is served, by threads of its own.
#[derive(Debug)]
pub struct Serving {
    root: PathBuf,
    /// The number of its mount.
    mount: u64,
    session: fuser::BackgroundSession,
    ending: Arc<Ending>,
}

impl<V: Versions> Tree<V> {
    /// Mounts the tree. One that was left at the same place before is detached first. When its session ends, the watch is rung.
    ///
    /// # Errors
    /// [`Error::Unavailable`], where this machine or this user has no FUSE; [`Error::OnlyOwner`], where others may not look and
    /// shall; [`Error::InTheWay`], where something else is mounted or lies there; or where the machine refuses.
    pub fn mount(settings: &Settings, watch: &Arc<Watch>) -> Result<Self, Error> {
        let root = mounting::prepare(settings)?;
        let versions = Arc::new(OnceLock::new());
        let ending = Arc::new(Ending { is_over: AtomicBool::new(false), watch: Arc::clone(watch) });
        let files = Files::new(Arc::clone(&versions), settings, Arc::clone(&ending));
        let session = mounting::mount(files, &root, settings)?;
        let mount = mounted::top(&root)?.ok_or_else(|| Error::unmounted(&root))?.id;
        Ok(Self { session, versions, root, mount, ending })
    }

    /// Has the kernel read further ahead, which makes the first reading of a whole version faster.
    ///
    /// # Errors
    /// Where this process may not: only root may. Everything else works all the same.
    pub fn read_further_ahead(&self) -> Result<(), Error> {
        mounting::read_further_ahead(&self.root)
    }

    /// Begins to answer.
    ///
    /// # Errors
    /// Where no thread can be started; it is unmounted then.
    pub fn serve(self, versions: V) -> Result<Serving, Error> {
        // It is empty: nobody else has it but the files, which only look.
        let _ = self.versions.set(versions);
        let session = mounting::spawn(self.session).map_err(Error::io("serve", &self.root))?;
        Ok(Serving { root: self.root, mount: self.mount, session, ending: self.ending })
    }
}

impl Serving {
    /// Looks whether the tree is what is seen at its place, and somebody answers there.
    ///
    /// # Errors
    /// [`Error::Gone`], where it is not; or where that cannot be found out.
    pub fn check(&self) -> Result<(), Error> {
        let gone = |what: String| Err(Error::Gone { path: self.root.clone(), what });
        match mounted::top(&self.root)? {
            None => Err(Error::unmounted(&self.root)),
            Some(Mount { id, fs, source, .. }) if id != self.mount => {
                gone(format!("a file system {fs} ({source}) is mounted there"))
            }
            // The session's thread ends a moment after it has said so.
            Some(_) if self.ending.is_over.load(Ordering::Acquire) || self.session.guard.is_finished() => {
                gone("its connection to the kernel was ended".to_owned())
            }
            Some(_) => Ok(()),
        }
    }

    /// Takes the tree away from its place, where it is there. Who has a file open can read on until this process ends.
    ///
    /// # Errors
    /// Where the machine refuses.
    pub fn stop(self) -> Result<(), Error> {
        let is_there = mounted::top(&self.root)?.is_some_and(|top| top.id == self.mount);
        let root = self.root.clone();
        self.leave();
        if is_there { mounted::detach(&root) } else { Ok(()) }
    }

    /// Lets the tree be, where it is not at its place any more. Who has a file open can read on.
    pub fn leave(self) {
        // The session would unmount whatever is at that place by now, so it is left to end with its last file, or the process.
        std::mem::forget(self.session);
    }
}

/// The number of a group of this machine, by its name or by the number itself; `None` where there is no such group.
///
/// # Errors
/// Where the machine's list of groups cannot be read.
pub fn group_number(group: &str) -> io::Result<Option<u32>> {
    if let Ok(number) = group.parse() {
        return Ok(Some(number));
    }
    Ok(nix::unistd::Group::from_name(group)?.map(|group| group.gid.as_raw()))
}

/// The name that the tree of an installation has in the mount table.
#[must_use]
pub fn name(installation: &str) -> String {
    format!("asat-{installation}")
}

/// The path of a version in a tree with this root.
#[must_use]
pub fn path(root: &Path, id: &VersionId) -> PathBuf {
    root.join(asat_core::tree::path(id))
}
