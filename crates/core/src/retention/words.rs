//! A rule in words: `all for 14 days, then daily for 3 months, then month ends for 7 years`.
//!
//! ```text
//! rule    stage { [","] "then" stage }
//! stage   ["the"] "last" NUMBER ["versions"]  |  what extent
//! what    "all"  |  "hourly" … "yearly"  |  "hour" … "year" "ends"  |  "one" "a" "hour" … "year"
//! extent  "for" NUMBER unit  |  "of" "the" "last" NUMBER unit  |  "forever"
//! unit    "hour" … "year", or "hours" … "years"
//! ```
//!
//! Every stage begins where the one before it ends; all spans count from now.

use super::{Extent, Period, RuleError, Stage, Which};

/// Reads the stages of a rule. There is one at least; that none contradicts another is not seen to here.
pub(super) fn read(text: &str) -> Result<Vec<Stage>, RuleError> {
    let mut words = Words::new(text);
    let mut stages = vec![words.stage()?];
    while words.next_stage()? {
        stages.push(words.stage()?);
    }
    Ok(stages)
}

/// The words of a rule, and which of them is next.
struct Words<'a> {
    text: &'a str,
    /// Each with its place; a comma is a word of its own.
    words: Vec<(usize, &'a str)>,
    next: usize,
}

/// What a number may be: nobody means more, and no arithmetic on it overflows.
pub(super) const MOST: u32 = 1_000_000;
const WHAT: &str = "\"all\", \"hourly\", \"daily\", \"weekly\", \"monthly\", \"yearly\", \"day ends\" and the like, \
                    \"one a day\" and the like, or \"the last N\"";
const EXTENT: &str = "\"for\" with a number and a unit, as in \"for 14 days\", or \"forever\"";
const UNIT: &str = "hours, days, weeks, months or years";

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        let mut from = None;
        for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
            if c.is_whitespace() || c == ',' {
                words.extend(from.take().and_then(|from| Some((from, text.get(from..at)?))));
                words.extend(text.get(at..at + 1).filter(|found| *found == ",").map(|comma| (at, comma)));
            } else {
                from = from.or(Some(at));
            }
        }
        Self { text, words, next: 0 }
    }

    /// The next word in small letters; empty at the end.
    fn peek(&self) -> String {
        self.words.get(self.next).map_or_else(String::new, |(_, word)| word.to_ascii_lowercase())
    }

    /// Takes the next word where it is this one.
    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.peek() == wanted;
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), RuleError> {
        if self.takes(wanted) { Ok(()) } else { Err(self.wrong(&format!("{wanted:?}"))) }
    }

    /// Says what stands where something else is expected.
    fn wrong(&self, expected: &str) -> RuleError {
        let at = self.words.get(self.next).map_or(self.text.len(), |(at, _)| *at);
        let before = short(self.text.get(..at).unwrap_or_default().trim().chars().rev());
        let before: String = before.chars().rev().collect();
        let found = match self.words.get(self.next).map(|(_, word)| short(word.chars())) {
            Some(word) if before.is_empty() => format!("it begins with {word:?}"),
            Some(word) => format!("{word:?} stands after {before:?}"),
            None if before.is_empty() => "it is empty".to_owned(),
            None => format!("it ends after {before:?}"),
        };
        RuleError::Words(format!("{found}, where {expected} is expected"))
    }

    /// Whether another stage follows; an error where something else does.
    fn next_stage(&mut self) -> Result<bool, RuleError> {
        if self.next >= self.words.len() {
            return Ok(false);
        }
        let comma = self.takes(",");
        if self.takes("then") {
            return Ok(true);
        }
        Err(self.wrong(if comma { "\"then\"" } else { "\", then\" or the end" }))
    }

    fn stage(&mut self) -> Result<Stage, RuleError> {
        let first = self.next;
        let (which, extent) = match self.peek().as_str() {
            "the" | "last" => {
                self.takes("the");
                self.expect("last")?;
                let number = self.number()?;
                self.takes("versions");
                (Which::All, Extent::Newest(number))
            }
            _ => (self.which()?, self.extent()?),
        };
        let place = |nth: usize| self.words.get(nth).map_or((0, 0), |(at, word)| (*at, at + word.len()));
        let (from, until) = (place(first).0, place(self.next.saturating_sub(1)).1);
        let text = self.text.get(from..until).unwrap_or_default().split_whitespace();
        Ok(Stage { which, extent, text: text.collect::<Vec<_>>().join(" ") })
    }

    fn which(&mut self) -> Result<Which, RuleError> {
        let word = self.peek();
        let which = match word.as_str() {
            "all" => Which::All,
            "hourly" => Which::Last(Period::Hour),
            "daily" => Which::Last(Period::Day),
            "weekly" => Which::Last(Period::Week),
            "monthly" => Which::Last(Period::Month),
            "yearly" => Which::Last(Period::Year),
            "one" => {
                self.next += 1;
                if !self.takes("an") {
                    self.expect("a")?;
                }
                Which::Last(self.unit(false)?)
            }
            "hour" | "day" | "week" | "month" | "year" => {
                let unit = self.unit(false)?;
                self.expect("ends")?;
                return Ok(Which::Last(unit));
            }
            _ => return Err(self.wrong(WHAT)),
        };
        self.next += usize::from(word != "one");
        Ok(which)
    }

    fn extent(&mut self) -> Result<Extent, RuleError> {
        if self.takes("forever") {
            return Ok(Extent::Forever);
        }
        if self.takes("of") {
            self.expect("the")?;
            self.expect("last")?;
        } else if !self.takes("for") {
            return Err(self.wrong(EXTENT));
        }
        let number = self.number()?;
        Ok(Extent::For(number, self.unit(true)?))
    }

    fn number(&mut self) -> Result<u32, RuleError> {
        let word = self.peek();
        let is_plain = word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|number| is_plain && (1..=MOST).contains(number));
        let number = number.ok_or_else(|| self.wrong(&format!("a number from 1 to {MOST}")))?;
        self.next += 1;
        Ok(number)
    }

    fn unit(&mut self, may_be_many: bool) -> Result<Period, RuleError> {
        let word = self.peek();
        let one = if may_be_many { word.strip_suffix('s').unwrap_or(&word) } else { &word };
        let unit = match one {
            "hour" => Period::Hour,
            "day" => Period::Day,
            "week" => Period::Week,
            "month" => Period::Month,
            "year" => Period::Year,
            _ => return Err(self.wrong(if may_be_many { UNIT } else { "hour, day, week, month or year" })),
        };
        self.next += 1;
        Ok(unit)
    }
}

