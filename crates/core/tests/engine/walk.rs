//! A random walk: any events, any outcomes, a crash at any moment. [`World`] checks what must hold after each
//! step; the walk checks the rest when everything has come to rest.

use asat_core::event::{ArchiveFailure, Cut, Effect, EffectId, Event, Intent, Kept, Outcome};
use asat_core::retention::Retention;
use asat_core::version::{LeaseId, State, Version};
use asat_core::{Code, StoreName, VersionId, VersionRef};
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::world::{World, store, trouble};

/// One step, with numbers that choose among what there is.
type Step = (u8, u8, u8);

/// One that is cut by its pages, one on a volume, one that only keeps some versions, one that is cloned, and one on a thin
/// volume.
const STORES: [&str; 5] = ["other", "hot", "report", "cloned", "thin"];
/// Those whose newest archived version may stay in its snapshot, for the next one to be compared with.
const COMPARED: [&str; 2] = ["cloned", "thin"];

/// Sets that have stores in common, and all kinds of them.
const SETS: [(&str, &[&str]); 3] = [
    ("small", &["hot", "report"]),
    ("other-way", &["other", "report"]),
    ("large", &["cloned", "hot", "other", "thin"]),
];

fn some_store(choice: u8) -> &'static str {
    STORES[usize::from(choice) % STORES.len()]
}

/// A version of a store, sometimes one that is not there.
fn some_version(a: u8, b: u8) -> VersionId {
    VersionId { store: store(some_store(a)), number: u64::from(b % 9) + 1 }
}

fn some_effect(world: &World, choice: u8) -> Option<EffectId> {
    let open: Vec<EffectId> = world.register().intents().map(|intent| intent.id).collect();
    open.get(usize::from(choice) % open.len().max(1)).copied()
}

/// An effect that may be performed, so that the chosen one can be later: effects of a lane are performed in order.
fn next_in_lane(world: &World, choice: u8) -> Option<EffectId> {
    let mut next = some_effect(world, choice)?;
    loop {
        let lanes = lanes(&world.register().intent(next)?.effect);
        let is_before = |intent: &&Intent| {
            intent.id == next || self::lanes(&intent.effect).iter().any(|lane| lanes.contains(lane))
        };
        let first = world.register().intents().find(is_before)?.id;
        if first == next {
            return Some(next);
        }
        next = first;
    }
}

/// The lanes of an effect; `None` is that of the copies.
fn lanes(effect: &Effect) -> Vec<Option<StoreName>> {
    let lane = match effect {
        Effect::CutSet { members, .. } => {
            return members.iter().map(|member| Some(member.version.store.clone())).collect();
        }
        Effect::Cut { version, .. } | Effect::Restore { version, .. } | Effect::Retire { version } => {
            Some(version.store.clone())
        }
        Effect::MakeCopy { .. } | Effect::DropCopy { .. } => None,
        // Lanes of their own, for which no store's name stands.
        Effect::Compact { .. } | Effect::Weigh { .. } | Effect::Repair { .. } => Some(store("compaction")),
        Effect::Archive { .. } => Some(store("archive")),
        Effect::DropSnapshot { .. } => Some(store("volumes")),
    };
    vec![lane]
}

fn failure(world: &mut World, effect: &Effect, begun: bool) -> Outcome {
    let problem = trouble(Code::StorageFull);
    match effect {
        Effect::CutSet { .. } if begun => World::fail_one(world.cut_set(effect)),
        Effect::CutSet { .. } => Outcome::CutSet(Err(problem)),
        Effect::Cut { .. } => World::fail_cut(Code::StorageFull, begun),
        Effect::Restore { .. } => Outcome::Restore(Err(problem)),
        Effect::Archive { .. } => Outcome::Archive(Err(ArchiveFailure { problem, lost: false })),
        Effect::DropSnapshot { .. } => Outcome::DropSnapshot(Err(problem)),
        Effect::Retire { .. } => Outcome::Retire(Err(problem)),
        Effect::Compact { .. } => Outcome::Compact(Err(problem)),
        Effect::Weigh { .. } => Outcome::Weigh(Err(problem)),
        Effect::Repair { .. } => Outcome::Repair(Err(problem)),
        Effect::MakeCopy { .. } => Outcome::MakeCopy(Err(problem)),
        Effect::DropCopy { .. } => Outcome::DropCopy(Err(problem)),
    }
}

