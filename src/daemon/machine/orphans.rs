//! Snapshots that nothing is recorded of, although every mark says that this installation made them: the catalogue was lost, or
//! is older than they are. What they say of themselves is held against what they contain.

use std::collections::BTreeMap;
use std::path::Path;

use asat_core::event::{Described, Found, Surveyed};
use asat_core::register::Register;
use asat_core::snapshot::{Backend, Origin, Snapshot};
use asat_core::version::{Content, State, Version};
use asat_core::{Problem, StoreName, VersionId};
use asat_host::clones::{Folder, Presence, Which};
use asat_host::lvm::names::{self, Foreign};
use asat_host::lvm::report::{Activity, Health, LogicalVolume};
use asat_host::store::Told;
use jiff::Timestamp;

use super::hot::SnapshotVersion;
use super::inventory::Inventory;
use super::survey::left_over;
use super::{Machine, Note, lock};

impl Machine {
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
            Ok(told) => describe(&told).map(|described| (told, described)),
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
        self.keep_in_mind(&id, &described, &snapshot);
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
        let backend = if volume.pool.is_some() { Backend::LvmThin } else { Backend::LvmClassic };
        let origin = Origin {
            backend,
            group: ground.group.uuid.compact(),
            volume: ground.volume.uuid.compact(),
            name: format!("{}/{}", ground.group.name, ground.volume.name),
            fs: ground.fs.clone(),
            inside: ground.inside.clone(),
        };
        let bytes = if backend == Backend::LvmClassic { volume.size.0 } else { 0 };
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

    /// The clones of this installation that are none of those which the register speaks of; as [`Self::found_volumes`] has it.
    pub(super) fn found_clones(&self, surveyed: &[Surveyed], register: &Register) -> Vec<Found> {
        let mut found = Vec::new();
        for (store, origin) in &self.clones {
            let paths = Folder::new(Path::new(&origin.name)).list().unwrap_or_default();
            let ids = paths.iter().filter_map(|path| path.file_name()?.to_str()?.parse::<VersionId>().ok());
            let is_known = |id: &VersionId| surveyed.iter().any(|surveyed| surveyed.version == *id);
            let unknown = ids.filter(|id| id.store == *store && !is_known(id));
            found.extend(unknown.map(|id| self.found_clone(id, origin, register)));
        }
        found
    }

    fn found_clone(&self, id: VersionId, origin: &Origin, register: &Register) -> Found {
        let folder = Folder::new(Path::new(&origin.name));
        let name = folder.of(&id).display().to_string();
        let looked = folder.look(&id, Which::MadeSince(Timestamp::MIN)).map_err(Problem::from);
        if let Ok(Presence::Gone(why)) = looked {
            return left_alone(id, name, why.unwrap_or("it is there no more"));
        }
        if !is_sought(register, &id) {
            return unknown(id, name);
        }
        let looked = looked.and_then(|presence| Ok((presence, folder.told(&id)?)));
        let (identity, told) = match looked {
            Ok((Presence::Here { identity, whole }, told)) => (identity, told.filter(|_| whole)),
            Ok(_) => return unseen(id, name, "it cannot be seen"),
            Err(problem) => return unseen(id, name, &problem.detail),
        };
        let told = told.ok_or_else(|| "it was not made to the end".to_owned());
        let told = told.and_then(|text| Told::read(text.lines()).map_err(|unclear| unclear.to_string()));
        let described = told.and_then(|told| Ok((told.with_wal(), describe(&told)?)));
        let with_wal = described.as_ref().is_ok_and(|(with_wal, _)| *with_wal);
        let described = described.map(|(_, described)| described);
        let snapshot = Ok(Snapshot { with_wal, ..left_over(origin, name.clone(), identity) });
        self.keep_in_mind(&id, &described, &snapshot);
        Found { version: id, name, described: Some(described), snapshot }
    }

    /// Keeps in mind what is to be known of a version in a snapshot, for where it is taken over.
    fn keep_in_mind(
        &self,
        id: &VersionId,
        described: &Result<Described, String>,
        snapshot: &Result<Snapshot, String>,
    ) {
        if let (Ok(Described { content, attributes, key, of_set, .. }), Ok(snapshot)) = (described, snapshot)
        {
            let (attributes, key, of_set) = (attributes.clone(), key.clone(), of_set.clone());
            let note = Note { attributes, key, of_set, checks: Vec::new() };
            let hot =
                SnapshotVersion { snapshot: snapshot.clone(), content: content.clone(), note, stamp: None };
            lock(&self.hot).insert(id.clone(), hot);
        }
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

/// What the catalogue should know, if it were this daemon's newest one.
fn unknown(version: VersionId, name: String) -> Found {
    let why = "the catalogue does not know of it; if no other daemon does, stop this one and type: \
               asat rebuild-catalogue --replace";
    left_alone(version, name, why)
}

/// What no version is made of, for this reason. No other version has its number.
fn left_alone(version: VersionId, name: String, why: &str) -> Found {
    Found { version, name, described: Some(Err(why.to_owned())), snapshot: Err(why.to_owned()) }
}

/// What could not be looked into this time, for this reason: a later start may find a version in it.
fn unseen(version: VersionId, name: String, why: &str) -> Found {
    Found { version, name, described: None, snapshot: Err(why.to_owned()) }
}

/// Whether a snapshot may hold a version that is to be had again. Of one that could not be looked into before, nothing but the
/// number may be known.
fn is_sought(register: &Register, id: &VersionId) -> bool {
    let is_lost = |version: &Version| version.state == State::Lost && version.holdings.is_empty();
    register.stores().next().is_none() || register.entry(id).is_ok_and(|entry| is_lost(&entry.version))
}

fn of_other(store: &StoreName, installation: &str, count: u64) -> String {
    let snapshots = crate::text::counted(count, "snapshot");
    format!(
        "the installation {installation} made {snapshots} of the volume of store {store}, left alone here; if it is this one, whose \
         catalogue is lost, stop the daemon and type: asat rebuild-catalogue --replace --installation {installation}"
    )
}

/// What a snapshot says of its version, as the archive would.
fn describe(told: &Told) -> Result<Described, String> {
    let note = told.note.as_deref().map_or_else(|| Ok(Note::default()), serde_json::from_str);
    let Note { attributes, key, of_set, .. } =
        note.map_err(|error| format!("it says nothing readable of its publication: {error}"))?;
    attributes.check().map_err(|problem| problem.detail)?;
    let content = Content {
        cut_at: told.cut_at,
        fingerprint: None,
        page_size: told.page_size,
        page_count: told.page_count,
        wal: told.wal,
    };
    Ok(Described { content, bytes: 0, attributes, key, of_set, checks: Vec::new() })
}
