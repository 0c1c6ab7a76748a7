//! Questions: lists in pages, and the version as of an instant.

use std::slice;

use asat_core::event::{Event, Publish, Reply};
use asat_core::query::{Filter, Position, Search};
use asat_core::retention::Retention;
use asat_core::version::{Attributes, State};
use asat_core::{Code, Problem, VersionId};
use jiff::{SignedDuration, Timestamp};

use crate::world::{World, exactly, id, store};

fn cut_at(world: &World, version: &str) -> Timestamp {
    world.version(version).content.as_ref().unwrap().cut_at
}

fn as_of(world: &World, at: Timestamp) -> Result<String, Problem> {
    world.register().as_of(&store("report"), at).map(|entry| entry.version.id.to_string())
}

#[test]
fn the_version_as_of_an_instant() {
    let mut world = World::with_versions(3);
    let failing = world.begin(&World::publishing("report", "close", None));
    world.finish(failing, World::fail_cut(Code::StorageFull, true)).unwrap_err();
    world.begin(&World::publishing("report", "under way", None));
    let micro = SignedDuration::from_micros(1);
    for (version, at) in [
        ("report@1", cut_at(&world, "report@1")),
        ("report@1", cut_at(&world, "report@2") - micro),
        ("report@2", cut_at(&world, "report@2")),
        ("report@2", cut_at(&world, "report@2") + micro),
        ("report@3", cut_at(&world, "report@3")),
        ("report@3", world.now),
        ("report@3", Timestamp::MAX),
    ] {
        assert_eq!(as_of(&world, at).as_deref(), Ok(version), "{at}");
    }
    let early = as_of(&world, cut_at(&world, "report@1") - micro).unwrap_err();
    assert_eq!(early.code, Code::BeforeFirst);
    assert!(early.hint.contains("report@1"), "{early}");
    let unknown = world.register().as_of(&store("nowhere"), world.now).map(|entry| entry.version.state);
    assert_eq!(unknown.map_err(|problem| problem.code), Err(Code::UnknownStore));
    let empty = as_of(&World::report(), Timestamp::MAX).unwrap_err();
    assert_eq!((empty.code, empty.hint.as_str()), (Code::BeforeFirst, "nothing was published yet"));
}

/// Publishes a new version for a business day, as somebody vouches for it.
fn publish_for(world: &mut World, day: &str, who: &str) -> VersionId {
    world.write("report");
    let attributes = Attributes {
        label: Some("close".to_owned()),
        certified_by: Some(who.to_owned()),
        business_date: Some(day.parse().unwrap()),
        note: Some(format!("for {day}")),
        free: [("day".to_owned(), day.into()), ("batch".to_owned(), 41.into())].into(),
    };
    let cut = world.begin(&Event::Publish(Publish {
        store: Some(store("report")),
        attributes,
        ..Publish::default()
    }));
    let Ok(Reply::Published(number)) = world.perform(cut) else { panic!("{day} was not published") };
    world.pass(60);
    world.register().publication(number).unwrap().version.clone()
}

#[test]
fn versions_are_found_by_notes_and_by_attributes_of_the_publishers_own() {
    let mut world = World::with_versions(1);
    for day in ["2026-10-30", "2026-10-31"] {
        publish_for(&mut world, day, "ann");
    }
    let by = |name: &str, value: &str| {
        let attribute = Some((name.to_owned(), value.to_owned()));
        list(&world, &Filter { attribute, ..Filter::default() })
    };
    assert_eq!(by("day", "2026-10-31"), ["report@3"]);
    assert_eq!(by("batch", "41"), ["report@3", "report@2"]);
    assert_eq!((by("batch", "41.0"), by("other", "41")), (Vec::new(), Vec::new()));
    let note = Some("for 2026-10-30".to_owned());
    assert_eq!(list(&world, &Filter { note, ..Filter::default() }), ["report@2"]);
}

