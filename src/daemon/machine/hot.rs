//! A cut by a snapshot: the store stands still, LVM takes a snapshot of its volume, and it is looked whether that
//! holds the state which was meant.
//!
//! Nobody is held while LVM works, as long as that can be had (see `asat_host::store::still`). Where the look into the
//! snapshot finds that somebody wrote in between, the snapshot goes, and another is taken while writers are held.

use std::path::Path;
use std::time::Duration;

use asat_core::check::CheckResult;
use asat_core::event::{Cut, CutFailure, Kept};
use asat_core::snapshot::{Backend, Cost, Hold, Origin, Snapshot};
use asat_core::version::Content;
use asat_core::{Code, Problem, VersionId, boundary, sizing};
use asat_host::clones::Stamp;
use asat_host::lvm::Refusal;
use asat_host::lvm::snapshots::{ATTEMPTS, Made, Space};
use asat_host::lvm::units::Bytes;
use asat_host::mounts::{Log, into_rollback_mode};
use asat_host::store::{self, StillState, Witness};
use asat_host::volume::{self, StoreLocation};
use asat_host::worker::Still;
use asat_host::{machine, mounts};
use jiff::Timestamp;

use super::cut::{Cutting, content, not_begun, told};
use super::filing::overflowed;
use super::volumes::record;
use super::{Machine, Note, Store, clones, lock};

/// A version that is held by a snapshot, as this process knows it.
#[derive(Clone)]
pub(super) struct SnapshotVersion {
    pub(super) snapshot: Snapshot,
    pub(super) content: Content,
    pub(super) note: Note,
    /// What its clone was like when it was made; nothing of one that was made before this process began.
    pub(super) stamp: Option<Stamp>,
}

/// What a store's file was like when a version was cut by a snapshot.
pub(super) struct Witnessed {
    pub(super) number: u64,
    pub(super) witness: Witness,
    /// What the content was found to meet.
    pub(super) checks: Vec<CheckResult>,
}

/// What one attempt came to.
enum Attempt {
    Done(Box<Cut>),
    /// Somebody wrote to the store before the snapshot was there, as this tells. Writers were held for that long.
    Raced(String, Duration),
}

impl Machine {
    /// Fixes a version's content in a snapshot of the store's volume.
    pub(super) fn cut_hot(&self, cutting: &Cutting<'_>, origin: &Origin) -> Result<Cut, CutFailure> {
        let id = cutting.id;
        let store = self.configured(&id.store).map_err(not_begun)?;
        self.prepare_hot(id, &store, origin).map_err(not_begun)?;
        let (mut blocked_before, mut told) = (Duration::ZERO, String::new());
        for must_hold in [false, true] {
            let still = self
                .workers
                .still(&store.path, &store.limits, &self.stopping, must_hold)
                .map_err(|error| not_begun(error.into()))?;
            match self.attempt(cutting, origin, &store, still)? {
                Attempt::Done(mut cut) => {
                    cut.cost.writer_blocked_us += micros(blocked_before);
                    return Ok(*cut);
                }
                Attempt::Raced(difference, blocked) => {
                    tracing::info!(version = %id, difference, "{id}: somebody wrote while the snapshot was taken");
                    blocked_before += blocked;
                    told = difference;
                }
            }
        }
        Err(not_begun(heedless(id, &told)))
    }

    /// Fixes a version's content in a snapshot of the volume of a store that is held still, for which all was prepared. There is
    /// no second attempt: that would be of another instant.
    pub(super) fn cut_hot_of(
        &self,
        cutting: &Cutting<'_>,
        origin: &Origin,
        store: &Store,
        still: Still,
    ) -> Result<Cut, CutFailure> {
        match self.attempt(cutting, origin, store, still)? {
            Attempt::Done(cut) => Ok(*cut),
            Attempt::Raced(difference, _) => Err(not_begun(heedless(cutting.id, &difference))),
        }
    }

