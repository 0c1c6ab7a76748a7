//! Seeing that a store has not changed since its last version, without reading it and without waiting for anybody.

use std::collections::BTreeMap;
use std::path::PathBuf;

use asat_core::event::Kept;
use asat_core::{StoreName, VersionId};
use asat_host::store::Signature;
use jiff::Timestamp;

use crate::newest::{Held, Newest};

/// What each store was like when its last version was cut.
pub(super) struct Seen {
    paths: BTreeMap<StoreName, PathBuf>,
    newest: Newest<Signature>,
}

/// A version that is not given up while this is there.
pub type Hold = Held<Signature>;

impl Seen {
    pub(super) fn new(stores: impl Iterator<Item = (StoreName, PathBuf)>) -> Self {
        let paths: BTreeMap<_, _> = stores.collect();
        Self { newest: Newest::of(paths.keys().cloned()), paths }
    }

    /// What a store is like before it is cut, where that would tell of every write.
    pub(super) fn look(&self, store: &StoreName) -> Option<Signature> {
        Signature::of(self.paths.get(store)?)
    }

    /// Remembers what a store is like of which a version was just cut, and which was as it was `before`; `since` is an
    /// instant between.
    pub(super) fn remember(&self, id: &VersionId, kept: &Kept, before: Option<&Signature>, since: Timestamp) {
        let Some(path) = self.paths.get(&id.store) else { return };
        let number = match kept {
            Kept::SameAs(number) => *number,
            Kept::Snapshot { .. } | Kept::Stored { .. } => id.number,
        };
        let signature = before.and_then(|before| Signature::of(path)?.settled(before, since));
        self.newest.offer(&id.store, signature.map(|signature| (number, signature)));
    }

    /// Holds the version whose content a store still has, where that can be seen.
    pub(super) fn unchanged(&self, store: &StoreName) -> Option<(u64, Hold)> {
        let (path, held) = (self.paths.get(store)?, self.newest.hold(store));
        let (number, signature) = held.get()?;
        signature.still_holds(path).then_some(number).map(|number| (number, held))
    }

    /// The store, where there is only one.
    pub(super) fn only_store(&self) -> Option<&StoreName> {
        let mut stores = self.paths.keys();
        stores.next().filter(|_| stores.next().is_none())
    }

    /// Which of these versions somebody holds; nobody can hold the others from now on.
    pub(super) fn held(&self, versions: &[VersionId]) -> Vec<VersionId> {
        self.newest.held(versions)
    }
}
