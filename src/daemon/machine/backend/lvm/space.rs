//! Space, as the guard sees it: what fills, how much is written, and what can be extended.
//!
//! Looking takes a few microseconds a volume and starts no program, so that it can be done many times a second while
//! the machine is in trouble. Only a group's free space cannot be had from the kernel; LVM is asked for that, by
//! somebody who has the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use asat_core::guard::{
    GroupSeen, HotVersion, InPool, Observation, OriginSeen, PoolMode, PoolSeen, Room, SnapshotSeen, Target,
    VolumeAdvice,
};
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_core::{Code, Problem, StoreName, VersionId, sizing};
use asat_host::dm::target::{PoolMode as Mode, PoolState, Snapshot as State, Usage};
use asat_host::lvm::LogicalVolume;
use asat_host::machine;
use asat_host::volume::{Backing, DeviceUuid, OnLvm};
use asat_shell::{Missing, Recorded};

use super::volumes::{Pool, Reserved, Turn};
use super::{LvmSnapshots, lock};
use crate::daemon::machine::guarded::nothing_new;

/// A block of a pool's metadata, in bytes.
const METADATA_BLOCK: u64 = 4 << 10;

/// The versions in snapshots, and what holds them.
type SnapshotVersions = [(HotVersion, Snapshot)];

/// What a look at the volumes shows.
type Seen = (Observation, Vec<(VersionId, Missing)>, Vec<(u32, u32)>);