    /// Refuses what cannot be cut by a snapshot, and does what is to be done before one is taken.
    pub(super) fn prepare_hot(&self, id: &VersionId, store: &Store, origin: &Origin) -> Result<(), Problem> {
        check_place(id, store, origin)?;
        self.volumes.check_ready()?;
        if store.trim
            && let Some(ground) = self.grounds.get(&id.store)
        {
            trim(id, &ground.mount_point);
        }
        Ok(())
    }

    fn attempt(
        &self,
        cutting: &Cutting<'_>,
        origin: &Origin,
        store: &Store,
        still: Still,
    ) -> Result<Attempt, CutFailure> {
        let id = cutting.id;
        if let Some((number, checks)) = self.witnessed(cutting, still.state()) {
            let (cost, kept) = (Cost::default(), Kept::SameAs(number));
            return Ok(Attempt::Done(Box::new(Cut { cost, kept, checks })));
        }
        let above = self.volumes.has_classic_snapshots(origin).map_err(not_begun)?;
        if above {
            // What a thin snapshot finds in the log has all of the state in it then.
            store::write_out(&store.path);
        }
        let cut_at = self.instant(cutting, still.state().cut_at);
        let told = told(&cutting.note(&[]).for_all(), cut_at, still.state(), Some(&origin.inside));
        let (snapshot, made, took) =
            self.take(id, store, origin, (still.state(), cut_at, &told), ATTEMPTS)?;
        let thin = snapshot.origin.backend == Backend::LvmThin;
        if thin && !above && self.volumes.has_classic_snapshots(origin).map_err(not_begun)? {
            self.discard(id, snapshot, None)?;
            let blocked = still.release().map_err(|error| not_begun(error.into()))?;
            return Ok(Attempt::Raced(
                "a classic snapshot of the volume was taken meanwhile".to_owned(),
                blocked,
            ));
        }
        let log = if above && thin { Log::Replayed } else { Log::Empty };
        let state = still.state().clone();
        let blocked = match self.judge(id, &snapshot, &made, log, still) {
            Ok((blocked, None)) => blocked,
            Ok((blocked, Some(difference))) => {
                self.discard(id, snapshot, None)?;
                return Ok(Attempt::Raced(difference, blocked));
            }
            Err(problem) => {
                self.discard(id, snapshot, Some(&problem))?;
                return Err(CutFailure { problem, begun: false, left: None, lacks: None });
            }
        };
        let checks = match self.check_snapshot(cutting, &snapshot) {
            Ok(checks) => checks,
            Err(problem) => {
                self.discard(id, snapshot, Some(&problem))?;
                return Err(not_begun(problem));
            }
        };
        let cost = Cost {
            writer_blocked_us: micros(blocked),
            hold: hold(&state, blocked),
            snapshot_us: micros(took),
        };
        let content = content(&state, cut_at);
        let note = cutting.note(&checks);
        self.bear_witness(id, state.witness, checks.clone());
        let hot = SnapshotVersion { snapshot: snapshot.clone(), content: content.clone(), note, stamp: None };
        lock(&self.hot).insert(id.clone(), hot);
        let kept = Kept::Snapshot { content, snapshot: Box::new(snapshot) };
        Ok(Attempt::Done(Box::new(Cut { cost, kept, checks })))
    }

    /// Makes the checks on what a snapshot holds, while writers go on.
    pub(super) fn check_snapshot(
        &self,
        cutting: &Cutting<'_>,
        snapshot: &Snapshot,
    ) -> Result<Vec<CheckResult>, Problem> {
        if cutting.checks.is_empty() {
            return Ok(Vec::new());
        }
        let file = self.mounted(cutting.id, snapshot)?;
        let checked = self.workers.check_frozen(&file, snapshot.with_wal, &self.asking(cutting));
        // What was read of a snapshot that is full by now may be anything.
        if self.volumes.is_lost(snapshot)? {
            return Err(overflowed(cutting.id, snapshot));
        }
        Ok(checked?)
    }

