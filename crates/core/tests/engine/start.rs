//! Starting: whatever interrupted the last run, records and machine agree afterwards.

use std::path::PathBuf;

use asat_core::event::{Archived, Damaged, Described, Event, Outcome, Reply, Survey};
use asat_core::register::Register;
use asat_core::retention::Retention;
use asat_core::version::{Holding, Lease, State};
use asat_core::{Code, Engine};
use jiff::SignedDuration;

use crate::world::{World, exactly, id, policy, store};

#[test]
fn stores_are_taken_in_and_followed_when_they_move() {
    let mut world = World::report();
    let added_at = world.register().history(&store("report")).unwrap().store.added_at;
    world.pass(60);
    let mut moved = policy(&[("report", Retention::default())]);
    moved.stores.get_mut(&store("report")).unwrap().path = PathBuf::from("/elsewhere/report.db");
    world.engine = Engine::new(moved, world.register().clone());
    world.restart();
    let report = &world.register().history(&store("report")).unwrap().store;
    assert_eq!((report.path.as_path(), report.added_at), ("/elsewhere/report.db".as_ref(), added_at));
    let settled = world.engine.decide(world.now, &Event::Started(world.survey()));
    assert_eq!(settled.changes, [], "a start at which nothing is to be done changes nothing");
}

#[test]
fn a_cut_that_was_complete_is_adopted() {
    let mut world = World::with_versions(1);
    world.write("report");
    let event = World::publishing("report", "close", Some("key-1"));
    let effect = world.begin(&event);
    let intent = world.register().intent(effect).unwrap().clone();
    world.act(&intent.effect);
    world.restart();
    assert_eq!(world.states("report"), "1 ready, 2 ready");
    assert_eq!(world.version("report@2").holdings, [Holding::Archive { bytes: 100 }]);
    assert!(world.remarks.iter().any(|remark| remark.contains("adopted")), "{:?}", world.remarks);
    assert_eq!(world.ask(&event), Ok(Reply::Published(2)), "the caller asks again and is told");
    assert_eq!(world.register().publication(2).unwrap().attributes.label.as_deref(), Some("close"));
}

#[test]
fn a_cut_that_was_not_complete_has_failed() {
    let mut world = World::with_versions(1);
    let event = World::publishing("report", "close", Some("key-1"));
    world.begin(&event);
    world.restart();
    assert_eq!(world.states("report"), "1 ready, 2 failed");
    assert!(world.version("report@2").end.as_ref().unwrap().reason.contains("stopped"));
    assert!(world.open_effects().is_empty());
    world.write("report");
    world.begin(&event);
    world.settle();
    assert_eq!(world.states("report"), "1 ready, 2 failed, 3 ready");
}

#[test]
fn a_retirement_is_done_again_wherever_it_stood() {
    for done in [false, true] {
        let mut world = World::with_versions(2);
        let effect = world.begin(&Event::retire(exactly("report@1")));
        if done {
            world.archive.remove(&id("report@1"));
        }
        world.restart();
        assert!(world.register().intent(effect).is_none());
        assert_eq!(world.open_effects(), ["retire report@1"]);
        world.settle();
        assert_eq!(world.states("report"), "1 retired, 2 ready");
    }
}

#[test]
fn a_retirement_that_nobody_intends_any_more_is_intended_again() {
    let mut world = World::with_versions(2);
    let effect = world.begin(&Event::retire(exactly("report@1")));
    world.finish(effect, Outcome::Retire(Err(crate::world::trouble(Code::Internal)))).unwrap_err();
    world.restart();
    assert_eq!(world.open_effects(), ["retire report@1"]);
}

