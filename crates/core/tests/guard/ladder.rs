//! Each rung of the ladder, and that none is taken before its turn.

use asat_core::guard::{Action, FolderSeen, GuardEntry, Outcome, Rung};
use jiff::Timestamp;

use crate::scene::{MIB, Scene};

/// A group without free space.
fn full() -> Scene {
    Scene::new(0)
}

#[test]
fn every_rung_has_its_turn() {
    let cases: &[(&str, Scene, &str)] = &[
        ("nothing is short", Scene::new(500).with("a@1", 0, 64, ""), ""),
        (
            "extend: 27 MiB must be left, and 36 more last for 4 s",
            Scene::new(500).with("a@1", 40, 64, ""),
            "extend snapshot a@1 to 104",
        ),
        (
            "an extension goes before everything else",
            Scene::new(500).with("a@1", 40, 64, "").with("b@1", 0, 64, "archived"),
            "extend snapshot a@1 to 124",
        ),
        (
            "demote: as few as are needed, the oldest first",
            full().with("a@3", 40, 64, "").with("a@1", 0, 100, "archived").with("a@2", 0, 64, "archived"),
            "demote a@1; hurry a@3; refuse Group(\"vg\"); alarm snapshot a@3: short",
        ),
        (
            "not one that somebody reads",
            full().with("a@3", 40, 64, "").with("a@1", 0, 64, "archived needed"),
            "hurry a@3; refuse Group(\"vg\"); alarm snapshot a@3: short",
        ),
        (
            "a pinned one may be demoted, since it is kept in the archive",
            full().with("a@3", 40, 64, "").with("a@1", 0, 64, "archived pinned"),
            "demote a@1; hurry a@3; refuse Group(\"vg\"); alarm snapshot a@3: short",
        ),
        (
            "hurry: the oldest of each store, since it goes into the archive before the others",
            full().with("a@7", 40, 64, "").with("a@6", 0, 64, "").with("b@9", 0, 64, ""),
            "hurry a@6; hurry b@9; refuse Group(\"vg\"); alarm snapshot a@7: short",
        ),
        (
            "brake: at the rate of this moment it is full within 2 s",
            Scene::new(500).with("a@1", 40, 64, "").written("a", 30),
            "brake a for 2000; extend snapshot a@1 to 280",
        ),
        (
            "not for one that nobody would miss",
            full().with("a@1", 40, 64, "archived").written("a", 30),
            "demote a@1",
        ),
        (
            "retire: not unless the policy says so",
            full().with("a@1", 0, 64, "").with("a@2", 40, 64, "").written("a", 30),
            "brake a for 2000; hurry a@1; refuse Group(\"vg\"); alarm snapshot a@1: short; alarm snapshot a@2: short",
        ),
        ("what is lost is told of", Scene::new(500).harmed(Some("a@1"), false), "alarm version a@1: lost"),
        ("so is what is damaged", Scene::new(500).harmed(None, true), "alarm store a: damaged"),
        (
            "and both",
            Scene::new(500).harmed(Some("a@1"), true),
            "alarm version a@1: lost; alarm store a: damaged",
        ),
    ];
    for (what, scene, steps) in cases {
        assert_eq!(scene.steps(), *steps, "{what}");
    }
}

#[test]
fn a_version_is_retired_for_a_younger_one_where_space_goes_first() {
    let with = |said: &str| {
        let mut scene = full().with("a@1", 0, 64, said).with("a@2", 40, 64, "").written("a", 30);
        scene.policy.space_before_retention = true;
        scene.actions()
    };
    assert_eq!(with(""), "brake a for 2000; hurry a@1; retire a@1");
    assert_eq!(with("pinned"), "brake a for 2000; hurry a@1");
    assert_eq!(with("needed"), "brake a for 2000; hurry a@1");
    assert_eq!(with("archived"), "brake a for 2000; demote a@1; hurry a@2", "demoting it loses nothing");
}

