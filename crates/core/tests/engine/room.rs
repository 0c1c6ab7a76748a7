//! A cut that finds no space: snapshots that are kept without need make room for it, the oldest first.

use asat_core::event::{Answer, EffectId, Event, Lack};
use asat_core::retention::Retention;
use asat_core::snapshot::{BackendKind, Origin};
use asat_core::version::State;
use asat_core::{Backing, Code, Engine};

use crate::world::{World, exactly, id, origin};

/// Two stores on volumes of one group, cut by snapshots of this kind, with two kept snapshots each that nobody needs. They
/// are of 64 bytes each, where they have space of their own.
fn kept(backend: BackendKind) -> World {
    let mut policy = crate::world::policy(&[("hot", Retention::default()), ("hotter", Retention::default())]);
    for (name, store) in &mut policy.stores {
        store.keep_snapshots = 2;
        let volume = format!("volume of {name}");
        store.backing = Backing::Volume(Origin { backend, volume, ..origin() });
    }
    let mut world = World::new(&[("hot", Retention::default()), ("hotter", Retention::default())]);
    world.engine = Engine::new(policy, world.register().clone());
    for store in ["hot", "hotter", "hot", "hotter"] {
        world.publish_new(store);
        world.settle();
        world.pass(60);
    }
    assert_eq!(world.snapshots.len(), 4);
    world
}

/// Publishes a new version of the store `hot`, whose cut finds so many bytes missing.
fn short(world: &mut World, missing: u64) -> Answer {
    world.write("hot");
    let cut = world.begin(&Event::publish(&"hot".parse().unwrap()));
    world.tell(&Event::Finished { effect: cut, outcome: World::short_cut(missing) })
}

fn pin(world: &mut World, version: &str) {
    let (reason, owner) = ("audit".to_owned(), None);
    let pin = Event::Pin { version: exactly(version), reason, owner, expires_at: None, hot: true };
    world.ask(&pin).unwrap();
}

#[test]
fn all_volumes_of_a_group_share_its_metadata_area() {
    for (lack, going) in [(Lack::GroupMetadata, "hot@1"), (Lack::Bytes(0), "hotter@1")] {
        let mut world = kept(BackendKind::LvmThin);
        world.write("hotter");
        let cut = world.begin(&Event::publish(&"hotter".parse().unwrap()));
        let answer = world.tell(&Event::Finished { effect: cut, outcome: World::lacking(lack) });
        assert!(matches!(answer, Answer::Again(_)), "{answer:?}");
        assert_eq!(world.open_effects(), [format!("drop snapshot of {going}")]);
    }
}

#[test]
fn as_many_go_as_are_needed_the_oldest_first_and_none_where_that_is_not_enough() {
    let (classic, thin) = (BackendKind::LvmClassic, BackendKind::LvmThin);
    let cases: [(BackendKind, u64, &[&str]); 8] = [
        (classic, 0, &["hot@1"]),
        (classic, 1, &["hot@1"]),
        (classic, 64, &["hot@1"]),
        (classic, 65, &["hot@1", "hotter@1"]),
        (classic, 256, &["hot@1", "hotter@1", "hot@2", "hotter@2"]),
        (classic, 257, &[]),
        // Those of another volume may lie in another pool, and what one gives back is not known.
        (thin, 0, &["hot@1"]),
        (thin, 3, &[]),
    ];
    for (backend, missing, going) in cases {
        let mut world = kept(backend);
        let answer = short(&mut world, missing);
        let going: Vec<String> = going.iter().map(|id| format!("drop snapshot of {id}")).collect();
        assert_eq!(world.open_effects(), going, "{backend:?}, {missing} missing");
        let last = world.register().intents().map(|intent| intent.id).last();
        match (answer, last) {
            (Answer::Again(effect), Some(last)) => assert_eq!(effect, last, "once all have gone"),
            (Answer::Now(Err(problem)), None) => assert_eq!(problem.code, Code::StorageFull),
            (answer, _) => panic!("{backend:?}, {missing} missing: {answer:?}"),
        }
        assert!(world.register().entry(&id("hot@3")).is_err(), "nobody was told of it");
        world.settle();
        assert_eq!(world.states("hot"), "1 ready, 2 ready");
    }
}

#[test]
fn what_is_needed_stays_and_what_goes_already_is_waited_for() {
    let mut world = kept(BackendKind::LvmClassic);
    pin(&mut world, "hot@1");
    let going = world.begin(&Event::Demote(id("hotter@1")));
    assert_eq!(short(&mut world, 64), Answer::Again(going), "that will do");
    assert_eq!(world.open_effects(), ["drop snapshot of hotter@1"]);
    let Answer::Again(more) = short(&mut world, 65) else { panic!("no more goes") };
    assert_eq!(world.open_effects(), ["drop snapshot of hotter@1", "drop snapshot of hot@2"]);
    assert!(more > going);
    world.settle();
    assert!(world.version("hot@1").snapshot().is_some(), "it is pinned hot");
    // The same again finds room.
    let cut = world.begin(&Event::publish(&"hot".parse().unwrap()));
    world.perform(cut).unwrap();
    assert_eq!(world.state("hot@3"), State::Ready);
}

#[test]
fn a_version_that_is_nowhere_else_stays() {
    let mut world = kept(BackendKind::LvmClassic);
    ["hot@1", "hot@2", "hotter@1", "hotter@2"].iter().for_each(|version| pin(&mut world, version));
    world.publish_new("hotter");
    assert_eq!(world.open_effects(), ["archive hotter@3"]);
    let answer = short(&mut world, 1);
    assert!(matches!(&answer, Answer::Now(Err(problem)) if problem.code == Code::StorageFull), "{answer:?}");
    assert_eq!(world.open_effects(), ["archive hotter@3"]);
}

#[test]
fn nothing_goes_where_the_ladder_does_not_say_so() {
    let mut world = kept(BackendKind::LvmClassic);
    let mut policy = world.engine.policy().clone();
    policy.may_demote = false;
    world.engine = Engine::new(policy, world.register().clone());
    let answer = short(&mut world, 1);
    assert!(matches!(&answer, Answer::Now(Err(problem)) if problem.code == Code::StorageFull), "{answer:?}");
    assert_eq!(world.open_effects(), Vec::<String>::new());
}

#[test]
fn a_store_that_is_not_on_a_volume_is_made_no_room_for() {
    let mut world = World::report();
    let cut: EffectId = world.begin(&Event::publish(&"report".parse().unwrap()));
    assert_eq!(world.finish(cut, World::short_cut(0)).unwrap_err().code, Code::StorageFull);
}