    /// Remembers what the store's file was like when a version was cut, to know it again.
    pub(super) fn bear_witness(&self, id: &VersionId, witness: Witness, checks: Vec<CheckResult>) {
        let witnessed = Witnessed { number: id.number, witness, checks };
        lock(&self.witnesses).insert(id.store.clone(), witnessed);
    }

    /// Takes the snapshot; answers also how long LVM took. If the group has no room for a classic one of a thin volume,
    /// and the kind was left to asat, it is a thin one. asat makes so many attempts at most if LVM gave up in the middle
    /// and nothing is left of that: newer kernels do not let it suspend a volume while the file system of one of its
    /// snapshots is just being mounted or unmounted, by asat or by somebody else.
    fn take(
        &self,
        id: &VersionId,
        store: &Store,
        origin: &Origin,
        (state, cut_at, told): (&StillState, Timestamp, &[String]),
        attempts: usize,
    ) -> Result<(Snapshot, Made, Duration), CutFailure> {
        let space = self.space(id, store, origin, state).map_err(|problem| {
            // A pool that is nearly full.
            let lacks = (problem.code == Code::StorageFull).then_some(0);
            CutFailure { problem, begun: false, left: None, lacks }
        })?;
        boundary::pass("volumes: take");
        match self.volumes.take(id, origin, space, told) {
            Ok((made, took)) => {
                boundary::pass("volumes: taken");
                Ok((snapshot(origin, &made, space, state), made, took))
            }
            Err(untaken) if !store.is_kind_chosen && self.may_be_thin(id, origin, &untaken) => {
                tracing::info!(version = %id, "{id}: a thin snapshot is taken: {}", untaken.problem.detail);
                let thin = Origin { backend: Backend::LvmThin, ..origin.clone() };
                self.take(id, store, &thin, (state, cut_at, told), attempts)
            }
            Err(untaken) => {
                let again = untaken.refusal == Some(Refusal::HalfDone) && attempts > 1;
                let failure = self.clear_away(id, (origin, cut_at), space, untaken);
                if !again || failure.begun {
                    return Err(failure);
                }
                self.take(id, store, origin, (state, cut_at, told), attempts - 1)
            }
        }
    }

    /// Lets the store go, and looks whether the snapshot holds its state. Answers for how long writers were held, and what
    /// tells that it does not.
    fn judge(
        &self,
        id: &VersionId,
        snapshot: &Snapshot,
        made: &Made,
        log: Log,
        still: Still,
    ) -> Result<(Duration, Option<String>), Problem> {
        let state = still.state().clone();
        let blocked = still.release()?;
        let file = self.volumes.mount(id, snapshot, made, log)?;
        let difference = state.witness.difference(&file)?;
        if difference.is_none() && state.wal && !state.with_wal && !into_rollback_mode(&file, &made.node)? {
            tracing::debug!(version = %id, "{id}: the file in the snapshot stays in WAL mode; readers get a copy of it");
        }
        Ok((blocked, difference))
    }

    /// Removes a snapshot that is no version. Where that fails, the failure says what is left.
    fn discard(&self, id: &VersionId, snapshot: Snapshot, why: Option<&Problem>) -> Result<(), CutFailure> {
        let removed = record(&snapshot).and_then(|record| self.volumes.remove(id, record, &snapshot.name));
        removed.map_err(|problem| {
            tracing::error!(version = %id, "{id}: cannot remove {}: {problem}", snapshot.name);
            let problem = why.cloned().unwrap_or(problem);
            CutFailure { problem, begun: true, left: Some(Box::new(snapshot)), lacks: None }
        })
    }

