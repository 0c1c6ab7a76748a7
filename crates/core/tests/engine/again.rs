//! Publishing again what has not changed, as far as whoever asks has seen.

use asat_core::audit::Action;
use asat_core::event::{Answer, Change, Event, Publish, Reply};
use asat_core::version::Attributes;
use asat_core::{By, Code, Problem};

use crate::world::{World, id, store};

fn saying(label: &str, key: Option<&str>, unchanged: u64) -> Publish {
    Publish {
        store: Some(store("report")),
        attributes: Attributes { label: Some(label.to_owned()), ..Attributes::default() },
        key: key.map(str::to_owned),
        unchanged: Some(unchanged),
    }
}

fn ask(world: &mut World, publish: &Publish) -> Answer {
    world.tell(&Event::Publish(publish.clone()))
}

#[test]
fn what_has_not_changed_is_published_again_without_a_cut() {
    let mut world = World::with_versions(2);
    let answer = ask(&mut world, &saying("again", None, 2));
    assert_eq!(answer, Answer::Now(Ok(Reply::Published(3))));
    assert!(world.open_effects().is_empty());
    let publication = world.register().publication(3).unwrap();
    assert_eq!((publication.version.clone(), publication.reused), (id("report@2"), true));
}

#[test]
fn what_was_said_before_is_known_and_not_recorded_again() {
    let mut world = World::with_versions(1);
    assert_eq!(world.engine().known(&saying("again", None, 1)), None);
    ask(&mut world, &saying("again", None, 1));
    let before = world.register().clone();
    assert_eq!(world.engine().known(&saying("again", None, 1)), Some(2));
    assert_eq!(ask(&mut world, &saying("again", None, 1)), Answer::Now(Ok(Reply::Known(2))));
    assert_eq!(*world.register(), before);
    // A key makes a request one of its own.
    assert_eq!(world.engine().known(&saying("again", Some("key"), 1)), None);
    let keyed = saying("again", Some("key"), 1);
    assert_eq!(ask(&mut world, &keyed), Answer::Now(Ok(Reply::Published(3))));
    assert_eq!(ask(&mut world, &keyed), Answer::Now(Ok(Reply::Published(3))));
}

#[test]
fn what_was_seen_counts_only_of_the_newest_version_that_is_there() {
    // Something newer was published since, or the version is on its way out.
    let mut world = World::with_versions(2);
    assert!(matches!(ask(&mut world, &saying("old", None, 1)), Answer::After(_)));
    // Another version is being cut: it may have what has changed.
    assert_eq!(world.engine().known(&saying("close", None, 2)), None);
    assert!(matches!(ask(&mut world, &saying("busy", None, 2)), Answer::After(_)));

    let mut world = World::with_versions(2);
    world.tell(&Event::retire("report@2".parse().unwrap()));
    assert!(matches!(ask(&mut world, &saying("gone", None, 2)), Answer::After(_)));
}

#[test]
fn many_requests_are_decided_about_together() {
    let world = World::with_versions(1);
    let (a, b) = (saying("a", None, 1), saying("b", None, 1));
    let (keyed, bad) = (saying("a", Some("key"), 1), saying("", None, 1));
    let elsewhere = saying("c", None, 7);
    let asked = [&a, &b, &a, &keyed, &keyed, &bad, &elsewhere];
    let (ann, bob) = (By::token("ann"), By::token("bob"));
    let asked: Vec<(&By, &Publish)> = [&ann, &bob].into_iter().cycle().zip(asked).collect();
    let together = world.engine().decide_together(world.now, &asked);
    let refused = |answer: &Option<Result<Reply, Problem>>| {
        answer.as_ref().and_then(|answer| answer.as_ref().err()).map(|problem| problem.code)
    };
    let [a, b, same, keyed, again, bad, elsewhere] = together.answers.as_slice() else { panic!() };
    assert_eq!((a, b), (&Some(Ok(Reply::Published(2))), &Some(Ok(Reply::Published(3)))));
    assert_eq!((same, keyed), (&Some(Ok(Reply::Known(2))), &Some(Ok(Reply::Published(4)))));
    // Whether the same key means the same is seen when the first is recorded; what was not seen is to be cut.
    assert_eq!((again, elsewhere), (&None, &None));
    assert_eq!(refused(bad), Some(Code::Invalid));
    let published = |change: &Change| matches!(change, Change::Published(publication) if publication.reused);
    let noted = together.changes.iter().filter_map(|change| match change {
        Change::Noted(deed) if deed.action == Action::Publish => Some(deed.by.actor.as_str()),
        _ => None,
    });
    assert_eq!(noted.collect::<Vec<_>>(), ["token ann", "token bob", "token bob"]);
    assert_eq!(together.changes.iter().filter(|change| published(change)).count(), 3);
    assert_eq!(together.changes.len(), 6);
}
