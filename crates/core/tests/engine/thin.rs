//! Thin snapshots: the newest archived version's stays, so that the next one is compared with it, as long as nobody needs its
//! space.

use asat_core::event::{Answer, Event};
use asat_core::retention::Retention;
use asat_core::snapshot::{BackendKind, Origin};
use asat_core::{Backing, Code, Engine, Policy};

use crate::world::{World, exactly, id, policy, store, thin_origin};

/// A daemon with one store on a thin volume, and the configuration otherwise as it is changed here.
fn with(change: impl FnOnce(&mut Policy)) -> World {
    let mut world = World::new(&[("thin", Retention::default())]);
    change_policy(&mut world, change);
    world
}

fn change_policy(world: &mut World, change: impl FnOnce(&mut Policy)) {
    let mut policy = policy(&[("thin", Retention::default())]);
    change(&mut policy);
    world.engine = Engine::new(policy, world.register().clone());
}

fn backed_by(backing: Backing) -> impl FnOnce(&mut Policy) {
    move |policy| policy.stores.get_mut(&store("thin")).unwrap().backing = backing
}

/// One version in the archive, with its snapshot beside it.
fn at_rest() -> World {
    let mut world = with(|_| {});
    world.publish_new("thin");
    world.settle();
    assert_eq!(held(&world), [1]);
    world
}

/// The versions that have a snapshot, on the machine and in the records.
fn held(world: &World) -> Vec<u64> {
    let on_the_machine: Vec<u64> = world.snapshots.keys().map(|id| id.number).collect();
    let recorded = world.versions().filter(|version| version.snapshot().is_some());
    assert_eq!(recorded.map(|version| version.id.number).collect::<Vec<_>>(), on_the_machine);
    on_the_machine
}

#[test]
fn a_thin_snapshot_stays_until_the_next_version_is_archived() {
    let mut world = with(|_| {});
    for number in 1..=3 {
        world.publish_new("thin");
        let before = number - 1;
        assert_eq!(held(&world), if before > 0 { vec![before, number] } else { vec![number] });
        world.settle();
        assert_eq!(held(&world), [number]);
        world.restart();
        world.settle();
        assert_eq!(held(&world), [number], "a start changes nothing");
    }
}

#[test]
fn it_goes_with_its_version_and_the_one_before_has_none() {
    let mut world = at_rest();
    world.publish_new("thin");
    world.settle();
    world.begin(&Event::retire(exactly("thin@2")));
    world.settle();
    assert_eq!(held(&world), [0; 0]);
}

#[test]
fn it_goes_where_the_next_one_is_no_thin_snapshot_of_the_same_volume() {
    let elsewhere = Origin { volume: "another".to_owned(), ..thin_origin() };
    let classic = Origin { backend: BackendKind::LvmClassic, ..thin_origin() };
    for backing in [Backing::Pages, Backing::Volume(classic), Backing::Volume(elsewhere)] {
        let mut world = at_rest();
        change_policy(&mut world, backed_by(backing));
        world.restart();
        world.settle();
        assert_eq!(held(&world), [0; 0]);
    }
    let mut world = at_rest();
    change_policy(&mut world, |policy| drop(policy.stores.remove(&store("thin"))));
    world.restart();
    world.settle();
    assert_eq!(held(&world), [0; 0]);
}

#[test]
fn one_that_can_be_compared_with_nothing_does_not_stay() {
    let mut world = with(|_| {});
    world.with_wal = true;
    world.publish_new("thin");
    world.settle();
    assert_eq!(held(&world), [0; 0]);
}

#[test]
fn it_does_not_stay_where_the_ladder_cannot_have_it_go() {
    let mut world = with(|policy| policy.may_demote = false);
    world.publish_new("thin");
    world.settle();
    assert_eq!(held(&world), [0; 0]);
}

#[test]
fn the_guard_sees_it_as_one_that_may_go_and_has_it_go() {
    let mut world = at_rest();
    let seen = world.engine.in_snapshots(world.now);
    assert!(matches!(&seen[..], [(version, _)] if version.archived && !version.needed), "{seen:?}");
    let going = world.begin(&Event::Demote(id("thin@1")));
    world.perform(going).unwrap();
    assert_eq!(held(&world), [0; 0]);
    // Nothing depends on it.
    world.publish_new("thin");
    world.settle();
    assert_eq!(held(&world), [2]);
}

#[test]
fn no_cut_is_refused_for_its_sake() {
    let mut world = at_rest();
    world.write("thin");
    let short = |world: &mut World| {
        let effect = world.begin(&Event::publish(&store("thin")));
        world.tell(&Event::Finished { effect, outcome: World::short_cut(0) })
    };
    let Answer::Again(going) = short(&mut world) else { panic!("it is refused") };
    assert_eq!(world.open_effects(), ["drop snapshot of thin@1"]);
    world.perform(going).unwrap();
    let answer = short(&mut world);
    assert!(matches!(&answer, Answer::Now(Err(problem)) if problem.code == Code::StorageFull), "{answer:?}");
}
