//! Why stores could not be published, until they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use asat_core::event::{Event, Publish, PublishSet, Reply};
use asat_core::{Code, Policy, Problem, StoreName};
use jiff::Timestamp;

/// What kept stores from being published, and since when; nothing of a store whose last publication succeeded.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<RwLock<BTreeMap<StoreName, (Problem, Timestamp)>>>);

impl Failures {
    /// Why this store could not be published when that was tried last.
    #[must_use]
    pub fn of(&self, store: &StoreName) -> Option<(Problem, Timestamp)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(store).cloned()
    }

    /// Notes that a store was published.
    pub fn forget(&self, store: &StoreName) {
        // Most publications have nothing to forget, and many read at once.
        if self.of(store).is_some() {
            self.0.write().unwrap_or_else(PoisonError::into_inner).remove(store);
        }
    }

    /// Takes the answer to a publication in. A mistake of the caller says nothing of a store.
    pub(super) fn note(
        &self,
        policy: &Policy,
        event: &Event,
        answer: &Result<Reply, Problem>,
        now: Timestamp,
    ) {
        for store in stores(policy, event) {
            match answer {
                Ok(_) => self.forget(&store),
                Err(problem) if is_of_store(problem.code) => {
                    let mut failures = self.0.write().unwrap_or_else(PoisonError::into_inner);
                    let since = failures.get(&store).map_or(now, |(_, since)| *since);
                    failures.insert(store, (problem.clone(), since));
                }
                Err(_) => {}
            }
        }
    }
}

/// The stores that somebody wants to publish.
fn stores(policy: &Policy, event: &Event) -> BTreeSet<StoreName> {
    match event {
        Event::Publish(Publish { store: Some(store), .. }) => BTreeSet::from([store.clone()]),
        // If no store is named, there has to be a single one.
        Event::Publish(_) if policy.stores.len() == 1 => policy.stores.keys().cloned().collect(),
        Event::PublishSet(PublishSet { set, .. }) => policy.sets.get(set).cloned().unwrap_or_default(),
        _ => BTreeSet::new(),
    }
}

/// Whether such a problem lies in the store or the machine, and will hardly be gone when somebody asks how all is.
fn is_of_store(code: Code) -> bool {
    let passes = matches!(code, Code::Stopping | Code::Overloaded | Code::ClockDoubted);
    matches!(code, Code::StoreMissing | Code::StoreUnreadable | Code::CheckFailed)
        || code.is_trouble() && !passes
}

#[cfg(test)]
mod tests {
    use asat_core::version::Attributes;

    use super::*;

    fn publish(store: Option<&str>) -> Event {
        let store = store.map(|name| name.parse().unwrap());
        Event::Publish(Publish { store, attributes: Attributes::default(), key: None, unchanged: None })
    }

    #[test]
    fn what_failed_is_known_until_it_succeeds() {
        let (failures, policy) = (Failures::default(), Policy::default());
        let report: StoreName = "report".parse().unwrap();
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let missing = Problem::new(Code::StoreMissing, "it is not there", "look");
        let busy = Problem::new(Code::StoreBusy, "it is locked", "wait");
        let note = |answer: &Result<Reply, Problem>, now| {
            failures.note(&policy, &publish(Some("report")), answer, now);
            failures.of(&report)
        };
        assert_eq!(note(&Err(missing.clone()), first), Some((missing.clone(), first)));
        assert_eq!(note(&Err(busy.clone()), later), Some((busy.clone(), first)), "it began with the first");
        let mistakes = [Code::LabelTaken, Code::KeyReused, Code::Invalid, Code::Stopping];
        for mistake in mistakes.map(|code| Problem::new(code, "", "")) {
            assert_eq!(
                note(&Err(mistake), later),
                Some((busy.clone(), first)),
                "it says nothing of the store"
            );
        }
        failures.note(&policy, &publish(Some("other")), &Ok(Reply::Published(1)), later);
        assert!(failures.of(&report).is_some());
        assert_eq!(note(&Ok(Reply::Published(1)), later), None);
    }
}
