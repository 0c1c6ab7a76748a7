//! Publishing: what becomes of a certification.

use asat_core::check::CheckResult;
use asat_core::event::{Answer, Cut, Effect, EffectId, Event, Kept, Outcome, Publish, Reply};
use asat_core::retention::Retention;
use asat_core::snapshot::Cost;
use asat_core::version::State;
use asat_core::{Code, Problem};

use crate::world::{World, id, store, trouble};

#[test]
fn a_publication_makes_a_version() {
    let mut world = World::report();
    world.write("report");
    let effect = world.begin(&World::publishing("report", "close", None));
    assert_eq!(world.states("report"), "1 cutting");
    assert_eq!(world.open_effects(), ["cut report@1"]);
    world.pass(2);
    assert_eq!(world.perform(effect), Ok(Reply::Published(1)));
    assert_eq!(world.states("report"), "1 ready");
    assert!(world.open_effects().is_empty());

    let publication = world.register().publication(1).unwrap();
    assert_eq!(publication.version, id("report@1"));
    assert_eq!(publication.attributes.label.as_deref(), Some("close"));
    assert_eq!((publication.reused, publication.cost.writer_blocked_us), (false, 400));
    assert_eq!(publication.elapsed_us, 2_000_000);
}

/// What was made before its intent is taken for another daemon's, and never removed.
#[test]
fn a_cut_lies_after_its_intent_whatever_becomes_of_the_clock() {
    let mut world = World::new(&[("hot", Retention::default()), ("report", Retention::default())])
        .with_sets(&[("month-end", &["hot", "report"])]);
    for event in [
        World::publishing("hot", "close", None),
        World::publishing("report", "close", None),
        World::publishing_set("month-end", None),
    ] {
        for name in ["hot", "report"] {
            world.write(name);
        }
        let (effect, intended) = (world.begin(&event), world.now);
        world.pass(-3600);
        world.perform(effect).unwrap();
        world.settle();
        let newest = world.versions().filter_map(|version| version.content.as_ref()).map(|c| c.cut_at).max();
        assert!(newest.unwrap() > intended, "{event:?}");
    }
}

#[test]
fn a_store_that_did_not_change_gives_its_version_again() {
    let mut world = World::with_versions(2);
    assert_eq!(world.publish("report", "again"), id("report@2"));
    assert_eq!(world.states("report"), "1 ready, 2 ready");
    let publications: Vec<u64> =
        world.entry("report@2").publications.iter().map(|said| said.number).collect();
    assert_eq!(publications, [2, 3]);
    assert!(world.register().publication(3).unwrap().reused);
    // The number that was set aside is given to the next version.
    assert_eq!(world.publish_new("report"), id("report@3"));
}

#[test]
fn a_publication_that_fails_before_it_began_leaves_nothing() {
    let mut world = World::with_versions(1);
    let effect = world.begin(&World::publishing("report", "close", None));
    let answer = world.finish(effect, World::fail_cut(Code::StoreBusy, false));
    assert_eq!(answer, Err(trouble(Code::StoreBusy)));
    assert_eq!(world.states("report"), "1 ready");
    assert!(world.open_effects().is_empty());
}

#[test]
fn a_publication_that_fails_after_it_began_is_remembered() {
    let mut world = World::with_versions(1);
    let effect = world.begin(&World::publishing("report", "close", None));
    let answer = world.finish(effect, World::fail_cut(Code::StorageFull, true));
    assert_eq!(answer, Err(trouble(Code::StorageFull)));
    assert_eq!(world.states("report"), "1 ready, 2 failed");
    let end = world.version("report@2").end.clone().unwrap();
    assert_eq!((end.at, end.reason.as_str()), (world.now, "made up"));
    assert!(world.remarks.iter().any(|remark| remark.contains("report@2 is failed")));
    assert_eq!(world.publish_new("report"), id("report@3"));
}

