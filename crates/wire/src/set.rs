//! Sets of stores, as they are written.

use asat_core::NameError;
use asat_core::version::SetPublication;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Published;

/// What publishing a store or a set gave.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum PublishAnswer {
    /// If a set was published.
    Set(PublishedSet),
    /// If one store was.
    Store(Box<Published>),
}

/// What the publication of a set gave. The set and the instant name it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PublishedSet {
    /// The set.
    #[schema(example = "month-end")]
    pub set: String,
    /// The instant at which each store was what its version holds. A version that was there already was cut before.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub cut_at: Timestamp,
    /// Whether every version was there already, because nothing had changed since.
    pub reused: bool,
    /// How long a commit to one of the stores could have had to wait for asat, in milliseconds: the longest of them.
    pub writer_blocked_ms: f64,
    /// From the request to the acknowledgement, in milliseconds.
    pub elapsed_ms: f64,
    /// What it gave for each store, by their names.
    pub published: Vec<Published>,
}

/// The publication of a set that a publication is part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfSet {
    /// The set.
    #[schema(example = "month-end")]
    pub name: String,
    /// The instant at which every store of the set was what was published of it.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub cut_at: Timestamp,
}

impl OfSet {
    /// It as it is written.
    #[must_use]
    pub fn new(of_set: &SetPublication) -> Self {
        Self { name: of_set.set.to_string(), cut_at: of_set.cut_at }
    }

    /// It as it is recorded.
    ///
    /// # Errors
    /// Where the name is none.
    pub fn recorded(&self) -> Result<SetPublication, NameError> {
        Ok(SetPublication { set: self.name.parse()?, cut_at: self.cut_at })
    }
}
