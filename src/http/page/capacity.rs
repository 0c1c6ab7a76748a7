//! What can run out of space, as gauges, and what the guard does about it, in words.

use std::cmp::Reverse;

use asat_core::guard::{Level, Span};
use jiff::Timestamp;

use super::words::{Moment, share};
use crate::text::{counted, size};
use asat_wire::{Brake, Capacity, CapacityTarget, PastAction, PlannedAction};

/// How many of the guard's last actions are shown.
const MOST_ACTIONS: usize = 8;
/// How many gauges are, of what is nearest to its end.
const MOST_GAUGES: usize = 12;

/// How everything that can run out of space stands.
pub(super) struct Space {
    pub(super) looked: Option<Moment>,
    pub(super) gauges: Vec<Gauge>,
    /// How many more there are.
    pub(super) more_gauges: usize,
    pub(super) plan: Vec<String>,
    pub(super) brakes: Vec<String>,
    pub(super) done: Vec<Done>,
}

/// A gauge in a drawing that is a thousand wide.
pub(super) struct Gauge {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) level: String,
    /// The part in use, and that in the worst case, of a thousand.
    pub(super) used: u64,
    pub(super) worst: u64,
    /// Both as a sentence.
    pub(super) words: String,
    /// When it is full.
    pub(super) full: String,
    /// The guard's own words.
    pub(super) reason: String,
}

/// What the guard did.
pub(super) struct Done {
    pub(super) at: Moment,
    pub(super) what: String,
    pub(super) reason: String,
    pub(super) failure: Option<String>,
}

impl Space {
    pub(super) fn new(capacity: &Capacity, now: Timestamp) -> Self {
        Self {
            looked: capacity.looked_at.map(|at| Moment::new(at, now)),
            gauges: nearest(&capacity.targets),
            more_gauges: capacity.targets.len().saturating_sub(MOST_GAUGES),
            // What an alarm says stands at the top of the page.
            plan: capacity.plan.iter().filter(|step| step.action != "alarm").map(planned).collect(),
            brakes: capacity.brakes.iter().filter(|brake| brake.holds > 0).map(braked).collect(),
            done: capacity.last_actions.iter().take(MOST_ACTIONS).map(|action| done(action, now)).collect(),
        }
    }
}

/// The gauges of what is nearest to its end, before the others.
fn nearest(targets: &[CapacityTarget]) -> Vec<Gauge> {
    let mut targets: Vec<&CapacityTarget> = targets.iter().collect();
    targets.sort_by_key(|target| Reverse((level(target), share(target.worst_bytes, target.size_bytes))));
    targets.into_iter().take(MOST_GAUGES).map(Gauge::new).collect()
}

/// How near its end something is.
fn level(target: &CapacityTarget) -> Option<Level> {
    let levels = [Level::Safe, Level::Low, Level::Urgent, Level::Lost];
    levels.into_iter().find(|level| level.text() == target.level)
}

impl Gauge {
    fn new(target: &CapacityTarget) -> Self {
        let full = match target.full_in_ms {
            Some(ms) => format!("full in {} at {}/s", Span(ms), size(target.rate_bytes_per_second)),
            None => "never full at this rate".to_owned(),
        };
        let (used, whole) = (size(target.used_bytes), size(target.size_bytes));
        Self {
            kind: target.kind.replace('-', " "),
            name: target.name.clone(),
            level: target.level.clone(),
            used: share(target.used_bytes, target.size_bytes),
            worst: share(target.worst_bytes, target.size_bytes),
            words: format!("{used} of {whole} used, {} at worst", size(target.worst_bytes)),
            full,
            reason: target.reason.clone(),
        }
    }
}

fn planned(step: &PlannedAction) -> String {
    let to = step.to_bytes.map(|bytes| format!(" to {}", size(bytes))).unwrap_or_default();
    let most = step.most_ms.map(|ms| format!(" for at most {}", Span(ms))).unwrap_or_default();
    format!("{} {}{to}{most}: {}", step.action, step.object, step.reason)
}

fn braked(brake: &Brake) -> String {
    let Brake { origin, holds, total_ms, longest_ms, .. } = brake;
    let times = counted(*holds, "time");
    format!(
        "writers to {origin} were held {times}, {} in all, {} at the longest",
        Span(*total_ms),
        Span(*longest_ms)
    )
}

fn done(action: &PastAction, now: Timestamp) -> Done {
    Done {
        at: Moment::new(action.at, now),
        what: format!("{} {}: {} in {}", action.action, action.target, action.outcome, Span(action.took_ms)),
        reason: action.reason.clone(),
        failure: action.failure.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_nearest_to_its_end_comes_first_and_no_more_than_so_many_are_shown() {
        let target = |n: u64| {
            let level = if n == 9 { "urgent" } else { "safe" };
            let target = json!({
                "kind": "snapshot", "name": format!("vg/{n}"), "level": level, "used_bytes": n, "size_bytes": 100,
                "rate_bytes_per_second": 0, "worst_bytes": n, "full_in_ms": null, "reason": "",
            });
            serde_json::from_value(target).unwrap()
        };
        let targets: Vec<CapacityTarget> = (0..20).map(target).collect();
        let gauges = nearest(&targets);
        let names: Vec<&str> = gauges.iter().map(|gauge| gauge.name.as_str()).collect();
        assert_eq!(names.len(), MOST_GAUGES);
        assert_eq!(names[..3], ["vg/9", "vg/19", "vg/18"]);
    }

    #[test]
    fn a_gauge_says_what_is_used_what_may_be_and_when_it_is_full() {
        let target = |used: u64, worst: u64, full_in_ms: Option<u64>| {
            let target = json!({
                "kind": "pool-data", "name": "vg/pool", "level": "low", "used_bytes": used, "size_bytes": 4096,
                "rate_bytes_per_second": 1024, "worst_bytes": worst, "full_in_ms": full_in_ms, "reason": "fills fast",
            });
            Gauge::new(&serde_json::from_value(target).unwrap())
        };
        let gauge = target(1024, 9000, Some(3000));
        assert_eq!((gauge.kind.as_str(), gauge.used, gauge.worst), ("pool data", 250, 1000));
        assert_eq!(gauge.words, "1.0 KiB of 4.0 KiB used, 8.8 KiB at worst");
        assert_eq!(gauge.full, "full in 3.0 s at 1.0 KiB/s");
        assert_eq!(target(0, 0, None).full, "never full at this rate");
    }
}
