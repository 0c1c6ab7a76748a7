//! The newest version of each store, held and let go many million times a second: without a lock, and without anything that
//! all who do so write to.
//!
//! A hold is a note in a place of the holder's own thread (`arc-swap`). It becomes a count only when the version is the
//! newest no more, or is about to be given up: then somebody asks who holds it. So a hold keeps a version from being given
//! up as a lease does, for as long as an answer takes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use asat_core::{StoreName, VersionId};

/// The newest version of each store, with something that is known of it.
pub struct Newest<T>(ArcSwap<BTreeMap<StoreName, Arc<Slot<T>>>>);

struct Slot<T> {
    newest: ArcSwapOption<Version<T>>,
    /// What was that, and was held still when another took its place.
    former: Mutex<Vec<Arc<Version<T>>>>,
}

struct Version<T> {
    number: u64,
    known: T,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(ArcSwap::default())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { newest: ArcSwapOption::empty(), former: Mutex::default() }
    }
}

/// What was the newest version when it was asked for, if there was one. It is not given up before this is dropped.
pub struct NewestGuard<T>(Option<Guard<Option<Arc<Version<T>>>>>);

impl<T> NewestGuard<T> {
    /// The version's number, and what is known of it.
    #[must_use]
    pub fn get(&self) -> Option<(u64, &T)> {
        let version = self.0.as_deref()?.as_ref()?;
        Some((version.number, &version.known))
    }
}

impl<T> Newest<T> {
    /// Holds a store's newest version.
    #[must_use]
    pub fn hold(&self, store: &StoreName) -> NewestGuard<T> {
        NewestGuard(self.0.load().get(store).map(|slot| slot.newest.load()))
    }

    /// Puts a store's newest version in the place of the one before, or nothing.
    pub fn offer(&self, store: &StoreName, newest: Option<(u64, T)>) {
        let slot = self.slot(store);
        let newest = newest.map(|(number, known)| Arc::new(Version { number, known }));
        // Whoever asks what is held sees it in one place or in the other.
        let mut former = slot.former.lock().unwrap_or_else(PoisonError::into_inner);
        former.extend(slot.newest.swap(newest));
        former.retain(is_held);
    }

    /// A store's slot, which it has from its first version on.
    fn slot(&self, store: &StoreName) -> Arc<Slot<T>> {
        if let Some(slot) = self.0.load().get(store) {
            return Arc::clone(slot);
        }
        let slot = Arc::<Slot<T>>::default();
        self.0.rcu(|slots| {
            let mut slots = BTreeMap::clone(slots);
            slots.entry(store.clone()).or_insert_with(|| Arc::clone(&slot));
            slots
        });
        self.0.load().get(store).map_or(slot, Arc::clone)
    }

    /// Which of these versions are held; nobody can hold the others from now on.
    #[must_use]
    pub fn held(&self, versions: &[VersionId]) -> Vec<VersionId> {
        versions.iter().filter(|version| self.is_held(version)).cloned().collect()
    }

    fn is_held(&self, version: &VersionId) -> bool {
        let Some(slot) = self.0.load().get(&version.store).cloned() else { return false };
        let former = slot.former.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &Arc<Version<T>>| known.number == version.number;
        // It may have been offered several times.
        let was_held = former.iter().any(|known| is_it(known) && is_held(known));
        let Some(newest) = slot.newest.load_full().filter(is_it) else { return was_held };
        // Holds are counts once the version has left its place.
        slot.newest.store(None);
        let is_held = was_held || is_held(&newest);
        if is_held {
            slot.newest.store(Some(newest));
        }
        is_held
    }
}

/// Whether anybody but who asks has it.
fn is_held<T>(version: &Arc<T>) -> bool {
    Arc::strong_count(version) > 1
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn store() -> StoreName {
        "report".parse().unwrap()
    }

    fn id(number: u64) -> VersionId {
        VersionId { store: store(), number }
    }

    fn number<T>(held: &NewestGuard<T>) -> Option<u64> {
        held.get().map(|(number, _)| number)
    }

    #[test]
    fn the_newest_version_is_held_until_it_is_let_go() {
        let newest = Newest::default();
        assert_eq!(number(&newest.hold(&store())), None);
        assert_eq!(number(&newest.hold(&"other".parse().unwrap())), None);
        newest.offer(&store(), Some((1, "one")));
        let held = newest.hold(&store());
        assert_eq!(held.get(), Some((1, &"one")));
        assert_eq!(newest.held(&[id(1), id(2)]), [id(1)]);
        assert_eq!(number(&newest.hold(&store())), Some(1), "it is held still, and goes on");
        newest.offer(&store(), Some((2, "two")));
        assert_eq!(number(&newest.hold(&store())), Some(2));
        assert_eq!(newest.held(&[id(1)]), [id(1)]);
        assert_eq!(held.get(), Some((1, &"one")));
        drop(held);
        assert_eq!(newest.held(&[id(1)]), []);
        assert_eq!(number(&newest.hold(&store())), Some(2), "another was asked about");
    }

    #[test]
    fn a_version_that_is_offered_again_is_held_still() {
        let newest = Newest::default();
        newest.offer(&store(), Some((1, "before")));
        let held = newest.hold(&store());
        newest.offer(&store(), Some((1, "after")));
        assert_eq!(newest.held(&[id(1)]), [id(1)]);
        assert_eq!(newest.hold(&store()).get(), Some((1, &"after")));
        drop(held);
        assert_eq!(newest.held(&[id(1)]), []);
    }

    #[test]
    fn what_nobody_holds_is_held_no_more() {
        let newest = Newest::default();
        newest.offer(&store(), Some((1, ())));
        assert_eq!(newest.held(&[id(1)]), []);
        assert_eq!(number(&newest.hold(&store())), None);
        newest.offer(&store(), Some((2, ())));
        newest.offer(&store(), None);
        assert_eq!(number(&newest.hold(&store())), None);
    }

    #[test]
    fn nobody_holds_what_was_given_up() {
        let (newest, is_over) = (Newest::default(), AtomicBool::new(false));
        let hold = || {
            while !is_over.load(Ordering::Relaxed) {
                let held: NewestGuard<Arc<AtomicBool>> = newest.hold(&store());
                let Some((number, is_gone)) = held.get() else { continue };
                std::thread::yield_now();
                assert!(!is_gone.load(Ordering::SeqCst), "version {number}");
            }
        };
        let give_up = |number: u64, is_gone: &AtomicBool| {
            is_gone.store(newest.held(&[id(number)]).is_empty(), Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(hold));
            let mut before = Arc::default();
            for number in 1..=3000 {
                let is_gone = Arc::<AtomicBool>::default();
                newest.offer(&store(), Some((number, Arc::clone(&is_gone))));
                if number % 2 == 0 {
                    give_up(number, &is_gone);
                }
                give_up(number - 1, &before);
                before = is_gone;
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let all: Vec<VersionId> = (1..=3000).map(id).collect();
        assert_eq!(newest.held(&all), []);
    }
}
