//! Holding a store still: while a [`Still`] is there, or as its [`Witness`] finds out afterwards, a snapshot of the
//! store's volume contains exactly one committed state, and writers are held for as short as can be.
//!
//! # WAL mode
//!
//! Writers append to the WAL, and only checkpoints write the database file. So nobody needs to be held while the
//! snapshot is taken; what is needed is a database file that is one committed state and that no checkpoint may touch:
//!
//! 1. In a read transaction, `data_version` is read. SQLite raises it whenever the header of the wal-index is not the
//!    one that this connection saw last. That header names the WAL's last committed frame and its checksums.
//! 2. The transaction is ended, and a passive checkpoint says that all frames are in the database file. It works by the
//!    header of that moment; if that differs from the one of step 1, the connection forgets what it saw last.
//! 3. In a new read transaction `data_version` is the same: so its header, that of the checkpoint and that of
//!    step 1 are one. The file held the whole of this state before the transaction began.
//!
//! While the transaction lasts no checkpoint writes anything newer: SQLite gives it read-lock 0 ("the WAL is not
//! needed"), which each checkpoint, of any process, must have for itself before it writes or truncates the file. (Had
//! it another read-lock, the effect would be the same: checkpoints stop at what the oldest reader sees, and what they
//! wrote again would be what is there.) The locks on the database file that a connection in WAL mode always has keep it
//! from being taken out of WAL mode, and from being checkpointed by somebody who closes it.
//!
//! A commit amid the three steps is seen, and they are tried again ([`Hold::Nobody`]). Where somebody commits all the
//! time, a second connection takes the writers' lock for the steps ([`Hold::Checkpoint`]). Where a reader keeps the
//! checkpoint from completing, that lock stays until the snapshot is taken ([`Hold::Snapshot`]): then nobody can append
//! to the WAL or begin it anew, so database file and WAL together are the state. Checkpoints may still move frames
//! from one to the other, which makes no difference to both together.
//!
//! Meanwhile the WAL grows by what is committed. A process that asks for a checkpoint that waits (`FULL`, `RESTART`,
//! `TRUNCATE`) waits as it does for any reader, for as long as its own patience lasts, and keeps writers out meanwhile.
//!
//! # Rollback modes
//!
//! Without a writer in the file it is the committed state. A short read transaction, during which nobody can write, notes
//! what the file is, its times included; a snapshot of a file with the same times was taken before anybody wrote again
//! ([`Hold::Nobody`]). Where somebody did, or is at it all the time, the writers' lock is held until the snapshot is
//! taken ([`Hold::Snapshot`]); then no journal can be begun, and nobody can write the file.

mod log;
mod reserved;
mod rollback;
mod witness;
mod writers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use asat_core::PageSize;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Limits;
use super::content::Content;
use super::error::Error;
use super::file::{StoreFile, with_steady};
use super::target::Target;
use super::transaction::Transaction;
use super::wait::Wait;
use super::write_out;
pub use witness::Witness;
pub(super) use writers::Writers;

/// What a commit could have had to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitWait {
    /// For nothing, but in the rollback modes for a look at the file.
    Nobody,
    /// For the last frames of the WAL to be written into the database file.
    Checkpoint,
    /// For the snapshot.
    Snapshot,
}

/// The state that a snapshot of the volume is to contain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StillState {
    /// The size of the store's pages.
    pub page_size: PageSize,
    /// How many pages it has.
    pub page_count: u32,
    /// Whether the store is in WAL mode.
    pub wal: bool,
    /// Whether the state is the database file and the WAL together. If not, a WAL beside the file is to be ignored.
    pub with_wal: bool,
    /// An instant at which this was the newest committed state.
    pub cut_at: Timestamp,
    /// What a commit could have had to wait for.
    pub hold: CommitWait,
    /// What tells whether a snapshot contains the state.
    pub witness: Witness,
}

impl StillState {
    /// Waits, for some milliseconds at most, until nothing can be written later without the [`Witness`] telling of it: the file's times are those
    /// of a tick of the clock, and a checkpoint that comes within the same tick as the last one may leave them, the length
    /// and the header as they are. Answers whether that can be said. In WAL mode nobody waits for this; in the rollback modes
    /// nobody has to, since each commit moves a counter in the header.
    #[must_use]
    pub fn settle(&self) -> bool {
        let Self { wal, witness, .. } = self;
        let unsettled = if *wal { witness.unsettled() } else { Some(Duration::ZERO) };
        unsettled.inspect(|unsettled| thread::sleep(*unsettled)).is_some()
    }
}

