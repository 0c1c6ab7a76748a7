//! A cut by a snapshot: the store stands still, its backend takes a snapshot, and the pages are read out of that in the background.

use std::path::PathBuf;
use std::time::Duration;

use asat_core::check::CheckResult;
use asat_core::event::{Condition, Cut, CutFailure, Described, Found, Kept, Surveyed};
use asat_core::register::Register;
use asat_core::snapshot::{Cost, Hold, Origin, Snapshot};
use asat_core::version::Content;
use asat_core::{Code, Problem, VersionId};
use asat_host::clones::Stamp;
use asat_host::store::{self, StillState, Witness};
use asat_host::worker::Still;
use jiff::Timestamp;

use super::backend::{Backend, NewSnapshot, SnapshotAttempt, SnapshotRequest, discard};
use super::cut::{Cutting, micros, not_begun};
use super::{Machine, Store, lock};
use crate::daemon::archives::Note;

/// A version that is held by a snapshot, as this process knows it.
#[derive(Clone)]
pub(super) struct SnapshotVersion {
    pub(super) snapshot: Snapshot,
    pub(super) content: Content,
    pub(super) note: Note,
    /// What its file was like when it was cut; nothing of one that was cut before this process began.
    pub(super) stamp: Option<Stamp>,
}

/// What a store's file was like when a version was cut by a snapshot.
pub(super) struct Witnessed {
    number: u64,
    witness: Witness,
    /// What the content was found to meet.
    checks: Vec<CheckResult>,
}

/// What one attempt came to.
enum CutAttempt {
    Done(Box<Cut>),
    /// Somebody wrote to the store before the snapshot was there, as this tells. Writers were held for that long.
    Raced(String, Duration),
}

impl Machine {
    /// Fixes a version's content in a snapshot.
    pub(super) fn cut_by_snapshot(
        &self,
        cutting: &Cutting<'_>,
        store: &Store,
        origin: &Origin,
    ) -> Result<Cut, CutFailure> {
        let (id, backend) = (cutting.id, self.backends.of(origin));
        backend.prepare(id, store, origin).map_err(not_begun)?;
        let (mut blocked_before, mut told) = (Duration::ZERO, String::new());
        for &must_hold in backend.attempts() {
            let still = self
                .workers
                .still(&store.path, &store.limits, &self.stopping, must_hold)
                .map_err(|error| backend.refused(error.into()))?;
            match self.attempt(cutting, origin, store, still)? {
                CutAttempt::Done(mut cut) => {
                    cut.cost.writer_blocked_us += micros(blocked_before);
                    return Ok(*cut);
                }
                CutAttempt::Raced(difference, blocked) => {
                    tracing::info!(version = %id, difference, "{id}: somebody wrote while the snapshot was taken");
                    blocked_before += blocked;
                    told = difference;
                }
            }
        }
        Err(not_begun(heedless(id, &told)))
    }

    /// Fixes a version's content in a snapshot of a store that is held still, for which all was prepared. There is
    /// no second attempt: that would be of another instant.
    pub(super) fn cut_still(
        &self,
        cutting: &Cutting<'_>,
        origin: &Origin,
        store: &Store,
        still: Still,
    ) -> Result<Cut, CutFailure> {
        match self.attempt(cutting, origin, store, still)? {
            CutAttempt::Done(cut) => Ok(*cut),
            CutAttempt::Raced(difference, _) => Err(not_begun(heedless(cutting.id, &difference))),
        }
    }

    fn attempt(
        &self,
        cutting: &Cutting<'_>,
        origin: &Origin,
        store: &Store,
        still: Still,
    ) -> Result<CutAttempt, CutFailure> {
        let (id, backend) = (cutting.id, self.backends.of(origin));
        if let Some((number, checks)) = self.witnessed(cutting, still.state()) {
            let (cost, kept) = (Cost::default(), Kept::SameAs(number));
            return Ok(CutAttempt::Done(Box::new(Cut { cost, kept, checks })));
        }
        let state = still.state().clone();
        let cut_at = self.instant(cutting, state.cut_at);
        let (note, seconds) = (cutting.note(&[]), self.archive_seconds(&id.store));
        let request = SnapshotRequest { id, store, origin, note: &note, cut_at, seconds };
        let taken = match backend.cut(&request, still)? {
            SnapshotAttempt::Taken(taken) => *taken,
            SnapshotAttempt::Raced(difference, blocked) => return Ok(CutAttempt::Raced(difference, blocked)),
        };
        let checks = match self.check_snapshot(cutting, backend, &taken.snapshot) {
            Ok(checks) => checks,
            Err(problem) => {
                discard(backend, id, taken.snapshot, Some(&problem))?;
                return Err(backend.refused(problem));
            }
        };
        Ok(CutAttempt::Done(Box::new(self.take_in(cutting, &state, cut_at, taken, checks))))
    }

