//! Lanes: effects of one kind wait for one another, effects of different kinds never do.
//!
//! Each store has a lane of its own, in which its cuts and retirements follow one another in the order in which they were intended,
//! another one in which versions come out of their snapshots into the archive, and one in which the archive is compacted, weighed
//! and repaired, which takes its time. As-at copies have one lane for all stores, and so has the removal of snapshots.
//!
//! The cut of a set is in the lanes of all its stores, and begins when it is the first in each of them: the others rest until it is
//! over. Effects are put into all their lanes before the next one is, so there is always a first one whose lanes come to it, whatever
//! the sets have in common.

use std::collections::{HashMap, VecDeque};

use asat_core::StoreName;
use asat_core::event::{Effect, EffectId};

/// How long the first lane of an effect waits for the last one, which may be in a long cut, in milliseconds. Its own store cannot be
/// published meanwhile.
pub(crate) const PATIENCE_MS: u64 = 60_000;

/// Which effects wait for one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lane {
    Store(StoreName),
    Archive(StoreName),
    Compaction(StoreName),
    Copies,
    Snapshots,
}

impl Lane {
    /// The lanes of an effect; it has to be the first in each.
    fn of(effect: &Effect) -> Vec<Self> {
        let lane = match effect {
            Effect::CutSet { members, .. } => {
                return members.iter().map(|member| Self::Store(member.version.store.clone())).collect();
            }
            Effect::Cut { version, .. } | Effect::Restore { version, .. } | Effect::Retire { version } => {
                Self::Store(version.store.clone())
            }
            Effect::Archive { version } => Self::Archive(version.store.clone()),
            Effect::DropSnapshot { .. } => Self::Snapshots,
            // What is weighed is what compaction has left, and no file is written anew by both at once.
            Effect::Compact { store } | Effect::Weigh { store } | Effect::Repair { store } => {
                Self::Compaction(store.clone())
            }
            Effect::MakeCopy { .. } | Effect::DropCopy { .. } => Self::Copies,
        };
        vec![lane]
    }
}

/// An effect in its lanes.
#[derive(Debug)]
struct Task {
    lanes: Vec<Lane>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is the first in no lane.
    Queued,
    /// It is the first in some of its lanes, since this uptime in milliseconds.
    Met(u64),
    /// It is performed.
    Begun,
    /// Nobody knows what became of it, and nobody will before the next start.
    Abandoned,
}

/// The effects that are performed or wait for others.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    queues: HashMap<Lane, VecDeque<EffectId>>,
    tasks: HashMap<EffectId, Task>,
}

impl Lanes {
    /// Puts an effect into its lanes. Says whether it begins now.
    pub(crate) fn put(&mut self, id: EffectId, effect: &Effect, uptime_ms: u64) -> bool {
        let lanes = Lane::of(effect);
        for lane in &lanes {
            self.queues.entry(lane.clone()).or_default().push_back(id);
        }
        self.tasks.insert(id, Task { lanes, stage: Stage::Queued });
        self.begins(id, uptime_ms)
    }

    /// An effect is over, or was given up. Answers those that begin now.
    pub(crate) fn over(&mut self, id: EffectId, uptime_ms: u64) -> Vec<EffectId> {
        let Some(task) = self.tasks.remove(&id) else { return Vec::new() };
        let mut first = Vec::new();
        for lane in &task.lanes {
            if let Some(queue) = self.queues.get_mut(lane) {
                queue.retain(|queued| *queued != id);
                first.extend(queue.front().copied());
                if queue.is_empty() {
                    self.queues.remove(lane);
                }
            }
        }
        first.retain(|next| self.begins(*next, uptime_ms));
        first
    }

    /// Nothing is known of what became of an effect, so nothing of its lanes is performed any more.
    pub(crate) fn abandon(&mut self, id: EffectId) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.stage = Stage::Abandoned;
        }
    }

    /// Whether an effect waits for one of which nobody knows what became.
    pub(crate) fn is_stuck(&self, id: EffectId) -> bool {
        let is_abandoned =
            |first: &EffectId| self.tasks.get(first).is_some_and(|task| task.stage == Stage::Abandoned);
        self.missing(id).any(|queue| queue.front().is_some_and(is_abandoned))
    }

    /// An effect whose first lane has waited for too long for the others, and for how many of them.
    pub(crate) fn late(&self, uptime_ms: u64) -> Option<(EffectId, usize)> {
        let is_late =
            |task: &Task| matches!(task.stage, Stage::Met(since) if since + PATIENCE_MS <= uptime_ms);
        let late = self.tasks.iter().filter(|(_, task)| is_late(task)).map(|(id, _)| *id).min()?;
        Some((late, self.missing(late).count()))
    }

    /// The uptime, in milliseconds, at which the next effect will be late, if its lanes do not meet before.
    pub(crate) fn patient_until(&self) -> Option<u64> {
        let until = |task: &Task| match task.stage {
            Stage::Met(since) => Some(since + PATIENCE_MS),
            _ => None,
        };
        self.tasks.values().filter_map(until).min()
    }

    /// The effects that are performed, in the order of their numbers.
    pub(crate) fn begun(&self) -> Vec<EffectId> {
        let begun = self.tasks.iter().filter(|(_, task)| task.stage == Stage::Begun);
        let mut begun: Vec<EffectId> = begun.map(|(id, _)| *id).collect();
        begun.sort_unstable();
        begun
    }

    /// Whether an effect that waits begins now: it is the first in each of its lanes.
    fn begins(&mut self, id: EffectId, uptime_ms: u64) -> bool {
        let missing = self.missing(id).count();
        let Some(task) = self.tasks.get_mut(&id) else { return false };
        match task.stage {
            Stage::Begun | Stage::Abandoned => return false,
            Stage::Queued if missing > 0 && missing < task.lanes.len() => task.stage = Stage::Met(uptime_ms),
            Stage::Queued | Stage::Met(_) => {}
        }
        if missing == 0 {
            task.stage = Stage::Begun;
        }
        missing == 0
    }

    /// The queues in which another effect is before this one.
    fn missing(&self, id: EffectId) -> impl Iterator<Item = &VecDeque<EffectId>> {
        let lanes = self.tasks.get(&id).map_or(&[][..], |task| &task.lanes);
        let queues = lanes.iter().filter_map(|lane| self.queues.get(lane));
        queues.filter(move |queue| queue.front() != Some(&id))
    }
}

