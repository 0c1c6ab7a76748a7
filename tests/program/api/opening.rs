//! `/versions/{id}/mounts`: leases on as-at copies.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::api::{publish_change, world};
use crate::common::{Answer, World};

fn lease(world: &World, version: &str, body: &Value) -> Answer {
    world.send("POST", &format!("/versions/{version}/mounts"), body)
}

/// Reads what a leased copy holds, as a stock client with its URI would.
fn entries(uri: &str) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags).unwrap();
    let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut statement = connection.prepare("select entry from ledger order by rowid").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn expires_at(mount: &Value) -> jiff::Timestamp {
    mount["expires_at"].as_str().unwrap().parse().unwrap()
}

#[test]
fn an_opened_version_is_a_plain_file_with_the_content_of_its_moment() {
    let world = world();
    world.publish("first");
    publish_change(&world, "c");
    let mut paths = Vec::new();
    for (version, id, expected) in
        [("report@1", "report@1", vec!["a", "b"]), ("report@latest", "report@2", vec!["a", "b", "c"])]
    {
        let answer = lease(&world, version, &json!({ "holder": "month-end", "ttl_seconds": 600 }));
        assert_eq!(answer.status, 201, "{answer}");
        let mount = answer.json();
        assert_eq!((&mount["version"], &mount["holder"]), (&json!(id), &json!("month-end")));
        let path = mount["path"].as_str().unwrap();
        assert!(path.starts_with('/') && path.ends_with("/report.db"), "{path}");
        assert_eq!(mount["uri"], format!("file:{path}?mode=ro"));
        assert_eq!(entries(mount["uri"].as_str().unwrap()), expected);
        // A copy may be written by nobody; in a snapshot a file keeps its mode, and nothing there can be written.
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
        let read_only =
            rustix::fs::statvfs(path).unwrap().f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
        assert!(read_only || mode & 0o777 == 0o440, "{mode:o}");
        assert_eq!(read_only, Path::new(path).starts_with(world.path("mnt")), "{path}");
        let left = (expires_at(&mount) - jiff::Timestamp::now()).total(jiff::Unit::Second).unwrap();
        assert!((500.0..=600.0).contains(&left), "{left}");
        paths.push(path.to_owned());
    }
    assert_ne!(paths[0], paths[1]);
}

#[test]
fn one_request_leads_from_a_moment_to_a_file_with_the_content_of_then() {
    let world = world();
    world.publish("first");
    publish_change(&world, "c");
    let first = world.get("/versions/report@1").json()["cut_at"].as_str().unwrap().to_owned();
    for (query, id, expected) in [
        (format!("store=report&as_of={first}"), "report@1", vec!["a", "b"]),
        ("as_of=today".to_owned(), "report@2", vec!["a", "b", "c"]),
        ("label=first".to_owned(), "report@1", vec!["a", "b"]),
    ] {
        let answer = world.send("POST", &format!("/mounts?{query}"), &json!({ "holder": "audit" }));
        assert_eq!((answer.status, &answer.json()["version"]), (201, &json!(id)), "{query}: {answer}");
        assert_eq!(entries(answer.json()["uri"].as_str().unwrap()), expected, "{query}");
    }
    world.send("POST", "/mounts?as_of=now", &json!({})).expect_problem(422, "invalid");
}

#[test]
fn a_version_tells_how_many_leases_are_open_and_where_the_copy_is() {
    let world = world();
    world.publish("first");
    let told = || {
        let version = world.get("/versions/report@1").json();
        (version["leases"].as_u64().unwrap(), version["path"].clone())
    };
    assert_eq!(told(), (0, Value::Null));
    let first = lease(&world, "report@1", &json!({ "holder": "a" })).json();
    assert_eq!(told(), (1, first["path"].clone()));
    let second = lease(&world, "report@1", &json!({ "holder": "a" })).json();
    assert_ne!(first["lease"], second["lease"]);
    assert_eq!(first["path"], second["path"]);
    assert_eq!(told(), (2, first["path"].clone()));
    for (left, mount) in [(1, &first), (0, &second)] {
        let path = format!("/versions/report@1/mounts/{}", mount["lease"].as_str().unwrap());
        let answer = world.request("DELETE", &path, &[], b"");
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer}");
        assert_eq!(told().0, left);
        world.request("DELETE", &path, &[], b"").expect_problem(404, "unknown_lease");
    }
    assert_eq!(told(), (0, Value::Null));
}

#[test]
fn a_lease_is_granted_for_a_time_within_bounds_and_renewed_from_now_on() {
    let world = crate::api::configured("[copies]\nmax_lease = \"2h\"", "");
    world.publish("first");
    for (ttl, fits) in [
        (json!(1), true),
        (json!(7200), true),
        (json!(7201), false),
        (json!(0), false),
        (json!(4_294_967_295_u32), false),
    ] {
        let answer = lease(&world, "report@1", &json!({ "holder": "a", "ttl_seconds": ttl }));
        if fits {
            assert_eq!(answer.status, 201, "{ttl}: {answer}");
        } else {
            let problem = answer.expect_problem(422, "invalid");
            assert!(problem["detail"].as_str().unwrap().contains("from 1 to 7200"), "{problem}");
        }
    }
    let mount = lease(&world, "report@1", &json!({ "holder": "a", "ttl_seconds": 60 })).json();
    let path = format!("/versions/report@1/mounts/{}", mount["lease"].as_str().unwrap());
    let renewed = world.send("PUT", &path, &json!({ "ttl_seconds": 7200 }));
    assert_eq!(renewed.status, 200, "{renewed}");
    let renewed = renewed.json();
    assert!((expires_at(&renewed) - expires_at(&mount)).total(jiff::Unit::Second).unwrap() > 7000.0);
    for field in ["lease", "version", "path", "uri", "holder"] {
        assert_eq!(renewed[field], mount[field], "{field}");
    }
    // A renewal may also bring the end nearer, and without a body it is for an hour.
    let hour = world.request("PUT", &path, &[], b"").json();
    assert!(expires_at(&hour) < expires_at(&renewed));
    for ttl in [0, 7201] {
        world.send("PUT", &path, &json!({ "ttl_seconds": ttl })).expect_problem(422, "invalid");
    }
}

