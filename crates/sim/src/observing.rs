//! What the guard of the daemon sees: the machine as the kernel shows it, and versions as the records have them.

use std::collections::BTreeMap;

use asat_core::VersionId;
use asat_core::guard::{
    FolderSeen, GroupSeen, HotVersion, Observation, OriginSeen, PoolMode, PoolSeen, SnapshotSeen,
};

use asat_core::register::Register;

use crate::pool::{BLOCK, Harm};
use crate::sim::Sim;
use crate::world::{EXTENT, Volume};

impl Sim {
    /// What is seen at this moment.
    pub(crate) fn observe(&self) -> Observation {
        // The records say the same here and in the daemon, and so what they know.
        let hot = self.hot();
        let snapshots = self.world.snapshots.iter().filter(|(_, volume)| !volume.is_thin() && !volume.lost);
        let seen = |(id, volume): (&VersionId, &Volume)| {
            Some(SnapshotSeen {
                version: hot.get(id)?.clone(),
                origin: self.world.origins[volume.origin].id.clone(),
                group: "vg".to_owned(),
                used: volume.used(),
                size: volume.size,
                most: self.world.most(volume),
            })
        };
        let origins = self.world.origins.iter();
        let origins = origins.map(|origin| OriginSeen {
            id: origin.id.clone(),
            written: origin.written,
            may_hold: true,
        });
        let free = if self.faults.archive_full > 0 { 0 } else { 1 << 40 };
        Observation {
            at_ms: self.world.now,
            origins: origins.collect(),
            snapshots: snapshots.filter_map(seen).collect(),
            pools: self.pool_seen(&hot).into_iter().collect(),
            groups: vec![GroupSeen { id: "vg".to_owned(), free: self.world.free, extent: EXTENT }],
            folders: vec![FolderSeen {
                path: "/var/lib/asat".to_owned(),
                free,
                total: 1 << 41,
                waiting: None,
            }],
            clock: Some((self.believed(), self.policy.clock)).filter(|(believed, _)| believed.doubted),
            harms: self.known().map_or_else(Vec::new, Register::harms),
        }
    }

    /// The versions in snapshots as the records have them. Those on their way out are not among them.
    fn hot(&self) -> BTreeMap<VersionId, HotVersion> {
        let hot = self.daemon.iter().flat_map(|daemon| daemon.engine.read().in_snapshots(self.clock()));
        hot.map(|(version, _)| (version.id.clone(), version)).collect()
    }

    fn pool_seen(&self, hot: &BTreeMap<VersionId, HotVersion>) -> Option<PoolSeen> {
        let pool = self.world.pool.as_ref()?;
        let thin = self.world.origins.iter().filter(|origin| origin.thin);
        let versions = self.world.snapshots.iter().filter(|(_, volume)| volume.is_thin());
        Some(PoolSeen {
            id: "pool".to_owned(),
            group: "vg".to_owned(),
            origins: thin.map(|origin| origin.id.clone()).collect(),
            versions: versions.filter_map(|(id, _)| hot.get(id).cloned()).collect(),
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
