//! Keeping and letting go: pins, retirement on request, and retention.

use asat_core::event::{Answer, Event, Outcome, Reply, Retired};
use asat_core::version::State;
use asat_core::{Code, VersionRef};
use jiff::SignedDuration;

use crate::world::{World, exactly, id, keeping, trouble};

fn retiring(version: &str) -> Event {
    Event::retire(exactly(version))
}

fn unpinning(version: &str) -> Event {
    Event::Unpin(exactly(version))
}

/// A world in which only the newest version is kept, with versions 1 to `count`.
fn forgetful(count: usize) -> World {
    let mut world = World::with_versions(count);
    world.restart_with(&[("report", keeping("the last 1"))]);
    world
}

#[test]
fn a_pin_is_set_replaced_and_taken_away() {
    let mut world = World::with_versions(1);
    let until = world.now + SignedDuration::from_hours(1);
    assert_eq!(world.ask(&World::pinning("report@1", None)), Ok(Reply::Version(id("report@1"))));
    let pin = world.version("report@1").pin.clone().unwrap();
    assert_eq!((pin.reason.as_str(), pin.owner.as_deref()), ("audit", Some("ann")));
    assert_eq!((pin.set_at, pin.expires_at), (world.now, None));
    world.ask(&World::pinning("report@latest", Some(until))).unwrap();
    assert_eq!(world.version("report@1").pin.as_ref().unwrap().expires_at, Some(until));
    for _ in 0..2 {
        world.ask(&unpinning("report@1")).unwrap();
        assert_eq!(world.version("report@1").pin, None);
    }
}

#[test]
fn pins_that_make_no_sense_are_refused() {
    let mut world = World::with_versions(2);
    let past = world.now;
    assert_eq!(world.refused(&World::pinning("report@1", Some(past))).code, Code::Invalid);
    assert_eq!(world.refused(&World::pinning("report@3", None)).code, Code::UnknownVersion);
    world.begin(&retiring("report@1"));
    assert_eq!(world.refused(&World::pinning("report@1", None)).code, Code::Retired);
    let version = VersionRef::Exact(id("report@2"));
    let nameless = Event::Pin { version, reason: " ".into(), owner: None, expires_at: None, hot: false };
    assert_eq!(world.refused(&nameless).code, Code::Invalid);
}

#[test]
fn a_pin_that_has_expired_holds_nothing_and_is_swept() {
    let mut world = World::with_versions(2);
    let until = world.now + SignedDuration::from_secs(10);
    world.ask(&World::pinning("report@1", Some(until))).unwrap();
    assert_eq!(world.refused(&retiring("report@1")).code, Code::Pinned);
    world.pass(10);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.version("report@1").pin, None);
    assert!(world.remarks.iter().any(|remark| remark == "the pin on report@1 has expired"));
    world.begin(&retiring("report@1"));
}

#[test]
fn a_version_is_retired_on_request() {
    let mut world = World::with_versions(2);
    world.open("report@1", "a");
    world.close("report@1", "a");
    let effect = world.begin(&retiring("report@1"));
    assert_eq!(world.states("report"), "1 retiring, 2 ready");
    assert_eq!(world.open_effects(), ["drop report@1", "retire report@1"]);
    assert_eq!(world.version("report@1").end.as_ref().unwrap().reason, "retired on request");
    assert_eq!(world.tell(&retiring("report@1")), Answer::After(effect), "it is under way");
    world.settle();
    assert_eq!(world.states("report"), "1 retired, 2 ready");
    assert!(world.version("report@1").holdings.is_empty() && world.version("report@1").content.is_some());
    assert_eq!(world.ask(&retiring("report@1")), Ok(Reply::Version(id("report@1"))), "it is over");
    assert!(!world.archive.contains_key(&id("report@1")) && !world.copies.contains(&id("report@1")));
}

#[test]
fn a_version_that_is_leased_pinned_or_in_use_is_not_retired() {
    let mut world = World::with_versions(3);
    world.open("report@1", "a");
    let problem = world.refused(&retiring("report@1"));
    assert_eq!(problem.code, Code::Leased);
    assert!(problem.detail.contains("ann") && problem.detail.contains("report@1"), "{problem}");
    world.close("report@1", "a");

    world.ask(&World::pinning("report@1", None)).unwrap();
    let problem = world.refused(&retiring("report@1"));
    assert_eq!(problem.code, Code::Pinned);
    assert!(problem.detail.contains("audit"), "{problem}");
    world.ask(&unpinning("report@1")).unwrap();

    let opening = world.begin(&World::opening("report@1", "b", 60));
    assert_eq!(world.refused(&retiring("report@1")).code, Code::InUse);
    world.finish(opening, Outcome::MakeCopy(Err(trouble(Code::StorageFull)))).unwrap_err();

    world.hold(&["report@1"]);
    assert_eq!(world.refused(&retiring("report@1")).code, Code::InUse);
    world.hold(&[]);

    // A publication under way may turn out to be the newest version.
    let cut = world.begin(&World::publishing("report", "again", None));
    assert_eq!(world.refused(&retiring("report@3")).code, Code::InUse);
    world.begin(&retiring("report@2"));
    world.perform(cut).unwrap();
    assert_eq!(world.entry("report@3").publications.len(), 2);
    world.begin(&retiring("report@3"));
    world.begin(&retiring("report@1"));
}

