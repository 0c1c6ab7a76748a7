//! Hot versions: acknowledged with their snapshot, archived behind it, and out of it.

use asat_core::event::{ArchiveFailure, Effect, EffectId, Event, Outcome, Reply};
use asat_core::retention::Retention;
use asat_core::version::{LeaseId, State};
use asat_core::{Backing, Code, Engine, Problem};

use crate::world::{World, exactly, id, origin, policy, store, trouble};

/// A daemon with one store on a volume.
fn on_volume() -> World {
    World::new(&[("hot", Retention::default())])
}

fn keeping(snapshots: usize) -> World {
    let mut world = on_volume();
    keep(&mut world, snapshots);
    world
}

/// The daemon has started on another configuration.
fn keep(world: &mut World, snapshots: usize) {
    let mut policy = policy(&[("hot", Retention::default())]);
    policy.stores.get_mut(&store("hot")).unwrap().keep_snapshots = snapshots;
    world.engine = Engine::new(policy, world.register().clone());
}

/// What holds each version, as `1 snapshot+archive`.
fn holdings(world: &World) -> String {
    let show = |version: &asat_core::version::Version| {
        let snapshot = version.snapshot().map(|_| "snapshot");
        let kinds: Vec<&str> =
            snapshot.into_iter().chain(version.is_archived().then_some("archive")).collect();
        format!("{} {}", version.id.number, kinds.join("+"))
    };
    world.versions().map(show).collect::<Vec<_>>().join(", ")
}

fn the_effect(world: &World) -> EffectId {
    world.oldest_effect().expect("something is open")
}

#[test]
fn a_version_is_acknowledged_with_its_snapshot_and_outlives_it() {
    let mut world = on_volume();
    world.publish_new("hot");
    assert_eq!(holdings(&world), "1 snapshot");
    assert_eq!(world.version("hot@1").content.as_ref().unwrap().fingerprint, None);
    assert_eq!(world.open_effects(), ["archive hot@1"]);
    world.perform(the_effect(&world)).unwrap();
    assert_eq!(holdings(&world), "1 snapshot+archive");
    assert!(world.version("hot@1").content.as_ref().unwrap().fingerprint.is_some());
    assert_eq!(world.open_effects(), ["drop snapshot of hot@1"]);
    world.settle();
    assert_eq!((holdings(&world).as_str(), world.snapshots.len()), ("1 archive", 0));
}

#[test]
fn versions_come_into_the_archive_one_by_one_in_their_order() {
    let mut world = on_volume();
    for _ in 0..3 {
        world.write("hot");
        let cut = world.begin(&Event::publish(&store("hot")));
        world.perform(cut).unwrap();
    }
    assert_eq!(world.open_effects(), ["archive hot@1"]);
    let full = ArchiveFailure { problem: trouble(Code::StorageFull), lost: false };
    world.finish(the_effect(&world), Outcome::Archive(Err(full))).unwrap_err();
    assert_eq!(world.open_effects(), Vec::<String>::new(), "it is tried again later");
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.open_effects(), ["archive hot@1"]);
    world.settle();
    assert_eq!(holdings(&world), "1 archive, 2 archive, 3 archive");
}

#[test]
fn the_newest_snapshots_stay_where_the_configuration_says_so() {
    let mut world = keeping(2);
    for _ in 0..4 {
        world.publish_new("hot");
        world.settle();
    }
    assert_eq!(holdings(&world), "1 archive, 2 archive, 3 snapshot+archive, 4 snapshot+archive");
}

#[test]
fn a_lease_keeps_the_snapshot_that_it_reads_and_its_end_lets_it_go() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.open("hot@1", "l");
    assert!(world.version("hot@1").copy.as_ref().unwrap().in_snapshot);
    world.settle();
    assert_eq!(holdings(&world), "1 snapshot+archive");
    // Others read it there as well.
    world.open("hot@1", "m");
    world.close("hot@1", "l");
    world.settle();
    assert_eq!(holdings(&world), "1 snapshot+archive");
    world.close("hot@1", "m");
    assert_eq!(world.version("hot@1").copy, None);
    world.settle();
    assert_eq!((holdings(&world).as_str(), world.snapshots.len()), ("1 archive", 0));
}

