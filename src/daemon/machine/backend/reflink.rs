//! The backend of clones: while nobody may write the store's file, the file system makes another that shares its blocks. Its
//! pages go into the archive in the background, as those of a snapshot do; only what has changed since the clone before is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use asat_core::event::{Condition, CutFailure, Found, Lack, Surveyed};
use asat_core::register::Register;
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_host::clones::{Cloned, Folder, MANY_PIECES, Presence, Stamp, Unchanged, Which, file_name};
use asat_host::store::{StillState, Told};
use asat_host::worker::Still;
use jiff::Timestamp;

use super::found::{described, is_sought, left_alone, told, unknown, unseen};
use super::{
    Backend, NewSnapshot, RecordedSnapshot, SnapshotAttempt, SnapshotRequest, SnapshotSurvey, discard,
    left_over, not_seen,
};
use crate::daemon::machine::configured::Store;
use crate::daemon::machine::cut::not_begun;
use crate::daemon::machine::snapshots::{SnapshotVersion, heedless};

/// The clones of stores' files.
pub(super) struct Clones {
    /// Where the clones of each store lie, be it cut so now or only before.
    folders: BTreeMap<StoreName, Origin>,
}

impl Clones {
    pub(super) fn new(folders: BTreeMap<StoreName, Origin>) -> Self {
        Self { folders }
    }

    /// The clones that the register does not speak of.
    fn found(
        &self,
        spoken: &BTreeMap<VersionId, RecordedSnapshot<'_>>,
        surveyed: &[Surveyed],
        register: &Register,
    ) -> Vec<Found> {
        // A clone that is older than the intent to make one of its name is not what the register speaks of.
        let is_known = |id: &VersionId| {
            matches!(spoken.get(id), Some(RecordedSnapshot::Of(_)))
                || surveyed.iter().any(|surveyed| surveyed.version == *id)
        };
        let mut found = Vec::new();
        for (store, origin) in &self.folders {
            let paths = folder(origin).list().unwrap_or_default();
            let ids = paths.iter().filter_map(|path| path.file_name()?.to_str()?.parse::<VersionId>().ok());
            let strange = ids.filter(|id| id.store == *store && !is_known(id));
            found.extend(strange.map(|id| found_clone(id, origin, register)));
        }
        found
    }

    /// What lies among the clones of the stores, and is none that the register speaks of or that speaks for itself.
    fn strange(&self, surveyed: &[Surveyed], found: &[Found]) -> Vec<String> {
        let spoken = surveyed.iter().map(|surveyed| &surveyed.snapshot.origin);
        let folders: BTreeSet<&str> =
            self.folders.values().chain(spoken).map(|origin| origin.name.as_str()).collect();
        let surveyed = surveyed.iter().map(|surveyed| &surveyed.snapshot.name);
        let known: BTreeSet<&Path> =
            surveyed.chain(found.iter().map(|found| &found.name)).map(Path::new).collect();
        let mut remarks = Vec::new();
        for name in folders {
            match Folder::new(Path::new(name)).list() {
                Ok(paths) => {
                    let strange = paths.into_iter().filter(|path| !known.contains(path.as_path()));
                    remarks.extend(strange.map(|path| {
                        format!("{} is no clone of a version, and is left alone", path.display())
                    }));
                }
                Err(error) => remarks.push(Problem::from(error).to_string()),
            }
        }
        remarks
    }
}

impl Backend for Clones {
    fn prepare(&self, _: &VersionId, _: &Store, _: &Origin) -> Result<(), Problem> {
        Ok(())
    }

