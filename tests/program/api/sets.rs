//! Sets: several stores are published as they are at one instant, all of them or none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::common::{Over, PATIENCE, World};

/// Two stores with a counter each, and a set of both. These lines are added to the configuration of the second.
fn world(config: &str) -> World {
    let mut world = World::new();
    "[[set]]\nname = \"month-end\"\nstores = [\"report\", \"ledger\"]".clone_into(&mut world.config);
    "busy_timeout = \"50s\"".clone_into(&mut world.store_config);
    world.sqlite().execute_batch(COUNTER).unwrap();
    let config = format!("{}\n{config}", world.ground.asked());
    world.add_store("ledger", COUNTER, &config);
    world.start_under_contract();
    world
}

const COUNTER: &str = "create table counter (n integer); insert into counter values (0)";

fn ledger(world: &World) -> Connection {
    let connection = Connection::open(world.store_at("ledger.db")).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection
}

fn count(store: &Connection) {
    store.execute("update counter set n = n + 1", []).unwrap();
}

/// Publishes the set, which has to be taken; answers what it gave.
fn publish(world: &World) -> Value {
    let answer = world.send("POST", "/snapshots", &json!({ "set": "month-end", "label": "close" }));
    assert!([200, 201].contains(&answer.status), "{answer}");
    answer.json()
}

/// The names of the versions that a set's publication gave.
fn ids(published: &Value) -> Vec<&str> {
    let each = published["published"].as_array().unwrap().iter();
    each.map(|published| published["version"]["id"].as_str().unwrap()).collect()
}

/// The counter in a version, as a stock client reads it.
fn counted(world: &World, id: &str) -> i64 {
    let path = world.open(id);
    let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.query_row("select n from counter", [], |row| row.get(0)).unwrap()
}

/// All versions that somebody could read or was told of.
fn listed(world: &World) -> Value {
    world.get("/versions").json()["versions"].clone()
}

#[test]
fn a_set_gives_each_store_a_version_of_one_instant() {
    let world = world("");
    let said = json!({ "set": "month-end", "label": "close", "certified_by": "ops" });
    let answer = world.send("POST", "/snapshots", &said);
    assert_eq!(answer.status, 201, "{answer}");
    let published = answer.json();
    assert_eq!(published["set"], "month-end");
    assert_eq!(ids(&published), ["ledger@1", "report@1"]);
    for each in published["published"].as_array().unwrap() {
        assert_eq!(each["version"]["cut_at"], published["cut_at"]);
        assert_eq!(each["publication"]["certified_by"], "ops");
        let of_set = json!({ "name": "month-end", "cut_at": published["cut_at"] });
        assert_eq!(each["publication"]["set"], of_set);
    }
    // Where the answer says, and by the set alone, they are found.
    for target in [answer.header("location").unwrap(), "/versions?set=month-end", "/versions"] {
        let found = world.get(target).json();
        assert_eq!(found["versions"].as_array().unwrap().len(), 2, "{target}: {found}");
    }
    for nothing in ["/versions?set=other", "/versions?set_cut_at=2026-01-01T00:00:00Z"] {
        assert_eq!(world.get(nothing).json()["versions"], json!([]), "{nothing}");
    }
    let trail = world.get("/audit?action=publish").json();
    let entries = trail["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{trail}");
    assert!(entries.iter().all(|entry| entry["details"]["set"] == "month-end"), "{trail}");
}

#[test]
fn a_store_that_has_not_changed_is_part_of_the_set_with_the_version_that_is_there() {
    let world = world("");
    let first = publish(&world);
    count(&ledger(&world));
    let second = publish(&world);
    assert_eq!((first["reused"].clone(), second["reused"].clone()), (json!(false), json!(false)));
    assert_eq!(ids(&second), ["ledger@2", "report@1"]);
    assert_eq!(second["published"][1]["reused"], true);
    assert!(second["cut_at"].as_str() > first["cut_at"].as_str());
    // As of the instant of a set, each store is what its version in the set is.
    for (published, store, id) in [
        (&first, "ledger", "ledger@1"),
        (&first, "report", "report@1"),
        (&second, "ledger", "ledger@2"),
        (&second, "report", "report@1"),
    ] {
        let at = published["cut_at"].as_str().unwrap();
        let found = world.get(&format!("/as-of/{at}?store={store}")).json();
        assert_eq!(found["id"], id);
    }
    let at = second["cut_at"].as_str().unwrap();
    let found = world.get(&format!("/versions?set=month-end&set_cut_at={at}")).json();
    assert_eq!(found["versions"].as_array().unwrap().len(), 2, "{found}");
    // Where nothing has changed, there is nothing new.
    let answer = world.send("POST", "/snapshots", &json!({ "set": "month-end" }));
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(ids(&answer.json()), ["ledger@2", "report@1"]);
}

