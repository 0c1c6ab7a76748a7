//! What a snapshot is mounted with.

use std::ffi::CStr;

use rustix::mount::MountFlags;

use super::error::Error;

/// The flags of a snapshot's mount. A bind mount of one of its files has them too.
pub(super) const FLAGS: MountFlags = MountFlags::RDONLY
    .union(MountFlags::NOSUID)
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME);

/// What of a file system is in its log only, at the moment of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Nothing: LVM has the file system write all to its place as it suspends the volume.
    Empty,
    /// Some, for nobody had it do so. Then the log is replayed, into the snapshot.
    Replayed,
}

/// The options of a snapshot's mount, which are the file system's own.
///
/// A log is replayed only where that must be, since it writes to the snapshot. XFS refuses a file system whose twin is
/// mounted, unless it is told that this is meant. ext4 takes from its superblock what to do on an error, and one that
/// says `panic` would stop the host as a snapshot overflows. Files that were deleted and still open at the cut are
/// freed by ext4 in spite of all this: their inodes and maps are written to the snapshot. Only a read-only device
/// keeps it from that, and then no header could be written.
pub(super) fn of_snapshot(fs: &str, log: Log) -> Result<&'static CStr, Error> {
    match (fs, log) {
        ("ext4", Log::Empty) => Ok(c"noload,errors=continue"),
        ("ext4", Log::Replayed) => Ok(c"errors=continue"),
        ("xfs", Log::Empty) => Ok(c"nouuid,norecovery"),
        ("xfs", Log::Replayed) => Ok(c"nouuid"),
        _ => Err(Error::UnsupportedFs(fs.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::SUPPORTED;
    use super::*;

    #[test]
    fn only_what_is_known_is_mounted() {
        for fs in ["ext4", "xfs"] {
            assert!(SUPPORTED.contains(fs), "{fs}");
            // What replays a log is told from what must not.
            assert_ne!(of_snapshot(fs, Log::Empty).unwrap(), of_snapshot(fs, Log::Replayed).unwrap(), "{fs}");
        }
        for fs in ["", "ext2", "ext3", "EXT4", "btrfs", "vfat", "tmpfs", "bind"] {
            let error = of_snapshot(fs, Log::Empty).unwrap_err().to_string();
            assert!(error.contains(&format!("{fs:?}")) && error.contains(SUPPORTED), "{error}");
        }
    }
}
