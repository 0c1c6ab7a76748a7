//! What the guard of the daemon sees: the machine as the kernel shows it, and versions as the records have them.

use asat_core::VersionId;
use asat_core::event::{Effect, Intent};
use asat_core::guard::{
    FolderSeen, GroupSeen, HotVersion, Observation, OriginSeen, PoolMode, PoolSeen, SnapshotSeen,
};
use asat_core::version::State;

use crate::pool::{BLOCK, Harm};
use crate::sim::Sim;
use crate::world::{EXTENT, Volume};

impl Sim {
    /// What is seen at this moment.
    pub(crate) fn observe(&self) -> Observation {
        let snapshots = self.world.snapshots.iter().filter(|(_, volume)| !volume.is_thin());
        let seen = |(id, volume): (&VersionId, &Volume)| {
            Some(SnapshotSeen {
                version: self.hot(id)?,
                origin: self.world.origins[volume.origin].id.clone(),
                group: "vg".to_owned(),
                lost: volume.lost,
                used: volume.used(),
                size: volume.size,
                most: self.world.most(volume),
            })
        };
        let origins = self.world.origins.iter();
        let origins = origins.map(|origin| OriginSeen { id: origin.id.clone(), written: origin.written });
        let free = if self.faults.archive_full > 0 { 0 } else { 1 << 40 };
        Observation {
            at_ms: self.world.now,
            origins: origins.collect(),
            snapshots: snapshots.filter_map(seen).collect(),
            pools: self.pool_seen().into_iter().collect(),
            groups: vec![GroupSeen { id: "vg".to_owned(), free: self.world.free, extent: EXTENT }],
            folders: vec![FolderSeen { path: "/var/lib/asat".to_owned(), free, total: 1 << 41 }],
        }
    }

    fn pool_seen(&self) -> Option<PoolSeen> {
        let pool = self.world.pool.as_ref()?;
        let thin = self.world.origins.iter().filter(|origin| origin.thin);
        let versions = self.world.snapshots.iter().filter(|(_, volume)| volume.is_thin());
        Some(PoolSeen {
            id: "pool".to_owned(),
            group: "vg".to_owned(),
            origins: thin.map(|origin| origin.id.clone()).collect(),
            versions: versions.filter_map(|(id, _)| self.hot(id)).collect(),
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

    /// A version as the records have it; `None` where nobody would miss its snapshot, and it is on its way out.
    fn hot(&self, id: &VersionId) -> Option<HotVersion> {
        let daemon = self.daemon.as_ref()?;
        let register = daemon.engine.register();
        let version = &register.entry(id).ok()?.version;
        if !matches!(version.state, State::Cutting | State::Ready) {
            return None;
        }
        let now = self.clock();
        let pinned = version.pin.as_ref().filter(|pin| pin.counts(now));
        let leased = register.leases_on(id).any(|lease| lease.expires_at > now);
        let opening = |intent: &Intent| {
            let used = matches!(&intent.effect, Effect::MakeCopy { .. } | Effect::Archive { .. });
            used && intent.effect.version() == Some(id)
        };
        let read = version.copy.as_ref().is_some_and(|copy| copy.in_snapshot) && leased;
        Some(HotVersion {
            id: id.clone(),
            cut_at: version.content.as_ref().map_or(version.begun_at, |content| content.cut_at),
            archived: version.is_archived(),
            needed: read || pinned.is_some_and(|pin| pin.hot) || register.intents().any(opening),
            held: leased || pinned.is_some() || version.state == State::Cutting,
        })
    }
}
