//! What would keep the daemon from its catalogue, the doctor says beforehand, and changes nothing.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::common::World;
use crate::recovery::{asat, flip_label, flip_middle, world};

/// What the doctor says of the catalogue: the level, the words, and the advice.
fn examined(world: &World) -> [Value; 3] {
    world.write_config();
    let output = asat(world, &["doctor"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_catalogue = |finding: &&Value| finding["check"] == "catalogue";
    let finding = report["findings"].as_array().unwrap().iter().find(of_catalogue).unwrap();
    let is_problem = finding["level"] == "problem";
    assert_eq!(output.status.code(), Some(if is_problem { 78 } else { 0 }), "{report}");
    ["level", "what", "advice"].map(|field| finding[field].clone())
}

/// What lies in the state folder, and since when.
fn listed(world: &World) -> Vec<(String, u64, SystemTime)> {
    let entries = fs::read_dir(world.path("state")).unwrap().map(Result::unwrap);
    let mut listed: Vec<_> = entries
        .map(|entry| {
            let found = entry.metadata().unwrap();
            (entry.file_name().into_string().unwrap(), found.len(), found.modified().unwrap())
        })
        .collect();
    listed.sort();
    listed
}

/// Makes another file of the catalogue.
type Spoil = fn(&Path);

const SPOILT: [(Spoil, i32, &str); 6] = [
    (|path| change(path, "pragma user_version = 99"), 78, "schema version 99"),
    (|path| fs::write(path, [0x5a; 9000]).unwrap(), 9, "does not begin like a SQLite database"),
    (|path| change(path, "pragma application_id = 7"), 78, "not a catalogue of asat"),
    (
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        78,
        "is a folder or a device",
    ),
    (|path| change(path, "update publication set at = 'yesterday'"), 9, "table publication"),
    (|path| fs::rename(path, path.with_file_name("catalogue.db-wal")).unwrap(), 9, "is missing, but"),
];

fn change(path: &Path, sql: &str) {
    let catalogue = rusqlite::Connection::open(path).unwrap();
    // What is changed is in the file itself, and no log beside it.
    catalogue.execute_batch(&format!("pragma ignore_check_constraints = on; {sql}")).unwrap();
    catalogue.close().unwrap();
}

#[test]
fn the_doctor_says_of_the_catalogue_what_the_daemon_would() {
    for (spoil, code, words) in SPOILT {
        let mut world = world();
        assert!(world.stop().success());
        let before = listed(&world);
        assert_eq!(examined(&world)[0], "ok");
        assert_eq!(listed(&world), before);
        spoil(&world.path("state/catalogue.db"));
        let before = listed(&world);
        let [level, what, advice] = examined(&world);
        assert_eq!(listed(&world), before, "{what}");
        assert!(level == "problem" && what.as_str().unwrap().contains(words), "{level} {what}");
        let mut daemon = world.spawn();
        let log = daemon.wait_for("listen: ready").expect_err("it should not start");
        assert_eq!(daemon.exit().code(), Some(code), "{log}");
        assert!(log.contains(what.as_str().unwrap()), "{what} is not in {log}");
        assert_eq!(
            advice.as_str().unwrap().contains("asat rebuild-catalogue"),
            code == 9 || words.contains("folder")
        );
        if code == 9 {
            asat(&world, &["rebuild-catalogue", "--replace"]);
            world.start();
            assert_eq!(world.get("/versions/report@3").json()["state"], "ready");
        }
    }
}

#[test]
fn the_doctor_is_not_in_the_way_of_a_daemon() {
    let mut world = world();
    // It may be at work, and its log grow meanwhile.
    let names = |world: &World| -> Vec<String> { listed(world).into_iter().map(|(name, ..)| name).collect() };
    let before = names(&world);
    assert_eq!(examined(&world)[0], "ok");
    assert_eq!(names(&world), before);
    world.kill();
    let before = listed(&world);
    assert_eq!(examined(&world)[0], "ok");
    assert_eq!(listed(&world), before);
}

/// It looks into a copy, and not beside a daemon that has the catalogue open.
#[test]
fn the_doctor_says_of_the_log_of_a_daemon_that_was_killed_what_a_start_would() {
    let mut world = world();
    world.kill();
    flip_middle(&world.path("state/catalogue.db-wal"));
    let before = listed(&world);
    let [level, what, _] = examined(&world);
    assert_eq!(listed(&world), before);
    assert!(level == "problem" && what.as_str().unwrap().contains("was acknowledged"), "{level} {what}");
    let mut daemon = world.spawn();
    let log = daemon.wait_for("listen: ready").expect_err("it should not start");
    assert!(daemon.exit().code() == Some(9) && log.contains(what.as_str().unwrap()), "{log}");
}

/// Somebody who looks later, or elsewhere, hears of it, too.
#[test]
fn what_a_verification_finds_in_the_catalogue_is_told_of_until_one_finds_it_sound() {
    let mut world = world();
    assert!(world.stop().success());
    world.start();
    let flipped = flip_label(&world, "close 3");
    let code = |command: &[&str]| world.asat(command).status.code();
    assert_eq!(code(&["verify"]), Some(9));
    let said = "its records are not what was committed";
    for path in ["/healthz", "/readyz"] {
        let health = world.get(path).json();
        assert!(health["trouble"]["detail"].as_str().unwrap().contains(said), "{health}");
    }
    let has_alarm = || world.get("/capacity").json()["alarms"].to_string().contains(said);
    let mut events = world.listen();
    while !has_alarm() {
        events.next().expect("the daemon goes on");
    }
    assert_eq!(code(&["capacity"]), Some(13));
    let examined = asat(&world, &["doctor"]);
    assert!(!examined.status.success() && String::from_utf8_lossy(&examined.stdout).contains(said));

    flip_label(&world, &flipped);
    assert_eq!(code(&["verify"]), Some(0));
    assert_eq!(world.get("/healthz").json()["status"], "ok");
    while has_alarm() {
        events.next().expect("the daemon goes on");
    }
}
