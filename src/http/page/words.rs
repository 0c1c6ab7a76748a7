//! What a page says of instants, sizes and shares.

use jiff::Timestamp;

use crate::text;

/// An instant, for people and for programs.
pub(super) struct Moment {
    /// RFC 3339.
    pub(super) iso: String,
    /// In full, to the second.
    pub(super) full: String,
    /// How long ago, or how long until then.
    pub(super) ago: String,
}

impl Moment {
    pub(super) fn new(at: Timestamp, now: Timestamp) -> Self {
        Self {
            iso: at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            full: text::absolute(at),
            ago: text::relative(at, now),
        }
    }
}

/// A part of a whole in thousandths, at most all of it. Of nothing, anything is all.
pub(super) fn share(part: u64, whole: u64) -> u64 {
    if part >= whole {
        return u64::from(part > 0) * 1000;
    }
    u64::try_from(u128::from(part) * 1000 / u128::from(whole)).unwrap_or(1000)
}

/// A text of somebody else that is no longer than a list can show.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_more_than_all() {
        let cases = [
            (0, 0, 0),
            (1, 0, 1000),
            (0, 8, 0),
            (1, 8, 125),
            (8, 8, 1000),
            (9, 8, 1000),
            (u64::MAX - 1, u64::MAX, 999),
        ];
        for (part, whole, expected) in cases {
            assert_eq!(share(part, whole), expected, "{part} of {whole}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("käse", 4), "käse");
        assert_eq!(shortened("käse", 2), "kä…");
        assert_eq!(shortened("", 0), "");
    }
}
