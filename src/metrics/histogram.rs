//! How durations are distributed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Durations counted by their size, without a lock.
#[derive(Debug)]
pub struct Histogram {
    /// The longest of each bucket but the last, in seconds, growing.
    bounds: &'static [f64],
    /// One more than there are bounds: the last one takes what is longer.
    buckets: Box<[AtomicU64]>,
    /// All durations together; enough for centuries.
    sum_ns: AtomicU64,
}

/// What a histogram says at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// How many durations each bucket has, by the longest that belongs to it, in seconds.
    pub buckets: Vec<(f64, u64)>,
    /// All durations together, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// One with these bounds, in seconds.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, buckets, sum_ns: AtomicU64::default() }
    }

    /// Counts a duration.
    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What was counted until now.
    #[must_use]
    pub fn read(&self) -> Distribution {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        Distribution { buckets: bounds.zip(counts).collect(), sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_belongs_to_the_first_bucket_that_it_is_not_longer_than() {
        let histogram = Histogram::new(&[0.001, 1.0]);
        for ms in [0, 1, 2, 1000, 1001, 60_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let expected = vec![(0.001, 2), (1.0, 2), (f64::INFINITY, 2)];
        assert_eq!(histogram.read(), Distribution { buckets: expected, sum: 62.004 });
    }
}
