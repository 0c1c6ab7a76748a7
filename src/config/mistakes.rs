//! What the parser of TOML says of a mistake, in words for those who write a configuration.

use super::reference::sections_of;
use crate::misread;

/// What is wrong with the text of a configuration and where, in one line as logs want it.
pub(super) fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let what = in_words(error);
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return what };
    let number = before.matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    let is_single =
        line.starts_with('[') && !line.starts_with("[[") && error.message().contains("expected a sequence");
    let what = match is_single {
        true => "a section of this kind begins and ends with two brackets, as [[store]]".to_owned(),
        false => what,
    };
    format!("line {number}, `{line}`: {what}")
}

fn in_words(error: &toml::de::Error) -> String {
    let said = said(error);
    syntax(&said).unwrap_or_else(|| {
        let elsewhere = |key: &str| Some(sections_of(key).join(" or ")).filter(|all| !all.is_empty());
        misread::words_with("it", &said, elsewhere)
    })
}

/// What is wrong, without anything that stands in the file: that may be a secret.
pub(super) fn without_quoting(error: &toml::de::Error) -> String {
    let said = said(error);
    syntax(&said).unwrap_or_else(|| misread::words_without_quoting("a value", &said))
}

fn said(error: &toml::de::Error) -> String {
    error.message().lines().map(str::trim).collect::<Vec<_>>().join(", ")
}

fn syntax(said: &str) -> Option<String> {
    SYNTAX.iter().find(|(begin, _)| said.starts_with(begin)).map(|(_, words)| (*words).to_owned())
}

/// How what the parser says of a text that is no TOML begins, and what to write.
const SYNTAX: [(&str, &str); 8] = [
    ("unclosed array table", "a section of this kind ends with two brackets, as [[store]]"),
    ("unclosed table", "a section ends with a bracket, as [listen]"),
    ("unclosed array", "a list ends with a bracket, as [\"a\", \"b\"]"),
    ("string values must be quoted", "a text stands between \" and \", as name = \"report\""),
    ("invalid basic string", "a text ends with \" on the same line, and has \\\\ for each \\"),
    ("key with no value", "a key has = and a value behind it, as name = \"report\""),
    (
        "invalid key-value pair",
        "a line is a key, = and a value, as name = \"report\", or a section, as [listen]",
    ),
    ("duplicate key", "this key stands here for the second time"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_with_what_to_write() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "it is only refused")]
        struct Known {
            state: Option<String>,
            listen: Option<Vec<u16>>,
        }
        for (text, expected) in [
            ("stat = 1", "line 1, `stat = 1`: there is no \"stat\" here; did you mean \"state\"?"),
            ("path = 1", "line 1, `path = 1`: there is no \"path\" here; it belongs to [[store]]"),
            (
                "name = 1",
                "line 1, `name = 1`: there is no \"name\" here; it belongs to [[token]] or [[store]] or [[store.check]] or [[set]]",
            ),
            (
                "nothing = 1",
                "line 1, `nothing = 1`: there is no \"nothing\" here; these are known: state, listen",
            ),
            ("state = 5", "line 1, `state = 5`: it is the number 5, and should be a text, as \"report\""),
            (
                "[listen]",
                "line 1, `[listen]`: a section of this kind begins and ends with two brackets, as [[store]]",
            ),
            (
                "listen = 5",
                "line 1, `listen = 5`: it is the number 5, and should be a list, as [\"a\", \"b\"]",
            ),
            ("\nstate = x", "line 2, `state = x`: a text stands between \" and \", as name = \"report\""),
            ("[[store", "line 1, `[[store`: a section of this kind ends with two brackets, as [[store]]"),
            ("state: x", "line 1, `state: x`: a key has = and a value behind it, as name = \"report\""),
            (
                "state = \"a\"\nstate = \"b\"",
                "line 2, `state = \"b\"`: this key stands here for the second time",
            ),
        ] {
            assert_eq!(in_one_line(text, &toml::from_str::<Known>(text).unwrap_err()), expected);
        }
    }
}
