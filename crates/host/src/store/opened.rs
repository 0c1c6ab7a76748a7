//! Which files this process has open.
//!
//! SQLite opens files by their paths and does not tell which files it got. The kernel does.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Whether this process has the file with this device and inode open, other than by a handle that gives no content.
pub(super) fn is_open(identity: (u64, u64)) -> io::Result<bool> {
    for descriptor in fs::read_dir("/proc/self/fd")? {
        let descriptor = descriptor?;
        // One that was closed meanwhile is none.
        let Ok(metadata) = fs::metadata(descriptor.path()) else { continue };
        if (metadata.dev(), metadata.ino()) == identity && !is_handle(&descriptor.file_name())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a descriptor was opened with `O_PATH` (proc_pid_fdinfo(5)).
fn is_handle(number: &OsStr) -> io::Result<bool> {
    let told = fs::read_to_string(Path::new("/proc/self/fdinfo").join(number))?;
    let flags =
        told.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    let flags = flags.ok_or_else(|| io::Error::other("the kernel does not tell how a file was opened"))?;
    Ok(OFlags::from_bits_retain(flags).contains(OFlags::PATH))
}
