//! The wire: what requests and answers look like in JSON, for the server and the client alike.
//!
//! Timestamps are RFC 3339 in UTC with microseconds, sizes are bytes, and durations carry their unit in their
//! name. Unknown fields in a request are refused; a client ignores unknown fields in an answer.

mod restore;

use asat_core::register::{Entry, History, Register};
use asat_core::version::{self as core, LeaseId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use restore::{RestoreRequest, Restored};

/// A request to publish a store that was certified.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishRequest {
    /// The store; may be left out where only one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// What the publication is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, example = "2026-11-19 close")]
    pub label: Option<String>,
    /// Who vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, example = "ops")]
    pub certified_by: Option<String>,
    /// The business day that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Date, example = "2026-11-19")]
    pub business_date: Option<String>,
    /// Anything else worth saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4000)]
    pub note: Option<String>,
}

/// What a publication gave.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Published {
    /// The version that was published.
    pub version: Version,
    /// The publication.
    pub publication: Publication,
    /// Whether the version was there already, because nothing had changed since.
    pub reused: bool,
    /// How long a commit could have had to wait, in milliseconds.
    pub writer_blocked_ms: f64,
    /// From the request to the acknowledgement, in milliseconds.
    pub elapsed_ms: f64,
}

/// An immutable state of a store.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Its name.
    #[schema(example = "report@12")]
    pub id: String,
    /// The store that it belongs to.
    pub store: String,
    /// Its number within the store.
    pub number: u64,
    /// Where it stands in its life: `cutting`, `ready`, `retiring`, `retired`, `failed` or `lost`.
    pub state: String,
    /// The instant at which its content was fixed; absent until then.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub cut_at: Option<Timestamp>,
    /// The fingerprint of its content: equal contents have equal fingerprints.
    pub fingerprint: Option<String>,
    /// The size of the database file.
    pub size_bytes: Option<u64>,
    /// The size of its pages, in bytes.
    pub page_size: Option<u32>,
    /// What holds its pages.
    pub holdings: Vec<Holding>,
    /// Its publications, oldest first.
    pub publications: Vec<Publication>,
    /// Its pin, where it has one.
    pub pin: Option<Pin>,
    /// How many leases are open on it.
    pub leases: usize,
    /// The path of its as-at copy, where one is leased.
    pub path: Option<String>,
    /// When it ended, where it did.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Why it ended, where it did.
    pub end_reason: Option<String>,
}

/// Something that holds a version's pages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Holding {
    /// `archive`.
    pub kind: String,
    /// Bytes that this version added to it.
    pub bytes: u64,
}

/// One certification event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Publication {
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What it is called.
    pub label: Option<String>,
    /// Who vouches for it.
    pub certified_by: Option<String>,
    /// The business day that it stands for.
    pub business_date: Option<String>,
    /// Anything else that was said.
    pub note: Option<String>,
}

/// A page of a list of versions, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VersionList {
    /// The versions.
    pub versions: Vec<Version>,
    /// Pass it as `cursor`, with the same filters, to go on; absent at the end.
    pub next_cursor: Option<String>,
}

/// A request for a lease on an as-at copy, or for more time on one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MountRequest {
    /// Who will read it.
    #[schema(max_length = 200, example = "month-end report")]
    pub holder: String,
    /// For how long, in seconds; one hour where left out.
    #[serde(default = "default_ttl")]
    #[schema(minimum = 1, default = 3600)]
    pub ttl_seconds: u32,
}

/// A request for more time on a lease.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// From now on, in seconds; one hour where left out.
    #[serde(default = "default_ttl")]
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
    pub expires_at: Timestamp,
}

/// A request for a pin.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// Why the version must stay.
    #[schema(max_length = 500, example = "audit 2026")]
    pub reason: String,
    /// Who wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub owner: Option<String>,
    /// When the pin stops counting; never where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Whether its snapshot is to be kept too, where it has one.
    #[serde(default)]
    pub hot: bool,
}

/// A mark that retention must not touch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pin {
    /// Why the version must stay.
    pub reason: String,
    /// Who wants it.
    pub owner: Option<String>,
    /// When the pin stops counting.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Whether its snapshot is kept too.
    pub hot: bool,
}

