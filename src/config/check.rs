//! The checks of a store: what they may say, and what contradicts itself.

use std::time::Duration;

use asat_core::Problem;
use asat_core::check::{Check, Expected, Test, Value};
use asat_core::check_line;
use asat_host::store::check_query;

use super::raw;
use super::validate::{duration, wrong};

/// The most checks of a store.
const MOST: usize = 100;
/// The longest deadline of a check.
const LONGEST: Duration = Duration::from_secs(3600);

/// The checks of a store, in their order.
pub(super) fn validate(raw: &[raw::Check]) -> Result<Vec<Check>, Problem> {
    if raw.len() > MOST {
        let what = format!("there are {}, and at most {MOST} are made", raw.len());
        return Err(wrong("store.check", what, "put several conditions into one query"));
    }
    let mut checks = Vec::<Check>::new();
    for raw in raw {
        let check = check(raw)?;
        if checks.iter().any(|other| other.name == check.name) {
            let what = format!("{:?} names two checks of one store", check.name);
            return Err(wrong("store.check.name", what, "give each check its own name"));
        }
        checks.push(check);
    }
    Ok(checks)
}

fn check(raw: &raw::Check) -> Result<Check, Problem> {
    let raw::Check { name, query, builtin, equals, at_least, deadline } = raw;
    check_line("store.check.name", Some(name), 100).map_err(|problem| {
        wrong("store.check", problem.detail, "choose a short name that says what holds")
    })?;
    let of = |what: &str| format!("of {name:?} {what}");
    let expected = expected(name, equals.as_ref(), at_least.as_ref())?;
    let test = match (query, builtin.as_deref(), expected) {
        (Some(sql), None, expected) => {
            check_query(sql).map_err(|why| {
                wrong("store.check.query", of(&format!("cannot be asked: {why}")), "write one SELECT")
            })?;
            Test::Query { sql: sql.clone(), expected: expected.unwrap_or(Expected::NoRows) }
        }
        (None, Some("quick_check"), None) => Test::QuickCheck,
        (None, Some("foreign_key_check"), None) => Test::ForeignKeyCheck,
        (None, Some("quick_check" | "foreign_key_check"), Some(_)) => {
            let what = of("knows itself what must be found, and equals or at_least is set");
            return Err(wrong("store.check.builtin", what, "leave them out"));
        }
        (None, Some(other), _) => {
            let hint = "write \"quick_check\" or \"foreign_key_check\"";
            return Err(wrong("store.check.builtin", of(&format!("is {other:?}, which there is not")), hint));
        }
        (Some(_), Some(_), _) => {
            return Err(wrong("store.check", of("has both query and builtin"), "make it two checks"));
        }
        (None, None, _) => {
            return Err(wrong("store.check", of("asks nothing"), "write query or builtin"));
        }
    };
    let deadline = match deadline {
        None => Check::DEADLINE,
        Some(text) => duration(&format!("store.check.deadline of {name:?}"), text)?,
    };
    if deadline > LONGEST {
        let what = of("is longer than an hour, and the publication waits for it");
        return Err(wrong("store.check.deadline", what, "write for example \"30s\""));
    }
    Ok(Check { name: name.clone(), test, deadline })
}

/// What a query must give, where that is said.
fn expected(
    name: &str,
    equals: Option<&toml::Value>,
    at_least: Option<&toml::Value>,
) -> Result<Option<Expected>, Problem> {
    match (equals, at_least) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            let what = format!("of {name:?} has both equals and at_least");
            Err(wrong("store.check", what, "make it two checks"))
        }
        (Some(value), None) => match self::value(value) {
            Some(value) => Ok(Some(Expected::Equals(value))),
            None => {
                let what = format!("of {name:?} is neither a number nor a text of at most 1000 characters");
                Err(wrong("store.check.equals", what, "write for example 0 or \"open\""))
            }
        },
        (None, Some(value)) => match self::value(value) {
            Some(value @ (Value::Integer(_) | Value::Real(_))) => Ok(Some(Expected::AtLeast(value))),
            _ => {
                let what = format!("of {name:?} is no number");
                Err(wrong("store.check.at_least", what, "write for example 1000"))
            }
        },
    }
}

fn value(value: &toml::Value) -> Option<Value> {
    match value {
        toml::Value::Integer(number) => Some(Value::Integer(*number)),
        toml::Value::Float(number) => number.is_finite().then_some(Value::Real(*number)),
        toml::Value::String(text) => (text.chars().count() <= Value::MOST_CHARS).then(|| Value::text(text)),
        _ => None,
    }
}
