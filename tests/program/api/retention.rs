//! Retention: the plan is told before anything goes, and what goes is what it said.

use serde_json::{Value, json};

use crate::api::{ids, publish_change, world};
use crate::common::{Answer, World};

const PLAN: &str = "/stores/report/retention";

/// A daemon with this many versions in the archive; every third has the label of a month's end.
fn with_versions(count: u64) -> World {
    let world = world();
    for n in 1..=count {
        publish_change(&world, if n % 3 == 0 { "month-end" } else { "close" });
        world.archived(&format!("report@{n}"));
    }
    world
}

/// The plan by other rules.
fn planned_by(world: &World, rules: &Value) -> Answer {
    planned_by_text(world, &rules.to_string())
}

fn planned_by_text(world: &World, rules: &str) -> Answer {
    let rules = percent_encoding::utf8_percent_encode(rules, percent_encoding::NON_ALPHANUMERIC);
    world.get(&format!("{PLAN}?rules={rules}"))
}

/// The versions that go by a plan, and those that stay.
fn split(plan: &Value) -> (Vec<&str>, Vec<&str>) {
    let with = |keep: bool| {
        let versions = plan["versions"].as_array().unwrap().iter();
        versions
            .filter(|version| version["keep"] == keep)
            .map(|version| version["id"].as_str().unwrap())
            .collect()
    };
    (with(false), with(true))
}

/// Starts the daemon again with these rules, and has it look at what has to be done: it does as a lease expires.
fn restart_with(world: &mut World, rules: &str) {
    assert!(world.stop().success());
    rules.clone_into(&mut world.store_config);
    world.start_under_contract();
    let lease = json!({ "holder": "tick", "ttl_seconds": 1 });
    assert_eq!(world.send("POST", "/versions/report@latest/mounts", &lease).status, 201);
}

#[test]
fn without_rules_everything_stays() {
    let world = with_versions(2);
    let plan = world.get(PLAN).json();
    assert_eq!(split(&plan), (vec![], vec!["report@1", "report@2"]));
    let rules = json!({ "keep": null, "at_most_bytes": null, "at_least": 0, "labels": [] });
    assert_eq!((&plan["store"], &plan["rules"], &plan["frees_bytes"]), (&json!("report"), &rules, &json!(0)));
    assert_eq!(plan["archive_bytes"], world.get("/stores/report/archive").json()["bytes"]);
    assert_eq!(plan["versions"][0]["why"], "no rule gives it up");
    assert_eq!(plan["versions"][1]["why"], "it is the newest version");
    world.get("/stores/none/retention").expect_problem(404, "unknown_store");
    world.get("/stores/@/retention").expect_problem(400, "malformed");
}

#[test]
fn other_rules_are_planned_by_and_change_nothing() {
    let world = with_versions(7);
    let pin = world.send("PUT", "/versions/report@2/pin", &json!({ "reason": "audit" }));
    assert_eq!(pin.status, 200);
    let rules = json!({
        "keep": "the last 2", "at_most_bytes": null, "at_least": 3,
        "labels": [{ "pattern": "month-*", "keep": "all for 1 year" }],
    });
    let plan = planned_by(&world, &rules).json();
    assert_eq!(plan["rules"], rules);
    let (go, stay) = split(&plan);
    assert_eq!(go, ["report@1", "report@4"]);
    assert_eq!(stay, ["report@2", "report@3", "report@5", "report@6", "report@7"]);
    let why = |n: usize| plan["versions"][n - 1]["why"].as_str().unwrap();
    assert_eq!(why(1), "it is not among \"the last 2\"");
    assert_eq!(why(2), "report@2 is pinned: audit");
    assert_eq!(why(3), "label \"month-*\": \"all for 1 year\"");

    let plan = planned_by(&world, &json!({ "at_most_bytes": 1 })).json();
    assert_eq!(split(&plan).0, ["report@1", "report@3", "report@4", "report@5", "report@6"]);
    assert!(plan["over_bytes"].as_u64().unwrap() > 0);
    assert!(plan["versions"][0]["why"].as_str().unwrap().starts_with("at_most = 1 bytes"), "{plan}");
    assert_eq!(ids(&world.get("/versions").json()).len(), 7);
}

#[test]
fn rules_that_cannot_be_understood_are_refused() {
    let world = world();
    for (rules, said) in [
        (json!({ "keep": "everything" }), "keep: it begins with \"everything\""),
        (json!({ "keep": "all forever, then daily forever" }), "contradict"),
        (json!({ "labels": [{ "pattern": "a", "keep": "" }] }), "labels[0].keep: it is empty"),
        (json!({ "keep_last": 3 }), "`keep_last`"),
        (json!({ "keep": "x".repeat(30_000) }), "keep: it begins with \"xxx"),
        (json!({ "labels": vec![json!({ "pattern": "a", "keep": "all forever" }); 101] }), "100"),
    ] {
        let answer = planned_by(&world, &rules);
        let problem = answer.expect_problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
        assert!(answer.body.len() < 1000, "{answer}");
    }
    for text in ["", "x", "1", "{\"keep\":"] {
        let problem = planned_by_text(&world, text).expect_problem(422, "invalid");
        assert!(problem["detail"].as_str().unwrap().starts_with("rules: "), "{problem}");
    }
    world.get("/stores/none/retention?rules={}").expect_problem(404, "unknown_store");
}

#[test]
fn what_goes_for_space_is_what_the_plan_said() {
    let mut world = with_versions(6);
    let bytes = world.get(PLAN).json()["archive_bytes"].as_u64().unwrap();
    let at_most = bytes - 1;
    let plan = planned_by(&world, &json!({ "at_most_bytes": at_most, "at_least": 2 })).json();
    let (go, stay) = split(&plan);
    assert_eq!((go.first(), plan["over_bytes"].as_u64()), (Some(&"report@1"), Some(0)), "{plan}");
    restart_with(&mut world, &format!("[store.retention]\nat_most = \"{at_most} B\"\nat_least = 2"));
    for version in &go {
        let retired = world.until(version, |version| version["state"] == "retired");
        let reason = retired["end_reason"].as_str().unwrap();
        assert!(reason.starts_with("given up by retention: at_most = "), "{reason}");
    }
    let listed = world.get("/versions").json();
    let mut left = ids(&listed);
    left.reverse();
    assert_eq!(left, stay);
    assert_eq!(world.get(PLAN).json()["rules"]["at_least"], 2);
    assert_eq!(world.send("POST", "/stores/report/verify", &Value::Null).json()["ok"], true);
}

#[test]
fn what_goes_by_its_label_is_what_the_plan_said() {
    let mut world = with_versions(7);
    let rules = json!({ "keep": "the last 1", "labels": [{ "pattern": "month-*", "keep": "the last 1" }] });
    let plan = planned_by(&world, &rules).json();
    let (go, stay) = split(&plan);
    assert_eq!(stay, ["report@6", "report@7"]);
    let label = "label = [{ pattern = \"month-*\", keep = \"the last 1\" }]";
    restart_with(&mut world, &format!("[store.retention]\nkeep = \"the last 1\"\n{label}"));
    for version in go {
        world.until(version, |version| version["state"] == "retired");
    }
    let listed = world.get("/versions").json();
    assert_eq!(ids(&listed), ["report@7", "report@6"]);
    assert_eq!(split(&world.get(PLAN).json()).0, Vec::<&str>::new());
}
