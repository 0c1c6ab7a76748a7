//! Patterns of labels.

use std::fmt;

/// A pattern of labels: `*` stands for any characters or none, `?` for any one, and everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern that is written so.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether all of a label is as the pattern says.
    #[must_use]
    pub fn matches(&self, label: &str) -> bool {
        let (mut pattern, mut rest) = (self.0.chars(), label.chars());
        // Where to go on if what follows the last star does not fit: the star takes one character more.
        let mut retry = None;
        loop {
            let mut after = pattern.clone();
            match (after.next(), rest.clone().next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    retry = Some((after.clone(), rest.clone()));
                    pattern = after;
                    continue;
                }
                (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                    pattern = after;
                    rest.next();
                    continue;
                }
                _ => {}
            }
            let Some((after_star, from)) = &mut retry else { return false };
            if from.next().is_none() {
                return false;
            }
            (pattern, rest) = (after_star.clone(), from.clone());
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_that_match_and_labels_that_do_not() {
        for (pattern, label, matches) in [
            ("month-end *", "month-end 2026-10", true),
            ("month-end *", "month-end", false),
            ("month-end*", "month-end", true),
            ("*close", "2026-11-19 close", true),
            ("*close", "close of day", false),
            ("*-end ????-??", "month-end 2026-10", true),
            ("*-end ????-??", "month-end 2026-1", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("", "", true),
            ("", "x", false),
            ("*", "", true),
            ("?", "ü", true),
            ("Close", "close", false),
            ("[a]", "a", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(label), matches, "{pattern:?} {label:?}");
        }
    }

    /// As the words say it, without a thought of how long it takes.
    fn plainly(pattern: &[char], label: &[char]) -> bool {
        match pattern {
            [] => label.is_empty(),
            ['*', rest @ ..] => (0..=label.len()).any(|taken| plainly(rest, &label[taken..])),
            [wanted, rest @ ..] => {
                label.first().is_some_and(|found| *wanted == '?' || wanted == found)
                    && plainly(rest, &label[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_the_words_say(pattern in "[ab*?]{0,8}", label in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(Pattern::new(&pattern).matches(&label), plainly(&chars(&pattern), &chars(&label)));
        }
    }
}