#[test]
fn an_older_snapshot_is_not_kept_for_newer_versions_that_have_none() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.open("hot@1", "l");
    world.settle();
    world.publish_new("hot");
    world.settle();
    assert_eq!(holdings(&world), "1 snapshot+archive, 2 archive");
    keep(&mut world, 1);
    world.close("hot@1", "l");
    world.settle();
    assert_eq!(holdings(&world), "1 archive, 2 archive");
}

#[test]
fn an_expired_lease_lets_the_snapshot_go_too() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.open("hot@1", "l");
    world.settle();
    world.pass(4000);
    world.ask(&Event::Tick).unwrap();
    world.settle();
    assert_eq!(holdings(&world), "1 archive");
}

#[test]
fn a_version_that_waits_for_the_archive_is_closed_without_losing_its_snapshot() {
    let mut world = on_volume();
    world.publish_new("hot");
    let effect = world.begin(&World::opening("hot@1", "l", 3600));
    world.perform(effect).unwrap();
    world.close("hot@1", "l");
    assert_eq!(world.open_effects(), ["archive hot@1", "drop hot@1"]);
    assert_eq!(holdings(&world), "1 snapshot");
}

#[test]
fn a_hot_pin_keeps_the_snapshot_until_it_goes() {
    let mut world = on_volume();
    world.publish_new("hot");
    let pin = |hot| Event::Pin {
        version: exactly("hot@1"),
        reason: "audit".to_owned(),
        owner: None,
        expires_at: None,
        hot,
    };
    world.ask(&pin(true)).unwrap();
    world.settle();
    assert_eq!(holdings(&world), "1 snapshot+archive");
    world.ask(&pin(false)).unwrap();
    world.settle();
    assert_eq!(holdings(&world), "1 archive");
}

#[test]
fn a_snapshot_that_cannot_be_dropped_is_dropped_later() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.perform(the_effect(&world)).unwrap();
    let busy = Outcome::DropSnapshot(Err(trouble(Code::InUse)));
    world.finish(the_effect(&world), busy).unwrap_err();
    assert_eq!(holdings(&world), "1 snapshot+archive");
    world.ask(&Event::Tick).unwrap();
    world.settle();
    assert_eq!(holdings(&world), "1 archive");
}

#[test]
fn a_version_whose_snapshot_overflows_is_lost_and_says_so() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.snapshots.get_mut(&id("hot@1")).unwrap().full = true;
    world.perform(the_effect(&world)).unwrap_err();
    assert_eq!(world.state("hot@1"), State::Lost);
    assert!(world.version("hot@1").end.as_ref().unwrap().reason.contains("not in the archive yet"));
    world.settle();
    assert_eq!(world.snapshots.len(), 0);
    // The next one is not held up.
    world.publish_new("hot");
    world.settle();
    assert_eq!(holdings(&world), "1 , 2 archive");
}

#[test]
fn an_archived_version_loses_nothing_with_its_snapshot() {
    let mut world = keeping(1);
    world.publish_new("hot");
    world.settle();
    world.snapshots.get_mut(&id("hot@1")).unwrap().full = true;
    world.restart();
    world.settle();
    assert_eq!((world.state("hot@1"), holdings(&world).as_str()), (State::Ready, "1 archive"));
}

#[test]
fn what_a_start_makes_of_a_snapshot() {
    // What happens before the daemon starts again; what the version is then, and what holds it.
    type Case = (&'static str, fn(&mut World), State, &'static str);
    let cases: [Case; 6] = [
        ("nothing", |_| {}, State::Ready, "1 archive"),
        ("it is removed by hand", |world| world.snapshots.clear(), State::Lost, "1 "),
        (
            "it overflows",
            |world| world.snapshots.get_mut(&id("hot@1")).unwrap().full = true,
            State::Lost,
            "1 ",
        ),
        ("its group is not there", |world| world.group_is_there = false, State::Lost, "1 snapshot"),
        (
            "the archive had it whole",
            |world| {
                let archive = world.register().intents().next().unwrap().effect.clone();
                world.act(&archive);
            },
            State::Ready,
            "1 archive",
        ),
        (
            "its group comes back",
            |world| {
                world.group_is_there = false;
                world.restart();
                world.group_is_there = true;
            },
            State::Ready,
            "1 archive",
        ),
    ];
    for (what, happens, state, held) in cases {
        let mut world = on_volume();
        world.publish_new("hot");
        happens(&mut world);
        world.restart();
        while let Some(effect) = world.oldest_effect() {
            let _ = world.perform(effect);
        }
        assert_eq!((world.state("hot@1"), holdings(&world).as_str()), (state, held), "{what}");
    }
}

