//! What is kept in an archive beside the versions: it is brought up to the catalogue, and a catalogue that is lost or older takes it over.

use std::collections::BTreeMap;

use asat_core::event::{Event, Publish, Recorded, Reply, Survey};
use asat_core::recorder::{Commit, Recorder, Understood, Values};
use asat_core::register::Register;
use asat_core::retention::Retention;
use asat_core::version::{Attributes, Publication};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

use crate::world::{World, exactly, id, keeping, store};

/// An archive's records, and what writes them.
#[derive(Clone)]
struct Archive {
    values: Values,
    recorder: Recorder,
    /// Which catalogue is in use.
    line: usize,
}

impl Archive {
    fn new() -> Self {
        Self { values: Values::new(), recorder: Recorder::new(&store("report")), line: 0 }
    }

    /// The commit at which a catalogue is.
    fn commit(&self, world: &World) -> Commit {
        Commit { line: format!("line {}", self.line), number: world.decided.len() as u64 }
    }

    /// Brings it up to a catalogue; answers how often something was written.
    fn keep(&mut self, world: &World) -> usize {
        let mut written = 0;
        loop {
            let (changes, more) = self.recorder.changes(world.register(), &self.commit(world), world.now);
            written += usize::from(!changes.is_empty());
            for (key, value) in changes {
                match value {
                    Some(value) => _ = self.values.insert(key, value),
                    None => assert!(self.values.remove(&key).is_some(), "{key} was not there"),
                }
            }
            if !more {
                return written;
            }
        }
    }

    /// A daemon starts with this catalogue.
    fn start(&mut self, world: &mut World) {
        let (name, opened) = (store("report"), self.commit(world));
        let understood = Understood::of(&name, &self.values).unwrap();
        self.recorder = Recorder::begin(&name, &self.values, &understood, &opened);
        if understood.must_be_taken_over(&name, world.register(), &opened) {
            let recorded = understood.recorded;
            world.ask(&Event::Recorded { store: name, recorded }).unwrap();
        }
        self.keep(world);
    }
}

fn saying(label: &str, unchanged: u64) -> Event {
    Event::Publish(Publish {
        store: Some(store("report")),
        attributes: Attributes { label: Some(label.to_owned()), ..Attributes::default() },
        key: Some(format!("key of {label}")),
        unchanged: Some(unchanged),
    })
}

fn tag(name: &str, version: &str) -> Event {
    Event::Tag { store: store("report"), name: name.parse().unwrap(), version: exactly(version) }
}

fn pin(version: &str, reason: &str) -> Event {
    let (version, reason) = (exactly(version), reason.to_owned());
    Event::Pin { version, reason, owner: None, expires_at: None, hot: false }
}

fn retire(version: &str) -> Event {
    Event::Retire { version: exactly(version), reason: None, now: true }
}

/// What somebody sees of a store: by version what was said of it, and the pins and the tags.
fn seen(register: &Register) -> (Vec<String>, Vec<String>) {
    let Ok(history) = register.history(&store("report")) else { return Default::default() };
    let mut said: Vec<String> = Vec::new();
    let mut marks: Vec<String> =
        history.tags.values().map(|tag| format!("{} {}", tag.name, tag.version)).collect();
    for entry in history.versions.values().filter(|entry| entry.version.is_kept()) {
        let again = entry.publications.iter().filter(|publication| publication.reused);
        said.extend(
            again.map(|one| format!("{} {} {:?} {:?}", one.version, one.at, one.attributes.label, one.key)),
        );
        marks.extend(entry.version.pin.as_ref().map(|pin| format!("{} {}", entry.version.id, pin.reason)));
    }
    said.sort();
    (said, marks)
}

#[test]
fn a_new_catalogue_takes_over_what_was_said_pinned_and_tagged() {
    let mut publisher = World::with_versions(2);
    let mut archive = Archive::new();
    publisher.ask(&saying("again", 2)).unwrap();
    publisher.pass(5);
    publisher.ask(&saying("and again", 2)).unwrap();
    publisher.ask(&tag("close", "report@1")).unwrap();
    publisher.ask(&pin("report@2", "audit")).unwrap();
    assert_eq!(archive.keep(&publisher), 1, "they are written together");
    assert_eq!(archive.keep(&publisher), 0);
    let expected = seen(publisher.register());
    assert_eq!((expected.0.len(), expected.1.len()), (2, 2));

    let mut restored = World::with_versions(2);
    archive.line += 1;
    archive.start(&mut restored);
    assert_eq!(seen(restored.register()), expected);
    assert_eq!(restored.register().publication_by_key("key of again").unwrap().version, id("report@2"));
    assert_eq!(restored.open_effects(), [""; 0]);
    // It goes on from there, and takes nothing over twice.
    restored.pass(5);
    restored.ask(&saying("later", 2)).unwrap();
    archive.start(&mut restored);
    archive.start(&mut restored);
    assert_eq!(seen(restored.register()).0.len(), 3);
    assert_eq!(Understood::of(&store("report"), &archive.values).unwrap().recorded.publications.len(), 3);
}

