//! What is mounted, and whether it is what belongs there.

use std::fs;
use std::path::Path;

use super::error::Error;
use super::options::{self, Log};
use crate::volume::mounts::{self, Mount};

const TABLE: &str = "/proc/self/mountinfo";

/// The mounts that this process sees, as they were when it looked.
#[derive(Debug)]
pub(super) struct Table {
    mounts: Vec<Mount>,
}

impl Table {
    pub(super) fn read() -> Result<Self, Error> {
        let bytes = fs::read(TABLE).map_err(Error::io("read", Path::new(TABLE)))?;
        // A path that is not UTF-8 can be in the table; only its own mount is spoilt by that.
        Ok(Self { mounts: mounts::parse(&String::from_utf8_lossy(&bytes)) })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter()
    }

    /// What is mounted at a path without links: of several, the one that hides the others, which came last.
    pub(super) fn at(&self, path: &Path) -> Option<&Mount> {
        self.mounts.iter().rev().find(|mount| mount.mount_point == path)
    }
}

/// Refuses what is mounted where a snapshot's file system belongs and is none, or is on another device.
pub(super) fn check_snapshot(mount: &Mount, device: Option<(u32, u32)>) -> Result<(), Error> {
    let is_whole = mount.root == Path::new("/");
    let is_right = device.is_none_or(|device| device == mount.device);
    if is_read_only(mount) && is_whole && is_right { Ok(()) } else { Err(foreign(mount)) }
}

/// Refuses what is mounted where a shown file belongs and is none, or comes from another snapshot than the one
/// that is mounted.
pub(super) fn check_shown(mount: &Mount, snapshot: Option<&Mount>) -> Result<(), Error> {
    let is_part = mount.root != Path::new("/");
    let is_right = snapshot.is_none_or(|snapshot| snapshot.device == mount.device);
    if is_read_only(mount) && is_part && is_right { Ok(()) } else { Err(foreign(mount)) }
}

fn is_read_only(mount: &Mount) -> bool {
    let is_supported = options::of_snapshot(&mount.fs, Log::Empty).is_ok();
    is_supported && mount.options.iter().any(|option| option == "ro")
}

fn foreign(mount: &Mount) -> Error {
    let (major, minor) = mount.device;
    let root = mount.root.display();
    let what = format!("{root} of a file system {} on the device {major}:{minor} is mounted there", mount.fs);
    Error::InTheWay { path: mount.mount_point.clone(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNAPSHOT: &str =
        "40 30 254:3 / /m/.snapshots/r@1 ro,nosuid,nodev,noexec,noatime - ext4 /dev/dm-3 ro,norecovery";
    const SHOWN: &str = "41 30 254:3 /srv/r.db /m/r@1/r.db ro,nosuid - ext4 /dev/dm-3 ro,norecovery";

    fn table(lines: &[&str]) -> Table {
        Table { mounts: mounts::parse(&lines.join("\n")) }
    }

    #[test]
    fn of_several_mounts_at_one_place_the_last_one_counts() {
        let above = SNAPSHOT.replace("40 30 254:3", "50 40 254:9");
        let table = table(&[SNAPSHOT, SHOWN, &above]);
        assert_eq!(table.at(Path::new("/m/.snapshots/r@1")).map(|mount| mount.id), Some(50));
        assert_eq!(table.at(Path::new("/m/r@1/r.db")).map(|mount| mount.id), Some(41));
        assert_eq!(table.at(Path::new("/m/r@1")), None);
    }

    #[test]
    fn what_is_mounted_in_a_snapshots_place_is_told_from_a_snapshot() {
        let check = |line: &str, device| check_snapshot(&table(&[line]).mounts[0], device);
        check(SNAPSHOT, Some((254, 3))).unwrap();
        check(SNAPSHOT, None).unwrap();
        for (line, device) in [
            (SNAPSHOT.to_owned(), Some((254, 4))),
            (SNAPSHOT.replace(" / /m", " /sub /m"), None),
            (SNAPSHOT.replace(" ro,norecovery", " rw,norecovery"), None),
            (SNAPSHOT.replace("ext4", "tmpfs"), None),
        ] {
            let error = check(&line, device).unwrap_err().to_string();
            assert!(error.contains("/m/.snapshots/r@1") && error.contains("254:3"), "{error}");
        }
    }

    #[test]
    fn what_is_mounted_in_a_shown_files_place_is_told_from_one() {
        let snapshot = table(&[SNAPSHOT]);
        let check = |line: &str| check_shown(&table(&[line]).mounts[0], snapshot.all().next());
        check(SHOWN).unwrap();
        check_shown(&table(&[SHOWN]).mounts[0], None).unwrap();
        for line in [
            SHOWN.replace("254:3", "254:4"),
            SHOWN.replace("/srv/r.db /m", "/ /m"),
            SHOWN.replace(" ro,norecovery", " rw"),
            SHOWN.replace("ext4", "overlay"),
        ] {
            assert!(check(&line).is_err(), "{line}");
        }
    }
}