#[test]
fn leftovers_of_versions_that_ended_are_removed() {
    let mut world = World::with_versions(2);
    let kept = world.archive.get(&id("report@1")).unwrap().clone();
    world.begin(&Event::retire(exactly("report@1")));
    world.settle();
    let effect = world.begin(&World::publishing("report", "close", None));
    world.finish(effect, World::fail_cut(Code::StorageFull, true)).unwrap_err();
    world.archive.insert(id("report@1"), kept.clone());
    world.archive.insert(id("report@3"), kept);
    world.restart();
    assert_eq!(world.open_effects(), ["retire report@3", "retire report@1", "compact report"]);
    world.settle();
    assert_eq!(world.states("report"), "1 retired, 2 ready, 3 failed");
    assert_eq!(world.archive.len(), 1);
}

#[test]
fn archives_from_which_versions_retired_are_compacted() {
    let mut world = World::with_versions(2);
    let effect = world.begin(&Event::retire(exactly("report@1")));
    let retired = asat_core::event::Retired { freed_bytes: 0, worth_compacting: true };
    world.archive.remove(&id("report@1"));
    world.finish(effect, Outcome::Retire(Ok(retired))).unwrap();
    assert_eq!(world.open_effects(), ["compact report"]);
    for _ in 0..2 {
        world.restart();
        assert_eq!(world.open_effects(), ["compact report"], "once, whether it was interrupted or not");
    }
    world.settle();
    world.restart();
    assert_eq!(world.open_effects(), ["compact report"]);
}

#[test]
fn a_compaction_that_ended_with_the_daemon_is_begun_again() {
    let mut world = World::with_versions(2);
    world.settle();
    world.restart();
    assert_eq!(world.open_effects(), [""; 0]);
    world.uncompacted.insert(store("report"));
    for _ in 0..2 {
        world.restart();
        assert_eq!(
            world.open_effects(),
            ["compact report"],
            "once, although the last one was interrupted too"
        );
    }
    world.uncompacted.clear();
    world.settle();
    world.restart();
    assert_eq!(world.open_effects(), [""; 0]);
}

#[test]
fn a_version_whose_pages_are_gone_is_lost_and_may_be_found_again() {
    let mut world = World::with_versions(2);
    world.ask(&World::pinning("report@1", None)).unwrap();
    let kept = world.archive.remove(&id("report@1")).unwrap();
    world.restart();
    assert_eq!(world.states("report"), "1 lost, 2 ready");
    assert_eq!(world.refused(&World::opening("report@1", "a", 60)).code, Code::NotReadable);
    world.restart();
    assert_eq!(world.states("report"), "1 lost, 2 ready");
    world.archive.insert(id("report@1"), kept);
    world.restart();
    assert_eq!(world.states("report"), "1 ready, 2 ready");
    assert!(world.version("report@1").end.is_none() && world.version("report@1").pin.is_some());
    world.open("report@1", "a");
}

#[test]
fn a_lost_version_can_be_given_up() {
    let mut world = World::with_versions(2);
    world.archive.remove(&id("report@1"));
    world.restart();
    world.begin(&Event::retire(exactly("report@1")));
    world.settle();
    assert_eq!(world.states("report"), "1 retired, 2 ready");
}

#[test]
fn versions_that_nobody_knows_are_adopted() {
    let mut old = World::with_versions(2);
    old.write("report");
    old.begin(&World::publishing("report", "keyed", Some("key-1")));
    old.settle();
    let mut world = World::report();
    world.archive = old.archive.clone();
    world.restart();
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready");
    for number in 1..=3 {
        let (was, is) =
            (old.register().publication(number).unwrap(), world.register().publication(number).unwrap());
        assert_eq!((&is.version, &is.attributes, &is.key), (&was.version, &was.attributes, &was.key));
    }
    assert_eq!(world.publish_new("report"), id("report@4"));
}

#[test]
fn an_unknown_version_takes_no_key_from_another_publication() {
    let mut old = World::with_versions(1);
    let kept = old.archive.remove(&id("report@1")).unwrap();
    let mut world = World::report();
    for version in ["report@1", "report@2"] {
        let kept = asat_core::event::Described { key: Some("key-1".to_owned()), ..kept.clone() };
        world.archive.insert(id(version), kept);
    }
    world.restart();
    assert_eq!(world.states("report"), "1 ready, 2 ready");
    assert_eq!(world.register().publication_by_key("key-1").unwrap().version, id("report@1"));
}

