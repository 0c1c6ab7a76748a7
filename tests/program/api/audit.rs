//! `/audit`: who did what, and whether that is what was written.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::api::{configured, publish_change, world};
use crate::common::World;

/// The entries of an answer, as `publish report@1`, in its order.
fn deeds(list: &Value) -> Vec<String> {
    let entries = list["entries"].as_array().unwrap().iter();
    entries.map(|entry| format!("{} {}", text(&entry["action"]), text(&entry["version"]))).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

/// The caller of every test here, as the trail names him.
fn own() -> String {
    format!("uid {}", rustix::process::geteuid().as_raw())
}

/// Changes the trail as somebody would who may write to the catalogue.
fn forge(world: &World, sql: &str) {
    let catalogue = Connection::open(world.path("state/catalogue.db")).unwrap();
    catalogue
        .execute_batch(&format!(
            "drop trigger audit_is_not_removed; drop trigger audit_is_not_changed; {sql}"
        ))
        .unwrap();
}

#[test]
fn whatever_is_done_is_in_the_trail_with_who_what_and_why() {
    let world = world();
    assert_eq!(world.get("/audit").json()["head"]["number"], 0);
    let headers =
        [("Content-Type", "application/json"), ("X-Request-Id", "close-4711"), ("Idempotency-Key", "k-1")];
    let body = json!({ "label": "close", "certified_by": "ops", "business_date": "2026-11-19", "note": "two\nlines" });
    assert_eq!(world.request("POST", "/snapshots", &headers, body.to_string().as_bytes()).status, 201);
    publish_change(&world, "second");
    world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit", "owner": "ann" }));
    world.settled("report@1");
    world.request("DELETE", "/versions/report@1", &[], b"").expect_problem(409, "pinned");
    world.request("DELETE", "/versions/report@1/pin", &[], b"");
    world.retire("report@1");
    let list = world.get("/audit").json();
    let expected =
        ["retire report@1", "unpin report@1", "pin report@1", "publish report@2", "publish report@1"];
    assert_eq!(deeds(&list), expected, "what was refused is not in it");
    let entries = list["entries"].as_array().unwrap();
    for (entry, number) in entries.iter().zip((1..=5).rev()) {
        assert_eq!(entry["number"], number);
        assert!(text(&entry["actor"]).starts_with(&own()), "{entry}");
        assert_eq!(text(&entry["chain"]).len(), 64, "{entry}");
        assert_eq!(entry["store"], "report");
    }
    let first = &entries[4];
    assert_eq!(first["request"], "close-4711");
    assert_eq!(
        first["details"],
        json!({ "publication": "1", "label": "close", "certified_by": "ops", "business_date": "2026-11-19",
                "note": "two\nlines", "key": "k-1" })
    );
    assert_eq!(entries[2]["details"], json!({ "reason": "audit", "owner": "ann" }));
    assert_eq!(entries[0]["details"]["reason"], "retired on request");
    let head = &list["head"];
    assert_eq!((&head["number"], &head["chain"]), (&json!(5), &entries[0]["chain"]));
    assert_eq!(text(&head["place"]), format!("5:{}", text(&head["chain"])));
    assert_eq!(list["verdict"], Value::Null, "nobody has asked");
}

#[test]
fn a_publication_of_what_has_not_changed_is_in_the_trail_once() {
    let world = world();
    world.publish("first");
    world.settled("report@1");
    for _ in 0..3 {
        world.publish("again");
    }
    let list = world.get("/audit").json();
    // Where it cannot be seen that nothing has changed, each is a publication of its own.
    let publications = world.get("/versions/report@1").json()["publications"].as_array().unwrap().len();
    assert_eq!(deeds(&list), vec!["publish report@1"; publications]);
    assert_eq!(list["entries"][0]["details"]["reused"], "true");
}

#[test]
fn what_retention_and_a_restore_do_is_in_the_trail() {
    let world = configured("", "[store.retention]\nkeep = \"the last 2\"");
    for label in ["a", "b", "c"] {
        publish_change(&world, label);
    }
    world.settled("report@3");
    let mut list = world.get("/audit?action=retire").json();
    while deeds(&list).is_empty() {
        list = world.get("/audit?action=retire").json();
    }
    assert_eq!(deeds(&list), ["retire report@1"]);
    let entry = &list["entries"][0];
    assert_eq!(entry["actor"], "asat");
    assert!(text(&entry["details"]["reason"]).starts_with("given up by retention"), "{entry}");

    let answer = world.send("POST", "/stores/report/restore", &json!({ "version": "report@2" }));
    assert_eq!(answer.status, 200, "{answer}");
    let list = world.get("/audit?action=restore").json();
    assert_eq!(deeds(&list), ["restore report@2"]);
    assert_eq!(list["entries"][0]["details"]["outcome"], "done");
    assert!(text(&list["entries"][0]["actor"]).starts_with(&own()), "{list}");
}

#[test]
fn the_trail_is_filtered_and_paged() {
    let world = world();
    for label in ["a", "b", "c", "d", "e"] {
        publish_change(&world, label);
    }
    world.send("PUT", "/versions/report@2/pin", &json!({ "reason": "audit" }));
    let all = world.get("/audit").json();
    let actor = text(&all["entries"][0]["actor"]).to_owned();
    let asked = |query: &str| deeds(&world.get(&format!("/audit?{query}")).json());
    assert_eq!(asked("version=report@2"), ["pin report@2", "publish report@2"]);
    assert_eq!(asked("version=report@latest"), ["publish report@5"]);
    assert_eq!(asked("action=pin"), ["pin report@2"]);
    assert_eq!(asked("store=report&limit=1"), ["pin report@2"]);
    let encoded = actor.replace(' ', "%20").replace('(', "%28").replace(')', "%29");
    assert_eq!(asked(&format!("actor={encoded}")).len(), 6);
    assert_eq!(asked("actor=uid"), [""; 0], "a part of a name is none");
    let at = |place: usize| text(&all["entries"][place]["at"]).to_owned();
    assert_eq!(
        asked(&format!("from={}&to={}", at(4), at(2))),
        ["publish report@4", "publish report@3", "publish report@2"]
    );
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/audit?action=publish&limit=2{cursor}")).json();
        seen.extend(deeds(&page));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 1].map(|number| format!("publish report@{number}")));
    world.get(&format!("/audit?action=pin{cursor}")).expect_problem(422, "cursor_mismatch");
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let world = world();
    world.publish("first");
    for (query, status, code) in [
        ("stor=report", 400, "malformed"),
        ("store=../x", 400, "malformed"),
        ("store=other", 404, "unknown_store"),
        ("version=report", 400, "malformed"),
        ("version=report@9", 404, "unknown_version"),
        ("action=explode", 422, "invalid"),
        ("action=", 422, "invalid"),
        ("from=yesterday", 400, "malformed"),
        ("to=2026-11-19", 400, "malformed"),
        ("limit=0", 422, "invalid"),
        ("limit=1001", 422, "invalid"),
        ("limit=-1", 400, "malformed"),
        ("cursor=x", 400, "malformed"),
        ("verify=perhaps", 400, "malformed"),
        ("noted=37", 422, "invalid"),
        ("noted=", 422, "invalid"),
        ("noted=1:zz", 422, "invalid"),
    ] {
        world.get(&format!("/audit?{query}")).expect_problem(status, code);
    }
}

