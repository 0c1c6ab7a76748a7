//! Repairs: verification reports, and what it found is put right by an effect that stands in the audit trail.

use asat_core::By;
use asat_core::Code;
use asat_core::audit::Action;
use asat_core::event::{Answer, Event, Outcome, Reply};
use asat_core::version::State;

use crate::world::{World, finding, id, store, trouble};

/// What stands in the trail of repairs, as `report@1: put right, from the store`.
fn noted(world: &World) -> Vec<String> {
    let repairs = world.noted.iter().filter(|deed| deed.action == Action::Repair);
    let show =
        |name: &str, deed: &asat_core::audit::Deed| deed.details.get(name).cloned().unwrap_or_default();
    repairs
        .map(|deed| format!("{}: {}, {}", deed.version, show("outcome", deed), show("from", deed)))
        .collect()
}

fn damage(world: &World) -> Option<Vec<u64>> {
    let history = world.register().history(&store("report")).unwrap();
    history.store.damage.as_ref().map(|damage| damage.versions.clone())
}

/// A verification of one version found this.
fn verified(found: &[&str]) -> Event {
    let findings = found.iter().map(|version| finding(&id(version))).collect();
    Event::Verified { store: store("report"), whole: false, known: None, findings }
}

#[test]
fn a_verification_that_finds_nothing_changes_nothing() {
    let mut world = World::with_versions(2);
    let before = world.register().clone();
    assert_eq!(world.ask(&world.verified("report")), Ok(Reply::Done));
    assert_eq!(*world.register(), before);
}

#[test]
fn what_is_found_is_recorded_and_put_right_by_an_effect_of_whoever_asked() {
    let mut world = World::with_versions(2);
    world.damaged.insert(id("report@2"));
    let ann = By::user(1000, Some("ann"));
    let Answer::After(repair) = world.tell_for(&ann, &world.verified("report")) else {
        panic!("nothing follows")
    };
    assert_eq!((world.open_effects(), damage(&world)), (vec!["repair report".to_owned()], Some(vec![2])));
    assert!(noted(&world).is_empty(), "nothing was done yet");

    let Ok(Reply::Repaired(repaired)) = world.perform(repair) else { panic!("nothing was repaired") };
    assert_eq!((repaired.mended.len(), repaired.left.len()), (1, 0));
    assert_eq!((noted(&world), damage(&world)), (vec!["report@2: put right, the store".to_owned()], None));
    assert_eq!(world.noted.last().unwrap().by, ann);
}

#[test]
fn of_what_nothing_has_any_more_the_trail_and_the_records_tell() {
    let mut world = World::with_versions(2);
    world.damaged.insert(id("report@1"));
    let repair = world.begin(&world.verified("report"));
    let found_at = world.now;
    world.pass(60);
    world.perform(repair).unwrap();
    assert_eq!(noted(&world), ["report@1: nothing has the content any more, "]);
    assert_eq!(damage(&world), Some(vec![1]));
    let recorded = || world.register().history(&store("report")).unwrap().store.damage.clone().unwrap();
    assert_eq!(recorded().found_at, found_at, "it was found first by the verification");
    // Once somebody has put the file back, the next verification says so.
    world.damaged.clear();
    assert_eq!(world.ask(&world.verified("report")), Ok(Reply::Done));
    assert_eq!(damage(&world), None);
    assert_eq!(noted(&world)[1..], ["report@1: found as it was written, "]);
}

#[test]
fn what_stays_damaged_is_written_down_once_however_often_it_is_found() {
    let mut world = World::with_versions(3);
    world.damaged.insert(id("report@1"));
    let verify = |world: &mut World, failed: Option<Code>| {
        let repair = world.begin(&world.verified("report"));
        let _ = match failed {
            Some(code) => world.finish(repair, Outcome::Repair(Err(trouble(code)))),
            None => world.perform(repair),
        };
        noted(world).len()
    };
    assert_eq!([(); 3].map(|()| verify(&mut world, Some(Code::StorageFull))), [1; 3]);
    assert_eq!([(); 3].map(|()| verify(&mut world, None)), [2; 3]);
    assert_eq!(verify(&mut world, Some(Code::StorageFull)), 2, "it is known that nothing has it");
    // Newer damage is noted, together with the damage from before.
    world.damaged.insert(id("report@2"));
    assert_eq!([(); 3].map(|()| verify(&mut world, None)), [4; 3]);
}

