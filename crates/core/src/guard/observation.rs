//! What the guard sees at one look. All sizes are in bytes.

use jiff::Timestamp;

use super::action::{Action, Plan};
use super::target::Target;
use crate::VersionId;
use crate::clock::{Believed, Bounds};
use crate::harm::Harm;

/// One look at everything that can run out of space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// When, on a clock that only goes forward, in milliseconds from any beginning.
    pub at_ms: u64,
    /// The volumes that stores lie on, whether or not they have snapshots at the moment.
    pub origins: Vec<OriginSeen>,
    /// The classic snapshots.
    pub snapshots: Vec<SnapshotSeen>,
    /// The thin pools.
    pub pools: Vec<PoolSeen>,
    /// The volume groups.
    pub groups: Vec<GroupSeen>,
    /// The file systems under archive and catalogue.
    pub folders: Vec<FolderSeen>,
    /// What of the stores is lost or damaged, as the records have it.
    pub harms: Vec<Harm>,
    /// The machine's clock where it is doubted, and how far it is believed.
    pub clock: Option<(Believed, Bounds)>,
}

/// A volume that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSeen {
    /// Its identity.
    pub id: String,
    /// The identity of its volume group.
    pub group: String,
    /// Bytes written to it since it was activated; the kernel counts them, ahead of what fills the snapshots.
    pub written: u64,
    /// Whether its writers may be held: nothing lies on it that LVM needs to make room meanwhile.
    pub may_hold: bool,
}

/// A version that is held by a snapshot, as the records have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotVersion {
    /// Its name.
    pub id: VersionId,
    /// When it was cut: the order in which retention would let versions go.
    pub cut_at: Timestamp,
    /// Whether its pages are in the archive as well, so that nothing is lost with the snapshot.
    pub archived: bool,
    /// Whether somebody reads it in the snapshot, or pinned it hot: the snapshot may not go.
    pub needed: bool,
    /// Whether it is leased or pinned: the version may not be given up.
    pub held: bool,
    /// Whether it was given up already, and its pages stay only for its grace.
    pub given_up: bool,
}

impl HotVersion {
    /// Whether the snapshot may go without a loss.
    #[must_use]
    pub fn is_demotable(&self) -> bool {
        self.archived && !self.needed
    }

    /// Whether the version may be given up, and would be gone then.
    #[must_use]
    pub fn is_retirable(&self) -> bool {
        !self.archived && !self.needed && !self.held
    }

    /// The order in which versions go for space: what was given up already, then by age.
    pub(super) fn order_of_going(&self) -> (bool, (Timestamp, &VersionId)) {
        (!self.given_up, self.age())
    }

    /// The order of age, oldest first.
    pub(super) fn age(&self) -> (Timestamp, &VersionId) {
        (self.cut_at, &self.id)
    }
}

/// A classic snapshot. One that was full is none any more: the records say what was lost with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSeen {
    /// The version that it holds.
    pub version: HotVersion,
    /// The identity of its origin.
    pub origin: String,
    /// The identity of its volume group.
    pub group: String,
    /// What is taken of its space.
    pub used: u64,
    /// Its space.
    pub size: u64,
    /// The size at which it cannot overflow; see [`crate::sizing::most_needed`].
    pub most: u64,
}

/// Whether a thin pool takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// It does.
    ReadWrite,
    /// It has no data block left: writes that need one wait for a minute, then fail.
    OutOfDataSpace,
    /// It does not: its metadata is full or damaged.
    ReadOnly,
    /// It neither reads nor writes.
    Failed,
}

/// A thin pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSeen {
    /// Its identity.
    pub id: String,
    /// The identity of its volume group.
    pub group: String,
    /// The identities of the volumes in it that are written.
    pub origins: Vec<String>,
    /// The versions that thin snapshots in it hold.
    pub versions: Vec<HotVersion>,
    /// Data in use.
    pub data_used: u64,
    /// The size of its data.
    pub data_size: u64,
    /// The size at which its data cannot run out: all its volumes and snapshots together, as large as they look.
    /// `u64::MAX` where that is not known.
    pub data_most: u64,
    /// All volumes in it that are written, as large as they look: those that are not asat's own snapshots. `u64::MAX` if that is
    /// not known.
    pub writable: u64,
    /// Metadata in use.
    pub metadata_used: u64,
    /// The size of its metadata.
    pub metadata_size: u64,
    /// The size of a data block.
    pub block: u64,
    /// Whether it takes writes.
    pub mode: PoolMode,
    /// Whether its metadata must be checked before it can be trusted.
    pub needs_check: bool,
    /// Whether the configuration lets asat extend it.
    pub may_grow: bool,
}

