//! Freshness: by when stores are expected to be published, and which are late.

use asat_core::register::History;
use asat_core::{Engine, Problem};
use jiff::Timestamp;

use asat_wire::Expected;

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
pub(super) fn problem(engine: &Engine, now: Timestamp) -> Option<Problem> {
    let late = |history: &History| written(engine, history, now)?.problem(history.store.name.as_str());
    engine.register().stores().find_map(late)
}
