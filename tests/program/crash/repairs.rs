//! A repair that the daemon dies in is done again, and stands in the audit trail however far it had come.

use std::fs;

use serde_json::{Value, json};

use super::script::died;
use super::until_done;
use crate::common::{World, try_request};

/// A stopped daemon whose first version is damaged in a page that the store has again.
fn damaged() -> (World, Vec<u8>) {
    let mut world = World::new();
    let content = "create table ledger (entry); insert into ledger values (randomblob(50000))";
    world.sqlite().execute_batch(content).unwrap();
    world.start();
    world.publish("1");
    let content = world.get("/versions/report@1/database").body;
    // Of what is damaged below, the second version needs nothing: no start finds it.
    world.sqlite().execute_batch("delete from ledger; vacuum; insert into ledger values ('x')").unwrap();
    world.publish("2");
    assert!(world.stop().success());
    fs::write(world.store(), &content).unwrap();
    let segment = world.segment(1);
    let mut bytes = fs::read(&segment).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 0x10;
    fs::write(&segment, bytes).unwrap();
    (world, content)
}

/// Verifies; `None`: the daemon died before the answer.
fn verify(world: &mut World) -> Option<Value> {
    match try_request(&world.socket(), "POST", "/stores/report/verify", &[], b"") {
        Ok(answer) => {
            assert_eq!(answer.status, 200, "{answer}");
            Some(answer.json())
        }
        Err(error) => {
            let mut running = world.daemon.take().unwrap();
            died(&mut running).unwrap_or_else(|log| panic!("{error}\n{log}"));
            None
        }
    }
}

/// Starts a daemon that dies by itself at its n-th boundary, and verifies; whether it lived to the answer.
fn play(world: &mut World, nth: u32) -> bool {
    world.env = vec![("ASAT_CRASH_AT".to_owned(), nth.to_string())];
    let mut running = world.spawn();
    if running.wait_for("ready").is_err() {
        running.exit();
        return false;
    }
    world.daemon = Some(running);
    verify(world).is_some_and(|found| {
        assert_eq!(
            (&found["ok"], &found["findings"][0]["repaired"]),
            (&json!(false), &json!(true)),
            "{found}"
        );
        true
    })
}

#[test]
fn killed_at_any_boundary_of_a_repair_the_daemon_does_it_again_and_writes_it_down() {
    let boundaries = until_done(|nth| {
        let (mut world, content) = damaged();
        let whole = play(&mut world, nth);
        if whole {
            world.kill();
        }
        world.env.clear();
        world.start();
        verify(&mut world).unwrap();
        let again = verify(&mut world).unwrap();
        assert_eq!((&again["ok"], &again["findings"]), (&json!(true), &json!([])), "{again}");
        assert!(world.get("/versions/report@1/database").body == content);
        let trail = world.get("/audit?action=repair").json();
        let entries = trail["entries"].as_array().unwrap();
        assert!(!entries.is_empty() && entries.iter().all(|entry| entry["version"] == "report@1"), "{trail}");
        assert_eq!(world.get("/healthz").json()["status"], "ok");
        assert!(world.stop().success());
        !whole
    });
    println!("a repair has {boundaries} boundaries with the start before it");
    assert!(boundaries > 12, "{boundaries}");
}