#[test]
fn a_version_of_an_unknown_store_is_left_alone_and_told_of() {
    let old = World::with_versions(1);
    let none = Retention::default;
    let mut world = World::new(&[("other", none())]);
    world.archive = old.archive.clone();
    world.restart();
    assert_eq!(world.register().publications().count(), 0);
    assert!(world.remarks.iter().any(|remark| remark.contains("report@1")), "{:?}", world.remarks);
    assert!(world.open_effects().is_empty());
    world.restart_with(&[("other", none()), ("report", none())]);
    assert_eq!(world.states("report"), "1 ready");
}

/// Starts on an archive that says of one version that its pages cannot be had.
fn start_damaged(world: &mut World, version: &str, described: Option<Described>) {
    let damaged = Damaged { why: "it was cut short".to_owned(), described: described.map(Box::new) };
    let archived = Archived { version: id(version), described: Err(damaged) };
    world.ask(&Event::Started(Survey { archived: vec![archived], ..Survey::default() })).unwrap();
}

#[test]
fn no_older_version_is_named_for_a_moment_that_may_be_that_of_one_that_is_gone() {
    let before = World::with_versions(3);
    let kept = |version: &str| before.archive.get(&id(version)).unwrap().clone();
    let mut world = World::report();
    let damaged = Damaged { why: "it was cut short".to_owned(), described: None };
    let archived = |version, described| Archived { version: id(version), described };
    let archived = vec![
        archived("report@1", Ok(Box::new(kept("report@1")))),
        archived("report@2", Err(damaged)),
        archived("report@3", Ok(Box::new(kept("report@3")))),
    ];
    world.ask(&Event::Started(Survey { archived, ..Survey::default() })).unwrap();
    assert_eq!(world.states("report"), "1 ready, 2 lost, 3 ready");
    let third = kept("report@3").content.cut_at;
    let as_of = |world: &World, at| {
        world.register().as_of(&store("report"), at).map(|entry| entry.version.id.clone())
    };
    assert_eq!(as_of(&world, third), Ok(id("report@3")));
    let gone = as_of(&world, third - SignedDuration::from_micros(1)).unwrap_err();
    assert_eq!(gone.code, Code::NotReadable);
    assert!(gone.detail.contains("report@2") && gone.detail.contains("that moment"), "{gone}");
    world.tell(&Event::retire(exactly("report@2")));
    let gone = as_of(&world, third - SignedDuration::from_micros(1)).unwrap_err();
    assert_eq!(gone.code, Code::Retired);
}

#[test]
fn a_damaged_version_keeps_its_number_and_comes_back_with_its_pages() {
    for tells in [true, false] {
        let before = World::with_versions(1);
        let kept = before.archive.get(&id("report@1")).unwrap().clone();
        let mut world = World::report();
        start_damaged(&mut world, "report@1", tells.then(|| kept.clone()));
        assert_eq!(world.states("report"), "1 lost");
        assert!(world.remarks.iter().any(|remark| remark.contains("cut short")), "{:?}", world.remarks);
        assert_eq!(world.register().publications().count(), usize::from(tells));
        start_damaged(&mut world, "report@1", None);
        assert_eq!(world.states("report"), "1 lost");
        world.archive.insert(id("report@1"), kept);
        world.restart();
        assert_eq!(world.states("report"), "1 ready");
        assert_eq!(world.version("report@1").content, before.version("report@1").content);
        assert_eq!(world.register().publications().count(), 1);
        world.open("report@1", "a");
    }
}

