//! How a store is followed, as it is written.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LastingTrouble;

/// How a store is followed that another asat publishes to a bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreFollowed {
    /// The repository's place.
    #[schema(example = "s3://history/reports")]
    pub url: String,
    /// The machine that publishes the store, once it is known.
    pub host: Option<String>,
    /// The number of the newest manifest that was come to.
    pub manifest: Option<u64>,
    /// When that was written, by the publisher's clock.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub written_at: Option<Timestamp>,
    /// When the bucket was last seen to have nothing newer; nothing as long as it has not answered since the start.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub seen_at: Option<Timestamp>,
    /// What keeps the store from being followed, if something does.
    pub trouble: Option<LastingTrouble>,
}
