//! What an archive says about a version.
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

/// The description of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The store.
    pub store: StoreName,
    /// The version's number.
    pub number: u64,
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