impl PoolSeen {
    /// Whether it takes no writes for a reason that data space does not cure.
    pub(super) fn is_broken(&self) -> bool {
        self.needs_check || matches!(self.mode, PoolMode::ReadOnly | PoolMode::Failed)
    }

    /// Whether it takes no writes because its metadata is full, or nearly so: a sixteenth may be left that the kernel
    /// could not use.
    pub(super) fn is_out_of_metadata(&self) -> bool {
        let left = self.metadata_size.saturating_sub(self.metadata_used);
        self.mode == PoolMode::ReadOnly && !self.needs_check && left <= self.metadata_size / 16
    }

    /// What is wrong with it, in words.
    pub(super) fn trouble(&self) -> &'static str {
        match self.mode {
            PoolMode::Failed => "the pool has failed and takes neither reads nor writes",
            _ if self.needs_check => "its metadata must be checked before the pool takes writes",
            PoolMode::ReadOnly if self.is_out_of_metadata() => {
                "its metadata is full, and the pool takes no writes"
            }
            PoolMode::ReadOnly => "the pool takes no writes",
            PoolMode::OutOfDataSpace => "the pool has no data space left",
            PoolMode::ReadWrite => "the pool takes writes",
        }
    }
}

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSeen {
    /// Its identity.
    pub id: String,
    /// The free space in it.
    pub free: u64,
    /// The size of its extents.
    pub extent: u64,
}

/// The file system under a folder of asat's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderSeen {
    /// The folder.
    pub path: String,
    /// The free space.
    pub free: u64,
    /// The size of the file system.
    pub total: u64,
    /// The version that was given up and whose grace ends first, where there is one: its pages lie there.
    pub waiting: Option<VersionId>,
}

impl Observation {
    /// What would be seen if everything in a plan had been done and nobody had written meanwhile. What a thin
    /// snapshot would give back is not known, so nothing is assumed of it.
    #[must_use]
    pub fn after(&self, plan: &Plan) -> Self {
        let mut seen = self.clone();
        for step in &plan.steps {
            match &step.action {
                Action::Extend { target, to } => seen.extend(target, *to),
                Action::Demote { version } | Action::Retire { version } => seen.drop_snapshot(version),
                Action::Hurry { .. }
                | Action::Brake { .. }
                | Action::Refuse { .. }
                | Action::Alarm { .. } => {}
            }
        }
        seen
    }

    fn extend(&mut self, target: &Target, to: u64) {
        let found = match target {
            Target::Snapshot(version) => {
                let seen = self.snapshots.iter_mut().find(|seen| seen.version.id == *version);
                seen.map(|seen| (&mut seen.size, &seen.group))
            }
            Target::PoolData(id) => {
                let seen = self.pools.iter_mut().find(|seen| seen.id == *id);
                seen.map(|seen| {
                    if seen.mode == PoolMode::OutOfDataSpace {
                        seen.mode = PoolMode::ReadWrite;
                    }
                    (&mut seen.data_size, &seen.group)
                })
            }
            Target::PoolMetadata(id) => {
                let seen = self.pools.iter_mut().find(|seen| seen.id == *id);
                seen.map(|seen| (&mut seen.metadata_size, &seen.group))
            }
            Target::Group(_) | Target::Folder(_) | Target::Version(_) | Target::Store(_) | Target::Clock => {
                None
            }
        };
        let Some((size, group)) = found else { return };
        let taken = to.saturating_sub(*size);
        *size = to.max(*size);
        if let Some(group) = self.groups.iter_mut().find(|seen| seen.id == *group) {
            group.free = group.free.saturating_sub(taken);
        }
    }

    fn drop_snapshot(&mut self, version: &VersionId) {
        if let Some(index) = self.snapshots.iter().position(|seen| seen.version.id == *version) {
            let gone = self.snapshots.remove(index);
            if let Some(group) = self.groups.iter_mut().find(|seen| seen.id == gone.group) {
                group.free = group.free.saturating_add(gone.size);
            }
        }
        for pool in &mut self.pools {
            pool.versions.retain(|held| held.id != *version);
        }
    }
}
