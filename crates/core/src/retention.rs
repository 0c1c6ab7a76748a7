//! Retention: which versions a store's rules let go, and by which rule each is kept.
//!
//! A version is kept while any rule keeps it. Above all rules stand the newest version, pins, leases and
//! whatever is in use; without any rule, everything is kept. Days, weeks, months and years are counted in UTC,
//! on the version's last publication, so that a version that was certified again counts as fresh.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// A store's rules. Each is an allowance; the default has none and keeps everything.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Keep this many of the newest versions.
    pub keep_last: Option<u32>,
    /// Keep everything published within this time.
    pub keep_for: Option<Span>,
    /// Keep the last version of each of this many most recent days that have one.
    pub daily: Option<u32>,
    /// The same for ISO weeks.
    pub weekly: Option<u32>,
    /// The same for months.
    pub monthly: Option<u32>,
    /// The same for years.
    pub yearly: Option<u32>,
}

/// A version as retention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The version's number.
    pub number: u64,
    /// When it was last published.
    pub published_at: Timestamp,
    /// Whether a pin, a lease or something under way stands above the rules.
    pub held: bool,
}

/// Which period an instant falls into: its year, and its number within the year.
type PeriodOf = fn(&Zoned) -> (i16, i16);

impl Retention {
    /// Whether there is no rule at all.
    #[must_use]
    pub fn keeps_everything(&self) -> bool {
        self.keep_last.is_none()
            && self.keep_for.is_none()
            && self.periods().iter().all(|(_, n, _)| n.is_none())
    }

    /// The numbers that no rule keeps, oldest first. `candidates` are in the order of their numbers.
    #[must_use]
    pub fn expired(&self, candidates: &[Candidate], now: Timestamp) -> Vec<u64> {
        if self.keeps_everything() {
            return Vec::new();
        }
        let kept = self.kept(candidates, now);
        candidates.iter().map(|c| c.number).filter(|number| !kept.contains_key(number)).collect()
    }

