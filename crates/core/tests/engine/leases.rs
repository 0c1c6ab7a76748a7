//! How many leases may be open, of one caller and in all.

use asat_core::event::{Answer, Event};
use asat_core::version::LeaseId;
use asat_core::{By, Code, LeaseBounds, LeaseUse, Policy};

use crate::world::{World, id};

/// A world with a version, in which each caller may have two leases, and all together three.
fn bounded() -> World {
    let mut world = World::with_versions(1);
    bound(&mut world, LeaseBounds { in_all: 3, per_caller: 2 });
    world
}

fn bound(world: &mut World, leases: LeaseBounds) {
    let policy = world.engine().policy().clone();
    world.engine.configure(Policy { leases, ..policy });
}

fn callers() -> [By; 3] {
    [By::token("ann"), By::token("bob"), By::user(0, Some("root"))]
}

/// Asks for a lease, without performing what it takes.
fn ask(world: &mut World, by: &By, lease: &str) -> Result<(), Code> {
    match world.tell_for(by, &World::opening("report@1", lease, 3600)) {
        Answer::Now(Err(problem)) => Err(problem.code),
        _ => Ok(()),
    }
}

fn counted(world: &World) -> (usize, Vec<usize>) {
    let LeaseUse { in_all, callers } = world.engine().lease_use(world.now);
    (in_all, callers.into_values().collect())
}

#[test]
fn one_caller_gets_no_more_than_its_share_and_all_no_more_than_there_are() {
    let ([ann, bob, root], mut world) = (callers(), bounded());
    for lease in ["a", "b"] {
        assert_eq!(ask(&mut world, &ann, lease), Ok(()));
        world.settle();
    }
    assert_eq!(ask(&mut world, &ann, "c"), Err(Code::TooManyLeases));
    assert_eq!(ask(&mut world, &bob, "d"), Ok(()));
    world.settle();
    assert_eq!(counted(&world), (3, vec![2, 1]));
    for by in [&bob, &root] {
        assert_eq!(ask(&mut world, by, "e"), Err(Code::TooManyLeases), "{by:?}");
    }
    assert_eq!(ask(&mut world, &By::asat(), "tree"), Ok(()), "what is read in the tree does not count");
    world.settle();
    assert_eq!(counted(&world).0, 3);
}

#[test]
fn leases_that_are_yet_to_be_granted_count() {
    let ([ann, ..], mut world) = (callers(), bounded());
    let asked = ["a", "b", "c"].map(|lease| ask(&mut world, &ann, lease));
    assert_eq!(asked, [Ok(()), Ok(()), Err(Code::TooManyLeases)]);
    assert_eq!(counted(&world), (2, vec![2]));
    world.settle();
    assert_eq!(counted(&world), (2, vec![2]), "each counts once");
}

#[test]
fn what_is_held_is_renewed_also_beyond_the_bound_and_what_is_over_makes_room() {
    let ([ann, ..], mut world) = (callers(), bounded());
    for lease in ["a", "b"] {
        assert_eq!(ask(&mut world, &ann, lease), Ok(()));
        world.settle();
    }
    bound(&mut world, LeaseBounds { in_all: 1, per_caller: 1 });
    let renewal =
        |lease: &str| Event::Renew { version: id("report@1"), lease: LeaseId(lease.to_owned()), ttl_s: 60 };
    for lease in ["a", "b"] {
        assert!(matches!(world.tell_for(&ann, &renewal(lease)), Answer::Now(Ok(_))));
    }
    let closing = |lease: &str| Event::Close { version: id("report@1"), lease: LeaseId(lease.to_owned()) };
    assert!(matches!(world.tell_for(&ann, &closing("a")), Answer::Now(Ok(_))));
    assert_eq!(ask(&mut world, &ann, "c"), Err(Code::TooManyLeases));
    // The other one expires, and counts no more although it is not swept yet.
    world.pass(60);
    assert_eq!(ask(&mut world, &ann, "c"), Ok(()));
}

#[test]
fn copies_that_a_start_makes_again_count_once() {
    let ([ann, ..], mut world) = (callers(), bounded());
    assert_eq!(ask(&mut world, &ann, "a"), Ok(()));
    world.settle();
    world.copies.clear();
    world.restart();
    assert!(world.open_effects().contains(&"copy report@1 for a".to_owned()));
    assert_eq!(counted(&world), (1, vec![1]));
}
