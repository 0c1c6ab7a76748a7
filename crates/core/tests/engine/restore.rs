//! Restoring: today's state is kept first, and whatever goes wrong, nothing is lost.

use asat_core::event::{Answer, Change, Effect, EffectId, Event, Outcome, Reply, Restore};
use asat_core::retention::Retention;
use asat_core::{Code, VersionRef};

use crate::world::{World, exactly, id, keeping, number_of, store, trouble};

/// Two versions, and a store that has changed since.
fn world() -> World {
    let mut world = World::with_versions(2);
    world.write("report");
    world
}

/// Cuts, and gives the restore that follows.
fn cut(world: &mut World, effect: EffectId) -> EffectId {
    let intent = world.register().intent(effect).unwrap().clone();
    let outcome = world.act(&intent.effect);
    let Answer::After(next) = world.tell(&Event::Finished { effect, outcome }) else { panic!("no restore") };
    next
}

#[test]
fn todays_state_is_kept_first_and_then_the_store_is_brought_back() {
    let mut world = world();
    let wanted = number_of(world.archive[&id("report@1")].content.fingerprint.unwrap());
    let first = world.begin(&World::restoring("report@1"));
    assert_eq!(world.open_effects(), ["cut report@3"]);
    let second = cut(&mut world, first);
    assert_eq!(world.open_effects(), ["restore report@1 from report@3"]);
    assert_ne!(world.live[&store("report")], wanted);
    let restored = Reply::Restored { version: id("report@1"), publication: 3, writer_blocked_us: 700 };
    assert_eq!(world.perform(second), Ok(restored));
    assert_eq!(world.live[&store("report")], wanted);
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready");
    let before = world.register().publication(3).unwrap();
    assert_eq!(before.version, id("report@3"));
    assert_eq!(before.attributes.label.as_deref(), Some("before restore to report@1"));
    assert_eq!(before.attributes.certified_by.as_deref(), Some("ann"));
    assert!(world.open_effects().is_empty());
    assert!(world.remarks.iter().any(|remark| remark.contains("brought back to report@1")));
}

#[test]
fn a_state_that_was_kept_before_is_not_kept_twice() {
    let mut world = World::with_versions(2);
    let first = world.begin(&World::restoring("report@1"));
    let second = cut(&mut world, first);
    assert_eq!(world.open_effects(), ["restore report@1 from report@2"]);
    assert!(matches!(world.perform(second), Ok(Reply::Restored { publication: 3, .. })));
    assert_eq!(world.states("report"), "1 ready, 2 ready");
}

#[test]
fn a_store_that_is_as_it_is_wanted_is_left_alone() {
    let mut world = World::with_versions(2);
    let first = world.begin(&World::restoring("report@latest"));
    let done = Reply::Restored { version: id("report@2"), publication: 3, writer_blocked_us: 0 };
    assert_eq!(world.perform(first), Ok(done));
    assert!(world.open_effects().is_empty());
}

#[test]
fn where_todays_state_cannot_be_kept_nothing_is_restored() {
    for begun in [false, true] {
        let mut world = world();
        let first = world.begin(&World::restoring("report@1"));
        let answer = world.finish(first, World::fail_cut(Code::StorageFull, begun));
        assert_eq!(answer, Err(trouble(Code::StorageFull)));
        assert!(world.open_effects().iter().all(|effect| effect.starts_with("retire report@3")));
    }
}

#[test]
fn a_restore_that_fails_leaves_todays_state_kept() {
    let mut world = world();
    let first = world.begin(&World::restoring("report@1"));
    let second = cut(&mut world, first);
    let answer = world.finish(second, Outcome::Restore(Err(trouble(Code::StoreBusy))));
    assert_eq!(answer, Err(trouble(Code::StoreBusy)));
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready");
    assert!(world.open_effects().is_empty());
}

#[test]
fn a_daemon_that_stops_at_any_point_does_not_go_on_by_itself() {
    // Before the cut happened, after it, before the store was brought back, and after that.
    for point in 0..4 {
        let mut world = world();
        let first = world.begin(&World::restoring("report@1"));
        let mut pending = first;
        if point > 1 {
            pending = cut(&mut world, first);
        }
        if point % 2 == 1 {
            let intent = world.register().intent(pending).unwrap().clone();
            world.act(&intent.effect);
        }
        world.restart();
        assert!(world.open_effects().is_empty(), "{point}: {:?}", world.open_effects());
        let told = |remark: &String| remark.contains("brought back to report@1");
        assert!(world.remarks.iter().any(told), "{point}: {:?}", world.remarks);
        let kept = if point == 0 { "1 ready, 2 ready, 3 failed" } else { "1 ready, 2 ready, 3 ready" };
        assert_eq!(world.states("report"), kept, "{point}");
    }
}

