//! From the acknowledgement into the archive: what callers may rely on meanwhile, whatever holds the version.
//!
//! A version that was cut by a snapshot of its volume is read there first, and moves into the archive behind that; one
//! that was cut by pages is in the archive at once. The words are the same for both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::api::{configured, publish_change, world};
use crate::common::World;
use crate::common::ground::held_by;

/// A daemon that keeps the snapshot of the newest version, so that nothing here depends on who is faster.
pub(crate) fn keeping() -> World {
    configured("", "keep_snapshots = 1")
}

/// What the store says now, as its application would read it.
pub(crate) fn entries(world: &World) -> String {
    let sql = "select group_concat(entry) from (select entry from ledger order by rowid)";
    world.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// What a stock client reads there.
pub(crate) fn read(path: &Path) -> String {
    let sql =
        "pragma integrity_check; select group_concat(entry) from (select entry from ledger order by rowid)";
    let output =
        Command::new("sqlite3").arg(format!("file:{}?mode=ro", path.display())).arg(sql).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let told = said.trim().strip_prefix("ok\n");
    told.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

/// A lease: where it is closed, and where the version is read.
pub(crate) fn lease(world: &World, id: &str) -> (String, PathBuf) {
    let answer = world.send("POST", &format!("/versions/{id}/mounts"), &json!({ "holder": "reader" }));
    assert_eq!(answer.status, 201, "{answer}");
    let mount = answer.json();
    let close = format!("/versions/{id}/mounts/{}", mount["lease"].as_str().unwrap());
    (close, PathBuf::from(mount["path"].as_str().unwrap()))
}

pub(crate) fn close(world: &World, lease: &str) {
    assert_eq!(world.request("DELETE", lease, &[], b"").status, 204);
}

/// Whether a path leads into a snapshot.
pub(crate) fn is_in_snapshot(world: &World, path: &Path) -> bool {
    path.starts_with(world.path("mnt"))
}

/// What holds a version that is in the archive, and whose snapshot is needed.
pub(crate) fn both(world: &World) -> BTreeSet<&'static str> {
    if world.ground.is_volume() { ["archive", "snapshot"].into() } else { ["archive"].into() }
}

/// Checks that a version that is leased is in the archive, and also in its snapshot where it is read there.
pub(crate) fn check_leased(world: &World, version: &Value) {
    let (held, both) = (held_by(version), both(world));
    let may_be_out = world.ground.is_cloned() && held == ["archive"].into();
    assert!(held == both || may_be_out, "{version:#}");
}

fn download(world: &World, id: &str) -> Vec<u8> {
    let answer = world.get(&format!("/versions/{id}/database"));
    assert_eq!(answer.status, 200, "{answer}");
    answer.body
}

#[test]
fn a_version_is_readable_at_its_acknowledgement_and_stays_the_same_to_the_byte() {
    for journal in ["delete", "truncate", "persist", "wal"] {
        let world = keeping();
        let application = world.sqlite();
        application.pragma_update(None, "journal_mode", journal).unwrap();
        application.execute("insert into ledger values (hex(randomblob(20000)))", []).unwrap();
        let published = world.publish("first");
        assert!(held_by(&published["version"]).is_subset(&both(&world)), "{published}");
        assert_eq!(published["snapshot_ms"].as_f64().unwrap() > 0.0, world.ground.is_volume(), "{published}");

        let (lease, path) = lease(&world, "report@1");
        assert_eq!(is_in_snapshot(&world, &path), world.ground.is_shown(), "{journal}");
        let content = entries(&world);
        let (bytes, hot) = (std::fs::read(&path).unwrap(), download(&world, "report@1"));
        assert!(hot == bytes, "{journal}: the download is another file than what is opened");
        publish_change(&world, "a change that must not be seen");
        assert_eq!(read(&path), content, "{journal}");

        check_leased(&world, &world.archived("report@1"));
        assert!(download(&world, "report@1") == bytes, "{journal}: the archive has another file");
        assert!(std::fs::read(&path).unwrap() == bytes, "{journal}: what is leased has changed");
        close(&world, &lease);
        world.archived("report@2");
        world.settled("report@1");
        let path = world.open("report@1");
        assert!(!is_in_snapshot(&world, &path), "{}", path.display());
        assert!(std::fs::read(&path).unwrap() == bytes, "{journal}: the copy is another file");
        assert_eq!(read(&path), content, "{journal}");
    }
}

#[test]
fn a_version_whose_wal_is_still_read_by_others_is_whole_too() {
    let world = world();
    let application = world.sqlite();
    application.pragma_update(None, "journal_mode", "wal").unwrap();
    let reader = world.sqlite();
    reader.execute_batch("begin; select * from ledger").unwrap();
    application.execute("insert into ledger values ('in the wal')", []).unwrap();
    let published = world.publish("first");
    // The WAL cannot be emptied, so writers are held until the snapshot has it.
    let hold = if world.ground.is_volume() { "snapshot" } else { "nobody" };
    assert_eq!(published["hold"], hold, "{published}");
    let (_, path) = lease(&world, "report@1");
    publish_change(&world, "later");
    assert_eq!(read(&path), "a,b,in the wal");
    world.settled("report@1");
    assert!(download(&world, "report@1") == std::fs::read(&path).unwrap());
    assert_eq!(read(&world.open("report@2")), "a,b,in the wal,later");
}

#[test]
fn the_last_lease_keeps_a_snapshot_and_its_end_lets_it_go() {
    let world = keeping();
    world.publish("first");
    let ((first, path), (second, _)) = (lease(&world, "report@1"), lease(&world, "report@1"));
    publish_change(&world, "c");
    check_leased(&world, &world.archived("report@1"));
    close(&world, &first);
    let version = world.get("/versions/report@1").json();
    check_leased(&world, &version);
    assert_eq!(version["path"], json!(path));
    assert_eq!(read(&path), "a,b");
    close(&world, &second);
    world.archived("report@2");
    assert_eq!(world.settled("report@1")["path"], Value::Null);
    assert_eq!(path.exists(), !world.ground.is_shown());
    assert_eq!(read(&world.open("report@1")), "a,b");
}

#[test]
fn the_newest_snapshots_stay_where_the_configuration_says_so_and_go_with_their_versions() {
    let mut world = keeping();
    for label in ["c", "d"] {
        publish_change(&world, label);
    }
    assert_eq!(held_by(&world.archived("report@2")), both(&world));
    world.settled("report@1");
    assert!(world.stop().success());
    world.start();
    assert_eq!(held_by(&world.get("/versions/report@2").json()), both(&world));
    let path = world.open("report@2");
    assert_eq!((read(&path).as_str(), is_in_snapshot(&world, &path)), ("a,b,c,d", world.ground.is_shown()));
    assert!(!is_in_snapshot(&world, &world.open("report@1")));

    publish_change(&world, "e");
    assert_eq!(held_by(&world.archived("report@3")), both(&world));
    assert_eq!(world.retire("report@3")["holdings"], json!([]));
    // That of report@2 is leased; a clone is not, and goes as soon as the next one is archived.
    world.until("report@2", |version| held_by(version).contains("snapshot") == world.ground.is_shown());
}

#[test]
fn a_hot_pin_keeps_the_snapshot_until_it_goes() {
    let world = keeping();
    world.publish("first");
    let pin = |hot: bool| {
        let body = json!({ "reason": "month-end", "hot": hot });
        assert_eq!(world.send("PUT", "/versions/report@1/pin", &body).status, 200);
    };
    pin(true);
    publish_change(&world, "c");
    assert_eq!(held_by(&world.archived("report@1")), both(&world));
    let (close, path) = lease(&world, "report@1");
    assert_eq!(is_in_snapshot(&world, &path), world.ground.is_shown());
    pin(false);
    assert_eq!(read(&path), "a,b", "it is leased all the same");
    self::close(&world, &close);
    world.settled("report@1");
}

#[test]
fn an_unchanged_store_takes_no_second_snapshot_while_the_first_is_there() {
    let world = keeping();
    world.publish("first");
    let snapshots = world.snapshots();
    assert_eq!(snapshots.len(), usize::from(world.ground.is_volume()));
    for label in ["at once", "again"] {
        let published = world.publish(label);
        assert_eq!((&published["reused"], &published["snapshot_ms"]), (&json!(true), &json!(0.0)));
        assert_eq!(published["version"]["id"], "report@1");
    }
    assert_eq!(world.snapshots(), snapshots);
    world.archived("report@1");
}

#[test]
fn versions_that_follow_one_another_at_once_are_each_what_the_store_was() {
    let world = world();
    let contents: Vec<(String, String)> = (1..=4)
        .map(|n| {
            publish_change(&world, &format!("v{n}"));
            (format!("report@{n}"), entries(&world))
        })
        .collect();
    for (id, content) in &contents {
        assert_eq!(read(&lease(&world, id).1), *content, "{id}");
    }
    for (id, _) in &contents {
        world.archived(id);
    }
    assert_eq!(world.send("POST", "/stores/report/verify", &Value::Null).json()["ok"], true);
}

#[test]
fn a_store_is_brought_back_to_a_version_that_was_published_a_moment_ago() {
    let world = world();
    world.publish("first");
    world.sqlite().execute("delete from ledger", []).unwrap();
    let answer = world.send("POST", "/stores/report/restore", &json!({ "version": "report@1" }));
    assert_eq!((answer.status, entries(&world).as_str()), (200, "a,b"), "{answer}");
    assert_eq!(answer.json()["before"]["version"]["id"], "report@2");
    for id in ["report@1", "report@2"] {
        world.settled(id);
    }
    assert_eq!(read(&world.open("report@1")), "a,b");
}
