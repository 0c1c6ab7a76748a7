//! The wire: what requests and answers look like in JSON, for the server and the client alike.
//!
//! Timestamps are RFC 3339 in UTC with microseconds, sizes are bytes, and durations carry their unit in their
//! name. Unknown fields in a request are refused; a client ignores unknown fields in an answer.

mod archive;
mod audit;
mod capacity;
mod clock;
mod diff;
mod expected;
mod fields;
mod follow;
mod instant;
mod lease;
mod manifest;
mod query;
mod recovery;
mod remote;
mod restore;
mod retention;
mod set;
mod tag;
mod trouble;
mod version;
mod watch;
mod whole;

use asat_core::register::{Headline, History};
use asat_core::version::{self as core, Free, LeaseId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use archive::{ArchiveStats, ArchivedVersion};
pub use audit::{AuditEntry, AuditHead, AuditList, AuditVerdict};
pub use capacity::{
    AcknowledgeRequest, Alarm, Brake, Capacity, CapacityTarget, Looks, Names, PastAction, PlannedAction,
    Precedence, Trouble, Why,
};
pub use clock::{AcceptRequest, Clock, WouldEnd};
pub use diff::{Diff, DiffLine, RowChange, RowHistory, SchemaChange, Side, TableDiff};
pub use expected::Expected;
pub use fields::Fields;
pub use follow::StoreFollowed;
pub use lease::{Lease, LeaseBounds, LeaseCaller, LeaseList};
pub use manifest::{ExportedVersion, Imported, Manifest, exported_name, hex, sha256_of};
pub use query::{QueryLine, QueryRequest};
pub use recovery::{BackedUp, Rebuilt, Upgraded};
pub use remote::{
    RemoteCost, RemoteFinding, RemoteMade, RemotePruned, RemoteRestored, RemoteVerified, StoreRemote,
};
pub use restore::{RestoreRequest, Restored};
pub use retention::{RetentionLabel, RetentionPlan, RetentionRules, RetentionVerdict, Waiting};
pub use set::{OfSet, PublishAnswer, PublishedSet};
pub use tag::{Tag, TagList, TagRequest};
pub use trouble::LastingTrouble;

pub use version::{
    CheckResult, Holding, Pin, Publication, PublicationList, Version, VersionList, milliseconds,
};
pub use watch::Watch;

/// A request to publish a store that was certified.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishRequest {
    /// The store; may be left out if only one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// A set of stores, instead of one: all are published as they are at one instant, or none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "month-end")]
    pub set: Option<String>,
    /// What the publication is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, example = "2026-11-19 close")]
    pub label: Option<String>,
    /// Who vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, example = "ops")]
    pub certified_by: Option<String>,
    /// The business day that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Date, example = "2026-11-19")]
    pub business_date: Option<String>,
    /// Anything else worth saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 4000)]
    pub note: Option<String>,
    /// Attributes of your own: at most 32, each a text, a number or a truth value. Names have at most 64 characters without
    /// `:` and `=`, and all of them take 4096 bytes at the most. What is null counts as left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({ "batch": 41 }))]
    pub attributes: Option<Free>,
    /// What the answer waits for, beside that the version is durable here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// What an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// That the version is in the bucket.
    Remote,
}

/// What a publication gave.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Published {
    /// The version that was published, with the newest ten of its publications.
    pub version: Version,
    /// The publication.
    pub publication: Publication,
    /// Whether the version was there already, because nothing had changed since.
    pub reused: bool,
    /// How long a commit could have had to wait for asat, in milliseconds.
    pub writer_blocked_ms: f64,
    /// For what: `nobody` had to wait, or commits had to. They wait for a `look` at the file, for the rest of the WAL to be
    /// moved (`checkpoint`), for the `snapshot`, or for all pages to be `read`.
    pub hold: String,
    /// How long it took to take the snapshot, in milliseconds; 0 if none was taken.
    pub snapshot_ms: f64,
    /// From the request to the acknowledgement, in milliseconds.
    pub elapsed_ms: f64,
}

/// A request for a lease on an as-at copy, or for more time on one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MountRequest {
    /// Who will read it.
    #[schema(min_length = 1, max_length = 200, example = "month-end report")]
    pub holder: String,
    /// For how long, in seconds, up to `copies.max_lease`; one hour if left out.
    #[serde(default = "default_ttl", deserialize_with = "whole::deserialize")]
    #[schema(minimum = 1, default = 3600)]
    pub ttl_seconds: u32,
}

/// A request for more time on a lease.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// From now on, in seconds, up to `copies.max_lease`; one hour if left out.
    #[serde(default = "default_ttl", deserialize_with = "whole::deserialize")]
    #[schema(minimum = 1, default = 3600)]
    pub ttl_seconds: u32,
}

fn default_ttl() -> u32 {
    3600
}

/// A leased as-at copy.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Mount {
    /// The lease's name: renew and release it by this.
    pub lease: String,
    /// The version.
    pub version: String,
    /// The path of a plain read-only database file.
    pub path: String,
    /// The same as a SQLite URI.
    pub uri: String,
    /// Who holds the lease.
    pub holder: String,
    /// When it ends unless it is renewed.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "instant")]
    pub expires_at: Timestamp,
}

