//! Labels that are given to one version only.

use asat_core::event::{Answer, Change, Event, Outcome, Publish, Reply};
use asat_core::retention::Retention;
use asat_core::version::{Attributes, State};
use asat_core::{By, Code, watch};

use crate::world::{World, id, store};

/// A store whose labels are unique, with one version that is labelled `2026-11-19 close`.
fn world(name: &str) -> World {
    let mut world = World::new(&[(name, Retention::default()), ("report", Retention::default())]);
    world.write(name);
    world.publish(name, "2026-11-19 close");
    world.settle();
    world
}

fn asking(name: &str, label: &str, unchanged: Option<u64>) -> Event {
    let Event::Publish(publish) = World::publishing(name, label, None) else { unreachable!() };
    Event::Publish(Publish { unchanged, ..publish })
}

#[test]
fn a_label_that_another_version_has_is_refused_however_it_is_written() {
    let mut world = world("unique");
    world.write("unique");
    for label in ["2026-11-19 CLOSE", " 2026-11-19  close", "2026-11-19 ｃlose"] {
        let problem = world.refused(&asking("unique", label, None));
        assert_eq!(problem.code, Code::LabelTaken, "{label}");
        assert!(problem.detail.contains("unique@1"), "{problem}");
        let again = world.refused(&asking("unique", label, Some(1)));
        assert_eq!(again.code, Code::LabelTaken, "{label}");
    }
    // Other labels, other stores, and none at all.
    world.publish("unique", "2026-11-20 close");
    world.publish("report", "2026-11-19 close");
    world.write("report");
    world.publish("report", "2026-11-19 close");
    for _ in 0..2 {
        world.write("unique");
        let effect = world.begin(&Event::publish(&store("unique")));
        world.perform(effect).unwrap();
    }
    // A version that is given up keeps its label: what was said of it stays.
    world.ask(&Event::Tick).unwrap();
    let retire = world.begin(&Event::retire("unique@1".parse().unwrap()));
    world.perform(retire).unwrap();
    assert_eq!(world.refused(&asking("unique", "2026-11-19 close", None)).code, Code::LabelTaken);
}

#[test]
fn the_same_of_the_same_version_is_answered_and_not_recorded_again() {
    let mut world = world("unique");
    let before = world.register().publications().count();
    let same = world.tell(&asking("unique", "2026-11-19 close", Some(1)));
    assert_eq!(same, Answer::Now(Ok(Reply::Known(1))));
    // Where it is not seen that nothing has changed, the cut shows it.
    let effect = world.begin(&asking("unique", "2026-11-19 close", None));
    assert_eq!(world.perform(effect), Ok(Reply::Known(1)));
    let Event::Publish(keyed) = World::publishing("unique", "2026-11-19 close", Some("k")) else {
        unreachable!()
    };
    let keyed = Event::Publish(Publish { unchanged: Some(1), ..keyed });
    assert_eq!(world.tell(&keyed), Answer::Now(Ok(Reply::Known(1))));
    assert_eq!(world.register().publications().count(), before);
    assert_eq!(world.states("unique"), "1 ready");
    // The same label with another note is another publication.
    let attributes = Attributes {
        label: Some("2026-11-19 close".to_owned()),
        note: Some("n".to_owned()),
        ..Attributes::default()
    };
    let other =
        Publish { store: Some(store("unique")), attributes, unchanged: Some(1), ..Publish::default() };
    assert_eq!(world.refused(&Event::Publish(other)).code, Code::LabelTaken);
}

#[test]
fn a_store_that_has_changed_after_all_gives_no_version_with_the_label() {
    for name in ["unique", "hot-unique", "cloned-unique"] {
        let mut world = world(name);
        world.write(name);
        let effect = world.begin(&asking(name, "2026-11-19 close", None));
        let refused = world.perform(effect).unwrap_err();
        assert_eq!(refused.code, Code::LabelTaken, "{name}");
        world.settle();
        assert_eq!(world.states(name), "1 ready, 2 failed");
        let second = id(&format!("{name}@2"));
        assert!(!world.archive.contains_key(&second) && !world.snapshots.contains_key(&second), "{name}");
        world.publish(name, "2026-11-20 close");
        world.settle();
        assert_eq!(world.state(&format!("{name}@3")), State::Ready);
    }
}

#[test]
fn of_two_at_a_time_one_waits_and_together_one_is_refused() {
    let mut world = world("unique");
    world.write("unique");
    let first = world.begin(&asking("unique", "next", None));
    assert_eq!(world.refused(&asking("unique", "NEXT", None)).code, Code::InUse);
    world.perform(first).unwrap();
    world.settle();
    assert_eq!(world.refused(&asking("unique", "NEXT", None)).code, Code::LabelTaken);
    let publish = |label: &str, note: &str| {
        let attributes = Attributes {
            label: Some(label.to_owned()),
            note: Some(note.to_owned()),
            ..Attributes::default()
        };
        Publish { store: Some(store("unique")), attributes, unchanged: Some(2), ..Publish::default() }
    };
    let (one, other) = (publish("third", "a"), publish("THIRD", "b"));
    let together = world.engine().decide_together(world.now, &[(&By::asat(), &one), (&By::asat(), &other)]);
    let refused = together.answers[1].as_ref().unwrap().as_ref().map_err(|problem| problem.code);
    assert_eq!((&together.answers[0], refused), (&Some(Ok(Reply::Published(3))), Err(Code::LabelTaken)));
    let published = together.changes.iter().filter(|change| matches!(change, Change::Published(_)));
    assert_eq!(published.count(), 1);
}

#[test]
fn a_restore_is_not_kept_from_its_label() {
    let mut world = world("unique");
    for writes in [1, 2] {
        (0..writes).for_each(|_| world.write("unique"));
        let cut = world.begin(&World::restoring("unique@1"));
        world.perform(cut).unwrap();
        world.settle();
    }
    assert_eq!(world.states("unique"), "1 ready, 2 ready, 3 ready");
}

#[test]
fn the_value_that_watch_mode_finds_in_the_cut_is_the_label() {
    use asat_core::check::CheckResult;
    let mut world = world("unique");
    let result = |found: &str| CheckResult {
        name: Attributes::MARKER.to_owned(),
        passed: true,
        found: found.to_owned(),
        took_us: 1,
    };
    let publish = |value: &str| {
        let attributes = watch::attributes(value);
        Event::Publish(Publish { store: Some(store("unique")), attributes, ..Publish::default() })
    };
    world.write("unique");
    world.checks = vec![result("43")];
    let effect = world.begin(&publish("42"));
    assert_eq!(world.perform(effect), Ok(Reply::Published(2)));
    let publication = world.register().publication(2).unwrap();
    assert_eq!(publication.attributes, watch::attributes("43"));
    assert_eq!(world.register().last_marker(&store("unique")), Some("43"));
    assert_eq!(world.register().last_marker(&store("report")), None);
    // A label that is taken by what is found in the cut.
    world.write("unique");
    world.checks = vec![result("2026-11-19 close")];
    let effect = world.begin(&publish("44"));
    let intent = world.register().intent(effect).unwrap().clone();
    let outcome = world.act(&intent.effect);
    assert!(matches!(outcome, Outcome::Cut(Ok(_))));
    assert_eq!(world.finish(effect, outcome).map_err(|problem| problem.code), Err(Code::LabelTaken));
}
