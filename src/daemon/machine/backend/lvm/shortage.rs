//! Where LVM takes no snapshot: what is short, in numbers that a person can act on, and what is left.

use asat_core::event::{CutFailure, Lack};
use asat_core::snapshot::{BackendKind, Origin};
use asat_core::{Code, Problem, VersionId};
use asat_host::dm::target::{PoolState, Usage};
use asat_host::lvm::Refusal;
use asat_host::lvm::snapshots::Space;
use asat_host::lvm::units::{Bytes, Extents};
use asat_host::volume::{Backing, OnLvm};
use bytesize::ByteSize;
use jiff::Timestamp;

use super::volumes::{Pool, Untaken, intended};
use super::{LvmSnapshots, lock, not_seen};
use crate::daemon::machine::cut::not_begun;

/// What a snapshot leaves to those who write to the volumes of a pool: a twentieth of its data space, or this much if
/// that is less. LVM takes snapshots of a pool until it is full, and from then on every block that is overwritten needs
/// a new one: where there is none, the store's own writers wait, and fail after a minute.
const LEFT_TO_WRITERS: u64 = 256 << 20;

/// What a snapshot leaves free of a group's metadata area. When that is full, LVM neither extends a snapshot nor a pool. An extension takes some
/// 200 bytes there.
const LEFT_TO_LVM: Bytes = Bytes(8 << 10);
/// A snapshot takes 1 to 4 KiB there: its tags say what the version is, with its note.
const MOST_OF_ONE: u64 = 4 << 10;

impl LvmSnapshots {
    /// Removes what a command that did not end well may have left; where that cannot be done now, the failure says so.
    pub(super) fn clear_away(
        &self,
        id: &VersionId,
        (origin, cut_at): (&Origin, Timestamp),
        space: Space,
        untaken: Untaken,
    ) -> CutFailure {
        let name = self.volumes.name_of(id, origin);
        let lacks = self.missing(id, &untaken);
        let problem = self.explain_shortage(id, origin, space, &untaken).unwrap_or(untaken.problem);
        if !untaken.may_be_left {
            return CutFailure { lacks, ..not_begun(problem) };
        }
        let removed = intended(origin, cut_at).and_then(|record| self.volumes.remove(id, record, &name));
        let left = removed.is_err().then(|| Box::new(not_seen(origin, name, cut_at)));
        let lacks = lacks.filter(|_| left.is_none());
        CutFailure { problem, begun: left.is_some(), left, lacks }
    }

    /// Refuses a snapshot in a pool that is nearly full. Where that cannot be told, LVM may decide.
    pub(super) fn check_pool(&self, id: &VersionId, origin: &Origin) -> Result<(), Problem> {
        let Some(OnLvm { group, backing: Backing::Thin { pool }, .. }) = self.grounds.get(&id.store) else {
            return Ok(());
        };
        let Ok(Some(Pool { state, block, .. })) = self.volumes.pool_state(&group.uuid, &pool.uuid) else {
            return Ok(());
        };
        let PoolState { data, metadata, .. } = state;
        let free = data.total.saturating_sub(data.used).saturating_mul(block);
        let left = (data.total / 20).saturating_mul(block).min(LEFT_TO_WRITERS);
        if free >= left {
            return Ok(());
        }
        let of = format!("{}/{}", group.name, pool.name);
        Err(pool_is_full(&of, id, origin, data, metadata))
    }

    /// Has LVM say how much of a group's metadata area is free, if that may be little. This is done before the store is held. Where LVM cannot
    /// say it, it may decide.
    pub(super) fn learn_metadata(&self, id: &VersionId) {
        let Some(OnLvm { group, .. }) = self.grounds.get(&id.store) else { return };
        let known = lock(&self.metadata_free).get(&group.uuid).copied();
        if known.unwrap_or(group.metadata_free) >= LEFT_TO_LVM {
            return;
        }
        let said = self.volumes.lvm().and_then(|lvm| Ok(lvm.group(&group.name)?));
        let free = said.map_or(Bytes(u64::MAX), |now| now.metadata_free);
        lock(&self.metadata_free).insert(group.uuid, free);
    }

