//! A simulator: the real engine, the real guard and, in some runs, the real catalogue, on a machine that is a model.
//!
//! The model has the physics that matter (see `world` and `pool`), commands that take their time, fail, hang, or
//! succeed late, writers of any pace, readers, and a daemon that dies at any moment. A [`Scenario`] follows from a
//! seed, and a run from the scenario: the same seed gives the same run. Time jumps from event to event, so a quiet
//! year costs nothing.
//!
//! What is checked: no version that somebody was told of is lost while any rung of the ladder was left; nothing that
//! is leased or pinned is touched; after every crash records and machine agree; a plan that was carried out leaves
//! nothing to do; and the ladder is climbed in its order. [`run`] answers with a [`Violation`] where that is not so,
//! and [`shrink`] looks for the smallest scenario that still shows it.

#![allow(
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a model that is broken shall fail where it is broken; every run catches that"
)]

mod braking;
mod checks;
mod daemon;
mod dice;
mod faults;
mod guardian;
mod hardships;
mod lvm;
mod machine;
mod observing;
mod pool;
mod ports;
mod ranges;
mod records;
mod scenario;
mod script;
mod sim;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use hardships::HARDSHIPS;
pub use scenario::Scenario;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What.
    pub what: String,
    /// The last things that happened before.
    pub diary: Vec<String>,
}

impl Violation {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), diary: Vec::new() }
    }
}

/// What happened in a run, or in several that were joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How long it lasted, in simulated milliseconds.
    pub ms: u64,
    /// How often each thing happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// In how many of the runs that were joined it happened.
    pub runs: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, number: u64) {
        *self.counts.entry(what).or_default() += number;
    }

    /// Takes that of a run in.
    pub fn join(&mut self, run: &Self) {
        self.ms += run.ms;
        for (what, number) in &run.counts {
            *self.counts.entry(what).or_default() += number;
            *self.runs.entry(what).or_default() += 1;
        }
    }
}

/// Runs a scenario.
///
/// # Errors
/// What must not be, with what happened before; a panic of whatever was run counts too.
pub fn run(scenario: &Scenario) -> Result<Tally, Violation> {
    catch_unwind(AssertUnwindSafe(|| sim::Sim::run(scenario))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation::new(format!("a panic: {}", text.unwrap_or_default())))
    })
}

/// The smallest scenario that still fails, of those that are found by making this one smaller step by step; with
/// what fails in it. `None` where it does not fail.
#[must_use]
pub fn shrink(scenario: &Scenario) -> Option<(Scenario, Violation)> {
    let mut found = (scenario.clone(), run(scenario).err()?);
    loop {
        let smaller = found.0.smaller();
        let failing = smaller.into_iter().find_map(|scenario| Some((run(&scenario).err()?, scenario)));
        match failing {
            Some((violation, scenario)) => found = (scenario, violation),
            None => return Some(found),
        }
    }
}
