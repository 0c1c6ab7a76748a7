//! Checks: what must hold of a store's content so that it is published.
//!
//! A check is a question to the very content that is cut, and what its answer must be. Whoever cuts asks it; what the answer
//! means is said here.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::line::{MAX_LABEL, check_line};

/// A condition that the content of a store must meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, unique among the checks of its store.
    pub name: String,
    /// What is asked, and what must be answered.
    pub test: Test,
    /// How long the answer may take.
    pub deadline: Duration,
}

/// What a check asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Test {
    /// A query that reads.
    Query {
        /// The query: one statement.
        sql: String,
        /// What it must give.
        expected: Expected,
    },
    /// The marker of watch mode, whose value is what was found.
    Marker {
        /// The query: one statement.
        sql: String,
    },
    /// SQLite's own look at the structure of the database, without comparing indexes with their tables.
    QuickCheck,
    /// Whether every row that refers to another one finds it.
    ForeignKeyCheck,
}

/// What a query must give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expected {
    /// No row at all: each row is one that should not be.
    NoRows,
    /// One row of one column, with this value.
    Equals(Value),
    /// One row of one column, with a number that is at least this one.
    AtLeast(Value),
}

/// A value of SQLite's, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(#[serde(with = "bits")] f64),
    /// A text, or the beginning of a long one.
    Text(String),
    /// Bytes, of which only the number is told.
    Blob(usize),
}

/// The first rows of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// The first ones, at most [`Rows::MOST`].
    pub first: Vec<Vec<Value>>,
    /// Whether there are more.
    pub more: bool,
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Whether the content met it. A content that did not is not published.
    pub passed: bool,
    /// What was found, for people.
    pub found: String,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

impl Check {
    /// How long a check may take where nothing else is said.
    pub const DEADLINE: Duration = Duration::from_secs(10);

    /// The statement that asks.
    #[must_use]
    pub fn sql(&self) -> &str {
        match &self.test {
            Test::Query { sql, .. } | Test::Marker { sql } => sql,
            // More than the first rows would be found in vain.
            Test::QuickCheck => "PRAGMA quick_check(11)",
            Test::ForeignKeyCheck => "PRAGMA foreign_key_check",
        }
    }

    /// What was found, where it is what must be.
    ///
    /// # Errors
    /// What was found instead, as a sentence about the answer.
    pub fn judge(&self, rows: &Rows) -> Result<String, String> {
        let ok = || rows.first == [[Value::Text("ok".to_owned())]];
        match &self.test {
            Test::Query { expected, .. } => expected.judge(rows),
            Test::Marker { .. } => rows.marker()?.ok_or_else(|| "nothing is certified any more".to_owned()),
            Test::QuickCheck if ok() => Ok("ok".to_owned()),
            Test::QuickCheck => Err(format!("the database is damaged: {rows}")),
            Test::ForeignKeyCheck if rows.first.is_empty() => Ok("no rows".to_owned()),
            Test::ForeignKeyCheck => Err(format!(
                "{} refer to rows that are not there (table, rowid, table referred to, number of the key): {rows}",
                rows.counted()
            )),
        }
    }
}

impl Expected {
    fn judge(&self, rows: &Rows) -> Result<String, String> {
        match self {
            Self::NoRows if rows.first.is_empty() => Ok("no rows".to_owned()),
            Self::NoRows => Err(format!("no rows were expected, and {}: {rows}", rows.counted())),
            Self::Equals(wanted) => match rows.only()? {
                found if wanted.is_met_by(found) => Ok(found.to_string()),
                found => Err(format!("{wanted} was expected, and {found} was found")),
            },
            Self::AtLeast(least) => match rows.only()? {
                found if found.is_at_least(least) => Ok(found.to_string()),
                found => Err(format!("at least {least} was expected, and {found} was found")),
            },
        }
    }
}

impl Rows {
    /// The most rows that are looked at.
    pub const MOST: usize = 10;
    /// The most columns that are told of a row.
    const MOST_COLUMNS: usize = 20;

