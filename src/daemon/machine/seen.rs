//! Seeing that a store has not changed since its last version, without reading it and without waiting for anybody.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use asat_core::event::Kept;
use asat_core::{StoreName, VersionId};
use asat_host::store::Signature;
use jiff::Timestamp;

/// What each store was like when its last version was cut, with that version; readers do not wait for one another.
#[derive(Default)]
pub(super) struct Seen(RwLock<BTreeMap<StoreName, (u64, Arc<Signature>)>>);

impl Seen {
    /// Remembers what a store's files are like of which a version was just cut, and which were as they were `before`; `since`
    /// is an instant between.
    pub(super) fn remember(
        &self,
        id: &VersionId,
        path: &Path,
        kept: &Kept,
        before: Option<&Signature>,
        since: Timestamp,
    ) {
        let number = match kept {
            Kept::SameAs(number) => *number,
            Kept::Snapshot { .. } | Kept::Stored { .. } => id.number,
        };
        let signature = before.and_then(|before| Signature::of(path)?.settled(before, since));
        let mut seen = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match signature {
            Some(signature) => _ = seen.insert(id.store.clone(), (number, Arc::new(signature))),
            None => _ = seen.remove(&id.store),
        }
    }

    /// The version whose content the store at this path still has, where that can be seen.
    pub(super) fn unchanged(&self, store: &StoreName, path: &Path) -> Option<u64> {
        let seen = self.0.read().unwrap_or_else(PoisonError::into_inner).get(store).cloned();
        seen.filter(|(_, signature)| signature.still_holds(path)).map(|(number, _)| number)
    }
}
