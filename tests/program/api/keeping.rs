//! Pins, retirement on request, and retention.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::{configured, ids, publish_change, world};
use crate::common::World;
use crate::common::ground::held_by;

fn delete(world: &World, path: &str) -> crate::common::Answer {
    world.request("DELETE", path, &[], b"")
}

fn pin(world: &World, version: &str, body: &Value) -> Value {
    let answer = world.send("PUT", &format!("/versions/{version}/pin"), body);
    assert_eq!(answer.status, 200, "{answer}");
    answer.json()
}

fn soon(milliseconds: i64) -> String {
    (jiff::Timestamp::now() + jiff::SignedDuration::from_millis(milliseconds)).to_string()
}

#[test]
fn a_pinned_version_is_not_retired_and_the_refusal_says_why() {
    let world = world();
    world.publish("first");
    world.settled("report@1");
    let body = json!({ "reason": "audit 2026", "owner": "internal audit", "expires_at": "2199-01-01T00:00:00.000000Z", "hot": true });
    let pinned = pin(&world, "report@1", &body);
    assert_eq!(pinned["pin"], body);
    assert_eq!(world.get("/versions/report@1").json(), pinned);
    let problem = delete(&world, "/versions/report@1").expect_problem(409, "pinned");
    for part in ["audit 2026", "internal audit", "report@1", "until 2199-01-01"] {
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    }
    // A pin that is set again replaces the old one.
    let short = pin(&world, "report@latest", &json!({ "reason": "audit 2027" }));
    assert_eq!(
        short["pin"],
        json!({ "reason": "audit 2027", "owner": null, "expires_at": null, "hot": false })
    );

    for _ in 0..2 {
        let unpinned = delete(&world, "/versions/report@1/pin");
        assert_eq!((unpinned.status, &unpinned.json()["pin"]), (200, &Value::Null), "{unpinned}");
    }
    assert_eq!(delete(&world, "/versions/report@1").status, 200);
}

#[test]
fn a_pin_stops_counting_when_it_expires() {
    let world = world();
    world.publish("first");
    world.settled("report@1");
    let expires_at = soon(400);
    pin(&world, "report@1", &json!({ "reason": "for a moment", "expires_at": expires_at }));
    let retired = loop {
        let answer = delete(&world, "/versions/report@1");
        if answer.status == 200 {
            break answer;
        }
        answer.expect_problem(409, "pinned");
        assert!(
            jiff::Timestamp::now()
                < expires_at.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_secs(60)
        );
    };
    let ended: jiff::Timestamp = retired.json()["ended_at"].as_str().unwrap().parse().unwrap();
    assert!(ended >= expires_at.parse().unwrap());
}

#[test]
fn a_retired_version_keeps_its_record_with_when_and_why_and_nothing_else() {
    let world = world();
    world.publish("first");
    let published = world.settled("report@1");
    publish_change(&world, "second");
    let path = world.open("report@2");
    world.archived("report@2");
    // A clone goes once the next version is in the archive.
    world.until("report@1", |version| held_by(version) == BTreeSet::from(["archive"]));
    let before = jiff::Timestamp::now();
    let answer = delete(&world, "/versions/report@1");
    assert_eq!(answer.status, 200, "{answer}");
    let retired = answer.json();
    assert_eq!(
        (&retired["state"], &retired["end_reason"]),
        (&json!("retired"), &json!("retired on request"))
    );
    let ended: jiff::Timestamp = retired["ended_at"].as_str().unwrap().parse().unwrap();
    assert!(ended >= before - jiff::SignedDuration::from_secs(1) && ended <= jiff::Timestamp::now());
    assert_eq!(retired["holdings"], json!([]));
    for field in ["id", "cut_at", "fingerprint", "size_bytes", "publications"] {
        assert_eq!(retired[field], published[field], "{field}");
    }
    // Once more is the same, and moves nothing.
    assert_eq!(delete(&world, "/versions/report@1").json(), retired);
    assert_eq!(world.get("/versions/report@1").json(), retired);
    // What others need of it is still there.
    assert!(path.exists());
    assert!(world.send("POST", "/stores/report/verify", &Value::Null).json()["ok"] == true);
}

