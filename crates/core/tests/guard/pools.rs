//! Thin pools: their data, their metadata, and what happens when neither can grow.

use asat_core::guard::{Level, OriginSeen, PoolMode};

use crate::scene::{MIB, Scene};

fn seen(scene: &mut Scene) -> &mut asat_core::guard::PoolSeen {
    &mut scene.seen.pools[0]
}

#[test]
fn data_grows_before_its_worst_case_reaches_its_size() {
    // Data and metadata are two targets: 5 s at 8 MiB/s, and 4 s more in comfort.
    let cases = [(59, Level::Safe, ""), (60, Level::Low, "extend pool-data pool to 136")];
    for (used, level, steps) in cases {
        let scene = Scene::new(500).with_pool(used, 100, &[]);
        assert_eq!(scene.assessment("pool-data pool").level, level);
        assert_eq!(scene.steps(), steps);
    }
}

#[test]
fn metadata_grows_before_lvm_refuses_snapshots() {
    let mut scene = Scene::new(500).with_pool(0, 1000, &[]);
    for (used, level) in [(44, Level::Safe), (45, Level::Low)] {
        seen(&mut scene).metadata_used = used * MIB;
        assert_eq!(scene.assessment("pool-metadata pool").level, level, "{used} of 64 MiB");
    }
    assert_eq!(scene.steps(), "extend pool-metadata pool to 72");
}

#[test]
fn a_writer_of_scattered_blocks_costs_metadata_at_the_rate_at_which_it_can() {
    // 64 MiB/s are 16,384 writes of 4 KiB, each of which may cost 512 bytes, and 1024 blocks in a row, each of
    // which costs 64: 8 MiB and 64 KiB a second, and 40 MiB and 320 KiB within 5 s.
    let mut scene = Scene::new(500).with_pool(0, 5000, &[]).written("thin", 64);
    seen(&mut scene).metadata_used = 25 * MIB;
    let found = scene.assessment("pool-metadata pool");
    let rate = 8 * MIB + MIB / 16;
    assert_eq!((found.level, found.rate, found.worst), (Level::Low, rate, 25 * MIB + 5 * rate));
}

#[test]
fn a_pool_is_not_larger_than_all_that_is_in_it() {
    // A volume of 100 MiB with a snapshot: 1,600 blocks can be written, and take 100 KiB of metadata at the most.
    let mut scene = Scene::new(50_000).with_pool(90, 100, &[]).written("thin", 1000);
    seen(&mut scene).writable = 100 * MIB;
    seen(&mut scene).data_most = 200 * MIB;
    assert_eq!(scene.steps(), "extend pool-data pool to 200");
    seen(&mut scene).data_size = 200 * MIB;
    seen(&mut scene).data_used = 199 * MIB;
    assert_eq!(scene.steps(), "");
    assert_eq!(scene.assessment("pool-data pool").full_in_ms, None);
    assert_eq!(scene.assessment("pool-metadata pool").level, Level::Safe);
}

#[test]
fn a_pool_as_lvm_makes_it_keeps_what_it_was_told_to_keep() {
    // A pool of 5 GiB has 8 MiB of metadata. One store of 1 GiB lies in it, with ten snapshots that are kept.
    let kept: Vec<String> = (1..=10).map(|number| format!("a@{number}")).collect();
    let kept: Vec<(&str, &str)> = kept.iter().map(|name| (name.as_str(), "archived")).collect();
    // At the last rate, the data of many stores would fill the pool within seconds.
    for (rate, used_kib) in [(0, 900), (64, 900), (1000, 900), (0, 5000), (1000, 4600), (5000, 900)] {
        let mut scene = Scene::new(0).with_pool(600, 5120, &kept).written("thin", rate);
        let pool = seen(&mut scene);
        (pool.may_grow, pool.data_most, pool.writable) = (false, 11 << 30, 1 << 30);
        (pool.metadata_used, pool.metadata_size) = (used_kib << 10, 8 * MIB);
        assert_eq!(scene.steps(), "", "at {rate} MiB/s with {used_kib} KiB used");
    }
}

#[test]
fn data_that_its_writers_can_fill_is_short() {
    // All of 1 GiB can be written once more before the next snapshot, and is within two seconds.
    let mut scene = Scene::new(0).with_pool(4000, 5120, &[("a@1", "archived")]).written("thin", 1000);
    let pool = seen(&mut scene);
    (pool.may_grow, pool.data_most, pool.writable) = (false, 11 << 30, 1 << 30);
    for (used_mib, level) in [(4095, Level::Safe), (4096, Level::Urgent)] {
        seen(&mut scene).data_used = used_mib * MIB;
        assert_eq!(scene.assessment("pool-data pool").level, level, "{used_mib} MiB");
    }
    assert!(scene.actions().contains("demote a@1"), "{}", scene.actions());
}

#[test]
fn metadata_that_its_writers_can_fill_is_short() {
    // 1 GiB has 16,384 blocks of 64 KiB, which take 1 MiB of metadata at the most.
    let mut scene = Scene::new(0).with_pool(600, 5120, &[("a@1", "archived")]).written("thin", 1000);
    let pool = seen(&mut scene);
    (pool.may_grow, pool.writable, pool.metadata_size) = (false, 1 << 30, 2 * MIB);
    for (used_kib, level) in [(1023, Level::Safe), (1024, Level::Urgent)] {
        seen(&mut scene).metadata_used = used_kib << 10;
        assert_eq!(scene.assessment("pool-metadata pool").level, level, "{used_kib} KiB");
    }
    assert!(scene.actions().contains("demote a@1"), "{}", scene.actions());
}