#[test]
fn retention_gives_nothing_up_that_was_pinned_or_tagged_before_the_catalogue_was_lost() {
    let mut world = World::with_versions(4);
    let mut archive = Archive::new();
    world.ask(&pin("report@1", "audit")).unwrap();
    world.ask(&tag("close", "report@2")).unwrap();
    archive.keep(&world);
    let mut anew = World::new(&[("report", keeping("last 1"))]);
    anew.archive = world.archive.clone();
    let understood = Understood::of(&store("report"), &archive.values).unwrap();
    let recorded = BTreeMap::from([(store("report"), understood)]);
    anew.ask(&Event::Started(Survey { recorded, ..anew.survey() })).unwrap();
    anew.ask(&Event::Tick).unwrap();
    anew.settle();
    assert_eq!(anew.states("report"), "1 ready, 2 ready, 3 retired, 4 ready");
}

#[test]
fn what_a_cut_finds_unchanged_is_recorded_although_a_version_was_begun_for_it() {
    let mut world = World::with_versions(1);
    let mut archive = Archive::new();
    for label in ["again", "and again"] {
        world.tell(&World::publishing("report", label, None));
        archive.keep(&world);
        world.settle();
        archive.keep(&world);
    }
    assert_eq!(archive.values.keys().filter(|key| key.starts_with("publication/1/")).count(), 2);
}

#[test]
fn what_is_recorded_of_versions_that_are_not_known_yet_stays_and_is_taken_over_with_them() {
    let mut world = World::with_versions(2);
    let mut archive = Archive::new();
    world.ask(&saying("again", 2)).unwrap();
    world.ask(&tag("close", "report@1")).unwrap();
    world.ask(&pin("report@2", "audit")).unwrap();
    archive.keep(&world);
    let before = archive.values.clone();
    // A daemon to which the store was added while it runs: its versions are adopted when it is started again.
    let mut added = World::new(&[("report", keeping("last 1"))]);
    archive.line += 1;
    let understood = |archive: &Archive| Understood::of(&store("report"), &archive.values).unwrap();
    archive.recorder =
        Recorder::begin(&store("report"), &archive.values, &understood(&archive), &archive.commit(&added));
    archive.keep(&added);
    let is_there = |(key, text): (&String, &String)| key == "mark" || archive.values.get(key) == Some(text);
    assert!(before.iter().all(is_there), "{:?}", archive.values);
    assert_ne!(before["mark"], archive.values["mark"]);
    added.archive = world.archive.clone();
    added.engine = added.engine().clone().opened_at(archive.commit(&added));
    let recorded = BTreeMap::from([(store("report"), understood(&archive))]);
    added.ask(&Event::Started(Survey { recorded, ..added.survey() })).unwrap();
    added.ask(&Event::Tick).unwrap();
    added.settle();
    archive.recorder =
        Recorder::begin(&store("report"), &archive.values, &understood(&archive), &archive.commit(&added));
    archive.keep(&added);
    assert_eq!(seen(added.register()), seen(world.register()));
    assert!(before.keys().all(|key| archive.values.contains_key(key)));
}

#[test]
fn the_oldest_publications_are_deleted_if_all_are_too_long() {
    let mut world = World::with_versions(1);
    let mut archive = Archive::new();
    for nth in 0..9 {
        world.pass(1);
        // A note may be so long in a test alone.
        let attributes = Attributes { note: Some("x".repeat(8 << 20)), ..Attributes::default() };
        let at = world.now;
        let said = Publication { number: 0, attributes, ..publication(&world, at) };
        let recorded = Recorded { publications: vec![said], ..Recorded::default() };
        world.ask(&Event::Recorded { store: store("report"), recorded }).unwrap();
        archive.keep(&world);
        let bytes: usize = archive.values.values().map(String::len).sum();
        assert!(bytes <= (32 << 20) + 1000, "{bytes} bytes after {nth}");
    }
    assert_eq!(archive.values.keys().filter(|key| key.starts_with("publication/")).count(), 3);
    assert_eq!(seen(world.register()).0.len(), 9, "the catalogue has all");
}

fn publication(world: &World, at: Timestamp) -> Publication {
    let first = world.register().publications().next().unwrap().clone();
    Publication { at, key: None, reused: true, ..first }
}

