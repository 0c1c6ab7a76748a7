//! What the guard asks for: to demote a version, to give one up; and what it has seen: that one is lost.

use asat_core::event::{Event, Reply};
use asat_core::retention::Retention;
use asat_core::version::State;
use asat_core::{Code, VersionId};

use crate::world::{World, exactly, id};

/// One version of a store on a volume, in its snapshot and on its way into the archive.
fn hot() -> World {
    let mut world = World::new(&[("hot", Retention::default())]);
    world.publish_new("hot");
    world
}

/// The same in the archive as well, and in a snapshot that is pinned.
fn pinned_hot() -> World {
    let mut world = hot();
    world.ask(&pinning(true)).unwrap();
    world.settle();
    assert!(world.version("hot@1").is_archived() && world.version("hot@1").snapshot().is_some());
    world
}

fn pinning(hot: bool) -> Event {
    Event::Pin { version: exactly("hot@1"), reason: "audit".to_owned(), owner: None, expires_at: None, hot }
}

fn giving_up(version: &str) -> Event {
    Event::GiveUp { version: id(version), why: "group vg is full".to_owned() }
}

#[test]
fn only_what_is_archived_and_not_needed_is_demoted() {
    let demote = Event::Demote(id("hot@1"));
    assert_eq!(hot().refused(&demote).code, Code::InUse, "it is only in its snapshot");
    let mut world = pinned_hot();
    assert_eq!(world.refused(&demote).code, Code::InUse, "it is pinned hot");
    world.ask(&pinning(false)).unwrap();
    assert_eq!(world.open_effects(), ["drop snapshot of hot@1"]);
    let effect = world.begin(&demote);
    assert_eq!(world.open_effects().len(), 1, "it is on its way out already");
    world.perform(effect).unwrap();
    assert!(world.snapshots.is_empty());
    assert_eq!(world.ask(&demote), Ok(Reply::Version(id("hot@1"))), "there is nothing left to do");
    assert_eq!(world.state("hot@1"), State::Ready);
}

#[test]
fn a_snapshot_that_the_configuration_keeps_is_demoted_when_the_guard_asks() {
    let mut policy = crate::world::policy(&[("hot", Retention::default())]);
    policy.stores.values_mut().for_each(|store| store.keep_snapshots = 1);
    let mut world = hot();
    world.engine = asat_core::Engine::new(policy, world.register().clone());
    world.settle();
    assert_eq!(world.snapshots.len(), 1, "kept");
    let effect = world.begin(&Event::Demote(id("hot@1")));
    world.perform(effect).unwrap();
    assert!(world.snapshots.is_empty() && world.version("hot@1").is_archived());
}

#[test]
fn a_version_is_given_up_for_its_space_with_the_reason_on_record() {
    let mut world = hot();
    assert_eq!(world.refused(&giving_up("hot@1")).code, Code::InUse, "it is being archived");
    world.publish_new("hot");
    let effect = world.begin(&giving_up("hot@2"));
    world.perform(effect).unwrap();
    world.settle();
    assert_eq!(world.state("hot@2"), State::Retired);
    let end = world.version("hot@2").end.clone().unwrap();
    assert_eq!(end.reason, "given up for space: group vg is full");
    assert_eq!(world.refused(&giving_up("hot@2")).code, Code::Retired, "once is enough");
}

#[test]
fn what_is_pinned_or_leased_is_not_given_up() {
    let mut world = pinned_hot();
    assert_eq!(world.refused(&giving_up("hot@1")).code, Code::Pinned);
    world.ask(&Event::Unpin(exactly("hot@1"))).unwrap();
    world.open("hot@1", "lease");
    assert_eq!(world.refused(&giving_up("hot@1")).code, Code::Leased);
}

#[test]
fn a_version_that_is_seen_to_have_overflowed_is_lost_unless_it_is_archived() {
    let overflowed = |number| Event::Overflowed(VersionId { number, ..id("hot@1") });
    let mut world = hot();
    world.publish_new("hot");
    world.ask(&overflowed(1)).unwrap();
    assert_eq!(world.states("hot"), "1 ready, 2 ready", "who archives it will see it");
    world.snapshots.get_mut(&id("hot@2")).unwrap().full = true;
    world.ask(&overflowed(2)).unwrap();
    assert_eq!(world.state("hot@2"), State::Lost);
    let reason = "it was not in the archive yet, and its snapshot vg/hot@2 was full";
    assert_eq!(world.version("hot@2").end.as_ref().unwrap().reason, reason);
    world.ask(&overflowed(2)).unwrap();
    world.settle();
    assert!(world.snapshots.is_empty(), "what is left of it goes");

    let mut world = pinned_hot();
    world.snapshots.get_mut(&id("hot@1")).unwrap().full = true;
    world.ask(&overflowed(1)).unwrap();
    assert_eq!(world.open_effects(), ["drop snapshot of hot@1"]);
    assert_eq!(world.state("hot@1"), State::Ready, "the archive has it");
    assert_eq!(world.refused(&overflowed(9)).code, Code::UnknownVersion);
}

#[test]
fn a_snapshot_that_somebody_removed_takes_no_version_with_it_that_is_archived() {
    let vanished = |number| Event::Vanished(VersionId { number, ..id("hot@1") });
    let mut world = hot();
    world.publish_new("hot");
    world.ask(&vanished(1)).unwrap();
    assert_eq!(world.states("hot"), "1 ready, 2 ready", "who archives it will see it");
    world.snapshots.remove(&id("hot@2"));
    world.ask(&vanished(2)).unwrap();
    assert_eq!(world.state("hot@2"), State::Lost);
    let reason = "its snapshot vg/hot@2 was removed before it was in the archive";
    assert_eq!(world.version("hot@2").end.as_ref().unwrap().reason, reason);
    assert_eq!(world.ask(&vanished(2)), Ok(Reply::Done), "there is nothing more to say");

    let mut world = pinned_hot();
    world.snapshots.remove(&id("hot@1"));
    world.ask(&vanished(1)).unwrap();
    assert_eq!((world.state("hot@1"), world.open_effects().len()), (State::Ready, 0), "the archive has it");
    assert!(world.version("hot@1").snapshot().is_none());
    assert_eq!(world.refused(&vanished(9)).code, Code::UnknownVersion);
}
