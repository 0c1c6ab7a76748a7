//! Harm: what of a store's history can no longer be read, as the records have it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Code, Problem, StoreName, VersionId};

/// What of a store is lost or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harm {
    /// The store.
    pub store: StoreName,
    /// The versions that are lost, where any are.
    pub lost: Option<Lost>,
    /// What is damaged, where anything is.
    pub damage: Option<Damage>,
}

/// The lost versions of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The one that was found to be lost last.
    pub newest: VersionId,
    /// Why it is lost.
    pub reason: String,
    /// How many are lost, with this one.
    pub count: usize,
}

/// What a verification has found damaged, and nothing has put right since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// When it was found.
    pub found_at: Timestamp,
    /// What is damaged, in a sentence.
    pub what: String,
    /// The versions that cannot be read in full because of it, by their numbers.
    pub versions: Vec<u64>,
    /// What has come of putting it right, as far as the audit trail has it.
    pub tried: Option<Tried>,
}

/// What comes of putting damage right that stays. What is later here says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tried {
    /// The repair failed.
    Failed,
    /// Nothing has the content any more.
    InVain,
}

/// A file that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
    /// The versions that cannot be read in full because of it, by their numbers.
    pub versions: Vec<u64>,
}

impl Lost {
    /// What is lost, in a sentence.
    #[must_use]
    pub fn what(&self) -> String {
        let Self { newest, reason, count } = self;
        match count.saturating_sub(1) {
            0 => format!("{newest} is lost: {reason}"),
            1 => format!("{newest} is lost: {reason}; so is 1 other version of {}", newest.store),
            others => {
                format!("{newest} is lost: {reason}; so are {others} other versions of {}", newest.store)
            }
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let Self { newest, .. } = self;
        format!(
            "docs/recover.md says how a lost version comes back; to do without it: asat retire {newest}; all are listed by: \
             asat ls {} --state lost",
            newest.store
        )
    }
}

impl Damage {
    /// What was found, as the records keep it; `None` if that is nothing.
    #[must_use]
    pub fn of(found_at: Timestamp, findings: &[Finding]) -> Option<Self> {
        let first = findings.first()?;
        let versions: BTreeSet<u64> =
            findings.iter().flat_map(|finding| finding.versions.iter().copied()).collect();
        let what = match findings.len() - 1 {
            0 => first.what.clone(),
            1 => format!("{}; and 1 other finding", first.what),
            others => format!("{}; and {others} other findings", first.what),
        };
        Some(Self { found_at, what, versions: versions.into_iter().collect(), tried: None })
    }

    /// Whether this is the same damage, whatever has come of putting it right.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.what, &self.versions) == (&other.what, &other.versions)
    }

    /// What is damaged, with the versions that cannot be read in full because of it.
    #[must_use]
    pub fn what(&self, store: &StoreName) -> String {
        let versions: Vec<String> = self.versions.iter().map(|number| format!("{store}@{number}")).collect();
        match versions.as_slice() {
            [] => format!(
                "what is kept of {store} is damaged, and every version can still be read: {}",
                self.what
            ),
            versions => format!("cannot be read in full: {}: {}", versions.join(", "), self.what),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(store: &StoreName) -> String {
        format!(
            "put the file back from a backup, or import an export of the version (docs/recover.md), and type: asat verify {store}"
        )
    }
}

impl Harm {
    /// The same as a problem.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let (mut what, mut hint) = (Vec::new(), String::new());
        if let Some(damage) = &self.damage {
            what.push(damage.what(&self.store));
            hint = Damage::hint(&self.store);
        }
        if let Some(lost) = &self.lost {
            what.push(lost.what());
            hint = lost.hint();
        }
        Problem::new(Code::Damaged, what.join("; "), hint)
    }
}
