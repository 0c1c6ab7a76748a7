//! Watch mode, as it is written.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How watch mode stands with a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Watch {
    /// The value of the marker when it was asked for last; absent where nothing was certified, or it could not be asked for yet.
    pub value: Option<String>,
    /// Since when it is that value, as far as the daemon has seen.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub since: Option<Timestamp>,
    /// When it was asked for last.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub asked_at: Option<Timestamp>,
    /// The value that watch mode has published last.
    pub published: Option<String>,
    /// Why the store's files are looked at again and again; absent where changes to them are told.
    pub polls: Option<String>,
    /// What keeps watch mode from its work.
    pub trouble: Option<WatchTrouble>,
}

/// What keeps watch mode from its work: a marker that fails, or a publication that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchTrouble {
    /// The stable name of the kind of problem.
    #[schema(example = "marker_failed")]
    pub code: String,
    /// What happened.
    pub detail: String,
    /// What to do next.
    pub hint: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub since: Timestamp,
}
