//! Every effect of the copies on the disk, each announced as a boundary before and after.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use asat_core::{VersionId, boundary};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::error::Error;
use super::identity::Identity;
use super::naming;

/// Lists the names in a folder; none where there is no such folder.
pub(super) fn list(folder: &Path) -> Result<Vec<OsString>, Error> {
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<_>>()
            .map_err(Error::io("list", folder)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::io("list", folder)(source)),
    }
}

/// Whether anything has this name, be it a dangling link.
pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Refuses what has this name and is no folder.
pub(super) fn check_is_folder_or_absent(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_dir() => Err(Error::InTheWay(path.to_owned())),
        _ => Ok(()),
    }
}

/// Makes a folder with exactly these permissions, where there is none.
pub(super) fn make_folder(path: &Path, mode: u32) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    boundary::pass("copies: create folder");
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(Error::io("create", path))?;
    // The process's umask may have taken permissions away.
    rustix::fs::chmod(path, Mode::from_bits_truncate(mode)).map_err(as_error("set the mode of", path))?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_folder(parent)?;
    }
    boundary::pass("copies: folder created");
    Ok(())
}

/// Creates a copy's file with room for `len` bytes.
pub(super) fn create(path: &Path, len: u64) -> Result<File, Error> {
    boundary::pass("copies: create");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(Error::io("create", path))?;
    boundary::pass("copies: created");
    set_room_aside(&file, path, len)?;
    Ok(file)
}

/// Sets room aside, without making the file longer. First the free space is looked at: a request that can only
/// fail would take what is left from others for as long as the failing lasts.
fn set_room_aside(file: &File, path: &Path, len: u64) -> Result<(), Error> {
    let space = rustix::fs::fstatvfs(file).map_err(as_error("look at the space for", path))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if free < len {
        return Err(Error::NoRoom { path: path.to_owned(), needed: len, free });
    }
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len) {
        // Not every file system can; the room is found missing while writing then.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT) => Err(Error::NoRoom { path: path.to_owned(), needed: len, free }),
        Err(errno) => Err(as_error("set room aside for", path)(errno)),
    }
}

/// Makes a written file read-only and durable, and says which it is.
pub(super) fn finish(file: &File, path: &Path) -> Result<Identity, Error> {
    rustix::fs::fchmod(file, Mode::from_bits_truncate(0o440)).map_err(as_error("set the mode of", path))?;
    boundary::pass("copies: fsync");
    rustix::fs::fsync(file).map_err(as_error("sync", path))?;
    boundary::pass("copies: fsynced");
    Identity::of_file(file).map_err(Error::io("look at", path))
}

/// Writes a small file durably, replacing one of the same name.
pub(super) fn write_small(path: &Path, text: &str) -> Result<(), Error> {
    boundary::pass("copies: write record");
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    let mut file = file.map_err(Error::io("create", path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", path))?;
    rustix::fs::fsync(&file).map_err(as_error("sync", path))?;
    boundary::pass("copies: record written");
    Ok(())
}

/// Renames a file, replacing one that has the new name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    boundary::pass("copies: rename");
    fs::rename(from, to).map_err(Error::io("rename", from))?;
    boundary::pass("copies: renamed");
    Ok(())
}

/// Renames a version's folder. An older one in that place gets the old name in exchange, so that at no moment
/// there is none; only where the file system cannot exchange names, the older one is removed first.
pub(super) fn rename_folder(from: &Path, to: &Path, id: &VersionId) -> Result<(), Error> {
    if !exists(to) {
        return rename(from, to);
    }
    boundary::pass("copies: exchange");
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            remove_folder(to, id)?;
            rename(from, to)?;
        }
        Err(errno) => return Err(as_error("exchange", to)(errno)),
    }
    boundary::pass("copies: exchanged");
    Ok(())
}

/// Removes a file. That it is not there is no error.
pub(super) fn remove_file(path: &Path) -> Result<(), Error> {
    boundary::pass("copies: remove file");
    let result = rustix::fs::unlinkat(CWD, path, AtFlags::empty());
    boundary::pass("copies: file removed");
    match result {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(as_error("remove", path)(errno)),
    }
}

/// Removes a copy's folder and the files that belong to a copy, and says whether there was one. A file that
/// does not belong to a copy stays, and its folder with it; so does what is no folder at all.
pub(super) fn remove_folder(folder: &Path, id: &VersionId) -> Result<bool, Error> {
    if !fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(false);
    }
    for name in naming::file_names(id) {
        let path = folder.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir()) {
            remove_file(&path)?;
        }
    }
    boundary::pass("copies: remove folder");
    let result = rustix::fs::unlinkat(CWD, folder, AtFlags::REMOVEDIR);
    boundary::pass("copies: folder removed");
    match result {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(true),
        Err(errno) => Err(as_error("remove", folder)(errno)),
    }
}

/// Makes the creation, renaming and removal of a folder's entries durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Error> {
    boundary::pass("copies: fsync folder");
    let handle = File::open(folder).map_err(Error::io("open", folder))?;
    rustix::fs::fsync(&handle).map_err(as_error("sync", folder))?;
    boundary::pass("copies: folder fsynced");
    Ok(())
}

fn as_error(doing: &'static str, path: &Path) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::io(doing, path)(errno.into())
}
