//! How fast something grows: at this moment, and at its fastest.

use std::collections::VecDeque;

use super::policy::Policy;

/// The time over which the rate of the moment is taken, in milliseconds. Within it a burst counts by its bytes: a
/// checkpoint of a few megabytes brakes nobody, and a writer that goes on is seen after the same part of the
/// headroom, however fast it is.
const WINDOW_MS: u64 = 1000;

/// The largest value that was seen, of which half is forgotten after each half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    value: u64,
    at_ms: u64,
}

impl Peak {
    pub(super) fn new(value: u64, at_ms: u64) -> Self {
        Self { value, at_ms }
    }

    /// What is left of it.
    pub(super) fn at(self, now_ms: u64, half_life_ms: u64) -> u64 {
        let elapsed = now_ms.saturating_sub(self.at_ms);
        let half_life = half_life_ms.max(1);
        let halvings = u32::try_from(elapsed / half_life).unwrap_or(u32::MAX);
        let value = self.value.checked_shr(halvings).unwrap_or(0);
        // Within a half-life it falls in a straight line.
        let fallen = u128::from(value / 2) * u128::from(elapsed % half_life) / u128::from(half_life);
        value.saturating_sub(u64::try_from(fallen).unwrap_or(u64::MAX))
    }

    /// Takes a larger value in.
    pub(super) fn raise(&mut self, value: u64, now_ms: u64, half_life_ms: u64) {
        if value >= self.at(now_ms, half_life_ms) {
            *self = Self::new(value, now_ms);
        }
    }
}

/// The growth of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GrowthRate {
    /// Looks of the last window, and the last one before it: time and count.
    looks: VecDeque<(u64, u64)>,
    peak: Peak,
}

impl GrowthRate {
    /// Takes a look in. A counter that went back has begun anew and says nothing of the time between.
    pub(super) fn look(&mut self, at_ms: u64, count: u64, half_life_ms: u64) {
        match self.looks.back() {
            Some(&(_, last)) if count < last => self.looks.clear(),
            Some(&(last, _)) if at_ms <= last => return,
            _ => {}
        }
        self.looks.push_back((at_ms, count));
        while self.looks.get(1).is_some_and(|&(at, _)| at_ms.saturating_sub(at) >= WINDOW_MS) {
            self.looks.pop_front();
        }
        self.peak.raise(self.current(), at_ms, half_life_ms);
    }

    /// Takes in a look at which the count was what it was at the last one.
    pub(super) fn look_again(&mut self, at_ms: u64, half_life_ms: u64) {
        if let Some(&(_, count)) = self.looks.back() {
            self.look(at_ms, count, half_life_ms);
        }
    }

    /// What was counted since the last look is not to count.
    pub(super) fn pass_over(&mut self, count: u64) {
        match self.looks.back() {
            Some(&(_, last)) if count >= last => {
                self.looks
                    .iter_mut()
                    .for_each(|(_, counted)| *counted = counted.saturating_add(count - last));
            }
            _ => self.looks.clear(),
        }
    }

    /// It was not seen this time: nothing is known of the moment.
    pub(super) fn miss(&mut self) {
        self.looks.clear();
    }

    /// So much time was none for it: what it did before is what it will go on to do.
    pub(super) fn shift(&mut self, ms: u64) {
        self.looks.iter_mut().for_each(|(at, _)| *at = at.saturating_add(ms));
    }

    /// The rate over the last window, in bytes a second.
    pub(super) fn current(&self) -> u64 {
        match (self.looks.front(), self.looks.back()) {
            (Some(&(from_ms, from)), Some(&(to_ms, to))) => {
                let over_ms = to_ms.saturating_sub(from_ms).max(WINDOW_MS);
                rate(to.saturating_sub(from), over_ms)
            }
            _ => 0,
        }
    }

    /// The rate between the last two looks, in bytes a second. It shows the first step of a writer of whom nothing
    /// was foreseen.
    pub(super) fn momentary(&self) -> u64 {
        let mut newest = self.looks.iter().rev();
        match (newest.next(), newest.next()) {
            (Some(&(to_ms, to)), Some(&(from_ms, from))) => {
                rate(to.saturating_sub(from), to_ms.saturating_sub(from_ms))
            }
            _ => 0,
        }
    }

    /// The fastest rate that is remembered, in bytes a second.
    pub(super) fn fastest(&self, now_ms: u64, half_life_ms: u64) -> u64 {
        self.peak.at(now_ms, half_life_ms).max(self.current())
    }
}

/// The rates of something, in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    /// The fastest that may be expected.
    pub(super) fastest: u64,
    /// Over the last second.
    pub(super) current: u64,
    /// Between the last two looks.
    pub(super) momentary: u64,
}