impl LvmSnapshots {
    /// Looks at everything that can run out of space: what was seen, the snapshots that are not as they should be, and the devices
    /// whose writes fill what was seen. `room` is what LVM said last.
    ///
    /// # Errors
    /// If the device-mapper does not answer.
    pub(in crate::daemon) fn look(
        &self,
        at_ms: u64,
        recorded: &Recorded,
        room: &Room,
    ) -> Result<Seen, Problem> {
        let (Recorded { hot, harms, .. }, mut missing) = (recorded, Vec::new());
        let (groups, harms) = (room.groups.clone(), harms.clone());
        let mut seen = Observation { at_ms, groups, harms, ..Observation::default() };
        let origins = self.origins(hot);
        for (id, (group, device)) in &origins {
            if let Some(written) = machine::bytes_written(*device) {
                let (id, group, may_hold) = (id.clone(), group.clone(), !self.unholdable.contains(device));
                seen.origins.push(OriginSeen { id, group, written, may_hold });
            }
        }
        // There may be hundreds of snapshots of one volume, and each size is a file of the kernel's to read.
        let sizes: BTreeMap<&String, u64> = origins
            .iter()
            .filter_map(|(volume, (_, device))| Some((volume, machine::device_size(*device)?)))
            .collect();
        let size = |volume: &String| sizes.get(volume).copied();
        for (version, snapshot) in hot.iter().filter(|(_, s)| s.origin.backend == BackendKind::LvmClassic) {
            let most = size(&snapshot.origin.volume)
                .map_or(u64::MAX, |bytes| sizing::most_needed(bytes, sizing::CHUNK));
            match self.volumes.state(snapshot)? {
                Some(State::Valid { used, total, .. }) => seen.snapshots.push(SnapshotSeen {
                    version: version.clone(),
                    origin: snapshot.origin.volume.clone(),
                    group: snapshot.origin.group.clone(),
                    used: used.to_bytes().map_or(u64::MAX, |bytes| bytes.0),
                    size: total.to_bytes().map_or(0, |bytes| bytes.0),
                    most,
                }),
                Some(State::Invalid | State::Overflow) => missing.push((version.id.clone(), Missing::Lost)),
                Some(State::MergeFailed | State::Unknown) => {}
                None => missing.push((version.id.clone(), Missing::Gone)),
            }
        }
        let mut written: BTreeSet<_> = origins.values().map(|(_, device)| *device).collect();
        seen.pools = self.pools(hot, &mut written)?;
        for pool in &mut seen.pools {
            // Snapshots that were taken since are not in what LVM said.
            let thin = hot.iter().filter(|(_, s)| s.origin.backend == BackendKind::LvmThin);
            let since = thin.filter(|(_, snapshot)| pool.origins.contains(&snapshot.origin.volume));
            let sizes = since.filter_map(|(_, snapshot)| size(&snapshot.origin.volume));
            let known = room.pools.get(&pool.id);
            pool.data_most = known.map_or(u64::MAX, |known| sizes.fold(known.most, u64::saturating_add));
            // Before LVM has said what else is in the pool, it is the stores' volumes.
            let mut of_stores = pool.origins.iter().map(size);
            let of_stores = of_stores.try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)));
            pool.writable = known.map_or(of_stores.unwrap_or(u64::MAX), |known| known.writable);
        }
        Ok((seen, missing, written.into_iter().collect()))
    }

    /// The volumes that are written: those of the stores, and those that versions are snapshots of; with their groups and devices.
    fn origins(&self, hot: &SnapshotVersions) -> BTreeMap<String, (String, (u32, u32))> {
        let grounds = self.grounds.values();
        let on_volumes = grounds.map(|on| (on.volume.uuid.compact(), (on.group.uuid.compact(), on.device)));
        let mut origins: BTreeMap<_, _> = on_volumes.collect();
        for (_, Snapshot { origin, .. }) in hot {
            if !origins.contains_key(&origin.volume)
                && let Ok(Some(device)) = self.volumes.device(origin)
            {
                origins.insert(origin.volume.clone(), (origin.group.clone(), device));
            }
        }
        origins
    }

    /// The pools that stores lie in, and the devices below them that all their volumes write to.
    fn pools(
        &self,
        hot: &SnapshotVersions,
        written: &mut BTreeSet<(u32, u32)>,
    ) -> Result<Vec<PoolSeen>, Problem> {
        let (mut pools, growing) = (BTreeMap::<String, PoolSeen>::new(), self.growing.load());
        for OnLvm { group, volume, backing, .. } in self.grounds.values() {
            let Backing::Thin { pool } = backing else { continue };
            let (id, origin) = (pool.uuid.compact(), volume.uuid.compact());
            let thin = hot.iter().filter(|(_, s)| s.origin.backend == BackendKind::LvmThin);
            let versions: Vec<HotVersion> =
                thin.filter(|(_, s)| s.origin.volume == origin).map(|(version, _)| version.clone()).collect();
            if let Some(seen) = pools.get_mut(&id) {
                // Several stores may lie on one volume.
                if !seen.origins.contains(&origin) {
                    seen.origins.push(origin);
                    seen.versions.extend(versions);
                }
                continue;
            }
            let state = self.volumes.pool_state(&group.uuid, &pool.uuid)?;
            written.extend(state.iter().flat_map(|running| running.devices));
            let may_grow = growing.contains(&format!("{}/{}", group.name, pool.name));
            let seen = pool_seen(state, (id.clone(), group.uuid.compact(), may_grow));
            pools.insert(id, PoolSeen { origins: vec![origin], versions, ..seen });
        }
        Ok(pools.into_values().collect())
    }

    /// The room in every group that stores lie on, as LVM says.
    ///
    /// # Errors
    /// Where LVM cannot be asked.
    pub(in crate::daemon) fn room(&self) -> Result<Room, Problem> {
        let lvm = self.volumes.lvm()?;
        let ours: BTreeSet<_> = self.grounds.values().map(|ground| ground.group.uuid).collect();
        let found = lvm.groups()?;
        *lock(&self.metadata_free) = found.iter().map(|group| (group.uuid, group.metadata_free)).collect();
        let groups = found.iter().filter(|group| ours.contains(&group.uuid)).map(group_seen).collect();
        let mut pools = BTreeMap::new();
        let pooled = |on: &&OnLvm| matches!(on.backing, Backing::Thin { .. });
        let names: BTreeSet<_> = self.grounds.values().filter(pooled).map(|on| &on.group.name).collect();
        for name in names {
            most_in_pools(&lvm.volumes(name)?, &mut pools);
        }
        Ok(Room { groups, pools })
    }

    /// The same as it was found when the daemon started.
    pub(in crate::daemon) fn room_at_start(&self) -> Room {
        let groups: BTreeMap<_, _> =
            self.grounds.values().map(|ground| (ground.group.uuid, group_seen(&ground.group))).collect();
        Room { groups: groups.into_values().collect(), pools: BTreeMap::new() }
    }

    /// The names of everything whose identity is a UUID, for people.
    pub(in crate::daemon) fn names(&self) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for OnLvm { group, volume, backing, .. } in self.grounds.values() {
            names.insert(group.uuid.compact(), group.name.to_string());
            names.insert(volume.uuid.compact(), format!("{}/{}", group.name, volume.name));
            if let Backing::Thin { pool } = backing {
                names.insert(pool.uuid.compact(), format!("{}/{}", group.name, pool.name));
            }
        }
        names
    }

    /// The volumes that stores lie on.
    pub(in crate::daemon) fn volumes_of_stores(&self) -> impl Iterator<Item = DeviceUuid> {
        self.grounds.values().map(|on| DeviceUuid { group: on.group.uuid, volume: on.volume.uuid })
    }

    /// A command of LVM that does not end, if there is one.
    pub(in crate::daemon) fn wedged(&self) -> Option<Problem> {
        if self.grounds.is_empty() { None } else { self.volumes.wedged() }
    }

    /// Keeps commands from changing volumes that would find one suspended and fail, as long as it lasts.
    pub(in crate::daemon) fn turn_to_hold(&self) -> Turn<'_> {
        self.volumes.turn_to_hold()
    }

    /// Keeps the turn for the guard from one extension to the next.
    pub(in crate::daemon) fn reserve_turn(&self) -> Reserved {
        self.volumes.reserve_turn()
    }

    /// Gives a snapshot or a pool this size, in bytes. Answers how long LVM's own command ran.
    ///
    /// # Errors
    /// Where LVM refuses, or does not end in time ([`Code::LvmStuck`]).
    pub(in crate::daemon) fn extend(&self, target: &Target, to: u64) -> Result<Duration, Problem> {
        match target {
            Target::Snapshot(version) => self.volumes.extend(version, to),
            Target::PoolData(pool) => self.volumes.extend_pool(&self.pool_name(pool)?, "--size", to),
            Target::PoolMetadata(pool) => {
                self.volumes.extend_pool(&self.pool_name(pool)?, "--poolmetadatasize", to)
            }
            Target::Group(_) | Target::Folder(_) | Target::Version(_) | Target::Store(_) | Target::Clock => {
                Err(Problem::new(
                    Code::Internal,
                    format!("{target} cannot be extended"),
                    "report this as a defect",
                ))
            }
        }
    }

    /// A pool that the configuration lets asat extend, as LVM's commands take it.
    fn pool_name(&self, id: &str) -> Result<String, Problem> {
        let name = self.names().remove(id).filter(|name| self.growing.load().contains(name));
        name.ok_or_else(|| {
            let detail = format!("the pool {id} is none that asat may extend");
            Problem::new(Code::Configuration, detail, "name it in guard.pools")
        })
    }

    /// Goes by what the guard wants of new snapshots from now on.
    pub(in crate::daemon::machine) fn advise(&self, advice: VolumeAdvice) {
        *lock(&self.advice) = advice;
    }

    /// Refuses a snapshot if the guard says so.
    pub(super) fn check_advice(&self, store: &StoreName, origin: &Origin) -> Result<(), Problem> {
        let advice = lock(&self.advice);
        match advice.not_in.get(&origin.group).filter(|_| origin.backend == BackendKind::LvmClassic) {
            Some(why) => Err(nothing_new(store, why, "add space to the volume group (vgextend)")),
            None => Ok(()),
        }
    }

    /// The size that the guard would give a new classic snapshot of an origin, if it has seen that written.
    pub(super) fn advised_size(&self, origin: &Origin) -> u64 {
        lock(&self.advice).sizes.get(&origin.volume).copied().unwrap_or(0)
    }
}

