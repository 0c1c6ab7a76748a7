//! Tags, as they are written.

use asat_core::version as core;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request to have a tag lead to a version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TagRequest {
    /// The version: its name, or what else stands for one.
    #[schema(example = "report@12")]
    pub version: String,
}

/// A name that leads to a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tag {
    /// The store.
    pub store: String,
    /// The name within the store: `report@month-end-2026-10` stands for the version.
    #[schema(example = "month-end-2026-10")]
    pub name: String,
    /// The version that it leads to.
    #[schema(example = "report@12")]
    pub version: String,
    /// When it was moved there.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub set_at: Timestamp,
}

/// The tags of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagList {
    /// The tags, by name.
    pub tags: Vec<Tag>,
}

impl Tag {
    /// The tag as it is written.
    #[must_use]
    pub fn new(tag: &core::Tag) -> Self {
        let core::Tag { name, version, set_at } = tag;
        Self {
            store: version.store.to_string(),
            name: name.to_string(),
            version: version.to_string(),
            set_at: *set_at,
        }
    }
}
