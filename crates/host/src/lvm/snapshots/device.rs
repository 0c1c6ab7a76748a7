//! The devices of snapshots, as the kernel knows them.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use asat_core::VersionId;

use super::{Error, Made};
use crate::dm::target::Snapshot;
use crate::dm::{Control, DeviceState, Selector};
use crate::lvm::names::{InstallationId, Ours};
use crate::lvm::report::Name;
use crate::lvm::units::Bytes;
use crate::volume::stack;

/// Finds a snapshot that was just made for a version, by its name: its UUID is not known yet.
pub(super) fn made(
    control: &Control,
    whose: (&VersionId, &InstallationId),
    group: &Name,
    name: Name,
) -> Result<Made, Error> {
    let unseen = |source| Error::Unseen { volume: format!("{group}/{name}"), source };
    let state = control.status(Selector::Name(&group.device_name(&name))).map_err(unseen)?;
    let Ok(uuid) = stack::parse_uuid(&state.uuid) else {
        return Err(Error::OtherDevice { volume: format!("{group}/{name}"), uuid: state.uuid });
    };
    found(&state, Ours::made(whose, (group, uuid.group), (name, uuid.volume)))
}

/// Finds a snapshot that is active, by its UUID: another volume may have its name.
pub(super) fn activated(control: &Control, ours: &Ours) -> Result<Made, Error> {
    found(&state(control, ours)?, ours.clone())
}

/// The space that a classic snapshot has of its own.
pub(super) fn own_space(control: &Control, ours: &Ours) -> Result<Bytes, Error> {
    let state = state(control, ours)?;
    let volume = || ours.operand();
    let target = state.targets.first().filter(|target| target.kind == "snapshot");
    let target = target.ok_or_else(|| Error::NoOwnSpace(volume()))?;
    match Snapshot::parse(target).map_err(|source| Error::Unseen { volume: volume(), source })? {
        Snapshot::Valid { total, .. } => total.to_bytes().ok_or_else(|| Error::NoOwnSpace(volume())),
        Snapshot::Invalid | Snapshot::Overflow | Snapshot::MergeFailed | Snapshot::Unknown => {
            Err(Error::Lost(volume()))
        }
    }
}

/// The state of our device, if it still has the name that LVM's commands would be given.
fn state(control: &Control, ours: &Ours) -> Result<DeviceState, Error> {
    let uuid = ours.device_uuid();
    let state = control.status(Selector::Uuid(&uuid));
    let state = state.map_err(|source| Error::Unseen { volume: ours.operand(), source })?;
    if state.name == ours.group().device_name(ours.name()) {
        Ok(state)
    } else {
        Err(Error::Elsewhere { volume: ours.operand(), now: state.name })
    }
}

fn found(state: &DeviceState, ours: Ours) -> Result<Made, Error> {
    let nodes = [Path::new("/dev/mapper").join(&state.name), Path::new("/dev").join(ours.operand())];
    let node = nodes.into_iter().find(|node| is_node_of(node, state.number));
    let node = node.ok_or_else(|| Error::NoNode(ours.operand()))?;
    Ok(Made { ours, device: state.number, node })
}

/// Whether a path leads to the node of a device. One that was left behind may lead to another by now.
pub(in crate::lvm) fn is_node_of(path: &Path, (major, minor): (u32, u32)) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        found.file_type().is_block_device() && found.rdev() == rustix::fs::makedev(major, minor)
    })
}
