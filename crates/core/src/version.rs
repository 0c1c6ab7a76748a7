//! The records: stores, versions, publications, leases and pins.
//!
//! Each is a plain value. A change to the history is a record's new value, so the catalogue, the register in
//! memory and the wire all speak of the same few types.

mod attributes;

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::check::CheckResult;
use crate::harm::Damage;
use crate::snapshot::{Cost, Snapshot};
use crate::{By, Fingerprint, PageSize, SetName, StoreName, TagName, VersionId};

pub use attributes::{Attributes, Free, plain};

/// One SQLite database that asat watches, or once watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Its name.
    pub name: StoreName,
    /// Where its file was when it was last configured.
    pub path: PathBuf,
    /// When it was first configured.
    pub added_at: Timestamp,
    /// What a verification has found damaged of what is kept of it, and nothing has put right since.
    pub damage: Option<Damage>,
}

/// Where a version stands in its life: `cutting → ready → retiring → retired`, with `failed` and `lost` as
/// honest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its content is being fixed; nobody was told of it yet.
    Cutting,
    /// Acknowledged and readable.
    Ready,
    /// Given up; its pages are being let go.
    Retiring,
    /// Given up. Only this record remains, once its grace is over.
    Retired,
    /// It never became readable.
    Failed,
    /// It was acknowledged, and its pages are gone.
    Lost,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 6] =
        [Self::Cutting, Self::Ready, Self::Retiring, Self::Retired, Self::Failed, Self::Lost];

    /// The state as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Cutting => "cutting",
            Self::Ready => "ready",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }
}

/// What a cut fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The instant at which the content was fixed, in microseconds.
    pub cut_at: Timestamp,
    /// The fingerprint of all its pages; known once they were read into the archive.
    pub fingerprint: Option<Fingerprint>,
    /// The size of its pages.
    pub page_size: PageSize,
    /// How many pages it has.
    pub page_count: u32,
    /// Whether the store was in WAL mode. As-at copies are always in rollback mode, so that they open read-only.
    pub wal: bool,
}

impl Content {
    /// The size of the database file in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.page_size.bytes()) * u64::from(self.page_count)
    }
}

/// Something on the machine that holds a version's pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Holding {
    /// A snapshot of the store's volume: the version is hot.
    Snapshot(Box<Snapshot>),
    /// The page archive.
    Archive {
        /// Bytes that this version added to it.
        bytes: u64,
    },
}

/// An as-at copy that readers can open: a file in the bounded cache, or the store's file in the mounted snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    /// Whether it is the file in the mounted snapshot, which takes no room in the cache.
    pub in_snapshot: bool,
    /// Its size.
    pub bytes: u64,
    /// When it was last opened or closed.
    pub used_at: Timestamp,
}

/// How and why a version ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at: Timestamp,
    /// The rule or the event that ended it, for people.
    pub reason: String,
    /// When the pages of a version that was given up are let go. Until then it can be brought back. `None` once they are,
    /// and of what has ended otherwise.
    pub purge_after: Option<Timestamp>,
}

/// A mark that retention must not touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Why it was set.
    pub reason: String,
    /// Who wants it.
    pub owner: Option<String>,
    /// When it was set.
    pub set_at: Timestamp,
    /// When it stops counting.
    pub expires_at: Option<Timestamp>,
    /// Whether the version's snapshot is to be kept too, where it has one.
    pub hot: bool,
}

impl Pin {
    /// Whether the pin still counts.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// An immutable state of a store. What few versions have stands beside it, since the register has every version in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its name.
    pub id: VersionId,
    /// Where it stands in its life.
    pub state: State,
    /// When its publication was asked for.
    pub begun_at: Timestamp,
    /// What the cut fixed; absent until then.
    pub content: Option<Content>,
    /// What holds its pages.
    pub holdings: Vec<Holding>,
    /// Its as-at copy, where one is made.
    pub copy: Option<Box<Copy>>,
    /// Its pin.
    pub pin: Option<Box<Pin>>,
    /// How it ended, where it did.
    pub end: Option<Box<End>>,
}

impl Version {
    /// The instant by which lists are ordered: that of its cut, or when it was begun if nothing was cut.
    #[must_use]
    pub fn listed_at(&self) -> Timestamp {
        self.content.as_ref().map_or(self.begun_at, |content| content.cut_at)
    }

