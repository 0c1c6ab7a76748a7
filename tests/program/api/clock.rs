//! A machine's clock that jumps: nothing ends by it until it is right again, or somebody accepts it.

use serde_json::{Value, json};

use crate::api::harm::alarm;
use crate::api::publish_change;
use crate::common::World;
use crate::common::setting::Clock;

const DAY: i64 = 86_400;
const JUMPS: [i64; 2] = [60 * DAY, 3650 * DAY];
const KEY: &str = "clock wall: doubted";

/// A daemon with thirteen versions that are kept for thirty days, what goes can be brought back for a week, and a clock that can
/// be set.
fn machine() -> (World, Clock) {
    let mut world = World::new();
    let clock = Clock::new(world.folder.path());
    world.env.extend(clock.env());
    world.config = "[retention]\ngrace = \"7d\"\n".to_owned();
    world.store_config = "[store.retention]\nkeep = \"all for 30 days\"\n".to_owned();
    world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
    world.start_under_contract();
    for n in 1..=13 {
        publish_change(&world, &n.to_string());
    }
    world.settled("report@13");
    (world, clock)
}

/// Has the daemon do its periodic work.
fn tick(world: &mut World) {
    world.reload("is in force");
}

fn ready(world: &World) -> usize {
    world.get("/versions?state=ready&limit=100").json()["versions"].as_array().unwrap().len()
}

fn is_doubted(world: &World) -> bool {
    world.get("/clock").json()["doubted"] == true
}

/// By how many seconds the machine's clock is ahead of what the daemon goes by, as its metrics say.
fn ahead(world: &World) -> f64 {
    let metrics = String::from_utf8(world.get("/metrics").body).unwrap();
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix("asat_clock_ahead_seconds "));
    values.next().unwrap().parse().unwrap()
}

/// Waits until no alarm is on.
fn wait_for_quiet(world: &World) {
    let mut events = world.listen();
    while world.get("/capacity").json()["alarms"] != json!([]) {
        events.next().expect("the daemon goes on");
    }
}

