//! An archive that the asat before this one has written: refused at a start, taken over, and all versions are as they were.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::World;
use crate::recovery::{ASAT, answer, asat, refused};

/// A world with one of the archives of format 4, and what each version in it is.
fn world() -> (World, Vec<Value>) {
    let world = World::new();
    world.sqlite().execute_batch("create table ledger (entry text)").unwrap();
    world.write_config();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/upgrade/tests/format-4");
    let archive = world.path("state/archive/report");
    fs::create_dir_all(&archive).unwrap();
    fs::set_permissions(world.path("state"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for file in fs::read_dir(kept.join("some")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), archive.join(file.file_name())).unwrap();
    }
    let described = fs::read_to_string(kept.join("some.jsonl")).unwrap();
    (world, described.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The fingerprint and the label of each version.
fn known(world: &World) -> BTreeMap<u64, (Value, Value)> {
    let list = world.get("/versions?limit=1000").json();
    let versions = list["versions"].as_array().unwrap().iter();
    let known = versions.map(|version| {
        let label = version["publications"][0]["label"].clone();
        (version["number"].as_u64().unwrap(), (version["fingerprint"].clone(), label))
    });
    known.collect()
}

fn expected(described: &[Value]) -> BTreeMap<u64, (Value, Value)> {
    let expected = described.iter().map(|version| {
        let label = version["note"]["attributes"]["label"].clone();
        (version["number"].as_u64().unwrap(), (version["fingerprint"].clone(), label))
    });
    expected.collect()
}

#[test]
fn an_archive_of_the_asat_before_is_refused_taken_over_and_read() {
    let (mut world, described) = world();
    let mut daemon = world.spawn();
    let log = daemon.wait_for("listen: ready").expect_err("it should not start");
    assert_eq!(daemon.exit().code(), Some(12), "{log}");
    assert!(log.contains("has format version 4") && log.contains("asat archive upgrade"), "{log}");
    assert!(!world.path("state/catalogue.db").exists(), "a start that is refused makes no catalogue");
    let upgraded = answer(&asat(&world, &["archive", "upgrade", "report"]));
    let report = &upgraded[0];
    assert_eq!((&report["store"], &report["versions"]), (&"report".into(), &described.len().into()));
    assert!(
        ["bytes_before", "bytes_after"].iter().all(|bytes| report[bytes].as_u64() > Some(10_000)),
        "{report}"
    );
    let again = answer(&asat(&world, &["archive", "upgrade"]));
    assert!(again[0]["versions"].is_null(), "{again}");
    world.start();
    assert_eq!(known(&world), expected(&described));
    let refusal = refused(&asat(&world, &["archive", "upgrade"]));
    assert!(refusal.contains("in use"), "{refusal}");
    let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(
        (verified["findings"].as_array().unwrap().len(), &verified["versions"]),
        (0, &described.len().into())
    );
}

#[test]
fn a_version_that_is_damaged_stops_the_upgrade_until_it_is_left_out() {
    let (mut world, described) = world();
    let numbers: Vec<u64> = described.iter().map(|version| version["number"].as_u64().unwrap()).collect();
    let newest = numbers[numbers.len() - 1];
    fs::write(world.path(&format!("state/archive/report/{newest}.pack")), "damaged").unwrap();
    let stopped = asat(&world, &["archive", "upgrade"]);
    assert_eq!(stopped.status.code(), Some(9));
    let refusal = refused(&stopped);
    assert!(
        refusal.contains(&format!("report@{newest} cannot be read")) && refusal.contains("--leave-damaged"),
        "{refusal}"
    );
    let left = asat(&world, &["archive", "upgrade", "--leave-damaged"]);
    assert_eq!(left.status.code(), Some(9));
    let upgraded: Value = serde_json::from_slice(&left.stdout).unwrap();
    assert_eq!(upgraded[0]["left_out"], serde_json::json!([format!("report@{newest}")]));
    world.start();
    assert_eq!(known(&world), expected(&described[..described.len() - 1]));
}

/// Killed at boundary after boundary, it comes to its end.
#[test]
fn an_upgrade_that_is_killed_goes_on() {
    let (mut world, described) = world();
    let config = world.path("asat.toml");
    let mut killed = 0;
    for at in (5..).step_by(23) {
        let mut command = Command::new(ASAT);
        command.args(["archive", "upgrade", "--config"]).arg(&config).env("ASAT_CRASH_AT", at.to_string());
        let status = command.output().unwrap().status;
        if status.success() {
            break;
        }
        assert_eq!(status.code(), None, "it ends by a signal");
        killed += 1;
    }
    assert!(killed > 2, "{killed}");
    world.start();
    assert_eq!(known(&world), expected(&described));
}
