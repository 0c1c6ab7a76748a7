//! Statistics: how a measured figure is spread.
//!
//! Nothing is decided by these numbers but what a person reads in them, so they are plain floats.

use std::time::Instant;

use serde::Serialize;

/// How many pairs stand for one moment of a run.
const WINDOW: usize = 11;

/// How the values of one figure are spread, in its own unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) p10: f64,
    pub(super) p90: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    /// The one that was measured last.
    pub(super) last: f64,
}

impl Spread {
    /// The spread of these values; of none, all zero.
    pub(super) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            median: quantile(&sorted, 50),
            p10: quantile(&sorted, 10),
            p90: quantile(&sorted, 90),
            p95: quantile(&sorted, 95),
            p99: quantile(&sorted, 99),
            max: sorted.last().copied().unwrap_or_default(),
            last: values.last().copied().unwrap_or_default(),
        }
    }
}

/// The smallest value that this many of a hundred do not exceed.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or_default()
}

/// A figure measured in pairs: without asat, and with it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Paired {
    /// All of it with asat, over all of it without.
    pub(super) ratio_of_sums: f64,
    /// The ratio within each pair.
    pub(super) ratio: Spread,
    /// Milliseconds without asat.
    pub(super) without_ms: Spread,
    /// Milliseconds with it.
    pub(super) with_ms: Spread,
}

impl Paired {
    /// From pairs of milliseconds, those without asat first.
    pub(super) fn of(pairs: &[(f64, f64)]) -> Self {
        let (without, with): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        Self {
            ratio_of_sums: over(sum(&with), sum(&without)),
            ratio: Spread::of(&ratios(pairs)),
            without_ms: Spread::of(&without),
            with_ms: Spread::of(&with),
        }
    }

    /// The median ratio of the [`WINDOW`] pairs that are nearest to the `nth`, which counts from one: a single pair says
    /// little.
    pub(super) fn around(pairs: &[(f64, f64)], nth: usize) -> f64 {
        let last_start = pairs.len().saturating_sub(WINDOW);
        let start = nth.saturating_sub(WINDOW / 2 + 1).min(last_start);
        let end = (start + WINDOW).min(pairs.len());
        Spread::of(&ratios(pairs.get(start..end).unwrap_or_default())).median
    }
}

/// The second to the first of each pair.
pub(super) fn ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|&(without, with)| over(with, without)).collect()
}

/// A share; zero of nothing.
pub(super) fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A count as a float. Beyond 2^53 it is rounded, which no figure here can show.
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// Milliseconds since an instant.
pub(super) fn ms_since(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let spread = Spread::of(&values);
        assert_eq!((spread.p10, spread.median, spread.p90, spread.p95), (10.0, 50.0, 90.0, 95.0));
        assert_eq!((spread.p99, spread.max, spread.last), (99.0, 100.0, 1.0));
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[7.0]).p99, 7.0);
    }

    #[test]
    fn pairs() {
        let pairs = [(1.0, 1.0), (1.0, 2.0), (2.0, 6.0)];
        let paired = Paired::of(&pairs);
        assert_eq!((paired.ratio_of_sums, paired.ratio.median), (2.25, 2.0));
        assert_eq!((paired.without_ms.max, paired.with_ms.max), (2.0, 6.0));
        assert_eq!(
            (Paired::around(&pairs, 1), Paired::around(&pairs, 9), Paired::around(&[], 1)),
            (2.0, 2.0, 0.0)
        );
        let rising: Vec<(f64, f64)> = (1..=95).map(|nth| (1.0, f64::from(nth))).collect();
        let around = [1, 6, 50, 90, 95].map(|nth| Paired::around(&rising, nth));
        assert_eq!(around, [6.0, 6.0, 50.0, 90.0, 90.0], "at the ends they are the first and the last");
    }
}
