//! Noticing that somebody may have written to a store, without looking at it again and again.
//!
//! The kernel tells (inotify) of whatever happens to the files in the store's folder. Every commit shows there: as a write to
//! the WAL, or to the database and its journal. What happened is not asked, only whether it was the store's file, or one
//! beside it that SQLite makes; whoever hears it looks for himself. The store may be replaced by another file, its folder may
//! be moved away and be made anew, and a link may lead elsewhere: then the folders are found anew. No file is opened.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use asat_core::{Code, Problem};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// What shows of a commit in the folder of a store, and whether that is still the folder.
const OF_FILES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(OF_FOLDER);
/// Whether a folder has still its place.
const OF_FOLDER: WatchFlags = WatchFlags::DELETE_SELF
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::MASK_ADD);
/// Whether something comes to be in a folder.
const OF_NAMES: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(OF_FOLDER);
/// After these, what is watched is perhaps no longer what has the names.
const UPROOTED: ReadFlags = ReadFlags::IGNORED
    .union(ReadFlags::UNMOUNT)
    .union(ReadFlags::QUEUE_OVERFLOW)
    .union(ReadFlags::DELETE_SELF)
    .union(ReadFlags::MOVE_SELF);
/// What has the name now may be another file or folder, or a link that leads elsewhere.
const ARRIVED: ReadFlags = ReadFlags::CREATE.union(ReadFlags::MOVED_TO);
/// How often folders are found anew that change meanwhile.
const ATTEMPTS: u32 = 5;
/// The files that SQLite has beside a database.
const BESIDE: [&str; 2] = ["-wal", "-journal"];
/// So long nothing is read after something has happened: a store that is written without pause wakes nobody for each write.
const NAP: Duration = Duration::from_millis(5);

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// Somebody may have written to the store.
    Change,
    /// The time is over, and nothing has happened that matters.
    Nothing,
    /// The other end of the pipe is closed.
    End,
}

/// A store whose files are watched.
#[derive(Debug)]
pub struct Watching {
    path: PathBuf,
    watched: Watched,
}

/// What is watched, and for which names.
#[derive(Debug)]
struct Watched {
    inotify: OwnedFd,
    /// The names that matter, and whether what comes to have one may be elsewhere than what had it.
    names: BTreeMap<OsString, bool>,
    /// The folders as they were found, and which they are.
    folders: Vec<(PathBuf, Identity)>,
    /// What is not there and should be, to have the folders.
    missing: Vec<PathBuf>,
}

/// The device and the inode of a folder; nothing where it is not there.
type Identity = Option<(u64, u64)>;

impl Watching {
    /// Watches the store at this path, whether it is there yet or not.
    ///
    /// # Errors
    /// Where the kernel does not tell, saying why.
    pub fn begin(path: &Path) -> Result<Self, Problem> {
        let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        Ok(Self { watched: Watched::over(&path).map_err(|error| failed(&path, &error))?, path })
    }

    /// Waits until something has happened to the store's files, the time is over, or the other end of the pipe is closed.
    ///
    /// # Errors
    /// Where the kernel tells no more.
    pub fn wait(&mut self, timeout: Option<Duration>, end: &PipeReader) -> Result<Noticed, Problem> {
        let failed = |error: io::Error| failed(&self.path, &error);
        match self.wait_for_any(timeout, end).map_err(failed)? {
            Noticed::Change => {}
            other => return Ok(other),
        }
        let (matters, uprooted) = self.watched.read().map_err(failed)?;
        if uprooted {
            self.watched = Watched::over(&self.path).map_err(failed)?;
        }
        // Another file in the folder may be written without pause as well.
        if sleep(NAP, end).map_err(failed)? {
            return Ok(Noticed::End);
        }
        Ok(if matters || uprooted { Noticed::Change } else { Noticed::Nothing })
    }

    /// Looks whether the folders are still those which are watched, and watches those which are; answers whether they were others.
    ///
    /// # Errors
    /// Where the kernel does not tell, saying why.
    pub fn look_again(&mut self) -> Result<bool, Problem> {
        let found = identified(folders_of(&self.path).0);
        if found == self.watched.folders && !self.watched.is_outdated() {
            return Ok(false);
        }
        self.watched = Watched::over(&self.path).map_err(|error| failed(&self.path, &error))?;
        Ok(true)
    }