#[test]
fn the_versions_that_a_restore_needs_are_not_given_up_meanwhile() {
    let rules = keeping("the last 1");
    let mut world = World::new(&[("report", rules)]);
    world.publish_new("report");
    world.publish_new("report");
    world.write("report");
    let first = world.begin(&World::restoring("report@1"));
    assert_eq!(world.refused(&Event::retire(exactly("report@1"))).code, Code::InUse);
    let second = cut(&mut world, first);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 ready, 2 retiring, 3 ready");
    for held in ["report@1", "report@3"] {
        assert_eq!(world.refused(&Event::retire(exactly(held))).code, Code::InUse);
    }
    world.perform(second).unwrap();
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 retiring, 2 retiring, 3 ready");
}

#[test]
fn what_cannot_be_restored_is_refused() {
    let none = Retention::default;
    let mut world = World::new(&[("report", none()), ("other", none())]);
    world.publish_new("report");
    world.publish_new("report");
    world.publish_new("other");
    let code = |world: &mut World, event: &Event| world.refused(event).code;
    assert_eq!(code(&mut world, &World::restoring("report@9")), Code::UnknownVersion);
    assert_eq!(code(&mut world, &World::restoring("nowhere@1")), Code::UnknownStore);
    let (certified_by, note) = (None, Some("x".repeat(5000)));
    let foreign = Restore { store: store("report"), version: exactly("other@1"), certified_by, note: None };
    assert_eq!(code(&mut world, &Event::Restore(foreign.clone())), Code::Invalid);
    let long = Restore { version: VersionRef::Exact(id("report@1")), note, ..foreign };
    assert_eq!(code(&mut world, &Event::Restore(long)), Code::Invalid);
    let cutting = world.begin(&World::publishing("report", "close", None));
    assert_eq!(code(&mut world, &World::restoring("report@3")), Code::NotReadable);
    world.finish(cutting, World::fail_cut(Code::StorageFull, true)).unwrap_err();
    assert_eq!(code(&mut world, &World::restoring("report@3")), Code::NotReadable);
    world.begin(&Event::retire(exactly("report@1")));
    world.settle();
    assert_eq!(code(&mut world, &World::restoring("report@1")), Code::Retired);
    world.restart_with(&[("other", none())]);
    assert_eq!(code(&mut world, &World::restoring("report@2")), Code::UnknownStore);
}

#[test]
fn intents_of_before_can_be_read_and_new_ones_come_back() {
    let mut world = world();
    world.begin(&World::publishing("report", "close", None));
    let effect = world.register().intents().next().unwrap().effect.clone();
    assert!(!serde_json::to_string(&effect).unwrap().contains("then_restore"));
    world.settle();
    let first = world.begin(&World::restoring("report@1"));
    cut(&mut world, first);
    let effects = world.decided.iter().flatten().filter_map(|change| match change {
        Change::Intended(intent) => Some(&intent.effect),
        _ => None,
    });
    for effect in effects {
        let text = serde_json::to_string(effect).unwrap();
        assert_eq!(serde_json::from_str::<Effect>(&text).unwrap(), *effect, "{text}");
    }
}

#[test]
fn the_snapshots_that_it_needed_go_as_soon_as_it_is_over() {
    for fails in [false, true] {
        let mut world = World::new(&[("hot", Retention::default())]);
        world.publish_new("hot");
        world.settle();
        world.write("hot");
        let first = world.begin(&World::restoring("hot@1"));
        let restore = cut(&mut world, first);
        // The state that is left comes into the archive meanwhile.
        let others: Vec<EffectId> =
            world.register().intents().map(|intent| intent.id).filter(|id| *id != restore).collect();
        others.into_iter().for_each(|effect| drop(world.perform(effect)));
        assert_eq!((world.open_effects().len(), world.snapshots.len()), (1, 1), "it is compared with");
        let outcome = if fails { Err(trouble(Code::StoreBusy)) } else { Ok(0) };
        let answer = world.finish(restore, Outcome::Restore(outcome));
        assert_eq!(answer.is_err(), fails);
        assert_eq!(world.open_effects(), ["drop snapshot of hot@2"]);
    }
}