#[test]
fn what_was_set_after_the_archive_was_written_is_not_undone() {
    let mut world = World::with_versions(2);
    let mut archive = Archive::new();
    world.ask(&tag("close", "report@1")).unwrap();
    archive.keep(&world);
    world.pass(5);
    let recorded = Understood::of(&store("report"), &archive.values).unwrap().recorded;
    world.ask(&tag("close", "report@2")).unwrap();
    world.ask(&tag("later", "report@2")).unwrap();
    world.ask(&pin("report@2", "audit")).unwrap();
    let before = seen(world.register());
    world.ask(&Event::Recorded { store: store("report"), recorded }).unwrap();
    assert_eq!(seen(world.register()), before);
}

#[test]
fn a_copy_of_the_catalogue_that_lacks_only_a_tag_takes_it_over() {
    let mut world = World::with_versions(1);
    let mut archive = Archive::new();
    world.ask(&tag("gone", "report@1")).unwrap();
    archive.keep(&world);
    let mut copy = World::with_versions(1);
    copy.ask(&tag("gone", "report@1")).unwrap();
    world.pass(5);
    world.ask(&tag("close", "report@1")).unwrap();
    world.ask(&Event::Untag { store: store("report"), name: "gone".parse().unwrap() }).unwrap();
    archive.keep(&world);
    archive.start(&mut copy);
    assert_eq!(seen(copy.register()).1, ["close report@1"]);
}

#[test]
fn a_tag_that_leads_to_what_is_not_known_here_leads_nowhere() {
    let mut publisher = World::with_versions(2);
    let mut archive = Archive::new();
    publisher.ask(&tag("close", "report@1")).unwrap();
    archive.keep(&publisher);
    let mut follower = World::with_versions(1);
    let records = |archive: &Archive| Event::Recorded {
        store: store("report"),
        recorded: Understood::of(&store("report"), &archive.values).unwrap().recorded,
    };
    follower.ask(&records(&archive)).unwrap();
    assert_eq!(seen(follower.register()).1, ["close report@1"]);
    publisher.pass(5);
    publisher.ask(&tag("close", "report@2")).unwrap();
    archive.keep(&publisher);
    follower.ask(&records(&archive)).unwrap();
    assert!(seen(follower.register()).1.is_empty());
}

#[test]
fn what_is_recorded_is_of_the_store_whose_archive_it_is_in() {
    let mut world = World::with_versions(1);
    let mut archive = Archive::new();
    world.ask(&saying("again", 1)).unwrap();
    world.ask(&tag("close", "report@1")).unwrap();
    archive.keep(&world);
    let Understood { recorded, .. } = Understood::of(&store("copy"), &archive.values).unwrap();
    assert_eq!(recorded.publications[0].version, id("copy@1"));
    assert!(recorded.tags.values().all(|tag| tag.version == id("copy@1")));
}

#[test]
fn what_is_not_so_any_more_is_deleted() {
    let mut world = World::with_versions(3);
    let mut archive = Archive::new();
    world.ask(&saying("again", 3)).unwrap();
    world.ask(&tag("close", "report@1")).unwrap();
    world.ask(&pin("report@2", "audit")).unwrap();
    archive.keep(&world);
    world.ask(&Event::Untag { store: store("report"), name: "close".parse().unwrap() }).unwrap();
    world.ask(&Event::Unpin(exactly("report@2"))).unwrap();
    world.tell(&retire("report@3"));
    world.settle();
    archive.keep(&world);
    let left: Vec<&String> = archive.values.keys().collect();
    assert_eq!(left, ["mark"]);
}

#[test]
fn an_older_catalogue_takes_over_what_it_lacks_and_one_that_goes_on_is_believed() {
    let mut world = World::with_versions(1);
    let mut archive = Archive::new();
    archive.keep(&world);
    let mut older = World::with_versions(1);
    world.pass(5);
    world.ask(&saying("again", 1)).unwrap();
    world.ask(&tag("close", "report@1")).unwrap();
    archive.keep(&world);
    let expected = seen(world.register());
    archive.clone().start(&mut older);
    assert_eq!(seen(older.register()), expected);
    // The daemon stopped before this came into the archive.
    world.ask(&Event::Untag { store: store("report"), name: "close".parse().unwrap() }).unwrap();
    archive.start(&mut world);
    assert!(!archive.values.contains_key("tag/close"));
    assert!(seen(world.register()).1.is_empty());
}

