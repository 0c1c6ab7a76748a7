//! Freshness: by when a store is expected to be published, and since when it is late.
//!
//! A publication counts for a day, or for the week from Monday on, in which that day is. A day begins twelve hours before the time by
//! which the store is expected, and ends twelve hours after it: what is published at 23:50 is there by 06:30 of the next day, and
//! what is published at 19:00 is late for 18:00 of the same. The next publication is due on the next day, or in the next week, that an
//! expectation names. Business days are Monday to Friday.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};
use thiserror::Error;

/// More characters of an expectation than a message repeats.
const MOST_REPEATED: usize = 60;

/// How often a store is to be published, and by when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Within an hour of the publication before.
    Hour,
    /// On each day, until this time.
    Day(Time),
    /// On each day from Monday to Friday, until this time.
    BusinessDay(Time),
    /// In each week, until this time of this day.
    Week(Weekday, Time),
}

/// A text that is no expectation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpectationError {
    /// Its words are others.
    #[error("{0:?} is no time by which a store can be expected")]
    Words(String),
    /// A time of the day cannot be read.
    #[error("{0:?} is no time of the day from 00:00 to 23:59")]
    Time(String),
    /// A day of the week cannot be read.
    #[error("{0:?} is no day of the week")]
    Weekday(String),
}

impl Expectation {
    /// When a store that was published at `published_at` has to be published again; `None` if that is beyond all instants.
    #[must_use]
    pub fn due_after(self, published_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let day = |time: Time| {
            let since_noon = time.duration_since(Time::midnight()) - SignedDuration::from_hours(12);
            zone.to_datetime(published_at).checked_sub(since_noon).ok().map(DateTime::date)
        };
        let (day, time) = match self {
            Self::Hour => return published_at.checked_add(SignedDuration::from_hours(1)).ok(),
            Self::Day(time) => (day(time)?.tomorrow().ok()?, time),
            Self::BusinessDay(time) => (next_business_day(day(time)?)?, time),
            Self::Week(weekday, time) => (in_next_week(day(time)?, weekday)?, time),
        };
        // A time that a day does not have, as its clocks go forward, is later by as much.
        day.to_datetime(time).to_zoned(zone.clone()).ok().map(|due| due.timestamp())
    }

    /// Since when a store is late at `now`; `None` if it is not. One that was never published is late since it was added.
    #[must_use]
    pub fn late_since(
        self,
        published_at: Option<Timestamp>,
        added_at: Timestamp,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        match published_at {
            None => Some(added_at),
            Some(published_at) => self.due_after(published_at, zone).filter(|due| *due < now),
        }
    }
}

fn next_business_day(day: Date) -> Option<Date> {
    let days = match day.weekday() {
        Weekday::Friday => 3,
        Weekday::Saturday => 2,
        _ => 1,
    };
    day.checked_add(Span::new().days(days)).ok()
}

fn in_next_week(day: Date, weekday: Weekday) -> Option<Date> {
    let until_monday = 7 - day.weekday().to_monday_zero_offset();
    day.checked_add(Span::new().days(until_monday + weekday.to_monday_zero_offset())).ok()
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Self, ExpectationError> {
        let small = text.to_ascii_lowercase();
        // Six words are one more than any has.
        let words: Vec<&str> = small.split_ascii_whitespace().take(6).collect();
        match words.as_slice() {
            ["every", "hour"] => Ok(Self::Hour),
            ["every", "day", "by", time] => Ok(Self::Day(read_time(time)?)),
            ["every", "business", "day", "by", time] => Ok(Self::BusinessDay(read_time(time)?)),
            ["every", "week", "by", day, time] => Ok(Self::Week(read_weekday(day)?, read_time(time)?)),
            _ => Err(ExpectationError::Words(repeated(text))),
        }
    }
}

/// A time as `18:00`, and in no other form.
fn read_time(text: &str) -> Result<Time, ExpectationError> {
    let unreadable = || ExpectationError::Time(repeated(text));
    let number = |digits: &[u8]| -> Option<i8> {
        let is_number = digits.len() == 2 && digits.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
    };
    let (hour, minute) = text.split_once(':').ok_or_else(unreadable)?;
    let (hour, minute) = number(hour.as_bytes()).zip(number(minute.as_bytes())).ok_or_else(unreadable)?;
    Time::new(hour, minute, 0, 0).map_err(|_| unreadable())
}

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("Monday", Weekday::Monday),
    ("Tuesday", Weekday::Tuesday),
    ("Wednesday", Weekday::Wednesday),
    ("Thursday", Weekday::Thursday),
    ("Friday", Weekday::Friday),
    ("Saturday", Weekday::Saturday),
    ("Sunday", Weekday::Sunday),
];

fn read_weekday(text: &str) -> Result<Weekday, ExpectationError> {
    let found = WEEKDAYS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, day)| day).ok_or_else(|| ExpectationError::Weekday(repeated(text)))
}

fn repeated(text: &str) -> String {
    text.chars().take(MOST_REPEATED).collect()
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: &Time| format!("{:02}:{:02}", time.hour(), time.minute());
        match self {
            Self::Hour => f.write_str("every hour"),
            Self::Day(at) => write!(f, "every day by {}", time(at)),
            Self::BusinessDay(at) => write!(f, "every business day by {}", time(at)),
            Self::Week(weekday, at) => {
                let name = WEEKDAYS.iter().find(|(_, day)| day == weekday).map_or("", |(name, _)| name);
                write!(f, "every week by {name} {}", time(at))
            }
        }
    }
}

#[cfg(test)]
mod tests;