#[test]
fn what_each_version_takes_is_told() {
    let world = world();
    world.publish("first");
    world.archived("report@1");
    publish_change(&world, "second");
    world.archived("report@2");
    let stats = world.get("/stores/report/archive").json();
    assert_eq!((&stats["store"], &stats["files"]), (&json!("report"), &json!(2)));
    let versions = stats["versions"].as_array().unwrap();
    assert_eq!(versions.iter().map(|version| &version["id"]).collect::<Vec<_>>(), ["report@1", "report@2"]);
    let sum: u64 = versions.iter().map(|version| version["bytes"].as_u64().unwrap()).sum();
    assert!(0 < sum && sum <= stats["bytes"].as_u64().unwrap(), "{stats}");
    assert!(versions.iter().all(|version| version["only_bytes"].as_u64() <= version["bytes"].as_u64()));
    assert!(versions[1]["only_bytes"].as_u64().unwrap() > 0);
    world.get("/stores/none/archive").expect_problem(404, "unknown_store");
}

#[test]
fn nothing_can_be_done_with_a_retired_version_but_looking_at_its_record() {
    let world = world();
    world.publish("first");
    world.retire("report@1");
    let cut_at = world.get("/versions/report@1").json()["cut_at"].as_str().unwrap().to_owned();
    let holder = json!({ "holder": "a" });
    let calls = [
        ("GET", "/versions/report@1/database".to_owned(), Value::Null),
        ("POST", "/versions/report@1/mounts".to_owned(), holder),
        ("PUT", "/versions/report@1/pin".to_owned(), json!({ "reason": "too late" })),
        ("POST", "/stores/report/verify?version=1".to_owned(), Value::Null),
        ("GET", format!("/as-of/{cut_at}"), Value::Null),
    ];
    for (method, path, body) in calls {
        let problem = world.send(method, &path, &body).expect_problem(410, "retired");
        assert!(problem["detail"].as_str().unwrap().contains("retired on request"), "{path}: {problem}");
    }
    assert_eq!(delete(&world, "/versions/report@1/pin").status, 200);
}

#[test]
fn after_the_newest_version_is_retired_the_same_content_is_published_as_a_new_one() {
    let world = world();
    world.publish("first");
    let first = world.retire("report@1");
    let again = world.publish("again");
    assert_eq!((&again["version"]["id"], &again["reused"]), (&json!("report@2"), &json!(false)));
    assert_eq!(world.settled("report@2")["fingerprint"], first["fingerprint"]);
    assert_eq!(delete(&world, "/versions/report@9").status, 404);
}

#[test]
fn retention_keeps_the_newest_and_what_is_pinned_or_leased() {
    let world = configured("", "[store.retention]\nkeep = \"the last 3\"");
    let mut events = world.listen();
    // What is on its way into the archive is let go later: each is waited for.
    let publish = |n: u64| {
        publish_change(&world, &format!("v{n}"));
        world.archived(&format!("report@{n}"));
    };
    (1..=2).for_each(publish);
    pin(&world, "report@1", &json!({ "reason": "audit" }));
    let mount = world.send("POST", "/versions/report@2/mounts", &json!({ "holder": "a" })).json();
    (3..=6).for_each(publish);
    let kept = || ids(&world.get("/versions").json()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(kept(), ["report@6", "report@5", "report@4", "report@2", "report@1"]);
    events.until(|name, data| name == "version" && data["id"] == "report@3" && data["state"] == "retiring");
    let retired = world.until("report@3", |version| version["state"] == "retired");
    assert_eq!(retired["end_reason"], "given up by retention: it is not among \"the last 3\"");
    assert!(retired["ended_at"].is_string() && retired["holdings"] == json!([]), "{retired}");
    world.get("/versions/report@3/database").expect_problem(410, "retired");

    // What was held goes when nothing holds it any more, with the next publication at the latest.
    delete(&world, &format!("/versions/report@2/mounts/{}", mount["lease"].as_str().unwrap()));
    publish(7);
    assert_eq!(kept(), ["report@7", "report@6", "report@5", "report@1"]);
    delete(&world, "/versions/report@1/pin");
    publish(8);
    assert_eq!(kept(), ["report@8", "report@7", "report@6"]);
    assert_eq!(world.send("POST", "/stores/report/verify", &Value::Null).json()["ok"], true);
}

#[test]
fn retention_without_rules_keeps_everything() {
    let world = world();
    for n in 1..=6 {
        publish_change(&world, &format!("v{n}"));
    }
    assert_eq!(ids(&world.get("/versions").json()).len(), 6);
}