#[test]
fn what_cannot_be_understood_is_said() {
    for (key, value) in [
        ("publication/1/2/3", json!({ "number": "three" })),
        ("pin/1", json!([])),
        ("tag/close", json!({ "name": "a tag", "version": "report@1", "set_at": "now" })),
        ("mark", json!(7)),
    ] {
        let values = BTreeMap::from([(key.to_owned(), value.to_string())]);
        assert!(Understood::of(&store("report"), &values).is_err(), "{key}");
    }
    // What a later asat records is left alone.
    let mut archive = Archive::new();
    let later = ["later/1", "pin/x", "publication/x/1/0"].map(|key| (key.to_owned(), "7".to_owned()));
    archive.values.extend(later);
    archive.start(&mut World::with_versions(1));
    assert_eq!(archive.values.len(), 4, "{:?}", archive.values);
}

#[test]
fn of_a_long_history_few_versions_are_looked_at_after_a_start() {
    let mut world = World::with_versions(1300);
    let mut archive = Archive::new();
    assert_eq!(archive.keep(&world), 1, "how far it is");
    archive.start(&mut world);
    let (changes, more) = archive.recorder.changes(world.register(), &archive.commit(&world), world.now);
    assert!(changes.is_empty() && !more);
}

/// What somebody does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Say(u8),
    Publish,
    /// The archive is brought up to the catalogue in the middle of a cut, which finds the store changed or not.
    PublishAmidKeeping(bool),
    Tag(u8, u8),
    Untag(u8),
    Pin(u8),
    Unpin(u8),
    Retire(u8),
    Pass,
    Keep,
    /// The daemon is started again.
    Restart,
    /// The catalogue is lost.
    Lose,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Say),
        3 => Just(Step::Publish),
        2 => any::<bool>().prop_map(Step::PublishAmidKeeping),
        2 => any::<(u8, u8)>().prop_map(|(name, version)| Step::Tag(name, version)),
        1 => any::<u8>().prop_map(Step::Untag),
        2 => any::<u8>().prop_map(Step::Pin),
        1 => any::<u8>().prop_map(Step::Unpin),
        1 => any::<u8>().prop_map(Step::Retire),
        2 => Just(Step::Pass),
        3 => Just(Step::Keep),
        1 => Just(Step::Restart),
        1 => Just(Step::Lose),
    ]
}

#[test]
fn whatever_is_done_a_new_catalogue_comes_to_the_same() {
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    };
    proptest!(config, |(steps in prop::collection::vec(any_step(), 1..60))| {
        let (mut world, mut archive) = (World::with_versions(1), Archive::new());
        for (nth, step) in steps.into_iter().enumerate() {
            let newest = world.register().history(&store("report")).unwrap().next_number().max(2) - 1;
            let version = |number: u8| format!("report@{}", 1 + u64::from(number) % newest);
            let name = |name: u8| format!("tag-{}", name % 3);
            // What the engine refuses changes nothing.
            match step {
                Step::Say(label) => act(&mut world, &saying(&format!("{label} {nth}"), newest)),
                Step::Publish => {
                    world.write("report");
                    act(&mut world, &World::publishing("report", "close", None));
                }
                Step::PublishAmidKeeping(is_changed) => {
                    if is_changed {
                        world.write("report");
                    }
                    world.tell(&World::publishing("report", &format!("{nth}"), None));
                    archive.keep(&world);
                    world.settle();
                }
                Step::Tag(label, number) => act(&mut world, &tag(&name(label), &version(number))),
                Step::Untag(label) => {
                    act(&mut world, &Event::Untag { store: store("report"), name: name(label).parse().unwrap() });
                }
                Step::Pin(number) => act(&mut world, &pin(&version(number), &format!("reason {nth}"))),
                Step::Unpin(number) => act(&mut world, &Event::Unpin(exactly(&version(number)))),
                Step::Retire(number) => {
                    act(&mut world, &retire(&version(number)));
                }
                Step::Pass => world.pass(1),
                Step::Keep => _ = archive.keep(&world),
                Step::Restart => archive.start(&mut world),
                Step::Lose => {
                    archive.keep(&world);
                    let before = seen(world.register());
                    world = anew(&world);
                    archive.line += 1;
                    archive.start(&mut world);
                    prop_assert_eq!(seen(world.register()), before);
                }
            }
        }
        archive.keep(&world);
        let mut restored = anew(&world);
        archive.line += 1;
        archive.start(&mut restored);
        prop_assert_eq!(seen(restored.register()), seen(world.register()));
    });
}

/// Does something, and all that comes of it.
fn act(world: &mut World, event: &Event) {
    world.tell(event);
    world.settle();
}

/// A daemon whose catalogue is made anew from the archive.
fn anew(world: &World) -> World {
    let mut anew = World::new(&[("report", Retention::default())]);
    anew.archive = world.archive.clone();
    anew.now = world.now;
    anew.pass(1);
    anew.restart();
    assert!(matches!(anew.ask(&Event::Tick), Ok(Reply::Done)));
    anew
}
