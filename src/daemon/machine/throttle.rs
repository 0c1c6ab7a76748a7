//! Keeps background work from taking more than its share of the disk, and of the processors while versions are cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::lock;

/// How soon a stop is seen.
const PAUSE: Duration = Duration::from_millis(50);

/// For so much of the time in which nothing was written, as while something is read, more may be written afterwards.
const CREDIT: Duration = Duration::from_millis(250);

/// For so long at a time background work waits for versions that are being cut. It goes on slowly if that lasts: it may give back the
/// space that they need.
const GIVES_WAY: Duration = Duration::from_millis(20);

/// What background work gives way to: versions that are being cut. It does not if somebody waits for it.
#[derive(Default)]
pub(super) struct Precedence {
    now: Mutex<Now>,
    changed: Condvar,
}

/// How many versions are being cut, and how many wait for background work to end.
#[derive(Default)]
struct Now {
    cuts: usize,
    waiting: usize,
}

/// Counts until it is dropped.
pub(super) struct Counted<'a>(&'a Precedence, fn(&mut Now) -> &mut usize);

impl Precedence {
    /// A version is being cut.
    pub(super) fn cut(&self) -> Counted<'_> {
        self.count(|now| &mut now.cuts)
    }

    /// Somebody waits until background work has ended: it is as fast as it can be.
    pub(super) fn hurry(&self) -> Counted<'_> {
        self.count(|now| &mut now.waiting)
    }

    fn count(&self, which: fn(&mut Now) -> &mut usize) -> Counted<'_> {
        *which(&mut lock(&self.now)) += 1;
        self.changed.notify_all();
        Counted(self, which)
    }

    /// Waits until no version is being cut, or for the given time. Answers whether somebody waits for background work.
    fn give_way(&self, at_most: Duration) -> bool {
        let goes_first = |now: &mut Now| now.cuts > 0 && now.waiting == 0;
        let waited = self.changed.wait_timeout_while(lock(&self.now), at_most, goes_first);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting > 0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let Self(precedence, which) = self;
        *which(&mut lock(&precedence.now)) -= 1;
        precedence.changed.notify_all();
    }
}

/// Spreads what is written over time.
pub(super) struct Throttle {
    /// Bytes a second.
    rate: u64,
    began: Instant,
    written: u64,
}

impl Throttle {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), began: Instant::now(), written: 0 }
    }

    /// Takes note of bytes written, and waits until they are due; versions that are being cut come first. `false`: the daemon stops.
    pub(super) fn wait(&mut self, written: u64, precedence: &Precedence, stopping: &AtomicBool) -> bool {
        self.written += written;
        if precedence.give_way(GIVES_WAY) {
            return !stopping.load(Ordering::Relaxed);
        }
        loop {
            if stopping.load(Ordering::Relaxed) {
                return false;
            }
            let (due, passed) = (due(self.written, self.rate), self.began.elapsed());
            let early = due.saturating_sub(passed);
            if early.is_zero() {
                self.began += unused(due, passed);
                return true;
            }
            thread::sleep(early.min(PAUSE));
        }
    }
}

/// How long so many bytes take at a rate of so many a second.
fn due(bytes: u64, rate: u64) -> Duration {
    let micros = u128::from(bytes) * 1_000_000 / u128::from(rate);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// How much of the time that passed gives no credit any more.
fn unused(due: Duration, passed: Duration) -> Duration {
    passed.saturating_sub(due).saturating_sub(CREDIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_when_the_rate_says() {
        for (bytes, rate, millis) in [(0, 1, 0), (50 << 20, 50 << 20, 1000), (1 << 20, 4 << 20, 250)] {
            assert_eq!(due(bytes, rate), Duration::from_millis(millis));
        }
        assert!(due(u64::MAX, 1) > Duration::from_secs(1 << 40));
    }

    #[test]
    fn a_long_time_without_writing_is_not_made_up_for() {
        let ms = Duration::from_millis;
        for (due, passed, expected) in [(1000, 900, 0), (1000, 1000, 0), (1000, 1250, 0), (1000, 9000, 7750)]
        {
            assert_eq!(unused(ms(due), ms(passed)), ms(expected), "{due} {passed}");
        }
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let none = Precedence::default();
        assert!(!Throttle::new(1).wait(u64::MAX, &none, &AtomicBool::new(true)));
        assert!(Throttle::new(u64::MAX).wait(1000, &none, &AtomicBool::new(false)));
    }

    #[test]
    fn versions_that_are_being_cut_come_first_but_not_for_ever() {
        let (precedence, go_on) = (Precedence::default(), AtomicBool::new(false));
        let one = precedence.cut();
        let began = Instant::now();
        assert!(Throttle::new(u64::MAX).wait(1, &precedence, &go_on));
        assert!(began.elapsed() >= GIVES_WAY, "it did not wait");
        let another = precedence.cut();
        drop(one);
        assert_eq!(lock(&precedence.now).cuts, 1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| precedence.give_way(Duration::from_secs(600)));
            drop(another);
            assert!(!waits.join().unwrap());
        });
        // If somebody waits for it, neither they nor the rate hold it up.
        let (_cut, _hurried) = (precedence.cut(), precedence.hurry());
        assert!(precedence.give_way(Duration::from_secs(600)));
        assert!(Throttle::new(1).wait(u64::MAX, &precedence, &go_on));
    }
}
