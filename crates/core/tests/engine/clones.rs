//! Clones: the newest archived version's stays, so that the next one is compared with it, and no other.

use asat_core::event::Event;
use asat_core::retention::Retention;
use asat_core::snapshot::{BackendKind, Snapshot};
use asat_core::{Backing, Engine, Policy};

use crate::world::{World, exactly, policy, store};

/// A daemon with one store that is cloned, of which it keeps so many clones besides.
fn keeping(clones: usize) -> World {
    let mut world = World::new(&[("cloned", Retention::default())]);
    let mut policy = policy(&[("cloned", Retention::default())]);
    policy.stores.get_mut(&store("cloned")).unwrap().keep_snapshots = clones;
    world.engine = Engine::new(policy, world.register().clone());
    world
}

/// The versions that have a clone, on the machine and in the records.
fn cloned(world: &World) -> Vec<u64> {
    let on_the_machine: Vec<u64> = world.snapshots.keys().map(|id| id.number).collect();
    let recorded = world.versions().filter(|version| version.snapshot().is_some());
    assert_eq!(recorded.map(|version| version.id.number).collect::<Vec<_>>(), on_the_machine);
    on_the_machine
}

#[test]
fn a_clone_stays_until_the_next_version_is_archived() {
    let mut world = keeping(0);
    for number in 1..=3 {
        world.publish_new("cloned");
        let before = number - 1;
        assert_eq!(cloned(&world), if before > 0 { vec![before, number] } else { vec![number] });
        world.settle();
        assert_eq!(cloned(&world), [number]);
        world.restart();
        world.settle();
        assert_eq!(cloned(&world), [number], "a start changes nothing");
    }
}

#[test]
fn those_that_the_configuration_keeps_stay_as_well() {
    let mut world = keeping(2);
    for _ in 0..4 {
        world.publish_new("cloned");
        world.settle();
    }
    assert_eq!(cloned(&world), [3, 4]);
}

#[test]
fn a_clone_goes_with_its_version_and_the_one_before_has_none() {
    let mut world = keeping(0);
    for _ in 0..2 {
        world.publish_new("cloned");
        world.settle();
    }
    world.begin(&Event::retire(exactly("cloned@2")));
    world.settle();
    assert_eq!(cloned(&world), [0; 0]);
    world.publish_new("cloned");
    world.settle();
    assert_eq!(cloned(&world), [3]);
}

#[test]
fn the_last_one_goes_where_the_store_is_no_longer_cloned() {
    let elsewhere =
        |policy: &mut Policy| policy.stores.get_mut(&store("cloned")).unwrap().backing = Backing::Pages;
    let away = |policy: &mut Policy| drop(policy.stores.remove(&store("cloned")));
    for change in [elsewhere, away] {
        let mut world = keeping(0);
        world.publish_new("cloned");
        world.settle();
        assert_eq!(cloned(&world), [1]);
        let mut policy = policy(&[("cloned", Retention::default())]);
        change(&mut policy);
        world.engine = Engine::new(policy, world.register().clone());
        world.restart();
        world.settle();
        assert_eq!(cloned(&world), [0; 0]);
    }
}

#[test]
fn readers_get_a_copy_and_the_guard_is_not_concerned() {
    let mut world = keeping(0);
    world.publish_new("cloned");
    world.open("cloned@1", "l");
    let copy = world.version("cloned@1").copy.clone().unwrap();
    assert!(!copy.in_snapshot);
    assert!(world.engine.in_snapshots(world.now).is_empty());
    world.settle();
    assert_eq!(cloned(&world), [1]);
}

#[test]
fn the_ways_to_cut_are_told_apart() {
    let volumes = BackendKind::ALL.into_iter().filter(|backend| backend.is_of_volumes());
    assert_eq!(volumes.collect::<Vec<_>>(), [BackendKind::LvmThin, BackendKind::LvmClassic]);
    let shown = |backend, lost| {
        let origin = asat_core::snapshot::Origin { backend, ..crate::world::folder() };
        let (name, uuid) = Default::default();
        Snapshot { origin, name, uuid, with_wal: false, bytes: 0, lost, not_before: None }.can_be_shown()
    };
    assert!(shown(BackendKind::LvmThin, false) && !shown(BackendKind::LvmThin, true));
    assert!(!shown(BackendKind::Reflink, false));
}
