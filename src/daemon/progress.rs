//! Progress of long effects, told often enough to watch and seldom enough to cost nothing.

use std::time::{Duration, Instant};

use asat_wire::Progress;

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

    /// Goes on with another phase, of which so much is to be done, and says so.
    fn turn_to(&mut self, phase: &str, total: u64) {
        phase.clone_into(&mut self.progress.phase);
        (self.progress.done, self.progress.total) = (0, total);
        self.told_at = Instant::now();
        (self.tell)(self.progress.clone());
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

/// How far a version is on its way into the archive: its pages are read, those that changed are stored, which is mostly what takes
/// longest, and then the file is made durable, of which nothing can be counted.
pub(super) struct Storing<F: Fn(Progress)> {
    meter: Meter<F>,
    stored: u64,
    /// How many pages are to be stored, once all are read.
    changed: Option<u64>,
}

impl<F: Fn(Progress)> Storing<F> {
    pub(super) fn new(meter: Meter<F>) -> Self {
        Self { meter, stored: 0, changed: None }
    }

    /// How many pages there are to read.
    pub(super) fn expect(&mut self, pages: u64) {
        self.meter.expect(pages);
    }

    /// How many pages are read.
    pub(super) fn read(&mut self, pages: u64) {
        self.meter.reach(pages);
    }

    /// How many pages are stored, which may be said while others are read.
    pub(super) fn stored(&mut self, pages: u64) {
        self.stored = pages;
        self.store();
    }

    /// All pages are read, and so many of them differ from the version before.
    pub(super) fn is_read(&mut self, changed: u64) {
        if changed > 0 && self.meter.progress.total > SMALL {
            self.changed = Some(changed);
            self.meter.turn_to("store", changed);
            self.store();
        }
    }

    fn store(&mut self) {
        let Some(changed) = self.changed else { return };
        self.meter.reach(self.stored.min(changed));
        if self.stored >= changed {
            self.changed = None;
            self.meter.turn_to("sync", 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What is told of a version of 5000 pages of which 3000 changed, and 2000 are stored by the end of reading.
    #[test]
    fn each_phase_is_told_with_what_of_it_is_done() {
        let told = RefCell::new(Vec::new());
        let tell = |progress: Progress| {
            let Progress { phase, done, total, .. } = progress;
            told.borrow_mut().push(format!("{phase} {done}/{total}"));
        };
        let mut storing = Storing::new(Meter::new("report@1".to_owned(), "cut", "pages", tell));
        storing.expect(5000);
        storing.read(5000);
        storing.stored(2000);
        storing.is_read(3000);
        storing.stored(3000);
        let expected = ["cut 5000/5000", "store 0/3000", "store 3000/3000", "sync 0/0"];
        assert_eq!(*told.borrow(), expected);
    }

    #[test]
    fn what_is_stored_before_all_is_read_is_on_its_way_to_the_disk_at_once() {
        let phases = RefCell::new(Vec::new());
        let tell = |progress: Progress| phases.borrow_mut().push(progress.phase);
        let mut storing = Storing::new(Meter::new("report@1".to_owned(), "cut", "pages", tell));
        storing.expect(5000);
        storing.stored(7);
        storing.is_read(7);
        assert_eq!(*phases.borrow(), ["store", "sync"]);
    }
}
