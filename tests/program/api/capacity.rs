//! `/capacity` and `/versions/{id}/why`: how the guard stands where nothing is wrong, and what is refused.

use serde_json::{Value, json};

use crate::api::{configured, publish_change, world};

#[test]
fn where_nothing_fills_nothing_is_planned_and_no_alarm_is_on() {
    let world = world();
    publish_change(&world, "first");
    let capacity = world.get("/capacity").json();
    let fields: Vec<&str> = capacity.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "alarms",
        "brakes",
        "last_actions",
        "leases",
        "looked_at",
        "looks",
        "plan",
        "precedence",
        "targets",
        "tick_ms",
        "trouble",
        "waiting",
    ]
    .to_vec();
    expected.sort_unstable();
    assert_eq!(fields, expected);
    assert_eq!((&capacity["alarms"], &capacity["trouble"]), (&json!([]), &Value::Null), "{capacity}");
    let rungs = ["extend", "demote", "hurry", "brake", "retire", "refuse", "alarm"];
    assert_eq!(capacity["precedence"]["ladder"], json!(rungs));
    let says = capacity["precedence"]["says"].as_str().unwrap();
    assert!(says.starts_with("retention before space: "), "{says}");
    if world.ground.is_shown() {
        let brakes = capacity["brakes"].as_array().unwrap();
        let known = |brake: &Value| brake["held_now"].is_boolean() && brake["total_ms"].is_u64();
        assert!(!brakes.is_empty() && brakes.iter().all(known), "{capacity}");
    } else {
        assert_eq!((&capacity["plan"], &capacity["last_actions"]), (&json!([]), &json!([])), "{capacity}");
        assert_eq!(capacity["brakes"], json!([]), "there is no volume whose writers could be held");
    }
}

#[test]
fn the_configured_precedence_is_the_one_that_is_told() {
    for (config, says) in [
        ("space_before_retention = true", "space before retention: "),
        ("ladder = [\"extend\", \"alarm\"]", "retention before space: no version is ever given up"),
    ] {
        let world = configured(&format!("[guard]\n{config}"), "");
        let told = world.get("/capacity").json()["precedence"]["says"].as_str().unwrap().to_owned();
        assert!(told.starts_with(says), "{told}");
    }
}

#[test]
fn a_version_tells_what_was_done_for_it_and_how_it_ended() {
    let world = world();
    publish_change(&world, "first");
    world.settled("report@1");
    let why = world.get("/versions/report@1/why").json();
    assert_eq!(why["version"], world.get("/versions/report@1").json());
    if !world.ground.is_volume() {
        assert_eq!(why["actions"], json!([]), "nothing was ever done");
    }
    publish_change(&world, "second");
    let latest = world.get("/versions/report@latest/why?limit=1000").json();
    assert_eq!(latest["version"]["id"], "report@2");

    world.retire("report@1");
    let ended = world.get("/versions/report@1/why?limit=1").json();
    let (state, reason) = (&ended["version"]["state"], &ended["version"]["end_reason"]);
    assert_eq!((state, reason), (&json!("retired"), &json!("retired on request")));
    assert!(ended["version"]["ended_at"].is_string(), "{ended}");
}

#[test]
fn a_question_that_means_nothing_is_refused() {
    let world = world();
    publish_change(&world, "first");
    for (path, status, code) in [
        ("/versions/report@9/why", 404, "unknown_version"),
        ("/versions/other@1/why", 404, "unknown_store"),
        ("/versions/report/why", 400, "malformed"),
        ("/versions/report@1/why?limit=0", 422, "invalid"),
        ("/versions/report@1/why?limit=1001", 422, "invalid"),
        ("/versions/report@1/why?limit=-1", 400, "malformed"),
        ("/versions/report@1/why?most=3", 400, "malformed"),
    ] {
        world.get(path).expect_problem(status, code);
    }
}

#[test]
fn an_alarm_that_is_not_on_cannot_be_acknowledged() {
    let world = world();
    let path = "/capacity/alarms/acknowledge";
    let problem =
        world.send("POST", path, &json!({ "key": "group vg: short" })).expect_problem(404, "not_found");
    assert!(problem["detail"].as_str().unwrap().contains("group vg: short"), "{problem}");
    let long = world.send("POST", path, &json!({ "key": "x".repeat(9999) })).expect_problem(404, "not_found");
    assert!(long["detail"].as_str().unwrap().len() < 300, "{long}");
    for (body, status, code) in [
        (json!({}), 422, "invalid"),
        (json!({ "key": 7 }), 422, "invalid"),
        (json!({ "key": "a", "by": "me" }), 422, "invalid"),
        (json!(["a"]), 422, "invalid"),
    ] {
        world.send("POST", path, &body).expect_problem(status, code);
    }
    world.request("POST", path, &[], b"key=a").expect_problem(415, "unsupported_media_type");
}
