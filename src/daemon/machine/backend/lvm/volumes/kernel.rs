//! What the kernel says of volumes, without LVM.

use std::path::Path;

use asat_core::Problem;
use asat_core::snapshot::{BackendKind, Origin, Snapshot};
use asat_host::clones::Unchanged;
use asat_host::dm::target::{PoolState, PoolTable, Snapshot as State, ThinPool};
use asat_host::dm::{self, Selector};
use asat_host::lvm::delta::{self, Side};
use asat_host::lvm::names::pool_uuid;
use asat_host::lvm::report::Uuid;

use super::turns::For;
use super::{Volumes, unreadable};

/// A thin pool that runs.
pub(in crate::daemon::machine) struct Pool {
    pub(in crate::daemon::machine) state: PoolState,
    /// The size of a block of its data, in bytes.
    pub(in crate::daemon::machine) block: u64,
    /// The devices of its data and of its metadata, to which all writes go that take space in it.
    pub(in crate::daemon::machine) devices: [(u32, u32); 2],
}

impl Volumes {
    /// The state of a classic snapshot; `None` where there is no such device.
    pub(in crate::daemon::machine) fn state(&self, snapshot: &Snapshot) -> Result<Option<State>, Problem> {
        let device = format!("LVM-{}{}", snapshot.origin.group, snapshot.uuid);
        let state = match self.tools()?.control.status(Selector::Uuid(&device)) {
            Err(dm::Error::NoSuchDevice(_)) => return Ok(None),
            state => state?,
        };
        let target = state.targets.first().ok_or_else(|| unreadable(&device))?;
        Ok(Some(State::parse(target)?))
    }

    /// Whether a classic snapshot is lost because it was full. The kernel tells this at once, while reads may still
    /// be answered from the machine's cache.
    pub(in crate::daemon::machine) fn is_lost(&self, snapshot: &Snapshot) -> Result<bool, Problem> {
        if snapshot.origin.backend != BackendKind::LvmClassic {
            return Ok(false);
        }
        let gone = || dm::Error::NoSuchDevice(snapshot.name.clone());
        let state = self.state(snapshot)?.ok_or_else(gone)?;
        Ok(matches!(state, State::Invalid | State::Overflow))
    }

    /// The device of a volume that snapshots are taken of, where it is active.
    pub(in crate::daemon::machine) fn device(&self, origin: &Origin) -> Result<Option<(u32, u32)>, Problem> {
        let device = format!("LVM-{}{}", origin.group, origin.volume);
        match self.tools()?.control.status(Selector::Uuid(&device)) {
            Ok(state) => Ok(Some(state.number)),
            Err(dm::Error::NoSuchDevice(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A thin pool; `None` where it has failed.
    pub(in crate::daemon::machine) fn pool_state(
        &self,
        group: &Uuid,
        pool: &Uuid,
    ) -> Result<Option<Pool>, Problem> {
        let device = pool_uuid(*group, *pool);
        let control = &self.tools()?.control;
        let state = control.status(Selector::Uuid(&device))?;
        let state = state.targets.first().map(ThinPool::parse).ok_or_else(|| unreadable(&device))?;
        let ThinPool::Running(state) = state? else { return Ok(None) };
        let table = control.table(Selector::Uuid(&device))?;
        let table = table.targets.first().map(PoolTable::parse).ok_or_else(|| unreadable(&device))??;
        let block = table.block.to_bytes().ok_or_else(|| unreadable(&device))?;
        Ok(Some(Pool { state, block: block.0, devices: [table.data, table.metadata] }))
    }

    /// What two thin snapshots' files have in common, as their pool tells it; each is mounted.
    pub(in crate::daemon::machine) fn shared(
        &self,
        sides: [(&Path, &Snapshot); 2],
    ) -> Result<Option<Unchanged>, Problem> {
        let device = |snapshot: &Snapshot| format!("LVM-{}{}", snapshot.origin.group, snapshot.uuid);
        let [(one, first), (other, second)] = sides;
        let (first, second) = (device(first), device(second));
        let sides = [Side { file: one, device: &first }, Side { file: other, device: &second }];
        let turn = || self.turns.take(For::Anything);
        Ok(delta::unchanged((&self.tools()?.control, &self.reserved), self.patience, sides, turn)?)
    }
}
