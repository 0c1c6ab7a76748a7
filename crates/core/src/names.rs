//! Names: what a store and its versions are called, parsed in one place.
//!
//! A store's name becomes part of file names, URLs and identifiers, so its alphabet is the small one that
//! needs quoting nowhere. It stands in every record of the store, so all of them share its text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a store: 1 to 64 characters of `a-z A-Z 0-9 _ - .`, beginning with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StoreName(Arc<str>);

impl StoreName {
    /// The longest name in characters: names become folder names, which file systems bound at 255 bytes.
    pub const MAX_LEN: usize = 64;
}

impl FromStr for StoreName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && text.len() <= Self::MAX_LEN && text.chars().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(NameError::Store(shorten(text)))
        }
    }
}

/// The name of a set of stores, spelled as a store's is; no store has the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SetName(Arc<str>);

impl FromStr for SetName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse() {
            Ok(StoreName(name)) => Ok(Self(name)),
            Err(_) => Err(NameError::Set(shorten(text))),
        }
    }
}

/// One version of a store, written `report@12`. Numbers begin at 1 and grow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionId {
    /// The store that the version belongs to.
    pub store: StoreName,
    /// Its number within the store.
    pub number: u64,
}

impl FromStr for VersionId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse()? {
            VersionRef::Exact(id) => Ok(id),
            VersionRef::Latest(_) | VersionRef::Tag(..) => Err(NameError::Version(shorten(text))),
        }
    }
}

/// The name of a tag: 1 to 64 characters of `a-z A-Z 0-9 _ - .`, beginning with a letter or a digit, without two dots in a row.
/// It is neither a number nor `latest`, which stand for versions themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TagName(String);

impl FromStr for TagName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_name = text.parse::<StoreName>().is_ok() && !text.contains("..") && !text.ends_with('.');
        let begins_as_number = text.starts_with(|c: char| c.is_ascii_digit());
        let is_number = begins_as_number && text.parse::<f64>().is_ok()
            || text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_name && !is_number && !text.eq_ignore_ascii_case("latest") {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Tag(shorten(text)))
        }
    }
}

/// What a person may write where a version is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionRef {
    /// `report@12`.
    Exact(VersionId),
    /// `report@month-end-2026-10`: the version that a tag leads to.
    Tag(StoreName, TagName),
    /// `report@latest`: the newest version that can be opened.
    Latest(StoreName),
}

impl FromStr for VersionRef {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError::Version(shorten(text));
        let (store, number) = text.split_once('@').ok_or_else(wrong)?;
        let store = store.parse()?;
        if number == "latest" {
            return Ok(Self::Latest(store));
        }
        // `u64::from_str` also takes "+7" and "007"; one version has one spelling.
        let plain = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
        match number.parse() {
            Ok(number) if plain => Ok(Self::Exact(VersionId { store, number })),
            _ => number.parse().map(|tag| Self::Tag(store, tag)).map_err(|_| wrong()),
        }
    }
}

impl VersionRef {
    /// The store whose version is meant.
    #[must_use]
    pub fn store(&self) -> &StoreName {
        match self {
            Self::Exact(id) => &id.store,
            Self::Tag(store, _) | Self::Latest(store) => store,
        }
    }
}

/// A text that is not the name it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a store's name.
    #[error(
        "{0:?} is not a store name: 1 to 64 characters of a-z A-Z 0-9 _ - . beginning with a letter or digit"
    )]
    Store(String),
    /// Not a set's name.
    #[error(
        "{0:?} is not the name of a set: 1 to 64 characters of a-z A-Z 0-9 _ - . beginning with a letter or digit"
    )]
    Set(String),
    /// Not a version's name.
    #[error(
        "{0:?} is not a version: write it as STORE@NUMBER, for example report@12, or report@latest, or STORE@TAG"
    )]
    Version(String),
    /// Not a tag's name.
    #[error(
        "{0:?} is not a tag: 1 to 64 characters of a-z A-Z 0-9 _ - . beginning with a letter or digit; it is neither a \
         number nor latest"
    )]
    Tag(String),
}

/// Keeps a hostile text from filling the error that quotes it.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.store, self.number)
    }
}

/// What names have in common: they are texts of their own kinds.
macro_rules! name_as_text {
    ($($name:ident),*) => {$(
        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }
    )*};
}

name_as_text!(StoreName, SetName, TagName);

impl TryFrom<String> for VersionId {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<VersionId> for String {
    fn from(id: VersionId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken() {
        for text in ["r", "report", "Report-2", "7.x_y", &"a".repeat(64)] {
            assert_eq!(text.parse::<StoreName>().map(String::from).as_deref(), Ok(text));
        }
        for text in ["report@1", "report@18446744073709551615", "a.b-c_d@12"] {
            assert_eq!(text.parse::<VersionId>().map(String::from).as_deref(), Ok(text));
        }
        assert!(matches!("report@latest".parse(), Ok(VersionRef::Latest(_))));
    }

    #[test]
    fn names_that_are_refused() {
        let long = "a".repeat(65);
        for text in
            ["", ".", "..", ".hidden", "-x", "_x", "a b", "a/b", "a@b", "ü", "a\0", "a\n", "%2e", &long]
        {
            assert!(text.parse::<StoreName>().is_err(), "{text:?}");
        }
        for text in [
            "",
            "@",
            "report",
            "report@",
            "@1",
            "report@0",
            "report@01",
            "report@+1",
            "report@-1",
            "report@1 ",
            "report@1.0",
            "report@18446744073709551616",
            "../x@1",
            "report@latest@1",
            "report@LATEST",
        ] {
            assert!(text.parse::<VersionRef>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn tags() {
        for text in [
            "month-end-2026-10",
            "a",
            "2026-10",
            "Q3_2026",
            "v1.2",
            "0x10",
            "nan",
            "latest-close",
            &"t".repeat(64),
        ] {
            let meant = format!("report@{text}").parse();
            assert_eq!(meant, Ok(VersionRef::Tag("report".parse().unwrap(), text.parse().unwrap())));
            assert!(format!("report@{text}").parse::<VersionId>().is_err());
        }
        for text in [
            "",
            "12",
            "0",
            "007",
            "1.0",
            "1e0",
            "1.2.3",
            "latest",
            "Latest",
            "-a",
            "_a",
            ".a",
            "a..b",
            "a.",
            "a b",
            "a/b",
            "a@b",
            "ü",
            "a\n",
            "a\0",
            "18446744073709551616",
            &"t".repeat(65),
        ] {
            assert!(text.parse::<TagName>().is_err(), "{text:?}");
            let is_number =
                matches!(format!("report@{text}").parse(), Ok(VersionRef::Exact(_) | VersionRef::Latest(_)));
            assert!(is_number || format!("report@{text}").parse::<VersionRef>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_error_quotes_little_of_a_long_text() {
        let Err(error) = "ä".repeat(100_000).parse::<StoreName>() else { panic!("taken") };
        assert!(error.to_string().len() < 400, "{error}");
    }
}