    /// In a rollback mode writers are held; in WAL mode that is needed only if a reader is in the way.
    fn attempts(&self) -> &'static [bool] {
        &[true]
    }

    fn cut(&self, wanted: &SnapshotRequest<'_>, still: Still) -> Result<SnapshotAttempt, CutFailure> {
        let &SnapshotRequest { id, store, origin, note, cut_at, .. } = wanted;
        let (state, folder) = (still.state().clone(), folder(origin));
        let began = Instant::now();
        let cloned =
            folder.take(id, &store.path, state.with_wal).map_err(|error| self.refused(error.into()))?;
        let took = began.elapsed();
        let snapshot = recorded(id, origin, &cloned.identity, state.with_wal);
        let told = told(note, cut_at, &state, None);
        match judge((&folder, id), &state, &cloned, still, &told) {
            Ok(Judged { blocked, stamp, is_telling }) => {
                tell_pieces(&folder, id);
                let taken = NewSnapshot { snapshot, blocked, took, stamp: Some(stamp), is_telling };
                Ok(SnapshotAttempt::Taken(Box::new(taken)))
            }
            Err(problem) => {
                discard(self, id, snapshot, Some(&problem))?;
                Err(self.refused(problem))
            }
        }
    }

    fn refused(&self, problem: Problem) -> CutFailure {
        // What one clone gives back is not known: one after another is dropped.
        let lacks = (problem.code == Code::StorageFull).then_some(Lack::Bytes(0));
        CutFailure { lacks, ..not_begun(problem) }
    }

    fn file(&self, id: &VersionId, snapshot: &Snapshot) -> Result<PathBuf, Problem> {
        if is_whole(&presence(id, snapshot)?) {
            return Ok(folder(&snapshot.origin).file(id));
        }
        let detail = format!("the clone {} of {id} is not there", snapshot.name);
        Err(Problem::new(Code::NotReadable, detail, "look at the folder of clones, and restart asat"))
    }

    fn is_there(&self, id: &VersionId, snapshot: &Snapshot) -> bool {
        presence(id, snapshot).is_ok_and(|presence| is_whole(&presence))
    }

    /// A clone cannot overflow: writes to the store fail before that.
    fn is_lost(&self, _: &Snapshot) -> Result<bool, Problem> {
        Ok(false)
    }

    fn is_gone(&self, id: &VersionId, snapshot: &Snapshot) -> bool {
        matches!(presence(id, snapshot), Ok(Presence::Gone(_) | Presence::Here { whole: false, .. }))
    }

    fn discard(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        if let Some(why) = folder(&snapshot.origin).remove(id, which(snapshot))? {
            tracing::warn!(version = %id, "{id}: {} is left alone: {why}", snapshot.name);
        }
        Ok(())
    }

    fn show(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        let detail = format!("the clone {} of {id} is shown to nobody", snapshot.name);
        Err(Problem::new(Code::Internal, detail, "report this as a defect"))
    }

    fn hide(&self, _: &VersionId) -> Result<(), Problem> {
        Ok(())
    }

    /// Of a clone that was made before this process began it is not known whether it is as it was.
    fn in_common(
        &self,
        (id, one): (&VersionId, &SnapshotVersion),
        (base, before): (&VersionId, &SnapshotVersion),
    ) -> Result<Option<Unchanged>, Problem> {
        let in_one_folder = before.snapshot.origin.name == one.snapshot.origin.name;
        let stamp = before.stamp.filter(|_| in_one_folder && self.is_there(base, &before.snapshot));
        let Some(stamp) = stamp else { return Ok(None) };
        Ok(folder(&one.snapshot.origin).unchanged(id, (base, stamp))?)
    }

    fn survey(
        &self,
        spoken: &BTreeMap<VersionId, RecordedSnapshot<'_>>,
        register: &Register,
    ) -> SnapshotSurvey {
        let of_clones = spoken.iter().filter(|(_, one)| one.origin().backend == BackendKind::Reflink);
        let snapshots: Vec<Surveyed> =
            of_clones.filter_map(|(id, spoken)| surveyed(id.clone(), *spoken)).collect();
        let found = self.found(spoken, &snapshots, register);
        let remarks = self.strange(&snapshots, &found);
        SnapshotSurvey { snapshots, found, remarks }
    }

    fn clear_up(&self, _: &[Surveyed], _: &mut Vec<String>) -> Vec<VersionId> {
        Vec::new()
    }

    fn needs_guard(&self) -> bool {
        false
    }
}

/// How clones of a store are recorded that are made in this folder.
pub(super) fn origin(folder: &Path, fs: &str, store: &StoreName) -> Option<Origin> {
    Some(Origin {
        backend: BackendKind::Reflink,
        group: String::new(),
        volume: String::new(),
        name: folder.to_str()?.to_owned(),
        fs: fs.to_owned(),
        inside: PathBuf::from(file_name(store)),
    })
}

