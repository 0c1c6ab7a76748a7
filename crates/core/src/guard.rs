//! The guard: what is to be done so that no snapshot and no pool runs full.
//!
//! A classic snapshot that is full loses its version, and a thin pool that is full harms the store itself; the
//! kernel warns of neither in time. So a daemon looks at them again and again, and [`plan`] says what to do. It is
//! arithmetic on integers over a policy, a memory and what is seen: the same observation gives the same plan, and
//! every step carries its reason. It judges by worst cases:
//!
//! - *safe* is what would not be full even if its origin were written at its fastest until the guard has looked
//!   again and has extended everything else first;
//! - *low* is the rest, and is extended, demoted, or hurried into the archive;
//! - *urgent* is what would be full, at the rate of this moment, before an extension takes effect. Its writer is
//!   held for a bounded time meanwhile.
//!
//! How often the guard looks follows from what the devices can take at all: a writer of whom nothing was foreseen
//! is seen, and held, before it fills what is left. What is *not* promised: that help comes where there is no
//! space, no version that may go, and no end of writes.

mod action;
mod advice;
mod alarm;
mod case;
mod entry;
mod ladder;
mod memory;
mod observation;
mod pace;
mod policy;
mod room;
mod share;
mod target;
mod text;

pub use action::{Action, AlarmKey, AlarmKind, Assessment, Level, Plan, Scope, Step};
pub use advice::{Advice, Short, VolumeAdvice, advice};
pub use alarm::{records_damaged, unfollowed, unrecorded, unstored, untracked};
pub use entry::{GuardEntry, Outcome};
pub use memory::Memory;
pub use observation::{
    FolderSeen, GroupSeen, HotVersion, Observation, OriginSeen, PoolMode, PoolSeen, SnapshotSeen,
};
pub use policy::{Policy, Rung};
pub use room::{InPool, Room};
pub use target::{Target, TargetError};
pub(crate) use text::Size;
pub use text::Span;

use case::Case;
use ladder::Draft;
use pace::lasts;

/// What is to be done about what is seen. The memory has taken in this look already.
///
/// The steps are for one worker that takes the first, tells the memory when it begins and ends, and then asks for a
/// new plan; brakes need none of the volumes' commands and are put on beside it. A writer is let go before its time
/// once nothing that it fills is urgent any more, or nothing is done about it: while it is held, it counts as fast as it
/// was.
#[must_use]
pub fn plan(policy: &Policy, memory: &Memory, seen: &Observation) -> Plan {
    let mut draft = Draft::new(policy, memory, seen);
    for rung in &policy.ladder {
        draft.climb(*rung);
    }
    draft.tell_of_harms();
    let assessments = draft.assessments();
    let tick_ms = draft.tick_ms();
    let release = draft.released();
    let (brakes, others): (Vec<Step>, Vec<Step>) =
        draft.steps.into_iter().partition(|step| step.action.rung() == Rung::Brake);
    Plan { assessments, steps: brakes.into_iter().chain(others).collect(), release, tick_ms }
}

impl Draft<'_> {
    /// How everything stands: what fills, then the groups, then the folders.
    fn assessments(&self) -> Vec<Assessment> {
        let cases = self.cases.iter().map(|case| case.assessment(self.margins));
        let groups = self.seen.groups.iter().map(|group| self.group(group));
        let folders = self.seen.folders.iter().map(|folder| self.folder(folder));
        cases.chain(groups).chain(folders).collect()
    }

    fn group(&self, seen: &GroupSeen) -> Assessment {
        let cases = || self.cases.iter().filter(|case| case.group == seen.id && case.is_precious());
        let granted = cases().map(|case| case.to.saturating_sub(case.size)).fold(0, u64::saturating_add);
        let worst = self.rooms.of(&seen.id).reserve.saturating_add(granted);
        let urgent = cases().any(|case| case.level == Level::Urgent && self.unmet(case) > 0);
        let level = match worst > seen.free {
            true if urgent => Level::Urgent,
            true => Level::Low,
            false => Level::Safe,
        };
        let rate =
            cases().filter(|case| case.growable).map(|case| case.rates.fastest).fold(0, u64::saturating_add);
        let reason = format!(
            "{} free; everything in it may need {} at once: {}",
            Size(seen.free),
            Size(worst),
            level.text()
        );
        let full_in_ms = lasts(seen.free, rate);
        let (target, used, size) = (Target::Group(seen.id.clone()), worst, seen.free);
        Assessment { target, level, used, size, rate, worst, full_in_ms, reason }
    }

    fn folder(&self, seen: &FolderSeen) -> Assessment {
        let least = self.policy.least_folder_free;
        let level = if seen.free < least { Level::Urgent } else { Level::Safe };
        let reason = format!(
            "{} of {} free, and {} needed: {}",
            Size(seen.free),
            Size(seen.total),
            Size(least),
            level.text()
        );
        let used = seen.total.saturating_sub(seen.free);
        Assessment {
            target: Target::Folder(seen.path.clone()),
            level,
            used,
            size: seen.total,
            rate: 0,
            worst: used.saturating_add(least),
            full_in_ms: None,
            reason,
        }
    }

    /// When to look again: before a writer at the devices' full rate can fill what is left of anything that
    /// somebody would miss, with the time that it takes to hold it.
    fn tick_ms(&self) -> u64 {
        let (shortest, longest) = (self.policy.shortest_tick_ms, self.policy.longest_tick_ms);
        let precious = || self.cases.iter().filter(|case| case.is_precious() && case.level != Level::Lost);
        if precious().any(|case| case.level == Level::Urgent) {
            return shortest;
        }
        let fillable = precious().filter(|case| case.size < case.most);
        let lasting =
            |case: &Case<'_>| lasts(case.size.saturating_sub(case.used), case.fastest(self.policy.full_rate));
        let Some(ms) = fillable.filter_map(lasting).min() else { return longest };
        ms.saturating_sub(self.policy.brake_latency_ms).max(shortest).min(longest.max(shortest))
    }
}