#[test]
fn one_key_publishes_a_set_once() {
    let world = world("");
    let send = |body: &Value| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "close 7")];
        world.request("POST", "/snapshots", &headers, body.to_string().as_bytes())
    };
    let body = json!({ "set": "month-end", "label": "close" });
    let first = send(&body);
    assert_eq!(first.status, 201, "{first}");
    count(&world.sqlite());
    let again = send(&body).json();
    assert_eq!(again["cut_at"], first.json()["cut_at"]);
    assert_eq!(ids(&again), ["ledger@1", "report@1"]);
    for other in [json!({ "store": "ledger", "label": "close" }), json!({ "set": "month-end" })] {
        send(&other).expect_problem(422, "key_reused");
    }
    assert_eq!(world.get("/versions?state=any").json()["versions"].as_array().unwrap().len(), 2);
}

/// The same beside those who write without pause: where nobody let go of a store for as long as a publication waits, it is asked for
/// again, as its answer says.
fn publish_beside_writers(world: &World) -> Value {
    let ask = || world.send("POST", "/snapshots", &json!({ "set": "month-end", "label": "close" }));
    let answer = (0..20).map(|_| ask()).find(|answer| answer.status != 503).expect("it is taken at last");
    assert!([200, 201].contains(&answer.status), "{answer}");
    answer.json()
}

/// How many rounds a writer has made.
#[derive(Default)]
struct Rounds(Mutex<u64>, Condvar);

impl Rounds {
    fn one_more(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    /// Waits until there are so many more.
    fn wait_for(&self, more: u64) {
        let made = self.0.lock().unwrap();
        let enough = *made + more;
        drop(self.1.wait_timeout_while(made, PATIENCE, |made| *made < enough).unwrap());
    }
}

/// Counts in the ledger and then in the report, one after the other, until it is told to stop.
fn alternate(world: &World, stop: &AtomicBool, rounds: &Rounds) {
    let (ledger, report) = (ledger(world), world.sqlite());
    for store in [&ledger, &report] {
        store.pragma_update(None, "synchronous", false).unwrap();
    }
    while !stop.load(Ordering::SeqCst) {
        count(&ledger);
        count(&report);
        rounds.one_more();
    }
}

#[test]
fn what_is_written_to_one_store_after_the_other_is_never_torn_apart() {
    for (of_ledger, of_report) in [("wal", "wal"), ("wal", "delete"), ("delete", "delete")] {
        let world = world("busy_timeout = \"50s\"");
        ledger(&world).pragma_update(None, "journal_mode", of_ledger).unwrap();
        world.sqlite().pragma_update(None, "journal_mode", of_report).unwrap();
        let (stop, rounds) = (AtomicBool::new(false), Rounds::default());
        let published: Vec<Value> = thread::scope(|scope| {
            scope.spawn(|| alternate(&world, &stop, &rounds));
            // A writer that nobody stops would keep a test that has failed from saying so.
            let _over = Over(&stop);
            let published = (0..6).map(|_| {
                // Each time somebody is at it.
                rounds.wait_for(3);
                publish_beside_writers(&world)
            });
            published.collect()
        });
        for published in published {
            let counts: Vec<i64> = ids(&published).iter().map(|id| counted(&world, id)).collect();
            // At each instant the ledger is as far as the report, or one ahead.
            assert!([0, 1].contains(&(counts[0] - counts[1])), "{of_ledger}, {of_report}: {counts:?}");
        }
    }
}

#[test]
fn where_one_store_is_busy_none_is_published() {
    for journal in ["wal", "delete"] {
        let world = world("busy_timeout = \"300ms\"");
        ledger(&world).pragma_update(None, "journal_mode", journal).unwrap();
        let other = ledger(&world);
        other.execute_batch("begin immediate; update counter set n = 7").unwrap();
        let answer = world.send("POST", "/snapshots", &json!({ "set": "month-end" }));
        let problem = answer.expect_problem(503, "store_busy");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("set month-end") && detail.contains("store ledger"), "{detail}");
        assert!(answer.header("retry-after").is_some(), "{answer}");
        assert_eq!(world.get("/versions?state=any").json()["versions"], json!([]));
        // Nobody is held any longer.
        other.execute_batch("commit").unwrap();
        count(&world.sqlite());
        let published = publish(&world);
        assert_eq!(ids(&published), ["ledger@1", "report@1"]);
        assert_eq!([counted(&world, "ledger@1"), counted(&world, "report@1")], [7, 1]);
    }
}

#[test]
fn where_one_store_does_not_meet_its_check_none_is_published() {
    let check = "[[store.check]]\nname = \"balance\"\nquery = \"select n from counter\"\nequals = 0";
    let world = world(check);
    let first = publish(&world);
    assert_eq!(first["published"][0]["publication"]["checks"][0]["name"], "balance");
    count(&ledger(&world));
    count(&world.sqlite());
    let before = listed(&world).as_array().unwrap().len();
    let answer = world.send("POST", "/snapshots", &json!({ "set": "month-end" }));
    let problem = answer.expect_problem(422, "check_failed");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("store ledger") && detail.contains("\"balance\""), "{detail}");
    assert_eq!(listed(&world).as_array().unwrap().len(), before);
    // Nor is what the other store had become: it is cut anew.
    ledger(&world).execute("update counter set n = 0", []).unwrap();
    let published = publish(&world);
    let id = published["published"][1]["version"]["id"].as_str().unwrap();
    assert_eq!((counted(&world, id), published["published"][1]["reused"].clone()), (1, json!(false)));
}