#[test]
fn a_lease_that_nobody_renews_ends_by_itself() {
    let world = world();
    world.publish("first");
    let mut events = world.listen();
    let mount = lease(&world, "report@1", &json!({ "holder": "a", "ttl_seconds": 1 })).json();
    events.until(|name, data| name == "lease" && data["lease"] == mount["lease"] && data["ended"] == true);
    assert!(jiff::Timestamp::now() >= expires_at(&mount));
    let path = format!("/versions/report@1/mounts/{}", mount["lease"].as_str().unwrap());
    world.send("PUT", &path, &json!({})).expect_problem(404, "unknown_lease");
    world.request("DELETE", &path, &[], b"").expect_problem(404, "unknown_lease");
    assert_eq!(world.get("/versions/report@1").json()["leases"], 0);
    world.retire("report@1");
}

#[test]
fn a_leased_version_is_not_retired_and_the_refusal_names_the_holder() {
    let world = world();
    world.publish("first");
    let mount = lease(&world, "report@1", &json!({ "holder": "month-end report" })).json();
    let name = mount["lease"].as_str().unwrap();
    let problem = world.request("DELETE", "/versions/report@1", &[], b"").expect_problem(409, "leased");
    for part in ["month-end report", name, mount["expires_at"].as_str().unwrap()] {
        assert!(problem["detail"].as_str().unwrap().contains(part), "{part}: {problem}");
    }
    assert_eq!(entries(mount["uri"].as_str().unwrap()), ["a", "b"]);
    world.request("DELETE", &format!("/versions/report@1/mounts/{name}"), &[], b"");
    world.retire("report@1");
}

#[test]
fn a_lease_belongs_to_its_version_under_every_name_of_it() {
    let world = world();
    world.publish("first");
    publish_change(&world, "c");
    let mount = lease(&world, "report@latest", &json!({ "holder": "a" })).json();
    let name = mount["lease"].as_str().unwrap();
    world
        .send("PUT", &format!("/versions/report@1/mounts/{name}"), &json!({}))
        .expect_problem(404, "unknown_lease");
    for version in ["report@latest", "report@2", "report%402"] {
        assert_eq!(world.send("PUT", &format!("/versions/{version}/mounts/{name}"), &json!({})).status, 200);
    }
}

#[test]
fn a_lease_and_its_copy_outlive_the_daemon() {
    let mut world = world();
    world.publish("first");
    let mount = lease(&world, "report@1", &json!({ "holder": "a" })).json();
    world.kill();
    assert_eq!(entries(mount["uri"].as_str().unwrap()), ["a", "b"]);
    world.start();
    let version = world.get("/versions/report@1").json();
    assert_eq!((&version["leases"], &version["path"]), (&json!(1), &mount["path"]));
    let path = format!("/versions/report@1/mounts/{}", mount["lease"].as_str().unwrap());
    assert_eq!(world.send("PUT", &path, &json!({})).status, 200);
}

#[test]
fn where_the_room_for_copies_is_used_up_by_leases_the_next_is_refused_with_the_numbers() {
    let world = crate::api::configured("[copies]\nmax_size = \"12 KiB\"", "");
    world.publish("first");
    publish_change(&world, "c");
    publish_change(&world, "d");
    world.archived("report@3");
    // A file in a snapshot takes no room in the cache.
    for id in ["report@1", "report@2"] {
        world.settled(id);
    }
    let mount = lease(&world, "report@1", &json!({ "holder": "a" })).json();
    let problem = lease(&world, "report@2", &json!({ "holder": "b" })).expect_problem(507, "storage_full");
    assert!(problem["detail"].as_str().unwrap().contains("12288"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("copies.max_size"), "{problem}");
    // The same copy serves a second lease, and an unused one makes room.
    assert_eq!(lease(&world, "report@1", &json!({ "holder": "b", "ttl_seconds": 1 })).status, 201);
    let mut events = world.listen();
    let path = format!("/versions/report@1/mounts/{}", mount["lease"].as_str().unwrap());
    assert_eq!(world.request("DELETE", &path, &[], b"").status, 204);
    if world.get("/versions/report@1").json()["leases"] != 0 {
        let is_free = |data: &Value| data["id"] == "report@1" && data["leases"] == 0;
        events.until(|name, data| name == "version" && is_free(data));
    }
    assert_eq!(lease(&world, "report@2", &json!({ "holder": "b" })).status, 201);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let world = world();
    world.publish("first");
    publish_change(&world, "c");
    world.retire("report@1");
    let body = json!({ "holder": "a" });
    lease(&world, "report@1", &body).expect_problem(410, "retired");
    lease(&world, "report@9", &body).expect_problem(404, "unknown_version");
    lease(&world, "other@1", &body).expect_problem(404, "unknown_store");
    let renew = world.send("PUT", "/versions/report@1/mounts/x", &json!({}));
    renew.expect_problem(404, "unknown_lease");
}
