//! Times as they are typed: instants, days, and the words for them, each refused with examples of how it is written.
//!
//! The command line and the HTTP face read them here, so a word that one of them knows is known to the other. Days are those of UTC.

use asat_core::instant;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, ToSpan as _};

/// A time as it was typed.
enum When {
    Instant(Timestamp),
    Day(Date),
}

/// Reads a time; a day alone means its beginning.
pub(crate) fn day_begins(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    match said(text, now) {
        Some(When::Instant(at)) => Some(at),
        Some(When::Day(day)) => instant::day_begins(&day.to_string()),
        None => instant::day_begins(text),
    }
    .ok_or_else(|| no_time(text))
}

/// Reads a time; a day alone means its end.
pub(crate) fn day_ends(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    match said(text, now) {
        Some(When::Instant(at)) => Some(at),
        Some(When::Day(day)) => instant::day_ends(&day.to_string()),
        None => instant::day_ends(text),
    }
    .ok_or_else(|| no_time(text))
}

/// Reads a day.
pub(crate) fn day(text: &str, now: Timestamp) -> Result<Date, String> {
    let text = text.trim();
    day_as_of(text, now).ok_or_else(|| no_day(text))
}

fn day_as_of(text: &str, now: Timestamp) -> Option<Date> {
    match said(text, now) {
        Some(When::Day(day)) => Some(day),
        // What is now, or so many hours ago, is an instant, and no day.
        Some(When::Instant(_)) if !(text.starts_with(['-', '+']) && text.ends_with(['d', 'w'])) => None,
        Some(When::Instant(at)) => Some(day_of(at)),
        // A longer text that begins with a day would be taken for that day.
        None => text.parse().ok().filter(|day: &Date| day.to_string() == text),
    }
}

/// Whether a text is written as a day is.
pub(crate) fn is_written_as_day(text: &str) -> bool {
    text.len() == 10
        && text.replace('-', "").len() == 8
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}

/// Why a text is no day although it is written, or begins, as one.
fn not_in_calendar(text: &str) -> Option<String> {
    let day = text.get(..10).filter(|day| is_written_as_day(day) && day.parse::<Date>().is_err());
    day.map(|day| format!("{day} is no day of the calendar"))
}

fn no_day(text: &str) -> String {
    let how = || "write a day as 2026-11-19, yesterday, month-end or -7d".to_owned();
    not_in_calendar(text).unwrap_or_else(how)
}

fn no_time(text: &str) -> String {
    let how = || {
        "write it as 2026-11-19T17:00:00Z, 2026-11-19 17:00 (in UTC), 2026-11-19, yesterday, month-end or -7d; a later one as +30d"
            .to_owned()
    };
    not_in_calendar(text).unwrap_or_else(how)
}

/// Reads a duration in seconds, as the configuration does: a number without a unit is refused.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    length(text).filter(|&seconds| seconds > 0).ok_or_else(|| match text.parse::<u32>() {
        Ok(number) if number > 0 && !text.starts_with('+') => {
            format!("it has no unit: write {number}s, {number}m, {number}h or {number}d")
        }
        _ => "write it as 90s, 15m, 1h30m, 2d or 1w; at least a second".to_owned(),
    })
}

fn length(text: &str) -> Option<u32> {
    let span: Span = text.parse().ok().filter(|_| !text.starts_with(['+', '-']))?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    u32::try_from(length.as_secs()).ok()
}

/// What a word says, if it is one of those for times.
fn said(text: &str, now: Timestamp) -> Option<When> {
    let today = day_of(now);
    match text {
        "now" => Some(When::Instant(now)),
        "today" => Some(When::Day(today)),
        "yesterday" => Some(When::Day(today.checked_sub(1.day()).ok()?)),
        "month-end" => Some(When::Day(today.first_of_month().checked_sub(1.day()).ok()?)),
        _ => {
            let length = SignedDuration::from_secs(seconds(text.get(1..)?).ok()?.into());
            let at = match text.chars().next()? {
                '-' => now.checked_sub(length),
                '+' => now.checked_add(length),
                _ => return None,
            };
            Some(When::Instant(at.ok()?))
        }
    }
}

fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-29T21:30:00Z".parse().unwrap()
    }

    #[test]
    fn blanks_around_an_instant_are_none_of_it() {
        assert_eq!(day_begins(" 2026-11-19 ", now()).unwrap().to_string(), "2026-11-19T00:00:00Z");
        assert_eq!(day_ends("2026-11-19", now()).unwrap().to_string(), "2026-11-19T23:59:59.999999Z");
        assert!(day_ends("last week", now()).unwrap_err().starts_with("write it as 2026-11-19T17:00:00Z"));
    }

    #[test]
    fn words_for_times() {
        for (typed, expected) in [
            ("now", "2026-11-29T21:30:00Z"),
            ("-90m", "2026-11-29T20:00:00Z"),
            ("-1h30m", "2026-11-29T20:00:00Z"),
            ("-7d", "2026-11-22T21:30:00Z"),
            ("-1w", "2026-11-22T21:30:00Z"),
            ("+2d", "2026-12-01T21:30:00Z"),
        ] {
            let Some(When::Instant(at)) = said(typed, now()) else { panic!("{typed} is no instant") };
            assert_eq!(at.to_string(), expected, "{typed}");
        }
        for typed in ["-7", "7d", "-", "-d", "--7d", "-7x", "Yesterday", "tomorrow", "-99999d", ""] {
            assert!(said(typed, now()).is_none(), "{typed}");
        }
    }

    #[test]
    fn days_and_the_words_for_them() {
        for (typed, expected) in [
            ("2026-11-19", "2026-11-19"),
            ("today", "2026-11-29"),
            ("yesterday", "2026-11-28"),
            ("month-end", "2026-10-31"),
            ("-7d", "2026-11-22"),
            ("-2w", "2026-11-15"),
        ] {
            assert_eq!(
                day_as_of(typed, now()).map(|day| day.to_string()).as_deref(),
                Some(expected),
                "{typed}"
            );
        }
        for typed in ["2026-02-30", "2026-11-19T17:00", "now", "-7h", "19.11.2026", ""] {
            assert_eq!(day_as_of(typed, now()), None, "{typed}");
        }
        let january: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(day_as_of("month-end", january).map(|day| day.to_string()).as_deref(), Some("2026-12-31"));
    }
}
