//! Every folder and every mount that is made or removed, each announced as a boundary before and after.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use asat_core::boundary;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::error::Error;
use super::{layout, options};

/// How long a mount may be in use before somebody is said to use it, and how often it is tried meanwhile.
const MOMENT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// A path with every link resolved; `None` where nothing has it.
pub(super) fn resolve(path: &Path) -> Result<Option<PathBuf>, Error> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(Some(path)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("find", path)(source)),
    }
}

/// The names in a folder; none where there is no such folder.
pub(super) fn list(folder: &Path) -> Result<Vec<OsString>, Error> {
    if !look_at(folder)?.is_some_and(|metadata| metadata.is_dir()) {
        return Ok(Vec::new());
    }
    let names =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    names.map_err(Error::io("list", folder))
}

/// Makes the root folder. One that is there keeps its mode, unless others could put their own things in it.
pub(super) fn make_root(path: &Path, mode: u32) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => Err(Error::in_the_way(path, "it is no folder")),
        Ok(metadata) if !is_ours(&metadata) || metadata.mode() & 0o022 != 0 => {
            Err(Error::in_the_way(path, "others than this process's user may write to it"))
        }
        Ok(_) => Ok(()),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            boundary::pass("mounts: create root");
            let made = DirBuilder::new().recursive(true).mode(mode).create(path);
            made.map_err(Error::io("create", path))?;
            boundary::pass("mounts: root created");
            set_mode(path, mode)
        }
        Err(source) => Err(Error::io("look at", path)(source)),
    }
}

/// Makes a folder with exactly these permissions. One that is there is taken where it is this process's user's and
/// holds only names that may be in it; otherwise it is left as it is.
pub(super) fn make_folder(path: &Path, mode: u32, may_hold: impl Fn(&OsStr) -> bool) -> Result<(), Error> {
    boundary::pass("mounts: create folder");
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => boundary::pass("mounts: folder created"),
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
            if !look_at(path)?.is_some_and(|metadata| metadata.is_dir() && is_ours(&metadata)) {
                return Err(Error::in_the_way(path, "it is no folder of this process's user"));
            }
            if let Some(name) = list(path)?.into_iter().find(|name| !may_hold(name)) {
                return Err(Error::in_the_way(&path.join(name), "it was not made by asat"));
            }
        }
        Err(source) => return Err(Error::io("create", path)(source)),
    }
    set_mode(path, mode)
}

/// The process's umask may have taken permissions away, and a crash may have come before they were given.
fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    rustix::fs::chmod(path, Mode::from_bits_truncate(mode)).map_err(Error::io("set the mode of", path))
}

/// Makes what the shown file is mounted on. It is a socket: where a crash leaves it uncovered, it cannot be opened,
/// while SQLite would take an empty file for an empty database.
pub(super) fn make_placeholder(path: &Path) -> Result<(), Error> {
    boundary::pass("mounts: create placeholder");
    match rustix::fs::mknodat(CWD, path, FileType::Socket, Mode::empty(), 0) {
        Ok(()) => boundary::pass("mounts: placeholder created"),
        Err(Errno::EXIST) if is_placeholder(path)? => {}
        Err(Errno::EXIST) => return Err(Error::in_the_way(path, "it was not made by asat")),
        Err(errno) => return Err(Error::io("create", path)(errno)),
    }
    Ok(())
}

/// Removes what a shown file was mounted on, and the folder where nothing else is in it.
pub(super) fn remove_shown(path: &Path, folder: &Path) -> Result<(), Error> {
    if !look_at(folder)?.is_some_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    if is_placeholder(path)? {
        boundary::pass("mounts: remove placeholder");
        fs::remove_file(path).map_err(Error::io("remove", path))?;
        boundary::pass("mounts: placeholder removed");
    }
    remove_folder(folder)
}

