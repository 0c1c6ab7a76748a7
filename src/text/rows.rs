//! Rows and values for people.

use std::fmt::Write as _;

use asat_wire::Fields;
use serde_json::Value;

use super::{clean, short};

/// No value is shown with more characters than this; the formats for programs have all of it.
const WIDTH: usize = 80;

/// A change of a row: all of it if it is new or gone, else its key and what changed.
pub(crate) fn change(
    key: &Fields,
    changed: &[String],
    before: Option<&Fields>,
    after: Option<&Fields>,
) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return before.or(after).map(fields).unwrap_or_default();
    };
    let mut text = fields(key);
    for (nth, column) in changed.iter().enumerate() {
        let [old, new] = [before, after].map(|row| row.get(column).map_or_else(|| "none".to_owned(), value));
        let _ = write!(text, "{}{}: {old} -> {new}", if nth == 0 { "  " } else { ", " }, clean(column));
    }
    text
}

/// The values of a row by their columns.
pub(crate) fn fields(Fields(fields): &Fields) -> String {
    let each: Vec<String> =
        fields.iter().map(|(name, of_it)| format!("{}={}", clean(name), value(of_it))).collect();
    each.join(" ")
}

/// A value as SQL would write it.
pub(crate) fn value(value: &Value) -> String {
    let one = |name: &str| value.get(name).and_then(Value::as_str);
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => format!("'{}'", short(&text.replace('\'', "''"), WIDTH)),
        Value::Object(_) => match (one("hex"), one("text_hex"), one("real")) {
            (Some(hex), _, _) => format!("x'{}'", short(hex, WIDTH)),
            (_, Some(hex), _) => format!("cast(x'{}' as text)", short(hex, WIDTH)),
            (_, _, Some(real)) => clean(real),
            _ => short(&value.to_string(), WIDTH),
        },
        other => clean(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(value: Value) -> Fields {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn values_are_written_as_sql_writes_them() {
        let cases = [
            (json!(null), "NULL"),
            (json!(9_007_199_254_740_993_i64), "9007199254740993"),
            (json!(2.5), "2.5"),
            (json!("it's\u{1b}"), "'it''s\\u{1b}'"),
            (json!({"hex": "00ff"}), "x'00ff'"),
            (json!({"real": "-inf"}), "-inf"),
            (json!({"text_hex": "ff"}), "cast(x'ff' as text)"),
        ];
        for (of_it, expected) in cases {
            assert_eq!(value(&of_it), expected);
        }
    }

    #[test]
    fn a_changed_row_shows_its_key_and_what_changed() {
        let (key, before) = (row(json!({"id": 7})), row(json!({"id": 7, "name": "a", "price": 3})));
        let after = row(json!({"id": 7, "name": "b", "price": 4}));
        let changed = ["name".to_owned(), "price".to_owned()];
        let text = change(&key, &changed, Some(&before), Some(&after));
        assert_eq!(text, "id=7  name: 'a' -> 'b', price: 3 -> 4");
        assert_eq!(change(&key, &[], None, Some(&after)), "id=7 name='b' price=4");
    }
}