fn instant(version: &Value) -> jiff::Timestamp {
    version["cut_at"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_jump_gives_nothing_up_and_is_over_when_the_clock_is_set_right() {
    let (mut world, clock) = machine();
    let before = world.get("/versions/report@13").json();
    for (jump, number) in JUMPS.into_iter().zip(14..) {
        clock.set(jump);
        tick(&mut world);
        let on = alarm(&world, KEY);
        assert!(on["hint"].as_str().unwrap().contains("asat clock accept"), "{on}");
        assert_eq!(ready(&world), number - 1, "{jump}");
        assert!((ahead(&world) - jump as f64).abs() < 5.0, "{jump}: {}", ahead(&world));
        // Who publishes meanwhile gets an instant that is after the others, and not years away.
        publish_change(&world, "meanwhile");
        let since = instant(&world.get(&format!("/versions/report@{number}")).json()) - instant(&before);
        assert!((0.0..600.0).contains(&since.total(jiff::Unit::Second).unwrap()), "{jump}: {since}");

        clock.set(0);
        tick(&mut world);
        assert!(!is_doubted(&world), "{jump}");
        assert_eq!((ready(&world), ahead(&world)), (number, 0.0), "{jump}");
        wait_for_quiet(&world);
    }
    // Backwards, nothing is kept for longer either: the clock is doubted, and time goes on.
    clock.set(-3650 * DAY);
    tick(&mut world);
    assert!(alarm(&world, KEY)["reason"].as_str().unwrap().contains("3650 days behind"));
    let goes_by: jiff::Timestamp =
        world.get("/clock").json()["believed_at"].as_str().unwrap().parse().unwrap();
    assert!(goes_by > instant(&before));
    clock.set(0);
    tick(&mut world);
    wait_for_quiet(&world);
    let listed = world.get("/versions?limit=100").json();
    let instants: Vec<jiff::Timestamp> = listed["versions"].as_array().unwrap().iter().map(instant).collect();
    assert!(instants.is_sorted_by(|newer, older| newer > older), "{instants:?}");
}

#[test]
fn a_restart_forgets_no_doubt_and_what_was_accepted_can_be_taken_back_for_a_week() {
    let (mut world, clock) = machine();
    clock.set(60 * DAY);
    for _ in 0..2 {
        world.kill();
        world.start_under_contract();
        tick(&mut world);
        assert!(alarm(&world, KEY)["reason"].as_str().unwrap().contains("60 days ahead of"));
        assert_eq!((ready(&world), is_doubted(&world)), (13, true));
    }
    let shown = world.asat(&["clock"]);
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.status.code(), Some(13), "{shown:?}");
    assert!(said.contains("is doubted") && said.contains("12 versions given up by retention"), "{said}");
    let doctor = world.asat(&["doctor", "--config", world.path("asat.toml").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("doubts the machine's clock"), "{doctor:?}");
    let unasked = world.asat(&["clock", "accept"]);
    assert!(!unasked.status.success() && is_doubted(&world), "nobody could be asked: {unasked:?}");

    let accepted = world.asat(&["clock", "accept", "--yes", "--reason", "it was off"]);
    assert!(accepted.status.success(), "{accepted:?}");
    assert_eq!((ready(&world), is_doubted(&world), ahead(&world)), (1, false, 0.0));
    assert_eq!(world.get("/capacity").json()["waiting"]["versions"], 12);
    let entry = world.get("/audit?action=accept").json()["entries"][0].clone();
    assert_eq!((&entry["version"], &entry["details"]["reason"]), (&json!("report@13"), &json!("it was off")));

    for version in ["report@1", "report@12"] {
        let back = world.request("POST", &format!("/versions/{version}/unretire"), &[], b"");
        assert_eq!((back.status, &back.json()["state"]), (200, &json!("ready")), "{back}");
        assert_eq!(world.get(&format!("/versions/{version}/database")).status, 200);
    }
}

#[test]
fn a_catalogue_that_was_lost_gives_nothing_up_by_a_clock_that_nothing_of_it_was_recorded_of() {
    let (mut world, clock) = machine();
    let catalogue = world.path("state/catalogue.db");
    for is_rebuilt in [true, false] {
        clock.set(0);
        assert!(world.stop().success());
        if is_rebuilt {
            let config = world.path("asat.toml");
            let rebuilt =
                world.asat(&["rebuild-catalogue", "--replace", "--config", config.to_str().unwrap()]);
            assert!(rebuilt.status.success(), "{rebuilt:?}");
        } else {
            std::fs::remove_file(&catalogue).unwrap();
        }
        clock.set(3650 * DAY);
        world.start_under_contract();
        tick(&mut world);
        assert_eq!((ready(&world), is_doubted(&world)), (13, true), "{is_rebuilt}");
        assert!(alarm(&world, KEY)["reason"].as_str().unwrap().contains("3650 days ahead of"));
    }
    clock.set(0);
    tick(&mut world);
    assert_eq!((ready(&world), is_doubted(&world)), (13, false));
    wait_for_quiet(&world);
}

#[test]
fn after_a_boot_nothing_is_published_under_a_clock_that_may_be_right() {
    let (mut world, clock) = machine();
    world.store_config +=
        "[store.watch]\nmarker = \"select max(id) from certification\"\ndeadline = \"10s\"\n";
    world.sqlite().execute_batch("create table certification (id)").unwrap();
    assert!(world.stop().success());
    // The machine is off for ten days. Nobody knows for how long, so the clock may be right.
    clock.set(10 * DAY);
    clock.reboot();
    world.start_under_contract();
    world.sqlite().execute_batch("insert into certification values (7)").unwrap();
    let refused = world.send("POST", "/snapshots", &json!({ "label": "after the holidays" }));
    let problem = refused.expect_problem(503, "clock_doubted");
    assert!(problem["hint"].as_str().unwrap().contains("asat clock accept"), "{problem}");
    let typed = world.asat(&["publish", "--label", "after the holidays"]);
    assert_eq!(typed.status.code(), Some(6), "{typed:?}");
    let back = world.send("POST", "/stores/report/restore", &json!({ "version": "report@1" }));
    back.expect_problem(503, "clock_doubted");
    let watch = |world: &World| world.get("/stores").json()["stores"][0]["watch"].clone();
    let mut events = world.listen();
    while watch(&world)["trouble"]["code"] != "clock_doubted" {
        events.next().expect("the daemon goes on");
    }
    assert_eq!((ready(&world), is_doubted(&world)), (13, true), "nothing is given up, and nothing is new");

    // Watch mode has tried again by itself.
    let accepted = world.asat(&["clock", "accept", "--yes", "--reason", "the holidays"]);
    assert!(accepted.status.success(), "{accepted:?}");
    while watch(&world)["published"] != "7" {
        events.next().expect("the daemon goes on");
    }
    let [first, last] = [13, 14].map(|number| world.get(&format!("/versions/report@{number}")).json());
    let since = instant(&last) - instant(&first);
    assert!(since.total(jiff::Unit::Hour).unwrap() > 239.0, "{since}");
}
