//! `/stores/{name}/tags`: names that lead to versions, and move.

use serde_json::{Value, json};

use crate::api::{configured, ids, publish_change, world};
use crate::common::{Answer, World};

fn tag(world: &World, name: &str, version: &str) -> Answer {
    world.send("PUT", &format!("/stores/report/tags/{name}"), &json!({ "version": version }))
}

fn delete(world: &World, path: &str) -> Answer {
    world.request("DELETE", path, &[], b"")
}

fn list(world: &World) -> Vec<(String, String)> {
    let list = world.get("/stores/report/tags").json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list["tags"].as_array().unwrap().iter().map(|tag| (text(&tag["name"]), text(&tag["version"]))).collect()
}

#[test]
fn a_tag_is_set_moved_listed_told_and_deleted() {
    let mut world = world();
    for label in ["first", "second"] {
        publish_change(&world, label);
    }
    assert_eq!(list(&world), []);
    let mut events = world.listen();
    let answer = tag(&world, "month-end-2026-10", "report@1");
    assert_eq!(answer.status, 201, "{answer}");
    let told = events.until(|name, _| name == "tag").pop().unwrap().1;
    assert_eq!(told, answer.json());
    assert_eq!((&told["store"], &told["version"]), (&json!("report"), &json!("report@1")));
    assert_eq!(world.get("/versions/report@month-end-2026-10").json()["id"], "report@1");
    assert_eq!(world.get("/versions/report@1").json()["tags"], json!(["month-end-2026-10"]));
    let moved = tag(&world, "month-end-2026-10", "report@latest");
    assert_eq!((moved.status, &moved.json()["version"]), (200, &json!("report@2")), "{moved}");
    assert_eq!(tag(&world, "another", "report@month-end-2026-10").status, 201);
    let both = [("another", "report@2"), ("month-end-2026-10", "report@2")];
    assert_eq!(list(&world), both.map(|(name, version)| (name.to_owned(), version.to_owned())));
    // It is there after whatever ends the daemon.
    world.kill();
    world.start();
    assert_eq!(list(&world).len(), 2);
    let mut events = world.listen();
    assert_eq!(delete(&world, "/stores/report/tags/another").json()["version"], "report@2");
    let told = events.until(|name, data| name == "tag" && data["deleted"] == true).pop().unwrap().1;
    assert_eq!((&told["store"], &told["name"]), (&json!("report"), &json!("another")));
    delete(&world, "/stores/report/tags/another").expect_problem(404, "unknown_tag");
    let problem = world.get("/versions/report@another").expect_problem(404, "unknown_tag");
    assert!(problem["hint"].as_str().unwrap().contains("month-end-2026-10"), "{problem}");
}

#[test]
fn a_tag_stands_for_its_version_wherever_a_version_is_named() {
    let world = world();
    for label in ["first", "second"] {
        publish_change(&world, label);
    }
    world.settled("report@1");
    world.settled("report@2");
    tag(&world, "close", "report@1");
    let path = world.open("report@close");
    let copy =
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let rows: u32 = copy.query_row("select count(*) from ledger", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
    assert_eq!(
        world.get("/versions/report@close/database").body,
        world.get("/versions/report@1/database").body
    );
    let diffless = world.get("/versions/report@close/why");
    assert_eq!(diffless.status, 200, "{diffless}");
    let pinned = world.send("PUT", "/versions/report@close/pin", &json!({ "reason": "audit" })).json();
    assert_eq!((&pinned["id"], &pinned["pin"]["reason"]), (&json!("report@1"), &json!("audit")));
    let restored = world.send("POST", "/stores/report/restore", &json!({ "version": "report@close" }));
    assert_eq!(
        (restored.status, &restored.json()["restored"]["id"]),
        (200, &json!("report@1")),
        "{restored}"
    );
}

#[test]
fn what_has_a_tag_is_kept_by_retention_and_from_requests() {
    let world = configured("", "[store.retention]\nkeep = \"the last 1\"");
    world.publish("first");
    assert_eq!(tag(&world, "close", "report@1").status, 201);
    publish_change(&world, "second");
    publish_change(&world, "third");
    world.until("report@2", |version| version["state"] == "retired");
    world.settled("report@1");
    let problem = delete(&world, "/versions/report@close").expect_problem(409, "tagged");
    assert!(problem["detail"].as_str().unwrap().contains("report@1 has the tag close"), "{problem}");
    let plan = world.get("/stores/report/retention").json();
    assert_eq!(plan["versions"][0]["why"], "report@1 has the tag close", "{plan}");
    tag(&world, "close", "report@3");
    world.retire("report@1");
    assert_eq!(ids(&world.get("/versions").json()), ["report@3"]);
}

#[test]
fn what_is_no_tag_or_no_version_of_the_store_is_refused() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table t(x)").unwrap();
    world.add_store("second", "create table u(y)", "");
    world.start_under_contract();
    for store in ["report", "second"] {
        assert_eq!(world.send("POST", "/snapshots", &json!({ "store": store })).status, 201);
    }
    let long = "t".repeat(65);
    for name in ["1", "1.0", "latest", "LATEST", "a%2Fb", "%00", "a..b", "-a", "%F0%9F%8E%89", &long] {
        tag(&world, name, "report@1").expect_problem(400, "malformed");
        delete(&world, &format!("/stores/report/tags/{name}")).expect_problem(400, "malformed");
    }
    tag(&world, "close", "second@1").expect_problem(422, "invalid");
    tag(&world, "close", "report@9").expect_problem(404, "unknown_version");
    tag(&world, "close", "report@nothing").expect_problem(404, "unknown_tag");
    tag(&world, "close", "report").expect_problem(400, "malformed");
    world.send("PUT", "/stores/report/tags/close", &json!({})).expect_problem(422, "invalid");
    world.send("PUT", "/stores/report/tags/close", &json!({ "version": 1 })).expect_problem(422, "invalid");
    world
        .send("PUT", "/stores/none/tags/close", &json!({ "version": "report@1" }))
        .expect_problem(404, "unknown_store");
    world.get("/stores/none/tags").expect_problem(404, "unknown_store");
    assert_eq!(list(&world), []);
}
