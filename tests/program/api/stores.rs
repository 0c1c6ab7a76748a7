//! `GET /stores`, and `POST /stores/{name}/verify`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::api::{configured, publish_change, world};
use crate::common::ground::held_by;
use crate::common::{HEAD, World, parts, tree, try_request};

fn verify(world: &World, query: &str) -> Value {
    let answer = world.request("POST", &format!("/stores/report/verify{query}"), &[], b"");
    assert_eq!(answer.status, 200, "{answer}");
    answer.json()
}

/// Flips one bit of a file.
fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn the_stores_are_listed_with_what_is_kept_of_each() {
    let world = world();
    let empty = world.get("/stores").json();
    let path = world.store().display().to_string();
    assert_eq!(
        empty["stores"][0],
        json!({
            "name": "report", "path": path, "backend": world.ground.backend, "configured": true, "versions": 0,
            "newest": null, "newest_cut_at": null, "archive_bytes": 0,
        })
    );
    world.publish("1");
    let newest = publish_change(&world, "2");
    for id in ["report@1", "report@2"] {
        world.settled(id);
    }
    let stores = world.get("/stores").json();
    let store = &stores["stores"][0];
    assert_eq!((&store["versions"], &store["newest"]), (&json!(2), &json!("report@2")));
    assert_eq!(store["newest_cut_at"], newest["version"]["cut_at"]);
    let on_disk: u64 = tree(&world.path("state/archive/report")).iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(store["archive_bytes"], on_disk);
}

#[test]
fn a_store_that_is_no_longer_configured_keeps_its_versions_and_takes_no_new_ones() {
    let mut world = world();
    world.publish("first");
    assert!(world.stop().success());
    std::fs::create_dir(world.path("other")).unwrap();
    std::fs::copy(world.store(), world.path("other/other.db")).unwrap();
    let other = "[listen]\nunix = \"asat.sock\"\n[[store]]\nname = \"other\"\npath = \"other/other.db\"";
    world.start_with(&format!("{HEAD}{other}"));
    let stores = world.get("/stores").json();
    let configured: Vec<(&str, bool)> = stores["stores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|store| (store["name"].as_str().unwrap(), store["configured"].as_bool().unwrap()))
        .collect();
    assert_eq!(configured, [("other", true), ("report", false)]);
    assert_eq!(world.get("/versions/report@1/database").status, 200);
    world.open("report@1");
    world.archived("report@1");
    assert_eq!(verify(&world, "")["ok"], true);
    let problem =
        world.send("POST", "/snapshots", &json!({ "store": "report" })).expect_problem(404, "unknown_store");
    assert!(problem["detail"].as_str().unwrap().contains("no longer in the configuration"), "{problem}");
}

#[test]
fn verification_reads_everything_or_one_version() {
    let world = world();
    let nothing = verify(&world, "");
    assert_eq!(
        nothing,
        json!({ "ok": true, "versions": 0, "bytes": 0, "findings": [], "repaired": [], "lost": [] })
    );
    world.publish("1");
    publish_change(&world, "2");
    world.archived("report@2");
    let whole = verify(&world, "");
    assert_eq!((&whole["ok"], &whole["versions"], &whole["findings"]), (&json!(true), &json!(2), &json!([])));
    assert!(whole["bytes"].as_u64().unwrap() > 0);
    let one = verify(&world, "?version=1");
    assert_eq!((&one["ok"], &one["versions"]), (&json!(true), &json!(1)));
    assert!(one["bytes"].as_u64() < whole["bytes"].as_u64());
    let refused = |path: &str| world.request("POST", path, &[], b"");
    refused("/stores/report/verify?version=3").expect_problem(404, "unknown_version");
    refused("/stores/other/verify").expect_problem(404, "unknown_store");
}

#[test]
fn damage_is_named_with_its_file_and_versions_and_never_read_as_data() {
    let world = world();
    let blob = "insert into ledger values (randomblob(50000))";
    world.sqlite().execute(blob, []).unwrap();
    world.publish("1");
    world.settled("report@1");
    let contents = world.get("/versions/report@1/database").body;
    // Of what is damaged below, the second version needs nothing; its own pages may be differences from what is whole.
    world.sqlite().execute_batch("delete from ledger; vacuum; insert into ledger values ('x')").unwrap();
    world.publish("2");
    world.settled("report@2");
    // What is in a snapshot would be repaired from there.
    world.settled("report@1");
    let second = world.get("/versions/report@2/database");
    let segment = world.segment(1);
    let length = std::fs::read(&segment).unwrap().len();
    flip(&segment, length / 2);

    let report = verify(&world, "");
    assert_eq!(report["ok"], false, "{report}");
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["file"] == segment.display().to_string()), "{report}");
    assert!(findings.iter().any(|finding| finding["versions"] == json!(["report@1"])), "{report}");
    for finding in findings {
        for field in ["what", "hint"] {
            assert!(!finding[field].as_str().unwrap().is_empty(), "{report}");
        }
    }
    assert_eq!(verify(&world, "?version=1")["ok"], false);

    // What of the version still arrives is what it was: the damaged page ends the download.
    let (socket, path) = (world.socket(), "/versions/report@1/database");
    match try_request(&socket, "GET", path, &[], b"") {
        Ok(answer) => drop(answer.expect_problem(500, "damaged")),
        Err(error) => assert!(error.to_string().contains("ended amid an answer"), "{error}"),
    }
    for start in (0..contents.len()).step_by(4096) {
        let range = format!("bytes={start}-{}", start + 4095);
        if let Ok(answer) = try_request(&socket, "GET", path, &[("Range", &range)], b"") {
            assert!(answer.status == 500 || answer.body == contents[start..start + 4096], "{range}");
        }
    }

    let unaffected = verify(&world, "?version=2");
    let findings = unaffected["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["versions"] == json!([])), "{unaffected}");
    assert_eq!(world.get("/versions/report@2/database").body, second.body);
    assert_eq!(publish_change(&world, "3")["version"]["id"], "report@3");
}

