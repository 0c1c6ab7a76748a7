//! What the guard remembers from look to look: rates, latencies, what is under way, and what failed.

use std::collections::{BTreeMap, BTreeSet};

use super::action::{Action, Step};
use super::entry::Outcome;
use super::observation::Observation;
use super::pace::{GrowthRate, Peak, Rates};
use super::policy::{Policy, Rung};
use super::target::Target;

/// From this many failures in a row on, the rungs after an extension are taken as well.
pub(super) const FAILING: u32 = 2;

/// A look that came later than this, or an action that took longer, counts as this much. Plans for more would
/// take all space of all groups.
const LONGEST_MS: u64 = 60_000;

/// The first pause before something that failed is tried again; it doubles with each failure.
const FIRST_PAUSE_MS: u64 = 25;

/// The longest pause before an extension that is urgent is tried again. What failed for an hour may work now, and in a
/// minute it would be too late.
const URGENT_PAUSE_MS: u64 = 1_000;

/// An action that takes longer than this is told of.
const STUCK_MS: u64 = 10_000;

/// What an action does to what, as a name.
type Deed = (Rung, String);

/// What the guard has learned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// When the next look is due.
    due_ms: Option<u64>,
    late: Peak,
    latency: Option<Peak>,
    origins: BTreeMap<String, GrowthRate>,
    /// How fast what is used grows: more than what is written where a small write copies a large block.
    growth: BTreeMap<Target, GrowthRate>,
    /// The origins of what was seen to fill.
    filled_by: BTreeMap<Target, Vec<String>>,
    under_way: BTreeMap<Deed, Begun>,
    failures: BTreeMap<Deed, Failures>,
    /// When there was last a reason to hope: an action other than a brake succeeded, or an extension that has not
    /// failed again and again began or ended.
    hoped_ms: Option<u64>,
    /// Extensions that are said to be done: the size that must be seen, and when they ended.
    promised: BTreeMap<Target, (u64, u64)>,
}

/// An action that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Begun {
    at_ms: u64,
    target: Target,
    /// The new size, where it is an extension.
    to: Option<u64>,
    /// For how long nobody looked meanwhile who should have, in milliseconds.
    unseen_ms: u64,
}

/// How often in a row something failed, and when last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Failures {
    count: u32,
    at_ms: u64,
    why: String,
}

impl Memory {
    /// Takes a look in. Looks come in the order of their time.
    pub fn learn(&mut self, policy: &Policy, seen: &Observation) {
        let (now, half_life) = (seen.at_ms, policy.half_life_ms);
        self.came(policy, now);
        // Of a writer who is held it is remembered how fast it was, and will be again. What it gets through while LVM
        // resumes its volume was written in a time that nobody knows, and says nothing.
        for origin in &seen.origins {
            let held = self.is_under_way(Rung::Brake, &origin.id);
            let pace = self.origins.entry(origin.id.clone()).or_default();
            if held { pace.pass_over(origin.written) } else { pace.look(now, origin.written, half_life) }
        }
        let pools = seen.pools.iter().flat_map(|pool| {
            let targets = [Target::PoolData(pool.id.clone()), Target::PoolMetadata(pool.id.clone())];
            targets.map(|target| (target, pool.origins.clone()))
        });
        let snapshots = seen.snapshots.iter();
        let snapshots =
            snapshots.map(|seen| (Target::Snapshot(seen.version.id.clone()), vec![seen.origin.clone()]));
        self.filled_by = snapshots.chain(pools).collect();
        let sizes = sizes(seen);
        for (target, used, size) in &sizes {
            let origins = self.filled_by.get(target).map_or(&[][..], Vec::as_slice);
            let held =
                !origins.is_empty() && origins.iter().all(|origin| self.is_under_way(Rung::Brake, origin));
            let pace = self.growth.entry(target.clone()).or_default();
            if held {
                pace.pass_over(*used)
            } else {
                pace.look(now, *used, half_life)
            }
            if let Some((to, ended_ms)) = self.promised.get(target).copied()
                && now > ended_ms
            {
                self.promised.remove(target);
                let deed = (Rung::Extend, target.to_string());
                if *size >= to {
                    self.failures.remove(&deed);
                } else {
                    let why = format!("the command succeeded, and the size is {size} bytes instead of {to}");
                    self.fail(deed, now, why);
                }
            }
        }
        self.forget(policy, seen, &sizes.into_iter().map(|(target, ..)| target).collect());
    }

