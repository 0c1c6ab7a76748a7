//! The key of a row, as a person writes it.

use crate::collation::KeyValue;
use crate::error::Error;
use crate::schema::affinity::number;
use crate::schema::constant::Constant;
use crate::schema::table::{Column, Definition};
use crate::version::Encoding;

/// The key of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// Its rowid.
    Rowid(i64),
    /// The values of the columns of the primary key, in its order.
    Columns(Vec<KeyValue>),
}

impl Key {
    /// Reads a key of a table. A key of one column is the value itself, which becomes what the column would make of it. Several
    /// columns are written as a JSON array, `["EUR",7]`, or with commas between them; in an array, a value is of the type that it has in
    /// JSON, or an object as the differences are written with: `{"hex":"00ff"}` is a blob.
    ///
    /// # Errors
    /// [`Error::Key`] if it is no key of this table.
    pub fn parse(
        table: &str,
        definition: &Definition,
        encoding: Encoding,
        text: &str,
    ) -> Result<Self, Error> {
        let wrong = |why: String| Error::Key { table: table.to_owned(), why };
        if definition.rowid_alias.is_some() || definition.key.is_empty() {
            let rowid = text.trim().parse();
            return rowid.map(Self::Rowid).map_err(|_| wrong(format!("{text:?} is no integer")));
        }
        let columns: Vec<&Column> =
            definition.key.iter().filter_map(|part| definition.columns.get(part.column)).collect();
        let values = written(text, &columns).map_err(wrong)?;
        if values.len() != columns.len() {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let what =
                format!("it has {} values, and the key has the columns {}", values.len(), names.join(", "));
            return Err(wrong(what));
        }
        let values = values.into_iter().zip(columns);
        Ok(Self::Columns(
            values
                .map(|(value, column)| match value {
                    Written::Value(value) => stored(column.affinity.apply(value), encoding),
                    Written::Text(bytes) => KeyValue::Text(bytes),
                })
                .collect(),
        ))
    }
}

/// A value of a key as it is written.
enum Written {
    Value(Constant),
    /// A text that is not well-formed, as it is stored.
    Text(Vec<u8>),
}

/// The values of a key as they are written.
fn written(text: &str, columns: &[&Column]) -> Result<Vec<Written>, String> {
    if text.trim_start().starts_with('[') {
        let values: Vec<serde_json::Value> =
            serde_json::from_str(text).map_err(|error| format!("it is no JSON array: {error}"))?;
        return values.into_iter().map(of_json).collect();
    }
    // A column without a type keeps what it is given: what looks like a number most likely is one there.
    let value = |text: &str, column: &Column| match column.affinity {
        crate::Affinity::Blob => number(text).unwrap_or_else(|| Constant::Text(text.to_owned())),
        _ => Constant::Text(text.to_owned()),
    };
    let value = |text, column| Written::Value(value(text, column));
    match columns {
        [column] => Ok(vec![value(text, column)]),
        _ => Ok(text.split(',').zip(columns).map(|(text, column)| value(text, column)).collect()),
    }
}

fn of_json(value: serde_json::Value) -> Result<Written, String> {
    use serde_json::Value;
    let read = match &value {
        Value::Null => Some(Constant::Null),
        Value::String(text) => Some(Constant::Text(text.clone())),
        Value::Number(number) => {
            number.as_i64().map(Constant::Integer).or_else(|| number.as_f64().map(Constant::Real))
        }
        Value::Object(members) => return of_object(members).ok_or_else(|| no_value(&value)),
        Value::Bool(_) | Value::Array(_) => None,
    };
    read.map(Written::Value).ok_or_else(|| no_value(&value))
}

fn no_value(value: &serde_json::Value) -> String {
    format!("{value} is no value of a column")
}

