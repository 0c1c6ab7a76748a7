//! Publishing a set of stores: all of one instant, and all or none.

use asat_core::audit::Action;
use asat_core::event::{Answer, Cut, CutFailure, Event, Kept, Lack, Outcome, PublishSet, Reply, SetCut};
use asat_core::query::Filter;
use asat_core::retention::Retention;
use asat_core::version::{Attributes, Publication, SetPublication, State};
use asat_core::{Code, Engine, Policy, Problem};
use jiff::Timestamp;

use crate::world::{World, id, store, trouble};

impl World {
    /// The same with these sets.
    pub(crate) fn with_sets(mut self, sets: &[(&str, &[&str])]) -> Self {
        let set = |(name, stores): &(&str, &[&str])| {
            (name.parse().unwrap(), stores.iter().map(|name| store(name)).collect())
        };
        let policy = Policy { sets: sets.iter().map(set).collect(), ..self.engine.policy().clone() };
        self.engine = Engine::new(policy, self.register().clone());
        self
    }

    /// Asks for a set to be published.
    pub(crate) fn publishing_set(name: &str, key: Option<&str>) -> Event {
        let attributes = Attributes { label: Some("month-end".to_owned()), ..Attributes::default() };
        let (set, key) = (name.parse().unwrap(), key.map(str::to_owned));
        Event::PublishSet(PublishSet { set, attributes, key })
    }

    /// The cut of a set of which the last store could not be kept.
    pub(crate) fn fail_one(mut cut: SetCut) -> Outcome {
        if let Some(last) = cut.cuts.last_mut() {
            let left = match last {
                Ok(Cut { kept: Kept::Snapshot { snapshot, .. }, .. }) => Some(snapshot.clone()),
                _ => None,
            };
            *last = Err(CutFailure { problem: trouble(Code::StorageFull), begun: true, left, lacks: None });
        }
        Outcome::CutSet(Ok(cut))
    }
}

/// A ledger and a report on one machine, and a set of both.
fn two() -> World {
    let stores = ["ledger", "report"].map(|name| (name, Retention::default()));
    World::new(&stores).with_sets(&[("all", &["ledger", "report"])])
}

/// Publishes the set, which has to be taken; answers its publications.
fn publish(world: &mut World) -> Vec<Publication> {
    let effect = world.begin(&World::publishing_set("all", None));
    let Ok(Reply::Published(first)) = world.perform(effect) else { panic!("it was not published") };
    world.register().publications_with(first).cloned().collect()
}

fn versions(publications: &[Publication]) -> Vec<String> {
    publications.iter().map(|publication| publication.version.to_string()).collect()
}

#[test]
fn a_set_makes_a_version_of_each_store_with_one_instant() {
    let mut world = two();
    world.write("ledger");
    world.write("report");
    let effect = world.begin(&World::publishing_set("all", Some("k")));
    assert_eq!(world.open_effects(), ["cut ledger@1 and report@1 together"]);
    assert_eq!((world.states("ledger"), world.states("report")), ("1 cutting".into(), "1 cutting".into()));
    assert_eq!(world.perform(effect), Ok(Reply::Published(1)));
    let publications: Vec<Publication> = world.register().publications_with(1).cloned().collect();
    assert_eq!(versions(&publications), ["ledger@1", "report@1"]);
    let cut_at = |name| world.version(name).content.as_ref().unwrap().cut_at;
    let of_set = SetPublication { set: "all".parse().unwrap(), cut_at: cut_at("ledger@1") };
    assert_eq!(cut_at("report@1"), of_set.cut_at);
    assert!(publications.iter().all(|publication| publication.of_set.as_ref() == Some(&of_set)));
    // The key stands for both.
    let keys: Vec<_> = publications.iter().map(|publication| publication.key.as_deref()).collect();
    assert_eq!(keys, [Some("k"), None]);
    let filter = Filter { set_cut_at: Some(of_set.cut_at), ..Filter::default() };
    assert_eq!(world.register().list(&filter, None, 9).unwrap().0.len(), 2);
    let noted = world.noted.iter().filter(|deed| deed.action == Action::Publish);
    assert!(noted.clone().all(|deed| deed.details.get("set").is_some_and(|set| set == "all")));
    assert_eq!(noted.count(), 2);
}

