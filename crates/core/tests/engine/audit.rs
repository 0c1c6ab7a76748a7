//! The audit trail: who did what, and that it is written down as it is done.

use std::collections::BTreeMap;

use asat_core::audit::Deed;
use asat_core::event::{Answer, Event, Outcome, Reply};
use asat_core::version::LeaseId;
use asat_core::{By, Code, VersionRef};
use jiff::SignedDuration;

use crate::world::{World, exactly, id, keeping, trouble};

fn ann() -> By {
    By { request: Some("r-1".to_owned()), ..By::user(1000, Some("ann")) }
}

/// What was written down since the last look, as `publish report@1 by asat`.
fn noted(world: &mut World) -> Vec<String> {
    let show = |deed: Deed| format!("{} {} by {}", deed.action.text(), deed.version, deed.by.actor);
    std::mem::take(&mut world.noted).into_iter().map(show).collect()
}

fn details(deed: &Deed) -> BTreeMap<&str, &str> {
    deed.details.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn revoking(lease: &str, reason: &str) -> Event {
    Event::Revoke { lease: LeaseId(lease.to_owned()), reason: Some(reason.to_owned()) }
}

#[test]
fn a_publication_is_written_down_with_who_asked_for_it_when_it_is_recorded() {
    let mut world = World::report();
    world.write("report");
    let Answer::After(cut) = world.tell_for(&ann(), &World::publishing("report", "close", Some("key-1")))
    else {
        panic!("nothing is cut")
    };
    assert!(world.noted.is_empty(), "nothing has been published yet");
    world.perform(cut).unwrap();
    let [deed] = world.noted.as_slice() else { panic!("{:?}", world.noted) };
    assert_eq!((&deed.by, &deed.version, deed.at), (&ann(), &id("report@1"), world.now));
    let said = details(deed);
    assert_eq!((said["label"], said["key"], said["publication"]), ("close", "key-1", "1"));
    assert!(!said.contains_key("reused") && !said.contains_key("note"), "{said:?}");
}

#[test]
fn a_publication_that_comes_to_nothing_is_not_in_the_trail() {
    let mut world = World::report();
    let cut = world.begin(&World::publishing("report", "close", None));
    world.finish(cut, World::fail_cut(Code::StoreBusy, false)).unwrap_err();
    let cut = world.begin(&World::publishing("report", "close", None));
    world.finish(cut, World::fail_cut(Code::StorageFull, true)).unwrap_err();
    assert_eq!(noted(&mut world), [""; 0]);
}

#[test]
fn a_publication_that_a_crash_interrupted_is_its_callers_all_the_same() {
    let mut world = World::report();
    let Answer::After(cut) = world.tell_for(&ann(), &World::publishing("report", "close", None)) else {
        panic!()
    };
    let effect = world.register().intent(cut).unwrap().effect.clone();
    world.act(&effect);
    world.restart();
    assert_eq!(noted(&mut world), ["publish report@1 by uid 1000 (ann)"]);
}

#[test]
fn pins_are_written_down_as_they_are_set_changed_taken_away_and_expire() {
    let mut world = World::with_versions(1);
    noted(&mut world);
    let until = world.now + SignedDuration::from_secs(60);
    for event in [
        World::pinning("report@1", None),
        Event::Unpin(exactly("report@1")),
        Event::Unpin(exactly("report@1")),
    ] {
        world.tell_for(&ann(), &event);
    }
    assert_eq!(noted(&mut world), ["pin report@1 by uid 1000 (ann)", "unpin report@1 by uid 1000 (ann)"]);
    world.tell_for(&ann(), &World::pinning("report@1", Some(until)));
    assert_eq!(details(&world.noted[0])["reason"], "audit");
    assert!(details(&world.noted[0])["expires_at"].starts_with("2026-11-19T17:"), "{:?}", world.noted);
    noted(&mut world);
    world.pass(60);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(details(&world.noted[0])["expired"], "true");
    assert_eq!(noted(&mut world), ["unpin report@1 by asat"]);
}

#[test]
fn a_retirement_is_his_who_asked_and_else_the_rules() {
    let mut world = World::with_versions(4);
    noted(&mut world);
    world.tell_for(&ann(), &Event::retire(exactly("report@1")));
    assert_eq!(details(&world.noted[0])["reason"], "retired on request");
    assert_eq!(noted(&mut world), ["retire report@1 by uid 1000 (ann)"]);
    world.tell_for(&ann(), &Event::retire(exactly("report@1")));
    world.settle();
    assert_eq!(noted(&mut world), [""; 0], "it is the same retirement");
    world.ask(&World::pinning("report@3", None)).unwrap();
    world.restart_with(&[("report", keeping("the last 1"))]);
    noted(&mut world);
    assert!(matches!(world.tell_for(&ann(), &Event::retire(exactly("report@3"))), Answer::Now(Err(_))));
    assert_eq!(noted(&mut world), [""; 0], "it was refused");
    world.ask(&Event::Tick).unwrap();
    assert!(details(&world.noted[0])["reason"].contains("given up by retention"), "{:?}", world.noted);
    assert_eq!(noted(&mut world), ["retire report@2 by asat"]);
}

#[test]
fn what_is_done_for_space_is_written_down_with_the_guards_reason() {
    let mut world = World::with_versions(2);
    noted(&mut world);
    world.begin(&Event::GiveUp { version: id("report@1"), why: "the pool is full".to_owned() });
    assert_eq!(details(&world.noted[0])["reason"], "given up for space: the pool is full");
    assert_eq!(noted(&mut world), ["retire report@1 by asat"]);
}

#[test]
fn a_restore_is_written_down_with_what_came_of_it() {
    let mut world = World::with_versions(2);
    noted(&mut world);
    let restore = |world: &mut World| {
        let Answer::After(cut) = world.tell_for(&ann(), &World::restoring("report@1")) else { panic!() };
        world.perform(cut).unwrap();
        world.oldest_effect().expect("the store is brought back")
    };
    let failing = restore(&mut world);
    world.finish(failing, Outcome::Restore(Err(trouble(Code::StoreBusy)))).unwrap_err();
    assert_eq!(details(world.noted.last().unwrap())["outcome"], "failed: made up");
    let effect = restore(&mut world);
    assert!(matches!(world.perform(effect), Ok(Reply::Restored { .. })));
    assert_eq!(details(world.noted.last().unwrap())["outcome"], "done");
    let expected = ["publish report@2 by uid 1000 (ann)", "restore report@1 by uid 1000 (ann)"];
    assert_eq!(noted(&mut world), expected.repeat(2));

    world.publish("report", "as restored");
    let Answer::After(cut) = world.tell_for(&ann(), &World::restoring("report@latest")) else { panic!() };
    world.perform(cut).unwrap();
    assert_eq!(details(world.noted.last().unwrap())["outcome"], "it was as wanted");
    world.write("report");
    restore(&mut world);
    noted(&mut world);
    world.restart();
    assert!(details(world.noted.last().unwrap())["outcome"].contains("the daemon stopped"));
    assert_eq!(noted(&mut world), ["restore report@1 by uid 1000 (ann)"]);
}

#[test]
fn a_version_that_is_lost_and_found_is_written_down_as_nobodys_deed() {
    let mut world = World::with_versions(1);
    noted(&mut world);
    let kept = world.archive.remove(&id("report@1")).unwrap();
    world.restart();
    assert_eq!(noted(&mut world), ["lose report@1 by asat"]);
    world.archive.insert(id("report@1"), kept);
    world.restart();
    assert_eq!(noted(&mut world), ["recover report@1 by asat"]);
}

#[test]
fn a_lease_that_is_revoked_is_over_at_once_and_its_copy_gone() {
    let mut world = World::with_versions(2);
    world.open("report@1", "a");
    world.open("report@1", "b");
    noted(&mut world);
    assert_eq!(world.refused(&Event::retire(exactly("report@1"))).code, Code::Leased);
    let Answer::Now(Ok(Reply::Revoked(lease))) = world.tell_for(&ann(), &revoking("a", "incident 7")) else {
        panic!("it was not revoked")
    };
    assert_eq!(lease.id.0, "a");
    let said = details(&world.noted[0]);
    assert_eq!((said["lease"], said["holder"], said["reason"]), ("a", "ann", "incident 7"));
    assert_eq!(noted(&mut world), ["revoke report@1 by uid 1000 (ann)"]);
    assert!(world.version("report@1").copy.is_some(), "another one reads it");
    let renewal = Event::Renew { version: id("report@1"), lease: LeaseId("a".to_owned()), ttl_s: 60 };
    assert_eq!(world.refused(&renewal).code, Code::UnknownLease);

    world.ask(&revoking("b", "incident 7")).unwrap();
    assert_eq!(world.version("report@1").copy, None);
    assert_eq!(world.open_effects(), ["drop report@1"]);
    world.begin(&Event::retire(exactly("report@1")));
}

#[test]
fn what_cannot_be_revoked_is_refused() {
    let mut world = World::with_versions(1);
    world.open("report@1", "a");
    for reason in ["", " ", "two\nlines", &"x".repeat(501)] {
        assert_eq!(world.refused(&revoking("a", reason)).code, Code::Invalid, "{reason:?}");
    }
    assert_eq!(world.refused(&revoking("b", "incident")).code, Code::UnknownLease);
    world.pass(1_000_000);
    assert_eq!(world.refused(&revoking("a", "incident")).code, Code::UnknownLease);
}

#[test]
fn a_refusal_names_who_holds_until_when_and_why() {
    let mut world = World::with_versions(1);
    let until = world.now + SignedDuration::from_secs(60);
    let retire = Event::retire(VersionRef::Exact(id("report@1")));
    world.open("report@1", "a");
    world.open("report@1", "b");
    let problem = world.refused(&retire);
    assert!(problem.detail.starts_with("report@1 is leased by ann until 2026-"), "{problem}");
    assert!(problem.detail.contains(", and by 1 more (lease "), "{problem}");
    world.close("report@1", "a");
    assert!(!world.refused(&retire).detail.contains("more"));
    world.close("report@1", "b");
    world.ask(&World::pinning("report@1", Some(until))).unwrap();
    assert_eq!(world.refused(&retire).detail, format!("report@1 is pinned by ann until {until:.6}: audit"));
}
