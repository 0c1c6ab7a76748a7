//! What differs between two versions, written in a format that others read.
//!
//! Rows are written as they are found, and long values by parts: it takes the same memory however much differs. Only rows that are joined
//! by other columns than the key are held until all of a table are known.

mod changeset;
mod csv;
mod html;
pub(crate) mod json;
mod objects;
mod sql;

use std::fmt;
use std::io;
use std::str::FromStr;

pub use json::{write_key, write_row};

use crate::comparison::{Comparison, TableChange};
use crate::differences::Difference;
use crate::error::Error;
use crate::grouped;
use crate::schema::TableKind;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object a row, one on each line, and one at the end that says how many rows there were.
    JsonLines,
    /// A script that makes the older version the newer one.
    Sql,
    /// A changeset of SQLite's session extension.
    Changeset,
    /// Comma-separated values.
    Csv,
    /// A page for a browser.
    Html,
}

/// Which differences to write.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only the table of this name; all where it is `None`.
    pub table: Option<String>,
    /// Shadow tables and SQLite's own, too.
    pub all_kinds: bool,
    /// Rows are the same if these columns of them are, and not by the table's key; by that where there are none.
    pub by: Vec<String>,
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
    pub const ALL: [Self; 5] = [Self::JsonLines, Self::Sql, Self::Changeset, Self::Csv, Self::Html];

    /// Its name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Sql => "sql",
            Self::Changeset => "changeset",
            Self::Csv => "csv",
            Self::Html => "html",
        }
    }

    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::JsonLines => "application/x-ndjson",
            Self::Sql => "application/sql",
            Self::Changeset => "application/octet-stream",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
        }
    }

    /// Whether a part of it would be something else than a part of the differences.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Sql | Self::Changeset)
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

/// Writes what differs. `next` gives a name to the place behind so many rows, for those who go on there. A script and a changeset are
/// whole, whatever the selection has of limits.
///
/// # Errors
/// If the table that is wanted is in neither version, the format cannot say what differs, rows cannot be read, or `out` takes no more.
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
    let writer: &mut dyn Writer = match format {
        Format::JsonLines => &mut json::Lines::new(out),
        Format::Csv => &mut csv::Lines::new(out),
        Format::Html => &mut html::Page::new(out),
        Format::Changeset => {
            let whole = Selection {
                table: selection.table.clone(),
                all_kinds: selection.table.is_some(),
                ..Selection::default()
            };
            return write_rows(comparison, &whole, true, &mut changeset::Changes::new(out));
        }
        Format::Sql => {
            return sql::write(comparison, selection, out).map(|rows| Written { rows, more: false });
        }
    };
    let written = write_rows(comparison, selection, false, writer)?;
    writer.end(written, written.more.then(|| next(selection.skip + written.rows)))?;
    Ok(written)
}

/// Writes the rows. In a changeset, shadow tables are like others, what is wanted or not, and only rows count.
fn write_rows(
    comparison: &Comparison<'_>,
    selection: &Selection,
    is_changeset: bool,
    writer: &mut dyn Writer,
) -> Result<Written, Error> {
    let (mut passed, mut written) = (0, Written::default());
    let differs = |table: &&TableChange| table.is_schema_changed() || table.may_differ();
    let is_wanted = |table: &&TableChange| {
        selection.has(table) || (is_changeset && selection.table.is_none() && table.kind == TableKind::Shadow)
    };
    for table in comparison.tables().iter().filter(differs).filter(is_wanted) {
        // A page of the answer that goes on within a table does not tell of its definition again.
        let mut has_begun = false;
        if table.is_schema_changed() && passed >= selection.skip {
            writer.table(table)?;
            has_begun = true;
        }
        if !table.may_differ() {
            continue;
        }
        for difference in differences(comparison, table, selection, is_changeset)? {
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

/// The differences of a table, joined as is wanted.
fn differences<'c>(
    comparison: &'c Comparison<'c>,
    table: &'c TableChange,
    selection: &Selection,
    is_changeset: bool,
) -> Result<Box<dyn Iterator<Item = Result<Difference<'c>, Error>> + 'c>, Error> {
    let own = if is_changeset { changeset::joined_by(table) } else { Vec::new() };
    let by = if own.is_empty() { &selection.by } else { &own };
    let differences = comparison.rows(table)?;
    if by.is_empty() {
        return Ok(Box::new(differences));
    }
    Ok(Box::new(grouped::by(table, by, differences)?.into_iter().map(Ok)))
}
