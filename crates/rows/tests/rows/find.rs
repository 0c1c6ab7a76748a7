//! One row by its key: what is found is what SQL says, and few pages are read.

use asat_rows::{Key, Row, Version};

use crate::common::dice::Dice;
use crate::common::history::History;
use crate::common::source::Memory;
use crate::common::truth::{Plain, content};

fn values(row: &Row<'_>) -> Vec<Plain> {
    let columns = row.definition().columns.iter().enumerate();
    let stored = columns.filter(|(_, column)| column.generated != Some(asat_rows::Generated::Virtual));
    stored.map(|(place, _)| Plain::of_row(&row.value(place).unwrap())).collect()
}

/// A key as a person writes it.
fn written(values: &[&Plain]) -> Option<String> {
    let json = values.iter().map(|value| {
        Some(match value {
            Plain::Integer(number) => number.to_string(),
            Plain::Real(bits) => format!("{:?}", f64::from_bits(*bits)),
            Plain::Text(text) => serde_json::Value::from(String::from_utf8(text.clone()).ok()?).to_string(),
            Plain::Null | Plain::Blob(_) => return None,
        })
    });
    Some(format!("[{}]", json.collect::<Option<Vec<_>>>()?.join(",")))
}

/// Looks up some rows of a table by their keys; answers how many.
fn check(seed: u64, file: &Memory, history: &History, table: &str, key: &[&str], dice: &mut Dice) -> usize {
    let version = Version::open("new", file).unwrap();
    let schema = version.schema().unwrap();
    let Some(found) = schema.table(table) else { return 0 };
    let definition = found.definition.as_ref().unwrap();
    let truth = content(&history.new, table);
    let places: Vec<usize> =
        key.iter().map(|name| truth.columns.iter().position(|column| column == name).unwrap()).collect();
    let mut looked = 0;
    for (rowid, row) in truth.rows.iter().filter(|_| dice.percent(20)) {
        let of_row: Vec<&Plain> = places.iter().map(|place| &row[*place]).collect();
        let text = match (rowid.as_slice(), places.as_slice()) {
            ([Plain::Integer(rowid)], []) => rowid.to_string(),
            ([Plain::Integer(rowid)], [_]) if definition.rowid_alias.is_some() => rowid.to_string(),
            _ => match written(&of_row) {
                Some(text) => text,
                None => continue,
            },
        };
        let key = Key::parse(table, definition, version.encoding(), &text).unwrap();
        file.reads.set(0);
        let row_found = version.find(&schema, found, &key).unwrap();
        let row_found = row_found.unwrap_or_else(|| panic!("seed {seed}, {table}, {text}: not found"));
        assert_eq!(values(&row_found), *row, "seed {seed}, {table}, {text}");
        // Some pages down each of two trees, and what long keys and the row itself have elsewhere.
        assert!(file.reads.get() < 120, "seed {seed}, {table}: {} pages", file.reads.get());
        looked += 1;
    }
    let none = match key.len() {
        2 => "[\"none\", 7]",
        _ if definition.rowid_alias.is_some() || key.is_empty() => "-77",
        _ => "none",
    };
    let none = Key::parse(table, definition, version.encoding(), none).unwrap();
    assert!(version.find(&schema, found, &none).unwrap().is_none(), "seed {seed}, {table}");
    looked
}

#[test]
fn rows_are_found_by_their_keys() {
    let mut looked = 0;
    for seed in 0..150 {
        let (history, mut dice) = (History::new(seed), Dice::new(seed));
        let file = Memory::open(&history.new);
        for (table, key) in [
            ("t", &["id"][..]),
            ("n", &[]),
            ("w", &["k", "d"]),
            ("r", &["k"]),
            ("g", &["id"]),
            ("p", &["code"]),
            ("s", &["id"]),
            ("odd \"one", &[]),
        ] {
            looked += check(seed, &file, &history, table, key, &mut dice);
        }
    }
    assert!(looked > 5000, "{looked}");
}
