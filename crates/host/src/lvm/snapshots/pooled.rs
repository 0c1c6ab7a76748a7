//! What a thin pool has of a snapshot, until it is gone from there too.
//!
//! LVM records a removal together with a message for the pool, gives the pool the message, has it count the change, and takes
//! the message out of its records. Where the power goes just before the last step, LVM puts the message of the next removal
//! beside the one that is left, finds that the pool has counted, and takes both for given (lvm2 2.03.16,
//! `detach_pool_lv` and `_node_send_messages`; it is the same in 2.03.39). The pool would keep a volume then that nobody
//! can see or remove, and refuse to make another one when LVM comes to its number again.
//!
//! So the pool's count is looked at before and after. Where a removal was not counted, the pool is told here.

use super::Error;
use crate::dm::target::{Snapshot, ThinPool};
use crate::dm::{self, Control, Selector};
use crate::lvm::command::Lvm;
use crate::lvm::names::{Ours, pool_uuid};

/// A snapshot in a pool that runs.
pub(super) struct Pooled {
    /// The UUID of the pool's device.
    pool: String,
    /// The pool's number for the snapshot.
    number: u64,
    /// The number of the pool's last change.
    count: u64,
}

impl Lvm {
    /// Looks where a snapshot is in its pool. `None` where it is in none, or the pool does not run: LVM starts it then, and
    /// tells it all that it has not heard.
    pub(super) fn pooled(&self, control: &Control, ours: &Ours) -> Result<Option<Pooled>, Error> {
        let state = control.status(Selector::Uuid(&ours.device_uuid()));
        if state.is_ok_and(|state| state.targets.first().is_some_and(|one| Snapshot::parse(one).is_ok())) {
            return Ok(None);
        }
        let found = self.selected(&ours.selection())?;
        let place = found.first().and_then(|volume| {
            let (_, pool) = volume.pool.as_ref()?;
            Some((pool_uuid(volume.group_uuid, *pool), volume.thin_id?))
        });
        let Some((pool, number)) = place else { return Ok(None) };
        Ok(count(control, &pool, ours)?.map(|count| Pooled { pool, number, count }))
    }
}

impl Pooled {
    /// Has the pool give up what LVM has removed, where LVM did not see to that.
    pub(super) fn expect_gone(&self, control: &Control, ours: &Ours) -> Result<(), Error> {
        if count(control, &self.pool, ours)? != Some(self.count) {
            return Ok(());
        }
        let (volume, number) = (ours.operand(), self.number);
        control.delete_thin(&self.pool, number).map_err(|source| Error::Kept { volume, number, source })
    }
}

/// The number of a pool's last change; `None` where it does not run.
fn count(control: &Control, pool: &str, ours: &Ours) -> Result<Option<u64>, Error> {
    let asked = control.status(Selector::Uuid(pool)).and_then(|state| {
        let pool = state.targets.first().map(ThinPool::parse).transpose()?;
        Ok(pool.and_then(|pool| match pool {
            ThinPool::Running(state) => Some(state.transaction),
            ThinPool::Failed => None,
        }))
    });
    match asked {
        Err(dm::Error::NoSuchDevice(_)) => Ok(None),
        asked => asked.map_err(|source| Error::Pool { volume: ours.operand(), source }),
    }
}
