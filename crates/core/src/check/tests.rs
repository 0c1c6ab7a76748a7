//! What answers mean, as tables.

#![allow(clippy::cast_possible_truncation, reason = "it saturates, as it should")]

use proptest::prelude::*;

use super::*;

fn text(text: &str) -> Value {
    Value::text(text)
}

fn one(value: Value) -> Rows {
    Rows { first: vec![vec![value]], more: false }
}

fn query(expected: Expected) -> Check {
    let test = Test::Query { sql: "select 1".to_owned(), expected };
    Check { name: "c".to_owned(), test, deadline: Check::DEADLINE }
}

fn built_in(test: Test) -> Check {
    Check { test, ..query(Expected::NoRows) }
}

#[test]
fn what_a_value_must_be() {
    let cases = [
        (text("0"), Value::Integer(0), true),
        (text("0"), Value::Real(0.0), true),
        (text("0"), Value::Real(-0.0), true),
        (text("0"), text("0"), true),
        (text("0"), Value::Integer(1), false),
        (text("0"), Value::Null, false),
        (text("0"), text("00"), false),
        (text("00"), text("00"), true),
        (text("0.5"), Value::Real(0.5), true),
        (text("open"), text("open"), true),
        (text("open"), text("Open"), false),
        (text("open"), Value::Integer(0), false),
        (text("NULL"), Value::Null, false),
        (text("inf"), Value::Real(f64::INFINITY), false),
        (text(""), text(""), true),
        (text(""), Value::Blob(0), false),
        (Value::Integer(7), Value::Integer(7), true),
        (Value::Integer(7), Value::Real(7.0), true),
        (Value::Integer(7), text("7"), false),
        (Value::Integer(7), Value::Blob(7), false),
        (Value::Integer(i64::MAX), Value::Real(9_223_372_036_854_775_807.0), false),
        (Value::Real(2.5), Value::Real(2.5), true),
        (Value::Real(2.0), Value::Integer(2), true),
    ];
    for (wanted, found, is_met) in cases {
        let judged = query(Expected::Equals(wanted.clone())).judge(&one(found.clone()));
        assert_eq!(judged.is_ok(), is_met, "{wanted:?} {found:?}: {judged:?}");
    }
}

#[test]
fn what_a_value_must_reach() {
    let cases = [
        (Value::Integer(1000), Value::Integer(1000), true),
        (Value::Integer(1000), Value::Integer(999), false),
        (Value::Integer(1000), Value::Real(999.9), false),
        (Value::Integer(1000), Value::Real(1000.1), true),
        (Value::Real(0.5), Value::Integer(1), true),
        (Value::Real(0.5), Value::Integer(0), false),
        (Value::Real(-0.5), Value::Integer(-1), false),
        (Value::Integer(0), Value::Null, false),
        (Value::Integer(0), text("5"), false),
        (Value::Integer(0), Value::Blob(5), false),
        (Value::Integer(0), Value::Real(f64::NAN), false),
        (Value::Integer(i64::MAX), Value::Real(f64::INFINITY), true),
        (Value::Integer(i64::MIN), Value::Real(f64::NEG_INFINITY), false),
    ];
    for (least, found, is_met) in cases {
        let judged = query(Expected::AtLeast(least.clone())).judge(&one(found.clone()));
        assert_eq!(judged.is_ok(), is_met, "{least:?} {found:?}: {judged:?}");
    }
}

#[test]
fn what_is_said_of_an_answer() {
    let pair = vec![Value::Integer(1), text("a\n\"b\"")];
    let many = Rows { first: vec![pair.clone(), vec![Value::Null, Value::Blob(3)]], more: true };
    let wide = Rows { first: vec![vec![Value::Integer(0); 21]], more: false };
    let zero = || query(Expected::Equals(text("0")));
    let cases = [
        (query(Expected::NoRows), Rows::default(), Ok("no rows")),
        (
            query(Expected::NoRows),
            many.clone(),
            Err("no rows were expected, and there are more than 2 rows: \
                 (1, \"a\\n\\\"b\\\"\"), (NULL, a blob of 3 bytes), …"),
        ),
        (
            query(Expected::NoRows),
            wide,
            Err("no rows were expected, and there is 1 row: \
                 (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, …)"),
        ),
        (zero(), one(Value::Integer(0)), Ok("0")),
        (zero(), one(Value::Integer(12)), Err("\"0\" was expected, and 12 was found")),
        (zero(), one(Value::Null), Err("\"0\" was expected, and NULL was found")),
        (zero(), Rows::default(), Err("one value was expected, and there are no rows")),
        (
            zero(),
            Rows { first: vec![pair], more: false },
            Err("one value was expected, and the row has 2 columns"),
        ),
        (
            zero(),
            Rows { first: vec![vec![Value::Integer(0)]], more: true },
            Err("one value was expected, and there are more than 1 rows: (0), …"),
        ),
        (
            query(Expected::AtLeast(Value::Integer(10))),
            one(Value::Real(9.5)),
            Err("at least 10 was expected, and 9.5 was found"),
        ),
        (built_in(Test::QuickCheck), one(text("ok")), Ok("ok")),
        (
            built_in(Test::QuickCheck),
            one(text("row 3 missing")),
            Err("the database is damaged: (\"row 3 missing\")"),
        ),
        (built_in(Test::QuickCheck), Rows::default(), Err("the database is damaged: ")),
        (built_in(Test::ForeignKeyCheck), Rows::default(), Ok("no rows")),
    ];
    for (check, rows, expected) in cases {
        let judged = check.judge(&rows);
        assert_eq!(judged.as_deref().map_err(String::as_str), expected);
    }
}

#[test]
fn little_is_told_of_what_is_long() {
    let long = text(&"ä".repeat(100_000));
    assert_eq!(long.to_string().chars().count(), 103);
    // What is cut off a text does not make it one that was expected.
    let wanted = text(&"ä".repeat(Value::MOST_CHARS));
    assert!(query(Expected::Equals(wanted.clone())).judge(&one(long)).is_err());
    assert!(query(Expected::Equals(wanted.clone())).judge(&one(wanted)).is_ok());
}

proptest! {
    /// Integers and fractions compare as exact numbers do.
    #[test]
    fn mixed_numbers_compare_exactly(a: i64, near in -2_i64..=2, b: f64) {
        let exact = |b: f64| i128::from(a).cmp(&(b.floor() as i128)).then(
            if b > b.floor() { std::cmp::Ordering::Less } else { std::cmp::Ordering::Equal });
        for b in [b, a.saturating_add(near) as f64, a as f64 / 4.0] {
            let expected = (!b.is_nan()).then(|| exact(b));
            prop_assert_eq!(Value::Integer(a).compare(&Value::Real(b)), expected);
            let reversed = expected.map(std::cmp::Ordering::reverse);
            prop_assert_eq!(Value::Real(b).compare(&Value::Integer(a)), reversed);
        }
    }
}
