//! Values: how each type of the core stands in a column, and how it is read back.
//!
//! Every wrapper refuses what would not come back as it went in. Reading trusts nothing, since a catalogue
//! may have been edited by hand or hit by a bad disk.

use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use asat_core::guard::Rung;
use asat_core::snapshot::Hold;
use asat_core::version::State;
use asat_core::{Fingerprint, PageSize};
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An unsigned number. SQLite's integers end at 2^63 - 1.
pub(crate) struct Int(pub(crate) u64);

impl ToSql for Int {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = i64::try_from(self.0);
        number.map(ToSqlOutput::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl FromSql for Int {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        u64::try_from(number).map(Self).map_err(|_| FromSqlError::OutOfRange(number))
    }
}

/// An instant, as RFC 3339 with nine digits of fraction: that is all that a [`Timestamp`] can hold.
pub(crate) struct At(pub(crate) Timestamp);

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(Self::text(self.0)))
    }
}

impl At {
    /// An instant as it is written.
    pub(crate) fn text(at: Timestamp) -> String {
        format!("{at:.9}")
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        parse(value).map(Self)
    }
}

/// Anything that has one spelling as text.
pub(crate) struct Text<T>(pub(crate) T);

impl<T: Display> ToSql for Text<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.to_string()))
    }
}

impl<T: FromStr<Err: Display>> FromSql for Text<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        parse(value).map(Self)
    }
}

/// A closed value of several parts, as JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Self::text(&self.0).map(ToSqlOutput::from)
    }
}

impl<T: Serialize> Json<T> {
    /// A value as it is written.
    pub(crate) fn text(value: &T) -> rusqlite::Result<String> {
        serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(unreadable)
    }
}

/// A path: text where it is UTF-8, as nearly all are, and otherwise its bytes.
pub(crate) struct FilePath(pub(crate) PathBuf);

impl ToSql for FilePath {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0.to_str() {
            Some(text) => ToSqlOutput::from(text),
            None => ToSqlOutput::from(self.0.as_os_str().as_bytes()),
        })
    }
}

impl FromSql for FilePath {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_bytes()?;
        Ok(Self(PathBuf::from(OsString::from_vec(bytes.to_vec()))))
    }
}

/// A version's state.
pub(crate) struct Life(pub(crate) State);

impl ToSql for Life {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.text()))
    }
}

impl FromSql for Life {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        let known = State::ALL.into_iter().find(|state| state.text() == text);
        known.map(Self).ok_or_else(|| unreadable(format!("{text:?} is no state of a version")))
    }
}

/// For what a commit would have had to wait.
pub(crate) struct Wait(pub(crate) Hold);

impl FromSql for Wait {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        let known = Hold::ALL.into_iter().find(|hold| hold.text() == text);
        known.map(Self).ok_or_else(|| unreadable(format!("{text:?} is no kind of hold")))
    }
}

/// A rung of the guard's ladder.
pub(crate) struct OnLadder(pub(crate) Rung);

impl FromSql for OnLadder {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        let known = Rung::ALL.into_iter().find(|rung| rung.text() == text);
        known.map(Self).ok_or_else(|| unreadable(format!("{text:?} is no rung of the guard's ladder")))
    }
}

/// A fingerprint, with the algorithm that it was made by.
pub(crate) struct Print(pub(crate) Fingerprint);

impl FromSql for Print {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        parse(value).map(Self)
    }
}

/// A page size, as a number of bytes.
pub(crate) struct Page(pub(crate) PageSize);

impl FromSql for Page {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        PageSize::try_from(u32::column_result(value)?).map(Self).map_err(unreadable)
    }
}

fn parse<T: FromStr<Err: Display>>(value: ValueRef<'_>) -> FromSqlResult<T> {
    value.as_str()?.parse().map_err(|error: T::Err| unreadable(error.to_string()))
}

fn unreadable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> FromSqlError {
    FromSqlError::Other(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_come_back_exactly_and_sort_as_they_follow_one_another() {
        let instants = [
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999999999Z",
            "1970-01-01T00:00:00Z",
            "2026-11-19T17:00:03Z",
            "2026-11-19T17:00:03.000001Z",
            "2026-11-19T17:00:03.1Z",
            "2026-11-19T17:00:03.123456789Z",
            "9999-12-30T22:00:00.999999999Z",
        ];
        let mut last = String::new();
        for instant in instants.map(|text| text.parse::<Timestamp>().unwrap()) {
            let stored = format!("{:.9}", instant);
            assert_eq!(At::column_result(ValueRef::Text(stored.as_bytes())).unwrap().0, instant);
            assert!(last < stored, "{last} {stored}");
            last = stored;
        }
    }

    #[test]
    fn a_number_that_would_not_come_back_is_refused() {
        assert!(Int(u64::MAX).to_sql().is_err());
        assert!(Int(i64::MAX.cast_unsigned()).to_sql().is_ok());
        assert!(Int::column_result(ValueRef::Integer(-1)).is_err());
    }
}