#[test]
fn the_youngest_is_never_retired_for_an_older_one() {
    let mut scene = full().with("a@1", 40, 64, "pinned").with("a@2", 0, 600, "").written("a", 30);
    scene.policy.space_before_retention = true;
    assert_eq!(scene.actions(), "brake a for 2000; hurry a@1");
}

#[test]
fn one_version_at_a_time_is_retired() {
    let mut scene = full().with("a@1", 0, 64, "").with("a@2", 0, 64, "").with("a@3", 40, 64, "");
    scene.policy.space_before_retention = true;
    scene = scene.written("a", 30);
    let step = scene.step("retire");
    scene.memory.began(&step, scene.seen.at_ms);
    assert!(!scene.actions().contains("retire"), "its space comes first: {}", scene.actions());
}

#[test]
fn a_rung_that_is_left_out_is_never_taken() {
    let scene = full().with("a@3", 40, 64, "").with("a@1", 0, 64, "archived").written("a", 30);
    for left_out in Rung::ALL {
        let mut scene = scene.clone();
        scene.policy.ladder.retain(|rung| *rung != left_out);
        let taken = scene.plan().steps.into_iter().any(|step| step.action.rung() == left_out);
        assert!(!taken, "{left_out:?}");
    }
    let mut nothing = scene;
    nothing.policy.ladder.clear();
    assert_eq!(nothing.steps(), "");
}

#[test]
fn what_is_under_way_is_not_done_again() {
    let mut scene = full().with("a@1", 0, 64, "archived").with("a@2", 40, 64, "").written("a", 30);
    assert_eq!(scene.actions(), "brake a for 2000; demote a@1; hurry a@2");
    let begun = scene.plan().steps;
    for step in &begun {
        scene.memory.began(step, scene.seen.at_ms);
    }
    assert_eq!(scene.actions(), "");
    assert!(scene.steps().contains("alarm snapshot a@2: short"), "an alarm lasts: {}", scene.steps());
}

#[test]
fn a_writer_is_let_go_as_soon_as_nothing_is_urgent_or_nothing_helps() {
    let held = |mut scene: Scene| {
        let brake = scene.step("brake");
        scene.memory.began(&brake, scene.seen.at_ms);
        scene
    };
    let mut scene = held(full().with("a@1", 0, 64, "archived").with("a@2", 40, 64, "").written("a", 30));
    assert_eq!(scene.plan().release, [""; 0], "space is about to be free");
    let demote = scene.step("demote");
    scene.memory.began(&demote, scene.seen.at_ms);
    scene.seen.snapshots.remove(0);
    assert_eq!(scene.plan().release, [""; 0], "what is being dropped is seen no more, and helps");
    scene.memory.ended(&scene.policy, &demote, scene.seen.at_ms, &Outcome::Failed("busy".to_owned()));
    scene.policy.ladder.retain(|rung| *rung != Rung::Hurry);
    assert_eq!(scene.plan().release, ["a"], "nothing is done about it");

    let mut scene = held(Scene::new(300).with("a@1", 40, 64, "").written("a", 30));
    let extend = scene.step("extend");
    scene.memory.began(&extend, scene.seen.at_ms);
    assert_eq!(scene.plan().release, [""; 0], "it is being extended");
    scene.seen.snapshots[0].size *= 10;
    assert_eq!(scene.plan().release, ["a"], "it is larger already, before the command says so");
}

#[test]
fn a_brake_that_helped_nobody_is_put_on_ever_more_seldom() {
    let mut scene = full().with("a@2", 40, 64, "").written("a", 30);
    let brake = scene.step("brake");
    let mut pauses = Vec::new();
    for _ in 0..5 {
        scene.memory.began(&brake, scene.seen.at_ms);
        scene.memory.ended(&scene.policy, &brake, scene.seen.at_ms, &Outcome::Done);
        let mut paused = 0;
        while !scene.actions().contains("brake") {
            scene.pass(25);
            paused += 25;
        }
        pauses.push(paused);
    }
    assert_eq!(pauses, [25, 50, 100, 200, 400]);
    // Something else has succeeded: the next brake may help.
    scene.memory.began(&brake, scene.seen.at_ms);
    scene.memory.ended(&scene.policy, &brake, scene.seen.at_ms, &Outcome::Done);
    let hurry = scene.step("hurry");
    scene.memory.began(&hurry, scene.seen.at_ms);
    scene.memory.ended(&scene.policy, &hurry, scene.seen.at_ms, &Outcome::Done);
    assert!(scene.actions().contains("brake"));
}