/// No more of a text than is read at a glance.
fn short(mut text: impl Iterator<Item = char>) -> String {
    let mut shown: String = text.by_ref().take(80).collect();
    if text.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    fn stages(text: &str) -> Vec<(Which, Extent)> {
        read(text).unwrap().iter().map(|stage| (stage.which, stage.extent)).collect()
    }

    fn refusal(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn rules_as_people_say_them() {
        let (all, last) = (Which::All, Which::Last);
        let expected = [
            (all, Extent::For(14, Period::Day)),
            (last(Period::Day), Extent::For(3, Period::Month)),
            (last(Period::Month), Extent::For(7, Period::Year)),
        ];
        for text in [
            "all for 14 days, then daily for 3 months, then month ends for 7 years",
            "all of the last 14 days, then one a day for 3 months, then month ends for 7 years",
            "All for 14 days then day ends for 3 months then one a month of the last 7 years",
            "  all for 14 days ,then daily\n for 3 month,\tthen monthly for 7 years ",
        ] {
            assert_eq!(stages(text), expected, "{text:?}");
        }
        assert_eq!(stages("all forever"), [(all, Extent::Forever)]);
        assert_eq!(stages("the last 30"), [(all, Extent::Newest(30))]);
        let expected = [(all, Extent::Newest(1)), (last(Period::Year), Extent::Forever)];
        assert_eq!(stages("last 1 versions, then year ends forever"), expected);
        let expected =
            [(last(Period::Hour), Extent::For(1, Period::Week)), (last(Period::Week), Extent::Forever)];
        assert_eq!(stages("one an hour for 1 week, then weekly forever"), expected);
        assert_eq!(stages("last 5, then all for 2 hours")[1], (all, Extent::For(2, Period::Hour)));
    }

    #[test]
    fn a_stage_remembers_its_words() {
        let rule: Rule = "all  for 14 days ,  then Month ends forever".parse().unwrap();
        assert_eq!(rule.stages()[1].text, "Month ends forever");
        assert_eq!(rule.text(), "all for 14 days, then Month ends forever");
        assert_eq!(rule.text().parse::<Rule>().unwrap().stages()[0], rule.stages()[0]);
    }

    #[test]
    fn what_is_not_understood_is_pointed_at() {
        for (text, said) in [
            ("", "it is empty, where \"all\""),
            ("  ", "it is empty, where \"all\""),
            ("everything", "it begins with \"everything\", where \"all\""),
            ("all", "it ends after \"all\", where \"for\""),
            ("all 14 days", "\"14\" stands after \"all\", where \"for\""),
            ("all for days", "\"days\" stands after \"all for\", where a number"),
            ("all for 0 days", "\"0\" stands after \"all for\", where a number from 1"),
            ("all for -3 days", "\"-3\" stands after"),
            ("all for +3 days", "\"+3\" stands after"),
            ("all for 1000001 days", "\"1000001\" stands after"),
            ("all for 99999999999 days", "\"99999999999\" stands after"),
            ("all for 14", "it ends after \"all for 14\", where hours, days"),
            ("all for 14 fortnights", "\"fortnights\" stands after \"all for 14\""),
            (
                "all for 14 days daily for 3 months",
                "\"daily\" stands after \"all for 14 days\", where \", then\"",
            ),
            ("all for 14 days,", "it ends after \"all for 14 days,\", where \"then\""),
            ("all for 14 days, then", "it ends after \"all for 14 days, then\", where \"all\""),
            ("all for 14 days, then daly for 3 months", "\"daly\" stands after \"all for 14 days, then\""),
            ("all of 14 days", "\"14\" stands after \"all of\", where \"the\""),
            ("day for 3 months", "\"for\" stands after \"day\", where \"ends\""),
            ("days ends for 3 months", "it begins with \"days\""),
            ("one day for 3 months", "\"day\" stands after \"one\", where \"a\""),
            ("one a days for 3 months", "\"days\" stands after \"one a\", where hour, day"),
            ("the 30", "\"30\" stands after \"the\", where \"last\""),
            ("the last few", "\"few\" stands after \"the last\", where a number"),
            ("größer", "it begins with \"größer\""),
        ] {
            assert!(refusal(text).contains(said), "{text:?}: {}", refusal(text));
        }
    }
}
