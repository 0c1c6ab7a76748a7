//! The device under a mount.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::error::Error;

/// Whether a file system on this device is still mounted anywhere, in any namespace, or a file of one that was
/// unmounted is still open. Other users of the device, such as one that reads it as a whole, are not seen.
///
/// # Errors
/// Where the node is not there or cannot be opened.
pub fn in_use(node: &Path) -> Result<bool, Error> {
    // A file system claims its device for itself, and so does an opening with O_EXCL.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(node, flags, Mode::empty()) {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(Error::io("open", node)(errno)),
    }
}

/// Refuses a node that does not lead to this block device.
pub(super) fn check(node: &Path, expected: (u32, u32)) -> Result<(), Error> {
    let metadata = fs::metadata(node).map_err(Error::io("look at", node))?;
    let (major, minor) = numbers(metadata.rdev());
    let is_block_device = metadata.file_type().is_block_device();
    if is_block_device && (major, minor) == expected {
        return Ok(());
    }
    let found = if is_block_device { format!("{major}:{minor}") } else { "no block device".to_owned() };
    Err(Error::NotTheDevice { path: node.to_owned(), expected, found })
}

/// The smallest part of a device that can be read or written past every cache, in bytes.
pub(super) fn logical_block((major, minor): (u32, u32)) -> Result<usize, Error> {
    let path = format!("/sys/dev/block/{major}:{minor}/queue/logical_block_size");
    let path = Path::new(&path);
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    text.trim().parse().map_err(|error| Error::io("read", path)(std::io::Error::other(error)))
}

/// The major and minor number in what the kernel calls a device.
pub(super) fn numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}
