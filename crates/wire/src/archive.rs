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
    /// How many segments it consists of: files that hold pages.
    pub files: u64,
    /// The versions in it, oldest first.
    pub versions: Vec<ArchivedVersion>,
}

/// What a version takes in the archive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArchivedVersion {
    /// The version.
    pub id: String,
    /// What it took when it was written. Later versions may need some of it.
    pub bytes: u64,
    /// What no other version needs: at least this much comes back if this version alone is retired.
    pub only_bytes: u64,
}