#[test]
fn the_version_as_of_a_business_day_is_the_last_one_that_was_published_for_it() {
    let mut world = World::with_versions(1);
    for day in ["2026-10-30", "2026-10-31", "2026-10-30", "2026-11-02"] {
        publish_for(&mut world, day, "ann");
    }
    let as_of = |world: &World, day: &str| {
        let found = world.register().as_of_business_date(&store("report"), day.parse().unwrap());
        found.map(|entry| entry.version.id.to_string()).map_err(|problem| problem.code)
    };
    for (day, version) in [
        // The first was certified for no day, and the fourth corrects the second.
        ("2026-10-29", Err(Code::BeforeFirst)),
        ("2026-10-30", Ok("report@4")),
        ("2026-10-31", Ok("report@3")),
        ("2026-11-01", Ok("report@3")),
        ("2026-11-02", Ok("report@5")),
        ("9999-12-31", Ok("report@5")),
    ] {
        assert_eq!(as_of(&world, day), version.map(str::to_owned), "{day}");
    }
    world.begin(&Event::retire(exactly("report@4")));
    assert_eq!(as_of(&world, "2026-10-30"), Err(Code::Retired), "the one before was corrected");
    let nowhere = world.register().as_of_business_date(&store("nowhere"), "2026-10-30".parse().unwrap());
    assert_eq!(nowhere.map(drop).map_err(|problem| problem.code), Err(Code::UnknownStore));
}

#[test]
fn what_is_said_of_publications_narrows_a_list_and_one_publication_must_be_all_of_it() {
    let mut world = World::report();
    for (day, who) in [("2026-10-30", "ann"), ("2026-10-31", "bob"), ("2026-10-31", "ann")] {
        publish_for(&mut world, day, who);
    }
    let listed = |label: Option<&str>, who: Option<&str>, day: Option<&str>| {
        let filter = Filter {
            label: label.map(str::to_owned),
            certified_by: who.map(str::to_owned),
            business_date: day.map(|day| day.parse().unwrap()),
            ..Filter::default()
        };
        let (found, _) = world.register().list(&filter, None, 10).unwrap();
        found.iter().map(|entry| entry.version.id.number).collect::<Vec<_>>()
    };
    assert_eq!(listed(None, Some("ann"), None), [3, 1]);
    assert_eq!(listed(None, None, Some("2026-10-31")), [3, 2]);
    assert_eq!(listed(Some("close"), Some("ann"), Some("2026-10-31")), [3]);
    assert_eq!(listed(Some("other"), Some("ann"), None), [0; 0]);
    assert_eq!(listed(None, Some("carl"), None), [0; 0]);
    assert_eq!(listed(None, None, Some("2026-10-29")), [0; 0]);
}

#[test]
fn a_version_that_is_gone_is_never_replaced_by_an_older_one() {
    let mut world = World::with_versions(4);
    world.begin(&Event::retire(exactly("report@2")));
    let retired = as_of(&world, cut_at(&world, "report@2")).unwrap_err();
    assert_eq!(retired.code, Code::Retired);
    assert!(retired.hint.contains("report@1") && retired.hint.contains("report@3"), "{retired}");
    world.settle();
    world.archive.remove(&id("report@4"));
    world.restart();
    let lost = as_of(&world, world.now).unwrap_err();
    assert_eq!(lost.code, Code::NotReadable);
    assert!(lost.hint.contains("report@3") && !lost.hint.contains("report@2"), "{lost}");
}

/// The whole list, read in pages of a size.
fn pages(world: &World, filter: &Filter, limit: usize) -> Vec<String> {
    let (mut all, mut place) = (Vec::new(), None::<Position>);
    loop {
        let (page, next) = world.register().list(filter, place.as_ref(), limit).unwrap();
        assert!(page.len() <= limit);
        all.extend(page.iter().map(|entry| entry.version.id.to_string()));
        match next {
            Some(next) => place = Some(next),
            None => return all,
        }
    }
}

fn list(world: &World, filter: &Filter) -> Vec<String> {
    pages(world, filter, 1000)
}

fn two_stores() -> World {
    let mut world = World::new(&[("report", Retention::default()), ("other", Retention::default())]);
    for (store, label) in
        [("report", "a"), ("other", "a"), ("report", "b"), ("report", "a"), ("other", "b"), ("report", "c")]
    {
        world.write(store);
        world.publish(store, label);
        world.pass(60);
    }
    world.publish("report", "again");
    world
}

