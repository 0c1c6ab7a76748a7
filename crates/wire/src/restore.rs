//! A restore, as it is asked for and answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Published, Version};

/// A request to bring a store back to a version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// The version: `report@12`, or `report@latest`.
    #[schema(example = "report@12")]
    pub version: String,
    /// Who vouches for it; recorded with the publication of the state that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, example = "ops")]
    pub certified_by: Option<String>,
    /// Anything else worth saying, recorded with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4000)]
    pub note: Option<String>,
}

/// What a restore did.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    /// The version that the store is as now.
    pub restored: Version,
    /// The publication that keeps the state before.
    pub before: Published,
    /// How long a commit could have had to wait for the restore, in milliseconds; 0 if the store was as it is
    /// wanted already.
    pub writer_blocked_ms: f64,
}
