//! The catalogue is deleted, replaced or damaged, while the daemon runs and while it does not.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{asat, recorded, refused, world};
use crate::common::{PATIENCE, World};

/// Waits until an alarm of the state folder is on, or off.
fn await_alarm(world: &World, is_on: bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let capacity = world.get("/capacity").json();
        let alarms = capacity["alarms"].as_array().unwrap().iter();
        let of_catalogue = |alarm: &&Value| alarm["reason"].as_str().unwrap().contains("catalogue.db");
        let found: Vec<&Value> = alarms.filter(of_catalogue).collect();
        if found.is_empty() != is_on {
            let says_what_to_do = |alarm: &&Value| alarm["hint"].as_str().unwrap().contains("recover.md");
            return assert!(found.iter().all(says_what_to_do), "{found:?}");
        }
        assert!(Instant::now() < deadline, "{capacity}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until nothing is under way that will be recorded: what goes during a commit leaves the daemon unsure until its next start.
fn at_rest(world: &World) {
    let deadline = Instant::now() + PATIENCE;
    let is_open = |line: &str| line.starts_with("asat_open_effects{") && !line.ends_with(" 0");
    loop {
        let metrics = String::from_utf8(world.get("/metrics").body).expect("metrics are text");
        if !metrics.lines().any(is_open) {
            return;
        }
        assert!(Instant::now() < deadline, "{metrics}");
        std::thread::yield_now();
    }
}

#[test]
fn a_catalogue_that_goes_under_the_daemon_is_noticed_and_nothing_is_acknowledged_until_it_is_back() {
    for replaced in [false, true] {
        let mut world = world();
        let (catalogue, aside) = (world.path("state/catalogue.db"), world.path("aside.db"));
        at_rest(&world);
        let before = recorded(&world);
        fs::rename(&catalogue, &aside).unwrap();
        if replaced {
            fs::copy(&aside, &catalogue).unwrap();
        }
        let tag = || world.send("PUT", "/stores/report/tags/close", &json!({ "version": "report@3" }));
        for _ in 0..2 {
            let refusal = tag().expect_problem(500, "damaged");
            let what = if replaced { "was replaced" } else { "was deleted or moved away" };
            assert!(refusal["detail"].as_str().unwrap().contains(what), "{refusal}");
        }
        world.sqlite().execute("insert into ledger values ('later')", []).unwrap();
        world.send("POST", "/snapshots", &json!({})).expect_problem(500, "damaged");
        world.get("/readyz").expect_problem(500, "damaged");
        let health = world.get("/healthz").json();
        assert_eq!((&health["status"], &health["trouble"]["code"]), (&json!("degraded"), &json!("damaged")));
        let verified = world.request("POST", "/stores/report/verify", &[], b"").json();
        assert_eq!(verified["ok"], false, "{verified}");
        await_alarm(&world, true);

        fs::rename(&aside, &catalogue).unwrap();
        assert!([200, 201].contains(&tag().status));
        assert_eq!(world.get("/readyz").status, 200);
        await_alarm(&world, false);
        world.kill();
        world.start();
        assert_eq!(recorded(&world), before);
        let tagged = world.get("/versions/report@close").json();
        assert_eq!(tagged["id"], "report@3", "{tagged}");
    }
}

#[test]
fn a_log_that_is_damaged_after_a_kill_is_refused_with_what_to_do() {
    let mut world = world();
    let before = recorded(&world);
    // What is recorded at the moment of the kill may be lost unnoticed, as nobody was told of it.
    at_rest(&world);
    world.kill();
    let log = world.path("state/catalogue.db-wal");
    let whole = fs::read(&log).unwrap();
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&log, bytes).unwrap();
        let mut running = world.spawn();
        let said = running.wait_for("ready").unwrap_err();
        assert!(!running.exit().success());
        assert!(said.contains("was acknowledged") && said.contains("asat backup"), "{said}");
    }
    fs::write(&log, &whole).unwrap();
    world.start();
    assert_eq!(recorded(&world), before);
}

/// A long one is checked while versions can be read already.
#[test]
fn a_record_that_changes_in_a_long_catalogue_ends_the_daemon_and_nothing_is_recorded() {
    let mut world = world();
    let path = world.path("state/catalogue.db");
    (0..700).for_each(|number| _ = world.publish(&format!("again {number}")));
    at_rest(&world);
    assert!(world.stop().success());
    assert!(fs::metadata(&path).unwrap().len() > 256 << 10, "a short one is checked before it is read");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("update publication set label = 'close 9' where label = 'again 7'").unwrap();
    other.close().unwrap();
    let damaged = fs::read(&path).unwrap();
    let mut running = world.spawn();
    let said = running.wait_for("not what was committed");
    assert!(said.is_ok(), "{said:?}");
    assert!(!running.exit().success());
    assert!(fs::read(&path).unwrap() == damaged, "something was recorded on top of the damage");
    let log = fs::metadata(world.path("state/catalogue.db-wal"));
    assert!(log.map_or(true, |log| log.len() == 0), "something was recorded on top of the damage");
}

#[test]
fn a_record_that_changes_in_the_catalogue_is_found_by_verify_by_doctor_and_at_the_start() {
    let mut world = world();
    let change = |world: &World| {
        let other = rusqlite::Connection::open(world.path("state/catalogue.db")).unwrap();
        other.execute_batch("update publication set label = 'close 9' where label = 'close 1'").unwrap();
    };
    let verify = |world: &World| world.request("POST", "/stores/report/verify", &[], b"").json();
    assert_eq!(verify(&world)["ok"], true);
    change(&world);
    let verified = verify(&world);
    assert_eq!(verified["ok"], false, "{verified}");
    let finding = &verified["findings"][0];
    assert!(finding["file"].as_str().unwrap().ends_with("catalogue.db"), "{verified}");
    assert!(finding["what"].as_str().unwrap().contains("not what was committed"), "{verified}");
    assert!(world.stop().success());
    let judged = asat(&world, &["doctor"]);
    assert!(!judged.status.success());
    assert!(String::from_utf8_lossy(&judged.stdout).contains("not what was committed"), "{judged:?}");
    let mut running = world.spawn();
    let said = running.wait_for("ready").unwrap_err();
    assert!(said.contains("not what was committed") && !running.exit().success(), "{said}");
    assert!(refused(&asat(&world, &["rebuild-catalogue"])).contains("--replace"));
}
