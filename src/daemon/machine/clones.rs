//! A cut by a clone: while nobody may write the store's file, the file system makes another that shares its blocks. Its pages
//! go into the archive in the background, as those of a snapshot do; only what has changed since the clone before is read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use asat_core::event::{Condition, Cut, CutFailure, Found, Kept, Surveyed};
use asat_core::snapshot::{Backend, Cost, Origin, Snapshot};
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_host::clones::{Cloned, Folder, MANY_PIECES, Presence, Stamp, Unchanged, Which};
use asat_host::store::StillState;
use asat_host::worker::Still;
use jiff::Timestamp;

use super::cut::{Cutting, content, told};
use super::hot::{SnapshotVersion, hold, micros};
use super::survey::{Spoken, left_over, not_seen};
use super::{Machine, Store, lock};

impl Machine {
    /// Fixes a version's content in a clone of the store's file.
    pub(super) fn cut_clone(&self, cutting: &Cutting<'_>, origin: &Origin) -> Result<Cut, CutFailure> {
        let store = self.configured(&cutting.id.store).map_err(refused)?;
        // In a rollback mode writers are held; in WAL mode that is needed only where a reader is in the way.
        let still = self
            .workers
            .still(&store.path, &store.limits, &self.stopping, true)
            .map_err(|error| refused(error.into()))?;
        self.cut_clone_of(cutting, origin, &store, still)
    }

    /// Fixes a version's content in a clone of the store's file, which is held still.
    pub(super) fn cut_clone_of(
        &self,
        cutting: &Cutting<'_>,
        origin: &Origin,
        store: &Store,
        still: Still,
    ) -> Result<Cut, CutFailure> {
        let id = cutting.id;
        if let Some((number, checks)) = self.witnessed(cutting, still.state()) {
            return Ok(Cut { cost: Cost::default(), kept: Kept::SameAs(number), checks });
        }
        let state = still.state().clone();
        let folder = folder(origin);
        let began = Instant::now();
        let cloned = folder.take(id, &store.path, state.with_wal).map_err(|error| refused(error.into()))?;
        let took = began.elapsed();
        let snapshot = recorded(id, origin, &cloned.identity, state.with_wal);
        let cut_at = self.instant(cutting, state.cut_at);
        let told = told(&cutting.note(&[]), cut_at, &state, None);
        let judged = judge((&folder, id), &state, &cloned, still, &told);
        let Judged { blocked, stamp, is_telling } = match judged {
            Ok(judged) => judged,
            Err(problem) => return Err(self.discard_clone(id, snapshot, problem)),
        };
        let checks = match self.check_snapshot(cutting, &snapshot) {
            Ok(checks) => checks,
            Err(problem) => return Err(self.discard_clone(id, snapshot, problem)),
        };
        tell_pieces(&folder, id);
        let cost = Cost {
            writer_blocked_us: micros(blocked),
            hold: hold(&state, blocked),
            snapshot_us: micros(took),
        };
        let content = content(&state, cut_at);
        if is_telling {
            self.bear_witness(id, state.witness, checks.clone());
        }
        let (note, stamp) = (cutting.note(&checks), Some(stamp));
        let hot = SnapshotVersion { snapshot: snapshot.clone(), content: content.clone(), note, stamp };
        lock(&self.hot).insert(id.clone(), hot);
        Ok(Cut { cost, kept: Kept::Snapshot { content, snapshot: Box::new(snapshot) }, checks })
    }

    /// Removes a clone that is no version. Where that fails, the failure says what is left.
    fn discard_clone(&self, id: &VersionId, snapshot: Snapshot, problem: Problem) -> CutFailure {
        match remove_clone(id, &snapshot) {
            Ok(()) => refused(problem),
            Err(why) => {
                tracing::error!(version = %id, "{id}: cannot remove {}: {why}", snapshot.name);
                CutFailure { begun: true, left: Some(Box::new(snapshot)), ..refused(problem) }
            }
        }
    }

    /// What a version's clone has in common with another one's; nothing where that cannot be told. Of a clone that was made
    /// before this process began it is not known whether it is as it was.
    pub(super) fn shared_with_clone(
        (id, hot): (&VersionId, &SnapshotVersion),
        (base, before): (&VersionId, &SnapshotVersion),
    ) -> Result<Option<Unchanged>, Problem> {
        let in_one_folder = before.snapshot.origin.name == hot.snapshot.origin.name;
        let whole = || presence(base, &before.snapshot).is_ok_and(|presence| is_whole(&presence));
        let Some(stamp) = before.stamp.filter(|_| in_one_folder && whole()) else { return Ok(None) };
        Ok(folder(&hot.snapshot.origin).unchanged(id, (base, stamp))?)
    }

