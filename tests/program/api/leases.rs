//! `/leases`: who holds what, and that an administrator may take it back.

use std::path::Path;

use serde_json::{Value, json};

use crate::api::{configured, publish_change, world};
use crate::common::{Answer, World};

fn open(world: &World, version: &str, holder: &str) -> Value {
    let body = json!({ "holder": holder, "ttl_seconds": 600 });
    let answer = world.send("POST", &format!("/versions/{version}/mounts"), &body);
    assert_eq!(answer.status, 201, "{answer}");
    answer.json()
}

/// Who holds what, as `report@1 ann`.
fn held(world: &World, query: &str) -> Vec<String> {
    let list = world.get(&format!("/leases{query}")).json();
    let show = |lease: &Value| {
        format!("{} {}", lease["version"].as_str().unwrap(), lease["holder"].as_str().unwrap())
    };
    list["leases"].as_array().unwrap().iter().map(show).collect()
}

fn revoke(world: &World, lease: &Value, reason: &str) -> Answer {
    let reason = percent_encoding::utf8_percent_encode(reason, percent_encoding::NON_ALPHANUMERIC);
    let path = format!("/leases/{}?reason={reason}", lease["lease"].as_str().unwrap());
    world.request("DELETE", &path, &[], b"")
}

#[test]
fn open_leases_are_listed_with_who_holds_them() {
    let world = world();
    assert_eq!(held(&world, ""), [""; 0]);
    world.publish("first");
    publish_change(&world, "second");
    let first = open(&world, "report@2", "month-end");
    open(&world, "report@1", "ann");
    open(&world, "report@1", "bob");
    assert_eq!(held(&world, ""), ["report@1 ann", "report@1 bob", "report@2 month-end"]);
    assert_eq!(held(&world, "?holder=bob"), ["report@1 bob"]);
    assert_eq!(held(&world, "?store=report&holder=month-end"), ["report@2 month-end"]);
    world.get("/leases?store=other").expect_problem(404, "unknown_store");
    world.get("/leases?store=../x").expect_problem(400, "malformed");
    world.get("/leases?version=report@1").expect_problem(400, "malformed");
    let listed = world.get("/leases?holder=month-end").json()["leases"][0].clone();
    for field in ["lease", "version", "holder", "path", "expires_at"] {
        assert_eq!(listed[field], first[field], "{field}");
    }
    assert!(listed["actor"].as_str().unwrap().starts_with("uid "), "{listed}");
    assert!(listed["granted_at"].as_str() < listed["expires_at"].as_str(), "{listed}");
}

#[test]
fn a_lease_that_is_revoked_holds_nothing_any_more_and_that_is_written_down() {
    let world = world();
    world.publish("first");
    world.settled("report@1");
    let lease = open(&world, "report@1", "ann");
    let problem = world.request("DELETE", "/versions/report@1", &[], b"").expect_problem(409, "leased");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("report@1 is leased by ann until 2"), "{problem}");

    let answer = revoke(&world, &lease, "incident 4711");
    assert_eq!((answer.status, &answer.json()["holder"]), (200, &json!("ann")), "{answer}");
    assert_eq!(held(&world, ""), [""; 0]);
    let entry = world.get("/audit?action=revoke").json()["entries"][0].clone();
    assert_eq!(
        (&entry["details"]["reason"], &entry["details"]["holder"]),
        (&json!("incident 4711"), &json!("ann"))
    );
    assert_eq!(entry["details"]["lease"], lease["lease"]);
    assert_eq!(entry["version"], "report@1");
    let path = format!("/versions/report@1/mounts/{}", lease["lease"].as_str().unwrap());
    world.send("PUT", &path, &json!({})).expect_problem(404, "unknown_lease");
    world.retire("report@1");
    // By now whatever the lease was for is gone.
    assert!(!Path::new(lease["path"].as_str().unwrap()).exists());
    assert_eq!(world.get("/audit?verify=true").json()["verdict"]["ok"], true);
}

#[test]
fn what_others_hold_stays_when_one_lease_is_revoked() {
    let world = world();
    world.publish("first");
    world.settled("report@1");
    let (ann, bob) = (open(&world, "report@1", "ann"), open(&world, "report@1", "bob"));
    assert_eq!(revoke(&world, &ann, "incident").status, 200);
    assert_eq!(held(&world, ""), ["report@1 bob"]);
    assert!(Path::new(bob["path"].as_str().unwrap()).exists());
    world.request("DELETE", "/versions/report@1", &[], b"").expect_problem(409, "leased");
}

