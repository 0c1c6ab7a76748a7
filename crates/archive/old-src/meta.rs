//! What a layer says about the version that it was written for.
//!
//! The note is the publication's own attributes, opaque here: with it a lost catalogue can be rebuilt from
//! the archive alone.

use asat_core::{Fingerprint, PageSize, StoreName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is known of a version when its last page was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The store.
    pub store: StoreName,
    /// The instant at which the content was fixed.
    pub cut_at: Timestamp,
    /// Whether the store was in WAL mode.
    pub wal: bool,
    /// The caller's own attributes.
    pub note: serde_json::Value,
    /// Whether a version of its own is stored even where no page differs from the newest one, because somebody was
    /// told of it already.
    pub even_if_unchanged: bool,
}

/// A layer's metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The store.
    pub store: StoreName,
    /// The version's number; of a merged layer, the highest one merged.
    pub number: u64,
    /// The lowest number merged into this layer; `number` itself where nothing was merged.
    pub covers_from: u64,
    /// The layer that this one was compared with, which may have been given up since. `None`: the layer
    /// stands alone, and no page of an older layer is visible through it, but where a later one refers to an older version.
    pub parent: Option<u64>,
    /// The lowest version number that the layer refers to for the content of pages; `None`: it refers to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refers_to: Option<u64>,
    /// The size of every page.
    pub page_size: PageSize,
    /// How many pages the version has.
    pub page_count: u32,
    /// The fingerprint of the version's content.
    pub fingerprint: Fingerprint,
    /// Whether the store was in WAL mode.
    pub wal: bool,
    /// The instant at which the content was fixed.
    pub cut_at: Timestamp,
    /// The caller's own attributes.
    pub note: serde_json::Value,
}

impl Meta {
    /// The version's length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.page_count) * u64::from(self.page_size.bytes())
    }
}
