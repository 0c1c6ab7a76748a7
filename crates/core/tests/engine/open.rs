//! Opening: leases, and the bounded cache of copies behind them.

use asat_core::event::{Event, Outcome, Reply};
use asat_core::version::LeaseId;
use asat_core::{Code, Problem};

use crate::world::{World, id, trouble};

fn lease(name: &str) -> LeaseId {
    LeaseId(name.to_owned())
}

fn renewing(version: &str, name: &str, ttl_s: u32) -> Event {
    Event::Renew { version: id(version), lease: lease(name), ttl_s }
}

fn closing(version: &str, name: &str) -> Event {
    Event::Close { version: id(version), lease: lease(name) }
}

/// The versions that have a copy, by the records.
fn copies(world: &World) -> Vec<u64> {
    let copied = world.versions().filter(|version| version.copy.is_some());
    copied.map(|version| version.id.number).collect()
}

#[test]
fn a_lease_is_granted_when_the_copy_is_there() {
    let mut world = World::with_versions(1);
    let effect = world.begin(&World::opening("report@1", "a", 60));
    assert_eq!(world.open_effects(), ["copy report@1 for a"]);
    assert_eq!(world.register().leases().count(), 0);
    world.pass(10);
    let Ok(Reply::Leased(granted)) = world.perform(effect) else { panic!("no lease") };
    assert_eq!(granted.holder, "ann");
    assert_eq!((granted.granted_at, granted.expires_at.duration_since(world.now).as_secs()), (world.now, 60));
    assert_eq!(copies(&world), [1]);
    assert_eq!(
        world.engine.next_tick(world.now),
        granted.expires_at.min(world.now + asat_core::Engine::IDLE_TICK)
    );
}

#[test]
fn a_copy_that_fails_grants_nothing() {
    let mut world = World::with_versions(1);
    let effect = world.begin(&World::opening("report@1", "a", 60));
    let answer = world.finish(effect, Outcome::MakeCopy(Err(trouble(Code::Damaged))));
    assert_eq!(answer, Err(trouble(Code::Damaged)));
    assert_eq!((world.register().leases().count(), copies(&world)), (0, vec![]));
}