#[test]
fn where_one_store_is_not_there_none_is_published() {
    let world = world("");
    let (there, away) = (world.store_at("ledger.db"), world.store_at("away.db"));
    std::fs::rename(&there, &away).unwrap();
    let answer = world.send("POST", "/snapshots", &json!({ "set": "month-end" }));
    assert_eq!(answer.status, 422, "{answer}");
    assert_eq!(world.get("/versions?state=any").json()["versions"], json!([]));
    std::fs::rename(&away, &there).unwrap();
    assert_eq!(ids(&publish(&world)), ["ledger@1", "report@1"]);
}

#[test]
fn what_is_no_request_for_a_set_is_refused_and_changes_nothing() {
    let world = world("");
    for (body, status, code) in [
        (json!({ "set": "month-end", "store": "report" }), 422, "invalid"),
        (json!({ "set": "none" }), 404, "unknown_set"),
        (json!({ "set": "report" }), 404, "unknown_set"),
        (json!({ "store": "month-end" }), 404, "unknown_store"),
        (json!({ "set": "" }), 400, "malformed"),
        (json!({ "set": "../month-end" }), 400, "malformed"),
        (json!({ "set": 7 }), 422, "invalid"),
        (json!({ "set": ["month-end"] }), 422, "invalid"),
        (json!({ "set": "month-end", "label": "" }), 422, "invalid"),
        (json!({ "set": null }), 422, "invalid"), // Of several stores none is named.
    ] {
        let answer = world.send("POST", "/snapshots", &body);
        answer.expect_problem(status, code);
    }
    for target in ["/versions?set=..%2F", "/versions?set_cut_at=yesterday"] {
        world.get(target).expect_problem(400, "malformed");
    }
    assert_eq!(world.get("/versions?state=any").json()["versions"], json!([]));
}

#[test]
fn sets_and_stores_that_are_published_at_once_wait_for_one_another() {
    let world = world("busy_timeout = \"50s\"");
    let bodies = [json!({ "set": "month-end" }), json!({ "store": "ledger" }), json!({ "store": "report" })];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..9)
            .map(|nth| {
                let (world, body) = (&world, &bodies[nth % 3]);
                scope.spawn(move || {
                    count(&ledger(world));
                    let answer = world.send("POST", "/snapshots", body);
                    // What is on its way into the archive, or out of it, is no failure.
                    assert!([200, 201].contains(&answer.status), "{answer}");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let cuts = |store: &str| {
        let versions = world.get(&format!("/versions?store={store}")).json();
        let each = versions["versions"].as_array().unwrap().iter();
        each.map(|version| version["cut_at"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(cuts("ledger").is_sorted_by(|newer, older| newer > older));
}

#[test]
fn the_client_publishes_a_set() {
    let world = world("");
    let said = world.asat(&["publish", "--set", "month-end", "--label", "close"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success() && text.starts_with("month-end published as of "), "{text}");
    assert!(text.contains("\n  ledger@1 published") && text.contains("\n  report@1 published"), "{text}");
    let instant = text.split_whitespace().nth(4).unwrap().trim_end_matches(',').to_owned();
    for (store, id) in [("ledger", "ledger@1"), ("report", "report@1")] {
        let said = world.asat(&["as-of", &instant, store, "--json"]);
        let found: Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(found["id"], id);
    }
    let said = world.asat(&["ls", "--set", "month-end", "--set-cut-at", &instant, "--json"]);
    let found: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(found["versions"].as_array().unwrap().len(), 2, "{found}");
    let said = world.asat(&["show", "report@1"]);
    assert!(
        String::from_utf8(said.stdout).unwrap().contains(&format!("with the set month-end as of {instant}"))
    );
    let refused = world.asat(&["publish", "--set", "none"]);
    assert!(String::from_utf8(refused.stderr).unwrap().contains("there is no set none"));
    let both = world.asat(&["publish", "report", "--set", "month-end"]);
    assert!(String::from_utf8(both.stderr).unwrap().contains("cannot be used with"));
}

#[test]
fn a_set_is_known_after_a_restart() {
    let mut world = world("");
    let published = publish(&world);
    assert!(world.stop().success());
    world.start();
    let at = published["cut_at"].as_str().unwrap();
    let found = world.get(&format!("/versions?set=month-end&set_cut_at={at}")).json();
    assert_eq!(found["versions"].as_array().unwrap().len(), 2, "{found}");
    // On a volume, the first version after a start has nothing to be compared with.
    let first = world.ground.is_volume().then(|| publish(&world));
    let expected = first.as_ref().map_or(vec!["ledger@1", "report@1"], ids);
    let again = publish(&world);
    assert_eq!((ids(&again), again["reused"].clone()), (expected, json!(true)));
}
