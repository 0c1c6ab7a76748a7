//! What is said of a publication: its label and the like, and whatever else programs want to remember of it.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::line::{MAX_LABEL, check_line, is_unprintable};
use crate::{Code, Problem};

/// Attributes of the caller's own: by name, each a text, a number or a truth value of JSON.
pub type Free = BTreeMap<String, Value>;

/// What somebody says of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// What it is called.
    pub label: Option<String>,
    /// Who vouches for it.
    pub certified_by: Option<String>,
    /// The business day that it stands for.
    pub business_date: Option<Date>,
    /// Anything else worth saying.
    pub note: Option<String>,
    /// Attributes of the caller's own.
    #[serde(skip_serializing_if = "Free::is_empty")]
    pub free: Free,
}

impl Attributes {
    /// The longest label and the longest `certified_by`, in characters.
    pub const MAX_LABEL: usize = MAX_LABEL;
    /// The longest note, in characters.
    pub const MAX_NOTE: usize = 4000;
    /// The most attributes of the caller's own.
    pub const MAX_FREE: usize = 32;
    /// The longest name of one of them, in characters.
    pub const MAX_FREE_NAME: usize = 64;
    /// The most bytes that all of them take as JSON.
    pub const MAX_FREE_BYTES: usize = 4096;
    /// How the names begin that asat itself gives.
    pub const OWN: &str = "asat.";
    /// The attribute with the value of the marker that watch mode has published.
    pub const MARKER: &str = "asat.marker";

    /// Refuses what could not be shown on one line or is unreasonably long.
    ///
    /// # Errors
    /// [`Code::Invalid`], naming the attribute.
    pub fn check(&self) -> Result<(), Problem> {
        check_line("label", self.label.as_deref(), Self::MAX_LABEL)?;
        check_line("certified_by", self.certified_by.as_deref(), Self::MAX_LABEL)?;
        let note = self.note.as_deref().map(|note| note.replace(['\n', '\t'], " "));
        check_line("note", note.as_deref(), Self::MAX_NOTE)?;
        check_free(&self.free)
    }

    /// Refuses attributes whose names only asat gives.
    ///
    /// # Errors
    /// [`Code::Invalid`], naming the attribute.
    pub fn check_names(&self) -> Result<(), Problem> {
        match self.free.keys().find(|name| name.starts_with(Self::OWN)) {
            None => Ok(()),
            Some(name) => {
                let detail =
                    format!("attributes has {name:?}, and names with {:?} are asat's own", Self::OWN);
                Err(Problem::new(Code::Invalid, detail, "choose another name"))
            }
        }
    }

    /// The value of the marker that watch mode has published, where it was watch mode that did.
    #[must_use]
    pub fn marker(&self) -> Option<&str> {
        self.free.get(Self::MARKER)?.as_str()
    }
}

fn check_free(free: &Free) -> Result<(), Problem> {
    let wrong = |what: String| {
        let hint = "send at most 32 texts, numbers or truth values with short names, 4096 bytes in all";
        Problem::new(Code::Invalid, format!("attributes {what}"), hint)
    };
    if free.len() > Attributes::MAX_FREE {
        let most = Attributes::MAX_FREE;
        return Err(wrong(format!("has {} names, and at most {most} are taken", free.len())));
    }
    for (name, value) in free {
        check_line("a name in attributes", Some(name), Attributes::MAX_FREE_NAME)?;
        // In a filter and on the command line they end the name.
        if name.contains([':', '=']) || name.trim() != name {
            return Err(wrong(format!(
                "has the name {name:?}: a name has no ':', no '=' and no space at its ends"
            )));
        }
        if !(value.is_string() || value.is_number() || value.is_boolean()) {
            return Err(wrong(format!(
                "has {name:?}, which is neither a text nor a number nor true or false"
            )));
        }
        if value.as_str().is_some_and(|text| text.chars().any(|c| is_unprintable(c) && !"\n\t".contains(c))) {
            return Err(wrong(format!("has {name:?}, whose text has control characters")));
        }
    }
    let bytes = serde_json::to_string(free).map_or(usize::MAX, |text| text.len());
    if bytes > Attributes::MAX_FREE_BYTES {
        let most = Attributes::MAX_FREE_BYTES;
        return Err(wrong(format!("takes {bytes} bytes as JSON, and at most {most} are taken")));
    }
    Ok(())
}