#[test]
fn two_publications_may_be_under_way() {
    let mut world = World::report();
    world.write("report");
    let first = world.begin(&World::publishing("report", "a", None));
    let second = world.begin(&World::publishing("report", "b", None));
    assert_eq!(world.states("report"), "1 cutting, 2 cutting");
    assert_eq!(world.perform(first), Ok(Reply::Published(1)));
    assert_eq!(world.perform(second), Ok(Reply::Published(2)));
    assert_eq!(world.states("report"), "1 ready");
    let publications: Vec<u64> =
        world.entry("report@1").publications.iter().map(|said| said.number).collect();
    assert_eq!(publications, [1, 2]);
}

#[test]
fn the_version_that_is_the_same_may_be_on_its_way_out() {
    let mut world = World::with_versions(2);
    let retire = world.begin(&Event::retire("report@2".parse().unwrap()));
    let cut = world.begin(&World::publishing("report", "close", None));
    let same = Outcome::Cut(Ok(Cut { cost: Cost::default(), kept: Kept::SameAs(2), checks: Vec::new() }));
    let problem = world.finish(cut, same).unwrap_err();
    assert_eq!(problem.code, Code::InUse);
    assert!(problem.detail.contains("report@2"), "{problem}");
    assert_eq!(world.states("report"), "1 ready, 2 retiring");
    world.perform(retire).unwrap();
    assert_eq!(world.publish("report", "close"), id("report@3"));
}

#[test]
fn the_version_that_is_the_same_may_not_be_acknowledged_yet() {
    let mut world = World::report();
    let first = world.begin(&World::publishing("report", "a", None));
    let second = world.begin(&World::publishing("report", "b", None));
    // The first cut was made, but its outcome could not be recorded; the second one follows it.
    let same = Outcome::Cut(Ok(Cut { cost: Cost::default(), kept: Kept::SameAs(1), checks: Vec::new() }));
    assert_eq!(world.finish(second, same).map_err(|problem| problem.code), Err(Code::InUse));
    world.finish(first, World::fail_cut(Code::StorageFull, true)).unwrap_err();
    assert_eq!(world.states("report"), "1 failed");
}

#[test]
fn a_key_that_was_used_gives_the_same_answer_again() {
    let mut world = World::new(&[("report", Retention::default()), ("other", Retention::default())]);
    world.write("report");
    let event = World::publishing("report", "close", Some("key-1"));
    let effect = world.begin(&event);
    assert_eq!(world.tell(&event), Answer::After(effect), "the first is still under way");
    let conflicts = [
        World::publishing("report", "another label", Some("key-1")),
        World::publishing("other", "close", Some("key-1")),
    ];
    for conflict in &conflicts {
        assert_eq!(world.refused(conflict).code, Code::KeyReused);
    }
    world.perform(effect).unwrap();
    world.write("report");
    assert_eq!(world.ask(&event), Ok(Reply::Published(1)), "the first is through");
    for conflict in &conflicts {
        assert_eq!(world.refused(conflict).code, Code::KeyReused);
    }
    world.restart();
    assert_eq!(world.ask(&event), Ok(Reply::Published(1)), "the daemon was restarted");
    assert_eq!(world.states("report"), "1 ready");
}

#[test]
fn a_key_whose_publication_failed_may_be_used_again() {
    for begun in [false, true] {
        let mut world = World::report();
        let event = World::publishing("report", "close", Some("key-1"));
        let first = world.begin(&event);
        world.finish(first, World::fail_cut(Code::StoreBusy, begun)).unwrap_err();
        let second = world.begin(&event);
        assert_eq!(world.perform(second), Ok(Reply::Published(1)));
    }
}

#[test]
fn the_store_may_be_left_out_where_there_is_one() {
    let unnamed = |key: Option<&str>| {
        let key = key.map(str::to_owned);
        Event::Publish(Publish { key, ..Publish::default() })
    };
    let mut world = World::report();
    world.begin(&unnamed(None));
    assert_eq!(world.open_effects(), ["cut report@1"]);

    let none = Retention::default;
    let mut world = World::new(&[("report", none()), ("other", none())]);
    let problem = world.refused(&unnamed(None));
    assert_eq!(problem.code, Code::Invalid);
    assert!(problem.hint.contains("report") && problem.hint.contains("other"), "{problem}");

    // What was configured once makes nothing ambiguous.
    world.restart_with(&[("report", none())]);
    world.begin(&unnamed(Some("key")));
    assert_eq!(world.open_effects(), ["cut report@1"]);
}

