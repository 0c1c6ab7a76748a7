//! Backends: what fixes a store's content in a snapshot, and holds it until its pages are in the archive. A store without one
//! is cut by pages, straight into the archive.
//!
//! Nothing outside this room asks which backend it is, but for the guard, which watches volumes.

mod choice;
mod found;
mod lvm;
mod reflink;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use asat_core::event::{CutFailure, Found, Surveyed};
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_core::{Backing, Problem, StoreName, VersionId};
use asat_host::clones::{Stamp, Unchanged};
use asat_host::lvm::Timing;
use asat_host::lvm::names::InstallationId;
use asat_host::worker::Still;
use jiff::Timestamp;

use super::configured::Store;
use super::cut::not_begun;
use super::snapshots::SnapshotVersion;
use crate::config::Config;
use crate::daemon::archives::Note;
use lvm::Volumes;
pub(in crate::daemon) use lvm::{LvmSnapshots, Reserved};
use reflink::Clones;

/// One way to take snapshots of stores.
pub(super) trait Backend: Sync {
    /// Refuses what cannot be cut, and does what is to be done before the store is held still.
    fn prepare(&self, id: &VersionId, store: &Store, origin: &Origin) -> Result<(), Problem>;

    /// Whether writers must be held until the snapshot is there: of each attempt, one after another.
    fn attempts(&self) -> &'static [bool];

