//! What the guard says: how things stand, and what is to be done.

use std::fmt;

use super::policy::Rung;
use super::target::Target;
use crate::VersionId;

/// How near a target is to running out of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Even at the fastest rate it lasts until it can be dealt with, or it cannot run out.
    Safe,
    /// At the fastest rate that was seen it would not: it is dealt with now.
    Low,
    /// At the rate of this moment it would run out before an extension takes effect.
    Urgent,
    /// It has run out, or has failed.
    Lost,
}

impl Level {
    /// The level as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Low => "low",
            Self::Urgent => "urgent",
            Self::Lost => "lost",
        }
    }
}

/// How one target stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The target.
    pub target: Target,
    /// How near it is to running out.
    pub level: Level,
    /// Bytes in use. Of a group: what all targets in it may need at once. Of a folder: what is in use.
    pub used: u64,
    /// Of how many bytes. Of a group: its free space.
    pub size: u64,
    /// The fastest rate that is expected, in bytes a second.
    pub rate: u64,
    /// Bytes in use before it can be dealt with, at that rate.
    pub worst: u64,
    /// The time until it is full at that rate, in milliseconds; `None` where it never is.
    pub full_in_ms: Option<u64>,
    /// The same as a sentence for people.
    pub reason: String,
}

/// Where new publications are refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere: there is no room for their records or pages.
    Everywhere,
    /// For stores on volumes of this group, which are cut by classic snapshots.
    Group(String),
    /// For stores on volumes in this thin pool.
    Pool(String),
}

/// What an alarm is about, besides its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// It cannot be read any more: its snapshot was full or has gone, or its pages have.
    Lost,
    /// A verification has found damage that nothing has put right yet.
    Damaged,
    /// It needs space, and there is none to be had.
    Short,
    /// It does not take writes.
    Broken,
    /// What is done about it fails, or does not end.
    Stuck,
    /// What it says is not believed.
    Doubted,
}

impl AlarmKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Damaged, Self::Short, Self::Broken, Self::Stuck, Self::Doubted];

    /// The kind as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Damaged => "damaged",
            Self::Short => "short",
            Self::Broken => "broken",
            Self::Stuck => "stuck",
            Self::Doubted => "doubted",
        }
    }
}

/// The name of an alarm. It stays the same for as long as the alarm lasts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmKey {
    /// What it is about.
    pub target: Target,
    /// What is wrong with it.
    pub kind: AlarmKind,
}

impl fmt::Display for AlarmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.target, self.kind.text())
    }
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Extend a snapshot, or the data or metadata of a pool, to this size in bytes.
    Extend {
        /// What.
        target: Target,
        /// The new size, in whole extents.
        to: u64,
    },
    /// Hold the writes to an origin for at most so long.
    Brake {
        /// The identity of the origin.
        origin: String,
        /// In milliseconds.
        most_ms: u64,
    },
    /// Drop the snapshot of a version that is in the archive.
    Demote {
        /// The version.
        version: VersionId,
    },
    /// Bring a version into the archive before other work.
    Hurry {
        /// The version.
        version: VersionId,
    },
    /// Give a version up.
    Retire {
        /// The version.
        version: VersionId,
    },
    /// Take no new publications, for as long as plans say so.
    Refuse {
        /// Where.
        scope: Scope,
    },
    /// Tell an administrator, for as long as plans say so; the step's reason is the text.
    Alarm {
        /// Its name.
        key: AlarmKey,
        /// What can be done about it.
        hint: String,
    },
}

impl Action {
    /// The rung of the ladder that it belongs to.
    #[must_use]
    pub fn rung(&self) -> Rung {
        match self {
            Self::Extend { .. } => Rung::Extend,
            Self::Brake { .. } => Rung::Brake,
            Self::Demote { .. } => Rung::Demote,
            Self::Hurry { .. } => Rung::Hurry,
            Self::Retire { .. } => Rung::Retire,
            Self::Refuse { .. } => Rung::Refuse,
            Self::Alarm { .. } => Rung::Alarm,
        }
    }

    /// The version that it changes, where it changes one.
    #[must_use]
    pub fn version(&self) -> Option<&VersionId> {
        match self {
            Self::Extend { target, .. } => target.version(),
            Self::Demote { version } | Self::Hurry { version } | Self::Retire { version } => Some(version),
            Self::Brake { .. } | Self::Refuse { .. } | Self::Alarm { .. } => None,
        }
    }
}

/// Something to do, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// For whose sake.
    pub target: Target,
    /// What.
    pub action: Action,
    /// Why, for people.
    pub reason: String,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How every target stands.
    pub assessments: Vec<Assessment>,
    /// What to do, in this order. Brakes come first, since they cost nothing but time and make the rest safe;
    /// extensions follow with the most urgent one first. Refusals and alarms last until a plan has them no more.
    pub steps: Vec<Step>,
    /// The origins whose writers are held, and need not be any longer.
    pub release: Vec<String>,
    /// When to look again, in milliseconds.
    pub tick_ms: u64,
}