#[cfg(test)]
mod tests {
    use asat_core::event::SetMember;
    use asat_core::version::Attributes;

    use super::*;

    fn cut(version: &str) -> Effect {
        Effect::Retire { version: version.parse().unwrap() }
    }

    fn set(versions: &[&str]) -> Effect {
        let member =
            |version: &&str| SetMember { version: version.parse().unwrap(), origin: None, anew: false };
        Effect::CutSet {
            set: "month-end".parse().unwrap(),
            members: versions.iter().map(member).collect(),
            attributes: Attributes::default(),
            key: None,
            after: None,
        }
    }

    fn ids(numbers: &[u64]) -> Vec<EffectId> {
        numbers.iter().copied().map(EffectId).collect()
    }

    #[test]
    fn effects_of_a_lane_follow_one_another_and_others_do_not_wait() {
        let mut lanes = Lanes::default();
        let archive = Effect::Archive { version: "report@1".parse().unwrap() };
        let begun = [cut("report@1"), cut("report@2"), cut("ledger@1"), archive];
        let begun: Vec<bool> =
            (1..).zip(&begun).map(|(id, effect)| lanes.put(EffectId(id), effect, 0)).collect();
        assert_eq!(begun, [true, false, true, true]);
        assert_eq!(lanes.begun(), ids(&[1, 3, 4]));
        assert_eq!(lanes.over(EffectId(1), 0), ids(&[2]));
        assert_eq!(lanes.over(EffectId(1), 0), []);
        assert_eq!(lanes.over(EffectId(2), 0), []);
        assert_eq!(lanes.begun(), ids(&[3, 4]));
    }

    #[test]
    fn a_set_begins_when_it_is_the_first_in_all_its_lanes_and_holds_them_until_it_is_over() {
        let mut lanes = Lanes::default();
        assert!(lanes.put(EffectId(1), &cut("report@1"), 0));
        assert!(!lanes.put(EffectId(2), &set(&["ledger@1", "report@2"]), 10));
        assert!(!lanes.put(EffectId(3), &cut("ledger@2"), 20), "the set comes first");
        assert!(!lanes.put(EffectId(4), &set(&["report@3", "ledger@3"]), 30));
        assert_eq!(lanes.over(EffectId(1), 40), ids(&[2]));
        assert_eq!(lanes.over(EffectId(2), 50), ids(&[3]));
        assert_eq!(lanes.over(EffectId(3), 60), ids(&[4]));
        assert_eq!(lanes.over(EffectId(4), 70), []);
        assert!(lanes.queues.is_empty() && lanes.tasks.is_empty(), "nothing is left of them");
    }

    #[test]
    fn a_set_whose_first_lane_has_waited_for_too_long_is_late() {
        let mut lanes = Lanes::default();
        lanes.put(EffectId(1), &cut("report@1"), 0);
        lanes.put(EffectId(2), &cut("ledger@1"), 0);
        lanes.put(EffectId(3), &set(&["ledger@2", "report@2", "rates@1"]), 5);
        lanes.put(EffectId(4), &cut("rates@2"), 5);
        assert_eq!(lanes.patient_until(), Some(PATIENCE_MS + 5));
        assert_eq!(lanes.late(PATIENCE_MS + 4), None);
        assert_eq!(lanes.over(EffectId(2), 50), []);
        assert_eq!(lanes.late(PATIENCE_MS + 5), Some((EffectId(3), 1)));
        // It is given up, and whoever waits for it goes on.
        assert_eq!(lanes.over(EffectId(3), PATIENCE_MS + 5), ids(&[4]));
        assert_eq!((lanes.patient_until(), lanes.late(u64::MAX - PATIENCE_MS)), (None, None));
    }

    #[test]
    fn nothing_follows_what_was_abandoned() {
        let mut lanes = Lanes::default();
        assert!(lanes.put(EffectId(1), &cut("report@1"), 0));
        lanes.abandon(EffectId(1));
        assert_eq!(lanes.begun(), []);
        assert!(!lanes.put(EffectId(2), &cut("report@2"), 0) && lanes.is_stuck(EffectId(2)));
        assert!(lanes.put(EffectId(3), &cut("ledger@1"), 0) && !lanes.is_stuck(EffectId(3)));
    }
}
