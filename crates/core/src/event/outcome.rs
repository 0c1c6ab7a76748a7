//! What came of an effect.

use jiff::Timestamp;

use crate::check::CheckResult;
use crate::harm::Finding;
use crate::retention::Weight;
use crate::snapshot::{Cost, Snapshot};
use crate::version::Content;
use crate::{Fingerprint, Problem, VersionId};

/// How an effect ended. The variants are those of [`super::Effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store's content is fixed, or was kept already.
    Cut(Result<Cut, CutFailure>),
    /// The content of all stores is fixed, or that of some, or of none.
    CutSet(Result<SetCut, Problem>),
    /// The store is as the version is; commits could have had to wait for so many microseconds.
    Restore(Result<u64, Problem>),
    /// The version's pages are in the archive.
    Archive(Result<Filed, ArchiveFailure>),
    /// The snapshot is gone.
    DropSnapshot(Result<(), Problem>),
    /// The version's pages are gone.
    Retire(Result<Retired, Problem>),
    /// The archive is compact.
    Compact(Result<(), Problem>),
    /// What the archive takes, and for whom.
    Weigh(Result<Weight, Problem>),
    /// What could be put right was, and what is left is known.
    Repair(Result<Repaired, Problem>),
    /// The copy is there.
    MakeCopy(Result<Copied, Problem>),
    /// The copy is gone.
    DropCopy(Result<(), Problem>),
}

/// What a cut found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What it cost those who write.
    pub cost: Cost,
    /// The content and where it is.
    pub kept: Kept,
    /// What the content was found to meet.
    pub checks: Vec<CheckResult>,
}

/// What the cut of a set found, once all its stores were held at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCut {
    /// That instant.
    pub cut_at: Timestamp,
    /// What came of each member, in their order.
    pub cuts: Vec<Result<Cut, CutFailure>>,
}

/// Where a cut's content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In a snapshot of the store's volume. Its fingerprint is not known yet.
    Snapshot {
        /// What the cut fixed.
        content: Content,
        /// The snapshot.
        snapshot: Box<Snapshot>,
    },
    /// Newly stored in the archive.
    Stored {
        /// What the cut fixed.
        content: Content,
        /// Bytes added to the archive.
        bytes: u64,
        /// Whether the archive has files to merge by now.
        worth_compacting: bool,
    },
    /// It is exactly the content of this older version.
    SameAs(u64),
}

/// Why a cut came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutFailure {
    /// What happened.
    pub problem: Problem,
    /// Whether anything had begun. If so the version is recorded as failed; if not, it never was.
    pub begun: bool,
    /// A snapshot that could not be removed again.
    pub left: Option<Box<Snapshot>>,
    /// What there was not enough of for a snapshot, if that is why.
    pub lacks: Option<Lack>,
}

/// What there was not enough of for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// So many bytes of space, or zero if that is not known.
    Bytes(u64),
    /// Room in the metadata area of the volume group, which all snapshots in the group share.
    GroupMetadata,
}

/// A version whose pages have come into the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The fingerprint of its content.
    pub fingerprint: Fingerprint,
    /// Bytes added to the archive.
    pub bytes: u64,
    /// Whether the archive has files to merge by now.
    pub worth_compacting: bool,
}

/// Why a version could not be put into the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFailure {
    /// What happened.
    pub problem: Problem,
    /// Whether the snapshot's content is lost, so that trying again is of no use.
    pub lost: bool,
}

/// An as-at copy that was made, or found to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its size.
    pub bytes: u64,
    /// Whether it is the file in the mounted snapshot.
    pub in_snapshot: bool,
}

/// What a retirement found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Bytes given back so far.
    pub freed_bytes: u64,
    /// Whether compaction would give back more.
    pub worth_compacting: bool,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was put right.
    pub mended: Vec<Mended>,
    /// What is not as it was written after that.
    pub left: Vec<Finding>,
    /// The versions that can be put together now, by their numbers.
    pub readable: Vec<u64>,
}

/// A file of an archive that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The newest version that it holds pages of, by its number.
    pub version: u64,
    /// The file.
    pub file: String,
    /// What gave the content.
    pub from: String,
}

/// Something that an administrator should know, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The version that it is about, where it is about one.
    pub version: Option<VersionId>,
    /// What there is to say, as a whole sentence.
    pub text: String,
}