    /// Fixes the content of a store that is held still, lets the store go, and verifies that the snapshot holds that content.
    fn cut(&self, wanted: &SnapshotRequest<'_>, still: Still) -> Result<SnapshotAttempt, CutFailure>;

    /// How a cut ends that leaves nothing, and whether it can be tried again once a snapshot has given its space back.
    fn refused(&self, problem: Problem) -> CutFailure {
        not_begun(problem)
    }

    /// The store's file in a version's snapshot, for asat to read.
    fn file(&self, id: &VersionId, snapshot: &Snapshot) -> Result<PathBuf, Problem>;

    /// Whether that file is there without anything being done for it.
    fn is_there(&self, id: &VersionId, snapshot: &Snapshot) -> bool;

    /// Whether a snapshot has lost its content, because it was full: what is read of it then may be anything.
    fn is_lost(&self, snapshot: &Snapshot) -> Result<bool, Problem>;

    /// Whether a snapshot is gone for good. This may start programs.
    fn is_gone(&self, id: &VersionId, snapshot: &Snapshot) -> bool;

    /// Removes a version's snapshot. That it is gone is no error; that it cannot be seen is one.
    fn discard(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem>;

    /// Shows the store's file in a snapshot to readers; only where the snapshot says that it can be shown.
    fn show(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem>;

    /// Takes the file away from new readers, if it is shown.
    fn hide(&self, id: &VersionId) -> Result<(), Problem>;

    /// What a version's snapshot has in common with that of an earlier one; nothing if that cannot be told.
    fn in_common(
        &self,
        one: (&VersionId, &SnapshotVersion),
        base: (&VersionId, &SnapshotVersion),
    ) -> Result<Option<Unchanged>, Problem>;

    /// What has become of the snapshots of this backend that the register speaks of, and what others there are.
    fn survey(
        &self,
        spoken: &BTreeMap<VersionId, RecordedSnapshot<'_>>,
        register: &Register,
    ) -> SnapshotSurvey;

    /// Ends what was under way for snapshots when the daemon ended; answers the versions that readers are shown.
    fn clear_up(&self, snapshots: &[Surveyed], remarks: &mut Vec<String>) -> Vec<VersionId>;

    /// Whether the guard has to know of what snapshots are taken of before one is.
    fn needs_guard(&self) -> bool;
}

/// What is to be fixed in a snapshot.
pub(super) struct SnapshotRequest<'a> {
    pub(super) id: &'a VersionId,
    pub(super) store: &'a Store,
    pub(super) origin: &'a Origin,
    /// What the snapshot is to say of its version.
    pub(super) note: &'a Note,
    pub(super) cut_at: Timestamp,
    /// After how many seconds it will be in the archive, as far as that can be foreseen.
    pub(super) seconds: u64,
}

/// What came of an attempt to cut.
pub(super) enum SnapshotAttempt {
    Taken(Box<NewSnapshot>),
    /// Somebody wrote to the store before the snapshot was there, as this tells. Writers were held for that long.
    Raced(String, Duration),
}

/// A snapshot that holds the content which was to be fixed.
pub(super) struct NewSnapshot {
    pub(super) snapshot: Snapshot,
    /// For how long writers were held.
    pub(super) blocked: Duration,
    /// How long it took to take the snapshot.
    pub(super) took: Duration,
    /// What the file in it was like then, if that tells later whether it is the same.
    pub(super) stamp: Option<Stamp>,
    /// Whether the store's file will show whatever is written to it from here on.
    pub(super) is_telling: bool,
}

/// A snapshot that the register speaks of, or one that was about to be taken.
#[derive(Clone, Copy)]
pub(super) enum RecordedSnapshot<'a> {
    Of(&'a Snapshot),
    /// With the instant of the intent.
    Intended(&'a Origin, Timestamp),
}

impl RecordedSnapshot<'_> {
    fn origin(&self) -> &Origin {
        match self {
            Self::Of(snapshot) => &snapshot.origin,
            Self::Intended(origin, _) => origin,
        }
    }
}

/// What was found of snapshots.
#[derive(Default)]
pub(super) struct SnapshotSurvey {
    pub(super) snapshots: Vec<Surveyed>,
    pub(super) found: Vec<Found>,
    pub(super) remarks: Vec<String>,
}

/// All backends.
pub(super) struct Backends {
    pub(super) lvm: LvmSnapshots,
    reflink: Clones,
}

impl Backends {
    /// Finds out how each store is to be cut.
    ///
    /// # Errors
    /// [`asat_core::Code::Configuration`], if a store is to be cut by snapshots of the volume that the state lies on.
    pub(super) fn open(
        config: &Config,
        installation: InstallationId,
        timing: Arc<dyn Timing>,
    ) -> Result<(Self, BTreeMap<StoreName, Backing>), Problem> {
        let volumes = Volumes::new(installation, config, timing);
        let (backings, grounds) = choice::discover(config, &volumes)?;
        let reflink = Clones::new(choice::clones(config, volumes.installation(), &backings));
        Ok((Self { lvm: LvmSnapshots::new(config, volumes, grounds), reflink }, backings))
    }

    /// Finds out the same of stores that a configuration adds.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn look_at(&self, added: &Config) -> Result<BTreeMap<StoreName, Backing>, Problem> {
        Ok(choice::discover(added, self.lvm.volumes())?.0)
    }

    /// The one that takes snapshots of this.
    pub(super) fn of(&self, origin: &Origin) -> &dyn Backend {
        match origin.backend {
            BackendKind::Reflink => &self.reflink,
            // Nothing is recorded of pages as an origin: they are in the archive at once.
            BackendKind::LvmThin | BackendKind::LvmClassic | BackendKind::Pages => &self.lvm,
        }
    }

    pub(super) fn all(&self) -> [&dyn Backend; 2] {
        [&self.lvm, &self.reflink]
    }
}

/// Removes a snapshot that is to be no version, for this reason. If that fails, the failure says what is left.
pub(super) fn discard(
    backend: &dyn Backend,
    id: &VersionId,
    snapshot: Snapshot,
    why: Option<&Problem>,
) -> Result<(), CutFailure> {
    backend.discard(id, &snapshot).map_err(|problem| {
        tracing::error!(version = %id, "{id}: cannot remove {}: {problem}", snapshot.name);
        let problem = why.cloned().unwrap_or(problem);
        CutFailure { begun: true, left: Some(Box::new(snapshot)), ..not_begun(problem) }
    })
}

/// What may be left of a snapshot that was about to be taken at this instant, and was not seen since.
fn not_seen(origin: &Origin, name: String, at: Timestamp) -> Snapshot {
    Snapshot { not_before: Some(at), ..left_over(origin, name, String::new()) }
}

/// What is left of a snapshot that was about to be taken.
fn left_over(origin: &Origin, name: String, uuid: String) -> Snapshot {
    Snapshot { origin: origin.clone(), name, uuid, with_wal: false, bytes: 0, lost: false, not_before: None }
}
