//! Files and folders, the file systems that they are on, and the volumes below those.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statvfs, statx};

use crate::lvm::{self, Listing};
use crate::volume::{self, Backing, Ground, mounts};

/// What has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing has it.
    Missing,
    /// It could not be looked at, for this reason.
    Hidden(String),
    /// Something has it.
    There {
        /// What it is.
        kind: Kind,
        /// How long it is.
        bytes: u64,
        /// Its owner, by number.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// How many names it has.
        links: u64,
    },
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file with content.
    File,
    /// A folder.
    Folder,
    /// A device, a socket, or a pipe.
    Other,
}

/// Where a file or folder lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind of file system.
    pub fs: String,
    /// Where that is mounted.
    pub mount_point: PathBuf,
    /// The device of the whole file system, major and minor; a subvolume has a number of its own besides.
    pub device: (u32, u32),
    /// How many bytes of it a user other than root may still take.
    pub free: u64,
}

/// What a store stands on, as far as volumes are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Footing {
    /// A volume that could be cut.
    Volume(Volume),
    /// No volume can be cut here, for this reason.
    Plain(String),
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// A logical volume that could be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its group and name.
    pub name: String,
    /// How many bytes of its group are free.
    pub group_free: u64,
    /// Its pool, where it is a thin one.
    pub pool: Option<Pool>,
}

/// A thin pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its group and name.
    pub name: String,
    /// How full its data and its metadata are, in whole per cent, where LVM can say.
    pub used: Option<(u64, u64)>,
}

/// Looks at a name, following links.
#[must_use]
pub fn entry(path: &Path) -> PathKind {
    match fs::metadata(path) {
        Ok(found) => {
            let kind = match found.file_type() {
                kind if kind.is_file() => Kind::File,
                kind if kind.is_dir() => Kind::Folder,
                _ => Kind::Other,
            };
            PathKind::There {
                kind,
                bytes: found.len(),
                owner: found.uid(),
                mode: found.mode() & 0o7777,
                links: found.nlink(),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => PathKind::Missing,
        Err(error) => PathKind::Hidden(error.to_string()),
    }
}

/// Where a path lies, or would lie once it is made.
///
/// # Errors
/// Why it could not be found out.
pub fn place(path: &Path) -> Result<Place, String> {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let fail = |error: io::Error| format!("cannot look at {}: {error}", there.display());
    let space = statvfs(there).map_err(|errno| fail(errno.into()))?;
    let found = statx(CWD, there, AtFlags::empty(), StatxFlags::MNT_ID);
    let found = found.map_err(|errno| fail(errno.into()))?;
    let table = fs::read("/proc/self/mountinfo").map_err(fail)?;
    let mounts = mounts::parse(&String::from_utf8_lossy(&table));
    let mount = mounts.into_iter().find(|mount| mount.id == found.stx_mnt_id);
    let mount = mount.ok_or_else(|| format!("the mount of {} is not in the mount table", there.display()))?;
    Ok(Place {
        fs: mount.fs,
        mount_point: mount.mount_point,
        device: mount.device,
        free: space.f_bavail.saturating_mul(space.f_frsize),
    })
}

/// What a store stands on.
#[must_use]
pub fn footing<'a>(store: &Path, listing: Result<&'a Listing<'a>, &lvm::Error>) -> Footing {
    match volume::discover(store, || listing.map_err(ToString::to_string)) {
        Ok(Ground::Lvm(found)) => Footing::Volume(Volume {
            name: format!("{}/{}", found.group.name, found.volume.name),
            group_free: found.group.free.0.saturating_mul(found.group.extent_size.0),
            pool: match found.backing {
                Backing::Plain => None,
                Backing::Thin { pool } => Some(Pool {
                    name: format!("{}/{}", found.group.name, pool.name),
                    used: pool
                        .data_percent
                        .zip(pool.metadata_percent)
                        .map(|(data, metadata)| (data.rounded_up(), metadata.rounded_up())),
                }),
            },
        }),
        Ok(Ground::Plain { why, .. }) => Footing::Plain(why.to_string()),
        Err(error) => Footing::Unknown(error.to_string()),
    }
}

/// How many bytes the files in the folders of a folder have; `None` where they cannot be listed. A folder that
/// is not there has none.
#[must_use]
pub fn bytes_below(folder: &Path) -> Option<u64> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(0),
        entries => entries.ok()?,
    };
    let mut sum = 0_u64;
    for entry in entries {
        // What goes while it is counted takes no room any more.
        let Ok(files) = fs::read_dir(entry.ok()?.path()) else { continue };
        let sizes = files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len());
        sum = sizes.fold(sum, u64::saturating_add);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn names_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.db");
        assert_eq!(entry(&file), PathKind::Missing);
        fs::write(&file, "four").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let PathKind::There { kind, bytes, mode, .. } = entry(&file) else { panic!("not there") };
        assert_eq!((kind, bytes, mode), (Kind::File, 4, 0o640));
        assert!(matches!(entry(folder.path()), PathKind::There { kind: Kind::Folder, .. }));
        assert!(matches!(entry(Path::new("/dev/null")), PathKind::There { kind: Kind::Other, .. }));
        assert!(matches!(entry(&file.join("below")), PathKind::Hidden(_)));
    }

    #[test]
    fn what_is_not_there_lies_where_it_would_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let found = place(folder.path()).unwrap();
        let below = place(&folder.path().join("a/b/c")).unwrap();
        assert_eq!(
            (below.device, &below.fs, &below.mount_point),
            (found.device, &found.fs, &found.mount_point)
        );
        assert_eq!(place(Path::new("/proc/self/status")).unwrap().fs, "proc");
    }

    #[test]
    fn copies_are_counted_one_folder_deep() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(bytes_below(&folder.path().join("none")), Some(0));
        fs::create_dir(folder.path().join("report@1")).unwrap();
        fs::write(folder.path().join("report@1/report.db"), "four").unwrap();
        fs::write(folder.path().join("identities"), "beside").unwrap();
        assert_eq!(bytes_below(folder.path()), Some(4));
    }
}
