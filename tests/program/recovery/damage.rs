//! Files of the archive that are damaged or gone when the catalogue is lost: what can be read is known again, and the rest is told of.

use std::fs;

use serde_json::{Value, json};

use crate::common::{World, parts};
use crate::recovery::{asat, catalogues, known, refused};

/// A stopped daemon of two stores with three versions each, whose catalogue is lost; and what was known of the first one's.
fn without_catalogue() -> (World, Vec<Value>) {
    let mut world = World::new();
    let other = world.path("other.db");
    world.config = format!("[[store]]\nname = \"other\"\npath = {other:?}");
    let stores = [("report", world.sqlite()), ("other", rusqlite::Connection::open(&other).unwrap())];
    stores.iter().for_each(|(_, store)| store.execute_batch("create table ledger (entry text)").unwrap());
    world.start();
    for version in 1..=3 {
        for (name, store) in &stores {
            store.execute("insert into ledger values (?1)", [format!("{version}").repeat(9000)]).unwrap();
            let body = json!({ "store": name, "label": format!("close {version}") });
            assert_eq!(world.send("POST", "/snapshots", &body).status, 201);
        }
    }
    let before = known(&world).into_iter().filter(|version| of_report(&version[0])).collect();
    assert!(world.stop().success());
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    (world, before)
}

fn of_report(id: &Value) -> bool {
    id.as_str().unwrap().starts_with("report@")
}

