//! What the guard watches, by its name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{NameError, StoreName, VersionId};

/// The name of the only clock that it speaks of.
const WALL: &str = "wall";

/// What the guard speaks of: something that can run out of space, what the records say can no longer be
/// read, or the machine's clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// A classic snapshot, by the version that it holds.
    Snapshot(VersionId),
    /// The data of a thin pool, by the pool's identity.
    PoolData(String),
    /// The metadata of a thin pool, by the pool's identity.
    PoolMetadata(String),
    /// A volume group, by its identity.
    Group(String),
    /// A folder of asat's own, by its path.
    Folder(String),
    /// A version that is lost.
    Version(VersionId),
    /// What is kept of a store.
    Store(StoreName),
    /// The machine's clock that people set.
    Clock,
}

impl Target {
    /// The version that it holds, where it is a snapshot.
    #[must_use]
    pub fn version(&self) -> Option<&VersionId> {
        match self {
            Self::Snapshot(version) => Some(version),
            _ => None,
        }
    }

    /// Whether the records alone say how it stands, so that no look at the machine's volumes shows anything of it.
    #[must_use]
    pub fn is_of_records(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Store(_) | Self::Clock)
    }

    fn parts(&self) -> (&'static str, String) {
        match self {
            Self::Snapshot(version) => ("snapshot", version.to_string()),
            Self::PoolData(pool) => ("pool-data", pool.clone()),
            Self::PoolMetadata(pool) => ("pool-metadata", pool.clone()),
            Self::Group(group) => ("group", group.clone()),
            Self::Folder(folder) => ("folder", folder.clone()),
            Self::Version(version) => ("version", version.to_string()),
            Self::Store(store) => ("store", store.to_string()),
            Self::Clock => ("clock", WALL.to_owned()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = self.parts();
        write!(f, "{kind} {name}")
    }
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No such kind.
    #[error(
        "a target is written as snapshot, pool-data, pool-metadata, group, folder, version, store or clock, a space, and its name"
    )]
    Kind,
    /// Not the name of a version or of a store.
    #[error(transparent)]
    Version(#[from] NameError),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (kind, name) = text.split_once(' ').ok_or(TargetError::Kind)?;
        let owned = name.to_owned();
        match kind {
            "snapshot" => Ok(Self::Snapshot(name.parse()?)),
            "pool-data" => Ok(Self::PoolData(owned)),
            "pool-metadata" => Ok(Self::PoolMetadata(owned)),
            "group" => Ok(Self::Group(owned)),
            "folder" => Ok(Self::Folder(owned)),
            "version" => Ok(Self::Version(name.parse()?)),
            "store" => Ok(Self::Store(name.parse()?)),
            "clock" if name == WALL => Ok(Self::Clock),
            _ => Err(TargetError::Kind),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;
    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}
