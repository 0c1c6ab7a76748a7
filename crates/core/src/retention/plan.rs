//! The plan: every rule is asked for every version.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{Candidate, Extent, Period, Plan, Retention, Rule, Stage, Verdict, Weight, Which};
use crate::guard::Size;

/// What the rules make of a version: how firmly it stays, if it does, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    hold: Firmness,
    why: String,
}

/// How firmly a version stays. Where space is short they go from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Firmness {
    /// No rule keeps it.
    None,
    /// The stage with this number of the store's rule keeps it, counted from 0: the later ones let go first.
    Stage(Reverse<usize>),
    /// A label's rule keeps it.
    Label,
    /// It never goes.
    Firm,
}

/// What a stage of a rule makes of a version.
type Opinion = Result<(usize, String), String>;

impl Retention {
    /// What is to be done about each of a store's readable versions, which are in the order of their numbers. Where the
    /// archive was not weighed, nothing is said of space, and nothing goes for it.
    #[must_use]
    pub fn plan(&self, candidates: &[Candidate<'_>], weight: Option<&Weight>, now: Timestamp) -> Plan {
        let mut judged = self.judge(candidates, now);
        let mut returned = vec![0; candidates.len()];
        let mut over_bytes = 0;
        if let Some(weight) = weight {
            over_bytes = self.fit(candidates, weight, &mut judged, &mut returned);
        }
        let verdicts = candidates.iter().zip(judged).zip(&returned).map(|((candidate, judged), bytes)| {
            let keep = judged.hold != Firmness::None;
            Verdict { number: candidate.number, keep, why: judged.why, frees_bytes: *bytes }
        });
        let (verdicts, frees_bytes) = (verdicts.collect(), returned.iter().sum());
        Plan { verdicts, frees_bytes, over_bytes }
    }

    /// What all rules but the size budget make of each version.
    fn judge(&self, candidates: &[Candidate<'_>], now: Timestamp) -> Vec<Judged> {
        let mut judged: Vec<Judged> = match &self.keep {
            Some(rule) => {
                let opinions = opinions(rule, &candidates.iter().collect::<Vec<_>>(), now);
                opinions.into_iter().map(Judged::by_store).collect()
            }
            None => {
                let kept =
                    || Judged { hold: Firmness::Stage(Reverse(0)), why: "no rule gives it up".to_owned() };
                candidates.iter().map(|_| kept()).collect()
            }
        };
        self.judge_by_label(candidates, now, &mut judged);
        let newest = candidates.len().saturating_sub(1);
        let at_least = usize::try_from(self.at_least).unwrap_or(usize::MAX);
        for (nth, (candidate, judged)) in candidates.iter().zip(&mut judged).enumerate() {
            let why = match &candidate.held {
                _ if nth == newest => "it is the newest version".to_owned(),
                Some(why) => why.clone(),
                None if newest - nth < at_least => {
                    format!("at_least = {at_least}: it is one of the newest so many")
                }
                None => continue,
            };
            *judged = Judged { hold: Firmness::Firm, why };
        }
        judged
    }

    /// Keeps what a label's rule keeps.
    fn judge_by_label(&self, candidates: &[Candidate<'_>], now: Timestamp, judged: &mut [Judged]) {
        for label_rule in &self.labels {
            let matches = |candidate: &Candidate<'_>| {
                candidate.labels.iter().any(|label| label_rule.pattern.matches(label))
            };
            let (mut members, mut theirs) = (Vec::new(), Vec::new());
            for (candidate, judged) in candidates.iter().zip(&mut *judged) {
                if matches(candidate) {
                    members.push(candidate);
                    theirs.push(judged);
                }
            }
            for (opinion, judged) in opinions(&label_rule.keep, &members, now).into_iter().zip(theirs) {
                if let (Ok((_, why)), true) = (opinion, judged.hold < Firmness::Label) {
                    let why = format!("label {:?}: {why}", label_rule.pattern.to_string());
                    *judged = Judged { hold: Firmness::Label, why };
                }
            }
        }
    }

    /// Gives up what the size budget asks for, and notes what comes back with each version. Answers by how much the
    /// archive stays too large.
    fn fit(
        &self,
        candidates: &[Candidate<'_>],
        weight: &Weight,
        judged: &mut [Judged],
        returned: &mut [u64],
    ) -> u64 {
        let order = order_of_going(candidates, judged);
        let mut places = vec![None; candidates.len()];
        for (place, nth) in order.iter().enumerate() {
            places.get_mut(*nth).into_iter().for_each(|slot| *slot = Some(place));
        }
        let numbers: Vec<u64> = candidates.iter().map(|candidate| candidate.number).collect();
        let returns = weight.returns(&numbers, &places);
        let excess = |at_most: u64| weight.bytes.saturating_sub(returns.before).saturating_sub(at_most);
        let goes_anyway = judged.iter().filter(|judged| judged.hold == Firmness::None).count();
        // What comes back at least is known from the parts. It may be much more, where differences become one, but
        // never more than the versions have added. Going by that, none goes that need not.
        let most: Vec<u64> =
            order.iter().filter_map(|nth| candidates.get(*nth)).map(|one| one.bytes).collect();
        let going = goes_anyway.max(self.at_most.map_or(0, |budget| enough(&most, excess(budget))));
        for (nth, bytes) in order.iter().zip(&returns.at).take(going) {
            returned.get_mut(*nth).into_iter().for_each(|slot| *slot = *bytes);
            let Some(judged) = judged.get_mut(*nth).filter(|judged| judged.hold != Firmness::None) else {
                continue;
            };
            let at_most = self.at_most.unwrap_or_default();
            let why = format!(
                "at_most = {}, and the archive takes {}: space comes before {}",
                Size(at_most),
                Size(weight.bytes),
                judged.why
            );
            *judged = Judged { hold: Firmness::None, why };
        }
        let freed: u64 = most.iter().take(going).sum();
        self.at_most.map_or(0, |budget| excess(budget).saturating_sub(freed))
    }
}

/// How many of the first must go at the least until so many bytes can have come back, or else all.
fn enough(most: &[u64], wanted: u64) -> usize {
    let sums = most.iter().scan(0_u64, |sum, bytes| {
        let before = *sum;
        *sum = sum.saturating_add(*bytes);
        Some(before)
    });
    sums.take_while(|before| *before < wanted).count()
}

/// The order in which versions go, by their places among the candidates: those that no rule keeps first, then those that
/// can go for space. What gives nothing back in the archive does not go for space.
fn order_of_going(candidates: &[Candidate<'_>], judged: &[Judged]) -> Vec<usize> {
    let can_go = |candidate: &Candidate<'_>, judged: &Judged| match judged.hold {
        Firmness::None => true,
        Firmness::Stage(_) | Firmness::Label => candidate.bytes > 0,
        Firmness::Firm => false,
    };
    let all = candidates.iter().zip(judged).enumerate();
    let mut order: Vec<(Firmness, usize)> = all
        .filter(|(_, (candidate, judged))| can_go(candidate, judged))
        .map(|(nth, (_, judged))| (judged.hold, nth))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, nth)| nth).collect()
}

impl Judged {
    fn by_store(opinion: Opinion) -> Self {
        match opinion {
            Ok((stage, why)) => Self { hold: Firmness::Stage(Reverse(stage)), why },
            Err(why) => Self { hold: Firmness::None, why },
        }
    }
}

/// What a rule makes of each version that it is about: the number of the stage that keeps it, or why none does.
///
/// A stage also keeps what a later stage will keep once the version has come there: the last version of a month is
/// seldom the last one of its week, and would be gone before the month's turn came.
fn opinions(rule: &Rule, members: &[&Candidate<'_>], now: Timestamp) -> Vec<Opinion> {
    let horizons: Vec<Timestamp> = rule.stages().iter().map(|stage| stage.extent.horizon(now)).collect();
    let last: Vec<_> = rule.stages().iter().map(|stage| last_of_each(stage.which, members)).collect();
    let opinion = |(nth, member): (usize, &&Candidate<'_>)| {
        let newer = members.len() - nth - 1;
        let reaches = |(stage, horizon): (&Stage, &Timestamp)| match stage.extent {
            Extent::Newest(number) => usize::try_from(number).is_ok_and(|number| newer < number),
            Extent::For(..) | Extent::Forever => member.published_at >= *horizon,
        };
        let Some(own) = rule.stages().iter().zip(&horizons).position(reaches) else {
            return Err(rule.stages().last().map_or_else(String::new, beyond));
        };
        let mut refusal = None;
        for (number, (stage, last)) in rule.stages().iter().zip(&last).enumerate().skip(own) {
            let Which::Last(period) = stage.which else {
                return Ok((number, format!("{:?}", stage.text)));
            };
            let period = Named::of(member, period);
            match last.get(&period).map(|(_, last)| *last) {
                Some(last) if last != member.number => refusal = refusal.or(Some((stage, period, last))),
                _ => return Ok((number, format!("{:?}: it is the last of {period}", stage.text))),
            }
        }
        Err(refusal.map_or_else(String::new, |(stage, period, last)| {
            format!("{:?} keeps the last of {period}, and that is version {last}", stage.text)
        }))
    };
    members.iter().enumerate().map(opinion).collect()
}

/// Why a version is not kept that no stage reaches.
fn beyond(last: &Stage) -> String {
    match last.extent {
        Extent::Newest(_) => format!("it is not among {:?}", last.text),
        Extent::For(..) | Extent::Forever => format!("it is older than {:?} reaches", last.text),
    }
}

/// The last version of each period, with what makes it the last: its day, then its publication, then its number.
fn last_of_each(which: Which, members: &[&Candidate<'_>]) -> BTreeMap<Named, ((Date, Timestamp), u64)> {
    let mut last = BTreeMap::new();
    let Which::Last(period) = which else { return last };
    for member in members {
        let own = ((day_of(member, period), member.published_at), member.number);
        last.entry(Named::of(member, period)).and_modify(|last| *last = own.max(*last)).or_insert(own);
    }
    last
}

/// The day that a version stands for. A business date has no hours: they are those of the publication.
fn day_of(candidate: &Candidate<'_>, period: Period) -> Date {
    let published = || candidate.published_at.to_zoned(TimeZone::UTC).date();
    candidate.business_date.filter(|_| period != Period::Hour).unwrap_or_else(published)
}

/// A period of the calendar by its name: its year, and its numbers within the year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Hour(Date, i8),
    Day(Date),
    Week(i16, i8),
    Month(i16, i8),
    Year(i16),
}

impl Named {
    fn of(candidate: &Candidate<'_>, period: Period) -> Self {
        let day = day_of(candidate, period);
        match period {
            Period::Hour => Self::Hour(day, candidate.published_at.to_zoned(TimeZone::UTC).hour()),
            Period::Day => Self::Day(day),
            Period::Week => {
                let week = day.iso_week_date();
                Self::Week(week.year(), week.week())
            }
            Period::Month => Self::Month(day.year(), day.month()),
            Period::Year => Self::Year(day.year()),
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hour(day, hour) => write!(f, "{day} {hour:02}:00 UTC"),
            Self::Day(day) => write!(f, "{day}"),
            Self::Week(year, week) => write!(f, "{year}-W{week:02}"),
            Self::Month(year, month) => write!(f, "{year}-{month:02}"),
            Self::Year(year) => write!(f, "{year}"),
        }
    }
}
