//! The backend of logical volumes: LVM takes a thin or a classic snapshot of the volume that a store lies on.
//!
//! Nobody is held while LVM works, as long as that can be had (see `asat_host::store::still`). If the look into the
//! snapshot finds that somebody wrote in between, the snapshot is removed, and another is taken while writers are held.

mod found;
mod inventory;
mod shortage;
mod space;
mod survey;
mod taking;
mod volumes;
mod write_rate;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use arc_swap::ArcSwap;
use asat_core::event::{CutFailure, Surveyed};
use asat_core::guard::VolumeAdvice;
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_host::clones::Unchanged;
use asat_host::lvm::report::Uuid;
use asat_host::lvm::units::Bytes;
use asat_host::volume::{self, OnLvm, StoreLocation};
use asat_host::worker::Still;
use asat_host::{machine, mounts};

use super::{
    Backend, RecordedSnapshot, SnapshotAttempt, SnapshotRequest, SnapshotSurvey, discard, left_over, not_seen,
};
use crate::config::Config;
use crate::daemon::machine::configured::Store;
use crate::daemon::machine::lock;
use crate::daemon::machine::snapshots::SnapshotVersion;
use inventory::Presence;
pub(in crate::daemon) use volumes::Reserved;
pub(super) use volumes::Volumes;
use volumes::record;
use write_rate::WriteRates;

/// What is known of the volumes that stores lie on.
pub(super) type Grounds = BTreeMap<StoreName, OnLvm>;

/// The snapshots of the volumes that stores lie on.
pub(in crate::daemon) struct LvmSnapshots {
    volumes: Volumes,
    grounds: Grounds,
    /// The devices of stores that have on them what LVM needs: their writers are never held.
    unholdable: BTreeSet<(u32, u32)>,
    /// The pools that may be extended, as `group/pool`.
    growing: ArcSwap<BTreeSet<String>>,
    /// What the guard wants of new snapshots.
    advice: Mutex<VolumeAdvice>,
    rates: WriteRates,
    /// What LVM said last of how much is free of each group's metadata area.
    metadata_free: Mutex<BTreeMap<Uuid, Bytes>>,
}

impl LvmSnapshots {
    pub(super) fn new(config: &Config, volumes: Volumes, grounds: Grounds) -> Self {
        let unholdable = unholdable(&grounds);
        let (growing, advice, rates) =
            (ArcSwap::from_pointee(growing(config)), Mutex::default(), WriteRates::default());
        let metadata_free = Mutex::default();
        Self { volumes, grounds, unholdable, growing, advice, rates, metadata_free }
    }

    pub(super) fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Goes by this configuration from now on.
    pub(in crate::daemon::machine) fn configure(&self, config: &Config) {
        self.growing.store(growing(config).into());
    }

    /// Where the store's file is that readers are shown of a version.
    pub(in crate::daemon::machine) fn shown(&self, id: &VersionId) -> PathBuf {
        self.volumes.mounts.path(id)
    }
}

impl Backend for LvmSnapshots {
    fn prepare(&self, id: &VersionId, store: &Store, origin: &Origin) -> Result<(), Problem> {
        self.check_advice(&id.store, origin)?;
        check_place(id, store, origin)?;
        self.volumes.check_ready()?;
        self.learn_metadata(id);
        if store.trim
            && let Some(ground) = self.grounds.get(&id.store)
        {
            trim(id, &ground.mount_point);
        }
        Ok(())
    }

