//! The log as it is collected, and the names of requests that lead from a caller to what became of it.

use crate::common::{self, Answer, World};
use serde_json::Value;

/// A daemon that writes its log in this form, with a store that has a row.
fn world(format: &str) -> World {
    let mut world = World::new();
    world.config = format!("[log]\nformat = \"{format}\"");
    world.sqlite().execute_batch("create table ledger(n); insert into ledger values (1)").unwrap();
    world.start_under_contract();
    world
}

/// Publishes in a request of this name.
fn publish(world: &World, name: &str) -> Answer {
    let headers = [("Content-Type", "application/json"), ("X-Request-Id", name)];
    world.request("POST", "/snapshots", &headers, b"{}")
}

/// Ends the daemon; answers what it has logged since it was ready, a line each.
fn ended(mut world: World) -> Vec<String> {
    let mut daemon = world.daemon.take().unwrap();
    daemon.terminate();
    assert!(daemon.child.wait().unwrap().success());
    daemon.rest_of_log().lines().map(str::to_owned).collect()
}

/// The same, where each line is JSON.
fn ended_with_json(world: World) -> Vec<Value> {
    let parse = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    ended(world).iter().map(parse).collect()
}

#[test]
fn a_line_in_json_says_which_version_it_is_about_and_which_request_caused_it() {
    let world = world("json");
    let answer = publish(&world, "close-4711");
    assert_eq!((answer.status, answer.header("x-request-id")), (201, Some("close-4711")), "{answer}");
    world.settled("report@1");
    publish(&world, "close-4714");
    world.retire("report@1");
    let trail = world.get("/audit?action=publish").json();
    assert_eq!(trail["entries"][0]["request"], "close-4711");
    let retired = world.get("/audit?action=retire").json()["entries"][0]["request"].clone();

    let lines = ended_with_json(world);
    for line in &lines {
        for field in ["timestamp", "level", "message", "target"] {
            assert!(line[field].is_string(), "{field}: {line}");
        }
        let text = line["message"].as_str().unwrap();
        assert!(!text.contains("report@") || line["version"].is_string(), "{line}");
    }
    let about =
        |text: &str| lines.iter().find(|line| line["message"].as_str().unwrap().contains(text)).unwrap();
    let published = about("published report@1");
    assert_eq!(
        (&published["version"], &published["span"]["request"]),
        (&"report@1".into(), &"close-4711".into())
    );
    assert!(published["elapsed_us"].is_u64() && published["reused"] == false, "{published}");
    let given_up = about("report@1 is retir");
    assert_eq!((&given_up["version"], &given_up["span"]["request"]), (&"report@1".into(), &retired));
}

#[test]
fn trouble_with_a_version_is_told_of_under_its_name_however_it_was_asked_for() {
    let mut world = World::new();
    world.config = "[log]\nformat = \"json\"\n[copies]\nmax_size = \"1 KiB\"".to_owned();
    world.sqlite().execute_batch("create table ledger(n)").unwrap();
    world.start_under_contract();
    publish(&world, "close-4715");
    let asked =
        world.send("POST", "/versions/report@latest/mounts", &serde_json::json!({ "holder": "test" }));
    let request = asked.expect_problem(507, "storage_full")["request"].clone();
    let lines = ended_with_json(world);
    let told = lines.iter().find(|line| line["code"] == "storage_full").unwrap();
    assert_eq!((&told["version"], &told["span"]["request"]), (&"report@1".into(), &request), "{told}");
}

#[test]
fn what_an_effect_logs_names_the_request_that_caused_it() {
    let mut world = World::new();
    world.config = "[log]\nformat = \"json\"".to_owned();
    // In the lane, as the version is put into the archive.
    world.env = vec![("ASAT_CRASH_AT".to_owned(), "archive: rename#1".to_owned())];
    world.sqlite().execute_batch("create table ledger(n)").unwrap();
    world.start();
    let headers = [("Content-Type", "application/json"), ("X-Request-Id", "close-4712")];
    common::try_request(&world.socket(), "POST", "/snapshots", &headers, b"{}").unwrap_err();
    let mut daemon = world.daemon.take().unwrap();
    let log = daemon.wait_for("crash test: killed").unwrap();
    daemon.exit();
    let line: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((&line["level"], &line["span"]["request"]), (&"WARN".into(), &"close-4712".into()), "{line}");
}

#[test]
fn names_that_cannot_be_written_anywhere_are_replaced() {
    let world = world("json");
    let long = "x".repeat(201);
    let made: std::collections::BTreeSet<String> = ["", "two words", "a\tb", "gr\u{fc}n", &long]
        .iter()
        .map(|name| {
            let answer = publish(&world, name);
            let made = answer.header("x-request-id").unwrap().to_owned();
            assert!(made != *name && made.len() < 40, "{name:?}: {made}");
            assert!(made.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{made}");
            made
        })
        .collect();
    assert_eq!(made.len(), 5);
    // One that would end its line is no header at all, and is not taken for one.
    let answer = publish(&world, "a\r\nX-Request-Id: b");
    assert_ne!(answer.header("x-request-id"), Some("a\r\nX-Request-Id: b"));
    let longest = "y".repeat(200);
    assert_eq!(publish(&world, &longest).header("x-request-id"), Some(longest.as_str()));
    for line in ended_with_json(world) {
        let request = line["span"]["request"].as_str().unwrap_or("none");
        assert!(!request.contains(['x', ' ', '\t']) && request.is_ascii(), "{line}");
    }
}

#[test]
fn a_problem_says_what_its_request_is_called() {
    let world = world("text");
    publish(&world, "first");
    let named = world.request("GET", "/versions/report@9", &[("X-Request-Id", "look-1")], b"");
    let named = named.expect_problem(404, "unknown_version");
    assert_eq!(named["request"], "look-1");
    for (method, path) in [("GET", "/versions/report@9"), ("GET", "/nothing"), ("PATCH", "/versions")] {
        let answer = world.request(method, path, &[], b"");
        let problem = answer.json();
        assert_eq!(problem["request"].as_str(), answer.header("x-request-id"), "{answer}");
        assert!(problem["request"].is_string(), "{answer}");
    }
    assert_eq!(world.request("HEAD", "/versions/report@9", &[], b"").body, b"");
}

#[test]
fn text_is_plain_and_has_the_same_fields() {
    let world = world("auto");
    publish(&world, "close-4713");
    let lines = ended(world);
    let line = lines.iter().find(|line| line.contains("published report@1")).unwrap();
    for part in ["INFO", "request=close-4713", "version=report@1", "reused=false"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!lines.iter().any(|line| line.contains('\u{1b}')), "{lines:#?}");
}

#[test]
fn the_level_says_how_much_is_logged() {
    let mut world = World::new();
    world.config = "[log]\nlevel = \"error\"".to_owned();
    let mut daemon = world.spawn();
    // It says nothing, so it is asked.
    while common::try_request(&world.socket(), "GET", "/readyz", &[], b"").is_err() {
        std::thread::yield_now();
    }
    daemon.terminate();
    assert!(daemon.child.wait().unwrap().success());
    assert_eq!(daemon.rest_of_log(), "");
}

#[test]
fn a_journal_that_is_wanted_and_cannot_be_reached_is_told() {
    if std::path::Path::new("/run/systemd/journal/socket").exists() {
        // Here it can be. The tests of the service go on with that.
        return;
    }
    let mut world = World::new();
    world.config = "[log]\nformat = \"journald\"".to_owned();
    let log = world.spawn().wait_for("ready").unwrap_err();
    assert!(log.contains("log.format is \"journald\", and the journal cannot be reached"), "{log}");
}