/// What JSON has no value for, as [`crate::written::json`] writes it.
fn of_object(members: &serde_json::Map<String, serde_json::Value>) -> Option<Written> {
    let mut members = members.iter();
    let (Some((name, value)), None) = (members.next(), members.next()) else { return None };
    match (name.as_str(), value.as_str()?) {
        ("hex", digits) => bytes(digits).map(Constant::Blob).map(Written::Value),
        ("text_hex", digits) => bytes(digits).map(Written::Text),
        ("real", "inf") => Some(Written::Value(Constant::Real(f64::INFINITY))),
        ("real", "-inf") => Some(Written::Value(Constant::Real(f64::NEG_INFINITY))),
        _ => None,
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect();
    bytes.filter(|_| rest.is_empty())
}

/// A value as it stands in a record.
fn stored(value: Constant, encoding: Encoding) -> KeyValue {
    match value {
        Constant::Null => KeyValue::Null,
        Constant::Integer(number) => KeyValue::Integer(number),
        Constant::Real(number) => KeyValue::Real(number),
        Constant::Blob(bytes) => KeyValue::Blob(bytes),
        Constant::Text(text) => KeyValue::Text(match encoding {
            Encoding::Utf8 => text.into_bytes(),
            Encoding::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(sql: &str, text: &str) -> Result<Key, String> {
        let definition = Definition::parse(sql).unwrap();
        Key::parse("t", &definition, Encoding::Utf8, text).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_read_as_their_columns_would_store_them() {
        let text = |text: &str| KeyValue::Text(text.as_bytes().to_vec());
        let one = "CREATE TABLE t(a TEXT PRIMARY KEY)";
        let two = "CREATE TABLE t(a TEXT, b INT, PRIMARY KEY(a, b))";
        let any = "CREATE TABLE t(a PRIMARY KEY)";
        let cases = [
            ("CREATE TABLE t(a INTEGER PRIMARY KEY)", "-7", Key::Rowid(-7)),
            ("CREATE TABLE t(a)", "7", Key::Rowid(7)),
            (one, "7", Key::Columns(vec![text("7")])),
            (one, "a,b", Key::Columns(vec![text("a,b")])),
            (one, "[\"[\"]", Key::Columns(vec![text("[")])),
            (two, "EUR,7", Key::Columns(vec![text("EUR"), KeyValue::Integer(7)])),
            (two, "[\"E,R\", \"7\"]", Key::Columns(vec![text("E,R"), KeyValue::Integer(7)])),
            (any, "7", Key::Columns(vec![KeyValue::Integer(7)])),
            (any, "[\"7\"]", Key::Columns(vec![text("7")])),
            (any, "[{\"hex\":\"00fF\"}]", Key::Columns(vec![KeyValue::Blob(vec![0, 255])])),
            (any, "[{\"text_hex\":\"ff\"}]", Key::Columns(vec![KeyValue::Text(vec![255])])),
            (any, "[{\"real\":\"-inf\"}]", Key::Columns(vec![KeyValue::Real(f64::NEG_INFINITY)])),
        ];
        for (sql, written, key) in cases {
            assert_eq!(parse(sql, written), Ok(key), "{sql} {written}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let two = "CREATE TABLE t(a TEXT, b INT, PRIMARY KEY(a, b))";
        for (sql, written, why) in [
            ("CREATE TABLE t(a INTEGER PRIMARY KEY)", "seven", "\"seven\" is no integer"),
            ("CREATE TABLE t(a INTEGER PRIMARY KEY)", "99999999999999999999", "is no integer"),
            (two, "EUR", "it has 1 values, and the key has the columns a, b"),
            (two, "[1, 2, 3]", "it has 3 values"),
            (two, "[1, [2]]", "[2] is no value of a column"),
            (two, "[1, {\"hex\":\"0\"}]", "is no value of a column"),
            (two, "[1, {\"hex\":\"+f\"}]", "is no value of a column"),
            (two, "[1, {\"real\":\"nan\"}]", "is no value of a column"),
            (two, "[1, {\"hex\":\"00\",\"real\":\"inf\"}]", "is no value of a column"),
            (two, "[1,", "it is no JSON array"),
        ] {
            let error = parse(sql, written).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
