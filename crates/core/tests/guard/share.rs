//! How extents are shared where there are not enough for all.

use asat_core::guard::Level;

use crate::scene::{MIB, Scene};

/// Extents as steps of 4 MiB; a snapshot of 64 MiB with 40 used needs 4 more to be safe alone.
#[test]
fn two_that_need_the_last_extents_both_get_what_they_must_have() {
    // For two, 5 s at 9 MiB/s: 45 MiB must be left, so 40 of 64 need 24 more each.
    let cases = [
        (300, "extend snapshot a@1 to 124; extend snapshot b@1 to 124", "both get comfort as well"),
        (60, "extend snapshot a@1 to 100; extend snapshot b@1 to 88", "the older one gets what is left over"),
        (48, "extend snapshot a@1 to 88; extend snapshot b@1 to 88", "both get what they must have"),
        (28, "extend snapshot a@1 to 88; extend snapshot b@1 to 68", "the first in full, the other the rest"),
        (24, "extend snapshot a@1 to 88", "only the first"),
        (8, "extend snapshot a@1 to 68; extend snapshot b@1 to 68", "both last equally long"),
        (4, "extend snapshot a@1 to 68", "something is better than nothing"),
        (3, "", "less than an extent"),
    ];
    for (free, steps, why) in cases {
        let scene = Scene::new(free).with("b@1", 40, 64, "").with("a@1", 40, 64, "");
        let extensions: Vec<String> = scene
            .actions()
            .split("; ")
            .filter(|step| step.starts_with("extend"))
            .map(str::to_owned)
            .collect();
        assert_eq!(extensions.join("; "), steps, "{why}");
    }
}

/// Without space, the one that is full first gets more than the other, be it younger.
#[test]
fn where_there_is_not_enough_for_anybody_all_last_equally_long() {
    // At 64 MiB/s, which fills a snapshot with 72 MiB/s, nobody can be made safe.
    let flood = |free, used: [u64; 3]| {
        let scene = Scene::new(free).with("a@1", used[0], 64, "").with("a@2", used[1], 64, "");
        scene.with("a@3", used[2], 64, "").written("a", 64).actions()
    };
    let extensions = |actions: String| {
        let extend = actions.split("; ").filter_map(|step| step.strip_prefix("extend snapshot "));
        extend.map(str::to_owned).collect::<Vec<_>>()
    };
    let cases = [
        (48, [40, 40, 40], vec!["a@1 to 80", "a@2 to 80", "a@3 to 80"]),
        (52, [40, 40, 40], vec!["a@1 to 84", "a@2 to 80", "a@3 to 80"]),
        (48, [30, 40, 50], vec!["a@3 to 88", "a@2 to 80", "a@1 to 72"]),
        (16, [10, 20, 60], vec!["a@3 to 80"]),
    ];
    for (free, used, extended) in cases {
        let mut told = extensions(flood(free, used));
        let mut expected: Vec<String> = extended.into_iter().map(str::to_owned).collect();
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{free} MiB for {used:?}");
    }
}

/// An origin fills all its snapshots at once, so one that is not urgent yet is as badly off as one that is.
#[test]
fn what_is_urgent_takes_nothing_from_another_snapshot_of_its_origin() {
    // At 72 MiB/s the one lasts for less than the 2 s of an extension, and the other for a little more.
    let scene = Scene::new(200).with("a@1", 40, 64, "").with("a@2", 40, 188, "").written("a", 64);
    let level = |target: &str| scene.assessment(target).level;
    assert_eq!((level("snapshot a@1"), level("snapshot a@2")), (Level::Urgent, Level::Low));
    let extended = scene.actions();
    let extended = extended.split("; ").filter(|step| step.starts_with("extend"));
    assert_eq!(extended.collect::<Vec<_>>(), ["extend snapshot a@1 to 228", "extend snapshot a@2 to 224"]);
}

/// With 28 MiB, one of them could have the 24 that it must have.
#[test]
fn none_of_an_origin_is_made_safe_at_the_cost_of_another() {
    let scene = Scene::new(28).with("a@1", 40, 64, "").with("a@2", 40, 64, "");
    assert_eq!(scene.actions(), "extend snapshot a@1 to 80; extend snapshot a@2 to 76; hurry a@1");
}

