//! What is said of versions later comes to followers, and to a machine that is restored from the bucket: publications, pins and tags.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{ASAT, Follower, publish, publisher, until, url};
use crate::common::World;

/// The labels, the pin and the tags of a version.
fn said(world: &World, version: &str) -> Value {
    let version = world.get(&format!("/versions/{version}")).json();
    let publications = version["publications"].as_array().cloned().unwrap_or_default();
    let labels: Vec<Value> = publications.iter().map(|publication| publication["label"].clone()).collect();
    json!([labels, version["pin"]["reason"], version["tags"]])
}

fn until_said(world: &World, version: &str, expected: &Value) {
    until(|| {
        let found = said(world, version);
        if found == *expected { Ok(()) } else { Err(format!("{version}: {found} and not {expected}")) }
    });
}

/// Certifies again what has not changed, and returns when that is in the bucket.
fn certify_again(world: &World, label: &str) {
    let body = json!({ "label": label, "certified_by": "bob", "wait": "remote" });
    let answer = world.send("POST", "/snapshots", &body);
    assert_eq!((answer.status, answer.json()["reused"].as_bool()), (200, Some(true)), "{answer}");
}

#[test]
fn what_is_said_later_comes_to_followers_and_what_is_taken_back_goes_there() {
    let (bucket, publisher) = publisher();
    publish(&publisher, "november");
    publish(&publisher, "december");
    let mut follower = Follower::started(bucket.path(), 2);
    certify_again(&publisher, "december, final");
    publisher.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit" }));
    publisher.send("PUT", "/stores/report/tags/month-end", &json!({ "version": "report@1" }));
    until_said(&follower.world, "report@1", &json!([["november"], "audit", ["month-end"]]));
    until_said(&follower.world, "report@2", &json!([["december", "december, final"], null, []]));
    assert_eq!(
        follower.world.get("/versions?label=december,%20final").json()["versions"][0]["id"],
        "report@2"
    );
    assert_eq!(follower.entries("report@month-end"), 1);
    // A restart changes nothing, and asks for nothing that it has.
    assert!(follower.world.stop().success());
    publisher.send("PUT", "/stores/report/tags/month-end", &json!({ "version": "report@2" }));
    publisher.request("DELETE", "/versions/report@1/pin", &[], b"");
    follower.start();
    until_said(&follower.world, "report@1", &json!([["november"], null, []]));
    until_said(&follower.world, "report@2", &json!([["december", "december, final"], null, ["month-end"]]));
}

#[test]
fn a_machine_that_is_put_back_from_the_bucket_knows_what_was_said_later_and_goes_on() {
    let (bucket, mut publisher) = publisher();
    publish(&publisher, "november");
    publisher.send("PUT", "/stores/report/tags/month-end", &json!({ "version": "report@1" }));
    publisher.send("PUT", "/versions/report@1/pin", &json!({ "reason": "audit" }));
    certify_again(&publisher, "november, final");
    let expected = json!([["november", "november, final"], "audit", ["month-end"]]);
    assert_eq!(said(&publisher, "report@1"), expected);
    assert!(publisher.stop().success());
    // All is lost but the bucket.
    fs::remove_dir_all(publisher.path("state")).unwrap();
    fs::create_dir(publisher.path("state")).unwrap();
    let to = publisher.path("state/archive/report");
    let mut restore = Command::new(ASAT);
    restore.args(["remote", "restore", "--url", &url(bucket.path()), "report", "--to"]).arg(&to);
    let restored = restore.output().unwrap();
    assert!(restored.status.success(), "{restored:?}");
    publisher.start();
    until_said(&publisher, "report@1", &expected);
    // It is recorded once, also after the next start.
    assert!(publisher.stop().success());
    publisher.start();
    assert_eq!(said(&publisher, "report@1"), expected);
}
