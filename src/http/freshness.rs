//! Freshness: by when stores are expected to be published, and which are late.

use asat_core::register::History;
use asat_core::{Code, Engine, Problem};
use jiff::{SignedDuration, Timestamp};

use asat_wire::Expected;

/// Nobody is disturbed about a store that was just added, and whose first publication is to come.
const DAYS_TO_PUBLISH: SignedDuration = SignedDuration::from_hours(24);

/// What is expected of a store, and how it stands to that; nothing if nothing is expected.
pub(super) fn written(engine: &Engine, history: &History, now: Timestamp) -> Option<Expected> {
    let expect = engine.policy().stores.get(&history.store.name)?.expect?;
    let (zone, published_at) = (asat_host::clock::zone(), history.published_at());
    Some(Expected {
        every: expect.to_string(),
        published_at,
        due_at: published_at.and_then(|at| expect.due_after(at, &zone)),
        late_since: expect.late_since(published_at, history.store.added_at, now, &zone),
    })
}

/// That a store is late, as a problem: of several, the first by name.
pub(super) fn first_problem(engine: &Engine, now: Timestamp) -> Option<Problem> {
    engine.register().stores().find_map(|history| problem(engine, history, now))
}

/// That a store is late, or was never published although it has been there for a day.
pub(super) fn problem(engine: &Engine, history: &History, now: Timestamp) -> Option<Problem> {
    let store = &history.store.name;
    if let Some(expected) = written(engine, history, now) {
        return expected.problem(store.as_str());
    }
    let is_young = now.duration_since(history.store.added_at) < DAYS_TO_PUBLISH;
    let was_published = history.published_at().is_some();
    let is_publisher = engine.policy().stores.contains_key(store);
    (is_publisher && !was_published && !is_young).then(|| {
        let hint = format!("publish it (asat publish {store}), or remove it from the configuration");
        Problem::new(Code::Late, format!("{store} was never published"), hint)
    })
}
