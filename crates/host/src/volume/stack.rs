//! What lies between a file system and its disks, as the device-mapper and LVM tell it, and whether it can
//! be cut.
//!
//! Only what has been tried is allowed: linear and striped volumes, and thin volumes on a pool of such. Whatever
//! is not on that list is refused with its name.

use std::fmt;

use super::obstacle::Obstacle;
use crate::lvm::report::{Activity, Health, Kind, LogicalVolume, Name, Uuid, VolumeGroup};

/// What a volume that can be cut is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Of the group's extents: only a classic snapshot can be taken of it, with space of its own.
    Plain,
    /// Of a pool's blocks: a thin snapshot can be taken of it, in the same pool, and a classic one as well.
    Thin {
        /// The pool.
        pool: Box<LogicalVolume>,
    },
}

/// The UUIDs that the device of a logical volume has in its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceUuid {
    /// That of the volume group.
    pub group: Uuid,
    /// That of the logical volume.
    pub volume: Uuid,
}

/// Reads a device's UUID: `LVM-`, 32 characters for the group and 32 for the volume.
///
/// # Errors
/// Where something else than LVM made the device, or it is a part of a volume.
pub fn parse_uuid(text: &str) -> Result<DeviceUuid, Obstacle> {
    let other = || {
        let kind = text.split('-').next().unwrap_or_default();
        Obstacle::OtherMapper(kind.chars().filter(|c| !c.is_control()).take(40).collect())
    };
    let rest = text.strip_prefix("LVM-").ok_or_else(other)?;
    let (uuids, suffix) = rest.split_at_checked(64).ok_or_else(other)?;
    let (group, volume) = uuids.split_at_checked(32).ok_or_else(other)?;
    let (Some(group), Some(volume)) = (Uuid::from_compact(group), Uuid::from_compact(volume)) else {
        return Err(other());
    };
    if suffix.is_empty() {
        Ok(DeviceUuid { group, volume })
    } else {
        Err(Obstacle::PartOfVolume(suffix.chars().filter(|c| !c.is_control()).take(40).collect()))
    }
}

impl fmt::Display for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LVM-{}{}", self.group.compact(), self.volume.compact())
    }
}

/// Judges whether a volume can be cut, and how.
///
/// # Errors
/// Where it cannot, why.
pub fn judge(
    uuid: &DeviceUuid,
    group: &VolumeGroup,
    volumes: &[LogicalVolume],
) -> Result<(LogicalVolume, Backing), Obstacle> {
    judge_group(group)?;
    let volume = volumes
        .iter()
        .find(|volume| volume.uuid == uuid.volume && volume.group_uuid == uuid.group && !volume.hidden)
        .ok_or(Obstacle::UnknownVolume)?;
    judge_state(volume)?;
    match volume.attributes.kind {
        Kind::Snapshot | Kind::MergingSnapshot => return Err(Obstacle::IsSnapshot),
        Kind::MergingOrigin => return Err(Obstacle::Merging),
        _ => {}
    }
    if is_plain(volume) {
        return Ok((volume.clone(), Backing::Plain));
    }
    let pool = volume.pool.as_ref().filter(|_| is_thin(volume));
    let Some((_, pool)) = pool else { return Err(layout(volume)) };
    let pool = volumes.iter().find(|volume| volume.uuid == *pool).ok_or(Obstacle::UnknownVolume)?;
    judge_pool(pool, volumes)?;
    Ok((volume.clone(), Backing::Thin { pool: Box::new(pool.clone()) }))
}

fn judge_group(group: &VolumeGroup) -> Result<(), Obstacle> {
    let refuse = |why| Err(Obstacle::Group(group.name.to_string(), why));
    match group {
        VolumeGroup { shared: true, .. } => refuse("shared with other machines"),
        VolumeGroup { exported: true, .. } => refuse("exported"),
        VolumeGroup { partial: true, .. } => refuse("incomplete: a physical volume is missing"),
        VolumeGroup { writable: false, .. } => refuse("read-only"),
        _ => Ok(()),
    }
}

fn judge_state(volume: &LogicalVolume) -> Result<(), Obstacle> {
    let refuse = |what: String| Err(Obstacle::NotInOrder(format!("{} {what}", volume.name)));
    match (volume.attributes.activity, volume.attributes.health) {
        (Activity::Active, Health::Good) => Ok(()),
        (Activity::Suspended, _) => refuse("is suspended".to_owned()),
        (Activity::Inactive, _) => refuse("is not active".to_owned()),
        (Activity::Active, health) => refuse(format!("is in the state {health:?}")),
        (activity, _) => refuse(format!("is in the state {activity:?}")),
    }
}

/// A pool must be in order, or at least only full: its data can be extended, and a snapshot needs none at
/// first. What it is made of must be plain.
fn judge_pool(pool: &LogicalVolume, volumes: &[LogicalVolume]) -> Result<(), Obstacle> {
    if pool.attributes.kind != Kind::ThinPool || !has_layout(pool, &["thin", "pool"]) {
        return Err(layout(pool));
    }
    if pool.attributes.health != Health::OutOfData {
        judge_state(pool)?;
    }
    for suffix in ["_tdata", "_tmeta"] {
        let part: Option<Name> = format!("{}{suffix}", pool.name).parse().ok();
        let part = volumes.iter().find(|volume| volume.hidden && Some(&volume.name) == part.as_ref());
        let part = part.ok_or(Obstacle::UnknownVolume)?;
        if !has_layout(part, &["linear"]) && !has_layout(part, &["striped"]) {
            return Err(layout(part));
        }
    }
    Ok(())
}

fn is_plain(volume: &LogicalVolume) -> bool {
    matches!(volume.attributes.kind, Kind::Plain | Kind::Origin)
        && (has_layout(volume, &["linear"]) || has_layout(volume, &["striped"]))
}

/// A thin volume that has classic snapshots is an origin first, by LVM's attributes.
fn is_thin(volume: &LogicalVolume) -> bool {
    matches!(volume.attributes.kind, Kind::Thin | Kind::Origin) && has_layout(volume, &["thin", "sparse"])
}

fn has_layout(volume: &LogicalVolume, words: &[&str]) -> bool {
    volume.layout.len() == words.len() && words.iter().all(|word| volume.layout.contains(*word))
}

fn layout(volume: &LogicalVolume) -> Obstacle {
    let words: Vec<&str> = volume.layout.iter().map(String::as_str).collect();
    Obstacle::Layout(format!("{} ({})", words.join(","), volume.name))
}

#[cfg(test)]
mod tests;
