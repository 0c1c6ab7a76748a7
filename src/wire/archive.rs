//! What an archive takes, version by version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a store's archive takes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArchiveStats {
    /// The store.
    pub store: String,
    /// All of it, in bytes.
    pub bytes: u64,
    /// How many files it consists of.
    pub files: u64,
    /// Those that only hold what later versions need of versions that were given up, in bytes. Compaction gives back
    /// what of it nobody needs.
    pub retired_bytes: u64,
    /// The versions in it, oldest first.
    pub versions: Vec<ArchivedVersion>,
}

/// What a version takes in the archive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArchivedVersion {
    /// The version.
    pub id: String,
    /// What its own file takes. Later versions may need some of it.
    pub bytes: u64,
    /// What no other version needs: at least this much comes back where this version alone is retired.
    pub only_bytes: u64,
    /// Whether its file cannot be read: what would come back of it is not known then, and not counted. Verifying says more.
    #[serde(default)]
    pub damaged: bool,
}
