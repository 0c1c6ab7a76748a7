//! What the readers of JSON, TOML and queries say of a value that they cannot take, in words for people.
//!
//! They name the types of the program that reads, and not what a person has written.

use asat_core::nearest;

/// No name that may be meant is as long.
const MOST_NEAR: usize = 100;

/// What is wrong with a value; `subject` says which one it is.
pub(crate) fn words(subject: &str, said: &str) -> String {
    words_with(subject, said, |_| None)
}

/// The same, if a name that is not known here may be known `elsewhere`.
pub(crate) fn words_with(
    subject: &str,
    said: &str,
    elsewhere: impl FnOnce(&str) -> Option<String>,
) -> String {
    // If a backtick is part of the name itself, it cannot be told where that ends.
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(", ");
    let named = |prefix: &str| said.strip_prefix(prefix)?.split_once('`').filter(|(_, rest)| ends(rest));
    let mismatch = ["invalid type: ", "invalid value: ", "invalid length: "];
    let mismatch = mismatch.iter().find_map(|prefix| said.strip_prefix(prefix)?.split_once(", expected "));
    if let Some((found, wanted)) = mismatch {
        format!("{subject} is {}, and should be {}", written(found), meant(wanted))
    } else if let Some((name, rest)) = named("unknown field `") {
        unknown(&format!("there is no {name:?} here"), name, rest, elsewhere)
    } else if let Some((value, rest)) = named("unknown variant `") {
        unknown(&format!("{subject} cannot be {value:?}"), value, rest, |_| None)
    } else if let Some((name, _)) = named("missing field `") {
        format!("{name:?} is missing")
    } else if let Some((name, _)) = named("duplicate field `") {
        format!("{name:?} is there twice")
    } else if said.contains("digit found in string") || said.starts_with("cannot parse integer") {
        format!("{subject} is no whole number")
    } else if said.starts_with("number too large") {
        format!("{subject} is too large a number")
    } else {
        format!("{subject}: {said}")
    }
}

/// The same, and what is not known is not quoted: it may be a secret that stands in the wrong place.
pub(crate) fn words_without_quoting(subject: &str, said: &str) -> String {
    let known = |said: &str| said.split('`').skip(3).step_by(2).collect::<Vec<_>>().join(", ");
    if said.starts_with("unknown field `") {
        format!("there is a key that is not known here; these are known: {}", known(said))
    } else if said.starts_with("unknown variant `") {
        format!("{subject} is not known; these are known: {}", known(said))
    } else {
        words(subject, said)
    }
}

/// Something that is not known, with the one that may be meant in the place of all that there are.
fn unknown(what: &str, typed: &str, rest: &str, elsewhere: impl FnOnce(&str) -> Option<String>) -> String {
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    // To look for what is near takes the longer, the longer the name is.
    let near = Some(typed)
        .filter(|typed| typed.len() <= MOST_NEAR)
        .and_then(|typed| nearest(typed, known.iter().copied()));
    let is_end = |name: &&str| name.strip_suffix(typed).is_some_and(|begin| begin.ends_with('_'));
    let meant = near.or_else(|| known.iter().copied().find(is_end));
    match (meant, elsewhere(typed)) {
        (Some(meant), _) => format!("{what}; did you mean {meant:?}?"),
        (None, Some(elsewhere)) => format!("{what}; it belongs to {elsewhere}"),
        (None, None) if known.is_empty() => what.to_owned(),
        (None, None) => format!("{what}; these are known: {}", known.join(", ")),
    }
}

/// What stands there.
fn written(found: &str) -> String {
    let (kind, value) =
        found.split_once(' ').map_or((found, ""), |(kind, value)| (kind, value.trim_matches('`')));
    match kind {
        "integer" => format!("the number {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point ").trim_matches('`')),
        "boolean" => value.to_owned(),
        // It may be a secret, or long.
        "string" => "a text".to_owned(),
        "sequence" => "a list".to_owned(),
        "map" | "struct" | "table" => "an object".to_owned(),
        "unit" | "Option" | "null" => "null".to_owned(),
        _ => found.to_owned(),
    }
}

