//! Snapshots: what holds a version from its cut until its pages are in the archive.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sizing;

/// Which backend cuts a store's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Its pages are read under a transaction of SQLite, straight into the archive.
    Pages,
    /// A thin snapshot of its logical volume, in the same pool.
    LvmThin,
    /// A classic snapshot of its logical volume, with space of its own.
    LvmClassic,
    /// A clone of its file, which shares its blocks with it until either is written.
    Reflink,
}

impl BackendKind {
    /// Every backend.
    pub const ALL: [Self; 4] = [Self::Pages, Self::LvmThin, Self::LvmClassic, Self::Reflink];

    /// From how many bytes on a store is better cut by clones than by pages, where nobody has chosen. Reading all
    /// its pages takes about half a second for each GiB where they are in the machine's cache and several seconds where they
    /// are not, and in the rollback modes commits wait for that. A clone takes a moment; but each block that is written for the
    /// first time after it is written elsewhere, which may cost whoever writes to the store as much again (a factor of two on
    /// XFS). Below this size the reading costs less.
    pub const LEAST_FOR_CLONES: u64 = 1 << 30;

    /// The backend as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::LvmThin => "lvm-thin",
            Self::LvmClassic => "lvm-classic",
            Self::Reflink => "reflink",
        }
    }

    /// Whether it takes snapshots of logical volumes.
    #[must_use]
    pub fn is_of_volumes(self) -> bool {
        matches!(self, Self::LvmThin | Self::LvmClassic)
    }

    /// By which kind of snapshot a logical volume is best cut, where nobody has chosen. `group_free` is in bytes.
    ///
    /// A plain volume has no choice. On a thin one a classic snapshot costs less where it goes again soon: dm-thin
    /// copies a whole block, at least 64 KiB, at the first write after each snapshot, also when that is gone by then
    /// (`__snapshotted_since` in `drivers/md/dm-thin-metadata.c`), and a classic snapshot copies one page, and nothing
    /// once it is dropped. Snapshots that stay are better thin: a classic one costs each first write a copy of its own.
    #[must_use]
    pub fn best(on_thin: bool, group_free: u64, keep_snapshots: usize) -> Self {
        if on_thin && (keep_snapshots > 0 || group_free < sizing::FLOOR) {
            Self::LvmThin
        } else {
            Self::LvmClassic
        }
    }
}

/// The logical volume that a store lies on, or the folder beside it that takes its clones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// By which kind of snapshot it is cut.
    pub backend: BackendKind,
    /// The UUID of its volume group; empty for clones.
    pub group: String,
    /// Its own UUID; empty for clones.
    pub volume: String,
    /// Its name, as `group/volume`; for clones the path of the folder that they are made in.
    pub name: String,
    /// The kind of file system on it.
    pub fs: String,
    /// The store's path from the root of that file system; for clones the name of the file in each one's folder.
    pub inside: PathBuf,
}

impl Origin {
    /// Whether LVM describes a snapshot of it in the same metadata area as one of the other.
    #[must_use]
    pub fn shares_metadata_with(&self, other: &Self) -> bool {
        let is_volume =
            |origin: &Self| matches!(origin.backend, BackendKind::LvmClassic | BackendKind::LvmThin);
        is_volume(self) && is_volume(other) && self.group == other.group
    }

    /// Whether a snapshot of it takes its space from where one of the other does.
    #[must_use]
    pub fn shares_space_with(&self, other: &Self) -> bool {
        self.backend == other.backend
            && match self.backend {
                BackendKind::LvmClassic => self.group == other.group,
                // Those of one volume lie in one pool.
                BackendKind::LvmThin => self.volume == other.volume,
                // Those of one folder lie on one file system.
                BackendKind::Reflink => self.name == other.name,
                BackendKind::Pages => false,
            }
    }
}

/// A snapshot of a store's volume, or a clone of its file, taken for one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it is a snapshot of.
    pub origin: Origin,
    /// Its name, as `group/volume`; of a clone the path of its folder.
    pub name: String,
    /// Its UUID: LVM gives it, and no two volumes have the same. Of a clone, what tells its folder from any other that ever
    /// had its name.
    pub uuid: String,
    /// Whether the store's WAL belongs to the version. Where it does not, the store's file alone is the version.
    pub with_wal: bool,
    /// The space set aside for it; nothing for a thin one, which takes its space from the pool.
    pub bytes: u64,
    /// Whether its content is lost, because it was full.
    #[serde(default)]
    pub lost: bool,
    /// Where no UUID is known, since nobody has seen it: what says an earlier instant than this is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
}

impl Snapshot {
    /// Whether readers may be shown the store's file in it. A clone is read by asat alone, and they get a copy.
    #[must_use]
    pub fn can_be_shown(&self) -> bool {
        !self.lost && self.origin.backend.is_of_volumes()
    }

    /// Whether it tells what has changed until another one is taken of `origin`, and may stay for that. A clone and a thin
    /// snapshot do, which share with the store what neither has written since, and cost the writer no more if they stay:
    /// dm-thin goes by the instant of a snapshot, be it there or not. A classic one gets a copy of each block that is written.
    /// `may_demote` says whether the guard may drop a snapshot whose version is archived.
    #[must_use]
    pub fn tells_changes(&self, origin: &Origin, may_demote: bool) -> bool {
        self.origin.backend == origin.backend
            && match origin.backend {
                BackendKind::Reflink => true,
                // It takes space of the pool, so that it has to be one that may go when the pool is short. With the WAL
                // belonging to it, it is never compared with.
                BackendKind::LvmThin => self.origin.shares_space_with(origin) && may_demote && !self.with_wal,
                BackendKind::LvmClassic | BackendKind::Pages => false,
            }
    }
}

/// What a cut cost those who write to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// How long a commit could have had to wait for asat, in microseconds.
    pub writer_blocked_us: u64,
    /// For what it would have had to wait.
    pub hold: Hold,
    /// How long it took to take the snapshot, in microseconds; nothing where none was taken.
    pub snapshot_us: u64,
}

/// Whom a cut kept waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Nobody.
    #[default]
    Nobody,
    /// Writers, while it was looked what the state is.
    Look,
    /// Writers, while the rest of the WAL was moved into the store's file.
    Checkpoint,
    /// Writers, until the snapshot was there.
    Snapshot,
    /// Writers, until all pages were read.
    Read,
}

impl Hold {
    /// Every kind of hold.
    pub const ALL: [Self; 5] = [Self::Nobody, Self::Look, Self::Checkpoint, Self::Snapshot, Self::Read];

    /// The hold as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Look => "look",
            Self::Checkpoint => "checkpoint",
            Self::Snapshot => "snapshot",
            Self::Read => "read",
        }
    }
}
