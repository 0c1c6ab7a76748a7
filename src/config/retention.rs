//! A store's retention: rules in words, and that no two of them contradict each other.

use std::collections::BTreeMap;

use asat_core::retention::{Extent, LabelRule, Pattern, Retention, Rule, RuleError};
use asat_core::{Code, Problem};
use bytesize::ByteSize;
use toml::Spanned;

use super::raw;
use super::validate::{size, wrong};

const HINT: &str =
    "write for example \"all for 14 days, then daily for 3 months, then month ends for 7 years\"";

pub(super) fn validate(raw: &raw::Retention, text: &str) -> Result<Retention, Problem> {
    let source = Source { text };
    let keep = raw.keep.as_ref().map(|words| source.rule("store.retention.keep", words)).transpose()?;
    let label = |raw: &raw::LabelRule| source.label(raw);
    let rules = Retention {
        keep,
        at_most: source.budget(raw)?,
        at_least: source.minimum(raw)?,
        labels: raw.label.iter().map(label).collect::<Result<_, _>>()?,
    };
    source.check_labels(&raw.label)?;
    source.check_minimum(raw, &rules)?;
    source.check_effect(raw, &rules)?;
    Ok(rules)
}

/// A line of a text by a place in it: its number, from 1 on, and what is written there.
pub(super) fn line(text: &str, place: usize) -> (usize, &str) {
    let before = text.get(..place).unwrap_or_default();
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(begin..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    (before.matches('\n').count() + 1, line.trim())
}

/// The text of a configuration.
struct Source<'a> {
    text: &'a str,
}

impl Source<'_> {
    fn rule(&self, key: &str, words: &Spanned<String>) -> Result<Rule, Problem> {
        words.get_ref().parse().map_err(|error| match error {
            RuleError::Words(what) => {
                let (number, _) = self.line(words.span().start);
                wrong(key, format!("line {number}: {what}"), HINT)
            }
            RuleError::Contradiction { ref first, ref second, what } => {
                let what = format!("{second:?} cannot follow {first:?}: {what}");
                self.contradiction(key, [self.place(words, first), self.place(words, second)], &what)
            }
        })
    }

    fn label(&self, raw: &raw::LabelRule) -> Result<LabelRule, Problem> {
        let pattern = raw.pattern.get_ref();
        if pattern.is_empty() {
            let what = "is empty, and no label is".to_owned();
            return Err(wrong("store.retention.label.pattern", what, "write for example \"month-end *\""));
        }
        let keep = self.rule("store.retention.label.keep", &raw.keep)?;
        Ok(LabelRule { pattern: Pattern::new(pattern), keep })
    }

    fn budget(&self, raw: &raw::Retention) -> Result<Option<u64>, Problem> {
        let Some(budget) = &raw.at_most else { return Ok(None) };
        let is_nothing = budget.get_ref().parse::<ByteSize>().is_ok_and(|size| size.as_u64() == 0);
        match &raw.at_least {
            Some(minimum) if is_nothing => {
                let what = "versions that are kept take room";
                Err(self.contradiction("store.retention", [start(budget), start(minimum)], what))
            }
            _ => size("store.retention.at_most", budget.get_ref()).map(Some),
        }
    }

    fn minimum(&self, raw: &raw::Retention) -> Result<u32, Problem> {
        match raw.at_least.as_ref().map(|minimum| *minimum.get_ref()) {
            Some(0) => {
                let what = "is 0, and the newest version always stays".to_owned();
                Err(wrong("store.retention.at_least", what, "write 1 or more, or leave it out"))
            }
            minimum => Ok(minimum.unwrap_or(0)),
        }
    }

    /// No pattern has two rules: which of them holds would be anybody's guess.
    fn check_labels(&self, labels: &[raw::LabelRule]) -> Result<(), Problem> {
        let mut known = BTreeMap::new();
        for label in labels {
            if let Some(before) = known.insert(label.pattern.get_ref(), start(&label.pattern)) {
                let what = "one pattern has one rule";
                let places = [before, start(&label.pattern)];
                return Err(self.contradiction("store.retention.label", places, what));
            }
        }
        Ok(())
    }

    /// A rule for fewer of the newest than stay in any case says what never happens.
    fn check_minimum(&self, raw: &raw::Retention, rules: &Retention) -> Result<(), Problem> {
        let (Some(keep), Some(minimum), Some(rule)) = (&raw.keep, &raw.at_least, &rules.keep) else {
            return Ok(());
        };
        match rule.stages().first().map(|stage| stage.extent) {
            Some(Extent::Newest(number)) if number < rules.at_least => {
                let what = format!("{number} of the newest, and never fewer than {}", rules.at_least);
                Err(self.contradiction("store.retention", [start(keep), start(minimum)], &what))
            }
            _ => Ok(()),
        }
    }

    /// Where no version ever goes, a rule by which some stay does nothing.
    fn check_effect(&self, raw: &raw::Retention, rules: &Retention) -> Result<(), Problem> {
        let minimum = raw.at_least.as_ref().map(|minimum| ("store.retention.at_least", start(minimum)));
        let label = raw.label.first().map(|label| ("store.retention.label", start(&label.pattern)));
        match minimum.or(label) {
            Some((key, place)) if rules.keeps_everything() => Err(match &raw.keep {
                Some(keep) => self.contradiction(
                    "store.retention",
                    [start(keep), place],
                    "the one keeps every version, so that the other says nothing",
                ),
                None => wrong(
                    key,
                    "has no effect, since every version is kept".to_owned(),
                    "say by store.retention.keep or at_most what may go, or leave this out",
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Where some words of a value begin, which may have several lines.
    fn place(&self, value: &Spanned<String>, words: &str) -> usize {
        let within = self.text.get(value.span()).and_then(|text| text.find(words));
        value.span().start + within.unwrap_or(0)
    }

    /// A line by a place in it.
    fn line(&self, place: usize) -> (usize, &str) {
        line(self.text, place)
    }

    fn contradiction(&self, key: &str, places: [usize; 2], what: &str) -> Problem {
        let mut lines = places.map(|place| self.line(place)).to_vec();
        lines.sort_unstable();
        lines.dedup();
        let mut detail = format!("{key}: two rules contradict each other: {what}");
        for (number, line) in lines {
            detail.push_str(&format!("\n  line {number}: {line}"));
        }
        Problem::new(Code::Configuration, detail, "change one of them, or leave it out")
    }
}

fn start<T>(value: &Spanned<T>) -> usize {
    value.span().start
}