fn request(world: &World, (kind, a, b): Step) -> Event {
    let (version, lease) = (some_version(a, b), LeaseId(format!("lease-{}", b % 4)));
    let named = VersionRef::Exact(version.clone());
    let name = version.to_string();
    let store = version.store.clone();
    let tag = || format!("tag-{}", b % 3).parse().unwrap();
    match kind % 17 {
        0 if b % 2 == 0 => world.publishing_as_seen(some_store(a)),
        0 => World::publishing(some_store(a), "close", None),
        1 => World::publishing(some_store(a), "keyed", Some(&format!("key-{}", b % 5))),
        2 if a % 3 == 0 => World::opening_in_tree(&name, &lease.0, 1 + u32::from(a) * 14),
        2 => World::opening(&name, &lease.0, 1 + u32::from(a) * 14),
        3 => Event::Close { version, lease },
        4 => Event::Renew { version, lease, ttl_s: 1 + u32::from(b) },
        5 => {
            let soon = world.now + SignedDuration::from_secs(i64::from(b));
            World::pinning(&name, (a % 3 > 0).then_some(soon))
        }
        6 => Event::Unpin(named),
        7 => World::restoring(&name),
        8 => Event::Demote(version),
        9 => Event::GiveUp { version, why: "space".to_owned() },
        10 if world.snapshots.get(&version).is_some_and(|volume| volume.full) => Event::Overflowed(version),
        10 => world.sized(some_store(a)),
        11 => Event::Revoke { lease, reason: Some("incident".to_owned()) },
        12 => Event::Tag { store, name: tag(), version: named },
        13 => Event::Untag { store, name: tag() },
        14 => World::publishing_set(SETS[usize::from(a) % SETS.len()].0, (b % 4 == 0).then_some("key-7")),
        15 => world.verified(some_store(a)),
        _ => Event::retire(named),
    }
}

/// The effect happens, and the daemon dies before the engine is told of it.
fn die_before_it_is_told(world: &mut World, effect: EffectId) {
    let intent = world.register().intent(effect).unwrap().clone();
    let outcome = world.act(&intent.effect);
    world.restart();
    if let Outcome::Cut(Ok(Cut { kept: Kept::Stored { content, .. }, .. })) = outcome {
        let version = &world.register().entry(intent.effect.version().unwrap()).unwrap().version;
        assert_eq!(
            (version.state, version.content.as_ref()),
            (State::Ready, Some(&content)),
            "it is adopted"
        );
    }
    for (version, _) in intent.effect.cuts().iter().filter(|_| intent.effect.version().is_none()) {
        let state = world.register().entry(version).unwrap().version.state;
        assert_eq!(state, State::Failed, "nothing of a set is adopted");
    }
}

fn step(world: &mut World, step: Step) {
    let (kind, a, b) = step;
    match kind % 20 {
        0..=2 => world.write(some_store(a)),
        3..=9 => drop(world.tell(&request(world, (a, b, kind.wrapping_mul(7) ^ b)))),
        10..=13 => {
            if let Some(effect) = next_in_lane(world, a) {
                // A refusal, as of a version that is gone, is an outcome like any other.
                let _ = world.perform(effect);
            }
        }
        14 => {
            if let Some(effect) = next_in_lane(world, a) {
                let intended = world.register().intent(effect).unwrap().effect.clone();
                let outcome = failure(world, &intended, b % 2 == 0);
                world.finish(effect, outcome).unwrap_err();
            }
        }
        15 => {
            if let Some(effect) = next_in_lane(world, a) {
                die_before_it_is_told(world, effect);
            }
        }
        16 => {
            // Disks come and go, and so do the files of an archive.
            world.group_is_there = b % 4 > 0;
            match world.archive.keys().nth(usize::from(a)) {
                Some(kept) => _ = world.damaged.insert(kept.clone()),
                None if b % 3 == 0 => world.damaged.clear(),
                None => {}
            }
            world.restart();
        }
        17 if a % 16 == 0 => {
            // A snapshot overflows.
            if let Some(volume) = world.snapshots.values_mut().next() {
                volume.full = true;
            }
        }
        17 => world.pass(i64::from(a) * 20),
        18 => world.pass(i64::from(b)),
        _ => drop(world.tell(&Event::Tick)),
    }
}

