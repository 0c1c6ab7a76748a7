//! Comma-separated values (RFC 4180): a header and the rows of each table, an empty line between two tables.
//!
//! The first two fields are the table and what happened: `insert`, `delete`, and for a row that changed `before` and `after`. NULL is an
//! empty field, and an empty text two quotes. Blobs are written as `x'00ff'`.

use std::io::Write;

use crate::comparison::TableChange;
use crate::differences::Difference;
use crate::error::Error;
use crate::row::Row;
use crate::value::Value;
use crate::written::json::hex;
use crate::written::{Writer, Written};

/// Writes the lines.
pub(super) struct Lines<'o> {
    out: &'o mut dyn Write,
    has_begun: bool,
}

impl<'o> Lines<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, has_begun: false }
    }

    fn line(&mut self, table: &TableChange, op: &str, row: &Row<'_>, is_old: bool) -> Result<(), Error> {
        write!(self.out, "{},{op}", field(&table.name))?;
        for column in &table.columns {
            self.out.write_all(b",")?;
            let place = if is_old { column.old } else { column.new };
            if let Some(place) = place {
                write_value(&row.value(place)?, self.out)?;
            }
        }
        Ok(self.out.write_all(b"\r\n")?)
    }
}

impl Writer for Lines<'_> {
    fn table(&mut self, table: &TableChange) -> Result<(), Error> {
        if !table.may_differ() {
            return Ok(());
        }
        let names: Vec<String> =
            table.columns.iter().map(|column| format!(",{}", field(&column.name))).collect();
        let gap = if std::mem::replace(&mut self.has_begun, true) { "\r\n" } else { "" };
        Ok(write!(self.out, "{gap}table,op{}\r\n", names.concat())?)
    }

    fn row(&mut self, table: &TableChange, difference: &Difference<'_>) -> Result<(), Error> {
        match difference {
            Difference::Inserted(row) => self.line(table, "insert", row, false),
            Difference::Deleted(row) => self.line(table, "delete", row, true),
            Difference::Updated { old, new, .. } => {
                self.line(table, "before", old, true)?;
                self.line(table, "after", new, false)
            }
        }
    }

    fn end(&mut self, _: Written, _: Option<String>) -> Result<(), Error> {
        Ok(())
    }
}

/// A text as a field: in quotes if it would be taken for something else.
fn field(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains([',', '"', '\r', '\n']) && text.trim() == text;
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

fn write_value(value: &Value<'_>, out: &mut dyn Write) -> Result<(), Error> {
    match value {
        Value::Null => Ok(()),
        Value::Integer(number) => Ok(write!(out, "{number}")?),
        Value::Real(number) => Ok(write!(out, "{number:?}")?),
        Value::Text(text) => match text.plain() {
            Some(plain) => Ok(out.write_all(field(&plain).as_bytes())?),
            None => {
                out.write_all(b"\"")?;
                text.parts(&mut |part| Ok(out.write_all(part.replace('"', "\"\"").as_bytes())?))?;
                Ok(out.write_all(b"\"")?)
            }
        },
        Value::Blob(bytes) => {
            out.write_all(b"x'")?;
            bytes.parts(&mut |part| Ok(out.write_all(&hex(part))?))?;
            Ok(out.write_all(b"'")?)
        }
    }
}