    /// Its snapshot, where it has one.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.holdings.iter().find_map(|holding| match holding {
            Holding::Snapshot(snapshot) => Some(&**snapshot),
            Holding::Archive { .. } => None,
        })
    }

    /// Whether its pages are in the archive.
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.holdings.iter().any(|holding| matches!(holding, Holding::Archive { .. }))
    }

    /// What it added to the archive, in bytes.
    #[must_use]
    pub fn archived_bytes(&self) -> u64 {
        let bytes = |holding: &Holding| match holding {
            Holding::Archive { bytes } => *bytes,
            Holding::Snapshot(_) => 0,
        };
        self.holdings.iter().map(bytes).sum()
    }

    /// When its pages are let go, where it was given up and waits for that: its grace.
    #[must_use]
    pub fn grace(&self) -> Option<Timestamp> {
        self.end.as_ref().filter(|_| self.state == State::Retired).and_then(|end| end.purge_after)
    }

    /// Whether its pages are kept: it can be read, or could be if it were brought back.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.state == State::Ready || self.grace().is_some()
    }

    /// Whether nothing is to be done about it until somebody asks: it is in the archive, if it is anywhere, and neither in a snapshot nor
    /// copied, and has no pin, which may end. A grace is watched by its end.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let elsewhere = self.snapshot().is_some() || self.copy.is_some() || self.pin.is_some();
        let on_its_way = self.state == State::Retiring || self.is_kept() && !self.is_archived();
        !elsewhere && !on_its_way
    }

    /// The version as it is recorded: no grace waits for pages that are gone.
    #[must_use]
    pub(crate) fn settled(mut self) -> Self {
        let in_snapshot = || self.snapshot().is_some_and(|snapshot| !snapshot.lost);
        if self.grace().is_some() && !self.is_archived() && !in_snapshot() {
            self.end = self.end.map(|end| Box::new(End { purge_after: None, ..*end }));
        }
        self
    }

    /// The version without its snapshot.
    #[must_use]
    pub fn without_snapshot(mut self) -> Self {
        self.holdings.retain(|holding| !matches!(holding, Holding::Snapshot(_)));
        self
    }

    /// The version without its pages in the archive.
    #[must_use]
    pub(crate) fn without_pages(mut self) -> Self {
        self.holdings.retain(|holding| !matches!(holding, Holding::Archive { .. }));
        self
    }
}

/// One certification event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Its number among all publications of this installation.
    pub number: u64,
    /// The version that it names.
    pub version: VersionId,
    /// When it was asked for.
    pub at: Timestamp,
    /// What was said of it.
    pub attributes: Attributes,
    /// The caller's idempotency key. Of a set's publications the first has it.
    pub key: Option<String>,
    /// The publication of a set that it is part of.
    pub of_set: Option<SetPublication>,
    /// Whether it names a version that was there already.
    pub reused: bool,
    /// What it cost those who write.
    pub cost: Cost,
    /// From the request to the acknowledgement, in microseconds.
    pub elapsed_us: u64,
    /// What its content was found to meet, in the order of the configuration.
    pub checks: Vec<CheckResult>,
}

/// The publication of a set of stores: one publication of each, all of one instant. No two of a set have the same instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPublication {
    /// The set.
    pub set: SetName,
    /// The instant at which every store of the set was what is published of it, in microseconds. A version that was there
    /// already was cut before.
    pub cut_at: Timestamp,
}

/// A name that leads to a version, and may be moved to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The name.
    pub name: TagName,
    /// The version that it leads to.
    pub version: VersionId,
    /// When it was moved there.
    pub set_at: Timestamp,
}

/// The name of a lease: unique, and chosen by whoever asks the engine for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId(pub String);

/// A named, expiring claim on an as-at copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// The version that it holds.
    pub version: VersionId,
    /// Who holds it, in his own words.
    pub holder: String,
    /// Who took it, as the audit trail names him; `None` of a lease that is older than the trail.
    pub actor: Option<String>,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it stops counting.
    pub expires_at: Timestamp,
}

impl Lease {
    /// Whether somebody took it himself, as far as that is known.
    #[must_use]
    pub fn is_of(&self, by: &By) -> bool {
        self.actor.as_ref().is_none_or(|actor| *actor == by.actor)
    }
}