/// A store that is held still. Dropping it releases every lock and closes the store.
pub struct Still {
    store: Target,
    file: Arc<StoreFile>,
    state: StillState,
    /// In WAL mode, what keeps checkpoints off the database file.
    reader: Option<Transaction>,
    /// What keeps writers out.
    writers: Option<Writers>,
    /// For how long a commit could have had to wait so far, where it no longer has to.
    blocked: Duration,
}

/// Holds a store still for a snapshot of its volume.
///
/// With `must_hold`, a store in a rollback mode is held until [`Still::release`]; for where a snapshot was raced before.
/// The call itself may take longer than writers are held: for the bulk of the WAL, whose checkpoint holds nobody.
///
/// # Errors
/// Where there is no readable store, its lock is not to be had in time, it may not be written but would have to be,
/// there is no room to checkpoint the WAL, or `cancel` is set.
pub fn still(
    store: impl Into<Target>,
    limits: &Limits,
    cancel: &AtomicBool,
    must_hold: bool,
) -> Result<Still, Error> {
    let store = store.into();
    let wait = Wait { limits, cancel, since: Instant::now() };
    let mut still = with_steady(&store, |file| {
        let reader = Transaction::begin_on(file, &wait)?;
        match reader.content.wal {
            true => log::hold(reader, &wait),
            false => rollback::hold(reader, &wait, must_hold),
        }
    })?;
    still.store = store;
    Ok(still)
}

/// Does what takes its time and can be done while nobody is held.
pub(super) fn prepare(file: &Arc<StoreFile>, wait: &Wait<'_>) -> Result<(), Error> {
    write_out(&file.path);
    let reader = Transaction::begin_on(Arc::clone(file), wait)?;
    match reader.content.wal {
        true => log::prepare(reader, wait),
        false => Ok(()),
    }
}

/// Holds a store still under the writers' lock, which stays with what is returned. Nobody has committed since it was taken.
pub(super) fn still_under(
    store: &Target,
    file: Arc<StoreFile>,
    writers: Writers,
    wait: &Wait<'_>,
) -> Result<Still, Error> {
    let reader = Transaction::begin_on(file, wait)?;
    let still = match reader.content.wal {
        true => log::under(reader, writers, log::SETTLING.min(wait.limits.hold / 4), wait),
        false => rollback::under(reader, writers),
    }?;
    Ok(Still { store: store.clone(), ..still })
}

impl Still {
    /// Lets writers go where the state stays what it is without that.
    ///
    /// # Errors
    /// Where they had been let go before, since they had been held for as long as they may be.
    pub(super) fn free_writers(&mut self) -> Result<(), Error> {
        if self.reader.is_some()
            && let Some(writers) = self.writers.take()
        {
            self.blocked += writers.release(&self.store.path)?;
        }
        Ok(())
    }

    /// Takes another instant at which this was the state, which is known to be a common one.
    pub(super) fn set_instant(&mut self, cut_at: Timestamp) {
        self.state.cut_at = cut_at;
    }

    /// The state that is held.
    #[must_use]
    pub fn state(&self) -> &StillState {
        &self.state
    }

    /// As [`StillState::settle`] of the state that is held.
    #[must_use]
    pub fn settle(&self) -> bool {
        self.state.settle()
    }

    /// Releases every lock when the snapshot has been taken, and says for how long a commit could have had to wait.
    ///
    /// # Errors
    /// Where the snapshot may not contain the state: another file has the store's name by now, or writers had to be
    /// let go before, since they had been held for as long as they may be.
    pub fn release(mut self) -> Result<Duration, Error> {
        let named = self.file.check_name(&self.store);
        let mut blocked = self.blocked;
        if let Some(writers) = self.writers.take() {
            blocked += writers.release(&self.store.path)?;
        }
        if let Some(reader) = self.reader.take() {
            reader.end();
        }
        named.map(|()| blocked)
    }

    fn new(
        file: Arc<StoreFile>,
        content: Content,
        cut_at: Timestamp,
        hold: CommitWait,
        witness: Witness,
    ) -> Self {
        let Content { page_size, page_count, wal } = content;
        let state =
            StillState { page_size, page_count, wal, with_wal: witness.with_wal(), cut_at, hold, witness };
        let store = Target::from(&file.path);
        Self { store, file, state, reader: None, writers: None, blocked: Duration::ZERO }
    }
}

impl std::fmt::Debug for Still {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Still")
            .field("path", &self.store.path)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
