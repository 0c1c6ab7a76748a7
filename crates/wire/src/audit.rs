//! The audit trail on the wire.

use std::collections::BTreeMap;

use asat_core::audit::{Place, TrailEntry, Verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::instant;

/// Something that was done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The entry's number: 1 for the first, without gaps.
    pub number: u64,
    /// When it was done.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "instant")]
    pub at: Timestamp,
    /// Who did it: `token NAME`, `uid NUMBER (NAME)`, or `asat` if it was done by rule or happened by itself.
    #[schema(example = "uid 1000 (ann)")]
    pub actor: String,
    /// What the request was called: by the caller in the header `X-Request-Id`, or by asat.
    pub request: Option<String>,
    /// What was done: `publish`, `import`, `pin`, `unpin`, `retire`, `restore`, `tag`, `untag`, `revoke`, `lose`, `recover` or `accept`.
    #[schema(example = "publish")]
    pub action: String,
    /// The store.
    pub store: String,
    /// The version.
    #[schema(example = "report@12")]
    pub version: String,
    /// What else there is to say, by name: a label, a reason, a holder.
    pub details: BTreeMap<String, String>,
    /// The chain's value: the SHA-256 of the value before it and of this entry.
    pub chain: String,
}

/// The end of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditHead {
    /// The number of the last entry; 0 if there is none.
    pub number: u64,
    /// The chain's value there.
    pub chain: String,
    /// Both in one, to be noted down elsewhere, and held against the trail later.
    pub place: String,
}

/// Whether the audit trail is what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditVerdict {
    /// Whether it is.
    pub ok: bool,
    /// How many entries, from the first one on, are as they were written.
    pub sound: u64,
    /// The number at which it is not what was written.
    pub broken_at: Option<u64>,
    /// What is wrong there.
    pub what: Option<String>,
}

/// A page of the audit trail.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    /// The entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// The cursor of the next page, if there are older ones.
    pub next_cursor: Option<String>,
    /// The end of the whole trail.
    pub head: AuditHead,
    /// Whether the trail is what was written, if that was asked.
    pub verdict: Option<AuditVerdict>,
}

impl AuditEntry {
    /// An entry as it is written.
    #[must_use]
    pub fn new(entry: TrailEntry) -> Self {
        let TrailEntry { number, deed, chain } = entry;
        Self {
            number,
            at: deed.at,
            actor: deed.by.actor,
            request: deed.by.request,
            action: deed.action.text().to_owned(),
            store: deed.version.store.to_string(),
            version: deed.version.to_string(),
            details: deed.details,
            chain: chain.to_string(),
        }
    }
}

impl AuditHead {
    /// A place as it is written.
    #[must_use]
    pub fn new(place: Place) -> Self {
        Self { number: place.number, chain: place.chain.to_string(), place: place.to_string() }
    }
}

impl AuditVerdict {
    /// A verdict as it is written.
    #[must_use]
    pub fn new(Verdict { sound, broken }: Verdict) -> Self {
        let (broken_at, what) = broken.unzip();
        Self { ok: broken_at.is_none(), sound, broken_at, what }
    }
}
