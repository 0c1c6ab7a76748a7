//! What a daemon that starts finds on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;

use crate::check::CheckResult;
use crate::recorder::Understood;
use crate::snapshot::Snapshot;
use crate::version::{Attributes, Content, Pin, Publication, SetPublication, Tag};
use crate::{StoreName, TagName, VersionId};

/// What the machine holds, as seen at start.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The versions, by number, that the archives hold as they are recorded: archived, and not lost.
    pub as_recorded: BTreeMap<StoreName, BTreeSet<u64>>,
    /// Every other version whose pages the archives hold, or of which they are damaged.
    pub archived: Vec<Archived>,
    /// The stores whose archives a compaction may make shorter, or have fewer files: [`Event::Tidy`](super::Event::Tidy) is about them.
    pub uncompacted: Vec<StoreName>,
    /// What archives have recorded beside their versions.
    pub recorded: BTreeMap<StoreName, Understood>,
    /// Every as-at copy that is whole, be it in the cache or in a mounted snapshot.
    pub copies: Vec<VersionId>,
    /// Every snapshot that the register speaks of, in holdings and in open intents.
    pub snapshots: Vec<Surveyed>,
    /// Every snapshot of this installation that the register does not speak of, because the catalogue is lost, or older than the
    /// snapshot.
    pub found: Vec<Found>,
    /// Whether the tree of versions is mounted, so that what is in the archive is read without a copy.
    pub tree: bool,
    /// What else an administrator should know: volumes that look like ours and are not.
    pub remarks: Vec<String>,
}

/// A snapshot, and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// The version that it was taken for.
    pub version: VersionId,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What has become of it.
    pub condition: Condition,
}

/// What has become of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It can be read.
    Whole,
    /// It is there, and its content is lost: it was full.
    Lost,
    /// It is not there.
    Gone,
    /// Whether it is there cannot be seen now, for this reason.
    Unseen(String),
}

/// A snapshot that says of itself for which version it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The version.
    pub version: VersionId,
    /// Its name, as `group/volume`; of a clone the path of its folder.
    pub name: String,
    /// What it says of the version; or why no version can be made of it, now or later. Nothing where it could not be looked into
    /// this time.
    pub described: Option<Result<Described, String>>,
    /// It as it is to be recorded; or why it cannot be read now.
    pub snapshot: Result<Snapshot, String>,
}

/// A version as found in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// Which one.
    pub version: VersionId,
    /// What the archive says of it.
    pub described: Result<Box<Described>, Damaged>,
}

/// What is there of a store that another asat publishes, as far as it is not recorded here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The store.
    pub store: StoreName,
    /// Where its history is, as messages say it.
    pub place: PathBuf,
    /// Versions that are not recorded as readable, oldest first.
    pub has: Vec<Archived>,
    /// Versions that are recorded, and that the publisher has given up.
    pub gone: Vec<u64>,
    /// What is recorded there beside the versions; nothing if it cannot be read.
    pub recorded: Option<Recorded>,
}

/// What an archive has recorded of a store's versions after they were cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// When the pins and tags were all that there were; nothing if they are not all, and none is removed that is not among them.
    pub as_of: Option<Timestamp>,
    /// Publications of versions that were there already, oldest first, without numbers.
    pub publications: Vec<Publication>,
    /// The pins, by the versions.
    pub pins: BTreeMap<VersionId, Pin>,
    /// The tags, by their names.
    pub tags: BTreeMap<TagName, Tag>,
}

impl Recorded {
    /// What is recorded of these versions, which is not all.
    #[must_use]
    pub fn of(&self, which: impl Fn(&VersionId) -> bool) -> Self {
        let publications = self.publications.iter().filter(|publication| which(&publication.version));
        let pins = self.pins.iter().filter(|(version, _)| which(version));
        let tags = self.tags.iter().filter(|(_, tag)| which(&tag.version));
        Self {
            as_of: None,
            publications: publications.cloned().collect(),
            pins: pins.map(|(version, pin)| (version.clone(), pin.clone())).collect(),
            tags: tags.map(|(name, tag)| (name.clone(), tag.clone())).collect(),
        }
    }

    /// Whether a pin or a tag that was set at an instant is older than what is recorded here: then that counts.
    #[must_use]
    pub(crate) fn is_older(&self, set_at: Timestamp) -> bool {
        self.as_of.is_some_and(|as_of| set_at <= as_of)
    }
}

/// Why the pages of a version in the archive cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// What is wrong.
    pub why: String,
    /// What the archive says of it, where that can be read still.
    pub described: Option<Box<Described>>,
}

/// What the archive says of a version, or a snapshot of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// What the cut fixed.
    pub content: Content,
    /// Bytes that it takes in the archive; nothing where a snapshot says it.
    pub bytes: u64,
    /// What was said of its first publication.
    pub attributes: Attributes,
    /// The idempotency key of its first publication.
    pub key: Option<String>,
    /// The publication of a set that it was part of.
    pub of_set: Option<SetPublication>,
    /// What its content was found to meet then.
    pub checks: Vec<CheckResult>,
}
