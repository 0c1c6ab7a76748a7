//! When a target is safe, low, urgent or lost.

use asat_core::guard::{Level, OriginSeen};

use crate::scene::{MIB, Scene};

#[test]
fn a_snapshot_is_judged_by_its_worst_case() {
    // At 9 MiB/s, 1 s between looks and 2 s for an extension: 27 MiB.
    let cases = [
        (0, 64, "", 0, Level::Safe, "far from full"),
        (36, 64, "", 0, Level::Safe, "63 MiB at the worst"),
        (37, 64, "", 0, Level::Low, "64 MiB at the worst"),
        (64, 64, "", 0, Level::Urgent, "full, and not lost yet"),
        (70, 64, "", 0, Level::Urgent, "more than full"),
        (1999, 2000, "", 0, Level::Safe, "it cannot overflow at this size"),
        (0, 100, "", 30, Level::Low, "written with 30 MiB/s: 101.25 MiB at the worst"),
        (0, 102, "", 30, Level::Safe, "written with 30 MiB/s: 101.25 MiB at the worst"),
        (40, 100, "", 30, Level::Urgent, "67.5 MiB of the 60 that are left within an extension"),
    ];
    for (used, size, said, rate, level, why) in cases {
        let scene = Scene::new(1000).with("report@1", used, size, said).written("report", rate);
        let found = scene.assessment("snapshot report@1");
        assert_eq!(found.level, level, "{why}: {}", found.reason);
        assert_eq!((found.used, found.size), (used * MIB, size * MIB));
    }
}

#[test]
fn an_assessment_says_how_long_it_lasts_and_why() {
    let scene = Scene::new(1000).with("report@1", 10, 64, "");
    let found = scene.assessment("snapshot report@1");
    assert_eq!((found.rate, found.worst, found.full_in_ms), (9 * MIB, 37 * MIB, Some(6000)));
    let reason = "10.0 MiB of 64.0 MiB used; at up to 9.0 MiB/s it may be 37.0 MiB within 3.0 s: safe";
    assert_eq!(found.reason, reason);

    let scene = Scene::new(1000).with("report@1", 10, 2000, "");
    let found = scene.assessment("snapshot report@1");
    assert_eq!(found.full_in_ms, None);
    assert_eq!(
        found.reason,
        "10.0 MiB of 2000.0 MiB used: it cannot overflow at this size".replace("2000.0 MiB", "1.9 GiB")
    );
}

#[test]
fn each_of_many_must_be_able_to_wait_for_all_others() {
    // Five extensions of 2 s each, and 1 s between looks: 99 MiB at 9 MiB/s.
    for (size, level) in [(99, Level::Low), (100, Level::Safe)] {
        let scene = (1..=5).fold(Scene::new(1000), |scene, n| scene.with(&format!("s{n}@1"), 0, size, ""));
        assert_eq!(scene.assessment("snapshot s3@1").level, level, "{size} MiB");
    }
}

#[test]
fn the_next_look_comes_before_the_devices_can_fill_what_is_left() {
    // 1 GiB/s at the most, with an eighth for records, and 50 ms until writes are held.
    let cases = [
        (Scene::new(100), 1000, "nothing can fill"),
        (Scene::new(100).with("report@1", 0, 512, ""), 394, "half a gibibyte left"),
        (Scene::new(100).with("report@1", 0, 128, ""), 61, "an eighth"),
        (Scene::new(100).with("report@1", 0, 64, ""), 20, "never more often than the shortest"),
        (Scene::new(100).with("report@1", 0, 1999, ""), 1000, "never more seldom than the longest"),
        (Scene::new(100).with("report@1", 1999, 2000, ""), 1000, "it cannot overflow"),
        (Scene::new(100).with("report@1", 0, 64, "archived"), 1000, "nobody would miss it"),
        (Scene::new(100).with("report@1", 0, 64, "archived needed"), 20, "somebody reads it"),
    ];
    for (mut scene, tick_ms, why) in cases {
        scene.policy.full_rate = 1024 * MIB;
        assert_eq!(scene.plan().tick_ms, tick_ms, "{why}");
    }
}

#[test]
fn what_is_left_is_enough_to_hold_a_writer_at_the_devices_full_rate() {
    // At 1 GiB/s, with an eighth for records, 81 MiB within the 70 ms until it is held.
    for (size, level) in [(80, Level::Low), (81, Level::Safe)] {
        let mut scene = Scene::new(1000).with("report@1", 0, size, "");
        scene.policy.full_rate = 1024 * MIB;
        assert_eq!(scene.assessment("snapshot report@1").level, level, "{size} MiB");
    }
    // It is had where there is space; where there is none, nobody is refused for it.
    let mut scene = Scene::new(0).with("report@1", 0, 80, "");
    scene.policy.full_rate = 1024 * MIB;
    assert_eq!(scene.steps(), "hurry report@1");
}

#[test]
fn a_group_is_low_where_it_does_not_cover_all_at_once() {
    // Within 5 s, and 4 s of comfort, each of two may grow to 81 MiB.
    for (free, level) in [(40, Level::Safe), (36, Level::Low)] {
        let scene = Scene::new(free).with("a@1", 0, 64, "").with("b@1", 0, 64, "");
        let found = scene.assessment("group vg");
        assert_eq!((found.level, found.used), (level, 40 * MIB), "{}", found.reason);
    }
    let short = Scene::new(0).with("a@1", 60, 64, "").written("a", 30);
    assert_eq!(short.assessment("group vg").level, Level::Urgent);
}

#[test]
fn a_writer_of_whom_nothing_was_foreseen_is_urgent_at_its_first_step() {
    // 12 MiB within 20 ms are 600 MiB/s: 94.5 MiB with records, within twice the 70 ms until it could be held.
    for (size, level) in [(94, Level::Urgent), (95, Level::Safe)] {
        let mut scene = Scene::new(1000).with("report@1", 0, size, "");
        for written in [0, 12 * MIB] {
            scene.seen.origins =
                vec![OriginSeen { id: "report".to_owned(), group: "vg".to_owned(), written, may_hold: true }];
            scene.memory.learn(&scene.policy, &scene.seen);
            scene.pass(20);
        }
        scene.seen.at_ms -= 20;
        let found = scene.assessment("snapshot report@1");
        assert_eq!(found.level, level, "{size} MiB: {}", found.reason);
    }
}
