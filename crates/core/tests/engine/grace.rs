//! The grace of versions that were given up: until it is over they can be brought back.

use asat_core::audit::{Action, Deed};
use asat_core::event::{Answer, Effect, Event, Reply};
use asat_core::version::State;
use asat_core::{By, Code, Policy, Waiting};
use jiff::SignedDuration;

use crate::world::{World, exactly, id, keeping, store};

/// An hour.
const GRACE: i64 = 3600;

/// A world with versions 1 to `count`, in which what is given up can be brought back for an hour.
fn patient(count: usize) -> World {
    let mut world = World::with_versions(count);
    wait(&mut world, GRACE);
    world
}

fn wait(world: &mut World, seconds: i64) {
    let policy = world.engine().policy().clone();
    world.engine.configure(Policy { grace: SignedDuration::from_secs(seconds), ..policy });
}

fn retire(world: &mut World, version: &str) {
    let event = Event::Retire { version: exactly(version), reason: Some("mistake".to_owned()), now: false };
    assert_eq!(world.ask(&event), Ok(Reply::Version(id(version))));
}

fn unretiring(version: &str) -> Event {
    Event::Unretire { version: exactly(version), reason: Some("needed".to_owned()) }
}

/// What was written down, as `retire report@1: why`.
fn noted(world: &World) -> Vec<String> {
    let show = |deed: &Deed| {
        let why = deed.details.get("reason").map_or("", String::as_str);
        format!("{} {}: {why}", deed.action.text(), deed.version)
    };
    let of_interest = |deed: &&Deed| !matches!(deed.action, Action::Publish);
    world.noted.iter().filter(of_interest).map(show).collect()
}

#[test]
fn a_version_that_was_retired_can_be_brought_back_until_its_grace_is_over() {
    let mut world = patient(3);
    world.open("report@1", "a");
    world.close("report@1", "a");
    let until = world.now + SignedDuration::from_secs(GRACE);
    retire(&mut world, "report@1");
    assert_eq!(world.states("report"), "1 retired, 2 ready, 3 ready");
    assert_eq!(world.open_effects(), ["drop report@1"], "its pages stay");
    world.settle();
    assert_eq!(world.version("report@1").grace(), Some(until));
    assert_eq!(world.engine().waiting(None).versions, 1);
    assert_eq!(world.engine().waiting(Some(&store("report"))).next, Some(until));
    let refused = world.refused(&World::opening("report@1", "b", 60));
    assert_eq!(refused.code, Code::Retired);
    assert!(refused.hint.contains("asat unretire report@1"), "{refused}");
    retire(&mut world, "report@1");
    assert_eq!(world.version("report@1").grace(), Some(until), "once is enough");

    world.pass(GRACE - 1);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.ask(&unretiring("report@1")), Ok(Reply::Version(id("report@1"))));
    assert_eq!(world.states("report"), "1 ready, 2 ready, 3 ready");
    assert_eq!(world.version("report@1").end, None);
    assert_eq!(world.ask(&unretiring("report@1")), Ok(Reply::Version(id("report@1"))), "it is there");
    world.open("report@1", "c");
    assert_eq!(noted(&world), ["retire report@1: retired on request: mistake", "unretire report@1: needed"]);
    assert_eq!(world.engine().waiting(None), Waiting::default());
}

#[test]
fn after_its_grace_a_version_is_gone_for_good() {
    let mut world = patient(2);
    retire(&mut world, "report@1");
    assert_eq!(world.engine().next_tick(world.now), world.now + asat_core::Engine::IDLE_TICK);
    world.pass(GRACE);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.open_effects(), ["retire report@1"]);
    let refused = world.refused(&unretiring("report@1"));
    assert_eq!(refused.code, Code::Purged, "it is on its way out");
    world.settle();
    assert_eq!(world.states("report"), "1 retired, 2 ready");
    assert_eq!(world.version("report@1").grace(), None);
    assert!(!world.archive.contains_key(&id("report@1")));
    assert_eq!(world.refused(&unretiring("report@1")).code, Code::Purged);
    assert_eq!(world.refused(&unretiring("report@9")).code, Code::UnknownVersion);
    let reason = "retired on request: mistake; its grace is over";
    assert_eq!(
        noted(&world),
        ["retire report@1: retired on request: mistake".to_owned(), format!("purge report@1: {reason}")]
    );
}

#[test]
fn after_the_newest_version_is_gone_the_content_of_an_older_one_becomes_a_version_of_its_own() {
    for now in [true, false] {
        let mut world = patient(0);
        let older = world.live.get(&store("report")).copied();
        world.publish("report", "older");
        world.write("report");
        world.publish("report", "newest");
        world.live.insert(store("report"), older.unwrap_or(0));
        world.tell(&Event::Retire { version: exactly("report@2"), reason: None, now });
        world.settle();
        // As of this moment, report@2 was found otherwise, which is gone.
        assert_eq!(world.publish("report", "as before"), id("report@3"));
        assert_eq!(world.publish("report", "as before"), id("report@3"), "once is enough");
    }
}