/// The archive takes versions in their order, so a later one that was archived meanwhile keeps this one out of it.
#[test]
fn a_version_that_comes_back_behind_a_later_one_stays_in_its_snapshot() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.group_is_there = false;
    let backed = |world: &mut World, backing: Backing| {
        let mut policy = policy(&[("hot", Retention::default())]);
        policy.stores.get_mut(&store("hot")).unwrap().backing = backing;
        world.engine = Engine::new(policy, world.register().clone());
        world.restart();
    };
    backed(&mut world, Backing::Pages);
    world.publish_new("hot");
    world.group_is_there = true;
    for backing in [Backing::Pages, Backing::Volume(origin())] {
        backed(&mut world, backing);
        world.publish_new("hot");
        world.settle();
        assert_eq!(world.state("hot@1"), State::Ready);
        world.open("hot@1", "l");
        world.close("hot@1", "l");
    }
    assert_eq!(holdings(&world), "1 snapshot, 2 archive, 3 archive, 4 archive");
    let retire = world.begin(&Event::retire(exactly("hot@1")));
    world.perform(retire).unwrap();
    world.settle();
    assert_eq!((world.state("hot@1"), world.snapshots.len()), (State::Retired, 0));
}

/// What may be left of a cut is not forgotten because its group cannot be seen.
#[test]
fn what_may_be_left_over_is_removed_once_it_can_be_seen() {
    let mut world = on_volume();
    world.write("hot");
    let cut = world.begin(&Event::publish(&store("hot")));
    let effect = world.register().intent(cut).unwrap().effect.clone();
    world.act(&effect);
    world.group_is_there = false;
    world.restart();
    assert_eq!(world.state("hot@1"), State::Failed);
    assert_eq!(world.open_effects(), ["drop snapshot of hot@1"]);
    world.group_is_there = true;
    world.restart();
    world.settle();
    assert_eq!((world.state("hot@1"), world.snapshots.len()), (State::Failed, 0));
}

#[test]
fn a_snapshot_that_nobody_was_told_of_is_removed_at_the_next_start() {
    let mut world = on_volume();
    world.write("hot");
    let cut = world.begin(&Event::publish(&store("hot")));
    let effect = world.register().intent(cut).unwrap().effect.clone();
    world.act(&effect);
    world.restart();
    assert_eq!(world.open_effects(), ["drop snapshot of hot@1"]);
    world.settle();
    assert_eq!((world.state("hot@1"), world.snapshots.len()), (State::Failed, 0));
}

#[test]
fn a_failed_cut_that_leaves_a_snapshot_is_cleaned_up_until_it_is_gone() {
    let mut world = on_volume();
    world.write("hot");
    let cut = world.begin(&Event::publish(&store("hot")));
    let effect = world.register().intent(cut).unwrap().effect.clone();
    world.act(&effect);
    let left = Some(Box::new(world.snapshots[&id("hot@1")].snapshot.clone()));
    let Outcome::Cut(Err(mut failure)) = World::fail_cut(Code::Internal, true) else { unreachable!() };
    failure.left = left;
    world.finish(cut, Outcome::Cut(Err(failure))).unwrap_err();
    assert_eq!(world.open_effects(), ["retire hot@1", "drop snapshot of hot@1"]);
    world.settle();
    assert_eq!((world.state("hot@1"), world.snapshots.len()), (State::Failed, 0));
}

