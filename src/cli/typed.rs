//! What people type: durations, versions and keys, each refused with an example of how it is written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::when::seconds;
use asat_core::{NameError, StoreName, VersionId, VersionRef};

/// A version as it was typed, known to be well written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionArg {
    text: String,
    meant: VersionRef,
}

impl VersionArg {
    /// The version as it was typed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The store that it belongs to.
    pub(super) fn store(&self) -> &StoreName {
        self.meant.store()
    }

    /// Whether an event about `version` may be about this one.
    pub(super) fn may_be(&self, version: &str) -> bool {
        match &self.meant {
            VersionRef::Exact(_) => version == self.text,
            VersionRef::Latest(store) | VersionRef::Tag(store, _) => belongs(version, store),
        }
    }
}

impl FromStr for VersionArg {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Ok(Self { meant: text.parse()?, text: text.to_owned() })
    }
}

impl fmt::Display for VersionArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a version's id names a version of this store.
pub(super) fn belongs(version: &str, store: &StoreName) -> bool {
    version.split_once('@').is_some_and(|(of, _)| of == store.as_str())
}

/// A version where the store may be named beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VersionChoice {
    /// Its number within the store.
    Number(u64),
    /// Its whole name.
    Named(VersionArg),
}

impl FromStr for VersionChoice {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if plain => Ok(Self::Number(number)),
            _ => text.parse().map(Self::Named),
        }
    }
}

/// A version by its name, or the store that one is to be found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This version.
    Version(VersionArg),
    /// One of this store's.
    Store(StoreName),
}

impl FromStr for Wanted {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.contains('@') { text.parse().map(Self::Version) } else { text.parse().map(Self::Store) }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => version.fmt(f),
            Self::Store(store) => f.write_str(store.as_str()),
        }
    }
}

/// What is exported: one version, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportChoice {
    /// One version.
    One(VersionArg),
    /// A range of versions.
    Range(VersionRange),
}

/// The versions of a store from one to another, both of them included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionRange {
    /// The store.
    pub(super) store: StoreName,
    /// The number of the first.
    pub(super) first: u64,
    /// The number of the last; `None` stands for the newest.
    pub(super) last: Option<u64>,
}

impl FromStr for ExportChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((first, last)) = text.split_once("..") else {
            return text.parse().map(Self::One).map_err(|error: NameError| error.to_string());
        };
        let wrong = || "write a range as report@3..12, or report@3.. to the newest".to_owned();
        let number = |text: &str| match text.parse() {
            Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0') => Ok(number),
            _ => Err(wrong()),
        };
        let Ok(VersionRef::Exact(VersionId { store, number: first })) = first.parse() else {
            return Err(wrong());
        };
        let last = if last.is_empty() { None } else { Some(number(last)?) };
        if last.is_some_and(|last| last < first) {
            return Err(wrong());
        }
        Ok(Self::Range(VersionRange { store, first, last }))
    }
}

/// Reads a duration, such as `90s`, `1h30m`, `2d` or `1w`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    seconds(text).map(|seconds| Duration::from_secs(seconds.into()))
}

/// Reads an idempotency key: it travels in a header, so only visible ASCII will do.
pub(super) fn key(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("a key is 1 to 255 visible ASCII characters without spaces".to_owned())
    }
}

/// Reads an attribute as `name=value`.
pub(super) fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE, for example batch=41".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (typed, expected) in [
            ("90s", 90),
            ("15m", 900),
            ("1h", 3600),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("1w", 604_800),
            ("15 minutes", 900),
        ] {
            assert_eq!(seconds(typed), Ok(expected), "{typed}");
        }
        for typed in [
            "",
            "45",
            "0",
            "0s",
            "-1",
            "+1",
            "1m1h",
            "1h1h",
            "h",
            "1y",
            "1mo",
            "1h 30",
            "0.5s",
            "4294967296",
            "99999d",
        ] {
            assert!(seconds(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn versions_and_keys() {
        let choice = |text: &str| text.parse::<VersionChoice>();
        assert_eq!(choice("12"), Ok(VersionChoice::Number(12)));
        assert!(matches!(choice("report@latest"), Ok(VersionChoice::Named(_))));
        assert!(choice("0").is_err() && choice("+1").is_err() && choice("").is_err());

        let wanted = |text: &str| text.parse::<Wanted>();
        assert!(matches!(wanted("report@12"), Ok(Wanted::Version(_))));
        assert!(matches!(wanted("report"), Ok(Wanted::Store(_))));
        assert!(wanted("report@").is_err() && wanted("../x").is_err() && wanted("").is_err());

        let exact: VersionArg = "report@12".parse().unwrap();
        assert!(exact.may_be("report@12") && !exact.may_be("report@13"));
        let latest: VersionArg = "report@latest".parse().unwrap();
        assert!(latest.may_be("report@13") && !latest.may_be("reports@13"));

        assert!(key("2026-11-19/close").is_ok());
        for text in ["", "a b", "ü", "a\n", &"k".repeat(256)] {
            assert!(key(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ranges() {
        let choice = |text: &str| text.parse::<ExportChoice>();
        for (typed, last) in [("report@3..12", Some(12)), ("report@3..3", Some(3)), ("report@3..", None)] {
            let store = "report".parse().unwrap();
            assert_eq!(
                choice(typed),
                Ok(ExportChoice::Range(VersionRange { store, first: 3, last })),
                "{typed}"
            );
        }
        assert!(matches!(choice("report@3"), Ok(ExportChoice::One(_))));
        assert!(matches!(choice("report@latest"), Ok(ExportChoice::One(_))));
        for typed in [
            "..",
            "report@..3",
            "report@3..2",
            "report@3..+4",
            "report@3..04",
            "report@latest..",
            "report@3...",
            "@1..2",
            "report@1..99999999999999999999",
            "report@1..report@2",
        ] {
            assert!(choice(typed).is_err(), "{typed}");
        }
    }
}