#[test]
fn a_store_that_is_no_longer_configured_keeps_its_versions() {
    let none = Retention::default;
    let mut world = World::new(&[("report", none()), ("old", none())]);
    let kept = world.publish_new("old");
    world.restart_with(&[("report", none())]);
    assert_eq!(world.version("old@1").state, State::Ready);
    world.open("old@1", "lease");
    let problem = world.refused(&World::publishing("old", "close", None));
    assert_eq!(problem.code, Code::UnknownStore);
    assert!(problem.detail.contains("no longer"), "{problem}");
    world.restart_with(&[("report", none()), ("old", none())]);
    assert_eq!(world.publish_new("old").number, kept.number + 1);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut world = World::report();
    let code = |world: &mut World, event: &Event| world.refused(event).code;
    assert_eq!(code(&mut world, &World::publishing("nowhere", "close", None)), Code::UnknownStore);
    assert_eq!(code(&mut world, &World::publishing("report", "", None)), Code::Invalid);
    assert_eq!(code(&mut world, &World::publishing("report", "two\nlines", None)), Code::Invalid);
    assert_eq!(code(&mut world, &World::publishing("report", "close", Some(""))), Code::Invalid);
    assert_eq!(
        code(&mut world, &World::publishing("report", "close", Some(&"k".repeat(256)))),
        Code::Invalid
    );
}

#[test]
fn a_cut_is_told_after_which_instant_it_must_lie() {
    let mut world = World::with_versions(2);
    let last = world.version("report@2").content.clone().unwrap().cut_at;
    world.pass(-1000);
    world.begin(&World::publishing("report", "the clock was set back", None));
    let intent = world.register().intents().next().unwrap();
    assert!(matches!(&intent.effect, Effect::Cut { after, .. } if *after == Some(last)));
    world.write("report");
    world.settle();
    assert!(world.version("report@3").content.as_ref().unwrap().cut_at > last);
}

#[test]
fn an_outcome_that_fits_no_effect_is_a_defect() {
    let mut world = World::report();
    let compacted = || Outcome::Compact(Ok(()));
    let unknown = world.refused(&Event::Finished { effect: EffectId(77), outcome: compacted() });
    assert_eq!(unknown.code, Code::Internal);
    let refused: Result<Reply, Problem> = world.ask(&Event::publish(&store("nowhere")));
    assert_eq!(refused.map_err(|problem| problem.code), Err(Code::UnknownStore));
}

#[test]
fn what_the_content_was_found_to_meet_is_recorded_with_the_publication() {
    let mut world = World::report();
    let met = |found: &str| CheckResult {
        name: "rows".to_owned(),
        passed: true,
        found: found.to_owned(),
        took_us: 7,
    };
    world.checks = vec![met("1")];
    world.publish("report", "a");
    // The same content is published again, and has met another check since.
    world.checks = vec![met("2")];
    world.publish("report", "b");
    let checks: Vec<_> = world.register().publications().map(|publication| &publication.checks).collect();
    assert_eq!(checks, [&vec![met("1")], &vec![met("2")]]);
}

#[test]
fn a_store_that_does_not_meet_a_check_has_no_version_of_it() {
    let mut world = World::report();
    let before = world.register().clone();
    let cut = world.begin(&World::publishing("report", "close", Some("key")));
    let problem = world.finish(cut, World::fail_cut(Code::CheckFailed, false)).unwrap_err();
    assert_eq!(problem.code, Code::CheckFailed);
    assert_eq!(world.states("report"), "");
    assert_eq!(world.register().publications().count(), before.publications().count());
    assert_eq!(world.register().intents().count(), 0);
    // The key was used for nothing, and the number either.
    assert_eq!(world.publish("report", "close"), id("report@1"));
}
