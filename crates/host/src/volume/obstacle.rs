//! Why a store's volume cannot be cut.

use std::path::PathBuf;

use crate::mounts::SUPPORTED;

/// Why no backend of LVM can work under a store. The text ends a sentence such as "the backend `pages` was
/// chosen, because ...".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The file system lies on no device of its own.
    #[error("the file system {0} lies on no block device of its own")]
    NoDevice(String),
    /// Snapshots of such a file system are not mounted.
    #[error("snapshots of the file system {0} are not supported: {SUPPORTED} are")]
    UnsupportedFs(String),
    /// A part of the store is on another mount.
    #[error("{} is on another file system than the store itself", .0.display())]
    SpansMounts(PathBuf),
    /// The file system keeps its log or a part of its data on another device.
    #[error("the file system keeps a part of itself on another device ({0})")]
    SpansDevices(String),
    /// The mount is not in the mount table.
    #[error("the store's mount is not in the mount table of this process")]
    UnknownMount,
    /// The store's path is not below its own mount.
    #[error("the store's path does not lead through its own mount")]
    OutsideMount,
    /// The device is not the device-mapper's.
    #[error("its device is a plain disk or partition")]
    NotDeviceMapper,
    /// Something else than LVM made the device.
    #[error("its device was made by the device-mapper for something else than LVM ({0})")]
    OtherMapper(String),
    /// The device is a part of a volume.
    #[error("its device is a part of a logical volume ({0})")]
    PartOfVolume(String),
    /// LVM is not installed, too old, or does not run.
    #[error("LVM cannot be used: {0}")]
    LvmUnusable(String),
    /// This process may not use LVM.
    #[error("this process may not use LVM: it does not run as root")]
    NotPermitted,
    /// LVM does not know the volume that the device belongs to.
    #[error("LVM does not know the volume that its device belongs to")]
    UnknownVolume,
    /// The group cannot be changed.
    #[error("the volume group {0} is {1}")]
    Group(String, &'static str),
    /// The volume is laid out in a way that has not been tried.
    #[error("the volume is of the kind {0}, whose snapshots have not been tried")]
    Layout(String),
    /// The volume is itself a classic snapshot.
    #[error("the volume is itself a classic snapshot, and LVM takes none of those")]
    IsSnapshot,
    /// A snapshot is being merged into it.
    #[error("a snapshot is being merged into the volume")]
    Merging,
    /// The volume is suspended, inactive, or damaged.
    #[error("the volume is not in order: {0}")]
    NotInOrder(String),
}
