//! What goes into the engine and what comes out of it: a closed set of events, effects and changes.
//!
//! ```text
//! event → decide → changes → catalogue → evolve → effects → lanes → event (finished)
//! ```
//!
//! An effect exists only as an [`Intent`] among the changes, so it cannot be performed before the catalogue
//! has committed it.

mod outcome;
mod request;
mod survey;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::audit::Deed;
use crate::clock::{Anchor, Reading};
use crate::harm::{Damage, Finding};
use crate::register::Chunk;
use crate::snapshot::{Origin, Snapshot};
use crate::version::{Attributes, Lease, LeaseId, Publication, Store, Tag, Version};
use crate::{By, Problem, SetName, StoreName, TagName, VersionId, VersionRef};

pub use outcome::{
    ArchiveFailure, Copied, Cut, CutFailure, Filed, Kept, Lack, Mended, Outcome, Remark, Repaired, Retired,
    SetCut,
};
pub use request::{Open, Publish, PublishSet, Restore};
pub use survey::{Archived, Condition, Damaged, Described, Followed, Found, Recorded, Survey, Surveyed};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The daemon has started and looked at what the machine holds.
    Started(Survey),
    /// The daemon is ready, and has time for the archives of these stores, which a start has found not to be compact.
    Tidy(Vec<StoreName>),
    /// Chunks of histories may be at rest by now: they are kept as bytes from then on.
    Pack,
    /// The configuration has changed: the engine has another policy than before.
    Configured,
    /// Somebody certified a store.
    Publish(Publish),
    /// Somebody certified several stores as they are at one instant.
    PublishSet(PublishSet),
    /// An effect was performed, or failed.
    Finished {
        /// Which one.
        effect: EffectId,
        /// How it ended.
        outcome: Outcome,
    },
    /// Somebody wants to read a version.
    Open(Open),
    /// A lease shall last longer.
    Renew {
        /// The version that it holds.
        version: VersionId,
        /// The lease.
        lease: LeaseId,
        /// From now on, in seconds.
        ttl_s: u32,
    },
    /// A lease is no longer needed.
    Close {
        /// The version that it holds.
        version: VersionId,
        /// The lease.
        lease: LeaseId,
    },
    /// A lease is taken from its holder.
    Revoke {
        /// The lease.
        lease: LeaseId,
        /// Why, if somebody said.
        reason: Option<String>,
    },
    /// Retention shall not touch a version.
    Pin {
        /// The version.
        version: VersionRef,
        /// Why.
        reason: String,
        /// Who wants it.
        owner: Option<String>,
        /// Until when.
        expires_at: Option<Timestamp>,
        /// Whether its snapshot is to be kept too.
        hot: bool,
    },
    /// A pin is no longer needed.
    Unpin(VersionRef),
    /// A name shall lead to a version, wherever it led before.
    Tag {
        /// The store.
        store: StoreName,
        /// The name.
        name: TagName,
        /// The version.
        version: VersionRef,
    },
    /// A name shall lead nowhere.
    Untag {
        /// The store.
        store: StoreName,
        /// The name.
        name: TagName,
    },
    /// Somebody gives a version up.
    Retire {
        /// The version.
        version: VersionRef,
        /// Why.
        reason: Option<String>,
        /// Whether its pages go at once, and not after the grace.
        now: bool,
    },
    /// Somebody wants a version back that was given up.
    Unretire {
        /// The version.
        version: VersionRef,
        /// Why.
        reason: Option<String>,
    },
    /// A store shall be as it was at a version.
    Restore(Restore),
    /// The guard needs the space of the snapshot of a version that is in the archive as well.
    Demote(VersionId),
    /// The guard needs the space of a version, for this reason, and the policy lets it go.
    GiveUp {
        /// The version.
        version: VersionId,
        /// Why, for the record.
        why: String,
    },
    /// The guard has seen that the snapshot of a version was full and has lost its content.
    Overflowed(VersionId),
    /// The guard has seen that the snapshot of a version is gone: somebody has removed it.
    Vanished(VersionId),
    /// The archive of a store takes so much. It is said at times of stores whose archives have a size budget.
    Sized {
        /// The store.
        store: StoreName,
        /// All of its archive, in bytes.
        bytes: u64,
    },
    /// The machine's clocks say this.
    Clock(Reading),
    /// Somebody accepts what the machine's clock says, although it is doubted.
    AcceptClock {
        /// What the clocks say.
        reading: Reading,
        /// Why, if somebody said.
        reason: Option<String>,
    },
    /// What is kept of a store was read and compared with its checksums.
    Verified {
        /// The store.
        store: StoreName,
        /// Whether all of it was read.
        whole: bool,
        /// What was known to be damaged before it was read: of what is damaged since, a verification that finds nothing says nothing.
        known: Option<Damage>,
        /// What is not as it was written.
        findings: Vec<Finding>,
    },
    /// Another asat, which this one follows, has published or given up versions.
    Followed(Followed),
    /// The archive of a store has recorded more than is known, or something else.
    Recorded {
        /// The store.
        store: StoreName,
        /// What is recorded.
        recorded: Recorded,
    },
    /// Time has passed: leases and pins may have expired, rules may let versions go.
    Tick,
}

