//! The kernel's mount table, `/proc/self/mountinfo`, and which of its mounts a store is on.
//!
//! A mount is found by its number, which the kernel tells of every open file. To compare paths instead
//! would go wrong where one mount hides another, and where a folder is mounted a second time.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::obstacle::Obstacle;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number, for as long as it is mounted.
    pub id: u64,
    /// The device of its file system; major 0 where that has none.
    pub device: (u32, u32),
    /// Which folder of the file system is mounted; `/` unless it is a bind mount.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The kind of file system.
    pub fs: String,
    /// What is mounted, as whoever did it has called it: a device node, or any text where there is no device.
    pub source: String,
    /// The options of the file system, as opposed to those of this mount.
    pub options: Vec<String>,
}

/// Where a part of a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its path, without links.
    pub path: PathBuf,
    /// The number of the mount that it is on.
    pub mount: u64,
    /// The device that it is on.
    pub device: (u32, u32),
}

/// Options that name a further device of a file system: XFS's log and real-time section, ext4's journal.
const FURTHER_DEVICES: [&str; 4] = ["logdev=", "rtdev=", "journal_dev=", "journal_path="];

impl Mount {
    /// A path below the mount, as a path from the root of its file system.
    #[must_use]
    pub fn inside(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.mount_point).ok()?;
        // A file that is mounted by itself is the mount point, and to join nothing would add a slash.
        if below.as_os_str().is_empty() { Some(self.root.clone()) } else { Some(self.root.join(below)) }
    }
}

/// Finds the one mount that all places are on; otherwise the kind of file system, where it is known, and
/// why not.
///
/// # Errors
/// Where the places are on several mounts, or the file system has no device, or more than one.
pub fn locate(mounts: &[Mount], places: &[Place]) -> Result<Mount, (String, Obstacle)> {
    let unknown = || (String::new(), Obstacle::UnknownMount);
    let main = places.first().ok_or_else(unknown)?;
    let mount = mounts.iter().find(|mount| mount.id == main.mount).ok_or_else(unknown)?;
    let refuse = |why| Err((mount.fs.clone(), why));
    if let Some(other) = places.iter().find(|place| place.mount != main.mount) {
        return refuse(Obstacle::SpansMounts(other.path.clone()));
    }
    // overlayfs, NFS and tmpfs have no device, and btrfs and bcachefs hide theirs.
    if mount.device.0 == 0 {
        return refuse(Obstacle::NoDevice(mount.fs.clone()));
    }
    if let Some(other) = places.iter().find(|place| place.device != mount.device) {
        return refuse(Obstacle::SpansMounts(other.path.clone()));
    }
    let further = |option: &&String| FURTHER_DEVICES.iter().any(|name| option.starts_with(name));
    if let Some(option) = mount.options.iter().find(further) {
        return refuse(Obstacle::SpansDevices(option.clone()));
    }
    Ok(mount.clone())
}

/// Reads the mount table. Lines that are not built as `proc(5)` says are passed over: a mount that is
/// missed is [`Obstacle::UnknownMount`] at worst.
#[must_use]
pub fn parse(table: &str) -> Vec<Mount> {
    table.lines().filter_map(parse_line).collect()
}

/// Reads `32 21 254:0 / /mnt/a\040b rw,relatime shared:1 - ext4 /dev/mapper/vg-data rw`.
fn parse_line(line: &str) -> Option<Mount> {
    let mut words = line.split(' ');
    let id = number(words.next()?)?;
    number(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (u32::try_from(number(major)?).ok()?, u32::try_from(number(minor)?).ok()?);
    let root = path(words.next()?)?;
    let mount_point = path(words.next()?)?;
    words.next()?;
    // Any number of optional fields, up to a hyphen.
    words.by_ref().find(|&word| word == "-")?;
    let fs = words.next().filter(|fs| !fs.is_empty())?.to_owned();
    let source = words.next()?.to_owned();
    let options = words.next()?.split(',').map(str::to_owned).collect();
    Some(Mount { id, device, root, mount_point, fs, source, options })
}

/// The mount's number in the text of `/proc/self/fdinfo/N`.
#[must_use]
pub fn parse_mount_id(info: &str) -> Option<u64> {
    number(info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim())
}

/// A path, in which blanks, line ends and backslashes are written as three octal digits.
fn path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let mut value = 0_u32;
        for _ in 0..3 {
            let digit = rest.next().filter(|digit| (b'0'..=b'7').contains(digit))?;
            value = value * 8 + u32::from(digit - b'0');
        }
        bytes.push(u8::try_from(value).ok()?);
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

/// Digits alone, where `u64::from_str` would also take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
