//! Retention: which versions a store's rules let go, why, and what that gives back.
//!
//! In the order of precedence:
//!
//! 1. The newest version, and whatever is pinned, leased or in use, never goes.
//! 2. The newest [`Retention::at_least`] versions never go.
//! 3. Where the archive takes more than [`Retention::at_most`], versions go although an age rule keeps them, until it
//!    fits: of those that the last stage of the rule keeps the oldest first, then of the stage before it, and so on;
//!    what a label's rule keeps goes after all others. No more go at once than may be needed; then one looks again.
//! 4. The age rules: a version is kept while the store's rule, or the rule of one of its labels, keeps it.
//!
//! Ages count from a version's last publication, so that one that was certified again counts as fresh. Days, weeks,
//! months and years are those of its business date where it has one, and else those of that publication in UTC.

mod label;
mod plan;
mod rule;
#[cfg(test)]
mod tests;
mod weight;
mod words;

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use crate::Problem;

pub use label::Pattern;
pub use rule::{Extent, Period, Rule, RuleError, Stage, Which};
pub use weight::{Part, Weight};

/// A store's rules. The default has none and keeps everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// What is kept by its age; everything where there is no rule.
    pub keep: Option<Rule>,
    /// The most bytes that the store's archive may take.
    pub at_most: Option<u64>,
    /// So many of the newest versions stay, whatever the other rules say.
    pub at_least: u32,
    /// What is kept besides, by its label.
    pub labels: Vec<LabelRule>,
}

/// A rule for the versions of which a publication has a certain label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRule {
    /// Which labels.
    pub pattern: Pattern,
    /// What is kept of those versions.
    pub keep: Rule,
}

/// The versions that rules give up from now until so many days from now, if nothing else happens meanwhile: each with the day, those of the first
/// day first. `plan` says what they do at a moment. It is asked for no more days than it takes to have `most` versions.
///
/// # Errors
/// Those of `plan`.
pub fn retires_next(
    now: Timestamp,
    days: i64,
    most: usize,
    mut plan: impl FnMut(Timestamp) -> Result<Plan, Problem>,
) -> Result<Vec<(Timestamp, Verdict)>, Problem> {
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    for day in 0..=days {
        let Ok(at) = now.checked_add(SignedDuration::from_hours(24 * day)) else { break };
        let verdicts = plan(at)?.verdicts.into_iter();
        let retired = verdicts.filter(|verdict| !verdict.keep && known.insert(verdict.number));
        found.extend(retired.map(|verdict| (at, verdict)));
        if found.len() >= most {
            break;
        }
    }
    found.truncate(most);
    Ok(found)
}

/// A version as retention sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The version's number.
    pub number: u64,
    /// When it was last published.
    pub published_at: Timestamp,
    /// The business date of the last publication that has one.
    pub business_date: Option<Date>,
    /// The labels of its publications.
    pub labels: Vec<&'a str>,
    /// Why it cannot go: a pin, a lease or something under way.
    pub held: Option<String>,
    /// What it added to the archive, in bytes: more than that it does not give back. Nothing where it is not there.
    pub bytes: u64,
}

/// What is to be done about each version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One for each candidate, in their order.
    pub verdicts: Vec<Verdict>,
    /// What giving up those that go gives back at least, in bytes; zero where the archive was not weighed.
    pub frees_bytes: u64,
    /// By how much the archive stays above the size budget at least, in bytes, as nothing else may go.
    pub over_bytes: u64,
}

/// What is to be done about a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its number.
    pub number: u64,
    /// Whether it stays.
    pub keep: bool,
    /// The rule that says so, and how.
    pub why: String,
    /// What giving it up gives back at least, in bytes, once those have gone that go before it.
    pub frees_bytes: u64,
}

impl Retention {
    /// Whether no version can ever go by these rules.
    #[must_use]
    pub fn keeps_everything(&self) -> bool {
        self.at_most.is_none() && self.keep.as_ref().is_none_or(Rule::keeps_everything)
    }
}

impl Plan {
    /// The versions that go, oldest first.
    pub fn given_up(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| !verdict.keep)
    }
}
