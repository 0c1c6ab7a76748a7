//! A changeset of SQLite's session extension, which `sqlite3changeset_apply` takes (the format is that of `sqlite3session.c`, "CHANGESET
//! BLOB FORMAT" in its comments).
//!
//! It knows rows by their primary keys, and says nothing of definitions. A key of which only the case changed, under `NOCASE`, is deleted
//! and inserted: such a changeset cannot be turned round (`sqlite3changeset_invert`), as the row would be inserted first.

use std::io::Write;

use crate::comparison::{Compared, TableChange};
use crate::differences::Difference;
use crate::error::Error;
use crate::row::Row;
use crate::schema::table::Definition;
use crate::value::{Bytes, Text, Value};
use crate::version::Encoding;
use crate::written::json::key_columns;
use crate::written::{Writer, Written};

/// The operations, as SQLite numbers them.
const DELETE: u8 = 9;
const INSERT: u8 = 18;
const UPDATE: u8 = 23;

/// What precedes a value of each type.
const UNDEFINED: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;
const NULL: u8 = 5;

/// Writes changes.
pub(super) struct Changes<'o> {
    out: &'o mut dyn Write,
}

impl<'o> Changes<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out }
    }
}

/// The columns by whose values the rows of a table have to be joined, as its key is not that of its tree.
pub(super) fn joined_by(table: &TableChange) -> Vec<String> {
    let definition = table.table().and_then(|table| table.definition.as_ref());
    let is_other = |definition: &&Definition| !definition.without_rowid && definition.rowid_alias.is_none();
    let Some(definition) = definition.filter(is_other) else { return Vec::new() };
    let columns = key_columns(definition).into_iter().filter_map(|place| definition.columns.get(place));
    columns.map(|column| column.name.clone()).collect()
}

impl Writer for Changes<'_> {
    fn table(&mut self, table: &TableChange) -> Result<(), Error> {
        let not = |why: &str| Err(Error::NotComparable { table: table.name.clone(), why: why.to_owned() });
        if table.is_schema_changed() || table.compared == Compared::Replaced {
            return not("its definition is another, of which a changeset says nothing; use the format sql");
        }
        let Some(definition) = table.new.as_ref().and_then(|table| table.definition.as_ref()) else {
            return not("its definition is not understood");
        };
        let key = key_columns(definition);
        // What stands for each column is its place in the key, from 1 on: a table of which one is another is passed over silently.
        let place_in_key = |place: &usize| {
            let nth = key.iter().position(|column| column == place);
            nth.map_or(0, |nth| u8::try_from(nth + 1).unwrap_or(u8::MAX))
        };
        let mut flags: Vec<u8> = stored(definition).iter().map(place_in_key).collect();
        if key.is_empty() {
            flags.insert(0, 1);
        }
        let mut header = vec![b'T'];
        put_varint(&mut header, crate::bytes::long(flags.len()));
        header.extend(flags);
        header.extend(table.name.as_bytes());
        header.push(0);
        Ok(self.out.write_all(&header)?)
    }

    fn row(&mut self, table: &TableChange, difference: &Difference<'_>) -> Result<(), Error> {
        match difference {
            Difference::Inserted(row) => self.whole(table, INSERT, row),
            Difference::Deleted(row) => self.whole(table, DELETE, row),
            Difference::Updated { old, new, columns } => {
                let changed = |place: usize| {
                    columns
                        .iter()
                        .filter_map(|nth| table.columns.get(*nth))
                        .any(|pair| pair.new == Some(place))
                };
                let key = key_columns(new.definition());
                self.out.write_all(&[UPDATE, 0])?;
                self.record(table, old, |place| key.contains(&place) || changed(place), true)?;
                self.record(table, new, |place| !key.contains(&place) && changed(place), false)
            }
        }
    }

    fn end(&mut self, _: Written, _: Option<String>) -> Result<(), Error> {
        Ok(())
    }
}

/// The places of the columns that a changeset has: those that are not computed.
fn stored(definition: &Definition) -> Vec<usize> {
    let columns = definition.columns.iter().enumerate();
    columns.filter(|(_, column)| column.generated.is_none()).map(|(place, _)| place).collect()
}

impl Changes<'_> {
    fn whole(&mut self, table: &TableChange, operation: u8, row: &Row<'_>) -> Result<(), Error> {
        self.out.write_all(&[operation, 0])?;
        self.record(table, row, |_| true, true)
    }

    /// Writes the values of a row that are told, by the places that they have in the newer version.
    fn record(
        &mut self,
        table: &TableChange,
        row: &Row<'_>,
        is_told: impl Fn(usize) -> bool,
        with_rowid: bool,
    ) -> Result<(), Error> {
        let definition = row.definition();
        let key = key_columns(definition);
        if let (true, Some(rowid)) = (key.is_empty(), row.rowid()) {
            match with_rowid {
                true => write_value(&Value::Integer(rowid), self.out)?,
                false => self.out.write_all(&[UNDEFINED])?,
            }
        }
        for place in stored(definition) {
            if !is_told(place) {
                self.out.write_all(&[UNDEFINED])?;
                continue;
            }
            let value = row.value(place)?;
            if matches!(value, Value::Null) && key.contains(&place) {
                let why =
                    "a row has NULL in its primary key, which no changeset can have; use the format sql";
                return Err(Error::NotComparable { table: table.name.clone(), why: why.to_owned() });
            }
            write_value(&value, self.out)?;
        }
        Ok(())
    }
}

fn write_value(value: &Value<'_>, out: &mut dyn Write) -> Result<(), Error> {
    match value {
        Value::Null => Ok(out.write_all(&[NULL])?),
        Value::Integer(number) => Ok(out.write_all(&[&[INTEGER], number.to_be_bytes().as_slice()].concat())?),
        Value::Real(number) => Ok(out.write_all(&[&[REAL], number.to_be_bytes().as_slice()].concat())?),
        Value::Blob(bytes) => write_bytes(BLOB, bytes, out),
        Value::Text(text) if text.encoding == Encoding::Utf8 => write_bytes(TEXT, &text.stored, out),
        Value::Text(text) => write_as_utf8(text, out),
    }
}

fn write_bytes(kind: u8, bytes: &Bytes<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut head = vec![kind];
    put_varint(&mut head, bytes.len());
    out.write_all(&head)?;
    bytes.parts(&mut |part| Ok(out.write_all(part)?))
}

fn write_as_utf8(text: &Text<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut len = 0;
    text.parts(&mut |part| {
        len += crate::bytes::long(part.len());
        Ok(())
    })?;
    let mut head = vec![TEXT];
    put_varint(&mut head, len);
    out.write_all(&head)?;
    text.parts(&mut |part| Ok(out.write_all(part.as_bytes())?))
}

/// A number as SQLite writes one of variable length (<https://sqlite.org/fileformat2.html#varint>); all here are below 2^56.
fn put_varint(out: &mut Vec<u8>, number: u64) {
    let mut bytes = vec![(number & 0x7f).to_le_bytes()[0]];
    let mut rest = number >> 7;
    while rest > 0 {
        bytes.push((rest & 0x7f | 0x80).to_le_bytes()[0]);
        rest >>= 7;
    }
    bytes.reverse();
    out.extend(bytes);
}
