//! What the daemon counts as it happens, and the text in which `GET /metrics` tells of it.
//!
//! Only what is over as soon as it has happened is counted here: a publication, a request, a command. What can be looked up
//! at any time, as how many versions there are, is looked up when somebody asks, so that nothing is written down twice.
//! Nobody who counts waits for anybody: counters are atomic numbers, and those of a store or a route are found without a lock.

mod histogram;
mod keyed;
mod text;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asat_core::guard::{Outcome, Rung};
use asat_core::version::Publication;
use asat_core::{Code, StoreName};

pub use histogram::{Distribution, Histogram};
pub use keyed::Keyed;
pub use text::{CONTENT_TYPE, Family, write};

/// How long a commit may have had to wait, and how long a publication takes: from a quarter of a millisecond to a minute.
const PUBLICATION: &[f64] = &[
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// How long a command takes. LVM's are over in a second, and stuck after half a minute.
const COMMAND: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How long an answer takes: one from memory some microseconds.
const REQUEST: &[f64] =
    &[0.00001, 0.000025, 0.0001, 0.00025, 0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];

/// What may come of an action of the guard, as it is written.
pub const OUTCOMES: [&str; 3] = ["done", "failed", "stalled"];

/// All counters of a daemon. They begin at nothing when it starts.
#[derive(Debug, Default)]
pub struct Metrics {
    /// What became of the publications of each store.
    pub stores: Keyed<StoreName, OfStore>,
    /// How many publications came to nothing, by the kind of problem.
    pub failures: Keyed<&'static str, AtomicU64>,
    /// What the guard did, by the rung of its ladder and what came of it.
    pub actions: Keyed<(&'static str, &'static str), AtomicU64>,
    /// How long each of LVM's commands took.
    pub commands: Keyed<&'static str, OfCommand>,
    /// What was answered on each route; those that meet no route are one.
    pub routes: Keyed<String, OfRoute>,
    /// Connections for which there was no place.
    pub turned_away: TurnedAway,
}

/// Connections for which there was no place, by what became of them.
#[derive(Debug, Default)]
pub struct TurnedAway {
    /// All others were being answered: they were told so.
    pub refused: AtomicU64,
    /// So many were being told so that there was not even room for that: they were closed without a word.
    pub dropped: AtomicU64,
    /// They had waited for their clients for longest, and made room for others.
    pub made_room: AtomicU64,
}

/// What became of the publications of a store.
#[derive(Debug)]
pub struct OfStore {
    /// They made a version.
    pub new: AtomicU64,
    /// They were recorded under a version that was there already.
    pub reused: AtomicU64,
    /// They said what was known, and nothing was recorded.
    pub known: AtomicU64,
    /// They read all pages of the store.
    pub read_whole: AtomicU64,
    /// They read only the pages that had changed.
    pub read_changed: AtomicU64,
    /// How many pages they read.
    pub pages_read: AtomicU64,
    /// How many pages a tracked store had changed without that being known.
    pub pages_missed: AtomicU64,
    /// For how long commits may have had to wait for one that looked into the store.
    pub writer_blocked: Histogram,
    /// How long one took that looked into the store.
    pub took: Histogram,
}

/// The runs of a command.
#[derive(Debug)]
pub struct OfCommand(pub Histogram);

/// The answers on a route.
#[derive(Debug)]
pub struct OfRoute {
    /// How many, by method and status.
    pub answers: Keyed<(&'static str, u16), AtomicU64>,
    /// How long until they began.
    pub took: Histogram,
}

impl Default for OfStore {
    fn default() -> Self {
        let counter = AtomicU64::default;
        let histogram = || Histogram::new(PUBLICATION);
        Self {
            new: counter(),
            reused: counter(),
            known: counter(),
            read_whole: counter(),
            read_changed: counter(),
            pages_read: counter(),
            pages_missed: counter(),
            writer_blocked: histogram(),
            took: histogram(),
        }
    }
}

impl Default for OfCommand {
    fn default() -> Self {
        Self(Histogram::new(COMMAND))
    }
}

impl Default for OfRoute {
    fn default() -> Self {
        Self { answers: Keyed::default(), took: Histogram::new(REQUEST) }
    }
}

impl Metrics {
    /// Has a store counted from nothing on.
    pub fn know(&self, store: &StoreName) {
        self.stores.with(store, |_| ());
    }

    /// Counts a publication that was recorded. What it cost is counted where it `looked` into the store: the others cost
    /// nobody anything, may be many, and would hide it.
    pub fn published(&self, publication: &Publication, looked: bool) {
        self.stores.with(&publication.version.store, |store| {
            count(if publication.reused { &store.reused } else { &store.new });
            if looked {
                store.writer_blocked.observe(Duration::from_micros(publication.cost.writer_blocked_us));
                store.took.observe(Duration::from_micros(publication.elapsed_us));
            }
        });
    }

    /// Counts that a store was read, all of it or what had changed.
    pub fn read(&self, store: &StoreName, is_whole: bool, pages: u32) {
        self.stores.with(store, |store| {
            count(if is_whole { &store.read_whole } else { &store.read_changed });
            store.pages_read.fetch_add(u64::from(pages), Ordering::Relaxed);
        });
    }

    /// Counts pages of a tracked store that had changed without that being known.
    pub fn missed(&self, store: &StoreName, pages: u32) {
        self.stores.with(store, |store| {
            store.pages_missed.fetch_add(u64::from(pages), Ordering::Relaxed);
        });
    }

    /// Counts a publication that said what was known.
    pub fn known(&self, store: &StoreName) {
        self.stores.with(store, |store| count(&store.known));
    }

    /// Counts a publication that came to nothing, whether it got as far as the engine or not.
    pub fn failed(&self, code: Code) {
        self.failures.with(&code.text().0, count);
    }

    /// Counts what the guard did.
    pub fn acted(&self, rung: Rung, outcome: &Outcome) {
        let [done, failed, stalled] = OUTCOMES;
        let outcome = match outcome {
            Outcome::Done => done,
            Outcome::Failed(_) => failed,
            Outcome::Stalled => stalled,
        };
        self.actions.with(&(rung.text(), outcome), count);
    }

    /// Counts an answer that began after so long.
    pub fn answered(&self, route: &str, method: &'static str, status: u16, after: Duration) {
        self.routes.with(route, |route| {
            route.answers.with(&(method, status), count);
            route.took.observe(after);
        });
    }
}

impl asat_host::lvm::Timing for Metrics {
    fn ended(&self, command: &'static str, took: Duration) {
        self.commands.with(&command, |OfCommand(histogram)| histogram.observe(took));
    }
}

/// Counts one more.
pub fn count(counter: &AtomicU64) {
    // Counters are read one by one: nothing follows from how they stand to one another.
    counter.fetch_add(1, Ordering::Relaxed);
}
