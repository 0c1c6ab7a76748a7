//! Watch mode against examples, and against a model of a store that is written at any moments.

use super::*;
use crate::check::{Rows, Value};

const PACE: Debounce = Debounce { debounce: Duration::from_millis(30), longest: Duration::from_millis(75) };

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn problem(code: Code) -> Problem {
    Problem::new(code, "made up", "")
}

/// A watch that has found this value at its start, and has nothing to do.
fn settled(value: &str) -> Watch {
    let mut watch = Watch::new(PACE, Some(value.to_owned()));
    assert_eq!(watch.next(ms(0)), Step::Ask { anyway: true });
    watch.answered(ms(0), ms(0), &Ok(Some(value.to_owned())), false);
    assert_eq!(watch.next(ms(0)), Step::Wait(None));
    watch
}

#[test]
fn what_moved_while_nobody_watched_is_published_at_the_start() {
    let mut watch = Watch::new(PACE, Some("41".to_owned()));
    watch.answered(ms(0), ms(1), &Ok(Some("42".to_owned())), false);
    assert_eq!(watch.next(ms(1)), Step::Publish("42".to_owned()));
    watch.published(ms(2), &Ok("42".to_owned()));
    assert_eq!((watch.next(ms(2)), watch.last_published()), (Step::Wait(None), Some("42")));
}

#[test]
fn a_commit_is_asked_about_once_nothing_follows_and_soon_in_any_case() {
    let mut watch = settled("41");
    watch.notice(ms(1000));
    assert_eq!(watch.next(ms(1000)), Step::Wait(Some(ms(1030))));
    watch.notice(ms(1020));
    assert_eq!(watch.next(ms(1049)), Step::Wait(Some(ms(1050))));
    assert_eq!(watch.next(ms(1050)), Step::Ask { anyway: false });
    for at in (1040..1075).step_by(5) {
        watch.notice(ms(at));
    }
    assert_eq!(watch.next(ms(1074)), Step::Wait(Some(ms(1075))));
    assert_eq!(watch.next(ms(1075)), Step::Ask { anyway: false });
    watch.unchanged();
    assert_eq!(watch.next(ms(1075)), Step::Wait(None));
}

#[test]
fn a_value_that_is_not_another_one_is_not_published() {
    let mut watch = settled("41");
    for answer in [Ok(Some("41".to_owned())), Ok(None), Ok(Some("41".to_owned()))] {
        watch.notice(ms(1000));
        watch.answered(ms(1030), ms(1030), &answer, false);
        assert_eq!(watch.next(ms(1030)), Step::Wait(None), "{answer:?}");
    }
    watch.answered(ms(2000), ms(2000), &Ok(Some("40".to_owned())), false);
    assert_eq!(watch.next(ms(2000)), Step::Publish("40".to_owned()), "a value may go back");
}

#[test]
fn a_marker_that_takes_long_is_asked_for_rarely() {
    let mut watch = settled("41");
    watch.notice(ms(1000));
    watch.answered(ms(1030), ms(1130), &Ok(Some("41".to_owned())), false);
    watch.notice(ms(1131));
    assert_eq!(watch.next(ms(1300)), Step::Wait(Some(ms(2030))));
    assert_eq!(watch.next(ms(2030)), Step::Ask { anyway: false });
}

