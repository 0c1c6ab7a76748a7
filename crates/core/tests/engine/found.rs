//! Snapshots that nothing is recorded of: a lost catalogue is made anew of them, and of what the archive holds.

use asat_core::event::{Event, Found, Survey};
use asat_core::retention::Retention;
use asat_core::version::State;

use crate::world::{World, id, store};

/// A daemon on the machine of another one, whose catalogue is lost.
fn anew(old: &World) -> World {
    let mut world = World::new(&[("hot", Retention::default())]);
    (world.archive, world.snapshots) = (old.archive.clone(), old.snapshots.clone());
    world.now = old.now;
    world
}

/// A daemon with a version in the archive, and two that are in their snapshots alone.
fn lived() -> World {
    let mut world = World::new(&[("hot", Retention::default())]);
    world.publish_new("hot");
    world.settle();
    for _ in 0..2 {
        world.write("hot");
        let cut = world.begin(&Event::publish(&store("hot")));
        world.perform(cut).unwrap();
    }
    assert_eq!(world.snapshots.len(), 2);
    world
}

fn told(world: &World, part: &str) -> bool {
    world.remarks.iter().any(|remark| remark.contains(part))
}

#[test]
fn versions_that_are_in_their_snapshots_alone_are_adopted_and_go_on_as_ever() {
    let old = lived();
    let mut world = anew(&old);
    world.restart();
    assert_eq!(world.states("hot"), "1 ready, 2 ready, 3 ready");
    for number in 1..=3 {
        let id = format!("hot@{number}");
        let (was, is) = (old.version(&id), world.version(&id));
        assert_eq!((&is.content, &is.holdings), (&was.content, &was.holdings));
        let publication = world.register().publication(number).unwrap();
        assert_eq!(publication.version.number, number);
    }
    let label = world.register().publication(3).unwrap().attributes.label.as_deref();
    assert_eq!(label, Some("hot@3 in its snapshot"));
    assert!(told(&world, "hot@2 was found in its snapshot vg/hot@2, and is adopted"), "{:?}", world.remarks);
    world.restart();
    world.settle();
    assert_eq!((world.archive.len(), world.snapshots.len()), (3, 0));
    assert_eq!(world.publish_new("hot"), id("hot@4"));
}

#[test]
fn one_that_is_in_the_archive_too_is_one_version_that_both_hold() {
    let mut old = lived();
    let archiving = old.oldest_effect().unwrap();
    old.perform(archiving).unwrap();
    assert!(old.version("hot@2").is_archived() && old.snapshots.contains_key(&id("hot@2")));
    let mut world = anew(&old);
    world.restart();
    assert_eq!(world.version("hot@2").content, old.version("hot@2").content);
    assert!(world.version("hot@2").is_archived() && world.version("hot@2").snapshot().is_some());
    assert_eq!(world.register().publications().count(), 3, "each was published once");
    world.restart();
    world.settle();
    assert_eq!((world.states("hot").as_str(), world.snapshots.len()), ("1 ready, 2 ready, 3 ready", 0));
}

#[test]
fn one_whose_number_another_version_has_is_left_alone() {
    let old = lived();
    let mut world = anew(&old);
    world.snapshots.clear();
    world.restart();
    world.pass(60);
    world.write("hot");
    let cut = world.begin(&Event::publish(&store("hot")));
    world.perform(cut).unwrap();
    world.settle();
    let before = world.version("hot@2").clone();
    world.snapshots = old.snapshots.clone();
    world.restart();
    assert_eq!(*world.version("hot@2"), before);
    assert!(
        told(&world, "vg/hot@2 was taken for hot@2, and is left alone: another version"),
        "{:?}",
        world.remarks
    );
    world.settle();
    assert!(world.snapshots.contains_key(&id("hot@2")), "it is not removed");
}

#[test]
fn one_that_was_full_is_lost_and_goes() {
    let mut old = lived();
    old.snapshots.get_mut(&id("hot@2")).unwrap().full = true;
    let mut world = anew(&old);
    world.restart();
    assert_eq!(world.states("hot"), "1 ready, 2 lost, 3 ready");
    assert!(world.version("hot@2").end.as_ref().unwrap().reason.contains("vg/hot@2 was full"));
    world.restart();
    world.settle();
    assert!(world.snapshots.is_empty());
}

