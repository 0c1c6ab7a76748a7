//! Tags: names that lead to versions, and move.

use asat_core::event::{Event, Reply};
use asat_core::tree::{Kind, Node};
use asat_core::version::{State, Tag};
use asat_core::{Code, TagName};

use crate::world::{World, exactly, id, keeping, store};

fn name(text: &str) -> TagName {
    text.parse().unwrap()
}

fn tagging(text: &str, version: &str) -> Event {
    Event::Tag { store: store("report"), name: name(text), version: exactly(version) }
}

fn untagging(text: &str) -> Event {
    Event::Untag { store: store("report"), name: name(text) }
}

fn meant(world: &World, text: &str) -> Result<String, Code> {
    let found = world.register().resolve(&exactly(text)).map(|entry| entry.version.id.to_string());
    found.map_err(|problem| problem.code)
}

#[test]
fn a_tag_leads_to_a_version_moves_and_goes() {
    let mut world = World::with_versions(3);
    assert_eq!(meant(&world, "report@month-end"), Err(Code::UnknownTag));
    let tag = |version: &str, world: &World| Tag {
        name: name("month-end"),
        version: id(version),
        set_at: world.now,
    };
    let first = tag("report@1", &world);
    let answer = world.ask(&tagging("month-end", "report@1"));
    assert_eq!(answer, Ok(Reply::Tagged { tag: first.clone(), before: None }));
    assert_eq!(meant(&world, "report@month-end").as_deref(), Ok("report@1"));
    world.pass(60);
    // Where it leads already, nothing happens.
    let same = world.ask(&tagging("month-end", "report@month-end"));
    assert_eq!(same, Ok(Reply::Tagged { tag: first, before: Some(id("report@1")) }));
    let moved = tag("report@3", &world);
    let answer = world.ask(&tagging("month-end", "report@latest"));
    assert_eq!(answer, Ok(Reply::Tagged { tag: moved.clone(), before: Some(id("report@1")) }));
    assert_eq!(meant(&world, "report@month-end").as_deref(), Ok("report@3"));
    world.ask(&tagging("other", "report@month-end")).unwrap();
    let answer = world.ask(&untagging("month-end"));
    assert_eq!(answer, Ok(Reply::Tagged { tag: moved, before: Some(id("report@3")) }));
    assert_eq!(world.refused(&untagging("month-end")).code, Code::UnknownTag);
    assert_eq!(meant(&world, "report@other").as_deref(), Ok("report@3"));
}

#[test]
fn what_has_a_tag_is_not_given_up() {
    let mut world = World::with_versions(3);
    world.ask(&tagging("month-end", "report@1")).unwrap();
    for event in [
        Event::retire(exactly("report@1")),
        Event::GiveUp { version: id("report@1"), why: "space".to_owned() },
    ] {
        let problem = world.refused(&event);
        assert_eq!(problem.code, Code::Tagged);
        assert!(problem.detail.contains("report@1 has the tag month-end"), "{problem}");
    }
    world.restart_with(&[("report", keeping("the last 1"))]);
    world.ask(&Event::Tick).unwrap();
    world.settle();
    assert_eq!(world.states("report"), "1 ready, 2 retired, 3 ready");
    let rules = keeping("the last 1");
    let plan = world.engine().retention_plan(&store("report"), &rules, None, world.now).unwrap();
    assert_eq!(plan.verdicts[0].why, "report@1 has the tag month-end");
    world.ask(&tagging("month-end", "report@3")).unwrap();
    world.ask(&Event::Tick).unwrap();
    world.settle();
    assert_eq!(world.state("report@1"), State::Retired);
    assert_eq!(world.refused(&tagging("month-end", "report@1")).code, Code::Retired);
    assert_eq!(meant(&world, "report@month-end").as_deref(), Ok("report@3"));
}

#[test]
fn a_tag_leads_to_a_version_of_its_own_store_that_can_be_read() {
    let mut world = World::new(&[("report", keeping("all forever")), ("other", keeping("all forever"))]);
    for store in ["report", "other"] {
        world.publish_new(store);
    }
    assert_eq!(world.refused(&tagging("a", "other@1")).code, Code::Invalid);
    assert_eq!(world.refused(&tagging("a", "report@9")).code, Code::UnknownVersion);
    assert_eq!(world.refused(&tagging("a", "report@b")).code, Code::UnknownTag);
    let elsewhere = Event::Tag { store: store("nowhere"), name: name("a"), version: exactly("report@1") };
    assert_eq!(world.refused(&elsewhere).code, Code::UnknownStore);
}

#[test]
fn a_tag_is_a_link_in_the_tree() {
    let mut world = World::with_versions(2);
    world.ask(&tagging("month-end", "report@1")).unwrap();
    let find = |world: &World, name: &str| Node::Root.find(world.register(), name);
    let node = find(&world, "report@month-end").unwrap();
    assert_eq!(node.kind(world.register()), Some(Kind::Link("report@1".to_owned())));
    assert!(node.lasts().is_zero() && node.list(world.register()).is_empty());
    let names: Vec<String> = Node::Root.list(world.register()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["as-of", "latest", "report@1", "report@2", "report@month-end"]);
    world.ask(&tagging("month-end", "report@2")).unwrap();
    assert_eq!(node.kind(world.register()), Some(Kind::Link("report@2".to_owned())));
    assert_eq!(find(&world, "report@other"), None);
    world.ask(&untagging("month-end")).unwrap();
    assert_eq!((find(&world, "report@month-end"), node.kind(world.register())), (None, None));
}