    /// The only value that there is.
    ///
    /// # Errors
    /// Where there is another number of rows or columns, saying so.
    pub fn only(&self) -> Result<&Value, String> {
        match self.first.as_slice() {
            [] => Err("one value was expected, and there are no rows".to_owned()),
            [row] if !self.more => match row.as_slice() {
                [value] => Ok(value),
                row => Err(format!("one value was expected, and the row has {} columns", row.len())),
            },
            _ => Err(format!("one value was expected, and {}: {self}", self.counted())),
        }
    }

    /// The only value as the marker of a store, which becomes a label; nothing where nothing is certified yet.
    ///
    /// # Errors
    /// What is wrong with the answer, as a sentence about it.
    pub fn marker(&self) -> Result<Option<String>, String> {
        if self.first.is_empty() {
            return Ok(None);
        }
        match self.only()? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number.to_string())),
            Value::Real(number) if number.is_finite() => Ok(Some(format!("{number:?}"))),
            found @ (Value::Real(_) | Value::Blob(_)) => {
                Err(format!("it gives {found}, and should give a number, a text or NULL"))
            }
            Value::Text(text) => match check_line("the text that it gives", Some(text), MAX_LABEL) {
                Ok(()) => Ok(Some(text.clone())),
                Err(problem) => Err(problem.detail),
            },
        }
    }

    fn counted(&self) -> String {
        match (self.first.len(), self.more) {
            (count, true) => format!("there are more than {count} rows"),
            (1, false) => "there is 1 row".to_owned(),
            (count, false) => format!("there are {count} rows"),
        }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.first.iter().enumerate() {
            f.write_str(if index > 0 { ", (" } else { "(" })?;
            for (index, value) in row.iter().take(Self::MOST_COLUMNS).enumerate() {
                write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
            }
            f.write_str(if row.len() > Self::MOST_COLUMNS { ", …)" } else { ")" })?;
        }
        f.write_str(if self.more { ", …" } else { "" })
    }
}

impl Value {
    /// So many characters of a text are looked at, and no more. A longer text is none that can be expected.
    pub const MOST_CHARS: usize = 1000;
    /// So many characters of a text are told.
    const TOLD_CHARS: usize = 100;

    /// A text, without what is not looked at.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.chars().take(Self::MOST_CHARS + 1).collect())
    }

    /// Whether a value that was found is the one that is wanted. A number may be written as a text in the configuration; a
    /// text that was found is no number.
    fn is_met_by(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::Text(wanted), Self::Text(found)) => wanted == found,
            (Self::Text(wanted), Self::Integer(_) | Self::Real(_)) => {
                number(wanted).is_some_and(|wanted| wanted.is_met_by(found))
            }
            _ => self.compare(found) == Some(std::cmp::Ordering::Equal),
        }
    }

    fn is_at_least(&self, least: &Self) -> bool {
        self.compare(least).is_some_and(std::cmp::Ordering::is_ge)
    }

    /// How two numbers compare; nothing where one is none.
    fn compare(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(b),
            (Self::Integer(a), Self::Real(b)) => compare_mixed(*a, *b),
            (Self::Real(a), Self::Integer(b)) => compare_mixed(*b, *a).map(std::cmp::Ordering::reverse),
            _ => None,
        }
    }
}

/// A number by its bits, which JSON has for infinite ones too.
mod bits {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(number.to_bits())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

/// Compares exactly: an integer of more than 53 bits is not what it is as a fraction.
fn compare_mixed(a: i64, b: f64) -> Option<std::cmp::Ordering> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() {
        return None;
    }
    if b >= END {
        return Some(std::cmp::Ordering::Less);
    }
    if b < -END {
        return Some(std::cmp::Ordering::Greater);
    }
    #[allow(clippy::cast_possible_truncation, reason = "it is whole, and was seen to be within the bounds")]
    let whole = b.floor() as i64;
    let above = if b > b.floor() { std::cmp::Ordering::Less } else { std::cmp::Ordering::Equal };
    Some(a.cmp(&whole).then(above))
}

/// The number that a text is.
fn number(text: &str) -> Option<Value> {
    let whole = text.parse().ok().map(Value::Integer);
    whole.or_else(|| text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Real))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Text(text) => {
                let told: String = text.chars().take(Self::TOLD_CHARS).collect();
                write!(f, "{told:?}")?;
                if told.len() < text.len() { f.write_char('…') } else { Ok(()) }
            }
            Self::Blob(bytes) => write!(f, "a blob of {bytes} bytes"),
        }
    }
}
