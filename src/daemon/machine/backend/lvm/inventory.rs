//! What can be seen of snapshots. A volume that LVM does not list need not be gone: its group may be exported, or its
//! disks may be elsewhere, and it will be there again with them.

use std::collections::BTreeMap;

use asat_core::VersionId;
use asat_host::lvm::names::{Foreign, Record, Which};
use asat_host::lvm::report::{Health, LogicalVolume, Uuid, VolumeGroup};
use asat_host::lvm::{Installation, Ours, Whose, recognise};

/// What a search or a removal has to go by.
pub(super) type Records = BTreeMap<VersionId, Record>;

/// The volumes and groups that LVM lists.
pub(super) struct Inventory {
    installation: Installation,
    volumes: Vec<(LogicalVolume, Whose)>,
    groups: Vec<VolumeGroup>,
}

/// What can be said of a snapshot.
pub(super) enum Presence {
    /// It is there.
    Here(Ours, Box<LogicalVolume>),
    /// It is not there, and its group is.
    Gone,
    /// This keeps it from being seen.
    Unseen(String),
}

impl Inventory {
    pub(super) fn new(
        installation: Installation,
        volumes: Vec<LogicalVolume>,
        groups: Vec<VolumeGroup>,
    ) -> Self {
        let whose = |volume: LogicalVolume| {
            let whose = recognise(&volume, &installation);
            (volume, whose)
        };
        let volumes = volumes.into_iter().map(whose).collect();
        Self { installation, volumes, groups }
    }

    /// What can be said of a version's snapshot, whose volume was called `name`, as `group/volume`.
    pub(super) fn of(&self, id: &VersionId, name: &str) -> Presence {
        let Some(record) = self.installation.records.get(id) else {
            return Presence::Unseen("what is recorded of it cannot be read".to_owned());
        };
        let ours = self.volumes.iter().find_map(|(volume, whose)| match whose {
            Whose::Ours(ours) if ours.version() == id => Some((volume, ours)),
            _ => None,
        });
        if let Some((volume, ours)) = ours {
            if volume.attributes.health == Health::Partial {
                return Presence::Unseen("a disk that it lies on is missing".to_owned());
            }
            return Presence::Here(ours.clone(), Box::new(volume.clone()));
        }
        if let Which::Known(uuid) = record.volume
            && let Some((LogicalVolume { group, name, .. }, Whose::Foreign(why))) = self.with(uuid)
        {
            return Presence::Unseen(format!(
                "the volume is {group}/{name} now, and not ours to touch: {why}"
            ));
        }
        let group = name.split('/').next().unwrap_or_default();
        match self.groups.iter().find(|group| group.uuid == record.group) {
            None => Presence::Unseen(format!("the volume group {group} is not there")),
            Some(VolumeGroup { exported: true, name, .. }) => {
                Presence::Unseen(format!("the volume group {name} is exported"))
            }
            Some(_) => Presence::Gone,
        }
    }

    /// The volumes that are ours.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Ours> {
        self.volumes.iter().filter_map(|(_, whose)| match whose {
            Whose::Ours(ours) => Some(ours),
            Whose::Foreign(_) => None,
        })
    }

    /// Every volume with asat's tag that is not ours, and why not.
    pub(super) fn strangers(&self) -> impl Iterator<Item = (&LogicalVolume, &Foreign)> {
        self.volumes.iter().filter_map(|(volume, whose)| match whose {
            Whose::Foreign(why) => Some((volume, why)),
            Whose::Ours(_) => None,
        })
    }

    fn with(&self, uuid: Uuid) -> Option<&(LogicalVolume, Whose)> {
        self.volumes.iter().find(|(volume, _)| volume.uuid == uuid)
    }
}
