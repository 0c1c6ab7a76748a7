//! `unique_labels`, and attributes of the publisher's own.

use serde_json::json;

use crate::api::{configured, ids, publish_change, world};

#[test]
fn a_label_that_another_version_has_is_refused_where_labels_are_unique() {
    let mut world = configured("", "unique_labels = true");
    world.publish("größer close");
    world.settled("report@1");
    world.sqlite().execute("insert into ledger values ('c')", []).unwrap();
    for label in ["größer close", " GRÖSSER  CLOSE ", "gro\u{308}ßer close"] {
        let problem =
            world.send("POST", "/snapshots", &json!({ "label": label })).expect_problem(409, "label_taken");
        assert!(problem["detail"].as_str().unwrap().contains("report@1"), "{problem}");
    }
    assert_eq!(ids(&world.get("/versions").json()), ["report@1"]);
    publish_change(&world, "another");
    world.stop();
    world.start();
    for label in ["ANOTHER", "grösser close"] {
        world.send("POST", "/snapshots", &json!({ "label": label })).expect_problem(409, "label_taken");
    }
}

#[test]
fn the_same_publication_of_the_same_version_is_answered_again_though_labels_are_unique() {
    for checks in ["", "\n[[store.check]]\nname = \"sound\"\nbuiltin = \"quick_check\""] {
        let world = configured("", &format!("unique_labels = true{checks}"));
        let first = world.publish("close");
        world.settled("report@1");
        for _ in 0..2 {
            let again = world.publish("close");
            assert_eq!(again["reused"], true, "{again}");
            assert_eq!(again["publication"], first["publication"], "{again}");
        }
        let other = json!({ "label": "close", "note": "n" });
        world.send("POST", "/snapshots", &other).expect_problem(409, "label_taken");
        assert_eq!(world.get("/versions/report@1").json()["publications"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn attributes_of_ones_own_are_kept_and_found() {
    let mut world = world();
    let attributes = json!({ "batch": 41, "ratio": 0.5, "final": true, "größe": "a:b", "none": null });
    let answer = world.send(
        "POST",
        "/snapshots",
        &json!({ "label": "close", "note": "n 1", "attributes": attributes }),
    );
    assert_eq!(answer.status, 201, "{answer}");
    let kept = json!({ "batch": 41, "ratio": 0.5, "final": true, "größe": "a:b" });
    assert_eq!(answer.json()["publication"]["attributes"], kept);
    publish_change(&world, "other");
    world.kill();
    world.start();
    assert_eq!(world.get("/versions/report@1").json()["publications"][0]["attributes"], kept);
    for (query, found) in [
        ("attribute=batch:41", true),
        ("attribute=ratio:0.5", true),
        ("attribute=final:true", true),
        ("attribute=gr%C3%B6%C3%9Fe:a:b", true),
        ("attribute=batch:41&label=close", true),
        ("note=n%201", true),
        ("attribute=batch:41&label=other", false),
        ("attribute=batch:42", false),
        ("attribute=none:null", false),
        ("note=n", false),
    ] {
        let list = world.get(&format!("/versions?{query}")).json();
        assert_eq!(ids(&list), if found { vec!["report@1"] } else { vec![] }, "{query}");
    }
    for query in ["attribute=batch", "attribute=", "attribute=:41"] {
        world.get(&format!("/versions?{query}")).expect_problem(400, "malformed");
    }
}

#[test]
fn attributes_that_are_none_are_refused() {
    let world = world();
    let many: serde_json::Map<_, _> = (0..33).map(|number| (format!("key {number}"), json!(1))).collect();
    for attributes in [
        json!({ "a": [] }),
        json!({ "a": { "b": 1 } }),
        json!({ "a:b": 1 }),
        json!({ "a=b": 1 }),
        json!({ "": 1 }),
        json!({ "a": "\u{1b}[2J" }),
        json!({ "x".repeat(65): 1 }),
        json!({ "a": "y".repeat(4096) }),
        json!({ "asat.marker": "41" }),
        json!(many),
        json!([1]),
        json!("a"),
    ] {
        let body = json!({ "attributes": attributes });
        world.send("POST", "/snapshots", &body).expect_problem(422, "invalid");
    }
    let null = json!({ "attributes": null });
    assert_eq!(world.send("POST", "/snapshots", &null).status, 201);
}
