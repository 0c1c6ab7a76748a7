//! Giving a version up, and bringing it back while its grace lasts.

use serde_json::{Value, json};

use crate::api::{configured, publish_change};
use crate::common::World;

const WEEK: &str = "[retention]\ngrace = \"7d\"";

fn patient() -> World {
    let world = configured(WEEK, "");
    publish_change(&world, "first");
    publish_change(&world, "second");
    ["report@1", "report@2"].into_iter().for_each(|id| _ = world.settled(id));
    world
}

fn state(world: &World, id: &str) -> Value {
    world.get(&format!("/versions/{id}")).json()["state"].clone()
}

#[test]
fn a_retired_version_is_brought_back_with_what_was_in_it() {
    let world = patient();
    let before = world.get("/versions/report@1/database").body;
    let plan = world.get("/versions/report@1/retirement?reason=mistake").json();
    assert_eq!(
        (&plan["state"], &plan["end_reason"]),
        (&json!("retired"), &json!("retired on request: mistake"))
    );
    assert!(plan["purge_after"].is_string(), "{plan}");
    assert_eq!(state(&world, "report@1"), "ready", "nothing was done");

    let retired = world.request("DELETE", "/versions/report@1?reason=mistake", &[], b"");
    assert_eq!((retired.status, &retired.json()["state"]), (200, &json!("retired")), "{retired}");
    assert!(retired.json()["purge_after"].as_str() > retired.json()["ended_at"].as_str(), "{retired}");
    let problem = world.get("/versions/report@1/database").expect_problem(410, "retired");
    assert!(problem["hint"].as_str().unwrap().contains("asat unretire report@1"), "{problem}");
    assert_eq!(world.get("/capacity").json()["waiting"]["versions"], 1);
    assert_eq!(world.get("/stores/report/retention").json()["waiting"]["versions"], 1);
    assert_eq!(world.get("/versions?state=retired").json()["versions"][0]["id"], "report@1");

    let back = world.request("POST", "/versions/report@1/unretire?reason=needed", &[], b"");
    assert_eq!((back.status, &back.json()["state"]), (200, &json!("ready")), "{back}");
    assert_eq!(world.get("/versions/report@1/database").body, before);
    let entries = world.get("/audit?version=report@1").json()["entries"].clone();
    assert_eq!(
        (&entries[0]["action"], &entries[0]["details"]["reason"]),
        (&json!("unretire"), &json!("needed"))
    );
    assert_eq!(
        (&entries[1]["action"], &entries[1]["details"]["reason"]),
        (&json!("retire"), &json!("retired on request: mistake"))
    );
}

#[test]
fn what_is_retired_now_cannot_be_brought_back() {
    let world = patient();
    let retired = world.request("DELETE", "/versions/report@1?now=true", &[], b"").json();
    assert_eq!(retired["purge_after"], Value::Null, "{retired}");
    world.until("report@1", |version| version["state"] == "retired");
    world.request("POST", "/versions/report@1/unretire", &[], b"").expect_problem(410, "purged");
    world.request("POST", "/versions/report@7/unretire", &[], b"").expect_problem(404, "unknown_version");
    world.request("DELETE", "/versions/report@2?reason=", &[], b"").expect_problem(422, "invalid");
    world.request("DELETE", "/versions/report@2?why=x", &[], b"").expect_problem(400, "malformed");
    assert_eq!(state(&world, "report@2"), "ready");
}

#[test]
fn the_newest_version_is_not_published_again_by_what_is_the_same() {
    let mut world = patient();
    assert_eq!(world.request("DELETE", "/versions/report@2", &[], b"").status, 200);
    let again = world.publish("again");
    assert_eq!((&again["version"]["id"], &again["reused"]), (&json!("report@3"), &json!(false)), "{again}");
    assert!(world.stop().success());
    world.start();
    let back = world.request("POST", "/versions/report@2/unretire", &[], b"");
    assert_eq!(back.status, 200, "{back}");
    let bodies = ["report@2", "report@3"].map(|id| world.get(&format!("/versions/{id}/database")).body);
    assert_eq!(bodies[0], bodies[1]);
}
