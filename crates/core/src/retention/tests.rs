//! The rules by tables, and the plan against what a person would work out.

use std::collections::BTreeSet;

use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::*;

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

fn keeping(text: &str) -> Retention {
    Retention { keep: Some(rule(text)), ..Retention::default() }
}

fn candidate(number: u64, published_at: &str) -> Candidate<'static> {
    Candidate {
        number,
        published_at: published_at.parse().unwrap(),
        business_date: None,
        labels: Vec::new(),
        held: None,
        bytes: 110,
    }
}

fn history(times: &[&str]) -> Vec<Candidate<'static>> {
    (1..).zip(times).map(|(number, at)| candidate(number, at)).collect()
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn gone(plan: &Plan) -> Vec<u64> {
    plan.given_up().map(|verdict| verdict.number).collect()
}

fn expired(rules: &Retention, candidates: &[Candidate<'_>]) -> Vec<u64> {
    gone(&rules.plan(candidates, None, now()))
}

const TIMES: [&str; 9] = [
    "2024-12-31T23:59:59Z", // 1: a year, a month, an ISO week that belongs to 2025
    "2025-12-30T08:00:00Z", // 2
    "2026-01-31T08:00:00Z", // 3
    "2026-01-31T18:00:00Z", // 4: a Saturday
    "2026-02-01T08:00:00Z", // 5: a Sunday
    "2026-02-27T08:00:00Z", // 6
    "2026-02-28T08:00:00Z", // 7
    "2026-03-01T08:00:00Z", // 8
    "2026-03-01T11:00:00Z", // 9
];

#[test]
fn what_each_rule_lets_go() {
    for (text, expected) in [
        ("all forever", &[][..]),
        ("the last 3", &[1, 2, 3, 4, 5, 6]),
        ("the last 100", &[]),
        ("all for 2 days", &[1, 2, 3, 4, 5, 6]),
        ("all for 1 month", &[1, 2, 3, 4, 5]),
        ("all for 9000 years", &[]),
        ("daily forever", &[3, 8]),
        ("hourly forever", &[]),
        ("monthly forever", &[3, 5, 6, 8]),
        ("yearly for 1 year", &[1, 3, 4, 5, 6, 7, 8]),
        // The last day of 2024 lies in the first ISO week of 2025.
        ("weekly forever", &[3, 4, 6, 7, 8]),
        ("all for 4 hours, then monthly for 60 days", &[1, 2, 3, 5, 6]),
        ("the last 1, then all for 2 days, then yearly forever", &[3, 4, 5, 6]),
        // What the month will keep stays in the weeks before, though it is not the last of its week.
        ("all for 2 days, then weekly for 6 weeks, then month ends forever", &[3, 6]),
    ] {
        assert_eq!(expired(&keeping(text), &history(&TIMES)), expected, "{text}");
    }
    assert_eq!(expired(&Retention::default(), &history(&TIMES)), [0; 0]);
}

#[test]
fn a_business_date_says_what_day_a_version_stands_for() {
    let mut candidates = history(&["2026-02-01T08:00:00Z", "2026-02-02T08:00:00Z", "2026-02-03T08:00:00Z"]);
    let rules = keeping("the last 1, then month ends forever");
    assert_eq!(expired(&rules, &candidates), [1, 2]);
    // Closed on the day after, January ends with version 1, though the 30th was published again later.
    candidates[0].business_date = Some("2026-01-31".parse().unwrap());
    candidates[1].business_date = Some("2026-01-30".parse().unwrap());
    assert_eq!(expired(&rules, &candidates), [2]);
    // Hours are those of the publication.
    assert_eq!(expired(&keeping("hourly forever"), &candidates), [0; 0]);
}

#[test]
fn pins_and_the_newest_so_many_stand_above_the_rules() {
    let mut candidates = history(&TIMES);
    candidates[1].held = Some("report@2 is pinned: audit".to_owned());
    let rules = Retention { at_least: 3, ..keeping("the last 1") };
    let plan = rules.plan(&candidates, None, now());
    assert_eq!(gone(&plan), [1, 3, 4, 5, 6]);
    let why = |number: usize| plan.verdicts[number - 1].why.as_str();
    assert_eq!(why(1), "it is not among \"the last 1\"");
    assert_eq!(why(2), "report@2 is pinned: audit");
    assert_eq!(why(7), "at_least = 3: it is one of the newest so many");
    assert_eq!(why(9), "it is the newest version");
}

#[test]
fn a_label_keeps_what_its_rule_keeps() {
    let mut candidates = history(&TIMES);
    candidates[0].labels = vec!["first", "month-end 2024-12"];
    candidates[3].labels = vec!["month-end 2026-01"];
    candidates[4].labels = vec!["month-end", "other"];
    let pattern = Pattern::new("month-end *");
    let labels = vec![LabelRule { pattern, keep: rule("month ends for 1 year") }];
    let plan = Retention { labels, ..keeping("the last 2") }.plan(&candidates, None, now());
    assert_eq!(gone(&plan), [1, 2, 3, 5, 6, 7]);
    let why = "label \"month-end *\": \"month ends for 1 year\": it is the last of 2026-01";
    assert_eq!(plan.verdicts[3].why, why);
}

#[test]
fn every_verdict_names_its_rule() {
    let plan = keeping("all for 2 days, then daily for 2 months").plan(&history(&TIMES), None, now());
    let why = |number: usize| plan.verdicts[number - 1].why.as_str();
    assert_eq!(why(2), "it is older than \"daily for 2 months\" reaches");
    assert_eq!(why(3), "\"daily for 2 months\" keeps the last of 2026-01-31, and that is version 4");
    assert_eq!(why(4), "\"daily for 2 months\": it is the last of 2026-01-31");
    assert_eq!(why(8), "\"all for 2 days\"");
}

/// Each version needs 10 bytes alone, and 100 with the one after it.
fn weight(count: u64) -> Weight {
    let alone = (1..=count).map(|number| Part { first: number, last: number, bytes: 10 });
    let shared = (1..count).map(|number| Part { first: number, last: number + 1, bytes: 100 });
    let parts: Vec<Part> = alone.chain(shared).collect();
    Weight { bytes: parts.iter().map(|part| part.bytes).sum(), parts }
}

#[test]
fn the_size_budget_takes_the_oldest_of_the_last_stage_first() {
    let mut candidates = history(&TIMES);
    candidates[3].labels = vec!["audit"];
    let labels = vec![LabelRule { pattern: Pattern::new("audit"), keep: rule("all forever") }];
    let stages = "all for 3 days, then daily for 7 weeks, then yearly forever";
    // 3 goes for its age; 1 and 2 are kept by years, 5 by days, 6 to 9 by the newest days, 4 by its label.
    for (at_most, at_least, expected, frees, over) in [
        (890, 1, &[3][..], 10, 0),
        (780, 1, &[3], 10, 0),
        (779, 1, &[1, 3], 20, 0),
        (670, 1, &[1, 3], 20, 0),
        (669, 1, &[1, 2, 3], 230, 0),
        (559, 1, &[1, 2, 3, 5], 240, 0),
        (449, 1, &[1, 2, 3, 5, 6], 350, 0),
        (10, 1, &[1, 2, 3, 4, 5, 6, 7, 8], 780, 0),
        (9, 1, &[1, 2, 3, 4, 5, 6, 7, 8], 780, 1),
        (100, 5, &[1, 2, 3, 4], 340, 350),
    ] {
        let rules = Retention { at_most: Some(at_most), at_least, labels: labels.clone(), ..keeping(stages) };
        let plan = rules.plan(&candidates, Some(&weight(9)), now());
        let found = (gone(&plan), plan.frees_bytes, plan.over_bytes);
        assert_eq!(found, (expected.to_vec(), frees, over), "{at_most} {at_least}");
    }
}

#[test]
fn nothing_goes_for_space_that_is_not_in_the_archive() {
    let mut candidates = history(&TIMES);
    candidates.iter_mut().take(2).for_each(|candidate| candidate.bytes = 0);
    let rules = Retention { at_most: Some(1), at_least: 8, ..Retention::default() };
    assert_eq!(gone(&rules.plan(&candidates, Some(&weight(9)), now())), [0; 0]);
    candidates[0].bytes = 110;
    assert_eq!(gone(&rules.plan(&candidates, Some(&weight(9)), now())), [1]);
}

/// The period that an instant falls into, as a person reads it off.
fn period(which: Which, at: Timestamp) -> String {
    let text = at.to_string();
    match which {
        Which::All => text,
        Which::Last(Period::Hour) => text[..13].to_owned(),
        Which::Last(Period::Day) => text[..10].to_owned(),
        Which::Last(Period::Week) => (at.as_second() / 86_400 + 3).div_euclid(7).to_string(),
        Which::Last(Period::Month) => text[..7].to_owned(),
        Which::Last(Period::Year) => text[..4].to_owned(),
    }
}

/// The stage that keeps a version, as a person works it out: which stage it is in, and whether that one or a later one
/// has nothing newer in the same period.
fn stage_of(rule: &Rule, members: &[&Candidate<'_>], one: &Candidate<'_>, now: Timestamp) -> Option<usize> {
    let newer: Vec<_> = members.iter().filter(|other| other.number > one.number).collect();
    let own = rule.stages().iter().position(|stage| match stage.extent {
        Extent::Newest(number) => newer.len() < number as usize,
        extent => one.published_at >= extent.horizon(now),
    })?;
    (own..rule.stages().len()).find(|&stage| {
        let which = rule.stages()[stage].which;
        let same =
            |other: &&&Candidate<'_>| period(which, other.published_at) == period(which, one.published_at);
        which == Which::All || !newer.iter().any(same)
    })
}

/// What is left in the archive once these have gone.
fn left(weight: &Weight, candidates: &[Candidate<'_>], gone: &BTreeSet<u64>) -> u64 {
    let is_needed = |part: &&Part| {
        let mut needs = candidates.iter().filter(|c| part.first <= c.number && c.number <= part.last);
        needs.any(|c| !gone.contains(&c.number))
    };
    weight.parts.iter().filter(is_needed).map(|part| part.bytes).sum()
}

/// The versions that go, and what stays too much, asking each rule in turn for each version.
fn by_hand(rules: &Retention, all: &[Candidate<'_>], weight: &Weight, now: Timestamp) -> (Vec<u64>, u64) {
    let everyone: Vec<_> = all.iter().collect();
    let newest = all.len() - (rules.at_least as usize).clamp(1, all.len());
    let is_firm = |nth: usize, one: &Candidate<'_>| nth >= newest || one.held.is_some();
    let by_label = |one: &Candidate<'_>| {
        rules.labels.iter().any(|label| {
            let matches = |c: &Candidate<'_>| c.labels.iter().any(|text| label.pattern.matches(text));
            let members: Vec<_> = all.iter().filter(|c| matches(c)).collect();
            matches(one) && stage_of(&label.keep, &members, one, now).is_some()
        })
    };
    let by_age = |one: &Candidate<'_>| match &rules.keep {
        Some(rule) => stage_of(rule, &everyone, one, now),
        None => Some(0),
    };
    let mut gone = BTreeSet::new();
    let mut could = Vec::new();
    for (nth, one) in all.iter().enumerate().filter(|(nth, one)| !is_firm(*nth, one)) {
        match (by_label(one), by_age(one)) {
            (false, None) => _ = gone.insert(one.number),
            // A label's rule lets go last, and the last stage first.
            (label, stage) => {
                could.push((label, std::cmp::Reverse(stage.filter(|_| !label)), nth, one.number))
            }
        }
    }
    could.sort_unstable();
    // No more go than may be enough: what each has added is the most that comes back.
    let most = |gone: &BTreeSet<u64>| -> u64 {
        all.iter().filter(|c| gone.contains(&c.number)).map(|c| c.bytes).sum()
    };
    let at_most = rules.at_most.unwrap_or(u64::MAX);
    let over = |gone: &BTreeSet<u64>| weight.bytes.saturating_sub(at_most).saturating_sub(most(gone));
    for (.., number) in could {
        if over(&gone) > 0 && all.iter().any(|c| c.number == number && c.bytes > 0) {
            gone.insert(number);
        }
    }
    let over = over(&gone);
    (gone.into_iter().collect(), over)
}

const RULES: [&str; 9] = [
    "all forever",
    "the last 3",
    "all for 20 days",
    "daily for 60 days",
    "weekly for 1 year, then yearly forever",
    "all for 14 days, then daily for 3 months, then month ends for 2 years",
    "the last 2, then monthly forever",
    "hourly for 1 day, then weekly for 10 weeks, then month ends for 2 years",
    "one a year for 3 years",
];

proptest! {
    #[test]
    fn the_plan_is_what_asking_each_rule_in_turn_gives(
        mut hours in proptest::collection::vec(0i64..30_000, 1..40),
        held in proptest::collection::vec(proptest::bool::weighted(0.1), 40),
        labels in proptest::collection::vec(0usize..3, 40),
        bytes in proptest::collection::vec(0u64..300, 40),
        keep in proptest::option::of(0..RULES.len()),
        label_rules in proptest::collection::vec(0..RULES.len(), 0..3),
        at_most in proptest::option::of(0u64..3_000),
        at_least in 0u32..8,
        parts in proptest::collection::vec((1u64..40, 0u64..6, 1u64..200), 0..60),
    ) {
        hours.sort_unstable();
        let start: Timestamp = "2023-01-01T00:00:00Z".parse().unwrap();
        let now = start + 30_000.hours();
        let names = ["close", "month-end", "adhoc"];
        let all: Vec<Candidate<'_>> = (1..).zip(&hours).zip(held.iter().zip(labels)).map(|((number, h), (held, label))| {
            let held = held.then(|| "held".to_owned());
            Candidate { held, bytes: bytes[usize::try_from(number).unwrap() - 1], labels: vec![names[label]], published_at: start + h.hours(), ..candidate(number, "2023-01-01T00:00:00Z") }
        }).collect();
        let newest = all.len() as u64;
        let parts = parts.into_iter().map(|(first, more, bytes)| Part { first, last: first + more, bytes });
        let parts: Vec<Part> = parts.filter(|part| part.last <= newest).collect();
        let weight = Weight { bytes: parts.iter().map(|part| part.bytes).sum(), parts };
        let pattern = |nth: usize| Pattern::new(["month*", "?????"][nth]);
        let labels = label_rules.iter().enumerate()
            .map(|(nth, text)| LabelRule { pattern: pattern(nth), keep: rule(RULES[*text]) }).collect();
        let rules = Retention { keep: keep.map(|nth| rule(RULES[nth])), at_most, at_least, labels };
        let plan = rules.plan(&all, Some(&weight), now);
        prop_assert_eq!((gone(&plan), plan.over_bytes), by_hand(&rules, &all, &weight, now));
        let gone: BTreeSet<u64> = gone(&plan).into_iter().collect();
        prop_assert_eq!(plan.frees_bytes, weight.bytes - left(&weight, &all, &gone));
        prop_assert!(!rules.keeps_everything() || gone.is_empty());
    }
}
