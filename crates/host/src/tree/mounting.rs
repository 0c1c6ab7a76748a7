//! Mounting: what this machine offers, what is at the root already, and how the tree gets there.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::thread::CapabilitySet;

use super::files::Files;
use super::mounted::{HELPER, check_answered, detach, is_ours, mounted_at, top};
use super::{Error, Settings, Versions};
use crate::machine::give_way_by;
use crate::volume::mounts::Mount;

const DEVICE: &str = "/dev/fuse";
const HELPER_FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin"];

/// Where `fusermount3` is told what users may ask of it.
const HELPER_RULES: &str = "/etc/fuse.conf";
/// The line in it by which a user may have others look into what is mounted for him.
const OTHERS_MAY: &str = "user_allow_other";

/// How many threads answer, as many as there are processors within these bounds: reads of different files, or of different
/// places in one, do not wait for one another. With more, what a reader waits for shares a processor with what he will read
/// later.
const THREADS: RangeInclusive<usize> = 2..=8;

/// How nice they are. Most of what they do is reading ahead, for which nobody waits yet. As important as the reader, they would take half of
/// its processor while another one is idle, and a scan of a whole version would take a fifth longer.
const NICENESS: i32 = 5;

/// How far the kernel reads ahead, in KiB, where it may be told: sixteen requests of the usual size.
const READ_AHEAD_KIB: &str = "2048";

/// What this process can do with FUSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It mounts by itself.
    Direct,
    /// It mounts with the help of `fusermount3`.
    Helper,
    /// Nothing, for this reason.
    None(String),
}

/// Finds out what this process can do with FUSE. Nothing is mounted.
#[must_use]
pub fn reach() -> Reach {
    if let Err(error) = File::options().read(true).write(true).open(DEVICE) {
        return Reach::None(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {DEVICE}"),
            _ => format!("{DEVICE} cannot be opened: {error}"),
        });
    }
    if may_mount() {
        Reach::Direct
    } else if HELPER_FOLDERS.iter().any(|folder| Path::new(folder).join(HELPER).exists()) {
        Reach::Helper
    } else {
        Reach::None(format!("only root may mount without {HELPER}, and that is not installed"))
    }
}

fn may_mount() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Finds out what would keep a tree of this name from being mounted by this process. Nothing is changed.
///
/// # Errors
/// As [`super::Tree::mount`], as far as it shows beforehand.
pub fn check(root: &Path, name: &str, allow_other: bool) -> Result<Reach, Error> {
    let reach = usable(allow_other)?;
    // What is below a tree that is mounted shows once that is away.
    if ours_at(root, name)?.is_empty() {
        check_empty(root)?
    } else {
        check_answered(root)?
    }
    Ok(reach)
}

/// Makes the root ready: there, with nothing of ours mounted on it any more. Answers its path without links.
pub(super) fn prepare(settings: &Settings) -> Result<PathBuf, Error> {
    usable(settings.allow_other)?;
    let root = &settings.root;
    for mount in ours_at(root, &settings.name)? {
        detach(&mount.mount_point)?;
    }
    fs::create_dir_all(root).map_err(Error::io("create", root))?;
    check_empty(root)?;
    root.canonicalize().map_err(Error::io("find", root))
}

/// By which way this process can mount what it is to mount.
fn usable(allow_other: bool) -> Result<Reach, Error> {
    let reach = reach();
    if let Reach::None(why) = reach {
        return Err(Error::Unavailable(why));
    }
    // The helper goes by who has started it, and refuses nobody but users.
    let is_bound = reach == Reach::Helper && !rustix::process::getuid().is_root();
    if allow_other && is_bound && !others_may(&fs::read_to_string(HELPER_RULES).unwrap_or_default()) {
        return Err(Error::OnlyOwner);
    }
    Ok(reach)
}

/// Whether the rules of the helper let a user have others look.
pub(super) fn others_may(rules: &str) -> bool {
    rules.lines().any(|line| line.split('#').next().is_some_and(|rule| rule.trim() == OTHERS_MAY))
}

/// The trees of this name that are mounted at the root; refuses it where anything else is.
fn ours_at(root: &Path, name: &str) -> Result<Vec<Mount>, Error> {
    let mounts = mounted_at(&without_links(root)?)?;
    match mounts.iter().rev().find(|mount| !is_ours(mount, name)) {
        None => Ok(mounts),
        Some(Mount { fs, source, .. }) => {
            let what = format!("a file system {fs} ({source}) is mounted there");
            Err(Error::InTheWay { path: root.to_owned(), what })
        }
    }
}

/// Refuses a root in which there is something. One that is not there yet can be made.
pub(super) fn check_empty(root: &Path) -> Result<(), Error> {
    let mut entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io("list", root))?,
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let what = "there are files in it, which the tree would hide".to_owned();
    Err(Error::InTheWay { path: root.to_owned(), what })
}

/// Mounts the files at a prepared root.
pub(super) fn mount<V: Versions>(
    files: Files<V>,
    root: &Path,
    settings: &Settings,
) -> Result<Session<Files<V>>, Error> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(settings.name.clone()),
        MountOption::RO,
        MountOption::NoAtime,
        MountOption::NoExec,
        MountOption::DefaultPermissions,
    ];
    config.acl = if settings.allow_other { SessionACL::All } else { SessionACL::Owner };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    config.n_threads = Some(processors.clamp(*THREADS.start(), *THREADS.end()));
    config.clone_fd = true;
    let notifier = Arc::clone(&files.notifier);
    let session = Session::new(files, root, &config).map_err(Error::io("mount the tree at", root))?;
    // It is empty: nobody else has it but the files, which only look.
    let _ = notifier.set(session.notifier());
    Ok(session)
}

/// Starts the threads that answer. They are as nice as the one that starts them.
pub(super) fn spawn<V: Versions>(session: Session<Files<V>>) -> io::Result<BackgroundSession> {
    let spawn = || {
        give_way_by(NICENESS);
        session.spawn()
    };
    thread::scope(|scope| {
        let starting = thread::Builder::new().name("tree".to_owned()).spawn_scoped(scope, spawn)?;
        starting.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Has the kernel read further ahead of those who read in order than it does by itself, which is one request: so several
/// are answered side by side.
pub(super) fn read_further_ahead(root: &Path) -> Result<(), Error> {
    let mount = top(root)?.ok_or_else(|| Error::unmounted(root))?;
    let (major, minor) = mount.device;
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    fs::write(&setting, READ_AHEAD_KIB).map_err(Error::io("write", Path::new(&setting)))
}

/// The path with the links in it followed. A mount whose process is gone cannot be looked at itself, its folder can.
fn without_links(path: &Path) -> Result<PathBuf, Error> {
    let error = match path.canonicalize() {
        Ok(path) => return Ok(path),
        Err(error) => error,
    };
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => Ok(folder.join(name)),
        _ if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        _ => Err(Error::io("find", path)(error)),
    }
}