#[test]
fn one_that_cannot_be_read_now_is_lost_until_it_can() {
    let old = lived();
    let mut world = anew(&old);
    let mut survey = world.survey();
    survey.found[1].snapshot = Err("a disk is missing".to_owned());
    world.ask(&Event::Started(survey)).unwrap();
    assert_eq!(world.states("hot"), "1 ready, 2 ready, 3 lost");
    let reason = world.version("hot@3").end.as_ref().unwrap().reason.clone();
    assert_eq!(reason, "its snapshot vg/hot@3 cannot be read: a disk is missing");
    assert_eq!(world.publish_new("hot"), id("hot@4"));
    world.restart();
    assert_eq!(world.state("hot@3"), State::Ready);
    assert!(world.version("hot@3").end.is_none() && world.version("hot@3").snapshot().is_some());
}

#[test]
fn one_that_cannot_be_looked_into_now_keeps_its_number_until_it_can() {
    let old = lived();
    let mut world = anew(&old);
    for _ in 0..2 {
        let mut survey = world.survey();
        let found = survey.found.iter_mut().find(|found| found.version == id("hot@3")).unwrap();
        (found.described, found.snapshot) = (None, Err("the disk does not answer".to_owned()));
        world.ask(&Event::Started(survey)).unwrap();
        assert_eq!(world.states("hot"), "1 ready, 2 ready, 3 lost");
        let reason = world.version("hot@3").end.as_ref().unwrap().reason.clone();
        assert_eq!(reason, "its snapshot vg/hot@3 cannot be read: the disk does not answer");
    }
    assert_eq!(world.publish_new("hot"), id("hot@4"));
    world.restart();
    assert_eq!(world.state("hot@3"), State::Ready);
    assert_eq!(world.version("hot@3").content, old.version("hot@3").content);
    assert!(world.version("hot@3").end.is_none() && world.version("hot@3").snapshot().is_some());
    let label = world.register().publications().find(|p| p.version == id("hot@3")).unwrap();
    assert_eq!(label.attributes.label.as_deref(), Some("hot@3 in its snapshot"));
}

#[test]
fn one_of_which_nothing_can_be_made_keeps_its_number_and_is_left_alone() {
    for archived in [false, true] {
        let mut old = lived();
        if archived {
            let archiving = old.oldest_effect().unwrap();
            old.perform(archiving).unwrap();
        }
        let mut world = anew(&old);
        for _ in 0..2 {
            let mut survey = world.survey();
            let broken = |found: &mut Found| found.described = Some(Err("it says nothing".to_owned()));
            survey.found.iter_mut().for_each(broken);
            world.ask(&Event::Started(survey)).unwrap();
            let of_2 = if archived { "ready" } else { "failed" };
            assert_eq!(world.states("hot"), format!("1 ready, 2 {of_2}, 3 failed"));
            assert!(told(&world, "vg/hot@3 was taken for hot@3, and is left alone: it says nothing"));
        }
        assert_eq!(world.snapshots.len(), 2);
        assert_eq!(world.publish_new("hot"), id("hot@4"));
    }
}

#[test]
fn one_with_a_number_that_leaves_no_room_is_left_alone() {
    let mut world = World::new(&[("hot", Retention::default())]);
    let mut found = lived().snapshots[&id("hot@3")].found(&id("hot@3"));
    for number in [1 << 40, u64::MAX] {
        found.version.number = number;
        for described in [found.described.clone(), Some(Err("it says nothing".to_owned())), None] {
            let found = vec![Found { described, ..found.clone() }];
            world.ask(&Event::Started(Survey { found, ..world.survey() })).unwrap();
        }
    }
    assert_eq!(world.states("hot"), "");
    assert!(told(&world, "so high a number"), "{:?}", world.remarks);
    assert_eq!(world.publish_new("hot"), id("hot@1"));
}

#[test]
fn one_of_an_unknown_store_is_left_alone_and_told_of() {
    let old = lived();
    let mut world = World::new(&[("other", Retention::default())]);
    (world.archive, world.snapshots) = (old.archive.clone(), old.snapshots.clone());
    world.restart();
    assert_eq!(world.register().publications().count(), 0);
    assert!(told(&world, "vg/hot@3 holds hot@3 of an unknown store"), "{:?}", world.remarks);
    world.restart_with(&[("other", Retention::default()), ("hot", Retention::default())]);
    assert_eq!(world.states("hot"), "1 ready, 2 ready, 3 ready");
}
