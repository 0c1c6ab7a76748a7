//! What is lost or damaged is said wherever somebody looks, with the exit code for it, for as long as it is so.

use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::api::{publish_change, world};
use crate::common::World;
use crate::common::ground::held_by;

pub(crate) fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The alarm of this key, once it is on.
pub(crate) fn alarm(world: &World, key: &str) -> Value {
    let mut events = world.listen();
    loop {
        let capacity = world.get("/capacity").json();
        if let Some(alarm) = capacity["alarms"].as_array().unwrap().iter().find(|alarm| alarm["key"] == key) {
            return alarm.clone();
        }
        events.next().expect("the daemon goes on");
    }
}

/// Everybody who may be asked whether all is well, with what he says of damage: a nightly check stays green on none of them.
pub(crate) fn check_told(world: &World, said: &str) {
    for path in ["/healthz", "/readyz"] {
        let health = world.get(path).json();
        assert_eq!((&health["status"], &health["trouble"]["code"]), (&json!("degraded"), &json!("damaged")));
        assert!(health["trouble"]["detail"].as_str().unwrap().contains(said), "{health}");
    }
    for (command, expected) in [("capacity", 13), ("verify", 9)] {
        let ran = world.asat(&[command]);
        assert!(code(&ran) == Some(expected) && out(&ran).contains(said), "{command}: {ran:?}");
        let json = world.asat(&[command, "--json"]);
        assert_eq!(code(&json), Some(expected), "{json:?}");
    }
    doctor_told(world, said);
}

fn doctor_told(world: &World, said: &str) {
    let config = world.path("asat.toml");
    let doctor = world.asat(&["doctor", "--config", config.to_str().unwrap()]);
    // The doctor may find something else on the machine.
    assert!([Some(9), Some(78)].contains(&code(&doctor)) && out(&doctor).contains(said), "{doctor:?}");
}

#[test]
fn a_version_that_is_lost_is_told_of_until_somebody_does_without_it() {
    let mut world = world();
    world.publish("1");
    publish_change(&world, "2");
    world.settled("report@2");
    world.until("report@1", |version| held_by(version) == BTreeSet::from(["archive"]));
    let health = world.get("/healthz").json();
    assert_eq!(health["status"], "ok", "{health}");
    // What the store has still would be put back.
    world.sqlite().execute("insert into ledger values ('not published')", []).unwrap();
    let snapshots = world.snapshots();
    assert!(world.stop().success());
    world.remove_snapshots(&snapshots);
    fs::remove_file(world.segment(2)).unwrap();
    // A daemon that does not run cannot be asked.
    world.start();
    let lost = alarm(&world, "version report@2: lost");
    assert!(lost["hint"].as_str().unwrap().contains("asat retire report@2"), "{lost}");
    check_told(&world, "report@2 is lost");
    let one = world.request("POST", "/stores/report/verify?version=2", &[], b"").json();
    assert_eq!((&one["ok"], &one["lost"][0]["version"]), (&json!(false), &json!("report@2")));
    let other = world.request("POST", "/stores/report/verify?version=1", &[], b"").json();
    assert_eq!((&other["ok"], &other["lost"]), (&json!(true), &json!([])));

    // The doctor says so too if no daemon runs that could be asked.
    assert!(world.stop().success());
    doctor_told(&world, "report@2 is lost");
    world.start();

    world.retire("report@2");
    let health = world.get("/healthz").json();
    assert_eq!(health["status"], "ok", "{health}");
    let ran = world.asat(&["verify"]);
    assert_eq!(code(&ran), Some(0), "{ran:?}");
}

#[test]
fn a_file_that_goes_while_the_daemon_runs_is_written_once_more_as_long_as_it_is_open() {
    let mut world = world();
    world.publish("1");
    publish_change(&world, "2");
    world.settled("report@2");
    world.until("report@1", |version| held_by(version) == BTreeSet::from(["archive"]));
    let content = world.get("/versions/report@1/database").body;
    let segment = world.segment(1);
    fs::rename(&segment, world.path("aside")).unwrap();
    let ran = world.asat(&["verify"]);
    assert!(code(&ran) == Some(9) && out(&ran).contains("000000000001.segment"), "{ran:?}");
    assert!(out(&ran).contains("put right: "), "{ran:?}");
    let ran = world.asat(&["verify"]);
    assert_eq!(code(&ran), Some(0), "{ran:?}");
    assert!(world.stop().success());
    world.start();
    assert!(world.get("/versions/report@1/database").body == content);
    assert_eq!(world.get("/healthz").json()["status"], "ok");
}
