//! What the guard of the daemon sees: the machine as the kernel shows it, and versions as the records have them.

use std::collections::BTreeMap;

use asat_core::guard::{
    FolderSeen, GroupSeen, HotVersion, Observation, OriginSeen, PoolMode, PoolSeen, Room, SnapshotSeen,
};
use asat_core::snapshot::{BackendKind, Snapshot};
use asat_shell::{Look, Missing, Recorded};

use crate::pool::{BLOCK, Harm};
use crate::sim::Sim;
use crate::world::EXTENT;

impl Sim {
    /// What is seen at this moment.
    pub(crate) fn see(&self, at_ms: u64, recorded: &Recorded, room: &Room) -> Look {
        let (mut snapshots, mut missing) = (Vec::new(), Vec::new());
        for (version, held) in &recorded.hot {
            let there = self.world.snapshots.get(&version.id);
            match there.filter(|volume| volume.snapshot.uuid == held.uuid) {
                Some(volume) if volume.is_thin() => {}
                Some(volume) if volume.lost => missing.push((version.id.clone(), Missing::Lost)),
                Some(volume) => snapshots.push(SnapshotSeen {
                    version: version.clone(),
                    origin: self.world.origins[volume.origin].id.clone(),
                    group: "vg".to_owned(),
                    used: volume.used(),
                    size: volume.size,
                    most: self.world.most(volume),
                }),
                // A pool does not tell which thin snapshots are gone.
                None if held.origin.backend == BackendKind::LvmThin => {}
                None => missing.push((version.id.clone(), Missing::Gone)),
            }
        }
        let origins = self.world.origins.iter();
        let origins = origins.map(|origin| OriginSeen {
            id: origin.id.clone(),
            group: "vg".to_owned(),
            written: origin.written,
            may_hold: true,
        });
        let free = if self.faults.archive_full > 0 { 0 } else { 1 << 40 };
        let seen = Observation {
            at_ms,
            origins: origins.collect(),
            snapshots,
            pools: self.pool_seen(&recorded.hot).into_iter().collect(),
            groups: room.groups.clone(),
            folders: vec![FolderSeen {
                path: "/var/lib/asat".to_owned(),
                free,
                total: 1 << 41,
                waiting: None,
            }],
            clock: Some((self.believed(), self.policy.clock)).filter(|(believed, _)| believed.doubted),
            harms: recorded.harms.clone(),
        };
        let is_written = (0..self.world.origins.len()).any(|origin| self.world.rate(origin) > 0);
        let in_peace = !is_written && self.daemon.as_ref().is_some_and(|daemon| daemon.is_quiet);
        Look { seen, missing, alarms: Vec::new(), in_peace }
    }

    /// What LVM says of the room that there is.
    pub(crate) fn room(&self) -> Room {
        let groups = vec![GroupSeen { id: "vg".to_owned(), free: self.world.free, extent: EXTENT }];
        Room { groups, pools: BTreeMap::new() }
    }

    fn pool_seen(&self, hot: &[(HotVersion, Snapshot)]) -> Option<PoolSeen> {
        let pool = self.world.pool.as_ref()?;
        let thin = self.world.origins.iter().filter(|origin| origin.thin);
        let versions = hot.iter().filter(|(_, held)| held.origin.backend == BackendKind::LvmThin);
        Some(PoolSeen {
            id: "pool".to_owned(),
            group: "vg".to_owned(),
            origins: thin.map(|origin| origin.id.clone()).collect(),
            versions: versions.map(|(version, _)| version.clone()).collect(),
            data_used: pool.data_used(),
            data_size: pool.data_size,
            data_most: self.in_pool(),
            writable: self.world.origins.iter().filter(|origin| origin.thin).map(|origin| origin.size).sum(),
            metadata_used: pool.metadata_used,
            metadata_size: pool.metadata_size,
            block: BLOCK,
            mode: match (pool.harm, pool.full_since) {
                _ if pool.read_only > 0 => PoolMode::ReadOnly,
                (Some(Harm::NoMetadata), _) => PoolMode::ReadOnly,
                (_, Some(_)) => PoolMode::OutOfDataSpace,
                _ => PoolMode::ReadWrite,
            },
            needs_check: false,
            may_grow: true,
        })
    }

    /// All volumes and snapshots in the pool together, as large as they look.
    fn in_pool(&self) -> u64 {
        let thin = self.world.origins.iter().filter(|origin| origin.thin).map(|origin| origin.size);
        let snapshots = self.world.snapshots.values().filter(|volume| volume.is_thin());
        thin.chain(snapshots.map(|volume| self.world.origins[volume.origin].size)).sum()
    }
}
