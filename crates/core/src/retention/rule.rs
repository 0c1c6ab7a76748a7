//! Rules: what is kept by its age, stage after stage.

use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use thiserror::Error;

use super::words::read;

/// What is kept by its age, stage after stage. There is one stage at least, and none contradicts another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    stages: Vec<Stage>,
}

/// A stage of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Which versions it keeps.
    pub which: Which,
    /// Up to where it goes.
    pub extent: Extent,
    /// The stage as it is written.
    pub text: String,
}

/// Which versions a stage keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// Every one.
    All,
    /// The last one of each period.
    Last(Period),
}

/// A period of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week, from Monday on.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// Up to where a stage goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Up to the so many newest versions.
    Newest(u32),
    /// Up to versions of this age.
    For(u32, Period),
    /// Without end.
    Forever,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// A word is not understood.
    #[error("{0}")]
    Words(String),
    /// Two stages contradict each other.
    #[error("{first:?} and {second:?} contradict each other: {what}")]
    Contradiction {
        /// The one that stands first, as it is written.
        first: String,
        /// The other.
        second: String,
        /// How they do.
        what: &'static str,
    },
}

impl Rule {
    /// Its stages, from the newest versions to the oldest.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Whether it never lets a version go.
    #[must_use]
    pub fn keeps_everything(&self) -> bool {
        let is_all = |stage: &Stage| stage.which == Which::All;
        self.stages.iter().all(is_all)
            && self.stages.last().is_some_and(|stage| stage.extent == Extent::Forever)
    }

    /// The rule as it is written.
    #[must_use]
    pub fn text(&self) -> String {
        self.stages.iter().map(|stage| stage.text.as_str()).collect::<Vec<_>>().join(", then ")
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let stages = read(text)?;
        for pair in stages.windows(2) {
            if let [first, second] = pair
                && let Some(what) = contradiction(first, second)
            {
                let (first, second) = (first.text.clone(), second.text.clone());
                return Err(RuleError::Contradiction { first, second, what });
            }
        }
        Ok(Self { stages })
    }
}

/// Why a stage cannot follow another, where it cannot.
fn contradiction(first: &Stage, second: &Stage) -> Option<&'static str> {
    let is_longer = match (first.extent, second.extent) {
        (Extent::Forever, _) => return Some("nothing is left after a stage that lasts forever"),
        (_, Extent::Newest(_)) => return Some("a number of versions can only come first"),
        (Extent::For(..), Extent::For(..)) => second.extent.about_s() > first.extent.about_s(),
        (Extent::Newest(_), _) | (_, Extent::Forever) => true,
    };
    if !is_longer {
        return Some("spans count from now, and the second ends no later than the first");
    }
    // All of the newest, and then all of some days, is no contradiction: it is whichever reaches further.
    let is_coarser = second.which > first.which || matches!(first.extent, Extent::Newest(_));
    (!is_coarser).then_some("the second would keep no fewer versions than the first, though they are older")
}

impl Extent {
    /// How long it is, in seconds, taking months and years as they are on average.
    fn about_s(self) -> u64 {
        let Self::For(number, unit) = self else { return u64::MAX };
        let unit_s = match unit {
            Period::Hour => 3_600,
            Period::Day => 86_400,
            Period::Week => 604_800,
            Period::Month => 2_629_746,
            Period::Year => 31_556_952,
        };
        u64::from(number) * unit_s
    }

    /// The instant from which on it keeps, seen from now. One that reaches before all time keeps all.
    #[must_use]
    pub fn horizon(self, now: Timestamp) -> Timestamp {
        let Self::For(number, unit) = self else { return Timestamp::MIN };
        let number = i64::from(number);
        let span = match unit {
            Period::Hour => Span::new().try_hours(number),
            Period::Day => Span::new().try_days(number),
            Period::Week => Span::new().try_weeks(number),
            Period::Month => Span::new().try_months(number),
            Period::Year => Span::new().try_years(number),
        };
        let past = span.and_then(|span| now.to_zoned(TimeZone::UTC).checked_sub(span));
        past.map_or(Timestamp::MIN, |past: Zoned| past.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::MOST;
    use super::*;

    #[test]
    fn stages_that_contradict_each_other_are_refused() {
        for (text, what) in [
            ("all for 3 months, then daily for 14 days", "no later than the first"),
            ("all for 1 year, then daily for 12 months", "no later than the first"),
            ("monthly for 1 year, then daily for 3 years", "no fewer versions"),
            ("daily for 1 year, then day ends for 3 years", "no fewer versions"),
            ("daily for 1 year, then all forever", "no fewer versions"),
            ("all forever, then monthly for 3 years", "forever"),
            ("all for 3 days, then the last 7", "only come first"),
            ("the last 7, then the last 9", "only come first"),
        ] {
            let error = text.parse::<Rule>().unwrap_err();
            let (one, other) = text.split_once(", then ").unwrap();
            let RuleError::Contradiction { first, second, what: said } = error else { panic!("{error}") };
            assert!(first == one && second == other && said.contains(what), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_horizon_is_where_the_calendar_puts_it() {
        let now: Timestamp = "2026-03-31T12:00:00Z".parse().unwrap();
        for (extent, expected) in [
            (Extent::For(2, Period::Hour), "2026-03-31T10:00:00Z"),
            (Extent::For(3, Period::Day), "2026-03-28T12:00:00Z"),
            (Extent::For(1, Period::Month), "2026-02-28T12:00:00Z"),
            (Extent::For(2, Period::Year), "2024-03-31T12:00:00Z"),
        ] {
            assert_eq!(extent.horizon(now), expected.parse().unwrap());
        }
        for unit in [Period::Hour, Period::Day, Period::Week, Period::Month, Period::Year] {
            assert!(Extent::For(MOST, unit).horizon(now) < now);
        }
        assert_eq!(Extent::Forever.horizon(now), Timestamp::MIN);
    }
}