#[test]
fn a_lease_is_revoked_without_a_body() {
    let world = world();
    world.publish("first");
    let name = |lease: &Value| lease["lease"].as_str().unwrap().to_owned();
    let reason = || world.get("/audit?action=revoke").json()["entries"][0]["details"]["reason"].clone();

    let ann = name(&open(&world, "report@1", "ann"));
    let path = format!("/leases/{ann}?reason=incident%204711");
    assert_eq!(world.request("DELETE", &path, &[], b"").status, 200);
    assert_eq!(reason(), "incident 4711");

    let bob = name(&open(&world, "report@1", "bob"));
    world.request("DELETE", &format!("/leases/{bob}?reason="), &[], b"").expect_problem(422, "invalid");
    let with_body = world.send("DELETE", &format!("/leases/{bob}"), &json!({ "reason": "b" }));
    let problem = with_body.expect_problem(400, "malformed");
    assert!(problem["hint"].as_str().unwrap().contains("the parameter reason"), "{problem}");
    world.request("DELETE", &format!("/leases/{bob}?why=a"), &[], b"").expect_problem(400, "malformed");
    assert_eq!(world.request("DELETE", &format!("/leases/{bob}"), &[], b"").status, 200);
    assert_eq!(reason(), Value::Null);
    assert_eq!(held(&world, ""), [""; 0]);
}

#[test]
fn a_revocation_says_why_and_of_what() {
    let world = world();
    world.publish("first");
    let lease = open(&world, "report@1", "ann");
    for reason in ["", " ", "a\u{1b}[2J", &"x".repeat(501)] {
        revoke(&world, &lease, reason).expect_problem(422, "invalid");
    }
    for name in ["none", "%00", "..", &"x".repeat(5000)] {
        let answer = world.request("DELETE", &format!("/leases/{name}?reason=a"), &[], b"");
        assert!([404, 400].contains(&answer.status), "{name}: {answer}");
    }
    assert_eq!(held(&world, ""), ["report@1 ann"]);
    assert_eq!(world.get("/audit?action=revoke").json()["entries"], json!([]));
}

#[test]
fn a_lease_that_has_expired_is_not_listed() {
    let world = configured("[copies]\nmax_lease = \"1s\"", "");
    world.publish("first");
    let body = json!({ "holder": "ann", "ttl_seconds": 1 });
    assert_eq!(world.send("POST", "/versions/report@1/mounts", &body).status, 201);
    // It ends within a second by itself; a list that still has it comes before that.
    while !held(&world, "").is_empty() {}
    assert_eq!(world.get("/audit?action=revoke").json()["entries"], json!([]));
}

#[test]
fn nobody_takes_more_leases_than_the_configuration_lets_one_caller_have() {
    let world = configured("[copies]\nmax_leases = 5\nmax_leases_per_caller = 2", "");
    world.publish("first");
    let (first, _) = (open(&world, "report@1", "ann"), open(&world, "report@1", "bob"));
    let wish = json!({ "holder": "carl", "ttl_seconds": 600 });
    let problem =
        world.send("POST", "/versions/report@1/mounts", &wish).expect_problem(429, "too_many_leases");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("uid ") && detail.ends_with("may have 2 leases open at once, and has 2"),
        "{problem}"
    );
    assert!(problem["hint"].as_str().unwrap().contains("copies.max_leases_per_caller"), "{problem}");

    let actor = world.get("/leases").json()["leases"][0]["actor"].clone();
    let bounds =
        json!({ "open": 2, "most": 5, "most_per_caller": 2, "callers": [{ "actor": actor, "open": 2 }] });
    assert_eq!(world.get("/leases?holder=nobody").json()["bounds"], bounds, "whatever is listed");
    assert_eq!(world.get("/capacity").json()["leases"], bounds);
    let metrics = String::from_utf8(world.get("/metrics").body).unwrap();
    for line in
        ["asat_lease_bound_used_ratio{of=\"all\"} 0.4\n", "asat_lease_bound_used_ratio{of=\"caller\"} 1.0\n"]
    {
        assert!(metrics.contains(line), "{line}{metrics}");
    }

    let path = format!("/versions/report@1/mounts/{}", first["lease"].as_str().unwrap());
    assert_eq!(world.send("PUT", &path, &json!({ "ttl_seconds": 600 })).status, 200, "it is held already");
    assert_eq!(world.request("DELETE", &path, &[], b"").status, 204);
    assert_eq!(world.send("POST", "/versions/report@1/mounts", &wish).status, 201);
}
