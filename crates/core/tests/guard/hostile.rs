//! Whatever is seen, the plan is sound: it uses no more than there is, touches nothing that is held, and leaves
//! nothing to do after a few rounds.

use std::collections::{BTreeMap, BTreeSet};

use asat_core::guard::{
    Action, FolderSeen, GroupSeen, HotVersion, Memory, Observation, OriginSeen, Outcome, Plan, Policy,
    PoolMode, PoolSeen, SnapshotSeen, Target, plan,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Bytes: everyday ones, and the ends of their range.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0..4096_u64).prop_map(|mib| mib * MIB),
        2 => 0..=1_u64 << 41,
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX / 2)],
    ]
}

fn name() -> impl Strategy<Value = String> {
    (0..3_u8).prop_map(|n| format!("n{n}"))
}

prop_compose! {
    fn hot()(store in name(), number in 1..6_u64, hours in 0..9_i64, said in any::<[bool; 3]>()) -> HotVersion {
        HotVersion {
            id: format!("{store}@{number}").parse().unwrap(),
            cut_at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours),
            archived: said[0],
            needed: said[1],
            held: said[1] || said[2],
            given_up: false,
        }
    }
}

prop_compose! {
    fn snapshot()(
        version in hot(), origin in name(), group in name(),
        (used, size, most) in (bytes(), bytes(), bytes()),
    ) -> SnapshotSeen {
        SnapshotSeen { version, origin, group, used, size, most }
    }
}

prop_compose! {
    fn pool()(
        (id, group) in (name(), name()),
        origins in prop::collection::vec(name(), 0..3),
        versions in prop::collection::vec(hot(), 0..6),
        sizes in [bytes(), bytes(), bytes(), bytes(), bytes(), bytes()],
        block in prop_oneof![Just(64_u64 << 10), Just(0), bytes()],
        mode in prop_oneof![
            3 => Just(PoolMode::ReadWrite), 1 => Just(PoolMode::OutOfDataSpace),
            1 => Just(PoolMode::ReadOnly), 1 => Just(PoolMode::Failed),
        ],
        (needs_check, may_grow) in (prop::bool::weighted(0.1), prop::bool::weighted(0.8)),
    ) -> PoolSeen {
        let [data_used, data_size, data_most, writable, metadata_used, metadata_size] = sizes;
        PoolSeen {
            id, group, origins, versions, data_used, data_size, data_most, writable, metadata_used, metadata_size, block, mode,
            needs_check, may_grow,
        }
    }
}

prop_compose! {
    fn observation()(
        at_ms in prop_oneof![0..1_u64 << 40, Just(u64::MAX)],
        origins in prop::collection::vec((name(), bytes()), 0..4),
        snapshots in prop::collection::vec(snapshot(), 0..8),
        pools in prop::collection::vec(pool(), 0..3),
        groups in prop::collection::vec((name(), bytes(), prop_oneof![3 => Just(4 * MIB), 1 => bytes()]), 0..4),
        folders in prop::collection::vec((bytes(), bytes()), 0..2),
    ) -> Observation {
        Observation {
            at_ms,
            origins: origins.into_iter().map(|(id, written)| OriginSeen { id, group: "vg".to_owned(), written, may_hold: true }).collect(),
            snapshots,
            pools,
            groups: groups.into_iter().map(|(id, free, extent)| GroupSeen { id, free, extent }).collect(),
            folders: folders.into_iter().map(|(free, total)| FolderSeen { path: "/".to_owned(), free, total, waiting: None }).collect(),
            harms: Vec::new(),
            clock: None,
        }
    }
}

prop_compose! {
    fn policy()(
        numbers in prop::array::uniform10(prop_oneof![2 => 0..10_000_u64, 1 => bytes()]),
        space_before_retention in any::<bool>(),
        ordinary in any::<bool>(),
    ) -> Policy {
        if ordinary {
            return Policy { space_before_retention, ..Policy::default() };
        }
        let [shortest_tick_ms, longest_tick_ms, least_rate, full_rate, half_life_ms, first_latency_ms,
            least_latency_ms, lasting_ms, brake_ms, least_folder_free] = numbers;
        Policy {
            shortest_tick_ms, longest_tick_ms, least_rate, full_rate, half_life_ms, first_latency_ms,
            least_latency_ms, lasting_ms, brake_ms, least_folder_free, space_before_retention,
            ..Policy::default()
        }
    }
}

