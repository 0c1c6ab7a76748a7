//! The tree of versions: its names, where they lead, and leases on what is read in it.

use std::time::Duration;

use asat_core::event::{Event, Reply};
use asat_core::tree::{Kind, Node, path};
use asat_core::{Code, VersionId};
use jiff::Timestamp;

use crate::world::{World, exactly, id};

/// What a path leads to, name by name.
fn walk(world: &World, path: &str) -> Option<Node> {
    path.split('/').try_fold(Node::Root, |folder, name| folder.find(world.register(), name))
}

fn kind(world: &World, path: &str) -> Option<Kind> {
    walk(world, path)?.kind(world.register())
}

/// The names in a folder, as `a b c`.
fn list(world: &World, node: &Node) -> String {
    let names = node.list(world.register()).into_iter().map(|(name, _)| name);
    names.collect::<Vec<_>>().join(" ")
}

fn cut_at(world: &World, version: &str) -> Timestamp {
    world.version(version).content.as_ref().unwrap().cut_at
}

fn link(target: &str) -> Option<Kind> {
    Some(Kind::Link(target.to_owned()))
}

#[test]
fn a_version_has_a_folder_with_its_database_and_nothing_else() {
    let world = World::with_versions(2);
    assert_eq!(kind(&world, "report@2"), Some(Kind::Folder));
    let bytes = world.version("report@2").content.as_ref().unwrap().size_bytes();
    let file = Kind::File { bytes, cut_at: cut_at(&world, "report@2") };
    assert_eq!(kind(&world, "report@2/report.db"), Some(file));
    assert_eq!(path(&id("report@2")), "report@2/report.db");
    for name in
        ["report.db-journal", "report.db-wal", "report.db-shm", "other.db", "report", ".db", "", ".", ".."]
    {
        assert_eq!(walk(&world, &format!("report@2/{name}")), None, "{name:?}");
    }
    assert_eq!(walk(&world, "report@2/report.db/report.db"), None, "a database is no folder");
}

#[test]
fn names_that_lead_nowhere() {
    let world = World::with_versions(2);
    for name in [
        "",
        ".",
        "..",
        "report",
        "report@",
        "report@0",
        "report@3",
        "report@02",
        "report@+2",
        "report@latest",
        "report@18446744073709551616",
        "other@1",
        "report%402",
        "Report@2",
        "report@2\0",
        "re port@2",
        "%2e%2e",
        "@2",
        "as-of@1",
        "LATEST",
        "as-of ",
    ] {
        assert_eq!(walk(&world, name), None, "{name:?}");
    }
    for name in [
        "",
        ".",
        "..",
        "now",
        "yesterday",
        "2026",
        "2026-11",
        "17:00",
        "1763571600",
        "2026-11-19T17:00:00%2B01:00",
        "2026-13-19T17:00:00Z",
        "99999-01-01T00:00:00Z",
        "../as-of",
    ] {
        let node = Node::AsOf.find(world.register(), name);
        assert_eq!(node, None, "as-of {name:?}");
    }
    for name in ["report", "other.db", "report.db-journal", "..db", "report@2", "", "report.db.db"] {
        assert_eq!(walk(&world, &format!("latest/{name}")), None, "latest {name:?}");
        assert_eq!(walk(&world, &format!("as-of/2030-01-01T00:00:00Z/{name}")), None, "as-of {name:?}");
    }
}

#[test]
fn the_newest_version_is_a_link_that_moves_on() {
    let mut world = World::report();
    assert_eq!(kind(&world, "latest"), Some(Kind::Folder));
    assert_eq!(walk(&world, "latest/report.db"), None, "nothing was published yet");
    for number in 1..=2 {
        world.publish_new("report");
        assert_eq!(kind(&world, "latest/report.db"), link(&format!("../report@{number}/report.db")));
    }
}

#[test]
fn an_instant_is_a_link_to_the_version_of_that_moment() {
    let mut world = World::with_versions(3);
    let second = cut_at(&world, "report@2");
    let at = |world: &World, instant: &str| kind(world, &format!("as-of/{instant}/report.db"));
    let to_second = link("../../report@2/report.db");
    assert_eq!(at(&world, &second.to_string()), to_second);
    assert_eq!(at(&world, "2030-01-01T00:00:00+01:00"), link("../../report@3/report.db"));
    assert_eq!(at(&world, "2000-01-01T00:00Z"), None, "before the first");
    // Two spellings of one instant are two folders: a folder with two names confuses a kernel.
    let spelled = |name: &str| Node::AsOf.find(world.register(), name).unwrap();
    assert_ne!(spelled("2026-11-19T17:00Z"), spelled("2026-11-19T17:00:00Z"));
    // They are those of the command line: a day means its end.
    for name in ["2030-01-01", "2030-01-01 17:00", "9999-12-31T23:59:59Z"] {
        assert_eq!(at(&world, name), link("../../report@3/report.db"), "{name}");
    }
    assert_eq!(Node::AsOf.find(world.register(), "2030-01-01T17:00Z[America/New_York]"), None);
    world.begin(&Event::retire(exactly("report@2")));
    assert_eq!(at(&world, &second.to_string()), None, "an older one would be other data");
}

