//! Instants as people write them, wherever they do: on the command line, in requests, and in paths of the tree.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;

/// Reads an instant with its offset (RFC 3339). One in the last hours of the year 9999 stands for the last instant of all: they
/// are written where an end is far away, and nothing comes later.
///
/// # Errors
/// What is wrong with the text.
pub fn exact(text: &str) -> Result<Timestamp, String> {
    // It would be read and ignored, and another instant than the one meant be taken.
    if text.contains('[') {
        return Err("it names a time zone, of which only the offset is understood".to_owned());
    }
    text.parse().or_else(|error: jiff::Error| beyond_all(text).ok_or_else(|| error.to_string()))
}

/// Reads an instant; a date alone means the beginning of that day. UTC unless an offset is written.
#[must_use]
pub fn day_begins(text: &str) -> Option<Timestamp> {
    loose(text, |date| date.at(0, 0, 0, 0))
}

/// Reads an instant; a date alone means the end of that day. UTC unless an offset is written.
#[must_use]
pub fn day_ends(text: &str) -> Option<Timestamp> {
    // Cuts are recorded in microseconds.
    loose(text, |date| date.at(23, 59, 59, 999_999_000))
}

fn loose(text: &str, in_day: impl FnOnce(Date) -> DateTime) -> Option<Timestamp> {
    if let Ok(instant) = exact(text) {
        return Some(instant);
    }
    // A date would be read from the beginning of a longer text, and the rest be ignored; and so would a time zone by its name.
    let is_date = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let moment = match is_date {
        true => in_day(text.parse().ok()?),
        false if text.contains(':') && !text.contains('[') => text.parse().ok()?,
        false => return None,
    };
    // The end of the last day of all is beyond the last instant.
    match moment.to_zoned(TimeZone::UTC) {
        Ok(zoned) => Some(zoned.timestamp()),
        Err(_) if moment.date() >= last_day() => Some(Timestamp::MAX),
        Err(_) => None,
    }
}

fn beyond_all(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let is_instant = pieces.time().is_some() && pieces.offset().is_some();
    (is_instant && pieces.date() >= last_day()).then_some(Timestamp::MAX)
}

fn last_day() -> Date {
    Timestamp::MAX.to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_that_are_taken() {
        for (typed, begins, ends) in [
            ("2026-11-19", "2026-11-19T00:00:00Z", "2026-11-19T23:59:59.999999Z"),
            ("2026-11-19 17:00", "2026-11-19T17:00:00Z", "2026-11-19T17:00:00Z"),
            ("2026-11-19T17:00", "2026-11-19T17:00:00Z", "2026-11-19T17:00:00Z"),
            ("2026-11-19 17:00:03.25", "2026-11-19T17:00:03.25Z", "2026-11-19T17:00:03.25Z"),
            ("2026-11-19T17:00:00Z", "2026-11-19T17:00:00Z", "2026-11-19T17:00:00Z"),
            ("2026-11-19 17:00+01:00", "2026-11-19T16:00:00Z", "2026-11-19T16:00:00Z"),
        ] {
            assert_eq!(day_begins(typed).map(|at| at.to_string()).as_deref(), Some(begins), "{typed}");
            assert_eq!(day_ends(typed).map(|at| at.to_string()).as_deref(), Some(ends), "{typed}");
            let is_exact = typed.ends_with('Z') || typed.contains('+');
            assert_eq!(exact(typed).is_ok(), is_exact, "{typed}");
        }
    }

    #[test]
    fn the_last_hours_of_all_are_the_last_instant() {
        for typed in
            ["9999-12-31", "9999-12-31T23:59:59Z", "9999-12-31 23:59", "9999-12-31T23:59:59.999-02:00"]
        {
            assert_eq!(day_ends(typed), Some(Timestamp::MAX), "{typed}");
        }
    }

    #[test]
    fn instants_that_are_refused() {
        for typed in [
            "",
            "yesterday",
            "2026",
            "2026-11",
            "2026-02-30",
            "19.11.2026",
            "17:00",
            "2026-11-19T17:00[Europe/Berlin]",
            "2026-11-19T17:00Z[America/New_York]",
            "2026-11-19[Europe/Berlin]",
            "2026-11-19 25:00",
            "2026-11-19T17",
            "2026-11-19T1700",
            "2026-11-19 17:00+99:00",
            "2026-11-19 17:00 CET",
            "2026-11-19 17:60",
        ] {
            assert_eq!((day_begins(typed), day_ends(typed)), (None, None), "{typed}");
            assert!(exact(typed).is_err(), "{typed}");
        }
    }
}