#[test]
fn a_writer_is_held_again_at_once_while_there_is_hope() {
    // What becomes of the extension while the writer is held, and how often it has failed before.
    let failed = || Some(Outcome::Failed("no".to_owned()));
    let cases = [
        (None, 0, true, "it lasts longer than a brake"),
        (failed(), 0, true, "it fails for the first time"),
        (failed(), 1, true, "and again"),
        (failed(), 2, false, "and always"),
        (Some(Outcome::Stalled), 0, true, "it hangs"),
        (Some(Outcome::Stalled), 2, false, "it always hangs"),
    ];
    for (outcome, before, again, why) in cases {
        let mut scene = Scene::new(500).with("a@1", 40, 64, "").written("a", 30);
        let (brake, extend) = (scene.step("brake"), scene.step("extend"));
        for _ in 0..before {
            scene.memory.began(&extend, scene.seen.at_ms);
            scene.memory.ended(&scene.policy, &extend, scene.seen.at_ms, &Outcome::Stalled);
        }
        scene.pass(60_000);
        // Nothing but a brake was there for a while, and it was of no use.
        let hold = |scene: &mut Scene, ms| {
            scene.memory.began(&brake, scene.seen.at_ms);
            scene.pass(ms);
            scene.memory.ended(&scene.policy, &brake, scene.seen.at_ms, &Outcome::Done);
            scene.actions().contains("brake")
        };
        assert!(!hold(&mut scene, 2000), "{why}: nothing was even tried");
        scene.memory.began(&brake, scene.seen.at_ms);
        scene.memory.began(&extend, scene.seen.at_ms);
        scene.pass(300);
        if let Some(outcome) = outcome {
            scene.memory.ended(&scene.policy, &extend, scene.seen.at_ms, &outcome);
        }
        scene.memory.ended(&scene.policy, &brake, scene.seen.at_ms, &Outcome::Done);
        assert_eq!(scene.actions().contains("brake"), again, "{why}");
        scene.pass(1);
        assert!(!hold(&mut scene, 2000), "{why}: nothing new has happened");
    }
}

#[test]
fn a_folder_without_space_takes_no_publications() {
    let mut scene = Scene::new(500);
    scene.policy.least_folder_free = 512 * MIB;
    let folder =
        |free| FolderSeen { path: "/var/lib/asat".to_owned(), free, total: 10_000 * MIB, waiting: None };
    scene.seen.folders = vec![folder(512 * MIB)];
    assert_eq!(scene.steps(), "");
    scene.seen.folders = vec![folder(511 * MIB)];
    assert_eq!(scene.steps(), "refuse Everywhere; alarm folder /var/lib/asat: short");
    let alarm = scene.step("alarm");
    assert_eq!(alarm.reason, "/var/lib/asat has 511.0 MiB left of 9.7 GiB");
    let Action::Alarm { hint, .. } = alarm.action else { panic!("{alarm:?}") };
    assert_eq!(hint, "free or add space until 512.0 MiB are free");
}

#[test]
fn a_step_says_why_and_is_recorded_so() {
    let scene = Scene::new(500).with("a@1", 40, 64, "").written("a", 30);
    let extend = scene.step("extend");
    assert_eq!(
        extend.reason,
        "40.0 MiB of 64.0 MiB used; at up to 33.7 MiB/s it may be 141.2 MiB within 3.0 s: urgent; it gets 216.0 MiB more"
    );
    let entry = GuardEntry::of(&scene.step("brake"), Timestamp::UNIX_EPOCH, Outcome::Done, 700);
    assert_eq!(entry.version, Some("a@1".parse().unwrap()), "it was for the sake of that version");
    assert_eq!((entry.rung, entry.took_ms), (Rung::Brake, 700));
}