    /// Takes in that nothing was written since the last look, with nothing under way: the same as a look that shows what
    /// the last one showed, without its cost.
    pub fn glance(&mut self, policy: &Policy, at_ms: u64) {
        self.came(policy, at_ms);
        for pace in self.origins.values_mut().chain(self.growth.values_mut()) {
            pace.look_again(at_ms, policy.half_life_ms);
        }
    }

    /// Whether an extension is under way.
    #[must_use]
    pub fn is_extending(&self) -> bool {
        self.under_way.keys().any(|(rung, _)| *rung == Rung::Extend)
    }

    /// How many actions are under way that end by themselves. What is hurried is at its end when the records say so.
    #[must_use]
    pub fn open(&self) -> usize {
        self.under_way.keys().filter(|(rung, _)| *rung != Rung::Hurry).count()
    }

    /// Since when an action is under way, if it is, in milliseconds of the guard's clock.
    #[must_use]
    pub fn begun_ms(&self, action: &Action) -> Option<u64> {
        self.under_way.get(&deed(action)?).map(|begun| begun.at_ms)
    }

    /// Whether nothing is under way, and nothing that is done is still to be seen.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.promised.is_empty()
    }

    /// It has looked now, when that was due or later.
    fn came(&mut self, policy: &Policy, at_ms: u64) {
        if let Some(due) = self.due_ms.replace(at_ms.saturating_add(policy.longest_tick_ms)) {
            let late = at_ms.saturating_sub(due);
            self.late.raise(late.min(LONGEST_MS), at_ms, policy.half_life_ms);
            for begun in self.under_way.values_mut() {
                begun.unseen_ms = begun.unseen_ms.saturating_add(late);
            }
        }
    }

    /// The next look is due then, as a plan said. One that comes later was late, and may be so again.
    pub fn expect(&mut self, due_ms: u64) {
        self.due_ms = Some(due_ms);
    }

    /// An action is being performed from now on. Refusals and alarms are not performed, and are not told.
    pub fn began(&mut self, step: &Step, at_ms: u64) {
        let to = match &step.action {
            Action::Extend { to, .. } => Some(*to),
            _ => None,
        };
        if let Some(deed) = deed(&step.action) {
            self.hope_for(&deed, at_ms);
            self.under_way.insert(deed, Begun { at_ms, target: step.target.clone(), to, unseen_ms: 0 });
        }
    }

    /// An action has ended.
    pub fn ended(&mut self, policy: &Policy, step: &Step, at_ms: u64, outcome: &Outcome) {
        let Some(deed) = deed(&step.action) else { return };
        let begun = self.under_way.remove(&deed);
        if let (Action::Brake { origin, .. }, Some(begun)) = (&step.action, &begun) {
            self.resume(origin, at_ms.saturating_sub(begun.at_ms));
            if self.hoped_ms.is_none_or(|hoped_ms| hoped_ms < begun.at_ms) {
                // It pauses like a failure.
                self.fail(deed, at_ms, "nothing was achieved meanwhile".to_owned());
            }
            return;
        }
        if let (Action::Extend { target, to }, Some(begun)) = (&step.action, begun) {
            let took = at_ms.saturating_sub(begun.at_ms).min(LONGEST_MS);
            let first = Peak::new(policy.first_latency_ms, begun.at_ms);
            self.latency.get_or_insert(first).raise(took, at_ms, policy.half_life_ms);
            if *outcome == Outcome::Done {
                self.promised.insert(target.clone(), (*to, at_ms));
            }
        }
        self.hope_for(&deed, at_ms);
        match outcome {
            // Whether an extension was one is seen at the next look.
            Outcome::Done => {
                self.hope(at_ms);
                self.failures.retain(|other, _| *other != deed || other.0 == Rung::Extend);
            }
            Outcome::Failed(why) => self.fail(deed, at_ms, why.clone()),
            Outcome::Stalled => self.fail(deed, at_ms, "it did not end in time".to_owned()),
        }
    }

    /// An extension begins or ends. Who was let go because it failed, or before it ended, is held again at once; but not
    /// time after time for one that always fails, since the store is to go on.
    fn hope_for(&mut self, deed: &Deed, at_ms: u64) {
        let failures = self.failures.get(deed).map_or(0, |failures| failures.count);
        if deed.0 == Rung::Extend && failures < FAILING {
            self.hope(at_ms);
        }
    }

    /// Brakes may be put on without a pause again.
    fn hope(&mut self, at_ms: u64) {
        self.hoped_ms = Some(at_ms);
        self.failures.retain(|(rung, _), _| *rung != Rung::Brake);
    }

    /// A writer goes on after it was held for so long.
    fn resume(&mut self, origin: &str, held_ms: u64) {
        if let Some(pace) = self.origins.get_mut(origin) {
            pace.shift(held_ms);
        }
        for (target, pace) in &mut self.growth {
            let Some(origins) = self.filled_by.get(target) else { continue };
            let brake = |other: &String| self.under_way.contains_key(&(Rung::Brake, other.clone()));
            // It was held for as long as all of its origins were.
            if origins.iter().any(|other| other == origin)
                && origins.iter().all(|other| other == origin || brake(other))
            {
                pace.shift(held_ms);
            }
        }
    }

    fn fail(&mut self, deed: Deed, at_ms: u64, why: String) {
        let failures = self.failures.entry(deed).or_default();
        *failures = Failures { count: failures.count.saturating_add(1), at_ms, why };
    }

    /// Lets go what speaks of things that are gone, and rates that are no longer above the least.
    fn forget(&mut self, policy: &Policy, seen: &Observation, targets: &BTreeSet<Target>) {
        let (now, half_life) = (seen.at_ms, policy.half_life_ms);
        let origins: BTreeSet<&str> = seen.origins.iter().map(|origin| origin.id.as_str()).collect();
        self.origins.retain(|id, pace| {
            let here = origins.contains(id.as_str());
            if !here {
                pace.miss();
            }
            here || pace.fastest(now, half_life) > policy.least_rate
        });
        self.growth.retain(|target, _| targets.contains(target));
        self.promised.retain(|target, _| targets.contains(target));
        let names: BTreeSet<String> = targets.iter().map(Target::to_string).collect();
        self.failures.retain(|(rung, name), _| *rung != Rung::Extend || names.contains(name));
        // Others are forgotten once their pause is long over.
        self.failures
            .retain(|_, failures| now.saturating_sub(failures.at_ms) < LONGEST_MS.saturating_mul(10));
    }

    /// The longest time between two looks that must be reckoned with, in milliseconds.
    pub(super) fn tick_ms(&self, policy: &Policy, now_ms: u64) -> u64 {
        policy.longest_tick_ms.saturating_add(self.late.at(now_ms, policy.half_life_ms))
    }

    /// How long an extension may take, in milliseconds: twice the longest that is remembered, or as long as one
    /// has been under way.
    pub(super) fn latency_ms(&self, policy: &Policy, now_ms: u64) -> u64 {
        let seen = self.latency.map_or(policy.first_latency_ms, |peak| peak.at(now_ms, policy.half_life_ms));
        let extensions = self.under_way.iter().filter(|((rung, _), _)| *rung == Rung::Extend);
        let longest = extensions.map(|(_, begun)| now_ms.saturating_sub(begun.at_ms)).max().unwrap_or(0);
        seen.max(policy.least_latency_ms).saturating_mul(2).max(longest).min(LONGEST_MS)
    }

    /// The rates at which an origin is written.
    pub(super) fn written(&self, policy: &Policy, origin: &str, now_ms: u64) -> Rates {
        let rates = self.origins.get(origin).map_or(Rates::default(), |pace| Rates::of(pace, policy, now_ms));
        Rates { fastest: rates.fastest.max(policy.least_rate), ..rates }
    }

    /// The rates at which a target fills.
    pub(super) fn growth(&self, policy: &Policy, target: &Target, now_ms: u64) -> Rates {
        self.growth.get(target).map_or(Rates::default(), |pace| Rates::of(pace, policy, now_ms))
    }

    /// The size that an extension under way leads to.
    pub(super) fn extending(&self, target: &Target) -> Option<u64> {
        self.under_way.get(&(Rung::Extend, target.to_string())).and_then(|begun| begun.to)
    }

    /// Whether an action is under way.
    pub(super) fn is_under_way(&self, rung: Rung, name: &str) -> bool {
        self.under_way.contains_key(&(rung, name.to_owned()))
    }

    /// The origins whose writers are held.
    pub(super) fn braked(&self) -> impl Iterator<Item = &str> {
        let brakes = self.under_way.keys().filter(|(rung, _)| *rung == Rung::Brake);
        brakes.map(|(_, origin)| origin.as_str())
    }

    /// What is under way, and for whose sake.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (Rung, &Target)> {
        self.under_way.iter().map(|((rung, _), begun)| (*rung, &begun.target))
    }

    /// Whether an action may begin: it is not under way, and its pause after a failure is over.
    pub(super) fn may_begin(&self, rung: Rung, name: &str, now_ms: u64) -> bool {
        self.may_begin_after(rung, name, now_ms, LONGEST_MS)
    }

    /// The same for what cannot wait for the whole of a long pause.
    pub(super) fn may_begin_soon(&self, rung: Rung, name: &str, now_ms: u64) -> bool {
        self.may_begin_after(rung, name, now_ms, URGENT_PAUSE_MS)
    }

    fn may_begin_after(&self, rung: Rung, name: &str, now_ms: u64, longest_ms: u64) -> bool {
        let deed = (rung, name.to_owned());
        let paused = self.failures.get(&deed).is_some_and(|failures| {
            let doublings = failures.count.saturating_sub(1).min(20);
            let pause = (FIRST_PAUSE_MS << doublings).min(longest_ms);
            now_ms < failures.at_ms.saturating_add(pause)
        });
        !paused && !self.under_way.contains_key(&deed)
    }

    /// How often in a row an action failed, and why the last time.
    pub(super) fn failures(&self, rung: Rung, name: &str) -> (u32, &str) {
        let failures = self.failures.get(&(rung, name.to_owned()));
        failures.map_or((0, ""), |failures| (failures.count, &failures.why))
    }

    /// Actions that have been under way for too long: on what, for whose sake, and for how many milliseconds.
    pub(super) fn stuck(&self, now_ms: u64) -> impl Iterator<Item = (Rung, &Target, u64)> {
        // Whoever stood still himself knows nothing of how long it takes.
        let lasting = move |begun: &Begun| now_ms.saturating_sub(begun.at_ms).saturating_sub(begun.unseen_ms);
        // An archive takes as long as it takes.
        let timed = self.under_way.iter().filter(|((rung, _), _)| *rung != Rung::Hurry);
        let stuck = timed.filter(move |(_, begun)| lasting(begun) > STUCK_MS);
        stuck.map(move |((rung, _), begun)| (*rung, &begun.target, lasting(begun)))
    }
}

/// Everything that fills: its name, what is used of it, and its size.
fn sizes(seen: &Observation) -> Vec<(Target, u64, u64)> {
    let snapshots = seen.snapshots.iter().map(|seen| {
        // One that cannot overflow is as large as it need be, whatever was asked for.
        let size = if seen.size >= seen.most { u64::MAX } else { seen.size };
        (Target::Snapshot(seen.version.id.clone()), seen.used, size)
    });
    let pools = seen.pools.iter().flat_map(|seen| {
        [
            (Target::PoolData(seen.id.clone()), seen.data_used, seen.data_size),
            (Target::PoolMetadata(seen.id.clone()), seen.metadata_used, seen.metadata_size),
        ]
    });
    snapshots.chain(pools).collect()
}

/// The name of an action; `None` where nothing is performed.
fn deed(action: &Action) -> Option<Deed> {
    let name = match action {
        Action::Extend { target, .. } => target.to_string(),
        Action::Brake { origin, .. } => origin.clone(),
        Action::Demote { version } | Action::Hurry { version } | Action::Retire { version } => {
            version.to_string()
        }
        Action::Refuse { .. } | Action::Alarm { .. } => return None,
    };
    Some((action.rung(), name))
}
