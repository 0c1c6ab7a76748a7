//! `GET /events`: server-sent events.

use serde_json::{Value, json};

use crate::api::{publish_change, world};
use crate::common::events::Event;

fn named<'a>(events: &'a [Event], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|(of, _)| of == name).map(|(_, data)| data).collect()
}

#[test]
fn a_listener_hears_of_publications_and_of_every_state_of_a_version() {
    let world = world();
    let mut events = world.listen();
    assert!(
        events.head.contains("200 OK") && events.head.contains("content-type: text/event-stream"),
        "{}",
        events.head
    );
    let published = world.publish("close");
    let heard = events.until(|name, _| name == "publication");
    let publication = named(&heard, "publication")[0];
    assert_eq!(
        *publication,
        json!({ "version": "report@1", "reused": false, "publication": published["publication"] })
    );
    let ready = named(&heard, "version");
    assert_eq!(ready.last().unwrap()["id"], "report@1");

    world.publish("again");
    let heard = events.until(|name, _| name == "publication");
    assert_eq!(named(&heard, "publication")[0]["reused"], true);

    world.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit" }));
    events.until(|name, data| name == "version" && data["pin"]["reason"] == "audit");
    world.request("DELETE", "/versions/report@1/pin", &[], b"");
    events.until(|name, data| name == "version" && data["pin"].is_null());
    world.settled("report@1");
    world.request("DELETE", "/versions/report@1", &[], b"");
    let heard = events.until(|name, data| name == "version" && data["state"] == "retired");
    assert_eq!(*heard.last().map(|(_, version)| version).unwrap(), world.get("/versions/report@1").json());
}

#[test]
fn a_listener_hears_of_leases_from_grant_to_end() {
    let world = world();
    world.publish("close");
    let mut events = world.listen();
    let mount = world.send("POST", "/versions/report@1/mounts", &json!({ "holder": "a" })).json();
    let heard = events.until(|name, _| name == "lease");
    assert_eq!(named(&heard, "lease"), [&mount]);
    let path = format!("/versions/report@1/mounts/{}", mount["lease"].as_str().unwrap());
    let renewed = world.send("PUT", &path, &json!({ "ttl_seconds": 60 })).json();
    assert_eq!(named(&events.until(|name, _| name == "lease"), "lease"), [&renewed]);
    world.request("DELETE", &path, &[], b"");
    let ended = json!({ "lease": mount["lease"], "ended": true });
    assert_eq!(named(&events.until(|name, _| name == "lease"), "lease"), [&ended]);
}

#[test]
fn a_large_cut_tells_how_far_it_is() {
    let world = world();
    world
        .sqlite()
        .execute_batch("pragma page_size = 512; vacuum; insert into ledger values (randomblob(2000000))")
        .unwrap();
    let mut events = world.listen();
    let published = world.publish("large");
    let pages = published["version"]["size_bytes"].as_u64().unwrap() / 512;
    // Where a snapshot holds it first, its pages are read later.
    let phase = if world.ground.is_volume() { "archive" } else { "cut" };
    let heard = events.until(|name, data| name == "progress" && data["phase"] == "sync");
    let progress = named(&heard, "progress");
    let of = |phase: &str| -> Vec<&Value> {
        progress.iter().copied().filter(|progress| progress["phase"] == phase).collect()
    };
    let said = |phase: &str, done: u64, total: u64| json!({ "subject": "report@1", "phase": phase, "unit": "pages", "done": done, "total": total });
    assert_eq!(**of(phase).last().unwrap(), said(phase, pages, pages));
    // To compress and write what was read is the longer part of it, and counts by itself.
    assert_eq!((**of("store").first().unwrap()).clone(), said("store", 0, pages));
    assert_eq!(of("sync"), [&said("sync", 0, 0)]);
    let order: Vec<&str> = progress.iter().map(|progress| progress["phase"].as_str().unwrap()).collect();
    assert!(
        order.is_sorted_by_key(|name| [phase, "store", "sync"].iter().position(|of| of == name)),
        "{order:?}"
    );
    for phase in [phase, "store"] {
        let done: Vec<u64> = of(phase).iter().map(|progress| progress["done"].as_u64().unwrap()).collect();
        assert!(done.is_sorted(), "{done:?}");
    }
}

#[test]
fn every_listener_hears_everything() {
    let world = world();
    let mut listeners = [world.listen(), world.listen(), world.listen()];
    for label in ["1", "2"] {
        publish_change(&world, label);
    }
    for events in &mut listeners {
        for label in ["1", "2"] {
            let heard = events.until(|name, _| name == "publication");
            assert_eq!(heard.last().map(|(_, data)| &data["publication"]["label"]).unwrap(), label);
        }
    }
}

#[test]
fn a_listener_does_not_keep_the_daemon_from_stopping() {
    let mut world = world();
    let mut events = world.listen();
    world.publish("close");
    assert!(world.stop().success());
    while events.next().is_some() {}
}
