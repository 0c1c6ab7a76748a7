//! `[[store.check]]`: what must hold of the content that is published.

use std::time::Instant;

use serde_json::{Value, json};

use crate::api::{configured, publish_change};
use crate::common::{PATIENCE, World, tree};

/// A query that never ends.
const ENDLESS: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n where i < 0";

/// A check of the configuration.
fn check(name: &str, lines: &str) -> String {
    format!("[[store.check]]\nname = \"{name}\"\n{lines}\n")
}

fn query(sql: &str, expected: &str) -> String {
    check("the check", &format!("query = \"{sql}\"\n{expected}"))
}

/// Accounts, and bookings that refer to them.
const BANK: &str = "
    create table account(id integer primary key);
    create table booking(id integer primary key, account references account(id), amount, what);
    insert into account values (1), (2);
    insert into booking values (1, 1, 5, 'in'), (2, 2, -5, x'00ff'), (3, 1, 0, null);";

/// A world whose store is a bank.
fn bank(checks: &str) -> World {
    let world = configured("", checks);
    world.sqlite().execute_batch(BANK).unwrap();
    world
}

/// Publishes what must be refused by the check of this name, and leaves nothing behind; answers what is said.
fn refused(world: &World, store: &str, name: &str) -> String {
    let before = kept(world);
    let body = json!({ "store": store, "label": "close" });
    let problem = world.send("POST", "/snapshots", &body).expect_problem(422, "check_failed");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("{name:?}")), "{detail}");
    assert_eq!(kept(world), before, "{detail}");
    detail.to_owned()
}

/// Everything that is kept of versions: in the catalogue, in the archive, and in snapshots.
fn kept(world: &World) -> (Value, Vec<String>) {
    let versions = world.get("/versions?state=any").json();
    let catalogue = rusqlite::Connection::open(world.path("state/catalogue.db")).unwrap();
    let open: u32 =
        catalogue.query_row("select count(*) from intent where open", [], |row| row.get(0)).unwrap();
    // What was there before may be on its way into the archive.
    assert!(open == 0 || versions["versions"] != json!([]), "an intent is open");
    let mut files: Vec<String> = Vec::new();
    if versions["versions"] == json!([]) {
        let folders = ["state/archive", "state/clones", "mnt"].map(|folder| world.path(folder));
        let there = folders.iter().filter(|folder| folder.exists());
        files = there.flat_map(|folder| tree(folder)).map(|(path, _)| path.display().to_string()).collect();
    }
    let ids = versions["versions"].as_array().unwrap().iter().map(|version| version["id"].clone()).collect();
    (ids, files)
}