/// When everything has come to rest after a start, records and machine say the same.
fn check_at_rest(world: &mut World) {
    world.group_is_there = true;
    world.damaged.clear();
    world.restart();
    for _ in 0..2 {
        while let Some(effect) = world.oldest_effect() {
            let _ = world.perform(effect);
        }
        // What was in the way for a moment is done at the next tick.
        world.tell(&Event::Tick);
    }
    let archived: Vec<_> = world.archive.iter().map(|(id, kept)| (id, Some(&kept.content))).collect();
    let ready = world.versions().filter(|version| version.state == State::Ready);
    assert_eq!(archived, ready.map(|version| (&version.id, version.content.as_ref())).collect::<Vec<_>>());
    let copied = |in_snapshot| {
        let here = move |v: &&Version| v.copy.as_ref().is_some_and(|copy| copy.in_snapshot == in_snapshot);
        world.versions().filter(here).map(|version| &version.id).collect::<Vec<_>>()
    };
    assert_eq!(world.copies.iter().collect::<Vec<_>>(), copied(false));
    assert_eq!(world.shown().collect::<Vec<_>>(), copied(true));
    // Every snapshot is accounted for, and stays for a lease only, or as what the next one is compared with.
    let hot = world.versions().filter(|version| version.snapshot().is_some());
    let hot: Vec<&VersionId> = hot.map(|version| &version.id).collect();
    assert_eq!(world.snapshots.keys().collect::<Vec<_>>(), hot);
    let newest = COMPARED.map(|name| world.archive.keys().rfind(|id| id.store == store(name)));
    let stays =
        |id: &&VersionId| world.register().leases_on(id).next().is_some() || newest.contains(&Some(*id));
    assert!(hot.iter().all(stays), "{hot:?}");
    let over = |state| matches!(state, State::Ready | State::Retired | State::Failed | State::Lost);
    assert!(world.versions().all(|version| over(version.state)));
    for name in STORES {
        let history = world.register().history(&store(name)).unwrap();
        let cuts: Vec<_> = history.versions.values().filter_map(|e| e.version.content.as_ref()).collect();
        assert!(cuts.is_sorted_by(|a, b| a.cut_at < b.cut_at), "cuts follow one another");
    }
    let copies = world.versions().filter_map(|version| version.copy.as_ref());
    let used: u64 = copies.filter(|copy| !copy.in_snapshot).map(|copy| copy.bytes).sum();
    assert!(used <= world.engine.policy().max_copy_bytes, "{used} bytes of copies");
}

/// Takes these steps; the rules for what is kept are those of every store but one.
fn walk(steps: &[Step], rules: Retention) {
    let with_rules = STORES[1..].iter().map(|name| (*name, rules.clone()));
    let stores: Vec<_> = with_rules.chain([(STORES[0], Retention::default())]).collect();
    let mut world = World::new(&stores).with_sets(&SETS);
    world.tree = true;
    for one in steps {
        step(&mut world, *one);
    }
    check_at_rest(&mut world);
}

/// Walks that came to something wrong once.
#[test]
fn what_went_wrong_once_is_mended() {
    // A repair puts a version right that waits to be archived again.
    let archived_twice = [
        (223, 119, 77),
        (0, 0, 0),
        (130, 0, 0),
        (103, 221, 54),
        (30, 0, 0),
        (130, 0, 0),
        (16, 1, 1),
        (63, 134, 14),
        (190, 19, 0),
        (170, 0, 0),
    ];
    // After a restore, a set found its store as it was two versions ago, and the one between is gone.
    let older_than_one_that_is_gone = [
        (23, 17, 232),
        (110, 0, 0),
        (0, 172, 0),
        (183, 58, 127),
        (130, 0, 0),
        (210, 0, 0),
        (203, 26, 102),
        (83, 150, 27),
        (50, 0, 0),
        (50, 0, 0),
    ];
    // The disks of a snapshot are away, in which a version is read.
    let shown_while_away = [
        (63, 238, 74),
        (30, 0, 0),
        (63, 53, 199),
        (230, 0, 0),
        (170, 0, 0),
        (196, 1, 200),
        (49, 155, 59),
        (10, 0, 0),
    ];
    // The daemon dies while a copy is made again that was gone at its last start.
    let gone_twice = [
        (43, 153, 134),
        (210, 0, 0),
        (243, 121, 99),
        (250, 0, 0),
        (30, 0, 0),
        (196, 1, 4),
        (50, 0, 0),
        (135, 0, 0),
        (58, 0, 0),
    ];
    for steps in [&archived_twice[..], &older_than_one_that_is_gone, &shown_while_away, &gone_twice] {
        walk(steps, Retention::default());
    }
}

/// As many random walks.
fn walks(cases: u32, rng_seed: RngSeed) {
    let config = ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() };
    let (steps, keep_last) =
        (proptest::collection::vec(any::<Step>(), 1..200), proptest::option::of(1u32..4));
    proptest!(config, |(steps in steps, keep_last in keep_last, at_most in proptest::option::of(0u64..2_000))| {
        let keep = keep_last.map(|number| format!("the last {number}").parse().unwrap());
        walk(&steps, Retention { keep, at_most, ..Retention::default() });
    });
}

#[test]
fn whatever_happens() {
    walks(1000, ProptestConfig::default().rng_seed);
}

#[test]
#[ignore = "takes minutes; make sim runs it"]
fn whatever_happens_in_200_000_walks() {
    walks(200_000, RngSeed::Random);
}
