//! Following: what another asat publishes is recorded as it is there, and what that one gives up is given up here.

use std::path::PathBuf;

use asat_core::event::{Archived, Damaged, Event, Followed};
use asat_core::version::State;
use asat_core::{Code, VersionId};

use crate::world::{World, id, store};

/// What a publisher's bucket has of these versions, and that it has given up others.
fn followed(publisher: &World, has: &[&str], gone: &[u64]) -> Event {
    let archived = |version: VersionId| {
        let described = Ok(Box::new(publisher.archive[&version].clone()));
        Archived { version, described }
    };
    Event::Followed(Followed {
        store: store("report"),
        place: PathBuf::from("s3://history/s/report"),
        has: has.iter().map(|version| archived(id(version))).collect(),
        gone: gone.to_vec(),
        recorded: None,
    })
}

/// A publisher with three versions, and a daemon without stores that has come to these.
fn both() -> (World, World) {
    let publisher = World::with_versions(3);
    let mut follower = World::new(&[]);
    follower.archive = publisher.archive.clone();
    follower.ask(&followed(&publisher, &["report@1", "report@2", "report@3"], &[])).unwrap();
    (publisher, follower)
}

#[test]
fn versions_are_taken_over_as_they_were_published() {
    let (publisher, follower) = both();
    assert_eq!(follower.states("report"), "1 ready, 2 ready, 3 ready");
    let history = follower.register().history(&store("report")).unwrap();
    assert_eq!(history.store.path, PathBuf::from("s3://history/s/report"));
    for number in 1..=3 {
        let version = format!("report@{number}");
        let (there, here) = (publisher.version(&version), follower.version(&version));
        assert_eq!((&here.content, &here.holdings), (&there.content, &there.holdings));
        let publication = follower.register().publication(number).unwrap();
        assert_eq!(publication.attributes, publisher.register().publication(number).unwrap().attributes);
    }
    assert_eq!(follower.open_effects(), [""; 0], "nothing is to be done to a bucket");
}

#[test]
fn what_is_known_already_changes_nothing() {
    let (publisher, mut follower) = both();
    let before = follower.register().clone();
    follower.ask(&followed(&publisher, &["report@1", "report@3"], &[])).unwrap();
    follower.ask(&followed(&publisher, &[], &[7])).unwrap();
    assert_eq!(*follower.register(), before);
}

#[test]
fn what_the_publisher_gives_up_is_given_up_and_comes_back_if_it_does_there() {
    let (publisher, mut follower) = both();
    follower.ask(&followed(&publisher, &[], &[2])).unwrap();
    assert_eq!(follower.states("report"), "1 ready, 2 retired, 3 ready");
    let end = follower.version("report@2").end.clone().unwrap();
    assert_eq!(end.reason, "the publisher has given it up");
    assert_eq!(follower.open_effects(), [""; 0]);
    follower.ask(&followed(&publisher, &["report@2"], &[])).unwrap();
    assert_eq!(follower.states("report"), "1 ready, 2 ready, 3 ready");
    assert_eq!(follower.register().publications().count(), 3, "it was published once");
}

#[test]
fn a_version_that_is_leased_stays_until_it_is_not_and_its_copy_goes_with_it() {
    let (publisher, mut follower) = both();
    let copying = follower.begin(&World::opening("report@2", "a", 3600));
    follower.ask(&followed(&publisher, &[], &[2])).unwrap();
    assert_eq!(follower.state("report@2"), State::Ready, "a copy is being made");
    follower.perform(copying).unwrap();
    follower.ask(&followed(&publisher, &[], &[2])).unwrap();
    assert_eq!(follower.state("report@2"), State::Ready);
    follower.close("report@2", "a");
    assert!(follower.version("report@2").copy.is_some(), "it may be wanted again");
    follower.ask(&followed(&publisher, &[], &[2])).unwrap();
    assert_eq!(follower.state("report@2"), State::Retired);
    follower.settle();
    assert!(follower.copies.is_empty());
}

#[test]
fn a_version_that_cannot_be_read_is_recorded_as_lost_until_it_can() {
    let publisher = World::with_versions(2);
    let mut follower = World::new(&[]);
    let why = "an object is missing".to_owned();
    let damaged = Damaged { why, described: None };
    let event = Event::Followed(Followed {
        store: store("report"),
        place: PathBuf::from("s3://history/s/report"),
        has: vec![Archived { version: id("report@1"), described: Err(damaged) }],
        gone: Vec::new(),
        recorded: None,
    });
    follower.ask(&event).unwrap();
    assert_eq!(follower.state("report@1"), State::Lost);
    assert_eq!(follower.register().publications().count(), 0);
    follower.ask(&followed(&publisher, &["report@1", "report@2"], &[])).unwrap();
    assert_eq!(follower.states("report"), "1 ready, 2 ready");
    assert_eq!(follower.register().publications().count(), 2);
    follower.ask(&followed(&publisher, &[], &[1])).unwrap();
    assert_eq!(follower.state("report@1"), State::Retired);
    // Of a number that never was a version, nothing stays.
    let damaged = Damaged { why: "an object is missing".to_owned(), described: None };
    let Event::Followed(more) = followed(&publisher, &[], &[]) else { unreachable!() };
    let has = vec![Archived { version: id("report@5"), described: Err(damaged) }];
    follower.ask(&Event::Followed(Followed { has, ..more })).unwrap();
    assert_eq!(follower.state("report@5"), State::Lost);
    follower.ask(&followed(&publisher, &[], &[5])).unwrap();
    assert!(follower.register().entry(&id("report@5")).is_err());
}

#[test]
fn a_store_that_is_followed_cannot_be_published_and_outlives_a_restart() {
    let (publisher, mut follower) = both();
    assert_eq!(follower.refused(&Event::publish(&store("report"))).code, Code::UnknownStore);
    follower.open("report@1", "a");
    follower.restart();
    assert_eq!(follower.states("report"), "1 ready, 2 ready, 3 ready");
    assert_eq!(follower.register().leases().count(), 1);
    let elsewhere = Event::Followed(Followed {
        store: store("report"),
        place: PathBuf::from("s3://other/s/report"),
        has: Vec::new(),
        gone: Vec::new(),
        recorded: None,
    });
    follower.ask(&elsewhere).unwrap();
    let history = follower.register().history(&store("report")).unwrap();
    assert_eq!(history.store.path, PathBuf::from("s3://other/s/report"));
    assert_eq!(follower.states("report"), "1 ready, 2 ready, 3 ready");
    drop(publisher);
}