    /// The numbers that are kept, each with the first rule that keeps it.
    #[must_use]
    pub fn kept(&self, candidates: &[Candidate], now: Timestamp) -> BTreeMap<u64, &'static str> {
        let mut kept = BTreeMap::new();
        if let Some(newest) = candidates.last() {
            kept.insert(newest.number, "newest");
        }
        let mut keep = |candidate: &Candidate, rule| {
            kept.entry(candidate.number).or_insert(rule);
        };
        candidates.iter().filter(|c| c.held).for_each(|c| keep(c, "held"));
        let last = self.keep_last.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        candidates.iter().rev().take(last).for_each(|c| keep(c, "keep_last"));
        if let Some(horizon) = self.horizon(now) {
            candidates.iter().filter(|c| c.published_at >= horizon).for_each(|c| keep(c, "keep_for"));
        }
        for (rule, count, period) in self.periods() {
            let newest_of_each: BTreeMap<_, _> =
                candidates.iter().map(|c| (period(&c.published_at.to_zoned(TimeZone::UTC)), c)).collect();
            let count = count.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            newest_of_each.values().rev().take(count).for_each(|c| keep(c, rule));
        }
        kept
    }

    /// The instant from which `keep_for` keeps everything. A span that reaches before all time keeps all.
    fn horizon(&self, now: Timestamp) -> Option<Timestamp> {
        let span = self.keep_for?;
        let past = now.to_zoned(TimeZone::UTC).checked_sub(span);
        Some(past.map_or(Timestamp::MIN, |zoned| zoned.timestamp()))
    }

    /// The grandfather-father-son rules: name, how many, and which period an instant falls into.
    fn periods(&self) -> [(&'static str, Option<u32>, PeriodOf); 4] {
        [
            ("daily", self.daily, |t| (t.year(), t.day_of_year())),
            ("weekly", self.weekly, |t| {
                let week = t.date().iso_week_date();
                (week.year(), i16::from(week.week()))
            }),
            ("monthly", self.monthly, |t| (t.year(), i16::from(t.month()))),
            ("yearly", self.yearly, |t| (t.year(), 0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::ToSpan;
    use proptest::prelude::*;

    use super::*;

    fn history(times: &[&str]) -> Vec<Candidate> {
        let candidate = |(i, t): (usize, &&str)| Candidate {
            number: i as u64 + 1,
            published_at: t.parse().unwrap(),
            held: false,
        };
        times.iter().enumerate().map(candidate).collect()
    }

    fn expired(rules: &Retention, times: &[&str]) -> Vec<u64> {
        rules.expired(&history(times), "2026-03-01T12:00:00Z".parse().unwrap())
    }

    const TIMES: [&str; 8] = [
        "2024-12-31T23:59:59Z", // 1: a year, a month, an ISO week that belongs to 2025
        "2025-12-30T08:00:00Z", // 2
        "2026-01-31T08:00:00Z", // 3
        "2026-01-31T18:00:00Z", // 4
        "2026-02-27T08:00:00Z", // 5
        "2026-02-28T08:00:00Z", // 6
        "2026-03-01T08:00:00Z", // 7
        "2026-03-01T11:00:00Z", // 8
    ];

    #[test]
    fn each_rule_alone() {
        let none = Retention::default;
        assert_eq!(expired(&none(), &TIMES), [0; 0]);
        assert_eq!(expired(&Retention { keep_last: Some(3), ..none() }, &TIMES), [1, 2, 3, 4, 5]);
        assert_eq!(expired(&Retention { keep_last: Some(0), ..none() }, &TIMES), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(expired(&Retention { keep_for: Some(2.days()), ..none() }, &TIMES), [1, 2, 3, 4, 5]);
        assert_eq!(expired(&Retention { keep_for: Some(1.month()), ..none() }, &TIMES), [1, 2, 3, 4]);
        assert_eq!(expired(&Retention { keep_for: Some(9_000.years()), ..none() }, &TIMES), [0; 0]);
        assert_eq!(expired(&Retention { daily: Some(3), ..none() }, &TIMES), [1, 2, 3, 4, 7]);
        assert_eq!(expired(&Retention { monthly: Some(3), ..none() }, &TIMES), [1, 2, 3, 5, 7]);
        assert_eq!(expired(&Retention { yearly: Some(2), ..none() }, &TIMES), [1, 3, 4, 5, 6, 7]);
        // The last day of 2024 lies in the first ISO week of 2025.
        assert_eq!(expired(&Retention { weekly: Some(9), ..none() }, &TIMES), [3, 5, 6, 7]);
    }

    #[test]
    fn a_held_version_is_above_the_rules() {
        let mut candidates = history(&TIMES);
        candidates[1].held = true;
        let rules = Retention { keep_last: Some(1), ..Retention::default() };
        let expired = rules.expired(&candidates, "2026-03-01T12:00:00Z".parse().unwrap());
        assert_eq!(expired, [1, 3, 4, 5, 6, 7]);
    }

    proptest! {
        /// The rules as a person would work them out: for every version, ask each rule in turn.
        #[test]
        fn the_plan_is_what_asking_each_rule_gives(
            mut hours in proptest::collection::vec(0i64..40_000, 1..60),
            held in proptest::collection::vec(any::<bool>(), 60),
            keep_last in proptest::option::of(0u32..6),
            keep_days in proptest::option::of(0i64..90),
            daily in proptest::option::of(0u32..9),
            monthly in proptest::option::of(0u32..9),
        ) {
            hours.sort_unstable();
            let start: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
            let now = start + 40_000.hours();
            let candidates: Vec<Candidate> = hours.iter().enumerate().map(|(i, h)| Candidate {
                number: i as u64 + 1, published_at: start + h.hours(), held: held[i],
            }).collect();
            let rules = Retention {
                keep_last, keep_for: keep_days.map(|d| d.days()), daily, monthly, ..Retention::default()
            };
            let none = keep_last.is_none() && keep_days.is_none() && daily.is_none() && monthly.is_none();
            let last_of = |c: &Candidate, count: Option<u32>, period: &dyn Fn(Timestamp) -> String| {
                let newer: Vec<_> = candidates.iter().filter(|o| o.number > c.number).collect();
                let same = newer.iter().any(|o| period(o.published_at) == period(c.published_at));
                let later: BTreeSet<_> = newer.iter().map(|o| period(o.published_at)).collect();
                !same && later.len() < count.unwrap_or(0) as usize
            };
            let keeps = |c: &Candidate| {
                none || c.held || c.number == candidates.len() as u64
                    || candidates.len() as u64 - c.number < u64::from(keep_last.unwrap_or(0))
                    || keep_days.is_some_and(|d| c.published_at >= now - (d * 24).hours())
                    || last_of(c, daily, &|t| t.to_string()[..10].to_owned())
                    || last_of(c, monthly, &|t| t.to_string()[..7].to_owned())
            };
            let expected: Vec<u64> = candidates.iter().filter(|c| !keeps(c)).map(|c| c.number).collect();
            prop_assert_eq!(rules.expired(&candidates, now), expected);
        }
    }
}