/// What should stand there.
fn meant(wanted: &str) -> String {
    let wanted = wanted.strip_prefix("borrowed ").unwrap_or(wanted);
    match wanted {
        "a string" | "string" | "str" | "path string" | "a path string" => "a text, as \"report\"".to_owned(),
        "a boolean" | "bool" => "true or false".to_owned(),
        "a sequence" => "a list, as [\"a\", \"b\"]".to_owned(),
        "a map" => "an object".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" | "a nonzero u64" => {
            "a whole number, as 5".to_owned()
        }
        _ if wanted.starts_with("struct ") || wanted.starts_with("internally tagged") => {
            "an object".to_owned()
        }
        _ => wanted.to_owned(),
    }
}

/// What is wrong with a text that is no JSON.
pub(crate) fn no_json(said: &str) -> String {
    let (what, place) = said.split_once(" at line ").unwrap_or((said, ""));
    let what = match what {
        _ if what.starts_with("EOF while parsing") => "it ends too early",
        "trailing comma" => "a comma stands before the end of an object or a list",
        "trailing characters" => "something stands behind its end",
        "key must be a string" => "a name must stand between \" and \"",
        "expected value" => "a value is missing, or a text does not stand between \" and \"",
        "expected ident" => "a word is none of true, false and null",
        "expected `:`" => "a : is missing behind a name",
        "expected `,` or `}`" => "a , or } is missing",
        "expected `,` or `]`" => "a , or ] is missing",
        "invalid unicode code point" | "lone leading surrogate in hex escape" => "it is not in UTF-8",
        _ if what.starts_with("control character") => {
            "a text has a line break or another control character; write it as \\n"
        }
        "unexpected end of hex escape" => {
            "a \\u is not followed by four hexadecimal digits, or by its second half"
        }
        "invalid escape" => "a \\ stands before a character that needs none",
        "invalid number" | "number out of range" => "a number is not written as one",
        "recursion limit exceeded" => "its objects and lists lie too deep in one another",
        other => other,
    };
    match place.split_once(" column ") {
        Some((line, column)) => format!("{what} (line {line}, character {column})"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_as_it_is_written() {
        for (said, expected) in [
            (
                "invalid type: integer `5`, expected a string",
                "x is the number 5, and should be a text, as \"report\"",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "x is the number 1.5, and should be a whole number, as 5",
            ),
            (
                "invalid type: string \"secret\", expected a boolean",
                "x is a text, and should be true or false",
            ),
            ("invalid type: sequence, expected a map", "x is a list, and should be an object"),
            ("invalid type: null, expected struct PublishRequest", "x is null, and should be an object"),
            (
                "invalid type: boolean `true`, expected a string",
                "x is true, and should be a text, as \"report\"",
            ),
            ("invalid value: \"1h\", expected a whole number", "x is \"1h\", and should be a whole number"),
            (
                "unknown field `bussiness_date`, expected one of `business_date`, `label`",
                "there is no \"bussiness_date\" here; did you mean \"business_date\"?",
            ),
            (
                "unknown field `q`, expected `label` or `note`",
                "there is no \"q\" here; these are known: label, note",
            ),
            (
                "unknown field `mode`, expected `unix`, `unix_mode`",
                "there is no \"mode\" here; did you mean \"unix_mode\"?",
            ),
            ("unknown field `a`b`, expected `label`", "x: unknown field `a`b`, expected `label`"),
            ("unknown variant `yes`, expected `remote`", "x cannot be \"yes\"; these are known: remote"),
            ("missing field `holder`", "\"holder\" is missing"),
            ("duplicate field `label`", "\"label\" is there twice"),
            ("invalid digit found in string", "x is no whole number"),
            ("something else", "x: something else"),
        ] {
            assert_eq!(words("x", said), expected);
        }
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        for (text, expected) in [
            ("{", "it ends too early (line 1, character 1)"),
            ("{\"a\": 1,}", "a comma stands before the end of an object or a list (line 1, character 9)"),
            ("{'a': 1}", "a name must stand between \" and \" (line 1, character 2)"),
            (
                "{\"a\": x}",
                "a value is missing, or a text does not stand between \" and \" (line 1, character 7)",
            ),
            ("{\"a\" 1}", "a : is missing behind a name (line 1, character 6)"),
            ("{} {}", "something stands behind its end (line 1, character 4)"),
        ] {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            assert_eq!(no_json(&error.to_string()), expected, "{text}");
        }
    }
}
