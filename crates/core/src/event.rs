//! What goes into the engine and what comes out of it: a closed set of events, effects and changes.
//!
//! ```text
//! event → decide → changes → catalogue → evolve → effects → lanes → event (finished)
//! ```
//!
//! An effect exists only as an [`Intent`] among the changes, so it cannot be performed before the catalogue
//! has committed it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::version::{Attributes, Content, Lease, LeaseId, Publication, Store, Version};
use crate::{Problem, StoreName, VersionId, VersionRef};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The daemon has started and looked at what the machine holds.
    Started(Survey),
    /// Somebody certified a store.
    Publish(Publish),
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
    /// Somebody gives a version up.
    Retire(VersionRef),
    /// A store shall be as it was at a version.
    Restore(Restore),
    /// Time has passed: leases and pins may have expired, rules may let versions go.
    Tick,
}

/// A request to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The store; may be left out where there is only one.
    pub store: Option<StoreName>,
    /// What is said of the publication.
    pub attributes: Attributes,
    /// The caller's idempotency key.
    pub key: Option<String>,
}

/// A request to bring a store back to a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The store.
    pub store: StoreName,
    /// The version that it shall be as.
    pub version: VersionRef,
    /// Who vouches for the state that is left, which is published first.
    pub certified_by: Option<String>,
    /// Anything else to be said of that publication.
    pub note: Option<String>,
}

/// A request for a lease on an as-at copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The version.
    pub version: VersionRef,
    /// The name that the lease will have.
    pub lease: LeaseId,
    /// Who holds it.
    pub holder: String,
    /// For how long, in seconds.
    pub ttl_s: u32,
}

/// The name of an effect: unique among all that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub u64);

/// Something that is to be done to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Fix the store's content as this version and put it into the archive.
    Cut {
        /// The version to be.
        version: VersionId,
        /// What is said of the publication.
        attributes: Attributes,
        /// The caller's idempotency key.
        key: Option<String>,
        /// The cut instant lies after this, even where the machine's clock was set back.
        after: Option<Timestamp>,
        /// The version that the store is to be brought back to, once this one is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then_restore: Option<VersionId>,
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
    /// Let a version's pages go.
    Retire {
        /// The version.
        version: VersionId,
    },
    /// Give back the space that retired versions left in the archive.
    Compact {
        /// The store.
        store: StoreName,
    },
    /// Have an intact as-at copy in the cache, then grant the lease.
    MakeCopy {
        /// The version.
        version: VersionId,
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

impl Effect {
    /// The version that the effect is about, where it is about one.
    #[must_use]
    pub fn version(&self) -> Option<&VersionId> {
        match self {
            Self::Cut { version, .. }
            | Self::Restore { version, .. }
            | Self::Retire { version }
            | Self::MakeCopy { version, .. }
            | Self::DropCopy { version } => Some(version),
            Self::Compact { .. } => None,
        }
    }
}

/// How an effect ended. The variants are those of [`Effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store's content is in the archive, or was there already.
    Cut(Result<Cut, CutFailure>),
    /// The store is as the version is; commits could have had to wait for so many microseconds.
    Restore(Result<u64, Problem>),
    /// The version's pages are gone.
    Retire(Result<Retired, Problem>),
    /// The archive is compact.
    Compact(Result<(), Problem>),
    /// The copy is there, with this many bytes.
    MakeCopy(Result<u64, Problem>),
    /// The copy is gone.
    DropCopy(Result<(), Problem>),
}

/// What a cut found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How long a commit could have had to wait, in microseconds.
    pub writer_blocked_us: u64,
    /// The content and where it is.
    pub kept: Kept,
}

/// Where a cut's content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Newly stored.
    Stored {
        /// What the cut fixed.
        content: Content,
        /// Bytes added to the archive.
        bytes: u64,
    },
    /// It is exactly the content of this older version.
    SameAs(u64),
}

/// Why a cut came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutFailure {
    /// What happened.
    pub problem: Problem,
    /// Whether reading had begun. If so the version is recorded as failed; if not, it never was.
    pub begun: bool,
}

/// What a retirement found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Bytes given back so far.
    pub freed_bytes: u64,
    /// Whether compaction would give back more.
    pub worth_compacting: bool,
}

/// A committed decision to perform an effect. While it is open, the effect may or may not have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its name.
    pub id: EffectId,
    /// When it was decided.
    pub at: Timestamp,
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
    /// A lease was granted or renewed.
    Lease(Lease),
    /// A lease is over.
    LeaseEnded(LeaseId),
    /// An effect is to be performed.
    Intended(Intent),
    /// An effect is over.
    Concluded(EffectId),
}

/// What the engine answers to whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The publication of this number was recorded, now or at an earlier request with the same key.
    Published(u64),
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
    /// The version is as it was asked to be.
    Version(VersionId),
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
}

/// What the engine makes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What changes, in order, all or nothing.
    pub changes: Vec<Change>,
    /// What to tell whoever asked.
    pub answer: Answer,
    /// What an administrator should know, although nobody asked.
    pub remarks: Vec<String>,
}

/// What the machine holds, as seen at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Every version whose pages the archive holds.
    pub archived: Vec<Archived>,
    /// Every as-at copy in the cache that is whole.
    pub copies: Vec<VersionId>,
}

/// A version as found in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// Which one.
    pub version: VersionId,
    /// What the archive says of it; asked only where the register does not list it as archived.
    pub described: Option<Described>,
}

/// What a pack says of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// What the cut fixed.
    pub content: Content,
    /// Bytes that it takes in the archive.
    pub bytes: u64,
    /// What was said of its first publication.
    pub attributes: Attributes,
    /// The idempotency key of its first publication.
    pub key: Option<String>,
}