#[test]
fn a_version_whose_pages_the_archive_cannot_give_any_more_is_lost_until_it_can() {
    let mut world = World::with_versions(3);
    let before = world.version("report@2").content.clone();
    world.damaged.insert(id("report@2"));
    for _ in 0..2 {
        world.restart();
        assert_eq!(world.states("report"), "1 ready, 2 lost, 3 ready");
        assert_eq!(world.version("report@2").content, before);
        let end = &world.version("report@2").end.as_ref().unwrap().reason;
        assert!(end.contains("cut short"), "{end}");
        assert!(world.remarks.iter().any(|remark| remark.contains("asat retire report@2")));
    }
    world.damaged.clear();
    world.restart();
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready");
}

#[test]
fn a_version_in_its_snapshot_outlives_damage_to_its_pages_and_is_archived_again() {
    let mut world = World::new(&[("hot", Retention::default())]);
    world.publish_new("hot");
    // The daemon dies as it has been put into the archive.
    let archive = world.register().intents().next().unwrap().effect.clone();
    world.act(&archive);
    world.damaged.insert(id("hot@1"));
    world.restart();
    assert_eq!(world.states("hot"), "1 ready");
    let told = |words: &str| world.remarks.iter().any(|remark| remark.contains(words));
    assert!(told("read from its snapshot") && !told("asat retire"), "{:?}", world.remarks);
    world.settle();
    assert_eq!((world.states("hot").as_str(), world.archive.len()), ("1 ready", 1));
    assert!(world.version("hot@1").is_archived() && world.version("hot@1").snapshot().is_none());
}

/// A daemon whose version is both archived and in its snapshot, as that is about to go or stays to be compared with.
fn held_twice(store: &str) -> World {
    let mut world = World::new(&[(store, Retention::default())]);
    world.publish_new(store);
    let archiving = world.oldest_effect().unwrap();
    world.perform(archiving).unwrap();
    let version = world.version(&format!("{store}@1"));
    assert!(version.is_archived() && version.snapshot().is_some());
    world
}

#[test]
fn a_snapshot_does_not_go_while_the_archive_cannot_give_the_pages_of_its_version() {
    for (store, gone) in [("hot", false), ("hot", true), ("thin", false), ("thin", true)] {
        let mut world = held_twice(store);
        let version = format!("{store}@1");
        let before = world.version(&version).content.clone();
        match gone {
            true => _ = world.archive.remove(&id(&version)),
            false => _ = world.damaged.insert(id(&version)),
        }
        // Whether the snapshot can be seen at first or not.
        for there in [false, true] {
            world.group_is_there = there;
            world.restart();
            assert_eq!(world.states(store), if there { "1 ready" } else { "1 lost" });
        }
        assert_eq!(world.open_effects(), [format!("archive {version}")]);
        let told = |words: &str| world.remarks.iter().any(|remark| remark.contains(words));
        assert!(told("read from its snapshot"), "{:?}", world.remarks);
        world.settle();
        assert!(world.version(&version).is_archived() && world.damaged.is_empty());
        assert_eq!((world.version(&version).content.clone(), world.archive.len()), (before, 1));
    }
}

#[test]
fn a_version_below_the_newest_one_of_a_damaged_archive_stays_in_its_snapshot() {
    let mut world = held_twice("thin");
    world.open("thin@1", "a");
    world.publish_new("thin");
    world.settle();
    world.damaged.insert(id("thin@1"));
    for _ in 0..2 {
        world.restart();
        assert_eq!(world.states("thin"), "1 ready, 2 ready");
    }
    world.close("thin@1", "a");
    world.settle();
    world.tell(&Event::Tick);
    assert!(world.open_effects().is_empty(), "{:?}", world.open_effects());
    assert!(world.snapshots.contains_key(&id("thin@1")));
    // Its file is put back.
    world.damaged.clear();
    world.restart();
    world.settle();
    assert!(world.version("thin@1").is_archived() && !world.snapshots.contains_key(&id("thin@1")));
}

