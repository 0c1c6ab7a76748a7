//! JSON lines: what differs, an object on each line.
//!
//! Numbers are exact. What JSON cannot say is an object of one member: `{"hex":"00ff"}` is a blob, `{"text_hex":"ff"}` a text that is
//! not well-formed, as it is stored, and `{"real":"inf"}` or `{"real":"-inf"}` an infinite number.

use std::io::Write;

use crate::comparison::TableChange;
use crate::differences::Difference;
use crate::error::Error;
use crate::row::Row;
use crate::schema::table::{Definition, Generated};
use crate::value::{Bytes, Text, Value};
use crate::written::{Writer, Written};

/// Writes the lines.
pub(super) struct Lines<'o> {
    out: &'o mut dyn Write,
}

impl<'o> Lines<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out }
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    fn side(&mut self, name: &str, row: Option<&Row<'_>>) -> Result<(), Error> {
        self.put(name)?;
        match row {
            Some(row) => write_row(row, self.out),
            None => self.put("null"),
        }
    }
}

impl Writer for Lines<'_> {
    fn table(&mut self, table: &TableChange) -> Result<(), Error> {
        if !table.is_schema_changed() {
            return Ok(());
        }
        let change = table.schema_change();
        let sql =
            |side: &Option<crate::Table>| side.as_ref().map_or("null".to_owned(), |table| quoted(&table.sql));
        let (before, after) = (sql(&table.old), sql(&table.new));
        let name = quoted(&table.name);
        self.put(&format!(
            "{{\"table\":{name},\"op\":\"schema\",\"change\":\"{change}\",\"before\":{before},\"after\":{after}}}\n"
        ))
    }

    fn row(&mut self, table: &TableChange, difference: &Difference<'_>) -> Result<(), Error> {
        let (op, before, after) = match difference {
            Difference::Inserted(row) => ("insert", None, Some(row)),
            Difference::Deleted(row) => ("delete", Some(row), None),
            Difference::Updated { old, new, .. } => ("update", Some(old), Some(new)),
        };
        self.put(&format!("{{\"table\":{},\"op\":\"{op}\",\"key\":", quoted(&table.name)))?;
        if let Some(row) = after.or(before) {
            write_key(row, self.out)?;
        }
        if let Difference::Updated { columns, .. } = difference {
            let names = columns.iter().filter_map(|place| table.columns.get(*place));
            let names: Vec<String> = names.map(|column| quoted(&column.name)).collect();
            self.put(&format!(",\"changed\":[{}]", names.join(",")))?;
        }
        self.side(",\"before\":", before)?;
        self.side(",\"after\":", after)?;
        self.put("}\n")
    }

    fn end(&mut self, written: Written, next: Option<String>) -> Result<(), Error> {
        let next = next.map_or("null".to_owned(), |next| quoted(&next));
        self.put(&format!("{{\"op\":\"end\",\"rows\":{},\"next_cursor\":{next}}}\n", written.rows))
    }
}

/// Writes a row as an object of its columns, without those that are computed when they are read.
///
/// # Errors
/// If a value cannot be read, or `out` takes no more.
pub fn write_row(row: &Row<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let columns = row.definition().columns.iter().enumerate();
    let stored = columns.filter(|(_, column)| column.generated != Some(Generated::Virtual));
    let places: Vec<usize> = stored.map(|(place, _)| place).collect();
    write_fields(row, &places, out)
}

/// Writes the columns of a row's key as an object; of a table without a key of its own, its rowid.
///
/// # Errors
/// If a value cannot be read, or `out` takes no more.
pub fn write_key(row: &Row<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let key = key_columns(row.definition());
    match row.rowid() {
        Some(rowid) if key.is_empty() => Ok(write!(out, "{{\"rowid\":{rowid}}}")?),
        _ => write_fields(row, &key, out),
    }
}

/// The places of the columns by which a row is known to people.
pub(crate) fn key_columns(definition: &Definition) -> Vec<usize> {
    definition.key.iter().map(|part| part.column).collect()
}

fn write_fields(row: &Row<'_>, places: &[usize], out: &mut dyn Write) -> Result<(), Error> {
    let mut before = "{";
    for &place in places {
        let name = row.definition().columns.get(place).map(|column| quoted(&column.name)).unwrap_or_default();
        write!(out, "{before}{name}:")?;
        write_value(&row.value(place)?, out)?;
        before = ",";
    }
    let end = if before == "{" { "{}" } else { "}" };
    Ok(out.write_all(end.as_bytes())?)
}

fn write_value(value: &Value<'_>, out: &mut dyn Write) -> Result<(), Error> {
    match value {
        Value::Null => Ok(out.write_all(b"null")?),
        Value::Integer(number) => Ok(write!(out, "{number}")?),
        Value::Real(number) if number.is_finite() => Ok(write!(out, "{number:?}")?),
        Value::Real(number) => Ok(write!(out, "{{\"real\":\"{number}\"}}")?),
        Value::Text(text) => write_text(text, out),
        Value::Blob(bytes) => write_hex("hex", bytes, out),
    }
}

fn write_text(text: &Text<'_>, out: &mut dyn Write) -> Result<(), Error> {
    if let Some(plain) = text.plain() {
        return Ok(out.write_all(quoted(&plain).as_bytes())?);
    }
    if !text.is_well_formed()? {
        return write_hex("text_hex", &text.stored, out);
    }
    out.write_all(b"\"")?;
    text.parts(&mut |part| {
        let quoted = quoted(part);
        let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        Ok(out.write_all(inside.as_bytes())?)
    })?;
    Ok(out.write_all(b"\"")?)
}

fn write_hex(name: &str, bytes: &Bytes<'_>, out: &mut dyn Write) -> Result<(), Error> {
    write!(out, "{{\"{name}\":\"")?;
    bytes.parts(&mut |part| Ok(out.write_all(&hex(part))?))?;
    Ok(out.write_all(b"\"}")?)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| DIGITS.get(usize::from(four)).copied().unwrap_or(b'0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