#[test]
fn a_store_that_has_not_changed_gives_its_version_again_and_was_it_at_that_instant() {
    let mut world = two();
    publish(&mut world);
    world.pass(60);
    world.write("report");
    let second = publish(&mut world);
    assert_eq!(versions(&second), ["ledger@1", "report@2"]);
    assert_eq!(second.iter().map(|publication| publication.reused).collect::<Vec<_>>(), [true, false]);
    let cut_at = second[0].of_set.as_ref().unwrap().cut_at;
    for name in ["ledger@1", "report@2"] {
        let found = world.register().as_of(&id(name).store, cut_at).unwrap();
        assert_eq!(found.version.id, id(name));
    }
    // However the clock is set back, no later version is cut before that instant.
    world.restart();
    world.now = Timestamp::UNIX_EPOCH;
    let later = world.publish_new("ledger");
    assert!(world.version(&later.to_string()).content.as_ref().unwrap().cut_at > cut_at);
}

#[test]
fn a_set_of_which_one_store_fails_is_not_published_and_leaves_nothing_readable() {
    let mut world = two();
    publish(&mut world);
    for (what, outcome) in [
        ("nobody could be held", Outcome::CutSet(Err(trouble(Code::StoreBusy)))),
        ("nothing is said of any", Outcome::CutSet(Ok(SetCut { cut_at: world.now, cuts: Vec::new() }))),
    ] {
        world.write("ledger");
        let effect = world.begin(&World::publishing_set("all", None));
        assert!(world.finish(effect, outcome).is_err(), "{what}");
        world.settle();
    }
    world.write("ledger");
    let effect = world.begin(&World::publishing_set("all", None));
    let intended = world.register().intent(effect).unwrap().effect.clone();
    let outcome = World::fail_one(world.cut_set(&intended));
    assert_eq!(world.finish(effect, outcome), Err(trouble(Code::StorageFull)));
    world.settle();
    let ready = world.versions().filter(|version| version.state == State::Ready);
    let ready: Vec<String> = ready.map(|version| version.id.to_string()).collect();
    assert_eq!(ready, ["ledger@1", "report@1"]);
    assert_eq!(world.archive.keys().map(ToString::to_string).collect::<Vec<_>>(), ready);
    assert_eq!(world.register().publications().count(), 2);
    let reasons: Vec<&str> =
        world.versions().filter_map(|version| Some(version.end.as_ref()?.reason.as_str())).collect();
    assert_eq!(reasons.last(), Some(&"made up"));
    assert!(reasons.contains(&"its set was not published: made up"), "{reasons:?}");
    // And it can be published afterwards.
    assert_eq!(publish(&mut world).len(), 2);
}

#[test]
fn snapshots_of_a_set_that_is_not_published_are_dropped() {
    let stores = ["cloned", "hot", "report"].map(|name| (name, Retention::default()));
    let mut world = World::new(&stores).with_sets(&[("all", &["cloned", "hot", "report"])]);
    let effect = world.begin(&World::publishing_set("all", None));
    let intended = world.register().intent(effect).unwrap().effect.clone();
    let outcome = World::fail_one(world.cut_set(&intended));
    assert_eq!(world.snapshots.len(), 2);
    assert_eq!(world.finish(effect, outcome), Err(trouble(Code::StorageFull)));
    world.settle();
    assert!(world.snapshots.is_empty() && world.archive.is_empty());
    let published = publish(&mut world);
    assert_eq!(versions(&published), ["cloned@2", "hot@2", "report@2"]);
    world.settle();
    assert_eq!(world.archive.len(), 3);
}

#[test]
fn a_daemon_that_dies_before_a_set_is_acknowledged_has_published_nothing_of_it() {
    let mut world = two();
    let effect = world.begin(&World::publishing_set("all", Some("k")));
    let intended = world.register().intent(effect).unwrap().effect.clone();
    // Everything is kept, and nobody is told.
    world.act(&intended);
    world.restart();
    assert_eq!((world.states("ledger"), world.states("report")), ("1 failed".into(), "1 failed".into()));
    world.settle();
    assert!(world.archive.is_empty());
    assert_eq!(world.register().publications().count(), 0);
    // The key was not used up.
    let effect = world.begin(&World::publishing_set("all", Some("k")));
    assert_eq!(world.perform(effect), Ok(Reply::Published(1)));
}

#[test]
fn versions_of_a_set_without_a_catalogue_are_adopted_with_it() {
    let mut world = two();
    publish(&mut world);
    let archive = world.archive.clone();
    let mut world = two();
    world.archive = archive;
    world.restart();
    assert_eq!((world.states("ledger"), world.states("report")), ("1 ready".into(), "1 ready".into()));
    let publications: Vec<Publication> = world.register().publications_with(1).cloned().collect();
    assert_eq!(versions(&publications), ["ledger@1", "report@1"]);
}

