//! The guard's log: what it did, why, and what came of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::action::Step;
use super::policy::Rung;
use super::target::Target;
use crate::VersionId;

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It failed, for this reason.
    Failed(String),
    /// It did not end in time.
    Stalled,
}

/// An action of the guard, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardEntry {
    /// When it ended.
    pub at: Timestamp,
    /// For whose sake it was taken.
    pub target: Target,
    /// The version that it was about, where it was about one.
    pub version: Option<VersionId>,
    /// What was done.
    pub rung: Rung,
    /// Why.
    pub reason: String,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl GuardEntry {
    /// The record of a step that ended at `at`.
    #[must_use]
    pub fn of(step: &Step, at: Timestamp, outcome: Outcome, took_ms: u64) -> Self {
        Self {
            at,
            target: step.target.clone(),
            version: step.action.version().or_else(|| step.target.version()).cloned(),
            rung: step.action.rung(),
            reason: step.reason.clone(),
            outcome,
            took_ms,
        }
    }
}