impl Rates {
    pub(super) fn of(pace: &GrowthRate, policy: &Policy, now_ms: u64) -> Self {
        let fastest = pace.fastest(now_ms, policy.half_life_ms);
        Self { fastest, current: pace.current(), momentary: pace.momentary() }
    }

    /// Each rate as another one that follows from it.
    pub(super) fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self { fastest: f(self.fastest), current: f(self.current), momentary: f(self.momentary) }
    }

    /// Two of them joined, rate by rate.
    pub(super) fn join(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            fastest: f(self.fastest, other.fastest),
            current: f(self.current, other.current),
            momentary: f(self.momentary, other.momentary),
        }
    }
}

/// Bytes over milliseconds, in bytes a second, rounded up.
fn rate(bytes: u64, over_ms: u64) -> u64 {
    let rate = (u128::from(bytes) * 1000).div_ceil(u128::from(over_ms.max(1)));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What comes together at a rate within a time, in bytes, rounded up.
pub(super) fn within(rate: u64, ms: u64) -> u64 {
    u64::try_from((u128::from(rate) * u128::from(ms)).div_ceil(1000)).unwrap_or(u64::MAX)
}

/// For how long bytes last at a rate, in milliseconds, rounded down; `None` where nothing is written.
pub(super) fn lasts(bytes: u64, rate: u64) -> Option<u64> {
    let ms = (u128::from(bytes) * 1000).checked_div(u128::from(rate))?;
    Some(u64::try_from(ms).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn half_is_forgotten_after_each_half_life() {
        let peak = Peak::new(1000, 5);
        for (hours, left) in [(0, 1000), (3, 750), (6, 500), (9, 375), (12, 250), (600, 0)] {
            assert_eq!(peak.at(5 + hours * HOUR, 6 * HOUR), left, "after {hours} hours");
        }
        assert_eq!(peak.at(0, 6 * HOUR), 1000, "a look into the past");
        assert_eq!(peak.at(5 + 64, 0), 0, "no half-life is a short one");
    }

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let mut pace = GrowthRate::default();
        let cases = [
            (0, 500, 0, "one look says nothing"),
            (20, 1500, 1000, "a burst counts by its bytes"),
            (40, 1500, 1000, "and goes on to count"),
            (1020, 1500, 0, "for a second"),
            (3020, 5500, 2000, "after a longer time, over that time"),
            (3020, 9999, 2000, "two looks at one moment are one"),
            (4020, 100, 0, "a counter that began anew"),
            (5020, 700, 600, "and went on"),
        ];
        for (at_ms, count, rate, why) in cases {
            pace.look(at_ms, count, HOUR);
            assert_eq!(pace.current(), rate, "{why}");
        }
        assert_eq!(pace.fastest(5020, HOUR), 2000 - 1000 * 2000 / HOUR);
    }

    #[test]
    fn what_is_passed_over_changes_no_rate() {
        let mut pace = GrowthRate::default();
        pace.pass_over(100);
        assert_eq!((pace.current(), pace.momentary()), (0, 0), "nothing was seen");
        [(0, 1000), (500, 3000)].into_iter().for_each(|(at_ms, count)| pace.look(at_ms, count, HOUR));
        assert_eq!((pace.current(), pace.momentary()), (2000, 4000));
        pace.pass_over(9000);
        assert_eq!((pace.current(), pace.momentary()), (2000, 4000), "as fast as it was");
        pace.look(750, 9500, HOUR);
        assert_eq!((pace.current(), pace.momentary()), (2500, 2000), "from there on");
        pace.pass_over(10);
        assert_eq!((pace.current(), pace.momentary()), (0, 0), "a counter that began anew");
    }

    proptest! {
        #[test]
        fn what_was_seen_is_forgotten_gradually(value: u64, at: u32, more: u32, half in 1..=u64::MAX) {
            let peak = Peak::new(value, 0);
            let (earlier, later) = (u64::from(at), u64::from(at) + u64::from(more));
            prop_assert!(peak.at(earlier, half) >= peak.at(later, half));
            prop_assert!(peak.at(later, half) <= value);
        }

        #[test]
        fn a_steady_writer_is_seen_as_what_it_is(
            rate in 1..=1_u64 << 40,
            ticks in proptest::collection::vec(20..=1500_u64, 60..80),
        ) {
            let (mut pace, mut now) = (GrowthRate::default(), 0);
            for tick in ticks {
                pace.look(now, within(rate, now), HOUR);
                now += tick;
            }
            let seen = pace.current();
            prop_assert!(seen.abs_diff(rate) <= 2 + rate / 1000, "{} is seen as {}", rate, seen);
        }
    }
}
