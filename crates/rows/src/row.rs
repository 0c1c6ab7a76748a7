//! One row of one version.

use std::sync::OnceLock;

use crate::btree::{Cell, Node};
use crate::bytes::{long, short};
use crate::collation::KeyValue;
use crate::error::Error;
use crate::payload::Payload;
use crate::record::{Field, fields, integer, real};
use crate::schema::affinity::Affinity;
use crate::schema::constant::Constant;
use crate::schema::table::{Definition, Generated};
use crate::value::{Bytes, Source, Text, Value};
use crate::version::{Encoding, Version};

/// What a row needs to know of its table.
pub(crate) type Layout<'r> = &'r Definition;

/// SQLite has no table of more columns.
const MOST_FIELDS: usize = 32767;

/// A row.
#[derive(Clone, Debug)]
pub struct Row<'r> {
    version: &'r Version<'r>,
    layout: Layout<'r>,
    rowid: Option<i64>,
    payload: Payload,
    fields: Vec<Field>,
    /// Numbers that lie behind what is in memory, by where they are.
    far: Vec<(u64, Vec<u8>)>,
}

impl<'r> Row<'r> {
    /// Reads a row of a cell.
    pub(crate) fn read(
        version: &'r Version<'r>,
        layout: Layout<'r>,
        node: &Node,
        cell: &Cell,
    ) -> Result<Self, Error> {
        let payload = Payload::read(version, node, cell)?;
        let fields = fields(&payload.held, payload.len, MOST_FIELDS);
        let fields = fields.map_err(|what| payload.damaged(version, what))?;
        let rowid = node.kind.is_table().then_some(cell.rowid);
        let far = far_numbers(version, &payload, &fields)?;
        Ok(Self { version, layout, rowid, payload, fields, far })
    }

    /// Its rowid, if its table has rowids.
    #[must_use]
    pub fn rowid(&self) -> Option<i64> {
        self.rowid
    }

    /// How many bytes of it are in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.payload.held.len()
    }

    /// What its table's definition says.
    #[must_use]
    pub fn definition(&self) -> &'r Definition {
        self.layout
    }

    /// The value of a column, by its place in the definition. Columns that are computed when they are read have none, and are NULL here.
    ///
    /// # Errors
    /// Where nobody can tell the value, as the row is older than the column and its default is not understood.
    pub fn value(&self, column: usize) -> Result<Value<'_>, Error> {
        let Some(definition) = self.layout.columns.get(column) else { return Ok(Value::Null) };
        if let (Some(rowid), true) = (self.rowid, self.layout.rowid_alias == Some(column)) {
            return Ok(Value::Integer(rowid));
        }
        if definition.generated == Some(Generated::Virtual) {
            return Ok(Value::Null);
        }
        if let Some(&field) = definition.field.and_then(|field| self.fields.get(field)) {
            return Ok(self.decode(field, definition.affinity));
        }
        match &definition.default {
            Some(constant) => Ok(constant.value()),
            None => {
                let what =
                    format!("a row has no field for {}, whose default is not understood", definition.name);
                Err(self.payload.damaged(self.version, what))
            }
        }
    }

    fn decode(&self, field: Field, affinity: Affinity) -> Value<'_> {
        let bytes = self.bytes(field);
        let held = bytes.held().unwrap_or_default();
        match field.serial {
            0 => Value::Null,
            // SQLite itself reads what is not a number as NULL.
            7 if real(held).is_nan() => Value::Null,
            7 => Value::Real(real(held)),
            #[allow(clippy::cast_precision_loss, reason = "SQLite stores real numbers so that are whole")]
            1..=9 if affinity == Affinity::Real => Value::Real(integer(field.serial, held) as f64),
            1..=9 => Value::Integer(integer(field.serial, held)),
            serial if serial % 2 == 0 => Value::Blob(bytes),
            _ => Value::Text(Text { stored: bytes, encoding: self.version.encoding() }),
        }
    }

    fn bytes(&self, field: Field) -> Bytes<'_> {
        let (at, len) = (field.at, field.len());
        let far =
            || self.far.iter().find(|(number_at, _)| *number_at == at).map(|(_, number)| number.as_slice());
        match self.payload.slice(at, len).or_else(far) {
            Some(held) => Bytes::of(held),
            None => Bytes { source: Source::Far { version: self.version, payload: &self.payload, at, len } },
        }
    }
}

/// Reads numbers that lie behind what is in memory of a long record, all in one way along its chain.
fn far_numbers<'v>(
    version: &'v Version<'v>,
    payload: &'v Payload,
    fields: &[Field],
) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let is_far =
        |field: &&Field| matches!(field.serial, 1..=7) && payload.slice(field.at, field.len()).is_none();
    let mut numbers: Vec<(u64, Vec<u8>)> = Vec::new();
    let Some(last) = fields.iter().rev().find(is_far) else { return Ok(numbers) };
    let mut at = payload.held_len();
    let mut windows = payload.windows(version, at, last.at + last.len() - at);
    let mut window = windows.next()?;
    for field in fields.iter().filter(is_far) {
        let mut number = payload.slice_from(field.at).to_vec();
        while long(number.len()) < field.len() && !window.is_empty() {
            let from = field.at + long(number.len());
            let part = window.get(short(from - at)..).unwrap_or_default();
            number.extend(part.iter().take(short(field.len()) - number.len()));
            if long(number.len()) < field.len() {
                at += long(window.len());
                window = windows.next()?;
            }
        }
        numbers.push((field.at, number));
    }
    Ok(numbers)
}

impl Constant {
    /// A default as a value.
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Real(number) => Value::Real(*number),
            Self::Text(text) => {
                Value::Text(Text { stored: Bytes::of(text.as_bytes()), encoding: Encoding::Utf8 })
            }
            Self::Blob(bytes) => Value::Blob(Bytes::of(bytes)),
        }
    }
}

/// The first values of a record, if they lie in these bytes of it.
pub(crate) fn key(held: &[u8], len: u64, count: usize) -> Result<Option<Vec<KeyValue>>, &'static str> {
    let fields = match fields(held, len, count) {
        Ok(fields) => fields,
        Err(what) if long(held.len()) == len => return Err(what),
        Err(_) => return Ok(None),
    };
    let value = |field: &Field| {
        let bytes = held.get(short(field.at)..short(field.at + field.len()))?;
        Some(match field.serial {
            0 => KeyValue::Null,
            7 => KeyValue::Real(real(bytes)),
            1..=9 => KeyValue::Integer(integer(field.serial, bytes)),
            serial if serial % 2 == 0 => KeyValue::Blob(bytes.to_vec()),
            _ => KeyValue::Text(bytes.to_vec()),
        })
    };
    Ok(fields.iter().map(value).collect())
}

impl Definition {
    /// That of `sqlite_schema`.
    pub(crate) fn of_schema() -> Layout<'static> {
        static SCHEMA: OnceLock<Definition> = OnceLock::new();
        SCHEMA.get_or_init(|| {
            let sql =
                "CREATE TABLE sqlite_schema(type TEXT, name TEXT, tbl_name TEXT, rootpage INT, sql TEXT)";
            Definition::parse(sql).unwrap_or_else(|| Self::nothing().clone())
        })
    }
}