#[test]
fn lists_are_newest_first_and_filtered() {
    let mut world = two_stores();
    let all = ["report@4", "other@2", "report@3", "report@2", "other@1", "report@1"];
    assert_eq!(list(&world, &Filter::default()), all);
    let report = Filter { store: Some(store("report")), ..Filter::default() };
    assert_eq!(list(&world, &report), ["report@4", "report@3", "report@2", "report@1"]);
    let labelled = |label: &str| Filter { label: Some(label.to_owned()), ..Filter::default() };
    assert_eq!(list(&world, &labelled("a")), ["report@3", "other@1", "report@1"]);
    assert_eq!(list(&world, &labelled("again")), ["report@4"]);
    assert_eq!(list(&world, &labelled("nothing")), [""; 0]);
    let (from, to) = (cut_at(&world, "report@2"), cut_at(&world, "other@2"));
    let between = Filter { from: Some(from), to: Some(to), ..Filter::default() };
    assert_eq!(list(&world, &between), ["other@2", "report@3", "report@2"]);
    let unknown = Filter { store: Some(store("nowhere")), ..Filter::default() };
    assert_eq!(world.register().list(&unknown, None, 9).map_err(|p| p.code), Err(Code::UnknownStore));

    world.begin(&Event::retire(exactly("report@1")));
    world.begin(&World::publishing("other", "close", None));
    assert_eq!(list(&world, &Filter::default()), all[..5]);
    let states = |states: &[State]| Filter { states: Some(states.to_vec()), ..Filter::default() };
    assert_eq!(list(&world, &states(&[State::Retiring, State::Cutting])), ["other@3", "report@1"]);
    assert_eq!(list(&world, &states(&[])), [""; 0]);
}

#[test]
fn pages_put_together_are_the_list() {
    let world = two_stores();
    for filter in [Filter::default(), Filter { store: Some(store("report")), ..Filter::default() }] {
        let whole = list(&world, &filter);
        for limit in 1..=whole.len() + 1 {
            assert_eq!(pages(&world, &filter, limit), whole, "{limit} at a time");
        }
    }
}

#[test]
fn what_is_published_meanwhile_does_not_disturb_the_pages() {
    let mut world = two_stores();
    let whole = list(&world, &Filter::default());
    let (first, next) = world.register().list(&Filter::default(), None, 2).unwrap();
    let mut seen: Vec<String> = first.iter().map(|entry| entry.version.id.to_string()).collect();
    world.publish_new("report");
    world.publish_new("other");
    let (rest, end) = world.register().list(&Filter::default(), next.as_ref(), 100).unwrap();
    seen.extend(rest.iter().map(|entry| entry.version.id.to_string()));
    assert_eq!((seen, end), (whole, None));
}

#[test]
fn versions_of_the_same_instant_are_all_listed() {
    let mut world = World::new(&[("report", Retention::default()), ("other", Retention::default())]);
    for store in ["report", "other"] {
        world.publish_new(store);
    }
    assert_eq!(cut_at(&world, "report@1"), cut_at(&world, "other@1"));
    assert_eq!(pages(&world, &Filter::default(), 1), ["report@1", "other@1"]);
}

#[test]
fn a_version_is_found_by_what_somebody_remembers_of_it() {
    let mut world = World::report();
    let october = publish_for(&mut world, "2026-10-30", "Änn Smith");
    let november = publish_for(&mut world, "2026-11-30", "bob");
    let published = world.register().entry(&november).unwrap().publications[0].at;
    let text = |part: &str| Some(part.to_owned());
    let found = |search: Search| {
        let filter = Filter { search: Some(search), ..Filter::default() };
        let (entries, _) = world.register().list(&filter, None, 10).unwrap();
        entries.iter().map(|entry| entry.version.id.clone()).collect::<Vec<_>>()
    };
    let all = [november.clone(), october.clone()];
    assert_eq!(found(Search::default()), all);
    assert_eq!(found(Search { label: text("CLO"), ..Search::default() }), all);
    assert_eq!(found(Search { label: text("open"), ..Search::default() }), []);
    assert_eq!(found(Search { person: text("änn s"), ..Search::default() }), slice::from_ref(&october));
    let day = |day: &str| Some(day.parse().unwrap());
    assert_eq!(found(Search { day: day("2026-10-30"), ..Search::default() }), slice::from_ref(&october));
    let of_publication = Some(jiff::tz::TimeZone::UTC.to_datetime(published).date());
    assert!(found(Search { day: of_publication, ..Search::default() }).contains(&november));
    assert_eq!(found(Search { day: day("1999-01-01"), ..Search::default() }), []);
    // One publication must have all of it.
    assert_eq!(found(Search { person: text("bob"), day: day("2026-10-30"), ..Search::default() }), []);
}
