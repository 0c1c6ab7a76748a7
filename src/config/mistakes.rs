//! What the parser of TOML says of a mistake, in words for those who write a configuration.

use asat_core::nearest;

use super::reference::section_of;

/// What is wrong with the text of a configuration and where, in one line as logs want it.
pub(super) fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let what = in_words(error);
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return what };
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number}, `{line}`: {what}")
}

/// What is wrong, without the line in which it is: that may hold a secret.
pub(super) fn in_words(error: &toml::de::Error) -> String {
    words(&error.message().lines().map(str::trim).collect::<Vec<_>>().join(", "))
}

/// A key or a value that is not known, with the one that may be meant in the place of all that there are.
fn words(said: &str) -> String {
    let unknown = |prefix: &str| said.strip_prefix(prefix)?.split_once('`');
    let (what, typed, rest, section) = match (unknown("unknown field `"), unknown("unknown variant `")) {
        (Some((typed, rest)), _) => {
            (format!("there is no key `{typed}` here"), typed, rest, section_of(typed))
        }
        (None, Some((typed, rest))) => (format!("`{typed}` is no value that it can have"), typed, rest, None),
        (None, None) => return said.to_owned(),
    };
    let known = rest.split('`').skip(1).step_by(2);
    match (nearest(typed, known), section) {
        (Some(meant), _) => format!("{what}; did you mean `{meant}`?"),
        (None, Some(section)) => format!("{what}; it belongs to {section}"),
        (None, None) => {
            let all = rest.trim_start_matches(", expected ").trim_start_matches("one of ");
            format!("{what}; these are known: {all}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_meant_is_told() {
        for (said, expected) in [
            (
                "unknown field `stat`, expected one of `state`, `listen`",
                "there is no key `stat` here; did you mean `state`?",
            ),
            (
                "unknown field `path`, expected `state`",
                "there is no key `path` here; it belongs to [[store]]",
            ),
            (
                "unknown field `nothing`, expected one of `state`, `listen`",
                "there is no key `nothing` here; these are known: `state`, `listen`",
            ),
            (
                "unknown field `nothing`, expected `token`",
                "there is no key `nothing` here; these are known: `token`",
            ),
            (
                "unknown variant `reed`, expected one of `read`, `publish`, `admin`",
                "`reed` is no value that it can have; did you mean `read`?",
            ),
            ("invalid type: integer `5`, expected a string", "invalid type: integer `5`, expected a string"),
        ] {
            assert_eq!(words(said), expected);
        }
    }
}