/// Removes an empty folder. That it is not there, not empty, or a mount point, is no error.
pub(super) fn remove_folder(path: &Path) -> Result<(), Error> {
    if !look_at(path)?.is_some_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    boundary::pass("mounts: remove folder");
    let removed = rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR);
    boundary::pass("mounts: folder removed");
    match removed {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => Ok(()),
        Err(errno) => Err(Error::io("remove", path)(errno)),
    }
}

/// Finds a plain file below the root of a mounted file system, without leaving it by a link or another mount: the
/// snapshot's owner may have put one there, and root would follow it anywhere.
pub(super) fn find_beneath(root: &Path, inside: &Path) -> Result<File, Error> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let folder = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty());
    let folder = folder.map_err(Error::io("open", root))?;
    let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let found = rustix::fs::openat2(&folder, layout::relative(inside), flags, Mode::empty(), stay);
    let file = File::from(found.map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR => Error::NoSuchFile(inside.to_owned()),
        Errno::LOOP | Errno::XDEV => Error::NotAFile(inside.to_owned()),
        errno => Error::io("find in the snapshot", inside)(errno),
    })?);
    let metadata = file.metadata().map_err(Error::io("look at", inside))?;
    if metadata.is_file() { Ok(file) } else { Err(Error::NotAFile(inside.to_owned())) }
}

/// Whether a path leads to this very file.
pub(super) fn is(path: &Path, file: &File) -> Result<bool, Error> {
    let file = file.metadata().map_err(Error::io("look at", path))?;
    Ok(look_at(path)?.is_some_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino())))
}

/// Mounts a snapshot's file system.
pub(super) fn mount(node: &Path, at: &Path, fs: &str, options: &CStr) -> Result<(), Error> {
    boundary::pass("mounts: mount");
    let mount = || rustix::mount::mount(node, at, fs, options::FLAGS, options);
    let (mut mounted, since) = (mount(), Instant::now());
    while mounted == Err(Errno::BUSY) && since.elapsed() < MOMENT {
        // Whoever looks at a new device for what is on it, has it for himself meanwhile.
        thread::sleep(PAUSE);
        mounted = mount();
    }
    boundary::pass("mounts: mounted");
    mounted.map_err(|errno| match errno {
        // It is mounted for writing elsewhere, or something stands on it.
        Errno::BUSY => Error::Busy(node.to_owned()),
        errno => Error::io("mount", node)(errno),
    })
}

/// Mounts a file over the placeholder.
pub(super) fn bind(file: &File, at: &Path) -> Result<(), Error> {
    boundary::pass("mounts: bind");
    let bound = rustix::mount::mount_bind(format!("/proc/self/fd/{}", file.as_raw_fd()), at);
    boundary::pass("mounts: bound");
    bound.map_err(Error::io("mount a file at", at))
}

/// Unmounts at once; who uses files of the mount goes on until they are closed.
pub(super) fn detach(at: &Path) -> Result<(), Error> {
    boundary::pass("mounts: detach");
    let detached = rustix::mount::unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    boundary::pass("mounts: detached");
    detached.map_err(Error::io("unmount", at))
}

/// Unmounts what nobody uses. This process may seem to for a moment: a command that another thread starts has every file
/// of this process open until it is executed, and whoever looks a path up has the mounts on its way.
pub(super) fn unmount(at: &Path) -> Result<(), Error> {
    boundary::pass("mounts: unmount");
    let since = Instant::now();
    let unmounted = loop {
        match rustix::mount::unmount(at, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) if since.elapsed() < MOMENT => thread::sleep(PAUSE),
            unmounted => break unmounted,
        }
    };
    boundary::pass("mounts: unmounted");
    unmounted.map_err(|errno| match errno {
        Errno::BUSY => Error::Busy(at.to_owned()),
        errno => Error::io("unmount", at)(errno),
    })
}

fn is_placeholder(path: &Path) -> Result<bool, Error> {
    Ok(look_at(path)?.is_some_and(|metadata| metadata.file_type().is_socket()))
}

fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// What has a name, be it a dangling link.
fn look_at(path: &Path) -> Result<Option<Metadata>, Error> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("look at", path)(source)),
    }
}
