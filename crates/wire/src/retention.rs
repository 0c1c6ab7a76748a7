//! Retention: the rules of a store, and what they let go.

use asat_core::retention::{LabelRule, Retention, Rule};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The rules of a store's retention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionRules {
    /// What is kept by its age; everything if left out.
    #[serde(default)]
    #[schema(example = "all for 14 days, then daily for 3 months, then month ends for 7 years")]
    pub keep: Option<String>,
    /// The most that the archive may take, in bytes.
    #[serde(default, deserialize_with = "super::whole::option::deserialize")]
    pub at_most_bytes: Option<u64>,
    /// So many of the newest versions stay whatever the other rules say.
    #[serde(default, deserialize_with = "super::whole::deserialize")]
    pub at_least: u32,
    /// What is kept besides, by its label.
    #[serde(default)]
    pub labels: Vec<RetentionLabel>,
}

/// A rule for the versions of which a publication has a certain label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionLabel {
    /// Which labels: `*` stands for any characters or none, `?` for any one.
    #[schema(example = "month-end *")]
    pub pattern: String,
    /// What is kept of those versions.
    #[schema(example = "all forever")]
    pub keep: String,
}

/// What a store's rules give up now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RetentionPlan {
    /// The store.
    pub store: String,
    /// The rules.
    pub rules: RetentionRules,
    /// What the archive takes, in bytes.
    pub archive_bytes: u64,
    /// What giving up those that go gives back at least, in bytes.
    pub frees_bytes: u64,
    /// By how much the archive stays above the size budget, as nothing else may go, in bytes.
    pub over_bytes: u64,
    /// Whether what earlier versions took is still being given back: the archive takes more than it will then.
    pub giving_back: bool,
    /// What was given up before and waits for the end of its grace: the archive takes that besides.
    #[serde(default)]
    pub waiting: Waiting,
    /// The versions that can be read, oldest first.
    pub versions: Vec<RetentionVerdict>,
}

/// Versions that were given up, and whose pages stay until their grace is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// How many: `GET /v1/versions?state=retired` has them, with `purge_after`.
    pub versions: usize,
    /// What they have added to archives, in bytes.
    pub bytes: u64,
    /// When the pages of the first of them are deleted; absent if none waits.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub next_purge_at: Option<Timestamp>,
}

impl From<asat_core::Waiting> for Waiting {
    fn from(asat_core::Waiting { versions, bytes, next }: asat_core::Waiting) -> Self {
        Self { versions, bytes, next_purge_at: next }
    }
}

/// What is to be done about a version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RetentionVerdict {
    /// The version.
    pub id: String,
    /// Whether it stays.
    pub keep: bool,
    /// The rule that says so.
    pub why: String,
    /// What giving it up gives back at least, in bytes, once those have gone that go before it.
    pub frees_bytes: u64,
}

impl From<&Retention> for RetentionRules {
    fn from(rules: &Retention) -> Self {
        let label =
            |rule: &LabelRule| RetentionLabel { pattern: rule.pattern.to_string(), keep: rule.keep.text() };
        Self {
            keep: rules.keep.as_ref().map(Rule::text),
            at_most_bytes: rules.at_most,
            at_least: rules.at_least,
            labels: rules.labels.iter().map(label).collect(),
        }
    }
}
