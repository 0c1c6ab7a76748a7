//! Watch mode: a store that is published by itself when its marker moves.

use std::fs;

use serde_json::{Value, json};

use crate::api::configured;
use crate::common::World;
use crate::common::events::Events;

const MARKER: &str = "select max(id) from certification";

fn watching(marker: &str) -> String {
    format!("[store.watch]\nmarker = \"{marker}\"\ndeadline = \"10s\"\n")
}

/// A daemon that watches a store in which nothing is certified yet.
fn world(config: &str) -> World {
    let world = configured("", config);
    world.sqlite().execute_batch("create table certification (id)").unwrap();
    world
}

fn certify(world: &World, id: &str) {
    world.sqlite().execute_batch(&format!("insert into certification values ({id})")).unwrap();
}

/// What `GET /stores` says of watch mode.
fn watch(world: &World) -> Value {
    world.get("/stores").json()["stores"][0]["watch"].clone()
}

/// Waits until watch mode stands as it is wanted; answers how.
fn until(world: &World, events: &mut Events, wanted: impl Fn(&Value) -> bool) -> Value {
    let now = watch(world);
    if wanted(&now) {
        return now;
    }
    let mut seen = events.until(|name, data| name == "watch" && wanted(&data["watch"]));
    seen.pop().unwrap().1["watch"].clone()
}

fn published(world: &World, events: &mut Events, label: &str) -> Value {
    until(world, events, |watch| watch["published"] == label)
}

