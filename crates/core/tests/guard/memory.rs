//! What the guard learns: rates, late looks, latencies, and failures.

use asat_core::guard::{Observation, OriginSeen, Outcome};

use crate::scene::{MIB, Scene};

const HOUR: u64 = 3_600_000;

/// The rate that a snapshot of the origin is judged by, in MiB/s of what is written.
fn rate(scene: &Scene) -> u64 {
    scene.assessment("snapshot a@1").rate * 8 / 9 / MIB
}

fn look(scene: &mut Scene, after_ms: u64, written_mib: u64) {
    scene.pass(after_ms);
    scene.seen.origins = vec![OriginSeen {
        id: "a".to_owned(),
        group: "vg".to_owned(),
        written: written_mib * MIB,
        may_hold: true,
    }];
    scene.memory.learn(&scene.policy, &scene.seen);
}

fn quiet() -> Scene {
    Scene::new(500).with("a@1", 0, 1000, "")
}

#[test]
fn the_fastest_rate_is_remembered_and_slowly_forgotten() {
    let mut scene = quiet();
    look(&mut scene, 0, 100);
    assert_eq!(rate(&scene), 8, "one look says nothing: the least is assumed");
    look(&mut scene, 1000, 140);
    assert_eq!(rate(&scene), 40);
    look(&mut scene, 1000, 141);
    assert_eq!(rate(&scene), 39, "the fastest counts, not the last");
    scene.pass(6 * HOUR);
    assert_eq!(rate(&scene), 19);
    scene.pass(600 * HOUR);
    assert_eq!(rate(&scene), 8, "never less than the configured least");
}

#[test]
fn a_counter_that_goes_back_is_no_rate() {
    let mut scene = quiet();
    look(&mut scene, 0, 1_000_000);
    look(&mut scene, 1000, 5);
    assert_eq!(rate(&scene), 8);
    look(&mut scene, 1000, 45);
    assert_eq!(rate(&scene), 40);
}

#[test]
fn a_target_that_fills_faster_than_its_origin_is_written_is_judged_by_that() {
    // A small write copies a whole block.
    let mut scene = Scene::new(5000).with_pool(100, 5000, &[]);
    scene.memory.learn(&scene.policy, &scene.seen);
    scene.pass(1000);
    scene.seen.pools[0].data_used = 260 * MIB;
    scene.memory.learn(&scene.policy, &scene.seen);
    assert_eq!(scene.assessment("pool-data pool").rate, 160 * MIB);
}

#[test]
fn a_pause_between_looks_counts_as_one_that_may_come_again() {
    let mut scene = quiet();
    look(&mut scene, 0, 0);
    assert_eq!(scene.assessment("snapshot a@1").worst, 27 * MIB, "1 s, and 2 s for an extension");
    look(&mut scene, 20_000, 0);
    assert_eq!(scene.assessment("snapshot a@1").worst, 22 * 9 * MIB, "19 s later than it should have been");
    scene.pass(6 * HOUR);
    assert_eq!(scene.assessment("snapshot a@1").worst, (12 * 9 + 4) * MIB + MIB / 2, "9.5 s");
    look(&mut scene, 10 * 24 * HOUR, 0);
    assert_eq!(scene.assessment("snapshot a@1").worst, 63 * 9 * MIB, "a minute at the most");
}

#[test]
fn a_glance_that_finds_nothing_written_is_as_good_as_a_look() {
    let mut looking = quiet().with_pool(100, 5000, &[]);
    look(&mut looking, 0, 100);
    look(&mut looking, 700, 140);
    let mut glancing = looking.clone();
    // On time, late, and on time again, until the rate of the last second is gone.
    for after_ms in [20, 700, 20_000, 20, 2000] {
        look(&mut looking, after_ms, 140);
        glancing.pass(after_ms);
        glancing.memory.glance(&glancing.policy, glancing.seen.at_ms);
        assert_eq!(glancing.memory, looking.memory, "after {after_ms} ms");
        assert_eq!(glancing.plan(), looking.plan());
    }
    // The first step of a writer is seen as what it is, not as spread over the time in which nobody looked closely.
    for scene in [&mut looking, &mut glancing] {
        look(scene, 20, 150);
    }
    assert_eq!(glancing.plan(), looking.plan());
    assert_eq!(glancing.memory, looking.memory);
}

#[test]
fn an_action_that_took_long_may_take_long_again() {
    let mut scene = Scene::new(500).with("a@1", 40, 64, "");
    let step = scene.step("extend");
    scene.memory.began(&step, scene.seen.at_ms);
    scene.pass(7000);
    assert_eq!(scene.assessment("snapshot a@1").worst, (40 + 8 * 9) * MIB, "it has been under way for 7 s");
    scene.memory.ended(&scene.policy, &step, scene.seen.at_ms, &Outcome::Done);
    assert_eq!(scene.assessment("snapshot a@1").worst, (40 + 15 * 9) * MIB, "twice 7 s");
}

#[test]
fn an_action_that_does_not_end_is_told_of() {
    let mut scene = Scene::new(500).with("a@1", 40, 64, "");
    let step = scene.step("extend");
    scene.memory.began(&step, scene.seen.at_ms);
    scene.pass(10_000);
    assert!(!scene.steps().contains("stuck"));
    scene.pass(1);
    let alarm = scene.plan().steps.into_iter().find(|step| step.reason.contains("under way")).unwrap();
    assert_eq!(alarm.reason, "snapshot a@1: to extend it has been under way for 10.0 s");
}

