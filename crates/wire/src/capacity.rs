//! How the guard stands, as it is written.
//!
//! The guard speaks of groups, pools and origins by their identities. People know them by their names, so these are
//! written wherever an identity stands, also within a sentence.

use std::collections::BTreeMap;

use asat_core::Problem;
use asat_core::guard::{self, Action, Assessment, Scope, Step};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LeaseBounds, Version, Waiting};

/// How everything that can run out of space stands, and what the guard does about it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// When the guard looked last; absent if there is nothing to look at, or it has not looked yet.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub looked_at: Option<Timestamp>,
    /// When it looks again, in milliseconds from then.
    pub tick_ms: u64,
    /// How often it has looked, and what that took.
    pub looks: Looks,
    /// Everything that can run out of space.
    pub targets: Vec<CapacityTarget>,
    /// What the guard does next, in this order.
    pub plan: Vec<PlannedAction>,
    /// What it did last, newest first.
    pub last_actions: Vec<PastAction>,
    /// For how long writers were held, for every volume whose writers may be.
    pub brakes: Vec<Brake>,
    /// What comes first if there is not enough space for everything.
    pub precedence: Precedence,
    /// How many leases are open, of how many that may be.
    #[serde(default)]
    pub leases: LeaseBounds,
    /// What was given up and waits for the end of its grace.
    #[serde(default)]
    pub waiting: Waiting,
    /// What somebody must know, for as long as it lasts.
    pub alarms: Vec<Alarm>,
    /// What keeps the guard from looking or from acting, if something does.
    pub trouble: Option<Trouble>,
}

/// Something that can run out of space.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CapacityTarget {
    /// `snapshot`, `pool-data`, `pool-metadata`, `group` or `folder`.
    pub kind: String,
    /// The version that the snapshot holds, the name of the pool or the group, or the path of the folder.
    #[schema(example = "report@12")]
    pub name: String,
    /// How near it is to running out: `safe`, `low` (it is dealt with now), `urgent` or `lost` (it has run out). If it is `urgent`,
    /// it would run out, at the rate of this moment, before it can be extended.
    pub level: String,
    /// Bytes in use. Of a group: what all that is in it may need at once.
    pub used_bytes: u64,
    /// Of how many bytes. Of a group: its free space.
    pub size_bytes: u64,
    /// The fastest rate at which it is expected to fill.
    pub rate_bytes_per_second: u64,
    /// Bytes in use before it can be dealt with, at that rate: what it is judged by.
    pub worst_bytes: u64,
    /// The time until it is full at that rate, in milliseconds; absent if it never is.
    pub full_in_ms: Option<u64>,
    /// The same as a sentence.
    pub reason: String,
}

/// Something that the guard does next.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PlannedAction {
    /// The rung of the ladder: `extend`, `demote`, `hurry`, `brake`, `retire`, `refuse` or `alarm`.
    pub action: String,
    /// For whose sake: a kind and a name.
    #[schema(example = "snapshot report@12")]
    pub target: String,
    /// What it is done to: a target, a version, an origin, the stores whose publications are refused, or the alarm's key.
    #[schema(example = "snapshot report@12")]
    pub object: String,
    /// The new size, if something is extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_bytes: Option<u64>,
    /// For how long writes are held at most, if they are, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_ms: Option<u64>,
    /// Why.
    pub reason: String,
}

/// Something that the guard did.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PastAction {
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub at: Timestamp,
    /// The rung of the ladder: `extend`, `demote`, `hurry`, `brake`, `retire`, `refuse` or `alarm`.
    pub action: String,
    /// For whose sake: a kind and a name.
    #[schema(example = "snapshot report@12")]
    pub target: String,
    /// The version that it was about, if it was about one.
    pub version: Option<String>,
    /// Why.
    pub reason: String,
    /// What came of it: `done`, `failed`, or `stalled` if it did not end in time.
    pub outcome: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// How long it took, in milliseconds. Of a brake: for how long writers were held.
    pub took_ms: u64,
    /// Of an extension: how much of the time from the look that found it necessary was not that of LVM's own command, in
    /// milliseconds. The daemon knows it of what it did since its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ms: Option<f64>,
}

/// How often the guard has looked since the daemon started, and what that took.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Looks {
    /// Looks at everything.
    pub full: u64,
    /// Looks at the kernel's counters of writes alone, which had not moved: nothing else can have changed then.
    pub glances: u64,
    /// The time that all of them took, in milliseconds.
    pub spent_ms: f64,
}

/// For how long the writers of a volume were held, since the daemon started.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Brake {
    /// The volume that they write to.
    #[schema(example = "vg/data")]
    pub origin: String,
    /// Whether they are held at this moment.
    pub held_now: bool,
    /// How often they were held.
    pub holds: u64,
    /// For how long in all, in milliseconds, rounded up.
    pub total_ms: u64,
    /// The longest time in one, in milliseconds, rounded up.
    pub longest_ms: u64,
}

