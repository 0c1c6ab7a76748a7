//! The engine's own decisions, recorded one by one: what it decides fits the schema, and what is read back is
//! what it knows.

use crate::common::Dice;
use crate::world::{World, exactly, id};
use asat_catalogue::Catalogue;
use asat_core::event::{Change, Event, Reply};
use asat_core::register::Register;
use asat_core::retention::Retention;

/// A random step in the life of two stores.
fn step(world: &mut World, dice: &mut Dice) {
    let name = ["report", "other"][dice.below(2)];
    let version = format!("{name}@{}", 1 + dice.below(6));
    match dice.below(12) {
        0 | 1 => world.write(name),
        2 => drop(world.tell(&World::publishing(name, "close", None))),
        3 => drop(world.tell(&World::publishing(name, "keyed", Some(&format!("key {}", dice.below(9)))))),
        4 => drop(world.tell(&World::opening(&version, &format!("lease {}", dice.below(4)), 600))),
        5 => drop(world.tell(&World::pinning(&version, None))),
        6 => drop(world.tell(&Event::retire(exactly(&version)))),
        7 => {
            let lease = asat_core::version::LeaseId(format!("lease {}", dice.below(4)));
            drop(world.tell(&Event::Close { version: id(&version), lease }));
        }
        8 => world.restart(),
        9 => {
            world.pass(200);
            assert_eq!(world.ask(&Event::Tick), Ok(Reply::Done));
        }
        _ => {
            // A refusal is an outcome like any other.
            let _ = world.oldest_effect().map(|effect| world.perform(effect));
        }
    }
}

#[test]
fn what_the_engine_decides_is_recorded_and_read_back() {
    for seed in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
        let rules = Retention { keep: Some("the last 2".parse().unwrap()), ..Retention::default() };
        let mut world = World::new(&[("report", rules), ("other", Retention::default())]);
        let (mut dice, mut lived) = (Dice(seed), Register::default());
        for _ in 0..150 {
            step(&mut world, &mut dice);
            for changes in std::mem::take(&mut world.decided) {
                let recorded = catalogue.record(&changes);
                assert!(recorded.is_ok(), "seed {seed}: {recorded:?} for {changes:#?}");
                changes.iter().for_each(|change| lived.evolve(change));
            }
            assert_eq!(lived, *world.register());
            assert_eq!(catalogue.load().unwrap(), lived, "seed {seed}");
        }
    }
}

/// A random step in the life of a store with a long history: mostly about old versions.
fn step_in_long(world: &mut World, dice: &mut Dice) {
    let version = format!("report@{}", 1 + dice.below(400));
    match dice.below(9) {
        0 => drop(world.tell(&World::opening(&version, &format!("lease {}", dice.below(4)), 600))),
        1 => drop(world.tell(&World::pinning(&version, None))),
        2 => drop(world.tell(&Event::Unpin(exactly(&version)))),
        3 => drop(world.tell(&Event::retire(exactly(&version)))),
        4 => world.restart(),
        5 => world.pass(200),
        6 => drop(world.tell(&World::publishing("report", "again", None))),
        _ => drop(world.ask(&Event::Pack)),
    }
    while let Some(effect) = world.oldest_effect() {
        let _ = world.perform(effect);
    }
}

#[test]
fn a_long_history_is_recorded_in_chunks_and_read_back() {
    let mut chunks = 0;
    for seed in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let mut catalogue = Catalogue::open(&folder.path().join("catalogue.db")).unwrap();
        let (mut world, mut dice) = (World::with_versions(400), Dice(seed));
        for _ in 0..60 {
            for changes in std::mem::take(&mut world.decided) {
                chunks += changes.iter().filter(|change| matches!(change, Change::Packed(_))).count();
                catalogue.record(&changes).unwrap();
            }
            assert!(catalogue.load().unwrap() == *world.register(), "seed {seed}");
            step_in_long(&mut world, &mut dice);
        }
    }
    assert!(chunks >= 4, "{chunks}");
}
