//! How a snapshot is taken: how large it is, what of it goes wrong, and whether it holds the state that was meant.

use std::time::Duration;

use asat_core::event::{CutFailure, Lack};
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_core::{Code, Problem, VersionId, boundary, sizing};
use asat_host::lvm::Refusal;
use asat_host::lvm::snapshots::{ATTEMPTS, Made, Space};
use asat_host::lvm::units::Bytes;
use asat_host::machine;
use asat_host::mounts::{Log, into_rollback_mode};
use asat_host::store::{self, StillState};
use asat_host::worker::Still;

use super::{LvmSnapshots, SnapshotAttempt, SnapshotRequest, discard};
use crate::daemon::machine::backend::NewSnapshot;
use crate::daemon::machine::backend::found::told;
use crate::daemon::machine::cut::not_begun;

impl LvmSnapshots {
    /// Takes a snapshot, lets the store go, and verifies that the snapshot holds its state.
    pub(super) fn take_and_verify(
        &self,
        request: &SnapshotRequest<'_>,
        still: Still,
    ) -> Result<SnapshotAttempt, CutFailure> {
        let &SnapshotRequest { id, store, origin, note, cut_at, .. } = request;
        let above = self.volumes.has_classic_snapshots(origin).map_err(not_begun)?;
        if above {
            // What a thin snapshot finds in the log has all of the state in it then.
            store::write_out(&store.path);
        }
        // Everybody on this machine may read the tags of a volume.
        let told = told(&note.clone().for_all(), cut_at, still.state(), Some(&origin.inside));
        let (snapshot, made, took) = self.take(request, origin, (still.state(), &told), ATTEMPTS)?;
        let thin = snapshot.origin.backend == BackendKind::LvmThin;
        let since = if thin && !above { self.volumes.has_classic_snapshots(origin) } else { Ok(false) };
        if let Err(problem) = since {
            discard(self, id, snapshot, Some(&problem))?;
            return Err(not_begun(problem));
        }
        if matches!(since, Ok(true)) {
            discard(self, id, snapshot, None)?;
            let blocked = still.release().map_err(|error| not_begun(error.into()))?;
            let difference = "a classic snapshot of the volume was taken meanwhile".to_owned();
            return Ok(SnapshotAttempt::Raced(difference, blocked));
        }
        let log = if above && thin { Log::Replayed } else { Log::Empty };
        match self.verify(id, &snapshot, &made, log, still) {
            Ok((blocked, None)) => {
                let taken = NewSnapshot { snapshot, blocked, took, stamp: None, is_telling: true };
                Ok(SnapshotAttempt::Taken(Box::new(taken)))
            }
            Ok((blocked, Some(difference))) => {
                discard(self, id, snapshot, None)?;
                Ok(SnapshotAttempt::Raced(difference, blocked))
            }
            Err(problem) => {
                discard(self, id, snapshot, Some(&problem))?;
                Err(not_begun(problem))
            }
        }
    }

    /// Takes the snapshot; answers also how long LVM took. If the group has no room for a classic one of a thin volume,
    /// and the kind was left to asat, it is a thin one. asat makes so many attempts at most if LVM gave up in the middle
    /// and nothing is left of that: newer kernels do not let it suspend a volume while the file system of one of its
    /// snapshots is just being mounted or unmounted, by asat or by somebody else.
    fn take(
        &self,
        request: &SnapshotRequest<'_>,
        origin: &Origin,
        (state, told): (&StillState, &[String]),
        attempts: usize,
    ) -> Result<(Snapshot, Made, Duration), CutFailure> {
        let &SnapshotRequest { id, store, cut_at, .. } = request;
        self.check_group(id)
            .map_err(|problem| CutFailure { lacks: Some(Lack::GroupMetadata), ..not_begun(problem) })?;
        let space = self.space(request, origin, state).map_err(|problem| {
            // A pool that is nearly full.
            let lacks = (problem.code == Code::StorageFull).then_some(Lack::Bytes(0));
            CutFailure { lacks, ..not_begun(problem) }
        })?;
        boundary::pass("volumes: take");
        match self.volumes.take(id, origin, space, told) {
            Ok((made, took)) => {
                boundary::pass("volumes: taken");
                Ok((snapshot(origin, &made, space, state), made, took))
            }
            Err(untaken) if !store.is_kind_chosen && self.may_be_thin(id, origin, &untaken) => {
                tracing::info!(version = %id, "{id}: a thin snapshot is taken: {}", untaken.problem.detail);
                let thin = Origin { backend: BackendKind::LvmThin, ..origin.clone() };
                self.take(request, &thin, (state, told), attempts)
            }
            Err(untaken) => {
                let again = untaken.refusal == Some(Refusal::HalfDone) && attempts > 1;
                let failure = self.clear_away(id, (origin, cut_at), space, untaken);
                if !again || failure.begun {
                    return Err(failure);
                }
                self.take(request, origin, (state, told), attempts - 1)
            }
        }
    }

    /// Lets the store go, and verifies that the snapshot holds its state. Answers for how long writers were held, and what
    /// tells that it does not.
    fn verify(
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

    /// The space for a snapshot: none of its own for a thin one, and for a classic one enough until it is archived.
    fn space(
        &self,
        &SnapshotRequest { id, store, seconds, .. }: &SnapshotRequest<'_>,
        origin: &Origin,
        state: &StillState,
    ) -> Result<Space, Problem> {
        if origin.backend == BackendKind::LvmThin {
            return self.check_pool(id, origin).map(|()| Space::Pool);
        }
        let ground = self.grounds.get(&id.store).ok_or_else(|| not_looked_at(id))?;
        let origin_bytes = machine::device_size(ground.device).unwrap_or(ground.volume.size.0);
        let need = sizing::Need {
            origin: origin_bytes,
            chunk: sizing::CHUNK,
            extent: ground.group.extent_size.0,
            write_rate: self.rates.look(&id.store, ground.device),
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
