//! Seeing that a store has not changed since its last version, without reading it and without waiting for anybody.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use asat_core::event::Kept;
use asat_core::{StoreName, VersionId};
use asat_host::store::Signature;
use jiff::Timestamp;

/// What each store was like when its last version was cut.
pub(super) struct Seen(BTreeMap<StoreName, Watched>);

struct Watched {
    path: PathBuf,
    /// The version, and what the files were like; readers do not wait for one another.
    last: RwLock<Option<(u64, Signature)>>,
}

impl Seen {
    pub(super) fn new(stores: impl Iterator<Item = (StoreName, PathBuf)>) -> Self {
        Self(stores.map(|(name, path)| (name, Watched { path, last: RwLock::default() })).collect())
    }

    /// What a store is like before it is cut, where that would tell of every write.
    pub(super) fn look(&self, store: &StoreName) -> Option<Signature> {
        Signature::of(&self.0.get(store)?.path)
    }

    /// Remembers what a store is like of which a version was just cut, and which was as it was `before`; `since` is an
    /// instant between.
    pub(super) fn remember(&self, id: &VersionId, kept: &Kept, before: Option<&Signature>, since: Timestamp) {
        let Some(watched) = self.0.get(&id.store) else { return };
        let number = match kept {
            Kept::SameAs(number) => *number,
            Kept::Snapshot { .. } | Kept::Stored { .. } => id.number,
        };
        let signature = before.and_then(|before| Signature::of(&watched.path)?.settled(before, since));
        let mut last = watched.last.write().unwrap_or_else(PoisonError::into_inner);
        *last = signature.map(|signature| (number, signature));
    }

    /// The version whose content the store still has, where that can be seen.
    pub(super) fn unchanged(&self, store: &StoreName) -> Option<u64> {
        let watched = self.0.get(store)?;
        let last = watched.last.read().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(_, signature)| signature.still_holds(&watched.path)).map(|(number, _)| *number)
    }
}