/// What comes first if there is not enough space for everything.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Precedence {
    /// The rungs that the configuration lets the guard take, in this order.
    #[schema(example = json!(["extend", "demote", "hurry", "brake", "retire", "refuse", "alarm"]))]
    pub ladder: Vec<String>,
    /// Which of retention and space holds, in words.
    pub says: String,
}

/// Something that an administrator must know.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// Its name, the same for as long as it lasts: acknowledge it by this.
    #[schema(example = "group vg: short")]
    pub key: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub since: Timestamp,
    /// When somebody acknowledged it: it is not repeated from then on.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub acknowledged_at: Option<Timestamp>,
}

/// What keeps the guard from its work.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Trouble {
    /// The stable name of the kind of problem.
    #[schema(example = "lvm_stuck")]
    pub code: String,
    /// What happened, and to which object.
    pub detail: String,
    /// What to do next.
    pub hint: String,
}

/// A version, and what the guard did for it or with it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The version; if it has ended, with when and why.
    pub version: Version,
    /// What the guard did, newest first. The oldest actions are forgotten after a hundred thousand.
    pub actions: Vec<PastAction>,
}

/// Says that somebody knows of an alarm.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeRequest {
    /// The alarm's key.
    #[schema(example = "group vg: short")]
    pub key: String,
}

/// The names, for people, of what the guard knows by identities.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub &'a BTreeMap<String, String>);

impl Names<'_> {
    /// A text with every identity in it replaced by its name.
    #[must_use]
    pub fn told(self, text: &str) -> String {
        self.0.iter().fold(
            text.to_owned(),
            |text, (id, name)| {
                if id.is_empty() { text } else { text.replace(id, name) }
            },
        )
    }
}

impl CapacityTarget {
    /// An assessment as it is written.
    #[must_use]
    pub fn new(assessment: &Assessment, names: Names<'_>) -> Self {
        let target = assessment.target.to_string();
        // A target is written as its kind, a space, and its name.
        let (kind, name) = target.split_once(' ').unwrap_or((&target, ""));
        Self {
            kind: kind.to_owned(),
            name: names.told(name),
            level: assessment.level.text().to_owned(),
            used_bytes: assessment.used,
            size_bytes: assessment.size,
            rate_bytes_per_second: assessment.rate,
            worst_bytes: assessment.worst,
            full_in_ms: assessment.full_in_ms,
            reason: names.told(&assessment.reason),
        }
    }
}

impl PlannedAction {
    /// A step of the plan as it is written.
    #[must_use]
    pub fn new(step: &Step, names: Names<'_>) -> Self {
        let (mut to_bytes, mut most_ms) = (None, None);
        let object = match &step.action {
            Action::Extend { target, to } => {
                to_bytes = Some(*to);
                target.to_string()
            }
            Action::Brake { origin, most_ms: most } => {
                most_ms = Some(*most);
                format!("origin {origin}")
            }
            Action::Demote { version } | Action::Hurry { version } | Action::Retire { version } => {
                version.to_string()
            }
            Action::Refuse { scope: Scope::Everywhere } => "everywhere".to_owned(),
            Action::Refuse { scope: Scope::Group(group) } => format!("group {group}"),
            Action::Refuse { scope: Scope::Pool(pool) } => format!("pool {pool}"),
            Action::Alarm { key, .. } => key.to_string(),
        };
        Self {
            action: step.action.rung().text().to_owned(),
            target: names.told(&step.target.to_string()),
            object: names.told(&object),
            to_bytes,
            most_ms,
            reason: names.told(&step.reason),
        }
    }
}

impl PastAction {
    /// An entry of the guard's log as it is written.
    #[must_use]
    pub fn new(entry: &guard::GuardEntry, names: Names<'_>) -> Self {
        let (outcome, failure) = match &entry.outcome {
            guard::Outcome::Done => ("done", None),
            guard::Outcome::Failed(why) => ("failed", Some(names.told(why))),
            guard::Outcome::Stalled => ("stalled", None),
        };
        Self {
            at: entry.at,
            action: entry.rung.text().to_owned(),
            target: names.told(&entry.target.to_string()),
            version: entry.version.as_ref().map(ToString::to_string),
            reason: names.told(&entry.reason),
            outcome: outcome.to_owned(),
            failure,
            took_ms: entry.took_ms,
            added_ms: None,
        }
    }
}

impl Trouble {
    /// The problem as it is written.
    #[must_use]
    pub fn new(problem: &Problem, names: Names<'_>) -> Self {
        let code = problem.code.text().0.to_owned();
        Self { code, detail: names.told(&problem.detail), hint: problem.hint.clone() }
    }

    /// The problem as anybody may know it: its kind alone, and no name of anything.
    #[must_use]
    pub fn of_kind(problem: &Problem) -> Self {
        let (code, title) = problem.code.text();
        let hint = "asat status, and this request with a token, say more".to_owned();
        Self { code: code.to_owned(), detail: title.to_owned(), hint }
    }
}

#[cfg(test)]
mod tests;
