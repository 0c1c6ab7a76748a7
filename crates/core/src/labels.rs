//! Labels that are one and the same to a person, however they are written.

use unicode_normalization::UnicodeNormalization as _;

/// A label without what does not tell it from another: spaces around it, case, and the Unicode form of its characters.
///
/// To write it large and then small again folds what has no small letter of its own (`ß` and `SS`, `ς` and `σ`); what that
/// makes is composed anew.
#[must_use]
pub fn folded(label: &str) -> String {
    // Most labels have nothing to compose, and all of a catalogue's are folded when it is read.
    let small = if label.is_ascii() { label.to_ascii_lowercase() } else { folded_letters(label) };
    small.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn folded_letters(label: &str) -> String {
    let large = label.nfkc().collect::<String>().to_uppercase();
    large.to_lowercase().nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_the_same() {
        for (one, other) in [
            ("2026-11-19 close", "2026-11-19 CLOSE"),
            ("close", "  close\t"),
            ("a  b", "a b"),
            ("größer", "gro\u{308}ßer"),
            ("GRÖSSER", "größer"),
            ("\u{fb01}nal", "final"),
            ("ｃｌｏｓｅ", "close"),
            ("ΟΔΟΣ", "οδός".replace('ό', "ο").as_str()),
            ("a\u{a0}b", "a b"),
            ("\u{212b}", "å"),
        ] {
            assert_eq!(folded(one), folded(other), "{one:?} {other:?}");
            assert_eq!(folded(&folded(one)), folded(one), "{one:?}");
        }
    }

    #[test]
    fn ascii_is_folded_as_everything_is() {
        let every: String = (0..=127).map(char::from).collect();
        assert_eq!(folded_letters(&every), every.to_ascii_lowercase());
    }

    #[test]
    fn labels_that_are_not() {
        for (one, other) in [("close", "clos"), ("o", "ö"), ("1", "2"), ("a-b", "a b"), ("е", "e")] {
            assert_ne!(folded(one), folded(other), "{one:?} {other:?}");
        }
    }
}