/// What has become of a clone that the register speaks of; nothing is said of one that was never made.
fn surveyed(id: VersionId, spoken: RecordedSnapshot<'_>) -> Option<Surveyed> {
    let (origin, clone) = match spoken {
        RecordedSnapshot::Of(snapshot) => (&snapshot.origin, which(snapshot)),
        RecordedSnapshot::Intended(origin, at) => (origin, Which::MadeSince(at)),
    };
    let folder = folder(origin);
    let found = folder.look(&id, clone).map_err(Problem::from);
    let left = |at| not_seen(origin, folder.of(&id).display().to_string(), at);
    let (snapshot, condition) = match (spoken, found) {
        (RecordedSnapshot::Intended(..), Ok(Presence::Gone(_))) => return None,
        (RecordedSnapshot::Intended(..), Ok(Presence::Here { identity, .. })) => {
            (recorded(&id, origin, &identity, false), Condition::Whole)
        }
        (RecordedSnapshot::Intended(_, at), Ok(Presence::Unseen)) => {
            (left(at), without_folder(&folder.of(&id)))
        }
        (RecordedSnapshot::Intended(_, at), Err(problem)) => (left(at), Condition::Unseen(problem.detail)),
        (RecordedSnapshot::Of(snapshot), found) => {
            let condition = match found {
                Ok(Presence::Here { whole: true, .. }) => Condition::Whole,
                Ok(Presence::Here { whole: false, .. } | Presence::Gone(_)) => Condition::Gone,
                Ok(Presence::Unseen) => without_folder(&folder.of(&id)),
                Err(problem) => Condition::Unseen(problem.detail),
            };
            (snapshot.clone(), condition)
        }
    };
    Some(Surveyed { version: id, snapshot, condition })
}

/// A clone that the register does not speak of.
fn found_clone(id: VersionId, origin: &Origin, register: &Register) -> Found {
    let folder = folder(origin);
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
    let with_wal = told.as_ref().is_ok_and(Told::with_wal);
    let described = told.and_then(|told| described(&told));
    let snapshot = Ok(recorded(&id, origin, &identity, with_wal && described.is_ok()));
    Found { version: id, name, described: Some(described), snapshot }
}

fn presence(id: &VersionId, snapshot: &Snapshot) -> Result<Presence, Problem> {
    Ok(folder(&snapshot.origin).look(id, which(snapshot))?)
}

fn is_whole(presence: &Presence) -> bool {
    matches!(presence, Presence::Here { whole: true, .. })
}

fn folder(origin: &Origin) -> Folder {
    Folder::new(Path::new(&origin.name))
}

/// Which clone is recorded.
fn which(snapshot: &Snapshot) -> Which<'_> {
    match snapshot.uuid.as_str() {
        "" => Which::MadeSince(snapshot.not_before.unwrap_or(Timestamp::MAX)),
        known => Which::Known(known),
    }
}

fn recorded(id: &VersionId, origin: &Origin, identity: &str, with_wal: bool) -> Snapshot {
    let name = folder(origin).of(id).display().to_string();
    Snapshot { with_wal, ..left_over(origin, name, identity.to_owned()) }
}

/// What there is to be known of a clone that holds the state.
struct Judged {
    /// For how long writers were held.
    blocked: Duration,
    stamp: Stamp,
    /// Whether the store's file will show whatever is written to it from here on.
    is_telling: bool,
}

/// Lets the store go, verifies that the clone holds its state, and makes the clone durable, with what is told of it.
fn judge(
    (folder, id): (&Folder, &VersionId),
    state: &StillState,
    cloned: &Cloned,
    still: Still,
    told: &[String],
) -> Result<Judged, Problem> {
    let is_telling = still.settle();
    let blocked = still.release()?;
    if let Some(difference) = state.witness.difference_of_clone(&cloned.source, &folder.file(id))? {
        return Err(heedless(id, &difference));
    }
    if state.wal && !state.with_wal {
        folder.into_rollback_mode(id)?;
    }
    let stamp = folder.sync(id, state.with_wal, told)?;
    Ok(Judged { blocked, stamp, is_telling })
}

/// Tells of a store that lies in so many pieces that cloning it is slow.
fn tell_pieces(folder: &Folder, id: &VersionId) {
    match folder.pieces(id) {
        Ok(Some(pieces)) if pieces >= MANY_PIECES => {
            let store = &id.store;
            tracing::warn!(%store, pieces, "{store}: cloning is slow: it lies in very many pieces; asat doctor says what helps");
        }
        Ok(_) => {}
        Err(error) => {
            tracing::debug!(version = %id, "{id}: in how many pieces it lies is not known: {}", Problem::from(error))
        }
    }
}

fn without_folder(clone: &Path) -> Condition {
    Condition::Unseen(format!(
        "{} cannot be looked at, since the folder above it is not there",
        clone.display()
    ))
}