#[test]
fn a_cut_whose_pages_are_damaged_has_failed() {
    let mut world = World::with_versions(0);
    world.begin(&World::publishing("report", "close", None));
    start_damaged(&mut world, "report@1", None);
    assert_eq!(world.states("report"), "1 failed");
}

#[test]
fn leased_copies_stay_or_are_made_again_and_all_others_go() {
    let mut world = World::with_versions(3);
    for version in ["report@1", "report@2", "report@3"] {
        world.open(version, version);
    }
    world.close("report@2", "report@2");
    world.copies.remove(&id("report@3"));
    world.copies.insert(id("report@77"));
    world.restart();
    assert_eq!(
        world.open_effects(),
        ["drop report@2", "drop report@3", "copy report@3 for report@3", "drop report@77"]
    );
    let copied = world.versions().filter(|version| version.copy.is_some());
    assert_eq!(copied.map(|version| version.id.number).collect::<Vec<_>>(), [1]);
    let leases: Vec<_> = world.register().leases().cloned().collect();
    world.settle();
    assert_eq!(world.copies.iter().map(|id| id.number).collect::<Vec<_>>(), [1, 3]);
    let ends = |leases: &[Lease]| leases.iter().map(|l| (l.id.clone(), l.expires_at)).collect::<Vec<_>>();
    let now: Vec<_> = world.register().leases().cloned().collect();
    assert_eq!(ends(&now), ends(&leases), "a lease lasts as long as it did");
}

#[test]
fn a_copy_in_the_making_is_forgotten_and_its_leftovers_go() {
    for done in [false, true] {
        let mut world = World::with_versions(1);
        world.begin(&World::opening("report@1", "a", 60));
        if done {
            world.copies.insert(id("report@1"));
        }
        world.restart();
        assert_eq!(world.register().leases().count(), 0);
        assert_eq!(world.open_effects(), if done { vec!["drop report@1"] } else { vec![] });
        world.settle();
        assert!(world.copies.is_empty());
    }
}

#[test]
fn a_copy_on_its_way_out_is_dropped_once() {
    let mut world = World::with_versions(4);
    for version in ["report@1", "report@2", "report@3"] {
        world.open(version, version);
        world.close(version, version);
    }
    world.begin(&World::opening("report@4", "a", 60));
    world.restart();
    let drops = world.open_effects();
    assert_eq!(drops, ["drop report@1", "drop report@2", "drop report@3"]);
    world.settle();
    assert!(world.copies.is_empty());
}

#[test]
fn a_copy_that_was_made_anew_is_not_dropped_by_an_old_intent() {
    let mut world = World::with_versions(4);
    for version in ["report@1", "report@2", "report@3"] {
        world.open(version, version);
        world.close(version, version);
    }
    // The copy of 1 is dropped, but that could not be recorded; then it is made anew and leased.
    world.begin(&World::opening("report@4", "a", 60));
    let drop = world.register().intents().next().unwrap().clone();
    world.act(&drop.effect);
    let again = world.begin(&World::opening("report@1", "b", 60));
    world.perform(again).unwrap();
    world.restart();
    assert!(!world.open_effects().contains(&"drop report@1".to_owned()), "{:?}", world.open_effects());
    world.settle();
    assert!(world.copies.contains(&id("report@1")));
}

#[test]
fn a_start_may_itself_be_interrupted() {
    let mut world = World::with_versions(3);
    world.begin(&Event::retire(exactly("report@1")));
    world.write("report");
    let cut = world.begin(&World::publishing("report", "close", None));
    let intent = world.register().intent(cut).unwrap().clone();
    world.act(&intent.effect);
    world.begin(&World::opening("report@3", "a", 60));
    for _ in 0..3 {
        world.restart();
        assert_eq!(world.open_effects(), ["retire report@1"]);
    }
    world.settle();
    assert_eq!(world.states("report"), "1 retired, 2 ready, 3 ready, 4 ready");
    assert_ne!(*world.register(), Register::default());
    assert_eq!(world.state("report@4"), State::Ready);
}