#[test]
fn damage_is_repaired_where_the_store_still_has_what_was_there() {
    let world = world();
    world.sqlite().execute("insert into ledger values (randomblob(50000))", []).unwrap();
    world.publish("1");
    world.settled("report@1");
    publish_change(&world, "2");
    world.settled("report@2");
    let versions = ["report@1", "report@2"].map(|id| format!("/versions/{id}/database"));
    let contents = versions.clone().map(|path| world.get(&path).body);
    let segment = world.segment(1);
    let length = std::fs::read(&segment).unwrap().len();
    flip(&segment, length / 2);

    let report = verify(&world, "");
    assert_eq!(report["ok"], false, "{report}");
    assert_eq!(report["findings"][0]["file"], segment.display().to_string());
    assert!(report["findings"][0]["hint"].as_str().unwrap().contains("put right"), "{report}");
    let again = verify(&world, "");
    assert_eq!((&again["ok"], &again["versions"]), (&json!(true), &json!(2)), "{again}");
    for (path, content) in versions.iter().zip(&contents) {
        assert_eq!(&world.get(path).body, content);
    }
}

/// Neither its index nor what it continued is needed: what the store is, is that version.
#[test]
fn a_version_that_the_store_still_is_is_written_anew_whatever_is_left_of_its_file() {
    let mut world = world();
    world.sqlite().execute("insert into ledger values (randomblob(50000))", []).unwrap();
    world.publish("1");
    world.settled("report@1");
    publish_change(&world, "2");
    world.settled("report@2");
    let content = world.get("/versions/report@2/database").body;
    let [below, own] = [1, 2].map(|number| world.segment(number));
    assert!(world.stop().success());
    std::fs::remove_file(&below).unwrap();
    let mut bytes = std::fs::read(&own).unwrap();
    let [_, directory, manifest] = parts(&bytes);
    bytes[directory..manifest].fill(0);
    std::fs::write(&own, bytes).unwrap();
    world.start();

    let report = verify(&world, "");
    assert_eq!(report["ok"], false, "{report}");
    let again = verify(&world, "?version=2");
    assert_eq!((&again["ok"], &again["findings"]), (&json!(true), &json!([])), "{report} {again}");
    assert_eq!(world.get("/versions/report@2/database").body, content);
}