/// The name of an effect: unique among all that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub u64);

/// Something that is to be done to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Fix the store's content as this version: in a snapshot of its volume, or else at once in the archive.
    Cut {
        /// The version to be.
        version: VersionId,
        /// What is said of the publication.
        attributes: Attributes,
        /// The caller's idempotency key.
        key: Option<String>,
        /// The cut instant lies after this, even where the machine's clock was set back.
        after: Option<Timestamp>,
        /// The volume to take a snapshot of; absent where the pages go straight into the archive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
        /// The version that the store is to be brought back to, once this one is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then_restore: Option<VersionId>,
        /// Whether it becomes a version of its own although nothing has changed: what it would be the same as was given up.
        #[serde(default, skip_serializing_if = "is_false")]
        anew: bool,
    },
    /// Fix the content of several stores as it is at one instant: all become versions, or none does.
    CutSet {
        /// The set.
        set: SetName,
        /// A version of each store, by the stores' names.
        members: Vec<SetMember>,
        /// What is said of each publication.
        attributes: Attributes,
        /// The caller's idempotency key.
        key: Option<String>,
        /// The cut instant lies after this, even where the machine's clock was set back.
        after: Option<Timestamp>,
    },
    /// Bring a store back to a version.
    Restore {
        /// The version.
        version: VersionId,
        /// The version that keeps the state which is left; a store that is no longer as this one is left alone.
        before: VersionId,
        /// The publication under which that state was kept.
        publication: u64,
    },
    /// Put the pages of a version into the archive, out of its snapshot.
    Archive {
        /// The version.
        version: VersionId,
    },
    /// Unmount and remove a version's snapshot.
    DropSnapshot {
        /// The version.
        version: VersionId,
        /// The snapshot.
        snapshot: Snapshot,
    },
    /// Let a version's pages go out of the archive.
    Retire {
        /// The version.
        version: VersionId,
    },
    /// Give back the space that retired versions left in the archive.
    Compact {
        /// The store.
        store: StoreName,
    },
    /// Find out what the versions in a store's archive need of it, as it takes more than it may.
    Weigh {
        /// The store.
        store: StoreName,
    },
    /// Put right what is damaged in a store's archive, from whatever still has the content.
    Repair {
        /// The store.
        store: StoreName,
    },
    /// Have an intact as-at copy, then grant the lease.
    MakeCopy {
        /// The version.
        version: VersionId,
        /// Whether it may be the file in the mounted snapshot; else it is one in the cache.
        #[serde(default)]
        in_snapshot: bool,
        /// The lease to be.
        lease: LeaseId,
        /// Who will hold it.
        holder: String,
        /// For how long, in seconds.
        ttl_s: u32,
    },
    /// Remove an as-at copy from the cache.
    DropCopy {
        /// The version.
        version: VersionId,
    },
}

/// A store's part in the cut of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMember {
    /// The version to be.
    pub version: VersionId,
    /// The volume to take a snapshot of; absent where the pages go straight into the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Whether it becomes a version of its own although nothing has changed: what it would be the same as was given up.
    #[serde(default, skip_serializing_if = "is_false")]
    pub anew: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Event {
    /// The wish to give a version up, for no reason that is told.
    #[must_use]
    pub fn retire(version: VersionRef) -> Self {
        Self::Retire { version, reason: None, now: false }
    }
}

