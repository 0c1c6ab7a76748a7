//! The engine, which everybody may read and the driver alone changes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use asat_core::event::Change;
use asat_core::recorder::Commit;
use asat_core::{Engine, Policy, VersionId};

/// The engine, and how often it has changed.
#[derive(Debug)]
pub struct SharedEngine {
    engine: RwLock<Engine>,
    revision: AtomicU64,
}

impl SharedEngine {
    /// An engine that others may read from now on.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self { engine: RwLock::new(engine), revision: AtomicU64::new(0) }
    }

    /// The engine, to read. Do not hold it for long: the driver waits.
    pub fn read(&self) -> RwLockReadGuard<'_, Engine> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the engine has taken something in: what was true of it is true still while this is the same. Whoever reads it sees
    /// no change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    pub(crate) fn evolve(&self, changes: &[Change], commit: Commit) {
        self.change(|engine| {
            changes.iter().for_each(|change| engine.evolve(change));
            engine.committed(commit);
            engine.free_unpacked();
        });
    }

    /// Frees what is in memory only because somebody asked for it.
    pub fn free_unpacked(&self) {
        self.engine.write().unwrap_or_else(PoisonError::into_inner).free_unpacked();
    }

    /// Goes by another policy; answers the one before.
    pub(crate) fn configure(&self, policy: Policy) -> Policy {
        self.change(|engine| engine.configure(policy))
    }

    /// Says which versions somebody holds without a lease. Nobody sees that but who decides.
    pub(crate) fn hold(&self, held: BTreeSet<VersionId>) {
        self.engine.write().unwrap_or_else(PoisonError::into_inner).hold(held);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut engine);
        self.revision.fetch_add(1, Ordering::Release);
        changed
    }
}
