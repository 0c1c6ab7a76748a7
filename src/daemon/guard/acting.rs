//! Acting: steps of a plan are begun, and what came of them is taken in.

use std::time::{Duration, Instant};

use asat_core::VersionId;
use asat_core::event::Event;
use asat_core::guard::{self, Action, GuardEntry, HotVersion, Observation, Outcome, Plan, Rung, Scope, Step};
use asat_core::snapshot::Snapshot;
use tracing::field::display;

use super::{Done, Guard, LAST_ACTIONS, Word};
use crate::daemon::Notice;
use crate::daemon::host::Host as _;
use crate::daemon::machine::{Advice, Short};

/// The version that a step is about, where it is about one.
fn about(step: &Step) -> Option<&VersionId> {
    step.action.version().or_else(|| step.target.version())
}

impl Guard {
    /// Begins a step, where that is something to begin. What is under way already is not planned again.
    /// `looked` is when the look was that the plan follows from, on the guard's clock and on the machine's.
    pub(super) fn begin(&mut self, step: &Step, plan: &Plan, looked: (u64, Instant)) {
        match &step.action {
            Action::Extend { .. } if !self.worker.extend(step, looked.1) => return,
            Action::Extend { target, .. } => {
                let found = plan.assessments.iter().find(|found| found.target == *target);
                self.extended_from = found.map(|found| found.size);
                self.turn.get_or_insert_with(|| self.machine.volumes().reserve_turn());
            }
            Action::Brake { origin, most_ms } if !self.brakes.hold(origin, step, *most_ms) => return,
            Action::Brake { .. } => {}
            Action::Demote { version } => self.ask(step, Event::Demote(version.clone())),
            Action::Retire { version } => {
                self.ask(step, Event::GiveUp { version: version.clone(), why: step.reason.clone() });
            }
            Action::Hurry { version } => {
                self.hurried.insert(version.clone(), (step.clone(), Instant::now()));
                self.handle.tell(Event::Tick, |_| {});
            }
            Action::Refuse { .. } | Action::Alarm { .. } => return,
        }
        if step.action.rung() != Rung::Hurry {
            self.open += 1;
        }
        self.memory.began(step, looked.0);
        let (version, action) = (about(step).map(display), step.action.rung().text());
        tracing::info!(version, of = %step.target, action, "guard: {action} for {}: {}", step.target, step.reason);
    }

    /// Asks the driver; the answer is told to this thread.
    fn ask(&self, step: &Step, event: Event) {
        let (tell, step, since) = (self.worker.after_room(), step.clone(), Instant::now());
        self.handle.tell(event, move |answer| {
            let outcome = answer.map_or_else(|problem| Outcome::Failed(problem.detail), |_| Outcome::Done);
            tell(Word::Ended { step, outcome, took: since.elapsed(), added: None });
        });
    }

    /// What was to come into the archive is there, or is gone.
    pub(super) fn settle_hurried(&mut self, hot: &[(HotVersion, Snapshot)]) {
        let waits = |id: &VersionId| hot.iter().any(|(version, _)| version.id == *id && !version.archived);
        let done: Vec<VersionId> = self.hurried.keys().filter(|id| !waits(id)).cloned().collect();
        for (step, since) in done.iter().filter_map(|id| self.hurried.remove(id)).collect::<Vec<_>>() {
            self.ended(&step, Outcome::Done, since.elapsed(), None);
        }
    }

    pub(super) fn ended(&mut self, step: &Step, outcome: Outcome, took: Duration, added: Option<Duration>) {
        self.memory.ended(&self.policy, step, self.now_ms(), &outcome);
        if step.action.rung() == Rung::Extend {
            self.room_after(step, &outcome);
        }
        self.handle.metrics().acted(step.action.rung(), &outcome);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (version, of, action) = (about(step).map(display), &step.target, step.action.rung().text());
        match &outcome {
            Outcome::Done => tracing::info!(version, %of, action, took_ms, "guard: {action} for {of}: done"),
            Outcome::Failed(why) => {
                tracing::warn!(version, %of, action, took_ms, "guard: {action} for {of}: failed: {why}")
            }
            Outcome::Stalled => {
                tracing::error!(version, %of, action, took_ms, "guard: {action} for {of}: it does not end")
            }
        }
        let entry = GuardEntry::of(step, self.machine.now(), outcome, took_ms);
        self.handle.change_standing(|standing| {
            standing.done.insert(0, Done { entry: entry.clone(), added });
            standing.done.truncate(LAST_ACTIONS);
        });
        self.handle.notify(Notice::Guard(Box::new(entry.clone())));
        self.handle.log(vec![entry]);
    }

    /// What an extension has taken is no longer free, until LVM says how much it is.
    fn room_after(&mut self, step: &Step, outcome: &Outcome) {
        self.worker.ask_room();
        let Action::Extend { target, to } = &step.action else { return };
        let hot = self.recorded.iter().flat_map(|recorded| &recorded.hot);
        let mut group = hot.filter(|(version, _)| target.version() == Some(&version.id));
        let group = group.next().map(|(_, snapshot)| snapshot.origin.group.clone());
        if let (Outcome::Done, Some(group), Some(bytes)) = (outcome, group, self.extended_from)
            && let Some(seen) = self.room.groups.iter_mut().find(|seen| seen.id == group)
        {
            seen.free = seen.free.saturating_sub(to.saturating_sub(bytes));
        }
    }

    /// What publications must know: how large snapshots should be, and where there is no room for any.
    pub(super) fn advice(&self, plan: &Plan, seen: &Observation) -> Advice {
        let mut advice = Advice::default();
        for step in &plan.steps {
            match &step.action {
                Action::Refuse { scope: Scope::Everywhere } => {
                    advice.nowhere = Some(Short {
                        folder: self.state.clone(),
                        least: self.policy.least_folder_free,
                        why: step.reason.clone(),
                    });
                }
                Action::Refuse { scope: Scope::Group(group) } => {
                    advice.volumes.not_in.insert(group.clone(), step.reason.clone());
                }
                // How full a pool may be when a snapshot is taken in it is looked at then.
                _ => {}
            }
        }
        let others = u64::try_from(seen.snapshots.len()).unwrap_or(u64::MAX);
        for origin in &seen.origins {
            let size = guard::first_size(&self.policy, &self.memory, &origin.id, others, seen.at_ms);
            // A part of what is free, so that there is some left to extend it, and others.
            let group = self.machine.volumes().group_of(&origin.id);
            let free = self.room.groups.iter().find(|group_seen| Some(&group_seen.id) == group.as_ref());
            advice.volumes.sizes.insert(origin.id.clone(), size.min(free.map_or(0, |group| group.free / 4)));
        }
        advice
    }
}