/// Each snapshot measures its own pace, and the one that has seen the fastest gets no more for that.
#[test]
fn snapshots_of_one_origin_are_reckoned_by_the_pace_of_the_one_that_fills_fastest() {
    for fastest in ["a@1", "a@2"] {
        let scene = Scene::new(16).with("a@1", 40, 64, "").with("a@2", 40, 64, "").filled(fastest, 30);
        let actions = scene.actions();
        for extension in ["extend snapshot a@1 to 72", "extend snapshot a@2 to 72"] {
            assert!(actions.contains(extension), "{fastest} fills fastest: {actions}");
        }
    }
}

#[test]
fn who_comes_first() {
    // Each pair needs the same, and there is enough for one.
    let cases = [
        ("b@1", "", "a@2", "", "b@1", "the older"),
        ("b@2", "", "a@1", "archived needed", "b@2", "the one that nothing else holds"),
        ("b@2", "archived needed", "a@1", "archived", "b@2", "the one that is read"),
    ];
    for (one, said, other, of_other, first, why) in cases {
        let scene = Scene::new(24).with(one, 40, 64, said).with(other, 40, 64, of_other);
        let steps = scene.actions();
        assert!(steps.starts_with(&format!("extend snapshot {first} to 88")), "{why}: {steps}");
    }
    let pool = Scene::new(24).with("a@1", 40, 64, "").with_pool(40, 64, &[]);
    assert!(pool.actions().starts_with("extend pool-data pool"), "an origin: {}", pool.actions());
}

#[test]
fn what_fills_now_comes_before_what_only_may() {
    let two = |free| Scene::new(free).with("a@1", 40, 64, "").with("b@2", 40, 64, "").written("b", 30);
    assert!(
        two(100).actions().contains("; extend snapshot b@2 to 164"),
        "the younger: {}",
        two(100).actions()
    );
    // One that is in the archive, and that somebody reads there, does not come before one that nothing else holds.
    let read = Scene::new(24).with("a@1", 40, 64, "").with("b@2", 40, 64, "archived needed").written("b", 30);
    assert!(read.actions().contains("extend snapshot a@1 to 88"), "{}", read.actions());
}

#[test]
fn the_one_that_is_full_first_is_extended_first() {
    let scene = Scene::new(500).with("a@1", 40, 64, "").with("a@2", 50, 64, "");
    assert_eq!(scene.actions(), "extend snapshot a@2 to 132; extend snapshot a@1 to 124");
}

#[test]
fn nothing_grows_past_the_size_at_which_it_cannot_overflow() {
    let mut scene = Scene::new(5000).with("a@1", 1990, 1996, "");
    assert_eq!(scene.actions(), "extend snapshot a@1 to 2000");
    // Not even by a part of an extent more than whole extents ask for.
    scene.seen.snapshots[0].most = 2001 * MIB;
    assert_eq!(scene.actions(), "extend snapshot a@1 to 2004");
}

#[test]
fn comfort_does_not_use_up_what_others_may_need() {
    // The second one is safe, and needs 20 MiB more to last for 9 s.
    let with = |free| Scene::new(free).with("a@1", 40, 64, "").with("b@1", 0, 64, "").actions();
    assert_eq!(with(24 + 20), "extend snapshot a@1 to 88; hurry a@1; hurry b@1");
    assert_eq!(with(24 + 20 + 8), "extend snapshot a@1 to 96; hurry a@1; hurry b@1");
    assert_eq!(with(24 + 20 + 36), "extend snapshot a@1 to 124");
    // One that nobody would miss goes rather than use it up.
    let demotable = Scene::new(28).with("b@1", 0, 64, "").with("a@1", 40, 64, "archived");
    assert_eq!(demotable.actions(), "demote a@1");
}

#[test]
fn a_group_that_is_not_seen_gives_nothing() {
    let mut scene = Scene::new(500).with("a@1", 40, 64, "");
    scene.seen.groups.clear();
    assert_eq!(scene.steps(), "hurry a@1; refuse Group(\"vg\"); alarm snapshot a@1: short");
}