/// A value of an attribute as a person writes it: a text as it is, anything else as in JSON.
#[must_use]
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_are_refused() {
        let label = |text: &str| Attributes { label: Some(text.to_owned()), ..Attributes::default() };
        for text in
            ["", "  ", "a\nb", "a\tb", "\u{1b}[31m", "a\0b", "a\u{202e}b", "a\u{7f}", &"x".repeat(201)]
        {
            let refused = label(text).check();
            assert_eq!(refused.map_err(|p| p.code), Err(Code::Invalid), "{text:?}");
        }
        for unseen in ["\u{200b}", "\u{feff}", "\u{e0001}", " \u{200d}\u{ad} ", "\u{2800}", "\u{3164}"] {
            let refused = label(unseen).check().unwrap_err();
            assert!(refused.detail.contains("no character that can be seen"), "{unseen:?}: {refused}");
        }
        for text in ["x", "\"", "\\", "'", "→", "🎉", "व\u{200d}", "\u{feff}close"] {
            assert_eq!(label(text).check(), Ok(()), "{text:?}");
        }
        for text in ["x", "2026-11-19 close", "größer → 🎉", &"ü".repeat(200)] {
            assert_eq!(label(text).check(), Ok(()), "{text:?}");
        }
        let note = |text: &str| Attributes { note: Some(text.to_owned()), ..Attributes::default() };
        assert_eq!(note("two\nlines\tand a tab").check(), Ok(()));
        assert!(note(&"n".repeat(4001)).check().is_err());
    }

    fn free(value: &Value) -> Attributes {
        Attributes { free: serde_json::from_value(value.clone()).unwrap(), ..Attributes::default() }
    }

    #[test]
    fn free_attributes_that_are_taken() {
        let many: Free = (0..32).map(|n| (format!("key-{n}"), n.into())).collect();
        for value in [
            serde_json::json!({}),
            serde_json::json!({ "batch": 41, "ratio": 0.5, "final": true, "größe": "zwei\nZeilen", "a b": "" }),
            serde_json::json!({ "x".repeat(64): "y".repeat(4000) }),
            serde_json::to_value(many).unwrap(),
        ] {
            assert_eq!(free(&value).check(), Ok(()), "{value}");
        }
    }

    #[test]
    fn free_attributes_that_are_refused() {
        let many: Free = (0..33).map(|n| (format!("key-{n}"), n.into())).collect();
        for value in [
            serde_json::json!({ "": 1 }),
            serde_json::json!({ " a": 1 }),
            serde_json::json!({ "a:b": 1 }),
            serde_json::json!({ "a=b": 1 }),
            serde_json::json!({ "a\nb": 1 }),
            serde_json::json!({ "a": null }),
            serde_json::json!({ "a": [1] }),
            serde_json::json!({ "a": {} }),
            serde_json::json!({ "a": "\u{1b}[2J" }),
            serde_json::json!({ "x".repeat(65): 1 }),
            serde_json::json!({ "a": "y".repeat(4096) }),
            serde_json::to_value(many).unwrap(),
        ] {
            assert_eq!(free(&value).check().map_err(|p| p.code), Err(Code::Invalid), "{value}");
        }
        assert!(free(&serde_json::json!({ "asat.marker": "1" })).check_names().is_err());
        assert_eq!(free(&serde_json::json!({ "asat": "1" })).check_names(), Ok(()));
    }
}