/// A store and what is kept of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Store {
    /// Its name.
    pub name: String,
    /// The path of its database file.
    pub path: String,
    /// What keeps its versions: `pages`.
    pub backend: String,
    /// Whether it is in the configuration now. Versions of one that no longer is can still be read.
    pub configured: bool,
    /// How many versions can be opened.
    pub versions: usize,
    /// The newest of them.
    pub newest: Option<String>,
    /// When that one was cut.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub newest_cut_at: Option<Timestamp>,
    /// Bytes that its archive takes on disk.
    pub archive_bytes: u64,
}

/// All stores.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoreList {
    /// The stores, by name.
    pub stores: Vec<Store>,
}

/// What a verification found.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// Whether everything is as it was written.
    pub ok: bool,
    /// How many versions were looked at.
    pub versions: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// What is not as it was written.
    pub findings: Vec<Finding>,
}

/// One piece of damage.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
    /// The versions that cannot be read in full because of it.
    pub versions: Vec<String>,
    /// What to do.
    pub hint: String,
}

/// How far an effect has come.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// The version or the store that is being worked on.
    pub subject: String,
    /// What is being done: `cut`, `copy`, `restore` or `verify`.
    pub phase: String,
    /// What is counted: `pages` or `bytes`.
    pub unit: String,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// Whether the daemon is well.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, `starting` or `stopping`.
    pub status: String,
    /// The version of asat.
    pub version: String,
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
}

impl Publication {
    /// The publication as it is written.
    #[must_use]
    pub fn new(publication: &core::Publication) -> Self {
        let said = publication.attributes.clone();
        Self {
            at: publication.at,
            label: said.label,
            certified_by: said.certified_by,
            business_date: said.business_date.map(|date| date.to_string()),
            note: said.note,
        }
    }
}

impl Version {
    /// A version as it is written. `path` is where its copy would be.
    #[must_use]
    pub fn new(register: &Register, entry: &Entry, path: impl FnOnce() -> String) -> Self {
        let version = &entry.version;
        let content = version.content.as_ref();
        let leases = register.leases_on(&version.id).count();
        let publications = entry.publications.iter().filter_map(|&number| register.publication(number));
        Self {
            id: version.id.to_string(),
            store: version.id.store.to_string(),
            number: version.id.number,
            state: version.state.text().to_owned(),
            cut_at: content.map(|content| content.cut_at),
            fingerprint: content.map(|content| content.fingerprint.to_string()),
            size_bytes: content.map(core::Content::size_bytes),
            page_size: content.map(|content| content.page_size.bytes()),
            holdings: version.holdings.iter().map(Holding::new).collect(),
            publications: publications.map(Publication::new).collect(),
            pin: version.pin.as_ref().map(Pin::new),
            leases,
            path: (leases > 0 && version.copy.is_some()).then(path),
            ended_at: version.end.as_ref().map(|end| end.at),
            end_reason: version.end.as_ref().map(|end| end.reason.clone()),
        }
    }
}

impl Holding {
    fn new(holding: &core::Holding) -> Self {
        match holding {
            core::Holding::Archive { bytes } => Self { kind: "archive".to_owned(), bytes: *bytes },
        }
    }
}

impl Pin {
    fn new(pin: &core::Pin) -> Self {
        let core::Pin { reason, owner, expires_at, hot, .. } = pin.clone();
        Self { reason, owner, expires_at, hot }
    }
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
    pub fn new(history: &History, configured: bool, archive_bytes: u64) -> Self {
        let readable = |entry: &&Entry| entry.version.state == core::State::Ready;
        let newest = history.newest_readable();
        Self {
            name: history.store.name.to_string(),
            path: history.store.path.display().to_string(),
            backend: "pages".to_owned(),
            configured,
            versions: history.versions.values().filter(readable).count(),
            newest: newest.map(|entry| entry.version.id.to_string()),
            newest_cut_at: newest.map(Entry::listed_at),
            archive_bytes,
        }
    }
}

/// Everything that has a meaning of its own in the path of a SQLite URI (<https://www.sqlite.org/uri.html>).
const PATH: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');
