//! Freed blocks are given back: the ioctl `FITRIM`, as `linux/fs.h` has it.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use asat_core::boundary;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Updater, opcode};

use super::error::Error;

/// `_IOWR('X', 121, struct fstrim_range)`.
const FITRIM: Opcode = opcode::read_write::<Range>(b'X', 121);

/// `struct fstrim_range`, in bytes.
#[repr(C)]
struct Range {
    start: u64,
    length: u64,
    shortest: u64,
}

/// Gives the blocks that a mounted file system no longer uses back to the thin pool below it, and returns how many
/// bytes the file system has told it of. Those that a snapshot shares stay in the pool until that goes, and so do
/// holes that are smaller than a chunk of the pool. It may take seconds, in which the file system serves others.
///
/// # Errors
/// [`Error::NoTrim`], where the device takes no discards, as one with classic snapshots, or where the file system is
/// mounted without its log; [`Error::NotPermitted`]; or where the machine refuses.
pub fn trim(mount_point: &Path) -> Result<u64, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(mount_point, flags, Mode::empty());
    let folder = File::from(folder.map_err(Error::io("open", mount_point))?);
    let mut range = Range { start: 0, length: u64::MAX, shortest: 0 };
    boundary::pass("mounts: trim");
    // SAFETY: the opcode is that of `FITRIM`, for which the kernel expects a `struct fstrim_range` that it reads and
    // writes. `Range` is laid out so and is borrowed mutably for the call; any bytes are valid in it.
    let answer = unsafe { ioctl::ioctl(&folder, Updater::<FITRIM, Range>::new(&mut range)) };
    boundary::pass("mounts: trimmed");
    match answer {
        Ok(()) => Ok(range.length),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::ROFS) => Err(Error::NoTrim(mount_point.to_owned())),
        Err(errno) => Err(Error::io("trim", mount_point)(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_a_device_has_nothing_to_give_back() {
        assert_eq!(size_of::<Range>(), 24);
        let error = trim(Path::new("/proc")).unwrap_err();
        assert!(matches!(&error, Error::NoTrim(path) if path == Path::new("/proc")), "{error}");
    }
}