    /// What has become of a clone that the register speaks of; nothing is said of one that was never made.
    pub(super) fn surveyed_clone(id: VersionId, spoken: Spoken<'_>) -> Option<Surveyed> {
        let (origin, clone) = match spoken {
            Spoken::Of(snapshot) => (&snapshot.origin, which(snapshot)),
            Spoken::Intended(origin, at) => (origin, Which::MadeSince(at)),
        };
        let folder = folder(origin);
        let found = folder.look(&id, clone).map_err(Problem::from);
        let left = |at| not_seen(origin, folder.of(&id).display().to_string(), at);
        let (snapshot, condition) = match (spoken, found) {
            (Spoken::Intended(..), Ok(Presence::Gone(_))) => return None,
            (Spoken::Intended(..), Ok(Presence::Here { identity, .. })) => {
                (recorded(&id, origin, &identity, false), Condition::Whole)
            }
            (Spoken::Intended(_, at), Ok(Presence::Unseen)) => (left(at), unseen(&folder.of(&id))),
            (Spoken::Intended(_, at), Err(problem)) => (left(at), Condition::Unseen(problem.detail)),
            (Spoken::Of(snapshot), found) => {
                let condition = match found {
                    Ok(Presence::Here { whole: true, .. }) => Condition::Whole,
                    Ok(Presence::Here { whole: false, .. } | Presence::Gone(_)) => Condition::Gone,
                    Ok(Presence::Unseen) => unseen(&folder.of(&id)),
                    Err(problem) => Condition::Unseen(problem.detail),
                };
                (snapshot.clone(), condition)
            }
        };
        Some(Surveyed { version: id, snapshot, condition })
    }

    /// What lies among the clones of the stores, and is none that the register speaks of or that speaks for itself.
    pub(super) fn strange_clones(&self, surveyed: &[Surveyed], found: &[Found]) -> Vec<String> {
        let mut remarks = Vec::new();
        let spoken = surveyed.iter().map(|surveyed| &surveyed.snapshot.origin);
        let mut folders: Vec<&str> = self
            .clones
            .values()
            .chain(spoken)
            .filter(|o| o.backend == Backend::Reflink)
            .map(|o| o.name.as_str())
            .collect();
        folders.sort_unstable();
        folders.dedup();
        for name in folders {
            match Folder::new(Path::new(name)).list() {
                Ok(paths) => {
                    let names = || {
                        let surveyed = surveyed.iter().map(|surveyed| &surveyed.snapshot.name);
                        surveyed.chain(found.iter().map(|found| &found.name))
                    };
                    let known = |path: &PathBuf| names().any(|name| Path::new(name) == path);
                    let strange = paths.into_iter().filter(|path| !known(path));
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

/// Whether a snapshot is a clone.
pub(super) fn is_clone(snapshot: &Snapshot) -> bool {
    snapshot.origin.backend == Backend::Reflink
}

/// The file in a version's clone.
pub(super) fn clone_file(id: &VersionId, snapshot: &Snapshot) -> Result<PathBuf, Problem> {
    match presence(id, snapshot)? {
        presence if is_whole(&presence) => Ok(folder(&snapshot.origin).file(id)),
        _ => {
            let detail = format!("the clone {} of {id} is not there", snapshot.name);
            Err(Problem::new(Code::NotReadable, detail, "look at the folder of clones, and restart asat"))
        }
    }
}

/// Whether a version's clone is there, with the file in it.
pub(super) fn is_there(id: &VersionId, snapshot: &Snapshot) -> bool {
    presence(id, snapshot).is_ok_and(|presence| is_whole(&presence))
}

/// Whether a version's clone is gone for good.
pub(super) fn is_clone_gone(id: &VersionId, snapshot: &Snapshot) -> bool {
    matches!(presence(id, snapshot), Ok(Presence::Gone(_) | Presence::Here { whole: false, .. }))
}

/// Removes a version's clone. That it is gone is no error; that it cannot be seen is one.
pub(super) fn remove_clone(id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
    if let Some(why) = folder(&snapshot.origin).remove(id, which(snapshot))? {
        tracing::warn!(version = %id, "{id}: {} is left alone: {why}", snapshot.name);
    }
    Ok(())
}

/// How clones of a store are recorded that are made in this folder.
pub(super) fn origin(folder: &Path, fs: &str, store: &StoreName) -> Option<Origin> {
    Some(Origin {
        backend: Backend::Reflink,
        group: String::new(),
        volume: String::new(),
        name: folder.to_str()?.to_owned(),
        fs: fs.to_owned(),
        inside: PathBuf::from(asat_host::clones::file_name(store)),
    })
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

/// Lets the store go, looks whether the clone holds its state, and has it last, with what is told of it.
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
        let detail = format!("{id}: somebody writes to the store without heeding its locks ({difference})");
        return Err(Problem::new(Code::StoreBusy, detail, "publish when nobody copies files over the store"));
    }
    if state.wal && !state.with_wal {
        folder.into_rollback_mode(id)?;
    }
    let stamp = folder.sync(id, state.with_wal, told)?;
    Ok(Judged { blocked, stamp, is_telling })
}

/// Says where a store lies in so many pieces that cloning it is slow.
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

fn unseen(clone: &Path) -> Condition {
    Condition::Unseen(format!(
        "{} cannot be looked at, since the folder above it is not there",
        clone.display()
    ))
}

fn refused(problem: Problem) -> CutFailure {
    // What one clone gives back is not known: one after another goes.
    let lacks = (problem.code == Code::StorageFull).then_some(0);
    CutFailure { problem, begun: false, left: None, lacks }
}