#[test]
fn a_lease_lives_until_it_is_closed_or_expires() {
    let mut world = World::with_versions(1);
    world.open("report@1", "a");
    world.open("report@1", "b");
    world.pass(3000);
    let Ok(Reply::Leased(renewed)) = world.ask(&renewing("report@1", "a", 3600)) else { panic!() };
    assert_eq!(renewed.expires_at.duration_since(world.now).as_secs(), 3600);
    world.pass(600);
    assert_eq!(world.register().leases().count(), 2, "b has expired, and is not swept yet");
    assert_eq!(world.refused(&renewing("report@1", "b", 60)).code, Code::UnknownLease);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.register().leases().map(|lease| lease.id.0.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(world.remarks.iter().any(|remark| remark.contains("expired")), "{:?}", world.remarks);
    world.ask(&closing("report@1", "a")).unwrap();
    assert_eq!(world.register().leases().count(), 0);
    assert_eq!(copies(&world), [1], "the copy stays in the cache");
}

#[test]
fn leases_that_are_not_there() {
    let mut world = World::with_versions(2);
    world.open("report@1", "a");
    for event in [
        closing("report@1", "other"),
        closing("report@2", "a"),
        renewing("report@2", "a", 60),
        renewing("report@1", "", 60),
    ] {
        assert_eq!(world.refused(&event).code, Code::UnknownLease, "{event:?}");
    }
    assert_eq!(world.refused(&closing("report@9", "a")).code, Code::UnknownVersion);
    world.close("report@1", "a");
    assert_eq!(world.refused(&closing("report@1", "a")).code, Code::UnknownLease);
}

#[test]
fn a_lease_lasts_from_a_second_to_the_configured_bound() {
    let mut world = World::with_versions(1);
    world.open("report@1", "a");
    for (ttl_s, taken) in [(0, false), (1, true), (3600, true), (3601, false), (u32::MAX, false)] {
        for event in [World::opening("report@1", "b", ttl_s), renewing("report@1", "a", ttl_s)] {
            let answer = world.engine.decide(world.now, &event).answer;
            let refused = matches!(&answer, asat_core::event::Answer::Now(Err(p)) if p.code == Code::Invalid);
            assert_eq!(refused, !taken, "{event:?}: {answer:?}");
        }
    }
}

#[test]
fn what_cannot_be_opened() {
    let mut world = World::with_versions(2);
    let retire = world.begin(&Event::retire("report@1".parse().unwrap()));
    let open = |version| World::opening(version, "a", 60);
    assert_eq!(world.refused(&open("report@1")).code, Code::Retired);
    world.perform(retire).unwrap();
    assert_eq!(world.refused(&open("report@1")).code, Code::Retired);
    assert_eq!(world.refused(&open("report@7")).code, Code::UnknownVersion);
    assert_eq!(world.refused(&open("nowhere@latest")).code, Code::UnknownStore);
    world.begin(&World::publishing("report", "close", None));
    assert_eq!(world.refused(&open("report@3")).code, Code::NotReadable);
    world.begin(&open("report@latest"));
    assert_eq!(world.open_effects(), ["cut report@3", "copy report@2 for a"]);
}

#[test]
fn the_copies_that_were_not_used_for_longest_make_room() {
    let mut world = World::with_versions(5);
    for version in ["report@3", "report@1", "report@2"] {
        world.open(version, version);
        world.pass(1);
    }
    // Closing counts as using: by now 1 was used first, then 3, then 2.
    for version in ["report@1", "report@3", "report@2"] {
        world.close(version, version);
        world.pass(1);
    }
    world.begin(&World::opening("report@4", "a", 60));
    assert_eq!(world.open_effects(), ["drop report@1", "copy report@4 for a"]);
    assert_eq!(copies(&world), [2, 3]);
    world.settle();
    assert_eq!(copies(&world), [2, 3, 4]);
    world.begin(&World::opening("report@5", "b", 60));
    assert_eq!(world.open_effects(), ["drop report@3", "copy report@5 for b"]);
}

#[test]
fn an_expired_lease_counts_as_use_and_holds_nothing() {
    let mut world = World::with_versions(4);
    for version in ["report@1", "report@2", "report@3"] {
        world.open(version, version);
    }
    world.pass(3600);
    world.begin(&World::opening("report@4", "a", 60));
    assert_eq!(world.open_effects(), ["drop report@1", "copy report@4 for a"]);
    world.settle();
    world.ask(&Event::Tick).unwrap();
    assert_eq!(copies(&world), [2, 3, 4]);
    assert_eq!(world.version("report@2").copy.as_ref().unwrap().used_at, world.now);
}

#[test]
fn a_copy_that_is_leased_or_being_made_is_never_dropped() {
    let mut world = World::with_versions(4);
    world.open("report@1", "a");
    world.open("report@2", "b");
    let making = world.begin(&World::opening("report@3", "c", 60));
    let problem = world.refused(&World::opening("report@4", "d", 60));
    assert_eq!(problem.code, Code::StorageFull);
    for number in ["report@4", "4096", "12288"] {
        assert!(problem.detail.contains(number), "{problem}");
    }
    // For what is copied already, or is being copied, no more room is needed.
    world.begin(&World::opening("report@1", "e", 60));
    world.begin(&World::opening("report@3", "f", 60));
    world.close("report@1", "a");
    assert_eq!(world.refused(&World::opening("report@4", "d", 60)).code, Code::StorageFull);
    world.perform(making).unwrap();
    world.settle();
    world.close("report@1", "e");
    world.open("report@4", "d");
    assert_eq!(copies(&world), [2, 3, 4]);
}

#[test]
fn copies_that_are_being_made_twice_take_room_once() {
    let mut world = World::with_versions(3);
    for (version, lease) in [("report@1", "a"), ("report@2", "b"), ("report@1", "c"), ("report@3", "d")] {
        world.begin(&World::opening(version, lease, 60));
    }
    world.settle();
    assert_eq!(copies(&world), [1, 2, 3]);
}

#[test]
fn a_holder_has_a_name() {
    let mut world = World::with_versions(1);
    let Event::Open(open) = World::opening("report@1", "a", 60) else { unreachable!() };
    for holder in ["", " ", "a\nb"] {
        let event = Event::Open(asat_core::event::Open { holder: holder.to_owned(), ..open.clone() });
        let problem: Problem = world.refused(&event);
        assert_eq!(problem.code, Code::Invalid, "{holder:?}");
    }
}