#[test]
fn only_what_was_acknowledged_can_be_retired() {
    let mut world = World::report();
    let cut = world.begin(&World::publishing("report", "close", None));
    assert_eq!(world.refused(&retiring("report@1")).code, Code::NotReadable);
    world.finish(cut, World::fail_cut(Code::StorageFull, true)).unwrap_err();
    assert_eq!(world.refused(&retiring("report@1")).code, Code::NotReadable);
    assert_eq!(world.refused(&retiring("report@2")).code, Code::UnknownVersion);
    assert_eq!(world.refused(&retiring("report@latest")).code, Code::UnknownVersion);
}

#[test]
fn a_retirement_that_fails_is_tried_again() {
    let mut world = World::with_versions(2);
    let effect = world.begin(&retiring("report@1"));
    let failed = Outcome::Retire(Err(trouble(Code::Internal)));
    assert_eq!(world.finish(effect, failed), Err(trouble(Code::Internal)));
    assert_eq!(world.states("report"), "1 retiring, 2 ready");
    assert!(world.open_effects().is_empty());
    world.ask(&Event::Tick).unwrap();
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.open_effects(), ["retire report@1"]);
    world.settle();
    assert_eq!(world.state("report@1"), State::Retired);
}

#[test]
fn while_space_is_given_back_one_more_compaction_waits_however_many_retire() {
    let mut world = World::with_versions(6);
    let versions = ["report@1", "report@2", "report@3", "report@4", "report@5"];
    let effects = versions.map(|version| world.begin(&retiring(version)));
    for (effect, worth_compacting) in effects.into_iter().zip([false, true, true, true, false]) {
        let retired = Retired { freed_bytes: 1, worth_compacting };
        world.finish(effect, Outcome::Retire(Ok(retired))).unwrap();
    }
    // One may have begun, and looked before the last version was given up.
    assert_eq!(world.open_effects(), ["compact report", "compact report"]);
    let first = world.register().intents().next().unwrap().id;
    world.finish(first, Outcome::Compact(Ok(()))).unwrap();
    assert_eq!(world.open_effects(), ["compact report"]);
    let compact = world.register().intents().next().unwrap().id;
    let failed = Outcome::Compact(Err(trouble(Code::StorageFull)));
    assert_eq!(world.finish(compact, failed), Err(trouble(Code::StorageFull)));
    assert!(world.open_effects().is_empty());
}

#[test]
fn retention_lets_go_on_a_tick() {
    let mut world = forgetful(4);
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready, 4 ready");
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.open_effects(), ["retire report@1", "retire report@2", "retire report@3"]);
    assert!(world.version("report@1").end.as_ref().unwrap().reason.contains("retention"));
    world.settle();
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 retired, 2 retired, 3 retired, 4 ready");
    assert!(world.open_effects().is_empty());
}

#[test]
fn leases_pins_and_what_is_under_way_stand_above_retention() {
    let mut world = forgetful(5);
    let until = world.now + SignedDuration::from_secs(7200);
    world.open("report@1", "a");
    world.ask(&World::pinning("report@2", Some(until))).unwrap();
    world.begin(&World::opening("report@3", "b", 60));
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready, 4 retiring, 5 ready");
    world.settle();

    // As soon as leases and pins expire, nothing holds the versions any more.
    world.pass(3600);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 retiring, 2 ready, 3 retiring, 4 retired, 5 ready");
    world.pass(3600);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 retiring, 2 retiring, 3 retiring, 4 retired, 5 ready");
    assert_eq!(world.version("report@2").pin, None, "the pin was swept by the same tick");
    world.settle();
    assert_eq!(world.register().leases().count(), 0);
}

#[test]
fn a_version_that_was_certified_again_counts_as_fresh() {
    let mut world = World::with_versions(2);
    world.restart_with(&[("report", keeping("all for 1 hour"))]);
    world.pass(3000);
    assert_eq!(world.publish("report", "certified again"), id("report@2"));
    world.write("report");
    world.publish("report", "the next day");
    world.pass(3000);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 retiring, 2 ready, 3 ready");
}