impl Effect {
    /// The kind of effect as it is written.
    #[must_use]
    pub fn text(&self) -> &'static str {
        match self {
            Self::Cut { .. } => "cut",
            Self::CutSet { .. } => "cut_set",
            Self::Restore { .. } => "restore",
            Self::Archive { .. } => "archive",
            Self::DropSnapshot { .. } => "drop_snapshot",
            Self::Retire { .. } => "retire",
            Self::Compact { .. } => "compact",
            Self::Weigh { .. } => "weigh",
            Self::Repair { .. } => "repair",
            Self::MakeCopy { .. } => "make_copy",
            Self::DropCopy { .. } => "drop_copy",
        }
    }

    /// The versions that the effect is to make, with the volumes that snapshots are taken of.
    #[must_use]
    pub fn cuts(&self) -> Vec<(&VersionId, Option<&Origin>)> {
        match self {
            Self::Cut { version, origin, .. } => vec![(version, origin.as_ref())],
            Self::CutSet { members, .. } => {
                members.iter().map(|member| (&member.version, member.origin.as_ref())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the effect is to make a version of this store.
    #[must_use]
    pub fn cuts_of(&self, store: &StoreName) -> bool {
        self.cuts().iter().any(|(version, _)| version.store == *store)
    }

    /// The version that the effect is about, where it is about one.
    #[must_use]
    pub fn version(&self) -> Option<&VersionId> {
        match self {
            Self::Cut { version, .. }
            | Self::Restore { version, .. }
            | Self::Archive { version }
            | Self::DropSnapshot { version, .. }
            | Self::Retire { version }
            | Self::MakeCopy { version, .. }
            | Self::DropCopy { version } => Some(version),
            Self::CutSet { .. } | Self::Compact { .. } | Self::Weigh { .. } | Self::Repair { .. } => None,
        }
    }
}

/// A committed decision to perform an effect. While it is open, the effect may or may not have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its name.
    pub id: EffectId,
    /// When it was decided.
    pub at: Timestamp,
    /// Who wants it.
    pub by: By,
    /// What is to be done.
    pub effect: Effect,
}

/// A record's new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A store was added or has moved.
    Store(Store),
    /// A version was begun or has changed.
    Version(Box<Version>),
    /// A version that nobody was told of never was.
    Discarded(VersionId),
    /// A version was published.
    Published(Publication),
    /// A name leads to a version from now on.
    Tagged(Tag),
    /// A name leads nowhere any more.
    Untagged(StoreName, TagName),
    /// A lease was granted or renewed.
    Lease(Lease),
    /// A lease is over.
    LeaseEnded(LeaseId),
    /// A chunk of a store's history is kept as bytes from now on. What it says is not changed by that.
    Packed(Chunk),
    /// An effect is to be performed.
    Intended(Intent),
    /// An effect is over.
    Concluded(EffectId),
    /// This is believed of the machine's clock from now on.
    Clock(Anchor),
    /// This is to stand in the audit trail. It is no record.
    Noted(Box<Deed>),
}

/// What the engine answers to whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The publication of this number was recorded, now or at an earlier request with the same key. Of a set it is the first;
    /// the others follow it.
    Published(u64),
    /// The publication of this number has said the same of the version that the store still is; nothing was recorded.
    Known(u64),
    /// The store is as this version is.
    Restored {
        /// The version.
        version: VersionId,
        /// The publication under which the state before was kept.
        publication: u64,
        /// How long a commit could have had to wait, in microseconds; nothing where nothing was to be done.
        writer_blocked_us: u64,
    },
    /// The lease was granted or renewed.
    Leased(Lease),
    /// This lease was taken from its holder.
    Revoked(Lease),
    /// The version is as it was asked to be.
    Version(VersionId),
    /// The tag leads to its version; to which one it led before, where it led anywhere.
    Tagged {
        /// The tag.
        tag: Tag,
        /// The version that it led to.
        before: Option<VersionId>,
    },
    /// This is what came of repairing a store's archive.
    Repaired(Repaired),
    /// Nothing else is to be said.
    Done,
}

/// When the answer comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Now. For [`Event::Finished`] it goes to those who wait for that effect.
    Now(Result<Reply, Problem>),
    /// When this effect is over. For [`Event::Finished`], those who wait for that effect wait for this one now.
    After(EffectId),
    /// Those who wait for the effect that is over ask the same again when this one is: it makes room for what they want.
    Again(EffectId),
}

/// What the engine makes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What changes, in order, all or nothing.
    pub changes: Vec<Change>,
    /// What to tell whoever asked.
    pub answer: Answer,
    /// What an administrator should know, although nobody asked.
    pub remarks: Vec<Remark>,
}

impl Decision {
    /// The versions that are given up by it, or whose pages are let go.
    #[must_use]
    pub fn given_up(&self) -> Vec<VersionId> {
        let given_up = |change: &Change| match change {
            Change::Intended(Intent { effect: Effect::Retire { version }, .. }) => Some(version.clone()),
            Change::Version(version) if version.grace().is_some() => Some(version.id.clone()),
            _ => None,
        };
        self.changes.iter().filter_map(given_up).collect()
    }
}