#[test]
fn a_retired_version_is_over_when_snapshot_and_pages_are_gone() {
    let mut world = keeping(1);
    world.publish_new("hot");
    world.settle();
    let retire = world.begin(&Event::retire(exactly("hot@1")));
    assert_eq!(world.open_effects(), ["retire hot@1", "drop snapshot of hot@1"]);
    world.perform(retire).unwrap();
    assert_eq!(world.state("hot@1"), State::Retiring);
    world.settle();
    assert_eq!((world.state("hot@1"), world.snapshots.len()), (State::Retired, 0));
}

#[test]
fn a_version_on_its_way_into_the_archive_is_not_retired() {
    let mut world = on_volume();
    world.publish_new("hot");
    assert_eq!(world.refused(&Event::retire(exactly("hot@1"))).code, Code::InUse);
}

#[test]
fn a_version_that_another_is_written_on_top_of_is_not_retired() {
    let mut world = on_volume();
    for _ in 0..2 {
        world.publish_new("hot");
        world.settle();
    }
    world.publish_new("hot");
    assert_eq!(world.open_effects(), ["archive hot@3"]);
    assert_eq!(world.refused(&Event::retire(exactly("hot@2"))).code, Code::InUse);
    assert_eq!(world.state("hot@2"), State::Ready, "a refusal changes nothing");
    let retire = world.begin(&Event::retire(exactly("hot@1")));
    world.perform(retire).unwrap();
    world.settle();
    assert_eq!(world.state("hot@1"), State::Retired);
    world.begin(&Event::retire(exactly("hot@2")));
}

#[test]
fn a_version_waits_for_the_archive_until_a_retirement_is_over_however_it_ends() {
    for trouble in [None, Some(trouble(Code::Internal))] {
        let mut world = on_volume();
        world.publish_new("hot");
        world.settle();
        world.write("hot");
        let retire = world.begin(&Event::retire(exactly("hot@1")));
        let cut = world.begin(&Event::publish(&store("hot")));
        world.perform(cut).unwrap();
        assert_eq!(world.open_effects(), ["retire hot@1"]);
        match trouble {
            None => drop(world.perform(retire).unwrap()),
            Some(problem) => drop(world.finish(retire, Outcome::Retire(Err(problem))).unwrap_err()),
        }
        assert_eq!(world.open_effects(), ["archive hot@2"]);
        world.settle();
        assert_eq!(world.state("hot@2"), State::Ready);
    }
}

#[test]
fn a_store_is_brought_back_out_of_snapshots() {
    let mut world = on_volume();
    world.publish_new("hot");
    world.write("hot");
    let cut = world.begin(&World::restoring("hot@1"));
    world.perform(cut).unwrap();
    let restore = |effect: &Effect| matches!(effect, Effect::Restore { .. });
    let open = world.register().intents().find(|intent| restore(&intent.effect)).unwrap().id;
    let answer = world.perform(open).unwrap();
    assert!(matches!(answer, Reply::Restored { .. }), "{answer:?}");
    world.settle();
    assert_eq!(holdings(&world), "1 archive, 2 archive");
}

#[test]
fn a_store_that_cannot_be_cut_is_refused_with_the_reason_and_read_all_the_same() {
    let mut world = on_volume();
    world.publish_new("hot");
    let mut policy = policy(&[("hot", Retention::default())]);
    let why = Problem::new(Code::Configuration, "the volume group vg is not there", "bring it back");
    policy.stores.get_mut(&store("hot")).unwrap().backing = Backing::Unusable(why.clone());
    world.engine = Engine::new(policy, world.register().clone());
    assert_eq!(world.refused(&Event::publish(&store("hot"))), why);
    world.open("hot@1", "l");
    assert!(world.register().lease(&LeaseId("l".to_owned())).is_some());
}

#[test]
fn pages_wait_for_versions_that_are_still_in_snapshots() {
    let mut world = on_volume();
    world.publish_new("hot");
    let mut policy = policy(&[("hot", Retention::default())]);
    policy.stores.get_mut(&store("hot")).unwrap().backing = Backing::Pages;
    world.engine = Engine::new(policy, world.register().clone());
    assert_eq!(world.refused(&Event::publish(&store("hot"))).code, Code::InUse);
    world.settle();
    world.publish_new("hot");
    assert_eq!(holdings(&world), "1 archive, 2 archive");
}