#[test]
fn one_key_names_one_publication_be_it_of_a_store_or_of_a_set() {
    let mut world = two();
    let asked = World::publishing_set("all", Some("k"));
    let effect = world.begin(&asked);
    // While it is under way, and when it is through.
    assert_eq!(world.tell(&asked), Answer::After(effect));
    let of_store = World::publishing("ledger", "month-end", Some("k"));
    assert_eq!(world.refused(&of_store).code, Code::KeyReused);
    world.perform(effect).unwrap();
    assert_eq!(world.ask(&asked), Ok(Reply::Published(1)));
    let problem = world.refused(&of_store);
    assert_eq!(problem.code, Code::KeyReused);
    assert!(problem.detail.contains("the set all"), "{problem}");
    let effect = world.begin(&World::publishing("ledger", "month-end", Some("other")));
    world.perform(effect).unwrap();
    assert_eq!(world.refused(&World::publishing_set("all", Some("other"))).code, Code::KeyReused);
}

#[test]
fn what_cannot_be_published_is_refused_before_anything_begins() {
    let mut world = two();
    let problem = world.refused(&World::publishing_set("none", None));
    assert_eq!((problem.code, problem.hint.as_str()), (Code::UnknownSet, "the sets are: all"));
    let Event::PublishSet(asked) = World::publishing_set("all", None) else { unreachable!() };
    let long = Attributes { label: Some("x".repeat(201)), ..Attributes::default() };
    let too_long = Event::PublishSet(PublishSet { attributes: long, ..asked });
    assert_eq!(world.refused(&too_long).code, Code::Invalid);
}

#[test]
fn a_unique_label_of_one_store_keeps_the_set_from_being_published_with_it() {
    let stores = ["ledger", "report-unique"].map(|name| (name, Retention::default()));
    let mut world = World::new(&stores).with_sets(&[("all", &["ledger", "report-unique"])]);
    publish(&mut world);
    // The same version may be given it again.
    world.write("ledger");
    assert_eq!(versions(&publish(&mut world)), ["ledger@2", "report-unique@1"]);
    world.write("report-unique");
    let effect = world.begin(&World::publishing_set("all", None));
    let refused: Result<Reply, Problem> = world.perform(effect);
    assert_eq!(refused.map_err(|problem| problem.code), Err(Code::LabelTaken));
    world.settle();
    assert_eq!(world.states("report-unique"), "1 ready, 2 failed");
    assert_eq!(world.states("ledger"), "1 ready, 2 ready");
}

#[test]
fn a_set_that_finds_no_space_waits_for_snapshots_that_can_go() {
    let stores = ["hot", "report"].map(|name| (name, Retention::default()));
    let mut world = World::new(&stores).with_sets(&[("all", &["hot", "report"])]);
    world.publish_new("hot");
    let kept: Vec<_> = world.oldest_effect().into_iter().collect();
    assert_eq!(world.open_effects(), ["archive hot@1"]);
    world.perform(kept[0]).unwrap();
    // Its snapshot is on its way out, and would make room.
    let effect = world.begin(&World::publishing_set("all", None));
    let lacks =
        |lacks| Err(CutFailure { problem: trouble(Code::StorageFull), begun: false, left: None, lacks });
    let cuts = vec![lacks(Some(Lack::Bytes(1))), lacks(None)];
    let outcome = Outcome::CutSet(Ok(SetCut { cut_at: world.now, cuts }));
    let answer = world.tell(&Event::Finished { effect, outcome });
    assert!(matches!(answer, Answer::Again(_)), "{answer:?}");
    world.settle();
    assert_eq!(publish(&mut world).len(), 2);
}

#[test]
fn a_set_that_was_adopted_is_told_whole() {
    let mut world = two();
    for key in ["first", "second"] {
        world.write("ledger");
        world.write("report");
        let effect = world.begin(&World::publishing_set("all", Some(key)));
        world.perform(effect).unwrap();
        world.settle();
    }
    // The archives are taken over store by store.
    let mut anew = two();
    (anew.archive, anew.snapshots) = (world.archive.clone(), world.snapshots.clone());
    anew.now = world.now;
    anew.restart();
    let told = |world: &World| -> Vec<String> {
        let first = world.register().publication_by_key("first").unwrap().number;
        world.register().publications_with(first).map(|said| said.version.to_string()).collect()
    };
    assert_eq!(told(&world), ["ledger@1", "report@1"]);
    assert_eq!(told(&anew), ["ledger@1", "report@1"]);
}
