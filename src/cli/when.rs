//! Times as they are typed, as of now.

use jiff::Timestamp;
use jiff::civil::Date;

use crate::when;

/// How times are written, for the help of the whole program.
pub(super) const GRAMMAR: &str = "\
Times:
  2026-11-19T17:00:00+01:00  an instant; in UTC: 2026-11-19 17:00
  2026-11-19                 a day in UTC: its end; after --from its beginning
  today, yesterday           these days
  month-end                  the last day of the month before this one
  now, -90m, -7d, +30d       now, so long ago, and in so long

Durations:
  90s, 15m, 1h30m, 2d, 1w    a number and its unit, as in the configuration";

/// Reads a time; a day alone means its beginning.
pub(super) fn day_begins(text: &str) -> Result<Timestamp, String> {
    when::day_begins(text, Timestamp::now())
}

/// Reads a time; a day alone means its end.
pub(super) fn day_ends(text: &str) -> Result<Timestamp, String> {
    when::day_ends(text, Timestamp::now())
}

/// Reads a day.
pub(super) fn day(text: &str) -> Result<Date, String> {
    when::day(text, Timestamp::now())
}
