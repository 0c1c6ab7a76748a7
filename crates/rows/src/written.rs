//! What differs between two versions, written in a format that others read.
//!
//! Rows are written as they are found, and long values by parts: it takes the same memory however much differs.

mod json;

use std::fmt;
use std::io;
use std::str::FromStr;

pub use json::{write_key, write_row};

use crate::comparison::{Comparison, TableChange};
use crate::differences::Difference;
use crate::error::Error;
use crate::schema::TableKind;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object a row, one on each line, and one at the end that says how many rows there were.
    JsonLines,
}

/// Which differences to write.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only the table of this name; all where it is `None`.
    pub table: Option<String>,
    /// Shadow tables and SQLite's own, too.
    pub all_kinds: bool,
    /// So many rows are left out at the beginning.
    pub skip: u64,
    /// So many rows are written at most.
    pub limit: Option<u64>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many rows.
    pub rows: u64,
    /// Whether there are more than the limit.
    pub more: bool,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::JsonLines];

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
        }
    }

    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::JsonLines => "application/x-ndjson",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.text() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::text).join(", ");
            format!("{text:?} is no format; there are {names}")
        })
    }
}

impl Selection {
    /// Whether a table's differences are wanted.
    #[must_use]
    pub fn has(&self, table: &TableChange) -> bool {
        match &self.table {
            Some(name) => {
                let names = [Some(&table.name), table.renamed_from.as_ref()];
                names.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(name))
            }
            None => self.all_kinds || table.kind == TableKind::Ordinary,
        }
    }
}

/// What writes rows in a format.
trait Writer {
    /// Begins a table whose definition or rows differ.
    fn table(&mut self, table: &TableChange) -> Result<(), Error>;

    /// Writes a row of that table.
    fn row(&mut self, table: &TableChange, difference: &Difference<'_>) -> Result<(), Error>;

    /// Ends. `next` says where to go on if there is more.
    fn end(&mut self, written: Written, next: Option<String>) -> Result<(), Error>;
}

/// Writes what differs. `next` gives a name to the place behind so many rows, for those who go on there.
///
/// # Errors
/// If the table that is wanted is in neither version, rows cannot be read, or `out` takes no more.
pub fn write(
    comparison: &Comparison<'_>,
    selection: &Selection,
    format: Format,
    next: &dyn Fn(u64) -> String,
    out: &mut dyn io::Write,
) -> Result<Written, Error> {
    if let Some(name) = &selection.table {
        comparison.table(name)?;
    }
    let mut writer = match format {
        Format::JsonLines => json::Lines::new(out),
    };
    let written = write_rows(comparison, selection, &mut writer)?;
    writer.end(written, written.more.then(|| next(selection.skip + written.rows)))?;
    Ok(written)
}

fn write_rows(
    comparison: &Comparison<'_>,
    selection: &Selection,
    writer: &mut impl Writer,
) -> Result<Written, Error> {
    let (mut passed, mut written) = (0, Written::default());
    let differs = |table: &&TableChange| table.is_schema_changed() || table.may_differ();
    for table in comparison.tables().iter().filter(differs).filter(|table| selection.has(table)) {
        // A page of the answer that goes on within a table does not tell of its definition again.
        let mut has_begun = false;
        if table.is_schema_changed() && passed >= selection.skip {
            writer.table(table)?;
            has_begun = true;
        }
        if !table.may_differ() {
            continue;
        }
        for difference in comparison.rows(table)? {
            let difference = difference?;
            passed += 1;
            if passed <= selection.skip {
                continue;
            }
            if selection.limit == Some(written.rows) {
                return Ok(Written { more: true, ..written });
            }
            if !has_begun {
                writer.table(table)?;
                has_begun = true;
            }
            writer.row(table, &difference)?;
            written.rows += 1;
        }
    }
    Ok(written)
}
