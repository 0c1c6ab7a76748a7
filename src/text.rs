//! Words for people: times, sizes, and texts of others made safe for a terminal.
//!
//! `now` is always passed in, so that the same input gives the same text.

pub(crate) mod rows;

use bytesize::ByteSize;
use jiff::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// From here on "days ago" needs a calendar to be understood.
const LONG_AGO: u64 = 30 * DAY;

/// How long ago or ahead an instant is: "just now", "5 minutes ago", "in 3 days", or a date where it is far.
pub(crate) fn relative(then: Timestamp, now: Timestamp) -> String {
    let difference = then.duration_since(now);
    let distance = difference.as_secs().unsigned_abs();
    // A lease of an hour is shown a moment after it was granted, and "59 minutes" would puzzle.
    let rounded = if difference.as_secs() < 60 { distance } else { distance.saturating_add(30) };
    let (count, unit) = match rounded {
        1..MINUTE if !difference.is_negative() => return "in less than a minute".to_owned(),
        0..MINUTE => return "just now".to_owned(),
        seconds @ MINUTE..HOUR => (seconds / MINUTE, "minute"),
        seconds @ HOUR..DAY => (seconds / HOUR, "hour"),
        seconds @ DAY..LONG_AGO => (seconds / DAY, "day"),
        LONG_AGO.. => return then.strftime("%Y-%m-%d").to_string(),
    };
    let plural = if count == 1 { "" } else { "s" };
    if difference.is_negative() {
        format!("{count} {unit}{plural} ago")
    } else {
        format!("in {count} {unit}{plural}")
    }
}

/// An instant in full, to the second: "2026-11-19 17:00:03 UTC".
pub(crate) fn absolute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// An instant in full and how long ago it is.
pub(crate) fn both(at: Timestamp, now: Timestamp) -> String {
    let (absolute, relative) = (absolute(at), relative(at, now));
    if absolute.starts_with(&relative) { absolute } else { format!("{absolute} ({relative})") }
}

/// A size: "46.4 MiB".
pub(crate) fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// A number and what it counts: "1 version", "2 versions".
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A text of somebody else, on one line, with everything that could steer a terminal written out.
pub(crate) fn clean(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// A clean text of at most so many characters.
pub(crate) fn short(text: &str, max_chars: usize) -> String {
    let safe = clean(text);
    match safe.char_indices().nth(max_chars) {
        None => safe,
        Some(_) => safe.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Control characters, and the invisible ones that break lines or reorder the text around them.
pub(crate) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;

    #[test]
    fn times_as_people_say_them() {
        let now: Timestamp = "2026-11-19T17:00:03Z".parse().unwrap();
        for (seconds, expected) in [
            (0, "just now"),
            (-59, "just now"),
            (1, "in less than a minute"),
            (59, "in less than a minute"),
            (-60, "1 minute ago"),
            (-119, "1 minute ago"),
            (-300, "5 minutes ago"),
            (-3599, "59 minutes ago"),
            (-3600, "1 hour ago"),
            (-10_800, "3 hours ago"),
            (-86_400, "1 day ago"),
            (-3 * 86_400, "3 days ago"),
            (-30 * 86_400 + 1, "29 days ago"),
            (-30 * 86_400, "2026-10-20"),
            (60, "in 1 minute"),
            (3599, "in 1 hour"),
            (3541, "in 59 minutes"),
            (7200, "in 2 hours"),
            (31 * 86_400, "2026-12-20"),
        ] {
            assert_eq!(relative(now + seconds.seconds(), now), expected, "{seconds}");
        }
        assert_eq!(both(now - 5.minutes(), now), "2026-11-19 16:55:03 UTC (5 minutes ago)");
        assert_eq!(both(now - 1000.hours(), now), "2026-10-09 01:00:03 UTC");
        relative(Timestamp::MIN, Timestamp::MAX);
    }

    #[test]
    fn sizes() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (812_344, "793.3 KiB"),
            (48_672_768, "46.4 MiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!((counted(1, "version"), counted(0, "version")), ("1 version".into(), "0 versions".into()));
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(clean("größer → 🎉"), "größer → 🎉");
        assert_eq!(clean("\u{1b}[31mred\n"), "\\u{1b}[31mred\\n");
        assert_eq!(clean("a\u{202e}b\u{9b}c\u{7f}"), "a\\u{202e}b\\u{9b}c\\u{7f}");
        assert_eq!(short("abcdef", 6), "abcdef");
        assert_eq!(short("abcdefg", 6), "abcde…");
        assert_eq!(short("üüü", 2), "ü…");
    }
}