    /// The version whose content the store still has, as its file shows, where that version is still there; with what it was
    /// found to meet. The checks are those of this process, so they need not be made again on the same content, unless it
    /// was cut without them.
    pub(super) fn witnessed(
        &self,
        cutting: &Cutting<'_>,
        state: &StillState,
    ) -> Option<(u64, Vec<CheckResult>)> {
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
        // What was cut by this process stays mounted until it goes, be it by an administrator's hand.
        let is_there = |hot: &SnapshotVersion| match clones::is_clone(&hot.snapshot) {
            true => clones::is_there(id, &hot.snapshot),
            false => self.volumes.mounts.file(id, &hot.snapshot.origin.inside).exists(),
        };
        let in_snapshot = || {
            let hot = self.hot(id).ok().filter(is_there);
            hot.is_some_and(|hot| self.volumes.is_lost(&hot.snapshot).is_ok_and(|lost| !lost))
        };
        self.archive(&id.store).is_ok_and(|archive| archive.was_read(id.number)) || in_snapshot()
    }

    /// Takes care that a version which is given up is not published again: its content would be cut anew.
    pub(super) fn forget_witness(&self, id: &VersionId) {
        let mut witnesses = lock(&self.witnesses);
        if witnesses.get(&id.store).is_some_and(|witnessed| witnessed.number == id.number) {
            witnesses.remove(&id.store);
        }
    }

    /// The space for a snapshot: none of its own for a thin one, and for a classic one enough until it is archived.
    fn space(
        &self,
        id: &VersionId,
        store: &Store,
        origin: &Origin,
        state: &StillState,
    ) -> Result<Space, Problem> {
        if origin.backend == Backend::LvmThin {
            return self.check_pool(id, origin).map(|()| Space::Pool);
        }
        let ground = self.grounds.get(&id.store).ok_or_else(|| not_looked_at(id))?;
        let origin_bytes = machine::device_size(ground.device).unwrap_or(ground.volume.size.0);
        let (write_rate, seconds) = self.pace(id, ground.device);
        let need = sizing::Need {
            origin: origin_bytes,
            chunk: sizing::CHUNK,
            extent: ground.group.extent_size.0,
            write_rate,
            seconds,
            store: u64::from(state.page_size.bytes()) * u64::from(state.page_count),
        };
        let most = sizing::most_needed(origin_bytes, sizing::CHUNK);
        // The guard would give it more at once, where it has seen the volume written faster than that.
        let enough = || sizing::space(&need).max(self.advised_size(origin)).min(most);
        let size = store.snapshot_size.map_or_else(enough, |size| size.min(most));
        Ok(Space::Own { size: Bytes(size), chunk: Bytes(sizing::CHUNK) })
    }
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

fn heedless(id: &VersionId, told: &str) -> Problem {
    let detail = format!("{id}: somebody writes to the store without heeding its locks ({told})");
    Problem::new(Code::StoreBusy, detail, "publish when nobody copies files over the store")
}

fn not_looked_at(id: &VersionId) -> Problem {
    let detail = format!("nothing is known of the volume that store {} lies on", id.store);
    Problem::new(Code::Configuration, detail, "restart asat, so that it looks again")
}

fn snapshot(origin: &Origin, made: &Made, space: Space, state: &StillState) -> Snapshot {
    Snapshot {
        origin: origin.clone(),
        name: made.ours.operand(),
        uuid: made.ours.uuid().compact(),
        with_wal: state.with_wal,
        bytes: match space {
            Space::Own { size, .. } => size.0,
            Space::Pool => 0,
        },
        lost: false,
        not_before: None,
    }
}

/// For what a commit could have had to wait.
pub(super) fn hold(state: &StillState, blocked: Duration) -> Hold {
    match state.hold {
        store::CommitWait::Nobody if blocked.is_zero() => Hold::Nobody,
        store::CommitWait::Nobody => Hold::Look,
        store::CommitWait::Checkpoint => Hold::Checkpoint,
        store::CommitWait::Snapshot => Hold::Snapshot,
    }
}

/// So many whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