/// A request for a pin.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// Why the version must stay.
    #[schema(min_length = 1, max_length = 500, example = "audit 2026")]
    pub reason: String,
    /// Who wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub owner: Option<String>,
    /// When the pin stops counting, which is yet to come; never if left out.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "instant::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Whether its snapshot is to be kept too, if it has one.
    #[serde(default)]
    pub hot: bool,
}

/// A store and what is kept of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Store {
    /// Its name.
    pub name: String,
    /// The path of its database file.
    pub path: String,
    /// How its versions are cut: `pages`, `lvm-thin`, `lvm-classic` or `reflink`; `none` if they cannot be now, and `bucket` if
    /// another asat publishes them to a bucket, which this one follows.
    pub backend: String,
    /// Whether it is in the configuration now. Versions of one that no longer is can still be read.
    pub configured: bool,
    /// How many versions can be opened.
    pub versions: usize,
    /// The newest of them.
    pub newest: Option<String>,
    /// When that one was cut.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "instant::option")]
    pub newest_cut_at: Option<Timestamp>,
    /// Bytes that its archive takes on disk.
    pub archive_bytes: u64,
    /// By when it is expected to be published, if the configuration says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// Why it could not be published when that was tried last, since the first of these failures. A mistake in the request does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<LastingTrouble>,
    /// How watch mode stands with it, if it has a marker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
    /// How it stands to the bucket, if one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<StoreRemote>,
    /// How it is followed, if the daemon follows a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<StoreFollowed>,
}

impl Store {
    /// Whether watch mode says the same of the store.
    #[must_use]
    pub fn is_said_by_watch(&self, failed: &LastingTrouble) -> bool {
        let trouble = self.watch.as_ref().and_then(|watch| watch.trouble.as_ref());
        trouble.is_some_and(|trouble| trouble.detail == failed.detail)
    }
}

/// All stores.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoreList {
    /// The stores, by name.
    pub stores: Vec<Store>,
}

/// What a verification found.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// Whether everything is as it was written, and nothing is lost.
    pub ok: bool,
    /// How many versions were looked at.
    pub versions: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// What was not as it was written.
    pub findings: Vec<Finding>,
    /// What of the store's archive was put right. The next verification says whether it stays so.
    #[serde(default)]
    pub repaired: Vec<RepairedFile>,
    /// The versions that are recorded as lost.
    #[serde(default)]
    pub lost: Vec<LostVersion>,
}

/// A version that is recorded as lost.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LostVersion {
    /// The version.
    #[schema(example = "report@12")]
    pub version: String,
    /// Why it is lost.
    pub reason: String,
}

/// One piece of damage.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
    /// The versions that cannot be read in full because of it; of a file that was put right, could not be.
    pub versions: Vec<String>,
    /// Whether it was put right.
    #[serde(default)]
    pub repaired: bool,
    /// What to do.
    pub hint: String,
}

/// A file of an archive that was put right.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RepairedFile {
    /// The file.
    pub file: String,
    /// What gave the content.
    #[schema(example = "the store")]
    pub from: String,
}

/// How far an effect has come.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// The version or the store that is being worked on.
    pub subject: String,
    /// What is being done. It is `cut` or `archive` while the pages of a version are read. Then it is `store` while those that changed
    /// are compressed and written, and `sync` while the file is made durable. Else it is `copy`, `restore`, `verify` or `repair`.
    pub phase: String,
    /// What is counted: `pages` or `bytes`.
    pub unit: String,
    /// How many are done.
    pub done: u64,
    /// How many there are; 0 while nothing can be counted.
    pub total: u64,
}

/// Whether the daemon is well.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `degraded` if the guard is kept from its work, something is lost or damaged, or a store could not be published or is late.
    pub status: String,
    /// The version of asat.
    pub version: String,
    /// What keeps the guard from its work, or else what is lost or damaged, or why a store was not published. Without a valid token only its
    /// kind is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
}

/// A problem (RFC 9457).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// A name for the kind of problem, as a URI reference.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and to which object.
    pub detail: String,
    /// The stable name of the kind, for programs.
    pub code: String,
    /// What to do next.
    pub hint: String,
    /// What the request is called, in the log and in the audit trail too: as the answer's header `X-Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Mount {
    /// A lease as it is written, with the path of the copy that it holds.
    #[must_use]
    pub fn new(lease: &core::Lease, path: String) -> Self {
        let LeaseId(name) = lease.id.clone();
        Self {
            lease: name,
            version: lease.version.to_string(),
            uri: format!("file:{}?mode=ro", percent_encoding::utf8_percent_encode(&path, PATH)),
            path,
            holder: lease.holder.clone(),
            expires_at: lease.expires_at,
        }
    }
}

impl Store {
    /// A store as it is written.
    #[must_use]
    pub fn new(history: &History, backend: &str, configured: bool, archive_bytes: u64) -> Self {
        let readable = |headline: &&Headline| headline.state == core::State::Ready;
        let newest = history.newest_readable();
        Self {
            name: history.store.name.to_string(),
            path: history.store.path.display().to_string(),
            backend: backend.to_owned(),
            configured,
            versions: history.versions.headlines().filter(readable).count(),
            newest: newest.map(|entry| entry.version.id.to_string()),
            newest_cut_at: newest.map(|entry| entry.version.listed_at()),
            archive_bytes,
            expected: None,
            failed: None,
            watch: None,
            remote: None,
            followed: None,
        }
    }
}

/// Everything that has a meaning of its own in the path of a SQLite URI (<https://www.sqlite.org/uri.html>).
const PATH: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');