/// What any plan keeps to.
fn check(policy: &Policy, seen: &Observation, plan: &Plan) {
    let mut taken: BTreeMap<&str, u128> = BTreeMap::new();
    let mut extended = Vec::new();
    for step in &plan.steps {
        assert!(!step.reason.is_empty());
        match &step.action {
            Action::Extend { target, to } => {
                let (group, size) = size_of(seen, target);
                assert!(*to > size, "{step:?}");
                assert!(!extended.contains(&target), "{target} twice");
                extended.push(target);
                *taken.entry(group).or_default() += u128::from(to - size);
            }
            Action::Demote { version } => {
                let sound = |held: &HotVersion| held.id == *version && held.archived && !held.needed;
                assert!(versions(seen).any(sound), "{step:?}");
            }
            Action::Retire { version } => {
                let sound =
                    |held: &HotVersion| held.id == *version && !held.archived && !held.needed && !held.held;
                assert!(versions(seen).any(sound), "{step:?}");
                assert!(
                    policy.space_before_retention || !matches!(step.target, Target::Snapshot(_)),
                    "{step:?}"
                );
            }
            Action::Brake { most_ms, .. } => assert!(*most_ms > 0 && *most_ms <= policy.brake_ms),
            Action::Hurry { version } => {
                assert!(versions(seen).any(|held| held.id == *version && !held.archived))
            }
            Action::Refuse { .. } | Action::Alarm { .. } => {}
        }
    }
    for (id, bytes) in taken {
        let group = seen.groups.iter().find(|group| group.id == id).expect("a group that is seen");
        assert!(bytes <= u128::from(group.free), "{bytes} of {group:?}");
    }
    let (shortest, longest) = (policy.shortest_tick_ms, policy.longest_tick_ms);
    assert!((shortest.min(longest)..=longest.max(shortest)).contains(&plan.tick_ms), "{}", plan.tick_ms);
}

fn versions(seen: &Observation) -> impl Iterator<Item = &HotVersion> {
    let thin = seen.pools.iter().flat_map(|pool| &pool.versions);
    seen.snapshots.iter().map(|seen| &seen.version).chain(thin)
}

fn size_of<'a>(seen: &'a Observation, target: &Target) -> (&'a str, u64) {
    let pool = |id: &str| seen.pools.iter().find(|pool| pool.id == id).unwrap();
    match target {
        Target::Snapshot(version) => {
            let found = seen.snapshots.iter().find(|seen| seen.version.id == *version).unwrap();
            assert!(found.size < found.most);
            (&found.group, found.size)
        }
        Target::PoolData(id) => (&pool(id).group, pool(id).data_size),
        Target::PoolMetadata(id) => (&pool(id).group, pool(id).metadata_size),
        Target::Group(_) | Target::Folder(_) | Target::Version(_) | Target::Store(_) | Target::Clock => {
            panic!("{target} cannot be extended")
        }
    }
}

/// The same as on a real machine, where each name occurs once.
fn with_each_name_once(mut seen: Observation) -> Observation {
    let mut known = BTreeSet::new();
    seen.groups.retain(|group| known.insert(group.id.clone()));
    known.clear();
    seen.pools.retain(|pool| known.insert(pool.id.clone()));
    let mut known = BTreeSet::new();
    seen.snapshots.retain(|seen| known.insert(seen.version.id.clone()));
    for pool in &mut seen.pools {
        pool.versions.retain(|held| known.insert(held.id.clone()));
    }
    seen
}

fn does_something(plan: &Plan) -> bool {
    let changes = |action: &Action| {
        matches!(action, Action::Extend { .. } | Action::Demote { .. } | Action::Retire { .. })
    };
    plan.steps.iter().any(|step| changes(&step.action))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_sound_whatever_is_seen(policy in policy(), looks in prop::collection::vec(observation(), 1..4)) {
        let mut memory = Memory::default();
        for seen in looks {
            memory.learn(&policy, &seen);
            let planned = plan(&policy, &memory, &seen);
            prop_assert_eq!(&planned, &plan(&policy, &memory, &seen), "the same again");
            check(&policy, &seen, &planned);
            for (index, step) in planned.steps.iter().enumerate() {
                memory.began(step, seen.at_ms);
                let outcomes = [Outcome::Done, Outcome::Failed("made up".to_owned()), Outcome::Stalled];
                if let Some(outcome) = outcomes.get(index % 4) {
                    memory.ended(&policy, step, seen.at_ms.saturating_add(index as u64), outcome);
                }
            }
            check(&policy, &seen, &plan(&policy, &memory, &seen));
        }
    }

    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_extend(policy in policy(), seen in observation()) {
        let seen = with_each_name_once(seen);
        let mut memory = Memory::default();
        memory.learn(&policy, &seen);
        let first = plan(&policy, &memory, &seen);
        let after = seen.after(&first);
        let second = plan(&policy, &memory, &after);
        // What was given back is given out at the next look, and so is what was kept for others and is not needed by then,
        // where there was not enough for all.
        let rest = |action: &Action| matches!(action, Action::Demote { .. } | Action::Retire { .. } | Action::Refuse { .. });
        if !first.steps.iter().any(|step| rest(&step.action)) {
            prop_assert!(!does_something(&second), "{:#?}\nafter\n{:#?}", second.steps, first.steps);
        }
        let (mut seen, mut rounds) = (after, 0);
        loop {
            let planned = plan(&policy, &memory, &seen);
            if !does_something(&planned) {
                break;
            }
            seen = seen.after(&planned);
            rounds += 1;
            prop_assert!(rounds <= 30, "{:#?}", planned.steps);
        }
    }
}
