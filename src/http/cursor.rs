//! Cursors: a place in a list together with the list that it belongs to.

use std::fmt::Debug;

use asat_core::query::{Filter, Position};
use asat_core::{Code, Problem};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Writes a place in the list of `filter`.
pub(crate) fn write(position: &Position, filter: &Filter) -> String {
    format!("{}.{}.{}", mark(filter), position.at.as_microsecond(), position.id)
}

/// Reads a place in the list of `filter`.
pub(crate) fn read(cursor: &str, filter: &Filter) -> Result<Position, Problem> {
    let mut parts = cursor.splitn(3, '.');
    let (list, at, id) = (parts.next(), parts.next(), parts.next());
    let at = at.and_then(|at| at.parse().ok()).and_then(|at| Timestamp::from_microsecond(at).ok());
    let (Some(list), Some(at), Some(Ok(id))) = (list, at, id.map(str::parse)) else {
        return Err(unreadable());
    };
    if list != mark(filter) {
        return Err(mismatch());
    }
    Ok(Position { at, id })
}

/// Writes a place in the audit trail as `filter` shows it: the number of the last entry that was seen.
pub(super) fn write_number(number: u64, filter: &impl Debug) -> String {
    format!("{}.{number}", mark(filter))
}

/// Reads a place in the audit trail as `filter` shows it.
pub(super) fn read_number(cursor: &str, filter: &impl Debug) -> Result<u64, Problem> {
    let place = cursor.split_once('.').and_then(|(list, number)| Some((list, number.parse().ok()?)));
    let (list, number) = place.ok_or_else(unreadable)?;
    if list == mark(filter) { Ok(number) } else { Err(mismatch()) }
}

fn unreadable() -> Problem {
    let hint = "pass next_cursor exactly as it was answered, or leave it out to begin again";
    Problem::new(Code::Malformed, "the cursor cannot be read", hint)
}

fn mismatch() -> Problem {
    let hint = "use the same filters as for the first page, or leave the cursor out to begin again";
    Problem::new(Code::CursorMismatch, "the cursor belongs to a list with other filters", hint)
}

/// Tells lists with different filters apart.
pub(crate) fn mark(filter: &impl Debug) -> String {
    let digest = Sha256::digest(format!("{filter:?}"));
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Position {
        Position { at: "2026-11-19T17:00:03.123456Z".parse().unwrap(), id: "a.b-c@12".parse().unwrap() }
    }

    #[test]
    fn a_cursor_leads_back_to_its_place_in_its_list_only() {
        let all = Filter::default();
        let labelled = Filter { label: Some("close".to_owned()), ..Filter::default() };
        let cursor = write(&place(), &all);
        assert_eq!(read(&cursor, &all), Ok(place()));
        assert_eq!(read(&cursor, &labelled).map_err(|p| p.code), Err(Code::CursorMismatch));
        let ancient = Position { at: "1901-01-01T00:00:00Z".parse().unwrap(), ..place() };
        assert_eq!(read(&write(&ancient, &all), &all), Ok(ancient));
    }

    #[test]
    fn a_place_in_the_trail_belongs_to_its_filter() {
        let (all, other) = (asat_core::audit::Filter::default(), "another");
        let cursor = write_number(37, &all);
        assert_eq!(read_number(&cursor, &all), Ok(37));
        assert_eq!(read_number(&cursor, &other).map_err(|p| p.code), Err(Code::CursorMismatch));
        for text in ["", ".", "37", "x.y", &cursor[..cursor.len() - 2], &format!("{cursor}x")] {
            assert_eq!(read_number(text, &all).map_err(|p| p.code), Err(Code::Malformed), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let all = Filter::default();
        let good = write(&place(), &all);
        for text in [
            "",
            ".",
            "..",
            "x.y.z",
            "0.0.r@1",
            "\u{0}",
            &good[1..],
            &good[..good.len() - 3],
            "a.7fffffffffffffff.r@1",
        ] {
            assert!(read(text, &all).is_err(), "{text:?}");
        }
    }
}
