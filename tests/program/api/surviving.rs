//! Versions that are still in their snapshots, when the daemon ends, and where it is not the only one.

use std::fs;

use serde_json::{Value, json};

use crate::api::moving::{both, check_leased, close, entries, is_in_snapshot, keeping, lease, read};
use crate::api::{publish_change, world};
use crate::common::World;
use crate::common::ground::held_by;

#[test]
fn what_is_leased_can_be_read_whatever_becomes_of_the_daemon() {
    let mut world = keeping();
    world.publish("first");
    let (lease, path) = lease(&world, "report@1");
    assert_eq!(is_in_snapshot(&world, &path), world.ground.is_shown());
    for end in [|world: &mut World| world.kill(), |world: &mut World| assert!(world.stop().success())] {
        end(&mut world);
        assert_eq!(read(&path), "a,b");
        world.sqlite().execute("insert into ledger values ('meanwhile')", []).unwrap();
        world.start();
        assert_eq!(world.get("/versions/report@1").json()["path"], json!(path));
        assert_eq!(read(&path), "a,b");
    }
    world.publish("after");
    check_leased(&world, &world.archived("report@1"));
    close(&world, &lease);
    world.settled("report@1");
}

#[test]
fn a_version_that_was_acknowledged_outlives_the_end_of_the_daemon_at_that_moment() {
    let mut world = world();
    let mut contents = Vec::new();
    for n in 1..=3 {
        publish_change(&world, &format!("v{n}"));
        world.kill();
        contents.push(entries(&world));
        world.start();
        for (n, content) in contents.iter().enumerate() {
            let id = format!("report@{}", n + 1);
            assert_eq!(world.get(&format!("/versions/{id}")).json()["state"], "ready", "{id}");
            let (lease, path) = lease(&world, &id);
            assert_eq!(read(&path), *content, "{id}");
            close(&world, &lease);
        }
    }
    (1..=3).for_each(|n| drop(world.settled(&format!("report@{n}"))));
    assert_eq!(world.send("POST", "/stores/report/verify", &Value::Null).json()["ok"], true);
}

/// Takes the catalogue away, of a daemon that was killed.
fn lose_catalogue(world: &World) {
    for file in ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"] {
        fs::remove_file(world.path("state").join(file)).ok();
    }
}

#[test]
fn a_version_that_was_acknowledged_outlives_the_catalogue() {
    let mut world = world();
    let mut contents = Vec::new();
    for n in 1..=3 {
        publish_change(&world, &format!("v{n}"));
        let cut_at = world.get(&format!("/versions/report@{n}")).json()["cut_at"].clone();
        world.kill();
        contents.push((entries(&world), cut_at));
        lose_catalogue(&world);
        world.start();
        for (n, (content, cut_at)) in contents.iter().enumerate() {
            let id = format!("report@{}", n + 1);
            let version = world.get(&format!("/versions/{id}")).json();
            let label = &version["publications"][0]["label"];
            assert_eq!((&version["state"], &version["cut_at"]), (&json!("ready"), cut_at), "{id}");
            assert_eq!(*label, format!("v{}", n + 1), "{version}");
            let (lease, path) = lease(&world, &id);
            assert_eq!(read(&path), *content, "{id}");
            close(&world, &lease);
        }
    }
    (1..=3).for_each(|n| drop(world.settled(&format!("report@{n}"))));
    assert_eq!(world.send("POST", "/stores/report/verify", &Value::Null).json()["ok"], true);
}

#[test]
fn stores_of_one_daemon_may_be_cut_in_different_ways() {
    let mut world = World::new();
    let content = "create table ledger(entry text); insert into ledger values ('a')";
    world.sqlite().execute_batch(content).unwrap();
    world.add_store("second", content, "backend = \"pages\"");
    world.start_under_contract();
    let stores = world.get("/stores").json();
    let backends: Vec<_> =
        stores["stores"].as_array().unwrap().iter().map(|store| &store["backend"]).collect();
    assert_eq!(backends, [&json!(world.ground.backend), &json!("pages")]);
    for store in ["report", "second"] {
        let answer = world.send("POST", "/snapshots", &json!({ "store": store }));
        assert_eq!(answer.status, 201, "{answer}");
    }
    assert_eq!(held_by(&world.get("/versions/second@1").json()), ["archive"].into());
    for id in ["report@1", "second@1"] {
        assert_eq!(read(&world.open(id)), "a", "{id}");
        world.archived(id);
    }
    for store in ["report", "second"] {
        let body = json!({ "version": format!("{store}@1") });
        let answer = world.send("POST", &format!("/stores/{store}/restore"), &body);
        assert_eq!((answer.status, &answer.json()["before"]["reused"]), (200, &json!(true)), "{answer}");
    }
}

#[test]
fn installations_share_a_store_and_its_volume_without_knowing_of_each_other() {
    let (mut one, mut other) = (keeping(), World::new());
    one.ground.clone_into(&mut other.ground);
    one.store_config.clone_into(&mut other.store_config);
    other.start_under_contract();
    for world in [&one, &other] {
        assert_eq!(world.publish("at the same moment")["version"]["id"], "report@1");
    }
    let (_, kept) = lease(&one, "report@1");
    let (close, path) = lease(&other, "report@1");
    assert_ne!(kept, path);
    assert!(one.snapshots().is_disjoint(&other.snapshots()));
    assert_eq!(one.snapshots().len(), usize::from(one.ground.is_volume()));
    // Neither the start nor the end of one, nor what it gives up, is of any matter to the other.
    one.kill();
    other.kill();
    one.start();
    other.start();
    self::close(&other, &close);
    other.retire("report@1");
    assert!(other.snapshots().is_empty());
    assert_eq!(other.publish("again")["version"]["id"], "report@2");
    assert_eq!(read(&kept), "a,b");
    assert_eq!(held_by(&one.archived("report@1")), both(&one));
    // The snapshots of one are not removed while the other unmounts its own: LVM could not suspend the volume.
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn a_store_that_comes_with_versions_of_before_is_published_when_they_were_adopted() {
    let mut world = World::new();
    let without = world.store_config.clone();
    world.add_store("ledger", "create table t (n); insert into t values (1)", &world.ground.asked());
    let with = world.store_config.clone();
    world.start();
    let publish = |world: &World| world.send("POST", "/snapshots", &json!({ "store": "ledger" }));
    assert_eq!(publish(&world).status, 201);
    world.archived("ledger@1");
    world.kill();
    lose_catalogue(&world);
    world.store_config = without;
    let log = world.start();
    assert!(log.contains("unknown store"), "{log}");

    // Its number must not go to another version.
    world.store_config = with;
    world.reload("is in force");
    publish(&world).expect_problem(500, "configuration");
    world.stop();
    world.start();
    assert_eq!(world.get("/versions/ledger@1").json()["state"], "ready");
    rusqlite::Connection::open(world.store_at("ledger.db"))
        .unwrap()
        .execute("insert into t values (2)", [])
        .unwrap();
    assert_eq!(publish(&world).json()["version"]["id"], "ledger@2");
}
