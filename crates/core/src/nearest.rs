//! The name that somebody who mistyped one may have meant.

/// So many names are shown to somebody who must choose one.
const SHOWN: usize = 20;

/// A hint for somebody who typed a name that is not there: the one that may be meant, and those that there are.
pub(crate) fn choose<'a>(these: &str, typed: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let shown: Vec<&str> = known.clone().take(SHOWN).collect();
    let all = format!("{these}: {}", shown.join(", "));
    match nearest(typed, known) {
        Some(name) => format!("did you mean {name}? {all}"),
        None => all,
    }
}

/// The known name that is nearest to what was typed, if it is near enough to be meant.
#[must_use]
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let typed = letters(typed);
    let near = known.into_iter().filter_map(|name| {
        let name_letters = letters(name);
        // A third of the letters may be wrong, or one of a short name.
        let most = (typed.len().max(name_letters.len()) / 3).max(1);
        let distance = distance(&typed, &name_letters);
        // A longer name that begins so is meant, too: a file's name in place of the store's, or the beginning of a tag.
        let begins = typed.starts_with(&name_letters) || name_letters.starts_with(&typed);
        let is_meant = distance <= most || (begins && typed.len().min(name_letters.len()) >= 3);
        is_meant.then_some((distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// How many letters must be put in, left out, replaced, or exchanged with the next one (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(last.len());
        row.push(i.saturating_add(1));
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, j).saturating_add(usize::from(x != y));
            let put_in = at(&row, j).saturating_add(1);
            let left_out = at(&last, j.saturating_add(1)).saturating_add(1);
            let is_exchanged =
                i > 0 && j > 0 && a.get(i.wrapping_sub(1)) == Some(y) && b.get(j.wrapping_sub(1)) == Some(x);
            let exchanged =
                if is_exchanged { at(&before, j.saturating_sub(1)).saturating_add(1) } else { usize::MAX };
            row.push(replaced.min(put_in).min(left_out).min(exchanged));
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_a_name_is_taken_for_it() {
        let known = ["ledger", "month-end-2026-10", "report", "reports-old"];
        for (typed, expected) in [
            ("reprot", Some("report")),
            ("Report", Some("report")),
            ("repot", Some("report")),
            ("report.db", Some("report")),
            ("leger", Some("ledger")),
            ("month-end", Some("month-end-2026-10")),
            ("month-end-2026-1O", Some("month-end-2026-10")),
            ("valuation", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
        assert_eq!(nearest("ab", ["ba", "xy"]), Some("ba"));
    }

    #[test]
    fn distances() {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, expected) in
            [("", "", 0), ("", "ab", 2), ("ab", "ba", 1), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!(distance(&letters(a), &letters(b)), expected, "{a} {b}");
        }
    }
}
