//! A scene for the guard: what is seen, in mebibytes, and the plan in a few words.

use asat_core::guard::{
    Action, Assessment, GroupSeen, HotVersion, Memory, Observation, OriginSeen, Plan, Policy, PoolMode,
    PoolSeen, SnapshotSeen, Step, Target, plan,
};
use asat_core::harm::{Damage, Harm, Lost};
use jiff::{SignedDuration, Timestamp};

pub(crate) const MIB: u64 = 1 << 20;

/// A policy whose arithmetic can be done in the head: an origin is written with at least 8 MiB/s, which fills a
/// snapshot with 9 MiB/s; an extension takes up to 2 s, and ticks are up to 1 s apart.
pub(crate) fn policy() -> Policy {
    Policy {
        least_rate: 8 * MIB,
        first_latency_ms: 1000,
        lasting_ms: 4000,
        full_rate: 64 * MIB,
        ..Policy::default()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) policy: Policy,
    pub(crate) memory: Memory,
    pub(crate) seen: Observation,
}

impl Scene {
    /// A group with so much free space, in extents of 4 MiB.
    pub(crate) fn new(free_mib: u64) -> Self {
        let group = GroupSeen { id: "vg".to_owned(), free: free_mib * MIB, extent: 4 * MIB };
        let seen = Observation { at_ms: 1_000_000, groups: vec![group], ..Observation::default() };
        Self { policy: policy(), memory: Memory::default(), seen }
    }

    /// The same with a snapshot, such as `"report@1"`, of an origin named as its store. What is said of it:
    /// `archived`, `needed` (leased), `pinned` (held, not hot).
    pub(crate) fn with(mut self, version: &str, used_mib: u64, size_mib: u64, said: &str) -> Self {
        let version = hot(version, said);
        self.seen.snapshots.push(SnapshotSeen {
            origin: version.id.store.to_string(),
            group: "vg".to_owned(),
            used: used_mib * MIB,
            size: size_mib * MIB,
            most: 2000 * MIB,
            version,
        });
        self
    }

    /// The same where this version of the store `a` is lost, or something of it is damaged.
    pub(crate) fn harmed(mut self, lost: Option<&str>, is_damaged: bool) -> Self {
        let lost =
            lost.map(|id| Lost { newest: id.parse().unwrap(), reason: "it was full".to_owned(), count: 1 });
        let damage = Damage {
            found_at: Timestamp::UNIX_EPOCH,
            what: "000000000001.segment".to_owned(),
            versions: vec![1],
            tried: None,
        };
        self.seen.harms.push(Harm {
            store: "a".parse().unwrap(),
            lost,
            damage: is_damaged.then_some(damage),
        });
        self
    }

    /// The same with a thin pool, 64 KiB a block and 4 of 64 MiB of metadata used, that holds these versions.
    pub(crate) fn with_pool(mut self, used_mib: u64, size_mib: u64, versions: &[(&str, &str)]) -> Self {
        self.seen.pools.push(PoolSeen {
            id: "pool".to_owned(),
            group: "vg".to_owned(),
            origins: vec!["thin".to_owned()],
            versions: versions.iter().map(|(version, said)| hot(version, said)).collect(),
            data_used: used_mib * MIB,
            data_size: size_mib * MIB,
            data_most: 4_000_000 * MIB,
            writable: 4_000_000 * MIB,
            metadata_used: 4 * MIB,
            metadata_size: 64 * MIB,
            block: 64 << 10,
            mode: PoolMode::ReadWrite,
            needs_check: false,
            may_grow: true,
        });
        self
    }

    /// An origin is written at this rate for the second before the look.
    pub(crate) fn written(mut self, origin: &str, mib_per_s: u64) -> Self {
        let now = self.seen.at_ms;
        let look = |at_ms, written| Observation {
            at_ms,
            origins: vec![OriginSeen {
                id: origin.to_owned(),
                group: "vg".to_owned(),
                written,
                may_hold: true,
            }],
            ..self.seen.clone()
        };
        let (before, after) = (look(now - 1000, 0), look(now, mib_per_s * MIB));
        self.memory.learn(&self.policy, &before);
        self.memory.learn(&self.policy, &after);
        self
    }

    /// A snapshot has taken so much in the second before the look, and the others nothing.
    pub(crate) fn filled(mut self, version: &str, mib: u64) -> Self {
        let mut before = Observation { at_ms: self.seen.at_ms - 1000, ..self.seen.clone() };
        let of_it = before.snapshots.iter_mut().filter(|seen| seen.version.id.to_string() == version);
        of_it.for_each(|seen| seen.used -= mib * MIB);
        self.memory.learn(&self.policy, &before);
        self.memory.learn(&self.policy, &self.seen);
        self
    }

    pub(crate) fn plan(&self) -> Plan {
        let planned = plan(&self.policy, &self.memory, &self.seen);
        assert_eq!(planned, plan(&self.policy, &self.memory, &self.seen), "the same again");
        planned
    }

    /// What is planned, as `extend snapshot report@1 to 104; alarm group vg: short`.
    pub(crate) fn steps(&self) -> String {
        self.plan().steps.iter().map(told).collect::<Vec<_>>().join("; ")
    }

    /// The same without refusals and alarms.
    pub(crate) fn actions(&self) -> String {
        let plan = self.plan();
        let said = |step: &&Step| !matches!(step.action, Action::Refuse { .. } | Action::Alarm { .. });
        plan.steps.iter().filter(said).map(told).collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn assessment(&self, target: &str) -> Assessment {
        let target: Target = target.parse().unwrap();
        self.plan().assessments.into_iter().find(|found| found.target == target).unwrap()
    }

    /// The first step of a rung.
    pub(crate) fn step(&self, rung: &str) -> Step {
        self.plan().steps.into_iter().find(|step| step.action.rung().text() == rung).unwrap()
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.seen.at_ms += ms;
    }
}

/// A version as it is said to be, cut as many hours after a beginning as its number says.
pub(crate) fn hot(version: &str, said: &str) -> HotVersion {
    let id: asat_core::VersionId = version.parse().unwrap();
    let begin: Timestamp = "2026-11-19T00:00:00Z".parse().unwrap();
    HotVersion {
        cut_at: begin + SignedDuration::from_hours(i64::try_from(id.number).unwrap()),
        archived: said.contains("archived"),
        needed: said.contains("needed"),
        held: said.contains("needed") || said.contains("pinned"),
        given_up: false,
        id,
    }
}

/// A step in a few words.
pub(crate) fn told(step: &Step) -> String {
    assert!(!step.reason.is_empty(), "{step:?}");
    match &step.action {
        Action::Extend { target, to } => format!("extend {target} to {}", to / MIB),
        Action::Brake { origin, most_ms } => format!("brake {origin} for {most_ms}"),
        Action::Demote { version } => format!("demote {version}"),
        Action::Hurry { version } => format!("hurry {version}"),
        Action::Retire { version } => format!("retire {version}"),
        Action::Refuse { scope } => format!("refuse {scope:?}"),
        Action::Alarm { key, .. } => format!("alarm {key}"),
    }
}