#[test]
fn damage_is_repaired_from_a_snapshot_where_the_store_has_moved_on() {
    let world = configured("", "keep_snapshots = 2");
    world.sqlite().execute("insert into ledger values (randomblob(50000))", []).unwrap();
    world.publish("1");
    world.archived("report@1");
    let content = world.get("/versions/report@1/database").body;
    world.sqlite().execute_batch("delete from ledger; vacuum; insert into ledger values ('x')").unwrap();
    world.publish("2");
    world.archived("report@2");
    let segment = world.segment(1);
    let length = std::fs::read(&segment).unwrap().len();
    flip(&segment, length / 2);

    assert_eq!(verify(&world, "")["ok"], false);
    let again = verify(&world, "");
    assert_eq!(again["ok"], world.ground.is_volume(), "{again}");
    if world.ground.is_volume() {
        assert_eq!(world.get("/versions/report@1/database").body, content);
    }
}

#[test]
fn a_damaged_version_is_not_opened() {
    let world = world();
    world.sqlite().execute("insert into ledger values (randomblob(50000))", []).unwrap();
    world.publish("1");
    // From the next one on it is in no snapshot, where it could be opened whole.
    publish_change(&world, "2");
    world.archived("report@2");
    world.settled("report@1");
    let segment = world.segment(1);
    let length = std::fs::read(&segment).unwrap().len();
    flip(&segment, length / 2);
    let answer = world.send("POST", "/versions/report@1/mounts", &json!({ "holder": "a" }));
    let problem = answer.expect_problem(500, "damaged");
    assert!(problem["detail"].as_str().unwrap().contains("000000000001.segment"), "{problem}");
    let version = world.get("/versions/report@1").json();
    assert_eq!((&version["leases"], &version["path"]), (&json!(0), &Value::Null));
}

#[test]
fn a_file_that_is_gone_is_a_version_that_is_lost_until_it_is_back() {
    let mut world = world();
    world.publish("1");
    world.sqlite().execute("insert into ledger values (hex(randomblob(30000)))", []).unwrap();
    world.publish("2");
    publish_change(&world, "3");
    world.settled("report@3");
    world.until("report@1", |version| held_by(version) == BTreeSet::from(["archive"]));
    // What the last one needs of it stays.
    world.retire("report@2");
    let snapshots = if world.ground.keeps_base() { world.snapshots() } else { BTreeSet::new() };
    assert!(world.stop().success());
    // As long as its snapshot is there, nothing is lost.
    world.remove_snapshots(&snapshots);
    let segment = world.segment(3);
    let aside = world.path("aside");
    std::fs::rename(&segment, &aside).unwrap();
    world.start();
    let lost = world.get("/versions/report@3").json();
    assert_eq!(lost["state"], "lost");
    assert!(lost["end_reason"].as_str().unwrap().contains("000000000003.segment"), "{lost}");
    world.get("/versions/report@3/database").expect_problem(409, "not_readable");
    let at = lost["cut_at"].as_str().unwrap();
    world.get(&format!("/as-of/{at}")).expect_problem(409, "not_readable");
    assert_eq!(world.get("/versions/report@1/database").status, 200);
    assert!(world.stop().success());
    std::fs::rename(&aside, &segment).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@3").json()["state"], "ready");
    assert_eq!(world.get("/versions/report@3/database").status, 200);
}
