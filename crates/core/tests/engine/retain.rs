//! Retention: plan and deed are one.

use asat_core::event::{Answer, Event, Outcome, Reply};
use asat_core::retention::{LabelRule, Part, Pattern, Plan, Retention, Weight, retires_next};
use asat_core::snapshot::Cost;
use asat_core::version::{Attributes, Publication, State};
use asat_core::{Code, event};
use jiff::SignedDuration;
use proptest::prelude::*;

use crate::world::{World, exactly, keeping, store, trouble};

/// What the archive takes of one version in this world, in bytes.
fn one(world: &World) -> u64 {
    world.weigh(&store("report")).parts[0].bytes
}

/// A world with versions 1 to 5, whose archive may take as much as this many.
fn budgeted(versions: u64, at_least: u32) -> World {
    let mut world = World::with_versions(5);
    let at_most = Some(one(&world) * versions);
    world.restart_with(&[("report", Retention { at_most, at_least, ..Retention::default() })]);
    world
}

fn plan(world: &World) -> Plan {
    let report = store("report");
    let rules = &world.engine.policy().stores[&report].retention;
    world.engine.retention_plan(&report, rules, Some(&world.weigh(&report)), world.now).unwrap()
}

fn nothing_to_do(world: &mut World) -> bool {
    let sized = world.sized("report");
    world.tell(&sized) == Answer::Now(Ok(Reply::Done))
}

#[test]
fn an_archive_within_its_budget_is_left_alone() {
    let mut world = budgeted(5, 0);
    assert!(nothing_to_do(&mut world));
    world.restart_with(&[("report", keeping("the last 5"))]);
    assert!(nothing_to_do(&mut world), "there is no budget");
    assert!(world.open_effects().is_empty());
}

#[test]
fn an_archive_above_its_budget_is_weighed_and_the_oldest_go() {
    let mut world = budgeted(3, 0);
    world.ask(&Event::Tick).unwrap();
    assert!(world.open_effects().is_empty(), "time alone lets nothing go");
    let sized = world.sized("report");
    let weighing = world.begin(&sized);
    assert_eq!(world.open_effects(), ["weigh report"]);
    assert!(nothing_to_do(&mut world), "it is being weighed");
    world.perform(weighing).unwrap();
    assert_eq!(world.states("report"), "1 retiring, 2 retiring, 3 ready, 4 ready, 5 ready");
    let reason = world.version("report@1").end.as_ref().unwrap().reason.clone();
    assert!(reason.starts_with("given up by retention: at_most = "), "{reason}");
    assert!(nothing_to_do(&mut world), "what is on its way out may be enough");
    world.settle();
    assert!(nothing_to_do(&mut world), "it was");
}

#[test]
fn what_is_held_stays_and_what_does_not_fit_is_said() {
    let mut world = budgeted(1, 3);
    world.open("report@1", "a");
    let sized = world.sized("report");
    let weighing = world.begin(&sized);
    world.perform(weighing).unwrap();
    assert_eq!(world.states("report"), "1 ready, 2 retiring, 3 ready, 4 ready, 5 ready");
    let over = world.remarks.iter().find(|remark| remark.contains("above its at_most")).unwrap();
    assert!(over.contains("report") && over.contains("asat retention plan report"), "{over}");
}

#[test]
fn a_weighing_that_fails_or_is_interrupted_changes_nothing() {
    let mut world = budgeted(3, 0);
    let sized = world.sized("report");
    let weighing = world.begin(&sized);
    let failed = Outcome::Weigh(Err(trouble(Code::Internal)));
    assert_eq!(world.finish(weighing, failed), Err(trouble(Code::Internal)));
    world.begin(&sized);
    world.restart();
    assert!(world.open_effects().is_empty());
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready, 4 ready, 5 ready");
    world.begin(&sized);
}

/// A publication, and what is done with its version.
type Step = (u8, u8, u8);

fn publish(world: &mut World, (hours, label, held): Step) {
    world.pass(i64::from(hours) * 3_600);
    world.write("report");
    let label = Some(["close", "month-end", "adhoc"][usize::from(label % 3)].to_owned());
    let day = world.now.to_zoned(jiff::tz::TimeZone::UTC).date().yesterday().unwrap();
    let business_date = (held % 2 == 0).then_some(day);
    let attributes = Attributes { label, business_date, ..Attributes::default() };
    let asked = event::Publish { store: Some(store("report")), attributes, ..event::Publish::default() };
    let cut = world.begin(&Event::Publish(asked));
    world.perform(cut).unwrap();
    if held % 5 == 0 {
        let newest = world.register().resolve(&exactly("report@latest")).unwrap().version.id.to_string();
        let until = world.now + SignedDuration::from_hours(100);
        world.ask(&World::pinning(&newest, Some(until))).unwrap();
    }
}