    fn attempts(&self) -> &'static [bool] {
        &[false, true]
    }

    fn cut(&self, wanted: &SnapshotRequest<'_>, still: Still) -> Result<SnapshotAttempt, CutFailure> {
        self.take_and_verify(wanted, still)
    }

    fn file(&self, id: &VersionId, snapshot: &Snapshot) -> Result<PathBuf, Problem> {
        let file = self.volumes.mounts.file(id, &snapshot.origin.inside);
        // It is mounted since it was taken, unless the daemon was started in between.
        if file.exists() { Ok(file) } else { self.volumes.mount_again(id, snapshot) }
    }

    /// What was cut by this process stays mounted until it is removed, be it by an administrator.
    fn is_there(&self, id: &VersionId, snapshot: &Snapshot) -> bool {
        self.volumes.mounts.file(id, &snapshot.origin.inside).exists()
    }

    fn is_lost(&self, snapshot: &Snapshot) -> Result<bool, Problem> {
        self.volumes.is_lost(snapshot)
    }

    /// LVM knows whether the group is there and the snapshot is not. That starts two commands.
    fn is_gone(&self, id: &VersionId, snapshot: &Snapshot) -> bool {
        let presence = record(snapshot).and_then(|record| self.volumes.look_for(id, record, &snapshot.name));
        matches!(presence, Ok(Presence::Gone))
    }

    fn discard(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        self.volumes.remove(id, record(snapshot)?, &snapshot.name)
    }

    fn show(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        self.volumes.show(id, snapshot)
    }

    fn hide(&self, id: &VersionId) -> Result<(), Problem> {
        self.volumes.hide(id)
    }

    /// A pool tells it of thin snapshots. Both have to be mounted: one of before the daemon started is mounted again only if
    /// it is read.
    fn in_common(
        &self,
        (id, one): (&VersionId, &SnapshotVersion),
        (base, before): (&VersionId, &SnapshotVersion),
    ) -> Result<Option<Unchanged>, Problem> {
        let (origin, origin_before) = (&one.snapshot.origin, &before.snapshot.origin);
        let is_thin = origin.backend == BackendKind::LvmThin;
        if !is_thin || !origin.shares_space_with(origin_before) || !self.is_there(base, &before.snapshot) {
            return Ok(None);
        }
        let file = |id: &VersionId, origin: &Origin| self.volumes.mounts.file(id, &origin.inside);
        let (mine, theirs) = (file(id, origin), file(base, origin_before));
        self.volumes.shared([(mine.as_path(), &one.snapshot), (theirs.as_path(), &before.snapshot)])
    }

    fn survey(
        &self,
        spoken: &BTreeMap<VersionId, RecordedSnapshot<'_>>,
        register: &Register,
    ) -> SnapshotSurvey {
        self.look_at_snapshots(spoken, register)
    }

    fn clear_up(&self, snapshots: &[Surveyed], remarks: &mut Vec<String>) -> Vec<VersionId> {
        // Nothing depends on it; a pool that keeps something is asked again when its next version is archived.
        remarks.extend(self.volumes.let_go_of_pools().err().map(|problem| problem.to_string()));
        self.look_at_mounts(snapshots)
    }

    /// The guard knows the volumes that it found as it began.
    fn needs_guard(&self) -> bool {
        true
    }
}

fn growing(config: &Config) -> BTreeSet<String> {
    config.guard.pools.iter().cloned().collect()
}

/// The devices whose writers may not be held, as the machine itself needs what is on them; each is told of.
fn unholdable(grounds: &Grounds) -> BTreeSet<(u32, u32)> {
    let mut found = BTreeSet::new();
    for (name, ground) in grounds {
        if let Some(needed) = machine::needed_on(ground.device) {
            tracing::warn!(
                store = %name,
                "{name} lies on {}, as {needed} does, which LVM needs to make room: its writers are never held, and a snapshot may \
                 fill that holding them would save; put the store on a volume of its own",
                called(ground)
            );
            found.insert(ground.device);
        }
    }
    found
}

/// The volume as LVM's commands take it.
pub(super) fn called(OnLvm { group, volume, .. }: &OnLvm) -> String {
    format!("{}/{}", group.name, volume.name)
}

/// Refuses a store that has moved to another volume since it was looked where it lies.
fn check_place(id: &VersionId, store: &Store, origin: &Origin) -> Result<(), Problem> {
    let now = match volume::stands_on(&store.path)? {
        Ok(StoreLocation { uuid, .. })
            if uuid.volume.compact() != origin.volume || uuid.group.compact() != origin.group =>
        {
            "it lies on another one now".to_owned()
        }
        Ok(StoreLocation { inside, .. }) if inside != origin.inside => {
            format!("it is at {} there now, and was at {}", inside.display(), origin.inside.display())
        }
        Ok(_) => return Ok(()),
        Err(why) => why.to_string(),
    };
    let detail = format!("store {} was on the volume {} when asat started: {now}", id.store, origin.name);
    Err(Problem::new(Code::Configuration, detail, "restart asat, so that it looks again"))
}

/// Has the file system give back what it does not use. A version can be had without that.
fn trim(id: &VersionId, mount_point: &Path) {
    match mounts::trim(mount_point) {
        Ok(freed) => {
            tracing::debug!(version = %id, freed, "{id}: the file system gave back what it does not use")
        }
        Err(error) => {
            tracing::warn!(version = %id, "{id}: published without store.trim: {}", Problem::from(error))
        }
    }
}
