//! `POST /snapshots`.

use std::collections::BTreeSet;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

use crate::api::{as_published, publish_change, world};
use crate::common::{World, try_request};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn publish_with_key(world: &World, key: &str, body: &Value) -> crate::common::Answer {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    world.request("POST", "/snapshots", &headers, body.to_string().as_bytes())
}

#[test]
fn a_publication_answers_201_with_the_version_and_where_it_is() {
    let world = world();
    let said = json!({
        "store": "report", "label": "2026-11-19 close", "certified_by": "ops", "business_date": "2026-11-19",
        "note": "two lines\nand a 🎉",
    });
    let answer = world.send("POST", "/snapshots", &said);
    assert_eq!(answer.status, 201, "{answer}");
    assert_eq!(answer.header("location"), Some("/v1/versions/report@1"));
    let published = answer.json();
    let parts =
        ["elapsed_ms", "hold", "publication", "reused", "snapshot_ms", "version", "writer_blocked_ms"];
    assert_eq!(keys(&published), BTreeSet::from(parts));
    assert_eq!(published["reused"], false);
    for duration in ["writer_blocked_ms", "snapshot_ms", "elapsed_ms"] {
        let ms = published[duration].as_f64().unwrap();
        assert!((0.0..60_000.0).contains(&ms), "{duration} is {ms}");
    }

    let version = &published["version"];
    for field in [
        "id",
        "store",
        "number",
        "state",
        "cut_at",
        "fingerprint",
        "size_bytes",
        "page_size",
        "holdings",
        "publications",
        "pin",
        "leases",
        "path",
    ] {
        // From a snapshot, the fingerprint comes a moment later.
        let later = field == "fingerprint" && world.ground.is_volume();
        assert!(!version[field].is_null() || later || ["pin", "path"].contains(&field), "{field}: {version}");
        assert!(keys(version).contains(field), "{field}: {version}");
    }
    let fixed = json!({
        "id": "report@1", "store": "report", "number": 1, "state": "ready", "page_size": 4096,
        "size_bytes": std::fs::metadata(world.store()).unwrap().len(), "pin": null, "leases": 0, "path": null,
    });
    for (field, expected) in fixed.as_object().unwrap() {
        assert_eq!(version[field], *expected, "{field}");
    }
    let holder = if world.ground.is_volume() { "snapshot" } else { "archive" };
    assert_eq!(version["holdings"][0]["kind"], holder);
    assert!(version["cut_at"].as_str().unwrap() >= published["publication"]["at"].as_str().unwrap());

    let publication = &published["publication"];
    assert_eq!(
        keys(publication),
        BTreeSet::from(["at", "attributes", "business_date", "certified_by", "checks", "label", "note"])
    );
    for field in ["label", "certified_by", "business_date", "note"] {
        assert_eq!(publication[field], said[field], "{field}");
    }
    assert_eq!(version["publications"], json!([publication]));
    let found = world.get(answer.header("location").unwrap()).json();
    assert_eq!(as_published(&found), as_published(version));
    assert!(world.ground.is_volume() || found == *version, "{found}");
    let settled = world.settled("report@1");
    assert_eq!(as_published(&settled), as_published(version));
    assert!(settled["fingerprint"].is_string(), "{settled}");
    let archived =
        settled["holdings"].as_array().unwrap().iter().find(|holding| holding["kind"] == "archive");
    assert!(archived.unwrap()["bytes"].as_u64().unwrap() > 0, "{settled}");
}

#[test]
fn with_one_store_nothing_has_to_be_said() {
    let world = world();
    let answer = world.request("POST", "/snapshots", &[], b"");
    assert_eq!(answer.status, 201, "{answer}");
    let publication = &answer.json()["publication"];
    for field in ["label", "certified_by", "business_date", "note"] {
        assert_eq!(publication[field], Value::Null, "{field}");
    }
    // What is null counts as left out.
    let nulls =
        json!({ "store": null, "label": null, "certified_by": null, "business_date": null, "note": null });
    assert_eq!(world.send("POST", "/snapshots", &nulls).status, 200);
}

#[test]
fn an_unchanged_store_is_published_again_as_the_version_that_is_there() {
    let world = world();
    let first = world.publish("first");
    let settled = world.settled("report@1");
    let answer = world.send("POST", "/snapshots", &json!({ "label": "second" }));
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(answer.header("location"), Some("/v1/versions/report@1"));
    let second = answer.json();
    assert_eq!(second["reused"], true);
    assert_eq!(second["snapshot_ms"], 0.0);
    for field in ["fingerprint", "holdings", "cut_at"] {
        assert_eq!(second["version"][field], settled[field], "{field}");
    }
    assert_eq!(second["version"]["publications"], json!([first["publication"], second["publication"]]));

    assert_eq!(publish_change(&world, "third")["version"]["id"], "report@2");
    // A change that is taken back by another gives the old content a new version: each is a moment in time.
    world.sqlite().execute("delete from ledger where entry = 'third'", []).unwrap();
    let fourth = world.publish("fourth");
    assert_eq!((&fourth["reused"], &fourth["version"]["id"]), (&json!(false), &json!("report@3")));
}

