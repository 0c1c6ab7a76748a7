//! Why stores could not be published, until they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use asat_core::event::{Event, Publish, PublishSet, Reply};
use asat_core::{Code, Engine, Policy, Problem, StoreName};
use jiff::Timestamp;

use super::machine::of_store;

/// What kept stores from being published, and since when; nothing of a store whose last publication succeeded.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<RwLock<BTreeMap<StoreName, Failed>>>);

#[derive(Clone, Debug)]
struct Failed {
    problem: Problem,
    since: Timestamp,
    /// The publications from this number on were made after the last failure.
    next: u64,
}

impl Failures {
    /// Why this store could not be published when that was tried last.
    #[must_use]
    pub fn of(&self, store: &StoreName) -> Option<(Problem, Timestamp)> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(store)
            .map(|failed| (failed.problem.clone(), failed.since))
    }

    /// Notes that a store was published.
    pub fn forget(&self, store: &StoreName) {
        // Most publications have nothing to forget, and many read at once.
        if self.of(store).is_some() {
            self.0.write().unwrap_or_else(PoisonError::into_inner).remove(store);
        }
    }

    /// Takes the answer to a publication or a restore in. A mistake of the caller says nothing of a store, and a store that was locked or a disk
    /// that was full may be free by now.
    pub(super) fn note(
        &self,
        engine: &Engine,
        event: &Event,
        answer: &Result<Reply, Problem>,
        now: Timestamp,
    ) {
        match answer {
            Ok(reply) => {
                // With an idempotency key, it may be an earlier publication: nobody has looked at the store.
                let first = match reply {
                    Reply::Published(number) => *number,
                    _ => u64::MAX,
                };
                let published = stores(engine.policy(), event).into_iter();
                published.filter(|store| self.is_before(store, first)).for_each(|store| self.forget(&store));
            }
            Err(problem) if is_of_store(problem.code) && !matches!(event, Event::Restore(_)) => {
                let asked = stores(engine.policy(), event);
                // A set says which of its stores it was.
                let named = asked.iter().find(|store| problem.detail.contains(&of_store(store)));
                let failed = named.map_or_else(|| asked.clone(), |store| BTreeSet::from([store.clone()]));
                let mut failures = self.0.write().unwrap_or_else(PoisonError::into_inner);
                for store in failed {
                    let since = failures.get(&store).map_or(now, |failed| failed.since);
                    let next = engine.register().next_publication();
                    failures.insert(store, Failed { problem: problem.clone(), since, next });
                }
            }
            Err(_) => {}
        }
    }

    /// Whether the last failure of a store came before this publication.
    fn is_before(&self, store: &StoreName, publication: u64) -> bool {
        let failures = self.0.read().unwrap_or_else(PoisonError::into_inner);
        failures.get(store).is_some_and(|failed| publication >= failed.next)
    }

    /// Forgets all but these stores.
    pub(super) fn keep(&self, stores: &BTreeSet<StoreName>) {
        let mut failures = self.0.write().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|store, _| stores.contains(store));
    }
}

/// The stores that somebody wants to publish or restore.
fn stores(policy: &Policy, event: &Event) -> BTreeSet<StoreName> {
    match event {
        Event::Publish(Publish { store: Some(store), .. }) => BTreeSet::from([store.clone()]),
        // If no store is named, there has to be a single one.
        Event::Publish(_) if policy.stores.len() == 1 => policy.stores.keys().cloned().collect(),
        Event::PublishSet(PublishSet { set, .. }) => policy.sets.get(set).cloned().unwrap_or_default(),
        Event::Restore(restore) => BTreeSet::from([restore.version.store().clone()]),
        _ => BTreeSet::new(),
    }
}

/// Whether such a problem lies in the store, and lasts.
fn is_of_store(code: Code) -> bool {
    matches!(code, Code::StoreMissing | Code::StoreUnreadable | Code::CheckFailed)
}

#[cfg(test)]
mod tests {
    use asat_core::register::Register;
    use asat_core::version::Attributes;

    use super::*;

    fn publish(store: Option<&str>) -> Event {
        let store = store.map(|name| name.parse().unwrap());
        Event::Publish(Publish { store, attributes: Attributes::default(), key: None, unchanged: None })
    }

    fn engine() -> Engine {
        let sets = [("month".parse().unwrap(), ["report", "book"].map(|name| name.parse().unwrap()).into())];
        let policy = Policy { sets: sets.into(), ..Policy::default() };
        Engine::new(policy, Register::default())
    }

    #[test]
    fn what_failed_is_known_until_it_succeeds() {
        let (failures, engine) = (Failures::default(), engine());
        let report: StoreName = "report".parse().unwrap();
        let (first, later) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let missing = Problem::new(Code::StoreMissing, "it is not there", "look");
        let unread = Problem::new(Code::StoreUnreadable, "it cannot be read", "look");
        let note = |answer: &Result<Reply, Problem>, now| {
            failures.note(&engine, &publish(Some("report")), answer, now);
            failures.of(&report)
        };
        assert_eq!(note(&Err(missing.clone()), first), Some((missing, first)));
        assert_eq!(
            note(&Err(unread.clone()), later),
            Some((unread.clone(), first)),
            "it began with the first"
        );
        let others = [Code::LabelTaken, Code::KeyReused, Code::Invalid, Code::Stopping, Code::StoreBusy];
        for other in others.map(|code| Problem::new(code, "", "")) {
            assert_eq!(
                note(&Err(other), later),
                Some((unread.clone(), first)),
                "it says nothing of the store"
            );
        }
        failures.note(&engine, &publish(Some("other")), &Ok(Reply::Known(1)), later);
        assert!(failures.of(&report).is_some());
        assert!(note(&Ok(Reply::Published(0)), later).is_some(), "it was made before");
        assert_eq!(note(&Ok(Reply::Published(1)), first), None, "it was asked for before, and made after");
        assert!(note(&Err(unread), later).is_some());
        assert_eq!(note(&Ok(Reply::Known(0)), later), None);
    }

    #[test]
    fn of_a_set_the_store_that_is_named_has_failed() {
        let (failures, engine) = (Failures::default(), engine());
        let [report, book] = ["report", "book"].map(|name| name.parse::<StoreName>().unwrap());
        let set = "month".parse().unwrap();
        let asked = Event::PublishSet(PublishSet { set, attributes: Attributes::default(), key: None });
        let of_one =
            Problem::new(Code::StoreMissing, "the set month was not published; store book: gone", "");
        failures.note(&engine, &asked, &Err(of_one), Timestamp::UNIX_EPOCH);
        assert!(failures.of(&report).is_none() && failures.of(&book).is_some());
        let of_all = Problem::new(Code::CheckFailed, "they do not agree", "");
        failures.note(&engine, &asked, &Err(of_all), Timestamp::UNIX_EPOCH);
        assert!(failures.of(&report).is_some());
        failures.keep(&[report.clone()].into());
        assert!(failures.of(&report).is_some() && failures.of(&book).is_none());
    }
}