/// Adds up how large the volumes of each pool look, whoever made them; and the largest of them once more, since there may
/// be one more snapshot by the time that this is used.
fn most_in_pools(volumes: &[LogicalVolume], pools: &mut BTreeMap<String, InPool>) {
    let mut largest: BTreeMap<String, u64> = BTreeMap::new();
    for volume in volumes {
        let Some((_, pool)) = &volume.pool else { continue };
        let (pool, size) = (pool.compact(), volume.size.0);
        let known = pools.entry(pool.clone()).or_default();
        known.most = known.most.saturating_add(size);
        if volume.attributes.writable && !volume.has_our_tag() {
            known.writable = known.writable.saturating_add(size);
        }
        let largest = largest.entry(pool).or_default();
        *largest = size.max(*largest);
    }
    for (pool, size) in largest {
        pools.entry(pool).and_modify(|known| known.most = known.most.saturating_add(size));
    }
}

fn group_seen(group: &asat_host::lvm::VolumeGroup) -> GroupSeen {
    let free = group.free.to_bytes(group.extent_size).map_or(0, |free| free.0);
    GroupSeen { id: group.uuid.compact(), free, extent: group.extent_size.0 }
}

/// What a pool's state says; a pool that has failed says nothing more.
fn pool_seen(state: Option<Pool>, (id, group, may_grow): (String, String, bool)) -> PoolSeen {
    let nothing = Usage { used: 0, total: 0 };
    let (data, metadata, block, mode, needs_check) = match state {
        None => (nothing, nothing, METADATA_BLOCK, PoolMode::Failed, false),
        Some(Pool { state: PoolState { data, metadata, mode, needs_check, .. }, block, .. }) => {
            let mode = match mode {
                Mode::ReadWrite => PoolMode::ReadWrite,
                Mode::ReadOnly => PoolMode::ReadOnly,
                Mode::OutOfDataSpace => PoolMode::OutOfDataSpace,
            };
            (data, metadata, block, mode, needs_check)
        }
    };
    PoolSeen {
        id,
        group,
        origins: Vec::new(),
        versions: Vec::new(),
        data_used: data.used.saturating_mul(block),
        data_size: data.total.saturating_mul(block),
        // Others may have volumes in it of which nothing is known here.
        data_most: u64::MAX,
        writable: u64::MAX,
        metadata_used: metadata.used.saturating_mul(METADATA_BLOCK),
        metadata_size: metadata.total.saturating_mul(METADATA_BLOCK),
        block,
        mode,
        needs_check,
        may_grow,
    }
}