fn troubled(world: &World, events: &mut Events, code: &str) -> String {
    let watch = until(world, events, |watch| watch["trouble"]["code"] == code);
    let trouble = &watch["trouble"];
    assert!(trouble["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{trouble}");
    trouble["detail"].as_str().unwrap().to_owned()
}

/// The labels of all publications, oldest first.
fn labels(world: &World) -> Vec<String> {
    let list = world.get("/versions?store=report&limit=1000").json();
    let versions = list["versions"].as_array().unwrap().iter().rev();
    let publications = versions.flat_map(|version| version["publications"].as_array().unwrap());
    publications.map(|said| said["label"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_store_is_published_when_its_marker_moves_with_its_value_as_label() {
    let world = world(&watching(MARKER));
    let mut events = world.listen();
    for (value, label) in [("41", "41"), ("42.5", "42.5"), ("'2026-11-19 close'", "2026-11-19 close")] {
        certify(&world, value);
        let watch = published(&world, &mut events, label);
        assert_eq!((&watch["value"], &watch["trouble"]), (&json!(label), &Value::Null), "{watch}");
        let list =
            world.get(&format!("/versions?attribute=asat.marker:{}", label.replace(' ', "%20"))).json();
        let said = &list["versions"][0]["publications"][0];
        assert_eq!((&said["label"], &said["attributes"]), (&json!(label), &json!({ "asat.marker": label })));
        let check = &said["checks"][0];
        assert_eq!((&check["name"], &check["passed"]), (&json!("asat.marker"), &json!(true)), "{check}");
        // What moves nothing is not published.
        world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
    }
    assert_eq!(labels(&world), ["41", "42.5", "2026-11-19 close"]);
}

#[test]
fn a_marker_that_moves_while_no_daemon_runs_is_published_at_the_start_and_another_one_is_not() {
    let mut world = world(&watching(MARKER));
    certify(&world, "41");
    published(&world, &mut world.listen(), "41");
    world.kill();
    world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
    world.start();
    let mut events = world.listen();
    until(&world, &mut events, |watch| !watch["asked_at"].is_null());
    assert_eq!(watch(&world)["published"], "41");
    world.stop();
    certify(&world, "42");
    world.start();
    published(&world, &mut world.listen(), "42");
    assert_eq!(labels(&world), ["41", "42"]);
}

#[test]
fn nothing_is_published_until_something_is_certified() {
    for marker in [MARKER, "select id from certification"] {
        let world = world(&watching(marker));
        let mut events = world.listen();
        let watch = until(&world, &mut events, |watch| !watch["asked_at"].is_null());
        assert_eq!((&watch["value"], &watch["published"]), (&Value::Null, &Value::Null), "{watch}");
        certify(&world, "7");
        published(&world, &mut events, "7");
        assert_eq!(labels(&world), ["7"]);
    }
}

#[test]
fn what_a_marker_should_not_give_is_reported_and_stops_nothing() {
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";
    for (marker, value, part) in [
        ("select blob from certification", "x'00ff'", "a blob of 2 bytes"),
        ("select id, id from certification", "1", "the row has 2 columns"),
        ("select 1 union all select 2", "1", "there are 2 rows"),
        ("select ''", "1", "is empty"),
        ("select char(27) || '[2J'", "1", "has control characters"),
        ("select printf('%201d', 1)", "1", "has 201 characters"),
        ("select zeroblob(1000000000)", "1", "too big"),
        ("select id from missing", "1", "no such table: missing"),
        ("select 9e999", "1", "should give a number"),
        (endless, "1", "did not end within 100 ms"),
    ] {
        let config = watching(marker).replace("10s", "100ms");
        let world = configured("", &config);
        let mut events = world.listen();
        let sql =
            format!("create table certification (id, blob); insert into certification values (1, {value})");
        world.sqlite().execute_batch(&sql).unwrap();
        let wanted = |watch: &Value| {
            let detail = watch["trouble"]["detail"].as_str().unwrap_or_default();
            watch["trouble"]["code"] == "marker_failed" && detail.contains(part)
        };
        let watch = until(&world, &mut events, wanted);
        assert!(watch["trouble"]["detail"].as_str().unwrap().contains("report"), "{watch}");
        assert_eq!(labels(&world), [""; 0]);
        assert_eq!(world.publish("by hand")["version"]["id"], "report@1", "{marker}");
    }
}

#[test]
fn a_marker_that_fails_is_asked_for_again_at_the_next_commit() {
    let world = configured("", &watching(MARKER));
    let mut events = world.listen();
    assert!(troubled(&world, &mut events, "marker_failed").contains("no such table: certification"));
    world.sqlite().execute_batch("create table certification (id)").unwrap();
    until(&world, &mut events, |watch| watch["trouble"].is_null());
    certify(&world, "1");
    published(&world, &mut events, "1");
}

#[test]
fn a_store_that_is_not_there_yet_is_watched_and_one_that_is_replaced_too() {
    let mut world = World::new();
    world.store_config = watching(MARKER);
    // What volume a store lies on is found out by its file, when the daemon starts.
    let is_there = world.ground.is_volume() && !world.ground.is_cloned();
    if is_there {
        world.sqlite().execute_batch("create table certification (id)").unwrap();
    }
    world.start_under_contract();
    let mut events = world.listen();
    if !is_there {
        troubled(&world, &mut events, "store_missing");
        world.sqlite().execute_batch("create table certification (id)").unwrap();
    }
    certify(&world, "1");
    published(&world, &mut events, "1");
    let (other, store) = (world.store_at("other.db"), world.store());
    let new = rusqlite::Connection::open(&other).unwrap();
    new.execute_batch("create table certification (id); insert into certification values (2)").unwrap();
    drop(new);
    fs::rename(&other, &store).unwrap();
    published(&world, &mut events, "2");
    fs::remove_file(&store).unwrap();
    world
        .sqlite()
        .execute_batch("create table certification (id); insert into certification values (3)")
        .unwrap();
    published(&world, &mut events, "3");
    assert_eq!(labels(&world), ["1", "2", "3"]);
}

#[test]
fn a_publication_that_is_refused_is_reported_and_tried_again_when_the_store_has_changed() {
    let check =
        "[[store.check]]\nname = \"no bad ones\"\nquery = \"select 1 from ledger where entry = 'bad'\"\n";
    let world = world(&(watching(MARKER) + check));
    let mut events = world.listen();
    world
        .sqlite()
        .execute_batch(
            "begin; insert into ledger values ('bad'); insert into certification values (41); commit",
        )
        .unwrap();
    assert!(troubled(&world, &mut events, "check_failed").contains("no bad ones"));
    assert_eq!(watch(&world)["value"], "41");
    world.sqlite().execute("delete from ledger where entry = 'bad'", []).unwrap();
    let watch = published(&world, &mut events, "41");
    assert_eq!(watch["trouble"], Value::Null, "{watch}");
    assert_eq!(labels(&world), ["41"]);
}

#[test]
fn a_store_that_is_locked_is_asked_again_later() {
    let world = world(&watching(MARKER).replace("10s", "50ms"));
    let mut events = world.listen();
    until(&world, &mut events, |watch| !watch["asked_at"].is_null());
    let writer = world.sqlite();
    writer
        .execute_batch("pragma cache_size = 1; begin exclusive; insert into certification values (41)")
        .unwrap();
    // More than fits into memory is written into the file before it is committed.
    let much = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100)
        insert into ledger select zeroblob(5000) from n";
    writer.execute_batch(much).unwrap();
    troubled(&world, &mut events, "store_busy");
    writer.execute_batch("commit").unwrap();
    published(&world, &mut events, "41");
}

#[test]
fn every_version_has_the_value_that_it_is_labelled_with_beside_a_writer_that_never_pauses() {
    for mode in ["wal", "delete"] {
        let world = world(&watching(MARKER));
        let writer = world.sqlite();
        writer.pragma_update(None, "journal_mode", mode).unwrap();
        writer.pragma_update(None, "synchronous", "off").unwrap();
        let mut events = world.listen();
        let mut count = 0;
        // As long as it takes until some were published.
        while labels(&world).len() < 5 {
            for _ in 0..200 {
                count += 1;
                writer.execute("insert into certification values (?1)", [count]).unwrap();
            }
        }
        published(&world, &mut events, &count.to_string());
        for version in world.get("/versions?limit=1000").json()["versions"].as_array().unwrap() {
            let said = &version["publications"][0];
            let copy = rusqlite::Connection::open_with_flags(
                world.open(version["id"].as_str().unwrap()),
                rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
            );
            let found: i64 = copy.unwrap().query_row(MARKER, [], |row| row.get(0)).unwrap();
            assert_eq!(said["label"], found.to_string(), "{version}");
        }
    }
}