#[test]
fn pages_go_at_once_where_somebody_says_so_also_of_what_waits() {
    let mut world = patient(3);
    retire(&mut world, "report@1");
    for version in ["report@1", "report@2"] {
        let now = Event::Retire { version: exactly(version), reason: None, now: true };
        world.begin(&now);
    }
    world.settle();
    assert_eq!(world.archive.len(), 1);
    assert_eq!(world.refused(&unretiring("report@1")).code, Code::Purged);
}

#[test]
fn without_a_grace_pages_go_at_once() {
    let mut world = patient(2);
    wait(&mut world, 0);
    world.begin(&Event::retire(exactly("report@1")));
    assert_eq!(world.open_effects(), ["retire report@1"]);
}

#[test]
fn what_retention_gives_up_for_its_age_waits_too() {
    let mut world = patient(4);
    world.restart_with(&[("report", keeping("the last 1"))]);
    wait(&mut world, GRACE);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.states("report"), "1 retired, 2 retired, 3 retired, 4 ready");
    assert_eq!(world.engine().waiting(None).versions, 3);
    assert_eq!(world.archive.len(), 4);
    let by = world.noted.last().unwrap().by.clone();
    assert_eq!(by, By::asat());
}

#[test]
fn what_is_the_same_as_a_retired_version_becomes_one_of_its_own() {
    let mut world = patient(2);
    retire(&mut world, "report@2");
    let cut = world.begin(&World::publishing("report", "again", None));
    let intent = world.register().intent(cut).unwrap();
    assert!(matches!(&intent.effect, Effect::Cut { anew: true, .. }), "{:?}", intent.effect);
    // What is written upon the pages of the retired version needs them.
    world.pass(GRACE);
    world.ask(&Event::Tick).unwrap();
    assert_eq!(world.version("report@2").state, State::Retired);
    world.ask(&unretiring("report@2")).unwrap();
    let cut = world.begin(&World::publishing("report", "third", None));
    let intent = world.register().intent(cut).unwrap();
    assert!(matches!(&intent.effect, Effect::Cut { anew: false, .. }), "{:?}", intent.effect);
}

#[test]
fn a_restart_keeps_the_grace_and_ends_that_of_pages_that_are_gone() {
    let mut world = patient(3);
    retire(&mut world, "report@1");
    retire(&mut world, "report@2");
    world.archive.remove(&id("report@2"));
    world.restart();
    wait(&mut world, GRACE);
    world.settle();
    assert!(world.version("report@1").grace().is_some());
    assert!(world.archive.contains_key(&id("report@1")));
    assert_eq!(world.version("report@2").grace(), None);
    world.ask(&unretiring("report@1")).unwrap();
    world.open("report@1", "a");
}

#[test]
fn space_ends_a_grace_before_anything_else_is_given_up() {
    let mut world = patient(3);
    retire(&mut world, "report@1");
    assert_eq!(world.engine().first_in_grace(), Some(id("report@1")));
    let effect =
        world.begin(&Event::GiveUp { version: id("report@1"), why: "the folder is full".to_owned() });
    world.perform(effect).unwrap();
    let reason = &world.version("report@1").end.as_ref().unwrap().reason;
    assert_eq!(reason, "retired on request: mistake; its grace was ended for space: the folder is full");
    assert_eq!(world.states("report"), "1 retired, 2 ready, 3 ready");
    assert_eq!(world.engine().first_in_grace(), None);
    assert_eq!(world.noted.last().unwrap().action, Action::Purge);
}

#[test]
fn tags_do_not_come_back_and_a_version_with_one_is_not_retired() {
    let mut world = patient(2);
    let name = "close".parse().unwrap();
    let tag = Event::Tag { store: store("report"), name, version: exactly("report@1") };
    world.ask(&tag).unwrap();
    assert_eq!(world.refused(&Event::retire(exactly("report@1"))).code, Code::Tagged);
    assert!(matches!(
        world.tell(&Event::Retire { version: exactly("report@2"), reason: Some(" ".into()), now: false }),
        Answer::Now(Err(problem)) if problem.code == Code::Invalid
    ));
}

#[test]
fn a_version_in_its_snapshot_alone_is_archived_in_its_grace_and_the_snapshot_goes() {
    let mut world = World::new(&[("hot", asat_core::retention::Retention::default())]);
    wait(&mut world, GRACE);
    let cut = world.begin(&World::publishing("hot", "first", None));
    world.perform(cut).unwrap();
    assert!(world.open_effects().contains(&"archive hot@1".to_owned()), "{:?}", world.open_effects());
    world.settle();
    let event = Event::retire(exactly("hot@1"));
    world.ask(&event).unwrap();
    world.settle();
    assert!(world.snapshots.is_empty(), "nobody reads it there");
    assert!(world.version("hot@1").grace().is_some());
    world.ask(&unretiring("hot@1")).unwrap();
    world.open("hot@1", "a");
}