    fn wait_for_any(&self, timeout: Option<Duration>, end: &PipeReader) -> io::Result<Noticed> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut polled = [PollFd::new(&self.watched.inotify, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(Noticed::Nothing),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [_, end] = polled;
        Ok(if end.revents().is_empty() { Noticed::Change } else { Noticed::End })
    }
}

/// Waits for a time; answers whether the other end of the pipe is closed before.
///
/// # Errors
/// Where the kernel refuses to wait.
pub fn sleep(time: Duration, end: &PipeReader) -> io::Result<bool> {
    let timeout = Timespec::try_from(time).ok();
    match poll(&mut [PollFd::new(end, PollFlags::IN)], timeout.as_ref()) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

impl Watched {
    /// Watches where the store's files are, or will be.
    fn over(path: &Path) -> io::Result<Self> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            let (folders, names) = folders_of(path);
            let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            let mut watched =
                Self { inotify, names, folders: identified(folders.clone()), missing: Vec::new() };
            folders.iter().try_for_each(|folder| watched.add(folder))?;
            // What came to be meanwhile was perhaps not told.
            let is_same = identified(folders_of(path).0) == watched.folders && !watched.is_outdated();
            if is_same || attempts.next().is_none() {
                return Ok(watched);
            }
        }
    }

    /// Whether something is there that was missing.
    fn is_outdated(&self) -> bool {
        self.missing.iter().any(|path| path.symlink_metadata().is_ok())
    }

    /// Watches a folder, and those above it in case it is moved; where it is not there, the innermost one that is.
    fn add(&mut self, folder: &Path) -> io::Result<()> {
        let mut is_found = false;
        let mut missing: Option<&Path> = None;
        for place in folder.ancestors() {
            let flags = match missing {
                _ if is_found => OF_FOLDER,
                None => OF_FILES,
                Some(_) => OF_NAMES,
            };
            match inotify::add_watch(&self.inotify, place, flags) {
                Ok(_) => {
                    is_found = true;
                    if let Some((path, name)) =
                        missing.take().and_then(|path| Some((path, path.file_name()?)))
                    {
                        self.names.insert(name.to_owned(), true);
                        self.missing.push(path.to_owned());
                    }
                }
                Err(Errno::NOENT | Errno::NOTDIR) if !is_found => missing = Some(place),
                // Those above may be closed to this process; that they are moved away is rare, and seen later.
                Err(_) if is_found => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Takes all that the kernel has to tell: whether it matters, and whether the folders must be found anew.
    fn read(&self) -> io::Result<(bool, bool)> {
        let (mut matters, mut uprooted) = (false, false);
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    uprooted |= event.events().intersects(UPROOTED);
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    let moves = name.and_then(|name| self.names.get(name));
                    matters |= moves.is_some();
                    uprooted |= moves == Some(&true) && event.events().intersects(ARRIVED);
                }
                Err(Errno::AGAIN) => return Ok((matters, uprooted)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// The folders that the store's files are in, and their names: that of the path, and where links lead from there.
fn folders_of(path: &Path) -> (Vec<PathBuf>, BTreeMap<OsString, bool>) {
    let real = path.canonicalize().ok();
    let (mut folders, mut names) = (Vec::new(), BTreeMap::new());
    for file in real.iter().map(PathBuf::as_path).chain([path]) {
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { continue };
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
        names.insert(name.to_owned(), true);
        names.extend(BESIDE.map(|suffix| {
            let mut beside = name.to_owned();
            beside.push(suffix);
            (beside, false)
        }));
    }
    (folders, names)
}

fn identified(folders: Vec<PathBuf>) -> Vec<(PathBuf, Identity)> {
    let identity = |folder: &Path| folder.metadata().ok().map(|found| (found.dev(), found.ino()));
    folders.into_iter().map(|folder| (folder.clone(), identity(&folder))).collect()
}

fn failed(path: &Path, error: &io::Error) -> Problem {
    let detail = format!("the kernel does not tell of changes to {}: {error}", path.display());
    let hint = "let the daemon's user read the store's folder, or raise fs.inotify.max_user_instances and max_user_watches";
    Problem::new(Code::Internal, detail, hint)
}