#[test]
fn metadata_never_grows_past_what_every_kernel_uses() {
    let mut scene = Scene::new(50_000).with_pool(0, 5000, &[]);
    let most = 16_189;
    (seen(&mut scene).metadata_used, seen(&mut scene).metadata_size) = (16_180 * MIB, (most - 1) * MIB);
    assert_eq!(scene.steps(), format!("extend pool-metadata pool to {}", most + 3), "by whole extents");
    seen(&mut scene).metadata_size = most * MIB;
    assert_eq!(scene.steps(), "");
}

#[test]
fn a_pool_without_data_space_is_extended_at_once() {
    let mut scene = Scene::new(500).with_pool(100, 100, &[]);
    seen(&mut scene).mode = PoolMode::OutOfDataSpace;
    assert_eq!(scene.assessment("pool-data pool").level, Level::Urgent);
    assert_eq!(scene.steps(), "extend pool-data pool to 176");
    seen(&mut scene).data_used = 0;
    assert_eq!(scene.steps(), "extend pool-data pool to 136", "whatever the numbers say");
    seen(&mut scene).data_most = 100 * MIB;
    assert_eq!(scene.steps(), "extend pool-data pool to 136", "whatever else is said");
    seen(&mut scene).data_used = 100 * MIB;
    let after = scene.seen.after(&scene.plan());
    assert_eq!((after.pools[0].mode, after.groups[0].free), (PoolMode::ReadWrite, 424 * MIB));
}

#[test]
fn a_broken_pool_is_told_of_and_not_extended() {
    let cases = [
        (PoolMode::Failed, false, 4, "lvconvert --repair"),
        (PoolMode::ReadOnly, false, 4, "lvconvert --repair"),
        (PoolMode::ReadWrite, true, 4, "lvconvert --repair"),
        (PoolMode::ReadOnly, true, 64, "lvconvert --repair"),
    ];
    for (mode, needs_check, metadata_used, hint) in cases {
        let mut scene = Scene::new(500).with_pool(100, 100, &[("a@1", "")]);
        let pool = seen(&mut scene);
        (pool.mode, pool.needs_check, pool.metadata_used) = (mode, needs_check, metadata_used * MIB);
        assert_eq!(scene.assessment("pool-data pool").level, Level::Lost);
        assert_eq!(
            scene.steps(),
            "refuse Pool(\"pool\"); alarm pool-data pool: broken; alarm pool-metadata pool: broken"
        );
        assert!(format!("{:?}", scene.step("alarm")).contains(hint));
    }
}

#[test]
fn a_pool_that_ran_out_of_metadata_gets_more() {
    let mut scene = Scene::new(500).with_pool(0, 1000, &[]);
    (seen(&mut scene).mode, seen(&mut scene).metadata_used) = (PoolMode::ReadOnly, 64 * MIB);
    assert_eq!(scene.actions(), "extend pool-metadata pool to 96");
}

#[test]
fn an_origin_goes_before_versions() {
    let thin = [("a@1", "archived"), ("a@2", "archived needed"), ("a@3", "pinned"), ("a@4", ""), ("a@5", "")];
    let mut scene = Scene::new(0).with_pool(95, 100, &thin).written("thin", 30);
    assert_eq!(scene.actions(), "demote a@1; hurry a@3", "what loses nothing comes first");
    seen(&mut scene).data_used = 94 * MIB;
    seen(&mut scene).versions.remove(0);
    assert_eq!(scene.actions(), "hurry a@3", "rates are estimates, and a version is gone for good");
    seen(&mut scene).data_used = 95 * MIB;
    assert_eq!(scene.actions(), "hurry a@3; retire a@4", "the oldest that nobody holds");
    seen(&mut scene).versions.retain(|version| version.held);
    assert_eq!(scene.actions(), "hurry a@3", "what is held stays, and the alarm says so");
    assert!(
        scene.steps().ends_with("refuse Pool(\"pool\"); alarm pool-data pool: short"),
        "{}",
        scene.steps()
    );
    assert!(scene.step("alarm").reason.contains("cannot be had"));
}

#[test]
fn no_version_goes_while_a_pool_only_may_fill() {
    let scene = Scene::new(0).with_pool(95, 100, &[("a@1", "")]);
    assert_eq!(scene.actions(), "hurry a@1");
}

#[test]
fn a_pool_is_extended_only_where_the_configuration_lets_it() {
    let mut scene = Scene::new(500).with_pool(95, 100, &[("a@1", "archived")]);
    seen(&mut scene).may_grow = false;
    assert_eq!(scene.steps(), "demote a@1; refuse Pool(\"pool\"); alarm pool-data pool: short");
    assert!(format!("{:?}", scene.step("alarm")).contains("let asat extend it"));
}

#[test]
fn writes_are_held_before_metadata_is_full_and_wait_by_themselves_for_data() {
    let mut scene = Scene::new(500).with_pool(99, 100, &[]).written("thin", 64);
    assert_eq!(scene.assessment("pool-data pool").level, Level::Urgent);
    assert!(!scene.actions().contains("brake"), "{}", scene.actions());
    seen(&mut scene).metadata_used = 60 * MIB;
    assert!(scene.actions().starts_with("brake thin for 2000; extend"), "{}", scene.actions());
    scene.seen.origins =
        vec![OriginSeen { id: "thin".to_owned(), group: "vg".to_owned(), written: 0, may_hold: false }];
    assert!(scene.actions().starts_with("extend"), "LVM itself would be held: {}", scene.actions());
}
