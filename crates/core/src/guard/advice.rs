//! Advice: what publications must know of a plan.

use std::collections::BTreeMap;

use super::action::{Action, Plan, Scope};
use super::case::first_size;
use super::memory::Memory;
use super::observation::Observation;
use super::policy::Policy;
use super::target::Target;

/// What the guard wants of publications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Why nothing may be published at all.
    pub nowhere: Option<Short>,
    /// What it wants of new snapshots.
    pub volumes: VolumeAdvice,
}

/// A folder of asat's own that has too little space left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// The folder.
    pub folder: String,
    /// What must be free, in bytes.
    pub least: u64,
    /// The same in words.
    pub why: String,
}

/// What the guard wants of new snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeAdvice {
    /// The groups in which no classic snapshots may be taken, and why.
    pub not_in: BTreeMap<String, String>,
    /// The size in bytes that a new classic snapshot of an origin should have.
    pub sizes: BTreeMap<String, u64>,
}

/// How large new snapshots should be, and where there is no room for any. How full a pool may be when a snapshot is taken in it
/// is looked at then.
#[must_use]
pub fn advice(policy: &Policy, memory: &Memory, seen: &Observation, plan: &Plan) -> Advice {
    let mut advice = Advice::default();
    for step in &plan.steps {
        let (Action::Refuse { scope }, why) = (&step.action, step.reason.clone()) else { continue };
        match (scope, &step.target) {
            (Scope::Everywhere, Target::Folder(folder)) => {
                advice.nowhere = Some(Short { folder: folder.clone(), least: policy.least_folder_free, why });
            }
            (Scope::Group(group), _) => _ = advice.volumes.not_in.insert(group.clone(), why),
            _ => {}
        }
    }
    let others = u64::try_from(seen.snapshots.len()).unwrap_or(u64::MAX);
    for origin in &seen.origins {
        let size = first_size(policy, memory, &origin.id, others, seen.at_ms);
        // A part of what is free, so that there is some left to extend it, and others.
        let free =
            seen.groups.iter().find(|group| group.id == origin.group).map_or(0, |group| group.free / 4);
        advice.volumes.sizes.insert(origin.id.clone(), size.min(free));
    }
    advice
}
