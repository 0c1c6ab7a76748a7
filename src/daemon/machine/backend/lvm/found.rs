//! Snapshots of volumes that the register does not speak of.

use std::collections::BTreeMap;

use asat_core::event::Found;
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_core::{Problem, StoreName, VersionId};
use asat_host::lvm::names::{self, Foreign};
use asat_host::lvm::report::{Activity, Health, LogicalVolume};
use asat_host::store::Told;

use super::inventory::Inventory;
use super::{LvmSnapshots, called, left_over};
use crate::daemon::machine::backend::found::{described, is_sought, left_alone, unknown};

impl LvmSnapshots {
    /// The volumes that have the name of a snapshot of this installation's, and that the register does not speak of. Their numbers
    /// are given to no version. Those whose marks all agree are looked into where nothing is recorded at all, or just what is in
    /// them is lost. A catalogue that knows of others may be an older copy, or one in a copy of the state folder, and they another
    /// daemon's: whose they are, an administrator has to say.
    pub(super) fn found_volumes(&self, inventory: &Inventory, register: &Register) -> Vec<Found> {
        let found = |(volume, why): (&LogicalVolume, &Foreign)| {
            let id = names::named_for(volume, self.volumes.installation())?;
            let name = format!("{}/{}", volume.group, volume.name);
            match why {
                Foreign::Installation => None,
                Foreign::NotRecorded(_) if is_sought(register, &id) => {
                    Some(self.found_volume(id, volume, name))
                }
                Foreign::NotRecorded(_) => Some(unknown(id, name)),
                why => Some(left_alone(id, name, &why.to_string())),
            }
        };
        inventory.strangers().filter_map(found).collect()
    }

    fn found_volume(&self, id: VersionId, volume: &LogicalVolume, name: String) -> Found {
        let mut snapshot = self.unrecorded(&id, volume, &name);
        let mut described = match Told::read(names::further(volume)) {
            _ if !names::is_finished(volume) => Err("it is no finished snapshot".to_owned()),
            Err(unclear) => Err(unclear.to_string()),
            Ok(told) => described(&told).map(|described| (told, described)),
        };
        if let (Ok((told, _)), Ok(snapshot)) = (&described, &mut snapshot) {
            snapshot.with_wal = told.with_wal();
            // The store may have been moved since.
            if let Some(inside) = &told.inside {
                snapshot.origin.inside.clone_from(inside);
            }
        }
        if let (Ok((told, _)), Ok(whole)) = (&described, &snapshot)
            && !whole.lost
        {
            match self.difference(&id, whole, told) {
                Ok(None) => {}
                Ok(Some(difference)) => {
                    described = Err(format!("it does not hold what was to be published ({difference})"));
                }
                Err(problem) => snapshot = Err(problem.detail),
            }
        }
        let described = described.map(|(_, described)| described);
        Found { version: id, name, described: Some(described), snapshot }
    }

    /// A volume as it is to be recorded, where it is a snapshot of the volume that its store lies on.
    fn unrecorded(&self, id: &VersionId, volume: &LogicalVolume, name: &str) -> Result<Snapshot, String> {
        let store = &id.store;
        let ground = self.grounds.get(store);
        let ground =
            ground.ok_or_else(|| format!("store {store} is cut by no snapshots of a volume at this time"))?;
        let of_it = volume.origin.as_ref().is_some_and(|(_, uuid)| *uuid == ground.volume.uuid);
        if !of_it || volume.group_uuid != ground.group.uuid {
            return Err(format!("it is no snapshot of the volume that store {store} lies on"));
        }
        if volume.attributes.health == Health::Partial {
            return Err("a disk that it lies on is missing".to_owned());
        }
        let backend = if volume.pool.is_some() { BackendKind::LvmThin } else { BackendKind::LvmClassic };
        let origin = Origin {
            backend,
            group: ground.group.uuid.compact(),
            volume: ground.volume.uuid.compact(),
            name: called(ground),
            fs: ground.fs.clone(),
            inside: ground.inside.clone(),
        };
        let bytes = if backend == BackendKind::LvmClassic { volume.size.0 } else { 0 };
        let lost = volume.attributes.activity == Activity::InvalidSnapshot;
        Ok(Snapshot { bytes, lost, ..left_over(&origin, name.to_owned(), volume.uuid.compact()) })
    }

    /// What tells the file in a snapshot from the one that was to be cut; nothing where it is just that. It is mounted no longer
    /// than for this look: whoever looks may not be the daemon.
    fn difference(
        &self,
        id: &VersionId,
        snapshot: &Snapshot,
        told: &Told,
    ) -> Result<Option<String>, Problem> {
        let file = self.volumes.mount_again(id, snapshot)?;
        let difference = told.witness.difference(&file).map_err(Problem::from);
        if let Err(error) = self.volumes.mounts.unmount(id) {
            tracing::debug!(version = %id, "{id}: stays mounted: {error}");
        }
        difference
    }

    /// What is to be told of snapshots of these stores' volumes that other installations made, where nothing at all is recorded: one
    /// of them may be the one whose catalogue is lost.
    pub(super) fn of_others(&self, inventory: &Inventory) -> Vec<String> {
        let mut counts: BTreeMap<(StoreName, String), u64> = BTreeMap::new();
        let others = inventory.strangers().filter(|(_, why)| matches!(why, Foreign::Installation));
        for (volume, _) in others {
            let Some((installation, id)) = names::made_by(volume) else { continue };
            let ground = self.grounds.get(&id.store).map(|ground| ground.volume.uuid);
            if ground.is_some() && volume.origin.as_ref().map(|(_, uuid)| *uuid) == ground {
                *counts.entry((id.store, installation.as_str().to_owned())).or_default() += 1;
            }
        }
        counts
            .into_iter()
            .map(|((store, installation), count)| of_other(&store, &installation, count))
            .collect()
    }
}

fn of_other(store: &StoreName, installation: &str, count: u64) -> String {
    let snapshots = crate::text::counted(count, "snapshot");
    format!(
        "the installation {installation} made {snapshots} of the volume of store {store}, left alone here; if it is this one, whose \
         catalogue is lost, stop the daemon and type: asat rebuild-catalogue --replace --installation {installation}"
    )
}
