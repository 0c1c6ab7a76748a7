//! Seeing that a store has not changed since its last version, without reading it and without waiting for anybody.

use std::path::Path;

use asat_core::event::Kept;
use asat_core::{StoreName, VersionId};
use asat_host::store::{Before, Signature};

use crate::newest::{Newest, NewestGuard};

/// What each store was like when its last version was cut.
#[derive(Default)]
pub(super) struct ChangeCache(Newest<Signature>);

/// A version that is not given up while this is there.
pub type VersionGuard = NewestGuard<Signature>;

impl ChangeCache {
    /// Remembers what a store's files are like of which a version was just cut, if they are as they were `before`.
    pub(super) fn remember(&self, id: &VersionId, path: &Path, kept: &Kept, before: &Before) {
        let number = match kept {
            Kept::SameAs(number) => *number,
            Kept::Snapshot { .. } | Kept::Stored { .. } => id.number,
        };
        self.0.offer(&id.store, before.settled(path).map(|signature| (number, signature)));
    }

    /// Forgets what a store was like.
    pub(super) fn forget(&self, store: &StoreName) {
        self.0.offer(store, None);
    }

    /// Holds the version whose content the store at this path still has, where that can be seen.
    pub(super) fn unchanged(&self, store: &StoreName, path: &Path) -> Option<(u64, VersionGuard)> {
        let held = self.0.hold(store);
        let (number, signature) = held.get()?;
        signature.still_holds(path).then_some(number).map(|number| (number, held))
    }

    /// Which of these versions somebody holds; nobody can hold the others from now on.
    pub(super) fn held(&self, versions: &[VersionId]) -> Vec<VersionId> {
        self.0.held(versions)
    }
}