#[test]
fn a_line_that_is_removed_or_changed_shows() {
    let world = world();
    for label in ["a", "b", "c", "d"] {
        publish_change(&world, label);
    }
    world.settled("report@4");
    let sound = world.get("/audit?verify=true&limit=1").json();
    assert_eq!(sound["verdict"], json!({ "ok": true, "sound": 4, "broken_at": null, "what": null }));
    let noted = text(&sound["head"]["place"]).to_owned();
    assert_eq!(world.get(&format!("/audit?noted={noted}")).json()["verdict"]["ok"], true);

    forge(
        &world,
        "delete from audit where number = 4; update audit_head set (number, chain) =
        (select number, chain from audit where number = 3)",
    );
    // A tail that is cut off together with the record of its end shows to who has noted the end down.
    assert_eq!(world.get("/audit?verify=true").json()["verdict"]["ok"], true);
    let verdict = world.get(&format!("/audit?noted={noted}")).json()["verdict"].clone();
    assert_eq!(
        (&verdict["ok"], &verdict["broken_at"], &verdict["sound"]),
        (&json!(false), &json!(4), &json!(3))
    );
    assert!(text(&verdict["what"]).contains("noted down"), "{verdict}");

    let catalogue = Connection::open(world.path("state/catalogue.db")).unwrap();
    catalogue.execute("update audit set details = '{\"label\":\"x\"}' where number = 2", []).unwrap();
    let verdict = world.get("/audit?verify=true").json()["verdict"].clone();
    assert_eq!(
        (&verdict["ok"], &verdict["broken_at"], &verdict["sound"]),
        (&json!(false), &json!(2), &json!(1))
    );
    // Work goes on all the same, and what was broken stays so.
    publish_change(&world, "e");
    assert_eq!(world.get("/audit?verify=true").json()["verdict"]["broken_at"], 2);
}

#[test]
fn the_trail_survives_the_daemon() {
    let mut world = world();
    publish_change(&world, "a");
    world.kill();
    world.start();
    publish_change(&world, "b");
    let list = world.get("/audit?verify=true").json();
    assert_eq!(deeds(&list), ["publish report@2", "publish report@1"]);
    assert_eq!(list["verdict"]["sound"], 2);
}