#[test]
fn whoever_stood_still_takes_nothing_for_stuck() {
    let mut scene = Scene::new(200).with("a@1", 40, 64, "");
    let (step, begin) = (scene.step("extend"), scene.seen.at_ms);
    scene.memory.expect(begin + 1000);
    scene.memory.began(&step, begin);
    look(&mut scene, 21_000, 0);
    assert!(!scene.steps().contains("stuck"), "20 s of these nobody looked");
    scene.pass(9_001);
    assert!(scene.steps().contains("stuck"), "it is still under way");
}

#[test]
fn an_extension_that_fails_is_tried_again_after_a_pause_with_other_steps_and_then_the_next_rung() {
    let mut scene = Scene::new(200).with("a@1", 40, 64, "");
    let fail = |scene: &mut Scene| {
        let step = scene.step("extend");
        scene.memory.began(&step, scene.seen.at_ms);
        let failed = Outcome::Failed("insufficient free space".to_owned());
        scene.memory.ended(&scene.policy, &step, scene.seen.at_ms, &failed);
    };
    assert_eq!(scene.actions(), "extend snapshot a@1 to 104");
    fail(&mut scene);
    assert_eq!(scene.actions(), "", "not at once");
    scene.pass(25);
    assert_eq!(scene.actions(), "extend snapshot a@1 to 144", "twice as much, since it comes late");
    fail(&mut scene);
    scene.pass(50);
    assert_eq!(scene.actions(), "extend snapshot a@1 to 68; hurry a@1", "less, and the next rung as well");
    assert!(
        scene.steps().ends_with("alarm snapshot a@1: short; alarm snapshot a@1: stuck"),
        "{}",
        scene.steps()
    );
    let step = scene.step("extend");
    scene.memory.began(&step, scene.seen.at_ms);
    scene.memory.ended(&scene.policy, &step, scene.seen.at_ms, &Outcome::Done);
    assert!(scene.steps().contains("stuck"), "it is not seen yet");
    scene.seen = scene.seen.after(&scene.plan());
    look(&mut scene, 1, 0);
    assert_eq!(scene.steps(), "", "all is forgotten");
}

#[test]
fn an_extension_that_succeeded_and_changed_nothing_has_failed() {
    let mut scene = Scene::new(200).with("a@1", 40, 64, "");
    for _ in 0..2 {
        let step = scene.step("extend");
        scene.memory.began(&step, scene.seen.at_ms);
        scene.memory.ended(&scene.policy, &step, scene.seen.at_ms, &Outcome::Done);
        look(&mut scene, 1000, 0);
        scene.pass(1000);
    }
    let alarm = scene.plan().steps.into_iter().find(|step| step.reason.contains("2 times")).unwrap();
    assert!(alarm.reason.contains("the size is 67108864 bytes"), "{}", alarm.reason);
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut scene = Scene::new(200).with("a@1", 40, 64, "").written("a", 100);
    let empty = |at_ms| Observation { at_ms, ..Observation::default() };
    scene.memory.learn(&scene.policy, &empty(scene.seen.at_ms + 600 * HOUR));
    let mut other = asat_core::guard::Memory::default();
    other.learn(&scene.policy, &empty(scene.seen.at_ms - 1000));
    other.learn(&scene.policy, &empty(scene.seen.at_ms));
    other.learn(&scene.policy, &empty(scene.seen.at_ms + 600 * HOUR));
    assert_eq!(scene.memory, other);
}

#[test]
fn a_look_is_late_by_what_the_plan_said() {
    let mut scene = quiet();
    look(&mut scene, 0, 0);
    scene.memory.expect(scene.seen.at_ms + 20);
    look(&mut scene, 1000, 0);
    assert_eq!(scene.assessment("snapshot a@1").worst, 27 * MIB + 980 * 9 * MIB / 1000 + 1);
    let mut scene = quiet();
    look(&mut scene, 0, 0);
    scene.memory.expect(scene.seen.at_ms + 24 * HOUR);
    look(&mut scene, 24 * HOUR, 0);
    assert_eq!(scene.assessment("snapshot a@1").worst, 27 * MIB, "nobody was late");
}

#[test]
fn a_writer_who_is_held_counts_as_fast_as_it_was() {
    let mut scene = Scene::new(500).with("a@1", 0, 64, "");
    look(&mut scene, 0, 0);
    look(&mut scene, 20, 12);
    let urgent = |scene: &Scene| scene.assessment("snapshot a@1").level == asat_core::guard::Level::Urgent;
    assert!(urgent(&scene));
    let brake = scene.step("brake");
    scene.memory.began(&brake, scene.seen.at_ms);
    for _ in 0..50 {
        look(&mut scene, 40, 12);
        assert!(urgent(&scene), "it stands still because it is held");
    }
    scene.memory.ended(&scene.policy, &brake, scene.seen.at_ms, &Outcome::Done);
    look(&mut scene, 20, 24);
    assert!(urgent(&scene), "it goes on as before");
    look(&mut scene, 1000, 24);
    assert!(!urgent(&scene), "it has paused");
}

#[test]
fn a_snapshot_is_extended_for_the_pace_of_a_first_step() {
    let mut scene = Scene::new(50_000).with("a@1", 0, 64, "");
    look(&mut scene, 0, 0);
    look(&mut scene, 20, 12);
    // 600 MiB/s, with records 675, for 3 s and 4 s more would be 4.6 GiB; at 2000 MiB it cannot overflow.
    assert_eq!(scene.actions(), "brake a for 2000; extend snapshot a@1 to 2000");
}
