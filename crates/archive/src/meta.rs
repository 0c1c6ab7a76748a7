//! What an archive says about a version.
//!
//! The note is the publication's own attributes, opaque here: with it a lost catalogue can be rebuilt from
//! the archive alone.

use std::io::Read as _;

use asat_core::{Fingerprint, PageSize, StoreName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::index::DESCRIBED_TOGETHER;
use crate::layout::len_of;

/// No description is longer: it is read whole, and a hostile length must not fill the memory.
const MOST_DESCRIBED_BYTES: u64 = 1 << 20;
/// Descriptions are read seldom, and are alike.
const DESCRIPTION_LEVEL: i32 = 9;

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

/// What describes a version, as it is written. Of all the versions that are merged it is in memory at once, and takes far less there
/// than what is read from it.
pub(crate) struct Description(Box<[u8]>);

impl Description {
    pub(crate) fn of(meta: &Meta) -> Result<Self, Error> {
        let unfit =
            |error: serde_json::Error| Error::Misuse(format!("metadata that cannot be read back: {error}"));
        let json = serde_json::to_vec(meta).map_err(unfit)?;
        // A note can be nested more deeply than a reader follows.
        serde_json::from_slice::<Meta>(&json).map_err(unfit)?;
        if len_of(&json) >= MOST_DESCRIBED_BYTES {
            let what = format!("metadata of {} bytes, above {MOST_DESCRIBED_BYTES}", json.len());
            return Err(Error::Misuse(what));
        }
        Ok(Self(json.into()))
    }

    /// What describes versions together, as it is written.
    pub(crate) fn join<'a>(descriptions: impl Iterator<Item = &'a Self>) -> Result<Vec<u8>, Error> {
        let descriptions: Vec<&[u8]> = descriptions.map(|one| &*one.0).collect();
        let json = [&b"["[..], &descriptions.join(&b','), b"]"].concat();
        zstd::bulk::compress(&json, DESCRIPTION_LEVEL)
            .map_err(|error| Error::Misuse(format!("metadata that cannot be compressed: {error}")))
    }
}

/// Reads what describes versions together; says what is wrong with it.
pub(crate) fn read_together(written: &[u8]) -> Result<Vec<Meta>, String> {
    let decoder = zstd::stream::read::Decoder::new(written).map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    let most = MOST_DESCRIBED_BYTES * u64::try_from(DESCRIBED_TOGETHER + 1).unwrap_or(u64::MAX);
    decoder.take(most).read_to_end(&mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}
