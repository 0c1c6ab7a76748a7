//! Progress of long effects, told often enough to watch and seldom enough to cost nothing.

use std::time::{Duration, Instant};

use crate::wire::Progress;

/// How often progress is told.
const EVERY: Duration = Duration::from_millis(100);

/// What is this small needs no word at its end.
const SMALL: u64 = 1024;

/// Counts what is done and tells how far it is.
pub(super) struct Meter<F: Fn(Progress)> {
    progress: Progress,
    told_at: Instant,
    tell: F,
}

impl<F: Fn(Progress)> Meter<F> {
    /// For work of one phase on a version or a store, counted in `unit`.
    pub(super) fn new(subject: String, phase: &str, unit: &str, tell: F) -> Self {
        let (phase, unit) = (phase.to_owned(), unit.to_owned());
        Self { progress: Progress { subject, phase, unit, done: 0, total: 0 }, told_at: Instant::now(), tell }
    }

    /// How much there will be.
    pub(super) fn expect(&mut self, total: u64) {
        self.progress.total = total;
    }

    /// How much is done. What comes late from another thread is passed over.
    pub(super) fn reach(&mut self, done: u64) {
        if done <= self.progress.done {
            return;
        }
        self.progress.done = done;
        let last = done == self.progress.total && done > SMALL;
        if last || self.told_at.elapsed() >= EVERY {
            self.told_at = Instant::now();
            (self.tell)(self.progress.clone());
        }
    }
}