    /// Keeps in mind what was fixed in a snapshot.
    fn take_in(
        &self,
        cutting: &Cutting<'_>,
        state: &StillState,
        cut_at: Timestamp,
        NewSnapshot { snapshot, blocked, took, stamp, is_telling }: NewSnapshot,
        checks: Vec<CheckResult>,
    ) -> Cut {
        let id = cutting.id;
        let &StillState { page_size, page_count, wal, .. } = state;
        // The fingerprint is known once the pages are read.
        let content = Content { cut_at, fingerprint: None, page_size, page_count, wal };
        if is_telling {
            let witness = state.witness.clone();
            let witnessed = Witnessed { number: id.number, witness, checks: checks.clone() };
            lock(&self.witnesses).insert(id.store.clone(), witnessed);
        }
        let note = cutting.note(&checks);
        let version = SnapshotVersion { snapshot: snapshot.clone(), content: content.clone(), note, stamp };
        lock(&self.hot).insert(id.clone(), version);
        let cost = Cost {
            writer_blocked_us: micros(blocked),
            hold: hold(state, blocked),
            snapshot_us: micros(took),
        };
        Cut { cost, kept: Kept::Snapshot { content, snapshot: Box::new(snapshot) }, checks }
    }

    /// Makes the checks on what a snapshot holds, while writers go on.
    fn check_snapshot(
        &self,
        cutting: &Cutting<'_>,
        backend: &dyn Backend,
        snapshot: &Snapshot,
    ) -> Result<Vec<CheckResult>, Problem> {
        if cutting.checks.is_empty() {
            return Ok(Vec::new());
        }
        let file = backend.file(cutting.id, snapshot)?;
        let checked = self.workers.check_frozen(&file, snapshot.with_wal, &self.asking(cutting));
        self.check_whole(cutting.id, snapshot)?;
        Ok(checked?)
    }

    /// Refuses a snapshot that has lost its content: what was read of it may be anything, even out of the machine's cache.
    pub(super) fn check_whole(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        match self.backends.of(&snapshot.origin).is_lost(snapshot)? {
            true => Err(overflowed(id, snapshot)),
            false => Ok(()),
        }
    }

    /// The store's file in a version's snapshot.
    pub(super) fn file_in_snapshot(&self, id: &VersionId, snapshot: &Snapshot) -> Result<PathBuf, Problem> {
        self.backends.of(&snapshot.origin).file(id, snapshot)
    }

    /// What this process knows of a version in a snapshot.
    pub(super) fn hot(&self, id: &VersionId) -> Result<SnapshotVersion, Problem> {
        lock(&self.hot).get(id).cloned().ok_or_else(|| {
            let detail = format!("{id} is neither in the archive nor in a snapshot that can be seen");
            Problem::new(Code::NotReadable, detail, "look at the volumes (lvs -a @asat), and restart asat")
        })
    }

    /// Keeps in mind what is to be known of the versions in snapshots that the register speaks of.
    pub(super) fn remember(&self, register: &Register, snapshots: &[Surveyed]) {
        let whole = snapshots.iter().filter(|surveyed| surveyed.condition == Condition::Whole);
        for Surveyed { version: id, snapshot, .. } in whole {
            let Ok(entry) = register.entry(id) else { continue };
            let Some(content) = entry.version.content.clone() else { continue };
            let note = entry.publications.first().map_or_else(Note::default, |publication| Note {
                attributes: publication.attributes.clone(),
                key: publication.key.clone(),
                checks: publication.checks.clone(),
                of_set: publication.of_set.clone(),
            });
            let version = SnapshotVersion { snapshot: snapshot.clone(), content, note, stamp: None };
            lock(&self.hot).insert(id.clone(), version);
        }
    }