#[test]
fn a_verification_of_one_version_takes_no_other_ones_damage_for_gone() {
    let mut world = World::with_versions(3);
    world.damaged.insert(id("report@1"));
    let repair = world.begin(&world.verified("report"));
    world.perform(repair).unwrap();
    assert_eq!(world.ask(&verified(&[])), Ok(Reply::Done));
    assert_eq!(damage(&world), Some(vec![1]));
    world.damaged.insert(id("report@3"));
    let repair = world.begin(&verified(&["report@3"]));
    world.perform(repair).unwrap();
    assert_eq!(damage(&world), Some(vec![1]));
}

#[test]
fn a_verification_that_finds_nothing_says_nothing_of_what_was_found_damaged_since_it_began() {
    let mut world = World::with_versions(2);
    let early = world.verified("report");
    world.damaged.insert(id("report@1"));
    let repair = world.begin(&world.verified("report"));
    world.perform(repair).unwrap();
    let (before, told) = (noted(&world), damage(&world));
    assert_eq!(world.ask(&early), Ok(Reply::Done));
    assert_eq!((noted(&world), damage(&world)), (before, told.clone()));
    assert_eq!(told, Some(vec![1]));
    // One that began after that says it.
    world.damaged.clear();
    assert_eq!(world.ask(&world.verified("report")), Ok(Reply::Done));
    assert_eq!(damage(&world), None);
}

#[test]
fn who_finds_the_same_meanwhile_waits_for_the_same_repair() {
    let mut world = World::with_versions(1);
    world.damaged.insert(id("report@1"));
    let repair = world.begin(&world.verified("report"));
    assert_eq!(world.begin(&world.verified("report")), repair);
    assert_eq!(world.open_effects(), ["repair report"]);
}

#[test]
fn a_repair_that_fails_is_written_down_and_leaves_the_damage_on_record() {
    let mut world = World::with_versions(1);
    world.damaged.insert(id("report@1"));
    let repair = world.begin(&world.verified("report"));
    let failed = Outcome::Repair(Err(trouble(Code::StorageFull)));
    assert_eq!(world.finish(repair, failed), Err(trouble(Code::StorageFull)));
    let [noted] = noted(&world).try_into().unwrap();
    assert!(noted.starts_with("report@1: failed: "), "{noted}");
    assert_eq!(damage(&world), Some(vec![1]));
}

#[test]
fn a_repair_that_a_crash_interrupted_is_done_again_for_whoever_asked() {
    let mut world = World::with_versions(2);
    world.damaged.insert(id("report@2"));
    let ann = By::user(1000, Some("ann"));
    world.tell_for(&ann, &world.verified("report"));
    for _ in 0..2 {
        world.restart();
        assert_eq!(world.open_effects(), ["repair report"]);
    }
    world.settle();
    assert_eq!((noted(&world), damage(&world)), (vec!["report@2: put right, the store".to_owned()], None));
    assert_eq!(world.noted.iter().rfind(|deed| deed.action == Action::Repair).unwrap().by, ann);
}

#[test]
fn a_repair_that_the_daemons_stop_ended_goes_on_at_the_next_start() {
    let mut world = World::with_versions(1);
    world.damaged.insert(id("report@1"));
    let repair = world.begin(&world.verified("report"));
    world.finish(repair, Outcome::Repair(Err(trouble(Code::Stopping)))).unwrap_err();
    assert!(noted(&world).is_empty(), "nothing came of it yet");
    world.restart();
    world.settle();
    assert_eq!(noted(&world), ["report@1: put right, the store"]);
}

#[test]
fn a_repair_that_was_done_and_not_recorded_before_a_crash_stands_in_the_trail_all_the_same() {
    let mut world = World::with_versions(1);
    world.damaged.insert(id("report@1"));
    world.begin(&world.verified("report"));
    world.damaged.clear();
    world.restart();
    world.settle();
    assert_eq!(
        (noted(&world), damage(&world)),
        (vec!["report@1: found as it was written, ".to_owned()], None)
    );
}

#[test]
fn a_version_that_was_lost_with_what_is_put_right_is_ready_again() {
    let mut world = World::with_versions(2);
    world.damaged.insert(id("report@2"));
    world.restart();
    assert_eq!(world.state("report@2"), State::Lost);
    let repair = world.begin(&world.verified("report"));
    world.perform(repair).unwrap();
    assert_eq!(world.states("report"), "1 ready, 2 ready");
}
