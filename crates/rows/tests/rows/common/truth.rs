//! What SQL says of two files: the rows of each table by their keys, joined.

use std::collections::BTreeMap;
use std::path::Path;

use asat_rows::{Comparison, Difference, Row, Text, Value};
use rusqlite::types::ValueRef;

use super::history::{History, open};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plain {
    Null,
    Integer(i64),
    Real(u64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

/// What became of a row: as it was, and as it is.
pub type Change = (Option<Vec<Plain>>, Option<Vec<Plain>>);

/// A table of one file: its stored columns, and its rows by key.
pub struct Content {
    pub columns: Vec<String>,
    pub rows: BTreeMap<Vec<Plain>, Vec<Plain>>,
}

impl Plain {
    fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real((number + 0.0).to_bits()),
            ValueRef::Text(text) => Self::Text(text.to_vec()),
            ValueRef::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }

    pub fn of_row(value: &Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(*number),
            Value::Real(number) => Self::Real((number + 0.0).to_bits()),
            Value::Text(text) => Self::Text(whole(text).into_bytes()),
            Value::Blob(bytes) => {
                let mut whole = Vec::new();
                bytes
                    .parts(&mut |part| {
                        whole.extend_from_slice(part);
                        Ok(())
                    })
                    .unwrap();
                Self::Blob(whole)
            }
        }
    }
}

fn whole(text: &Text<'_>) -> String {
    let mut whole = String::new();
    text.parts(&mut |part| {
        whole.push_str(part);
        Ok(())
    })
    .unwrap();
    whole
}

/// Reads a table by SQL.
pub fn content(path: &Path, table: &str) -> Content {
    let connection = open(path);
    let quoted = format!("\"{}\"", table.replace('"', "\"\""));
    let sql = "select name, pk from pragma_table_xinfo(?1) where hidden <> 2";
    let mut statement = connection.prepare(sql).unwrap();
    let columns: Vec<(String, u32)> = statement
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    let list: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let sql = "select sql like '%without rowid%' from sqlite_schema where name = ?1 and type = 'table'";
    let without_rowid: bool = connection.query_row(sql, [table], |row| row.get(0)).unwrap();
    let key = if without_rowid { "null" } else { "_rowid_" };
    let mut statement =
        connection.prepare(&format!("select {key}, {} from {quoted}", list.join(", "))).unwrap();
    let mut found = statement.query([]).unwrap();
    let mut rows = BTreeMap::new();
    while let Some(row) = found.next().unwrap() {
        let values: Vec<Plain> = (1..=names.len()).map(|at| Plain::of(row.get_ref(at).unwrap())).collect();
        let mut of_key: Vec<usize> = (0..names.len()).filter(|&at| columns[at].1 > 0).collect();
        of_key.sort_by_key(|&at| columns[at].1);
        let key = if without_rowid {
            of_key.into_iter().map(|at| values[at].clone()).collect()
        } else {
            vec![Plain::of(row.get_ref(0).unwrap())]
        };
        rows.insert(key, values);
    }
    Content { columns: names, rows }
}

/// What became of the rows of a table.
pub fn truth(history: &History, new_name: &str) -> Vec<Change> {
    let old_name = &history.tables[new_name];
    let now = content(&history.new, new_name);
    let before = if old_name.is_empty() {
        Content { columns: Vec::new(), rows: BTreeMap::new() }
    } else {
        content(&history.old, old_name)
    };
    let defaults = [
        ("e1", Plain::Text(b"it's".to_vec())),
        ("e2", Plain::Real(5.0_f64.to_bits())),
        ("e3", Plain::Null),
        ("e4", Plain::Integer(-7)),
    ];
    let renamed = history.columns.get(new_name);
    let is_changed = |old: &Vec<Plain>, new: &Vec<Plain>| {
        now.columns.iter().zip(new).any(|(name, value)| {
            let was = renamed.filter(|(now, _)| now == name).map_or(name, |(_, was)| was);
            match before.columns.iter().position(|column| column == was) {
                Some(at) => &old[at] != value,
                None => defaults.iter().find(|(column, _)| column == name).unwrap().1 != *value,
            }
        })
    };
    let mut changes = Vec::new();
    for (key, old) in &before.rows {
        match now.rows.get(key) {
            None => changes.push((Some(old.clone()), None)),
            Some(new) if is_changed(old, new) => changes.push((Some(old.clone()), Some(new.clone()))),
            Some(_) => {}
        }
    }
    let inserted = now.rows.iter().filter(|(key, _)| !before.rows.contains_key(*key));
    changes.extend(inserted.map(|(_, new)| (None, Some(new.clone()))));
    changes.sort();
    changes
}

/// The same as the crate finds it.
pub fn found(comparison: &Comparison<'_>, name: &str) -> Vec<Change> {
    let table = comparison.table(name).unwrap();
    let values = |row: &Row<'_>| {
        let columns = 0..row.definition().columns.len();
        let is_stored =
            |at: &usize| row.definition().columns[*at].generated != Some(asat_rows::Generated::Virtual);
        columns.filter(is_stored).map(|at| Plain::of_row(&row.value(at).unwrap())).collect::<Vec<_>>()
    };
    let (mut changes, mut last) = (Vec::new(), None);
    for difference in comparison.rows(table).unwrap() {
        let difference = difference.unwrap();
        let rowid = match &difference {
            Difference::Inserted(row) | Difference::Deleted(row) | Difference::Updated { new: row, .. } => {
                row.rowid()
            }
        };
        assert!(rowid.is_none() || rowid > last, "in the order of the key: {rowid:?} behind {last:?}");
        last = rowid;
        changes.push(match &difference {
            Difference::Inserted(row) => (None, Some(values(row))),
            Difference::Deleted(row) => (Some(values(row)), None),
            Difference::Updated { old, new, .. } => (Some(values(old)), Some(values(new))),
        });
    }
    changes.sort();
    changes
}