    /// Keeps in mind what is to be known of versions in snapshots that are taken over.
    pub(super) fn remember_found(&self, found: &[Found]) {
        for Found { version, described, snapshot, .. } in found {
            if let (Some(Ok(described)), Ok(snapshot)) = (described, snapshot) {
                let Described { content, attributes, key, of_set, .. } = described.clone();
                let note = Note { attributes, key, of_set, checks: Vec::new() };
                let found = SnapshotVersion { snapshot: snapshot.clone(), content, note, stamp: None };
                lock(&self.hot).insert(version.clone(), found);
            }
        }
    }

    /// The version whose content the store still has, as its file shows, where that version is still there; with what it was
    /// found to meet. The checks are those of this process, so they need not be made again on the same content, unless it
    /// was cut without them.
    fn witnessed(&self, cutting: &Cutting<'_>, state: &StillState) -> Option<(u64, Vec<CheckResult>)> {
        let id = cutting.id;
        if cutting.anew {
            return None;
        }
        let (number, checks) = {
            let witnesses = lock(&self.witnesses);
            let last = witnesses.get(&id.store)?;
            // Frames of a WAL say nothing of what is in them.
            let same = last.witness == state.witness && !state.with_wal;
            let checked = last.checks.len() >= cutting.checks.len();
            (same && checked).then(|| (last.number, last.checks.clone()))?
        };
        let checks = if cutting.checks.is_empty() { Vec::new() } else { checks };
        self.is_kept(&VersionId { number, ..id.clone() }).then_some((number, checks))
    }

    /// Whether a version's pages are in the archive, where they were read since, or in a snapshot that is there and not full.
    fn is_kept(&self, id: &VersionId) -> bool {
        let in_snapshot = || {
            let Ok(SnapshotVersion { snapshot, .. }) = self.hot(id) else { return false };
            let backend = self.backends.of(&snapshot.origin);
            backend.is_there(id, &snapshot) && backend.is_lost(&snapshot).is_ok_and(|lost| !lost)
        };
        self.archives.of(&id.store).is_ok_and(|archive| archive.was_read(id.number)) || in_snapshot()
    }

    /// Takes care that a version which is given up is not published again: its content would be cut anew.
    pub(super) fn forget_witness(&self, id: &VersionId) {
        let mut witnesses = lock(&self.witnesses);
        if witnesses.get(&id.store).is_some_and(|witnessed| witnessed.number == id.number) {
            witnesses.remove(&id.store);
        }
    }

    /// Removes the snapshot of a version that does not need it any more.
    pub(super) fn drop_snapshot(&self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Problem> {
        // Nobody begins to read it from here on.
        lock(&self.hot).remove(id);
        self.backends.of(&snapshot.origin).discard(id, snapshot)
    }

    /// Whether a version's snapshot is gone for good. This may start programs.
    pub(in crate::daemon) fn is_removed(&self, id: &VersionId, snapshot: &Snapshot) -> bool {
        self.backends.of(&snapshot.origin).is_gone(id, snapshot)
    }
}

/// What a version's snapshot comes to that was full.
pub(super) fn overflowed(id: &VersionId, snapshot: &Snapshot) -> Problem {
    let name = &snapshot.name;
    let detail = format!("the snapshot {name} of {id} was full, and its content is lost");
    Problem::new(Code::NotReadable, detail, "publish again; write store.snapshot_size to make them larger")
}

/// Why no snapshot can be taken of a store.
pub(super) fn heedless(id: &VersionId, told: &str) -> Problem {
    let detail = format!("{id}: somebody writes to the store without heeding its locks ({told})");
    Problem::new(Code::StoreBusy, detail, "publish when nobody copies files over the store")
}

/// For what a commit could have had to wait.
fn hold(state: &StillState, blocked: Duration) -> Hold {
    match state.hold {
        store::CommitWait::Nobody if blocked.is_zero() => Hold::Nobody,
        store::CommitWait::Nobody => Hold::Look,
        store::CommitWait::Checkpoint => Hold::Checkpoint,
        store::CommitWait::Snapshot => Hold::Snapshot,
    }
}
