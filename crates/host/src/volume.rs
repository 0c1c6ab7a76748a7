//! The ground that a store stands on: from its path to its mount, its device and its logical volume.
//!
//! A backend that works on volumes must know that *everything* of a store lies on the one volume that it
//! cuts: the database, its journal or WAL, and the file system's own log. Where that is not certain, the
//! ground is [`Ground::Plain`], with the reason, and the store is kept by its pages.
//!
//! What the machine says is read here and judged in pure functions: [`mounts`] reads the mount table,
//! [`stack`] what the device-mapper and LVM say.

pub mod mounts;
mod obstacle;
pub mod stack;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use asat_core::{Code, Problem};
use rustix::fs::{Mode, OFlags};

pub use obstacle::Obstacle;
pub use stack::{Backing, DeviceUuid};

use crate::lvm::{self, Listing, LogicalVolume, Refusal, VolumeGroup};
use crate::mounts::is_supported;
use mounts::{Mount, Place};

/// What a store stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Any file system. No volume can be cut under it.
    Plain {
        /// The kind of file system: `ext4`, `xfs`, ...
        fs: String,
        /// Why no backend of LVM can work here.
        why: Obstacle,
    },
    /// A file system on a logical volume that can be cut.
    Lvm(Box<OnLvm>),
}

/// A store on a logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnLvm {
    /// The kind of file system.
    pub fs: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The store's path within the file system, from its root: where it is in a snapshot too.
    pub inside: PathBuf,
    /// The device, major and minor.
    pub device: (u32, u32),
    /// The volume group.
    pub group: VolumeGroup,
    /// The logical volume.
    pub volume: LogicalVolume,
    /// What that is made of.
    pub backing: Backing,
}

/// Finds out what a store stands on. LVM is asked for only where the device is one of its own.
///
/// # Errors
/// Where the store is not there, or the machine cannot be asked.
pub fn discover<'a>(
    store: &Path,
    listing: impl FnOnce() -> Result<&'a Listing<'a>, String>,
) -> Result<Ground, Error> {
    let places = places(store)?;
    let mount = match mount_of(&places)? {
        Ok(mount) => mount,
        Err((fs, why)) => return Ok(Ground::Plain { fs, why }),
    };
    let plain = |why| Ok(Ground::Plain { fs: mount.fs.clone(), why });
    let uuid = match volume_under(&mount)? {
        Ok(uuid) => uuid,
        Err(why) => return plain(why),
    };
    if !is_supported(&mount.fs) {
        return plain(Obstacle::UnsupportedFs(mount.fs.clone()));
    }
    let listing = match listing() {
        Ok(listing) => listing,
        Err(why) => return plain(Obstacle::LvmUnusable(why)),
    };
    let groups = match listing.groups() {
        Err(error) if error.refusal() == Some(Refusal::NotPermitted) => return plain(Obstacle::NotPermitted),
        groups => groups?,
    };
    let Some(group) = groups.iter().find(|group| group.uuid == uuid.group).cloned() else {
        return plain(Obstacle::UnknownVolume);
    };
    let volumes = listing.volumes(&group.name)?;
    let (volume, backing) = match stack::judge(&uuid, &group, &volumes) {
        Ok(found) => found,
        Err(why) => return plain(why),
    };
    let inside = places.first().and_then(|place| mount.inside(&place.path));
    let Some(inside) = inside else { return plain(Obstacle::OutsideMount) };
    let Mount { fs, mount_point, device, .. } = mount;
    Ok(Ground::Lvm(Box::new(OnLvm { fs, mount_point, inside, device, group, volume, backing })))
}

/// Where a store stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLocation {
    /// Its logical volume.
    pub uuid: DeviceUuid,
    /// Its path within the file system, from its root.
    pub inside: PathBuf,
}

/// Where a store stands now, without asking LVM; why on no logical volume, where that is so.
///
/// # Errors
/// Where the store is not there, or the machine cannot be asked.
pub fn stands_on(store: &Path) -> Result<Result<StoreLocation, Obstacle>, Error> {
    let places = places(store)?;
    let mount = match mount_of(&places)? {
        Ok(mount) => mount,
        Err((_, why)) => return Ok(Err(why)),
    };
    let inside = places.first().and_then(|place| mount.inside(&place.path)).ok_or(Obstacle::OutsideMount);
    let uuid = volume_under(&mount)?;
    Ok(uuid.and_then(|uuid| Ok(StoreLocation { uuid, inside: inside? })))
}

/// The one mount that all places are on.
fn mount_of(places: &[Place]) -> Result<Result<Mount, (String, Obstacle)>, Error> {
    let table = read("/proc/self/mountinfo", 16 << 20)?;
    Ok(mounts::locate(&mounts::parse(&table), places))
}

/// The logical volume that a mount's device is.
fn volume_under(mount: &Mount) -> Result<Result<DeviceUuid, Obstacle>, Error> {
    let Some(text) = device_uuid(mount.device)? else { return Ok(Err(Obstacle::NotDeviceMapper)) };
    Ok(stack::parse_uuid(&text))
}

/// Where the store's parts are: the database, its folder, and the files beside it that are there.
fn places(store: &Path) -> Result<Vec<Place>, Error> {
    let path = fs::canonicalize(store).map_err(|source| Error::io("find", store, source))?;
    let mut places = vec![place(&path)?];
    if let Some(folder) = path.parent() {
        places.push(place(folder)?);
    }
    for suffix in ["-journal", "-wal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match place(Path::new(&name)) {
            Ok(found) => places.push(found),
            // It may come and go at any time, and will be made in the folder then.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(places)
}

/// Which mount and which device a path leads to. With `O_PATH` the file's content and its locks are left
/// alone.
fn place(path: &Path) -> Result<Place, Error> {
    let fail = |source| Error::io("look at", path, source);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| fail(errno.into()))?;
    let handle = File::from(handle);
    let device = handle.metadata().map_err(fail)?.dev();
    let info = read(&format!("/proc/self/fdinfo/{}", handle.as_raw_fd()), 4096)?;
    let mount = mounts::parse_mount_id(&info).ok_or_else(|| Error::NoMountId(path.to_owned()))?;
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    Ok(Place { path: path.to_owned(), mount, device })
}

/// The UUID of a device of the device-mapper; `None` where the device is none.
fn device_uuid((major, minor): (u32, u32)) -> Result<Option<String>, Error> {
    match read(&format!("/sys/dev/block/{major}:{minor}/dm/uuid"), 4096) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &str, most: u64) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|source| Error::io("read", Path::new(path), source))?;
    // A path that is not UTF-8 can be in the mount table; only its own mount is spoilt by that.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why the machine could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be looked at.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The machine's answer.
        source: io::Error,
    },
    /// The kernel does not say which mount a file is on.
    #[error("the kernel does not say which mount {} is on", .0.display())]
    NoMountId(PathBuf),
    /// LVM could not be asked.
    #[error(transparent)]
    Lvm(#[from] lvm::Error),
}

impl Error {
    fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, hint) = match error {
            Error::Lvm(error) => return error.into(),
            Error::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                (Code::StoreMissing, "look at the store's path in the configuration")
            }
            Error::Io { .. } => (Code::Configuration, "let the daemon read the store's folder"),
            Error::NoMountId(_) => (Code::Configuration, "choose the backend `pages` for the store"),
        };
        Self::new(code, error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests;
