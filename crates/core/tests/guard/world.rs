//! The guard in a small world: stores that are written, snapshots that fill, one worker that extends them, and
//! looks that come as late as they may.
//!
//! Chunks are not modelled: what is written fills every snapshot of its origin with an eighth on top, which is the
//! most that the guard reckons with.

use asat_core::guard::{
    Action, GroupSeen, HotVersion, Memory, Observation, OriginSeen, Outcome, Policy, SnapshotSeen, Step, plan,
};
use jiff::Timestamp;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

struct World {
    policy: Policy,
    memory: Memory,
    now_ms: u64,
    seen: Observation,
    /// What the worker is at, and when it is done.
    work: Option<(Step, u64)>,
    /// The origin that is held, its brake, and until when.
    held: Option<(Step, u64)>,
    /// Bytes a millisecond that each origin is written with.
    rates: Vec<u64>,
    /// How many snapshots were full.
    lost: usize,
}

impl World {
    fn new(policy: Policy, free_mib: u64, snapshots: &[(usize, u64)], origins: usize) -> Self {
        let snapshot = |(number, &(origin, size_mib)): (u64, &(usize, u64))| SnapshotSeen {
            version: HotVersion {
                id: format!("o{}@{number}", origin % origins).parse().unwrap(),
                cut_at: Timestamp::UNIX_EPOCH,
                archived: false,
                needed: false,
                held: false,
                given_up: false,
            },
            origin: format!("o{}", origin % origins),
            group: "vg".to_owned(),
            used: 0,
            size: size_mib * MIB,
            most: 4096 * MIB,
        };
        let seen = Observation {
            origins: (0..origins)
                .map(|n| OriginSeen {
                    id: format!("o{n}"),
                    group: "vg".to_owned(),
                    written: 0,
                    may_hold: true,
                })
                .collect(),
            snapshots: (1..).zip(snapshots).map(snapshot).collect(),
            groups: vec![GroupSeen { id: "vg".to_owned(), free: free_mib * MIB, extent: 4 * MIB }],
            ..Observation::default()
        };
        let rates = vec![0; origins];
        Self { policy, memory: Memory::default(), now_ms: 0, seen, work: None, held: None, rates, lost: 0 }
    }

    /// Time passes until `then`, written at the rates of the moment.
    fn pass(&mut self, then_ms: u64) {
        while self.now_ms < then_ms {
            let ends = [&self.work, &self.held].into_iter().flatten().map(|(_, end)| *end);
            let next = ends.filter(|end| *end > self.now_ms).fold(then_ms, u64::min);
            self.write(next - self.now_ms);
            self.now_ms = next;
            self.settle();
        }
    }

    fn write(&mut self, ms: u64) {
        for (origin, rate) in self.seen.origins.iter_mut().zip(&self.rates) {
            let held = self.held.as_ref().is_some_and(
                |(step, _)| matches!(&step.action, Action::Brake { origin: held, .. } if *held == origin.id),
            );
            if held {
                continue;
            }
            let bytes = rate * ms;
            origin.written += bytes;
            for snapshot in self.seen.snapshots.iter_mut().filter(|snapshot| snapshot.origin == origin.id) {
                snapshot.used += bytes + bytes / 8;
            }
            let before = self.seen.snapshots.len();
            self.seen
                .snapshots
                .retain(|snapshot| snapshot.used < snapshot.size || snapshot.size >= snapshot.most);
            self.lost += before - self.seen.snapshots.len();
        }
    }

    fn settle(&mut self) {
        if let Some((step, _)) = self.held.take_if(|(_, end)| *end <= self.now_ms) {
            self.memory.ended(&self.policy, &step, self.now_ms, &Outcome::Done);
        }
        if let Some((step, _)) = self.work.take_if(|(_, end)| *end <= self.now_ms) {
            let alone = asat_core::guard::Plan {
                assessments: Vec::new(),
                steps: vec![step.clone()],
                release: Vec::new(),
                tick_ms: 0,
            };
            self.seen = self.seen.after(&alone);
            self.memory.ended(&self.policy, &step, self.now_ms, &Outcome::Done);
        }
    }

    /// A look, and what the worker begins then. Answers when the next look is due.
    fn look(&mut self, latency_ms: u64) -> u64 {
        self.seen.at_ms = self.now_ms;
        self.memory.learn(&self.policy, &self.seen);
        let planned = plan(&self.policy, &self.memory, &self.seen);
        for step in planned.steps {
            match &step.action {
                Action::Extend { .. } if self.work.is_none() => {
                    self.memory.began(&step, self.now_ms);
                    self.work = Some((step, self.now_ms + latency_ms.max(1)));
                }
                Action::Brake { most_ms, .. } if self.held.is_none() => {
                    let end = self.now_ms + most_ms;
                    self.memory.began(&step, self.now_ms);
                    self.held = Some((step, end));
                }
                _ => {}
            }
        }
        planned.tick_ms
    }
}

/// One tick: which origin changes its pace, to how many parts in 8 of the fastest, how late the look is and how
/// long the next extension takes, in parts of 8 of the most.
type Tick = (usize, u64, u64, u64);

fn ticks() -> impl Strategy<Value = Vec<Tick>> {
    prop::collection::vec((0..4_usize, 0..=8_u64, 0..=8_u64, 0..=8_u64), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Writers up to the rate that is configured, looks up to a second apart, extensions of up to twice the
    /// longest that was seen: nothing overflows while the group has room.
    #[test]
    fn no_version_is_lost_within_what_is_assumed(
        snapshots in prop::collection::vec((0..4_usize, 64..512_u64), 1..8),
        origins in 1..4_usize,
        ticks in ticks(),
    ) {
        // The slowest extension takes 1 s, so twice that is reckoned with.
        let policy = Policy { first_latency_ms: 500, ..Policy::default() };
        let fastest = policy.least_rate / 1000;
        let most_ms = policy.longest_tick_ms;
        let mut world = World::new(policy, 100_000, &snapshots, origins);
        for (origin, pace, late, latency) in ticks {
            world.rates[origin % origins] = fastest * pace / 8;
            let due = world.look(1000 * latency / 8);
            let then = world.now_ms + due.max(most_ms * late / 8);
            world.pass(then);
            prop_assert_eq!(world.lost, 0, "after {} ms: {:#?}", world.now_ms, world.seen);
        }
    }

    /// A writer of whom nothing was foreseen, as fast as the devices can: it is held, and every snapshot is extended
    /// before it overflows, while the group has room and extensions end within the time for which it is held.
    #[test]
    fn no_version_is_lost_to_an_unthrottled_writer(
        snapshots in 1..4_usize,
        quiet in 1..50_usize,
        pace in 1..=8_u64,
        latencies in prop::collection::vec(100..600_u64, 100),
    ) {
        let policy = Policy { full_rate: 1024 * MIB, ..Policy::default() };
        let fastest = policy.full_rate / 1000;
        let sizes = vec![(0, 512); snapshots];
        let mut world = World::new(policy, 100_000, &sizes, 1);
        for (index, latency) in latencies.into_iter().enumerate() {
            world.rates[0] = if index < quiet { 0 } else { fastest * pace / 8 };
            let due = world.look(latency);
            world.pass(world.now_ms + due);
            prop_assert_eq!(world.lost, 0, "after {} ms: {:#?}", world.now_ms, world.seen);
        }
    }
}

#[test]
fn without_a_guard_the_same_writer_loses_the_version() {
    let mut world = World::new(Policy::default(), 100_000, &[(0, 64)], 1);
    world.rates[0] = 1024 * MIB / 1000;
    world.pass(1000);
    assert_eq!(world.lost, 1);
}