#[test]
fn an_unchanged_store_is_published_again_without_its_lock_and_a_commit_is_never_missed() {
    let world = world();
    for n in 1..=3 {
        let id = publish_change(&world, &format!("v{n}"))["version"]["id"].as_str().unwrap().to_owned();
        world.settled(&id);
        // What was written a moment ago could be written again within the same tick of the file system's clock.
        let written = || fs::metadata(world.store()).unwrap().modified().unwrap().elapsed();
        while written().is_ok_and(|ago| ago < Duration::from_millis(50)) {
            thread::yield_now();
        }
        world.publish("is compared, and seen from then on");
        let writer = world.sqlite();
        writer.execute_batch("begin exclusive").unwrap();
        let held = world.publish("held");
        assert_eq!((&held["reused"], &held["version"]["id"]), (&json!(true), &json!(id)));
        let again = world.publish("held");
        assert_eq!((&again["reused"], &again["hold"]), (&json!(true), &json!("nobody")));
        assert_eq!(again["publication"], held["publication"], "the same was said before");
        writer.execute_batch("rollback").unwrap();
        drop(writer);
        let publications = world.get(&format!("/versions/{id}")).json()["publications"].clone();
        assert_eq!(publications.as_array().unwrap().len(), 3);
    }
}

#[test]
fn what_is_answered_again_is_as_it_is_at_that_moment() {
    let world = world();
    world.publish("close");
    world.settled("report@1");
    let again = || world.publish("close")["version"].clone();
    // The first one may have to look at the content, and later ones need not.
    let [_, _, before] = [again(), again(), again()];
    assert_eq!(before, world.get("/versions/report@1").json());
    let lease = world.send("POST", "/versions/report@1/mounts", &json!({ "holder": "ann" }));
    assert_eq!(again()["leases"], 1);
    world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit" }));
    assert_eq!(again()["pin"]["reason"], "audit");
    let lease = lease.json()["lease"].as_str().unwrap().to_owned();
    world.request("DELETE", &format!("/versions/report@1/mounts/{lease}"), &[], b"");
    assert_eq!((&again()["leases"], &again()["pin"]["reason"]), (&json!(0), &json!("audit")));
    world.request("DELETE", "/versions/report@1/pin", &[], b"");
    assert_eq!(again()["pin"], json!(null));
    assert_eq!(again(), world.get("/versions/report@1").json());
    world.request("DELETE", "/versions/report@1", &[], b"");
    assert_eq!(again()["id"], "report@2", "nothing is said of what was given up");
}

#[test]
fn a_request_with_the_same_idempotency_key_gets_the_same_answer_whatever_happened_since() {
    let world = world();
    let body = json!({ "label": "close", "note": "n" });
    let first = publish_with_key(&world, "key-1", &body);
    assert_eq!(first.status, 201, "{first}");
    let reused = publish_with_key(&world, "key-2", &body);
    assert_eq!(reused.status, 200, "{reused}");
    publish_change(&world, "later");

    for (key, original) in [("key-1", &first), ("key-2", &reused)] {
        for body in [&body, &json!({ "note": "n", "label": "close", "certified_by": null })] {
            let again = publish_with_key(&world, key, body);
            assert_eq!(again.status, original.status, "{again}");
            assert_eq!(again.header("location"), original.header("location"));
            for field in ["publication", "reused", "writer_blocked_ms", "elapsed_ms"] {
                assert_eq!(again.json()[field], original.json()[field], "{field}");
            }
            assert_eq!(again.json()["version"]["id"], "report@1");
        }
    }
    assert_eq!(world.get("/versions/report@1").json()["publications"].as_array().unwrap().len(), 2);
}

#[test]
fn an_idempotency_key_outlives_the_daemon() {
    let mut world = world();
    let body = json!({ "label": "close" });
    let first = publish_with_key(&world, "key", &body).json();
    world.kill();
    world.start();
    let again = publish_with_key(&world, "key", &body);
    assert_eq!((again.status, &again.json()["publication"]), (201, &first["publication"]));
}

#[test]
fn an_idempotency_key_is_not_taken_for_another_publication() {
    let world = world();
    assert_eq!(publish_with_key(&world, "key", &json!({ "label": "close" })).status, 201);
    for other in [json!({}), json!({ "label": "open" }), json!({ "label": "close", "note": "more" })] {
        let problem = publish_with_key(&world, "key", &other).expect_problem(422, "key_reused");
        assert!(problem["detail"].as_str().unwrap().contains("key"), "{problem}");
    }
    assert_eq!(world.get("/versions/report@1").json()["publications"].as_array().unwrap().len(), 1);
}

#[test]
fn of_several_stores_one_must_be_named() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table t(x)").unwrap();
    world.add_store("second", "create table u(y)", "");
    world.start_under_contract();
    let problem = world.send("POST", "/snapshots", &json!({})).expect_problem(422, "invalid");
    assert!(problem["hint"].as_str().unwrap().contains("report, second"), "{problem}");
    for store in ["report", "second"] {
        let answer = world.send("POST", "/snapshots", &json!({ "store": store }));
        assert_eq!((answer.status, &answer.json()["version"]["id"]), (201, &json!(format!("{store}@1"))));
    }
    world.send("POST", "/snapshots", &json!({ "store": "third" })).expect_problem(404, "unknown_store");
}

#[test]
fn publications_at_the_same_time_are_all_acknowledged_and_share_one_content() {
    let world = world();
    let socket = world.socket();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let publish = |n: usize| {
            let socket = &socket;
            move || {
                let body = json!({ "label": format!("p{n}") }).to_string();
                let headers = [("Content-Type", "application/json")];
                try_request(socket, "POST", "/snapshots", &headers, body.as_bytes()).unwrap().json()
            }
        };
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(publish(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer["reused"] == false).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer["version"]["id"] == "report@1"), "{answers:?}");
    let labels: BTreeSet<String> = world.get("/versions/report@1").json()["publications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|publication| publication["label"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(labels, (0..8).map(|n| format!("p{n}")).collect());
}