/// Rebuilds the catalogue where something is damaged; answers what was said.
fn rebuild(world: &World) -> Value {
    world.write_config();
    let output = asat(world, &["rebuild-catalogue", "--replace"]);
    assert_eq!(output.status.code(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn states(world: &World) -> String {
    let list = world.get("/versions?state=any").json();
    let versions = list["versions"].as_array().unwrap().iter();
    let mut states: Vec<String> = versions
        .map(|version| format!("{} {}", version["id"].as_str().unwrap(), version["state"].as_str().unwrap()))
        .collect();
    states.sort();
    states.join(", ")
}

const THIRD_IS_LOST: &str =
    "other@1 ready, other@2 ready, other@3 ready, report@1 ready, report@2 ready, report@3 lost";

#[test]
fn a_damaged_file_costs_its_version_alone_and_a_whole_one_in_its_place_gives_it_back() {
    for cut_short in [true, false] {
        let (mut world, before) = without_catalogue();
        let segment = world.segment(3);
        let whole = fs::read(&segment).unwrap();
        let mut damaged = whole.clone();
        match cut_short {
            true => damaged.truncate(300),
            false => damaged[parts(&whole)[1]] ^= 0xff,
        }
        fs::write(&segment, damaged).unwrap();
        let rebuilt = rebuild(&world);
        assert_eq!(
            (&rebuilt["versions"], &rebuilt["damaged"]),
            (&json!(["other@1", "other@2", "other@3", "report@1", "report@2"]), &json!(["report@3"]))
        );
        let remarks = rebuilt["remarks"].to_string();
        assert!(
            remarks.contains("000000000003.segment is damaged") && remarks.contains("asat retire report@3"),
            "{remarks}"
        );
        world.start();
        assert_eq!(states(&world), THIRD_IS_LOST);
        world.open("report@2");
        assert!(world.stop().success());
        fs::write(&segment, whole).unwrap();
        world.start();
        assert_eq!(
            known(&world).into_iter().filter(|version| of_report(&version[0])).collect::<Vec<_>>(),
            before
        );
        world.open("report@3");
    }
}

#[test]
fn a_daemon_starts_without_catalogue_beside_a_damaged_file_and_gives_its_number_to_nobody() {
    let (mut world, _) = without_catalogue();
    fs::write(world.segment(3), "rubbish").unwrap();
    let log = world.start();
    assert!(log.contains("report@3 is lost: the archive cannot give its pages"), "{log}");
    assert_eq!(states(&world), THIRD_IS_LOST);
    assert_eq!(world.request("DELETE", "/versions/report@3", &[], b"").status, 200);
    let store = world.sqlite();
    store.execute("insert into ledger values ('later')", []).unwrap();
    let body = json!({ "store": "report" });
    assert_eq!(world.send("POST", "/snapshots", &body).json()["version"]["id"], "report@4");
}

#[test]
fn versions_whose_pages_are_in_a_file_that_is_gone_are_lost() {
    let (mut world, _) = without_catalogue();
    fs::remove_file(world.segment(1)).unwrap();
    let rebuilt = rebuild(&world);
    assert_eq!(rebuilt["damaged"], json!(["report@1", "report@2", "report@3"]));
    world.start();
    let lost = "report@1 lost, report@2 lost, report@3 lost";
    assert_eq!(states(&world), format!("other@1 ready, other@2 ready, other@3 ready, {lost}"));
    let version = world.get("/versions/report@3").json();
    assert_eq!(version["publications"][0]["label"], "close 3");
    assert!(rebuilt["remarks"].to_string().contains("000000000001.segment"), "{rebuilt}");
}

/// The catalogue says that all is well, and still nobody is promised what cannot be read.
#[test]
fn beside_a_catalogue_that_knows_of_them_versions_whose_pages_are_gone_are_lost_until_they_are_back() {
    let mut world = World::new();
    let store = world.sqlite();
    store.execute_batch("create table ledger (entry text)").unwrap();
    world.start();
    for version in 1..=3 {
        store.execute("insert into ledger values (?1)", [format!("{version}").repeat(9000)]).unwrap();
        assert_eq!(world.send("POST", "/snapshots", &json!({ "store": "report" })).status, 201);
    }
    let before = known(&world);
    assert!(world.stop().success());
    let segment = world.segment(1);
    let whole = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    for _ in 0..2 {
        let log = world.start();
        assert_eq!(states(&world), "report@1 lost, report@2 lost, report@3 lost", "{log}");
        let version = world.get("/versions/report@3").json();
        assert!(version["end_reason"].as_str().unwrap().contains("000000000001.segment"), "{version}");
        let opened = world.send("POST", "/versions/report@2/mounts", &json!({ "holder": "test" }));
        opened.expect_problem(409, "not_readable");
        assert!(world.stop().success());
    }
    // What is published meanwhile needs nothing of them.
    world.start();
    store.execute("insert into ledger values ('later')", []).unwrap();
    let later = world.send("POST", "/snapshots", &json!({ "store": "report" }));
    assert_eq!(later.json()["version"]["id"], "report@4");
    world.open("report@4");
    assert!(world.stop().success());
    fs::write(&segment, whole).unwrap();
    world.start();
    let after = known(&world);
    assert_eq!(after.iter().filter(|version| version[0] != "report@4").cloned().collect::<Vec<_>>(), before);
    for version in ["report@1", "report@2", "report@3", "report@4"] {
        world.open(version);
    }
}

#[test]
fn a_catalogue_that_cannot_be_made_anew_leaves_nothing_behind() {
    let (world, _) = without_catalogue();
    let archive = world.path("state/archive/other");
    fs::rename(&archive, world.path("kept")).unwrap();
    fs::write(&archive, "in the way").unwrap();
    world.write_config();
    let refusal = refused(&asat(&world, &["rebuild-catalogue"]));
    assert!(refusal.contains(archive.to_str().unwrap()), "{refusal}");
    assert_eq!(catalogues(&world), ["catalogue.db-newest"], "it is of the one that was there");
}

/// Of one store no file can be read: the other stores, and the guard, are kept all the same.
#[test]
fn a_store_whose_archive_cannot_be_read_at_all_keeps_no_other_from_working() {
    for with_catalogue in [true, false] {
        let (mut world, before) = without_catalogue();
        if with_catalogue {
            world.start();
            assert!(world.stop().success());
        }
        let folder = world.path("state/archive/report");
        let whole: Vec<_> = (1..=3).map(|number| fs::read(world.segment(number)).unwrap()).collect();
        (1..=3).for_each(|number| fs::write(world.segment(number), "rubbish").unwrap());
        let log = world.start();
        assert!(log.contains("no file of the archive of report can be read"), "{log}");
        let lost = if with_catalogue { ", report@1 lost, report@2 lost, report@3 lost" } else { "" };
        assert_eq!(states(&world), format!("other@1 ready, other@2 ready, other@3 ready{lost}"));
        let publish = |world: &World, name: &str, store: rusqlite::Connection| {
            store.execute("insert into ledger values ('later')", []).unwrap();
            world.send("POST", "/snapshots", &json!({ "store": name }))
        };
        assert_eq!(
            publish(&world, "other", rusqlite::Connection::open(world.path("other.db")).unwrap()).json()["version"]
                ["id"],
            "other@4"
        );
        let refused = publish(&world, "report", world.sqlite()).expect_problem(500, "damaged");
        assert!(refused["detail"].as_str().unwrap().contains(folder.to_str().unwrap()), "{refused}");
        assert!(world.stop().success());
        for (number, whole) in (1..).zip(&whole) {
            fs::write(world.segment(number), whole).unwrap();
        }
        world.start();
        let of_report: Vec<_> = known(&world).into_iter().filter(|version| of_report(&version[0])).collect();
        assert_eq!(of_report, before);
        assert_eq!(publish(&world, "report", world.sqlite()).json()["version"]["id"], "report@4");
    }
}

#[test]
fn what_is_recorded_beside_the_versions_is_written_anew_if_its_file_is_damaged() {
    let mut world = super::world();
    assert!(world.stop().success());
    let archive = world.path("state/archive/report");
    let mut files: Vec<_> = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    // The newest file is the one with the records: they were brought there when the daemon stopped, if not before.
    let records = files.last().unwrap().clone();
    world.start();
    world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
    world.publish("later");
    let mut bytes = fs::read(&records).unwrap();
    bytes[20] ^= 1;
    fs::write(&records, bytes).unwrap();
    let found = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(found["ok"], false, "{found}");
    // Verifying has it put right.
    let again = world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(again["ok"], true, "{again}");
    let before = super::known(&world);
    assert!(world.stop().success());
    fs::remove_file(world.path("state/catalogue.db")).unwrap();
    super::answer(&asat(&world, &["rebuild-catalogue"]));
    world.start();
    assert_eq!(super::known(&world), before);
}
