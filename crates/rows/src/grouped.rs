//! Differences by other columns than the key: rows that were renumbered are the same rows then.

use std::collections::HashMap;

use crate::comparison::{ColumnPair, TableChange};
use crate::differences::{Difference, Differences, is_different};
use crate::error::Error;
use crate::row::Row;
use crate::value::Value;

/// So many bytes of rows are held in memory at most.
const MOST_BYTES: usize = 64 << 20;
/// What a row takes besides its bytes.
const ROW_BYTES: usize = 300;

/// The rows of one key that differ.
#[derive(Default)]
struct Group<'c> {
    old: Vec<Row<'c>>,
    new: Vec<Row<'c>>,
}

/// The differences of a table, joined by columns: equal rows cancel, and rows with the same values in these columns are the same row
/// with other values. They come in the order in which their keys were met.
///
/// # Errors
/// If there is no such column, more differs than memory is given for, or rows cannot be read.
pub(crate) fn by<'c>(
    table: &'c TableChange,
    columns: &[String],
    differences: Differences<'c>,
) -> Result<Vec<Difference<'c>>, Error> {
    let columns = places(table, columns)?;
    let (mut groups, mut order): (HashMap<Vec<u8>, Group<'c>>, Vec<Vec<u8>>) = Default::default();
    let mut bytes = 0;
    let mut put = |row: Row<'c>, is_old: bool| {
        let key = key_of(&row, table, &columns, is_old)?;
        bytes += row.held_bytes() + key.len() + ROW_BYTES;
        if bytes > MOST_BYTES {
            let mib = MOST_BYTES >> 20;
            let why =
                format!("more differs than {mib} MiB, which is all that is held to join rows by columns");
            return Err(Error::NotComparable { table: table.name.clone(), why });
        }
        let group = groups.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            Group::default()
        });
        if is_old { &mut group.old } else { &mut group.new }.push(row);
        Ok(())
    };
    for difference in differences {
        match difference? {
            Difference::Inserted(row) => put(row, false)?,
            Difference::Deleted(row) => put(row, true)?,
            Difference::Updated { old, new, .. } => {
                put(old, true)?;
                put(new, false)?;
            }
        }
    }
    let mut all = Vec::new();
    for key in order {
        let Some(group) = groups.remove(&key) else { continue };
        group.into_differences(table, &mut all)?;
    }
    Ok(all)
}

/// The columns of these names.
fn places<'t>(table: &'t TableChange, columns: &[String]) -> Result<Vec<&'t ColumnPair>, Error> {
    let place = |name: &String| {
        let column = table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        column.ok_or_else(|| {
            let why = format!("it has no column {name}");
            Error::NotComparable { table: table.name.clone(), why }
        })
    };
    columns.iter().map(place).collect()
}

fn key_of(
    row: &Row<'_>,
    table: &TableChange,
    columns: &[&ColumnPair],
    is_old: bool,
) -> Result<Vec<u8>, Error> {
    let mut key = Vec::new();
    for column in columns {
        let place = if is_old { column.old } else { column.new };
        let value = place.map_or(Ok(Value::Null), |place| row.value(place))?;
        write_key(&value, &mut key, table)?;
    }
    Ok(key)
}

/// Writes a value so that two are written alike only if they are the same.
fn write_key(value: &Value<'_>, key: &mut Vec<u8>, table: &TableChange) -> Result<(), Error> {
    let stored = match value {
        Value::Null => {
            key.push(0);
            return Ok(());
        }
        Value::Integer(number) => {
            key.push(1);
            key.extend(number.to_be_bytes());
            return Ok(());
        }
        Value::Real(number) => {
            key.push(2);
            key.extend((number + 0.0).to_be_bytes());
            return Ok(());
        }
        Value::Text(text) => {
            key.push(3);
            text.stored
        }
        Value::Blob(bytes) => {
            key.push(4);
            *bytes
        }
    };
    let Some(held) = stored.held() else {
        let why = "rows cannot be joined by values longer than 1 MiB".to_owned();
        return Err(Error::NotComparable { table: table.name.clone(), why });
    };
    key.extend(crate::bytes::long(held.len()).to_be_bytes());
    key.extend_from_slice(held);
    Ok(())
}

impl<'c> Group<'c> {
    fn into_differences(self, table: &TableChange, all: &mut Vec<Difference<'c>>) -> Result<(), Error> {
        let Self { old, mut new } = self;
        let mut left = Vec::new();
        for old in old {
            let mut same = None;
            for (nth, new) in new.iter().enumerate() {
                if changed_columns(&old, new, table)?.is_empty() {
                    same = Some(nth);
                    break;
                }
            }
            match same {
                Some(nth) => drop(new.remove(nth)),
                None => left.push(old),
            }
        }
        let mut new = new.into_iter();
        for old in left {
            match new.next() {
                Some(new) => {
                    let columns = changed_columns(&old, &new, table)?;
                    all.push(Difference::Updated { old, new, columns });
                }
                None => all.push(Difference::Deleted(old)),
            }
        }
        all.extend(new.map(Difference::Inserted));
        Ok(())
    }
}

fn changed_columns(old: &Row<'_>, new: &Row<'_>, table: &TableChange) -> Result<Vec<usize>, Error> {
    let mut columns = Vec::new();
    for (place, pair) in table.columns.iter().enumerate() {
        if is_different(old, new, pair)? {
            columns.push(place);
        }
    }
    Ok(columns)
}
