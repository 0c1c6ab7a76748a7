//! A database in a snapshot is set to rollback mode, through the snapshot's device.
//!
//! A database in WAL mode cannot be opened read-only without its `-wal` and `-shm`, and there are none beside a shown
//! file. Bytes 18 and 19 of its header say the mode (<https://www.sqlite.org/fileformat.html>, 1.3.3), and with both
//! at 1 any client opens it. The snapshot is mounted read-only, so they cannot be written through the file system,
//! and a mount for writing would replay its log. But the block that holds them can be written where it lies.
//!
//! A write to a wrong place of the device would damage the version. So it happens only where all of this holds: the
//! file is on this device; its first block is plainly there and nobody else's; and the device has at that place what
//! the file says. Afterwards the file must say what was written, or the old bytes are put back.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use asat_core::boundary;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;

use super::device;
use super::error::Error;
use crate::fiemap;

/// How every SQLite database begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Where the header has the file format's write and read versions.
const VERSIONS: std::ops::Range<usize> = 18..20;
/// What they are in rollback mode.
const ROLLBACK: [u8; 2] = [1, 1];
/// Memory for direct input and output begins at a multiple of this, which is enough for every device.
const ALIGNMENT: usize = 4096;

/// Sets a database in a mounted snapshot to rollback mode, so that stock clients open it read-only with nothing beside
/// it; `node` is the snapshot's device node. Returns whether it is in rollback mode then. `false` means that it cannot
/// be done here, and nothing was changed: the kernel does not let anybody write to the device of a mounted file
/// system, or the file's first block is not plainly on the device. It must come before the file is shown to readers.
///
/// # Errors
/// [`Error::NotTheDevice`], where the file is on another device; [`Error::NotADatabase`]; or where the machine refuses.
pub fn into_rollback_mode(file: &Path, node: &Path) -> Result<bool, Error> {
    let metadata = fs::symlink_metadata(file).map_err(Error::io("look at", file))?;
    if !metadata.is_file() {
        return Err(Error::NotAFile(file.to_owned()));
    }
    let number = device::numbers(metadata.dev());
    device::check(node, number)?;
    let Some(database) = open_direct(file, OFlags::RDONLY | OFlags::NOFOLLOW)? else { return Ok(false) };
    let block = device::logical_block(number)?;
    let mut said = Block::new(block);
    let length = database.read_at(said.bytes_mut(), 0).map_err(Error::io("read", file))?;
    if is_rollback(file, said.bytes().get(..length).unwrap_or_default())? {
        return Ok(true);
    }
    let extent = fiemap::first(&database).map_err(Error::io("ask the place of", file))?;
    let Some(at) = extent.and_then(|extent| extent.first_block(block)) else { return Ok(false) };
    let Some(device) = open_direct(node, OFlags::RDWR)? else { return Ok(false) };
    let mut found = Block::new(block);
    device.read_exact_at(found.bytes_mut(), at).map_err(Error::io("read", node))?;
    if length != found.bytes().len() || found.bytes() != said.bytes() {
        return Ok(false);
    }
    found.set(ROLLBACK);
    if !write(&device, node, found.bytes(), at)? {
        return Ok(false);
    }
    check_file(&database, file, &found).inspect_err(|_| {
        // That it went wrong is what the caller must know; whether this goes well changes nothing about it.
        let _ = write(&device, node, said.bytes(), at);
    })?;
    Ok(true)
}

/// Whether a database's first bytes say rollback mode.
pub(crate) fn is_rollback(file: &Path, header: &[u8]) -> Result<bool, Error> {
    let refuse = |what: String| Err(Error::NotADatabase { path: file.to_owned(), what });
    match header.get(VERSIONS) {
        _ if !header.starts_with(MAGIC) => refuse("it does not begin as a SQLite database does".to_owned()),
        Some(&[1, 1]) => Ok(true),
        Some(&[1 | 2, 1 | 2]) => Ok(false),
        versions => refuse(format!("the versions of its file format are {:?}", versions.unwrap_or_default())),
    }
}

/// Writes a block durably; `false` where the kernel does not permit that.
fn write(device: &File, node: &Path, bytes: &[u8], at: u64) -> Result<bool, Error> {
    boundary::pass("mounts: write header");
    match device.write_at(bytes, at) {
        Ok(length) if length == bytes.len() => {}
        Ok(_) => return Err(Error::io("write", node)(io::Error::from(io::ErrorKind::WriteZero))),
        Err(source) if is_forbidden(&source) => return Ok(false),
        Err(source) => return Err(Error::io("write", node)(source)),
    }
    device.sync_data().map_err(Error::io("sync", node))?;
    boundary::pass("mounts: header written");
    Ok(true)
}

/// Looks whether the file says what was written: on the device, and then to everybody, once the file system has
/// forgotten what it knew.
fn check_file(database: &File, file: &Path, written: &Block) -> Result<(), Error> {
    let refuse = |what| Err(Error::NotAsWritten { path: file.to_owned(), what });
    let mut said = Block::new(written.length);
    database.read_exact_at(said.bytes_mut(), 0).map_err(Error::io("read", file))?;
    if said.bytes() != written.bytes() {
        return refuse("its first block on the device is another one");
    }
    // All of it, because the cache drops a large folio only as a whole.
    rustix::fs::fadvise(database, 0, None, Advice::DontNeed).map_err(Error::io("drop the cache of", file))?;
    let cached = File::open(file).map_err(Error::io("open", file))?;
    let mut header = [0; 20];
    cached.read_exact_at(&mut header, 0).map_err(Error::io("read", file))?;
    if header.get(VERSIONS) == Some(&ROLLBACK) { Ok(()) } else { refuse("the old bytes are still cached") }
}

/// Opens for direct input and output; `None` where that is not possible, or not permitted while it is mounted.
fn open_direct(path: &Path, flags: OFlags) -> Result<Option<File>, Error> {
    match rustix::fs::open(path, flags | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(Errno::INVAL) => Ok(None),
        Err(errno) if flags.contains(OFlags::RDWR) && is_forbidden(&errno.into()) => Ok(None),
        Err(errno) => Err(Error::io("open", path)(errno)),
    }
}

/// Whether a kernel says so that a device must not be written to: because it is mounted, or set read-only.
fn is_forbidden(error: &io::Error) -> bool {
    let forbidden = [Errno::BUSY, Errno::PERM, Errno::ACCESS, Errno::ROFS];
    Errno::from_io_error(error).is_some_and(|errno| forbidden.contains(&errno))
}

/// A block in memory that is aligned for direct input and output.
struct Block {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    fn new(length: usize) -> Self {
        let room = vec![0; length + ALIGNMENT];
        // The vector never grows, so its bytes stay where they are.
        let start = room.as_ptr().align_offset(ALIGNMENT);
        Self { room, start, length }
    }

    fn bytes(&self) -> &[u8] {
        self.room.get(self.start..self.start + self.length).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.room.get_mut(self.start..self.start + self.length).unwrap_or_default()
    }

    fn set(&mut self, versions: [u8; 2]) {
        if let Some(place) = self.bytes_mut().get_mut(VERSIONS) {
            place.copy_from_slice(&versions);
        }
    }
}

#[cfg(test)]
mod tests;