#[test]
fn what_may_pass_is_tried_again_later_and_later_and_what_a_commit_must_mend_is_not() {
    let mut now = ms(1000);
    let mut waits = |code| {
        let mut watch = settled("41");
        let mut wait = |_| {
            watch.answered(now, now, &Err(problem(code)), false);
            let Step::Wait(Some(until)) = watch.next(now) else { panic!("it does not wait") };
            assert_eq!(watch.next(until), Step::Ask { anyway: true });
            (until - std::mem::replace(&mut now, until)).as_millis()
        };
        (0..10).map(&mut wait).collect::<Vec<_>>()
    };
    assert_eq!(waits(Code::Internal), [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    // Nobody tells when a lock ends.
    assert_eq!(waits(Code::StoreBusy), [250, 500, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
    let mut watch = settled("41");
    watch.answered(now, now, &Ok(Some("42".to_owned())), false);
    watch.published(now, &Err(problem(Code::StorageFull)));
    assert!(
        matches!(watch.next(now), Step::Wait(Some(_))),
        "the value is asked for anew before it is published"
    );
    watch.answered(now, now, &Ok(Some("42".to_owned())), false);
    watch.published(now, &Err(problem(Code::CheckFailed)));
    assert_eq!(watch.next(now), Step::Wait(None));
    watch.notice(now);
    watch.answered(now, now, &Err(problem(Code::MarkerFailed)), false);
    assert_eq!(watch.next(now), Step::Wait(Some(now + Watch::LAST_RETRY)));
    watch.notice(now);
    assert_eq!(watch.next(now), Step::Wait(Some(now + PACE.debounce)), "a commit comes first");
}

#[test]
fn a_commit_that_was_under_way_is_asked_about_until_it_is_there_though_nothing_more_is_noticed() {
    let mut watch = settled("41");
    watch.notice(ms(1000));
    let (mut now, mut waits) = (ms(1030), Vec::new());
    for _ in 0..8 {
        watch.answered(now, now, &Ok(Some("41".to_owned())), true);
        let Step::Wait(Some(until)) = watch.next(now) else { panic!("it does not wait") };
        assert_eq!(watch.next(until), Step::Ask { anyway: true });
        waits.push((until - std::mem::replace(&mut now, until)).as_millis());
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1000, 1000]);
    // What is refused meanwhile until the next commit does not end that, nor does a value that is published.
    watch.answered(now, now, &Ok(Some("42".to_owned())), true);
    watch.published(now, &Err(problem(Code::CheckFailed)));
    assert_eq!(watch.next(now), Step::Wait(Some(now + ms(1000))));
    watch.answered(now, now, &Ok(Some("42".to_owned())), true);
    watch.published(now, &Ok("42".to_owned()));
    assert_eq!(watch.next(now), Step::Wait(Some(now + ms(1000))));
    // An expensive marker is left alone for longer.
    watch.answered(now, now + ms(500), &Ok(Some("42".to_owned())), true);
    assert_eq!(watch.next(now), Step::Wait(Some(now + ms(5000))));
    watch.answered(now, now, &Ok(Some("42".to_owned())), false);
    assert_eq!(watch.next(now), Step::Wait(None));
}

fn rows(values: &[&[Value]]) -> Rows {
    Rows { first: values.iter().map(|row| row.to_vec()).collect(), more: false }
}

#[test]
fn values_that_are_taken() {
    let text = |text: &str| Value::text(text);
    for (found, expected) in [
        (Value::Null, None),
        (Value::Integer(-41), Some("-41")),
        (Value::Real(1.5), Some("1.5")),
        (Value::Real(1e300), Some("1e300")),
        (text("2026-11-19 close"), Some("2026-11-19 close")),
        (text(" größer → 🎉"), Some(" größer → 🎉")),
    ] {
        let value = rows(&[std::slice::from_ref(&found)]).marker().unwrap();
        assert_eq!(value.as_deref(), expected, "{found}");
        // What was published with a value is found to have it.
        if let Some(value) = value {
            let judged = check("select 1", ms(1)).judge(&rows(&[std::slice::from_ref(&found)]));
            assert_eq!(judged.as_ref(), Ok(&value));
            assert_eq!(attributes(&value).check(), Ok(()));
            assert_eq!(attributes(&value).marker(), Some(value.as_str()));
        }
    }
    assert_eq!(Rows::default().marker(), Ok(None));
}

#[test]
fn a_publication_of_watch_mode_has_the_value_of_what_was_cut() {
    let result = |name: &str, found: &str| CheckResult {
        name: name.to_owned(),
        passed: true,
        found: found.to_owned(),
        took_us: 1,
    };
    let checks = [result("asat.marker", "a check of that name"), result("asat.marker", "43")];
    assert_eq!(as_found(&attributes("42"), &checks), attributes("43"));
    assert_eq!(as_found(&attributes("42"), &[result("rows", "7")]), attributes("42"));
    assert_eq!(as_found(&Attributes::default(), &checks), Attributes::default());
    assert!(check("select 1", ms(1)).judge(&Rows::default()).is_err());
}

#[test]
fn values_that_are_refused() {
    let (one, blob) = (Value::Integer(1), Value::Blob(16));
    let long = "x".repeat(201);
    for found in [
        rows(&[std::slice::from_ref(&blob)]),
        rows(&[&[one.clone(), one.clone()]]),
        rows(&[std::slice::from_ref(&one), std::slice::from_ref(&one)]),
        Rows { first: vec![vec![one]], more: true },
        rows(&[&[Value::Real(f64::INFINITY)]]),
        rows(&[&[Value::text("")]]),
        rows(&[&[Value::text(" ")]]),
        rows(&[&[Value::text("a\nb")]]),
        rows(&[&[Value::text("\u{1b}[2J")]]),
        rows(&[&[Value::text(&long)]]),
    ] {
        let refused = found.marker().unwrap_err();
        assert!(refused.len() < 300, "{refused}");
    }
}

/// Numbers that replay (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A store whose commits move the marker at times, some of them long after their last write; a daemon that is restarted at
/// times, and answers that fail at times:
/// in the end the marker's value is what was published last, each value was asked for soon, and no value twice in a row.
#[test]
fn whatever_happens_the_last_value_is_published_and_none_twice_in_a_row() {
    for seed in 0..500 {
        let mut dice = Dice(seed);
        let (mut now, mut live, mut published) = (0_u64, 0_u64, Vec::<String>::new());
        let (mut waiting, mut under_way) = (None, None);
        let mut watch = Watch::new(PACE, None);
        let mut calm_rounds = 0;
        for round in 0.. {
            let over = round > 300;
            if !over && dice.below(3) == 0 {
                live += dice.below(2);
                watch.notice(ms(now));
                waiting.get_or_insert(now);
            }
            if !over && under_way.is_none() && dice.below(20) == 0 {
                watch.notice(ms(now));
                under_way = Some(now + dice.below(500));
            }
            if under_way.is_some_and(|until| until <= now) {
                // It becomes visible, and nobody tells.
                (live, under_way) = (live + 1, None);
            }
            if !over && dice.below(50) == 0 {
                watch = Watch::new(PACE, published.last().cloned());
            }
            match watch.next(ms(now)) {
                Step::Ask { anyway } => {
                    if let Some(since) = waiting.take().filter(|_| !anyway && watch.failures == 0) {
                        let bound = PACE.longest + watch.rests_until.saturating_sub(ms(since));
                        assert!(ms(now - since) <= bound + ms(20), "seed {seed}: {since} {now}");
                    }
                    let began = now;
                    now += dice.below(3);
                    let fails = !over && dice.below(4) == 0;
                    let answer =
                        if fails { Err(problem(Code::StoreBusy)) } else { Ok(Some(live.to_string())) };
                    watch.answered(ms(began), ms(now), &answer, under_way.is_some());
                }
                Step::Publish(value) => {
                    // More may be certified until the content is cut.
                    let found = if dice.below(3) == 0 { live.to_string() } else { value };
                    let refused = !over && dice.below(4) == 0;
                    if !refused {
                        assert_ne!(published.last(), Some(&found), "seed {seed}");
                        published.push(found.clone());
                    }
                    let answer = if refused { Err(problem(Code::StorageFull)) } else { Ok(found) };
                    watch.published(ms(now), &answer);
                }
                Step::Wait(until) => {
                    let step = 1 + dice.below(20);
                    let left =
                        until.map(|until| u64::try_from((until - ms(now)).as_millis()).unwrap().max(1));
                    match (left, over) {
                        (None, true) => calm_rounds += 1,
                        (Some(left), true) => now += left,
                        (left, false) => now += left.map_or(step, |left| left.min(step)),
                    }
                }
            }
            if calm_rounds > 0 {
                break;
            }
        }
        assert_eq!(published.last(), Some(&live.to_string()), "seed {seed}");
    }
}