    /// Refuses a snapshot in a group whose metadata area is nearly full, and counts it in otherwise: several may be taken before LVM is asked
    /// again.
    pub(super) fn check_group(&self, id: &VersionId) -> Result<(), Problem> {
        let Some(OnLvm { group, .. }) = self.grounds.get(&id.store) else { return Ok(()) };
        let mut known = lock(&self.metadata_free);
        let free = known.entry(group.uuid).or_insert(group.metadata_free);
        if *free >= LEFT_TO_LVM {
            free.0 = free.0.saturating_sub(MOST_OF_ONE);
            return Ok(());
        }
        let detail = format!(
            "the metadata area of the volume group {} is nearly full: {} are free, and {} stay free so that snapshots can be extended",
            group.name,
            shown(free.0),
            shown(LEFT_TO_LVM.0),
        );
        let hint =
            "remove volumes that nobody needs, or give the group a larger metadata area (docs/recover.md)";
        Err(Problem::new(Code::StorageFull, detail, hint))
    }

    /// Whether a thin snapshot can be had where there was no room for a classic one. LVM counts the extents before it
    /// makes anything.
    pub(super) fn may_be_thin(&self, id: &VersionId, origin: &Origin, untaken: &Untaken) -> bool {
        let on_thin =
            self.grounds.get(&id.store).is_some_and(|on| matches!(on.backing, Backing::Thin { .. }));
        let no_room = matches!(untaken.refusal, Some(Refusal::NoRoom { needed: Some(_), .. }));
        origin.backend == BackendKind::LvmClassic && on_thin && no_room
    }

    /// What was missing where there was no room for a snapshot.
    fn missing(&self, id: &VersionId, untaken: &Untaken) -> Option<Lack> {
        match untaken.refusal? {
            Refusal::NoRoom { needed: Some(Extents(needed)), available: Some(Extents(available)) } => {
                let extent = self.grounds.get(&id.store)?.group.extent_size.0;
                Some(Lack::Bytes(needed.saturating_sub(available).saturating_mul(extent)))
            }
            Refusal::NoRoom { .. } | Refusal::PoolFull => Some(Lack::Bytes(0)),
            Refusal::MetadataFull => Some(Lack::GroupMetadata),
            _ => None,
        }
    }

    /// Says what was short, where that is why a snapshot was not taken and the numbers are known.
    fn explain_shortage(
        &self,
        id: &VersionId,
        origin: &Origin,
        space: Space,
        untaken: &Untaken,
    ) -> Option<Problem> {
        let ground = self.grounds.get(&id.store)?;
        let (group, volume) = (&ground.group.name, &origin.name);
        let (detail, hint) = match (untaken.refusal?, space, &ground.backing) {
            (Refusal::NoRoom { needed: Some(needed), available: Some(available) }, Space::Own { .. }, _) => {
                let bytes = |extents: u64| shown(extents.saturating_mul(ground.group.extent_size.0));
                let (Extents(needed), Extents(available)) = (needed, available);
                let detail = format!(
                    "a snapshot of {volume} for {id} needs {}, and the volume group {group} has {} free: {} are missing",
                    bytes(needed),
                    bytes(available),
                    bytes(needed.saturating_sub(available)),
                );
                (
                    detail,
                    "add a disk to the group (vgextend), or write a smaller store.snapshot_size".to_owned(),
                )
            }
            (Refusal::PoolFull, Space::Pool, Backing::Thin { pool }) => {
                let Pool { state: PoolState { data, metadata, .. }, .. } =
                    self.volumes.pool_state(&ground.group.uuid, &pool.uuid).ok()??;
                return Some(pool_is_full(&format!("{group}/{}", pool.name), id, origin, data, metadata));
            }
            _ => return None,
        };
        Some(Problem::new(Code::StorageFull, detail, hint))
    }
}

fn pool_is_full(pool: &str, id: &VersionId, origin: &Origin, data: Usage, metadata: Usage) -> Problem {
    let detail = format!(
        "the thin pool {pool} is too full for a snapshot of {} for {id}: {} of its data space and {} of its metadata \
         space are in use",
        origin.name,
        part(data),
        part(metadata),
    );
    let hint = format!(
        "extend what is nearly full: lvextend --size +SIZE {pool}, or lvextend --poolmetadatasize +SIZE {pool}"
    );
    Problem::new(Code::StorageFull, detail, hint)
}

fn shown(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

fn part(Usage { used, total }: Usage) -> String {
    let tenths = used.saturating_mul(1000).checked_div(total).unwrap_or(1000);
    format!("{}.{} %", tenths / 10, tenths % 10)
}
