//! `POST /stores/{name}/restore`.

use serde_json::{Value, json};

use crate::api::{as_published, ids, publish_change, world};
use crate::common::World;

/// What the store says, as its application would read it.
fn entries(world: &World) -> String {
    let sql = "select group_concat(entry) from (select entry from ledger order by rowid)";
    let connection = world.sqlite();
    let check: String = connection.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn restore(world: &World, version: &str) -> Value {
    let answer = world.send("POST", "/stores/report/restore", &json!({ "version": version }));
    assert_eq!(answer.status, 200, "{answer}");
    answer.json()
}

#[test]
fn a_store_is_brought_back_and_what_it_was_is_kept() {
    for journal in ["delete", "wal"] {
        let world = world();
        let application = world.sqlite();
        application.pragma_update(None, "journal_mode", journal).unwrap();
        world.publish("first");
        publish_change(&world, "second");
        application.execute("insert into ledger values ('not kept yet')", []).unwrap();
        let body = json!({ "version": "report@1", "certified_by": "ops", "note": "a wrong load" });
        let answer = world.send("POST", "/stores/report/restore", &body);
        assert_eq!(answer.status, 200, "{answer}");
        let restored = answer.json();
        for (told, id) in [(&restored["restored"], "report@1"), (&restored["before"]["version"], "report@3")]
        {
            assert_eq!(as_published(told), as_published(&world.get(&format!("/versions/{id}")).json()));
        }
        let said = &restored["before"]["publication"];
        assert_eq!(said["label"], "before restore to report@1");
        assert_eq!((&said["certified_by"], &said["note"]), (&body["certified_by"], &body["note"]));
        assert!(restored["writer_blocked_ms"].as_f64().unwrap() > 0.0, "{restored}");
        // A connection that was open all the time sees it too.
        let count: i64 = application.query_row("select count(*) from ledger", [], |row| row.get(0)).unwrap();
        assert_eq!((count, entries(&world).as_str()), (2, "a,b"), "{journal}");
        let mode: String = application.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, journal);

        // And back again: nothing was lost.
        restore(&world, "report@3");
        assert_eq!(entries(&world), "a,b,second,not kept yet");
        application.execute("insert into ledger values ('goes on')", []).unwrap();
        world.publish("after");
        assert_eq!(world.request("POST", "/stores/report/verify", &[], b"").json()["ok"], true);
        let scratch = world.path("state/scratch");
        assert!(!scratch.exists() || std::fs::read_dir(scratch).unwrap().next().is_none());
    }
}

#[test]
fn a_store_that_is_as_it_is_wanted_is_left_alone() {
    let world = world();
    world.publish("first");
    let restored = restore(&world, "report@latest");
    assert_eq!((&restored["before"]["reused"], &restored["writer_blocked_ms"]), (&json!(true), &json!(0.0)));
    assert_eq!(ids(&world.get("/versions").json()), ["report@1"]);
}

#[test]
fn a_store_that_is_locked_is_left_as_it_is() {
    let mut world = World::new();
    "busy_timeout = \"100ms\"".clone_into(&mut world.store_config);
    world.sqlite().execute_batch("create table ledger(entry text); insert into ledger values ('a')").unwrap();
    world.start_under_contract();
    let application = world.sqlite();
    application.pragma_update(None, "journal_mode", "wal").unwrap();
    world.publish("first");
    publish_change(&world, "second");
    application.execute_batch("begin immediate").unwrap();
    let answer = world.send("POST", "/stores/report/restore", &json!({ "version": "report@1" }));
    let problem = answer.expect_problem(503, "store_busy");
    let pid = format!("(process {})", std::process::id());
    assert!(problem["detail"].as_str().unwrap().contains(&pid), "{problem}");
    application.execute_batch("commit").unwrap();
    assert_eq!(entries(&world), "a,second");
    restore(&world, "report@1");
    assert_eq!(entries(&world), "a");
}

#[test]
fn what_cannot_be_restored_is_refused() {
    let world = world();
    world.publish("first");
    let refused = |store: &str, body: &Value, status, code| {
        world.send("POST", &format!("/stores/{store}/restore"), body).expect_problem(status, code);
    };
    refused("report", &json!({ "version": "report@9" }), 404, "unknown_version");
    refused("nowhere", &json!({ "version": "report@1" }), 404, "unknown_store");
    refused("report", &json!({ "version": "report" }), 400, "malformed");
    refused("report", &json!({ "version": "report@1", "label": "x" }), 422, "invalid");
    refused("report", &json!({ "version": "report@1", "note": "x".repeat(5000) }), 422, "invalid");
    publish_change(&world, "second");
    world.retire("report@1");
    refused("report", &json!({ "version": "report@1" }), 410, "retired");
    assert_eq!(entries(&world), "a,b,second");
}