const RULES: [&str; 6] = [
    "all forever",
    "the last 3",
    "all for 20 days",
    "all for 2 days, then daily for 20 days, then month ends for 1 year",
    "weekly for 3 weeks, then monthly forever",
    "the last 2, then one a day for 1 month",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_is_what_the_plan_said(
        steps in proptest::collection::vec(any::<Step>(), 1..40),
        keep in proptest::option::of(0..RULES.len()),
        label in proptest::option::of(0..RULES.len()),
        at_most in proptest::option::of(1u64..30),
        at_least in 0u32..6,
    ) {
        let mut world = World::report();
        steps.into_iter().for_each(|step| publish(&mut world, step));
        let rule = |nth: usize| RULES[nth].parse().unwrap();
        let labels = label.map(|nth| LabelRule { pattern: Pattern::new("month*"), keep: rule(nth) });
        let at_most = at_most.map(|versions| one(&world) * versions);
        let labels = labels.into_iter().collect();
        world.restart_with(&[("report", Retention { keep: keep.map(rule), at_most, at_least, labels })]);
        // A pin that has expired holds nothing any more, whether it was swept or not.
        let said = plan(&world);
        world.ask(&Event::Tick).unwrap();
        world.settle();
        let sized = world.sized("report");
        world.tell(&sized);
        world.settle();
        for verdict in said.verdicts {
            let version = world.version(&format!("report@{}", verdict.number));
            prop_assert_eq!(version.state == State::Ready, verdict.keep, "{:?}", verdict);
        }
        prop_assert_eq!(plan(&world).given_up().count(), 0, "and nothing is left to go");
    }
}

/// How long a plan takes, with all that the engine asks before: `cargo test --release -p asat-core --test engine --
/// --ignored --nocapture timed`.
#[test]
#[ignore = "it measures"]
#[allow(clippy::disallowed_methods, clippy::print_stdout)]
fn the_plan_of_10_000_versions_is_timed() {
    let mut world = World::with_versions(1);
    let first = Box::new(world.version("report@1").clone());
    let begin = world.now;
    for number in 2..=10_000 {
        let mut version = first.clone();
        version.id.number = number;
        let at = begin + SignedDuration::from_hours(i64::try_from(number).unwrap() * 6);
        let attributes = Attributes { label: Some("month-end 2026-10".to_owned()), ..Attributes::default() };
        let publication = Publication {
            number,
            version: version.id.clone(),
            at,
            attributes,
            key: None,
            of_set: None,
            reused: false,
            cost: Cost::default(),
            elapsed_us: 0,
            checks: Vec::new(),
        };
        world.engine.evolve(&event::Change::Version(version));
        world.engine.evolve(&event::Change::Published(publication));
    }
    let labels =
        vec![LabelRule { pattern: Pattern::new("*-end *"), keep: "weekly for 2 years".parse().unwrap() }];
    let keep = keeping("all for 14 days, then daily for 3 months, then month ends for 7 years");
    let rules = Retention { at_most: Some(1_000_000), at_least: 10, labels, ..keep };
    let parts = (1..10_000).map(|first| Part { first, last: first + 1, bytes: 1_000 }).collect();
    let weight = Weight { bytes: 9_999_000, parts };
    let now = begin + SignedDuration::from_hours(60_001);
    let since = std::time::Instant::now();
    let plan = world.engine.retention_plan(&store("report"), &rules, Some(&weight), now).unwrap();
    println!("{:?} for {} of {}", since.elapsed(), plan.given_up().count(), plan.verdicts.len());
    assert_eq!(plan.verdicts.len(), 10_000);
}

#[test]
fn what_the_age_rules_give_up_next_is_foreseen_day_by_day() {
    let mut world = World::with_versions(3);
    world.restart_with(&[("report", keeping("all for 10 days"))]);
    let report = store("report");
    let rules = world.engine.policy().stores[&report].retention.clone();
    let plan = |at| world.engine.retention_plan(&report, &rules, None, at);
    let next = |days, most| retires_next(world.now, days, most, plan).unwrap();
    assert_eq!(next(5, 9), [], "nothing is that old by then");
    let found = next(30, 9);
    // The newest version stays whatever its age.
    assert_eq!(found.iter().map(|(_, verdict)| verdict.number).collect::<Vec<_>>(), [1, 2]);
    for (at, verdict) in &found {
        let days = at.duration_since(world.now).as_hours() / 24;
        assert!((10..=11).contains(&days) && verdict.why.contains("10 days"), "{days}: {}", verdict.why);
    }
    assert_eq!(next(30, 1).len(), 1);
    let nowhere = |at| world.engine.retention_plan(&store("nowhere"), &rules, None, at);
    assert_eq!(retires_next(world.now, 1, 1, nowhere).unwrap_err().code, Code::UnknownStore);
    // The calendar ends before the days do.
    assert_eq!(retires_next(jiff::Timestamp::MAX, 9, 9, plan).map(|found| found.len()), Ok(2));
}