#[test]
fn what_is_listed_can_be_found_and_what_is_given_up_is_not_there() {
    let mut world = World::with_versions(3);
    world.begin(&Event::retire(exactly("report@2")));
    assert_eq!(list(&world, &Node::Root), "as-of latest report@1 report@3");
    assert_eq!(walk(&world, "report@2"), None);
    assert_eq!(list(&world, &Node::AsOf), "", "there is no end of instants");
    for folder in ["report@3", "latest", "as-of/2030-01-01T00:00:00Z"] {
        assert_eq!(list(&world, &walk(&world, folder).unwrap()), "report.db", "{folder}");
    }
    for (name, node) in Node::Root.list(world.register()) {
        assert_eq!(walk(&world, &name), Some(node), "{name}");
    }
}

#[test]
fn only_links_change_and_only_a_versions_folder_is_complete() {
    let world = World::with_versions(1);
    let (passing, lasting) = (Duration::ZERO, Node::LASTING);
    for (path, lasts, complete) in [
        // It may be given up.
        ("report@1", Duration::from_secs(1), true),
        ("report@1/report.db", lasting, false),
        ("latest", lasting, false),
        ("latest/report.db", passing, false),
        ("as-of", lasting, false),
        ("as-of/2030-01-01T00:00:00Z", lasting, false),
        ("as-of/2030-01-01T00:00:00Z/report.db", passing, false),
    ] {
        let node = walk(&world, path).unwrap();
        assert_eq!((node.lasts(), node.is_complete()), (lasts, complete), "{path}");
    }
    assert!(Node::Root.lasts() == lasting && !Node::Root.is_complete(), "there will be versions");
}

#[test]
fn a_version_in_the_archive_is_leased_without_a_copy() {
    let mut world = World::with_versions(2);
    let leased = world.ask(&World::opening_in_tree("report@1", "a", 60)).unwrap();
    assert!(
        matches!(leased, Reply::Leased(lease) if lease.expires_at.duration_since(world.now).as_secs() == 60)
    );
    assert_eq!((world.open_effects(), &world.version("report@1").copy), (vec![], &None));
    assert_eq!(world.refused(&Event::retire(exactly("report@1"))).code, Code::Leased);
    world.close("report@1", "a");
    world.begin(&Event::retire(exactly("report@1")));
    assert_eq!(world.refused(&World::opening_in_tree("report@1", "b", 60)).code, Code::Retired);
}

#[test]
fn a_version_that_is_only_in_its_snapshot_is_opened_there() {
    let mut world = World::new(&[("hot", asat_core::retention::Retention::default())]);
    let cut = world.begin(&World::publishing("hot", "close", None));
    world.perform(cut).unwrap();
    world.begin(&World::opening_in_tree("hot@1", "a", 60));
    assert_eq!(world.open_effects(), ["archive hot@1", "copy hot@1 for a"]);
}

#[test]
fn who_read_in_the_tree_gets_a_copy_where_there_is_no_tree_any_more() {
    let mut world = World::with_versions(1);
    world.ask(&World::opening_in_tree("report@1", "a", 60)).unwrap();
    world.tree = true;
    world.restart();
    assert!(world.open_effects().is_empty(), "it is read in the tree again");
    world.tree = false;
    world.restart();
    assert_eq!(world.open_effects(), ["copy report@1 for a"]);
    world.settle();
    assert!(world.version("report@1").copy.is_some());
    world.pass(61);
    world.restart();
    assert!(!world.open_effects().contains(&"copy report@1 for a".to_owned()), "nobody leases it");
    let left: Option<VersionId> = world.register().leases().map(|lease| lease.version.clone()).next();
    assert_eq!(left, Some(id("report@1")), "it is swept at the next tick");
}

#[test]
fn a_copy_that_nobody_was_told_of_goes_though_its_version_is_read_in_the_tree() {
    let mut world = World::with_versions(1);
    world.tree = true;
    let copy = world.begin(&World::opening("report@1", "a", 60));
    let _ = world.act(&world.register().intent(copy).unwrap().effect.clone());
    world.ask(&World::opening_in_tree("report@1", "b", 60)).unwrap();
    world.restart();
    assert_eq!(world.open_effects(), ["drop report@1"]);
    world.settle();
    assert!(world.copies.is_empty() && world.version("report@1").copy.is_none());
    world.close("report@1", "b");
}
