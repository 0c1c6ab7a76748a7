//! Rows and values for people.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use asat_wire::{Fields, Side};
use serde_json::Value;

use crate::text::{clean, short};

/// No value is shown with more characters than this; the formats for programs have all of it.
const WIDTH: usize = 80;

/// Whether to colour what is printed: on a terminal, unless `NO_COLOR` says otherwise (<https://no-color.org>).
pub(super) fn is_coloured() -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_unwanted
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Inserted,
    Deleted,
    Updated,
    Heading,
}

impl Mark {
    /// The mark of an operation's name.
    pub(super) fn of(op: &str) -> Self {
        match op {
            "insert" => Self::Inserted,
            "delete" => Self::Deleted,
            "update" => Self::Updated,
            _ => Self::Heading,
        }
    }

    fn sign(self) -> char {
        match self {
            Self::Inserted => '+',
            Self::Deleted => '-',
            Self::Updated => '~',
            Self::Heading => '@',
        }
    }

    /// The escape of its colour (ECMA-48, `SGR`).
    fn colour(self) -> &'static str {
        match self {
            Self::Inserted => "\x1b[32m",
            Self::Deleted => "\x1b[31m",
            Self::Updated => "\x1b[33m",
            Self::Heading => "\x1b[36m",
        }
    }

    /// A line that is marked so.
    pub(super) fn line(self, text: &str, coloured: bool) -> String {
        let (begin, end) = if coloured { (self.colour(), "\x1b[0m") } else { ("", "") };
        format!("{begin}{} {text}{end}", self.sign())
    }
}

/// A change of a row: all of it if it is new or gone, else its key and what changed.
pub(super) fn change(
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
pub(super) fn fields(Fields(fields): &Fields) -> String {
    let each: Vec<String> =
        fields.iter().map(|(name, of_it)| format!("{}={}", clean(name), value(of_it))).collect();
    each.join(" ")
}

/// A value as SQL would write it.
pub(super) fn value(value: &Value) -> String {
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

/// A row that a line has, if it has one.
pub(super) fn row(side: &Option<Side>) -> Option<&Fields> {
    side.as_ref().and_then(Side::row)
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
        assert_eq!(Mark::Updated.line(&text, false), "~ id=7  name: 'a' -> 'b', price: 3 -> 4");
        assert_eq!(change(&key, &[], None, Some(&after)), "id=7 name='b' price=4");
        assert_eq!(Mark::Deleted.line("x", true), "\x1b[31m- x\x1b[0m");
    }
}