fn checks(version: &Value) -> Vec<(&str, bool, &str)> {
    let publication = version["publications"].as_array().unwrap().last().unwrap();
    let checks = publication["checks"].as_array().unwrap().iter();
    let result = |check: &'_ Value| {
        assert!(check["took_ms"].as_f64().unwrap() >= 0.0, "{check}");
    };
    checks
        .inspect(|check| result(check))
        .map(|check| {
            (check["name"].as_str().unwrap(), check["passed"] == true, check["found"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn what_was_checked_stays_with_the_publication() {
    let all = [
        check("orphans", "query = \"select id from booking where account not in (select id from account)\""),
        check("balance", "query = \"select sum(amount) from booking\"\nequals = \"0\""),
        check("number", "query = \"select sum(amount) from booking\"\nequals = 0"),
        check("text", "query = \"select what from booking where id = 1\"\nequals = \"in\""),
        check("rows", "query = \"select count(*) from booking\"\nat_least = 3"),
        check("sound", "builtin = \"quick_check\"\ndeadline = \"30s\""),
        check("references", "builtin = \"foreign_key_check\""),
    ];
    let mut world = bank(&all.concat());
    let answer = world.send("POST", "/snapshots", &json!({ "label": "close" }));
    assert_eq!(answer.status, 201, "{answer}");
    let expected = vec![
        ("orphans", true, "no rows"),
        ("balance", true, "0"),
        ("number", true, "0"),
        ("text", true, "\"in\""),
        ("rows", true, "3"),
        ("sound", true, "ok"),
        ("references", true, "no rows"),
    ];
    assert_eq!(checks(&answer.json()["version"]), expected);
    assert_eq!(checks(&world.settled("report@1")), expected);
    // The same content again.
    let again = world.publish("again");
    assert_eq!(again["reused"], true, "{again}");
    assert_eq!(checks(&again["version"]), expected);
    // What came of them is remembered, whatever is checked later.
    world.stop();
    world.store_config = String::new();
    world.start();
    let remembered = world.get("/versions/report@1").json();
    assert_eq!(checks(&remembered), expected);
    let unchecked = publish_change(&world, "unchecked");
    assert_eq!(checks(&unchecked["version"]), []);
}

#[test]
fn a_store_that_does_not_meet_a_check_is_not_published() {
    let cases = [
        (
            query("select id, what from booking", ""),
            "no rows were expected, and there are 3 rows: (1, \"in\"), (2, a blob of 2 bytes), (3, NULL)",
        ),
        (
            query("select sum(amount) from booking where id < 2", "equals = 0"),
            "0 was expected, and 5 was found",
        ),
        (
            query("select what from booking where id = 3", "equals = \\\"\\\""),
            "\"\" was expected, and NULL was found",
        ),
        (query("select what from booking where id = 2", "equals = 0"), "a blob of 2 bytes was found"),
        (
            query("select what from booking where id = 1", "at_least = 0"),
            "at least 0 was expected, and \"in\" was found",
        ),
        (query("select id from booking", "equals = 1"), "one value was expected, and there are 3 rows"),
        (query("select id, what from booking where id = 1", "equals = 1"), "the row has 2 columns"),
        (query("select count(*) from booking", "at_least = 4"), "at least 4 was expected, and 3 was found"),
        (
            query("with recursive n(i) as (select 1 union all select i + 1 from n) select i from n", ""),
            "more than 10 rows: (1), (2)",
        ),
        (query(ENDLESS, "deadline = \"100ms\""), "did not end within 100 ms"),
        (query("with n as (select 1) delete from booking returning id", ""), "not"),
        (query("with n as (select 1) insert into account select 9 returning id", ""), "not"),
        (query("select * from booking; attach 'other.db' as other", ""), "not authorized"),
        (query("select * from missing", ""), "no such table: missing"),
    ];
    let mut world = World::new();
    world.sqlite().execute_batch(BANK).unwrap();
    let asked = world.ground.asked();
    for (number, (lines, _)) in cases.iter().enumerate() {
        let lines = lines.replace("\\\"", "\"");
        world.add_store(&format!("bank-{number}"), BANK, &format!("{asked}\n{lines}"));
    }
    world.start_under_contract();
    let content = || {
        let files = tree(&world.ground.folder).into_iter().map(|(path, _)| path);
        files.map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = content();
    for (number, (lines, expected)) in cases.iter().enumerate() {
        let detail = refused(&world, &format!("bank-{number}"), "the check");
        assert!(detail.contains(expected), "{lines}: {detail}");
        assert!(content() == before, "{lines}: something was written");
    }
}

#[test]
fn the_first_check_that_is_not_met_is_named_and_what_is_corrected_is_published() {
    let world = bank(
        &[
            check("rows", "query = \"select count(*) from booking\"\nat_least = 3"),
            check("references", "builtin = \"foreign_key_check\""),
            check("balance", "query = \"select sum(amount) from booking\"\nequals = 0"),
        ]
        .concat(),
    );
    world.publish("first");
    world.settled("report@1");
    let write =
        |sql: &str| world.sqlite().execute_batch(&format!("pragma foreign_keys = off; {sql}")).unwrap();
    write("insert into booking values (4, 7, 1, 'nowhere')");
    let detail = refused(&world, "report", "references");
    assert!(detail.contains("(\"booking\", 4, \"account\", 0)"), "{detail}");
    write("delete from booking where id = 4; update booking set amount = 6 where id = 1");
    assert!(refused(&world, "report", "balance").contains("1 was found"));
    // A key that came to nothing may be used again.
    let key = |body: &Value| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "key")];
        world.request("POST", "/snapshots", &headers, body.to_string().as_bytes())
    };
    key(&json!({ "label": "second" })).expect_problem(422, "check_failed");
    write("update booking set amount = -6 where id = 2");
    let answer = key(&json!({ "label": "second" }));
    assert_eq!((answer.status, &answer.json()["version"]["id"]), (201, &json!("report@2")));
}

#[test]
fn a_store_that_meets_no_check_can_be_brought_back_and_is_kept_as_it_was() {
    let world = bank(&check("balance", "query = \"select sum(amount) from booking\"\nequals = 0"));
    world.publish("sound");
    world.settled("report@1");
    world.sqlite().execute_batch("update booking set amount = 6 where id = 1").unwrap();
    let answer = world.send("POST", "/stores/report/restore", &json!({ "version": "report@1" }));
    assert_eq!(answer.status, 200, "{answer}");
    let kept = world.settled("report@2");
    assert_eq!(checks(&kept), []);
    let sum: i64 = world.sqlite().query_row("select sum(amount) from booking", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 0);
    let answer = world.send("POST", "/snapshots", &json!({}));
    assert_eq!(answer.json()["publication"]["checks"][0]["found"], "0", "{answer}");
}

#[test]
fn a_daemon_that_ends_amid_its_checks_leaves_no_version_that_can_be_read() {
    let one = check("rows", "query = \"select count(*) from booking\"\nat_least = 3");
    let mut world =
        bank(&(one + &check("balance", "query = \"select sum(amount) from booking\"\nequals = 0")));
    world.stop();
    world.env = vec![("ASAT_CRASH_AT".to_owned(), "checks: made#1".to_owned())];
    world.start();
    let socket = world.socket();
    let body = json!({ "label": "close" }).to_string();
    let headers = [("Content-Type", "application/json")];
    crate::common::try_request(&socket, "POST", "/snapshots", &headers, body.as_bytes()).unwrap_err();
    world.daemon.take().unwrap().exit();
    world.env.clear();
    world.start();
    let left = world.get("/versions").json();
    assert_eq!(left["versions"], json!([]), "{left}");
    let failed = world.until("report@1", |version| version["holdings"] == json!([]));
    assert_eq!(failed["state"], "failed", "{failed}");
    let answer = world.send("POST", "/snapshots", &json!({ "label": "close" }));
    assert_eq!((answer.status, &answer.json()["version"]["id"]), (201, &json!("report@2")), "{answer}");
}

#[test]
fn a_daemon_that_stops_waits_for_a_check_no_longer_than_for_any_request() {
    let mut world = World::new();
    world.top_config = "stop_timeout = \"1s\"".to_owned();
    world.store_config = query(ENDLESS, "deadline = \"1h\"");
    world.sqlite().execute_batch("create table t(x)").unwrap();
    world.start_under_contract();
    let socket = world.socket();
    let publishing =
        std::thread::spawn(move || crate::common::try_request(&socket, "POST", "/snapshots", &[], b""));
    // Nobody is told of a version before it is one, so this is asked until it is under way.
    let deadline = Instant::now() + PATIENCE;
    while world.get("/versions?state=cutting").json()["versions"] == json!([]) {
        assert!(Instant::now() < deadline, "no version begins");
    }
    assert!(world.stop().success());
    // The answer may be lost with the connection.
    if let Ok(answer) = publishing.join().unwrap() {
        answer.expect_problem(503, "stopping");
    }
    world.store_config = String::new();
    world.start();
    assert_eq!(world.get("/versions?state=any").json()["versions"], json!([]));
}
