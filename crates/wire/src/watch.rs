//! Watch mode, as it is written.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LastingTrouble;

/// How watch mode stands with a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Watch {
    /// The value of the marker when it was asked for last; absent if nothing was certified, or it could not be asked for yet.
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
    /// Why the store's files are looked at again and again; absent if the kernel reports changes to them.
    pub polls: Option<String>,
    /// What keeps watch mode from its work.
    pub trouble: Option<LastingTrouble>,
}
