//! Versions, as they are written.

use std::time::Duration;

use asat_core::check;
use asat_core::register::{Entry, Register};
use asat_core::version as core;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::OfSet;

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
    /// Its place in its life: `cutting`, `ready`, `retiring`, `retired`, `failed` or `lost`.
    pub state: String,
    /// The instant at which its content was fixed; absent until then.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub cut_at: Option<Timestamp>,
    /// The fingerprint of its content, with the algorithm that it was made by, as `blake3:` and 64 hexadecimal digits: equal contents have
    /// equal fingerprints, and others have others. It is known once the version is archived.
    pub fingerprint: Option<String>,
    /// The size of the database file.
    pub size_bytes: Option<u64>,
    /// The size of its pages, in bytes.
    pub page_size: Option<u32>,
    /// What holds its pages.
    pub holdings: Vec<Holding>,
    /// Its newest publications, oldest first: at most ten in lists and events, and a thousand if one version is shown. If the one that it is
    /// known by is older, it comes before them. `GET /v1/versions/{id}/publications` has all of them.
    pub publications: Vec<Publication>,
    /// The place in `publications`, counted from 0, of the one that it is known by. In a list that is the newest that was asked for. Else it is
    /// the newest that somebody certified, or that has a label, or the newest.
    #[serde(default)]
    pub known_by: Option<usize>,
    /// How many publications it has.
    pub publication_count: usize,
    /// Its pin, if it has one.
    pub pin: Option<Pin>,
    /// The tags that lead to it.
    #[serde(default)]
    pub tags: Vec<String>,
    /// How many leases are open on it.
    pub leases: usize,
    /// The path of its database, if it is leased.
    pub path: Option<String>,
    /// When it ended, if it did.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended, if it did.
    pub end_reason: Option<String>,
    /// When the pages of a retired version are deleted: until then it can be brought back. Absent once they are.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option", skip_serializing_if = "Option::is_none")]
    pub purge_after: Option<Timestamp>,
    /// Whether it is in the bucket: `stored`, `pending`, or `fenced` if somebody else publishes the store there. Absent if no bucket is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// Something that holds a version's pages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Holding {
    /// `archive` or `snapshot`.
    pub kind: String,
    /// What took the snapshot: `lvm-thin`, `lvm-classic` or `reflink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The snapshot's name, as `group/volume`; of a clone the path of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes that this version added to the archive, or that were set aside for its snapshot.
    pub bytes: u64,
}

/// One certification event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Publication {
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "super::instant")]
    pub at: Timestamp,
    /// What it is called.
    pub label: Option<String>,
    /// Who vouches for it.
    pub certified_by: Option<String>,
    /// The business day that it stands for.
    #[schema(format = Date)]
    pub business_date: Option<String>,
    /// Anything else that was said.
    pub note: Option<String>,
    /// Attributes of the publisher's own.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub attributes: core::Free,
    /// What its content was found to meet, in the order of the configuration of that time; none if nothing was checked.
    #[serde(default)]
    pub checks: Vec<CheckResult>,
    /// The publication of a set of stores that it is part of, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<OfSet>,
}

/// What came of a check of the very content that was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckResult {
    /// The check's name.
    pub name: String,
    /// Whether the content met it. A content that does not is not published.
    pub passed: bool,
    /// What was found.
    #[schema(example = "no rows")]
    pub found: String,
    /// How long it took, in milliseconds.
    pub took_ms: f64,
}

/// A page of a list of versions, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VersionList {
    /// The versions.
    pub versions: Vec<Version>,
    /// Pass it as `cursor`, with the same filters, to go on; absent at the end.
    pub next_cursor: Option<String>,
}

/// A page of a version's publications, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PublicationList {
    /// The publications.
    pub publications: Vec<Publication>,
    /// Pass it as `cursor` to go on; absent at the end.
    pub next_cursor: Option<String>,
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
    #[serde(default, with = "super::instant::option")]
    pub expires_at: Option<Timestamp>,
    /// Whether its snapshot is kept too.
    pub hot: bool,
}

impl Version {
    /// So many publications of each version are in lists, in events and in the answer to a publication. A store that is
    /// published each minute has half a million in a year.
    pub const IN_LISTS: usize = 10;
    /// So many publications there are where one version is shown.
    pub const SHOWN: usize = 1000;

    /// The publication that people know it by.
    #[must_use]
    pub fn known_by(&self) -> Option<&Publication> {
        self.publications.get(self.known_by?)
    }

    /// A version as it is written, with so many of its publications, the newest, and `found`, if that was asked for. `path` is the place at which
    /// it is read while it is leased.
    #[must_use]
    pub fn new(
        newest: usize,
        register: &Register,
        entry: &Entry,
        found: Option<&core::Publication>,
        path: impl FnOnce() -> Option<String>,
    ) -> Self {
        let version = &entry.version;
        let content = version.content.as_ref();
        let leases = register.leases_on(&version.id).count();
        let tags = register.history(&version.id.store).into_iter();
        let tags = tags.flat_map(|history| history.tags_on(version.id.number));
        let recent = entry.publications.iter().skip(entry.publications.len().saturating_sub(newest));
        let known_by = found.or_else(|| entry.known_by());
        let is_older = |known: &&core::Publication| {
            recent.clone().next().is_some_and(|first| known.number < first.number)
        };
        let publications = known_by.filter(is_older).into_iter().chain(recent.clone());
        let is_it = |one: &core::Publication| known_by.is_some_and(|known| known.number == one.number);
        Self {
            id: version.id.to_string(),
            store: version.id.store.to_string(),
            number: version.id.number,
            state: version.state.text().to_owned(),
            cut_at: content.map(|content| content.cut_at),
            fingerprint: content
                .and_then(|content| content.fingerprint)
                .map(|fingerprint| fingerprint.to_string()),
            size_bytes: content.map(core::Content::size_bytes),
            page_size: content.map(|content| content.page_size.bytes()),
            holdings: version.holdings.iter().map(Holding::new).collect(),
            known_by: publications.clone().position(is_it),
            publications: publications.map(Publication::new).collect(),
            publication_count: entry.publications.len(),
            pin: version.pin.as_deref().map(Pin::new),
            tags: tags.map(|tag| tag.name.to_string()).collect(),
            leases,
            path: if leases > 0 { path() } else { None },
            ended_at: version.end.as_ref().map(|end| end.at),
            end_reason: version.end.as_ref().map(|end| end.reason.clone()),
            purge_after: version.grace(),
            remote: None,
        }
    }
}

impl Holding {
    fn new(holding: &core::Holding) -> Self {
        match holding {
            core::Holding::Archive { bytes } => {
                Self { kind: "archive".to_owned(), backend: None, name: None, bytes: *bytes }
            }
            core::Holding::Snapshot(snapshot) => Self {
                kind: "snapshot".to_owned(),
                backend: Some(snapshot.origin.backend.text().to_owned()),
                name: Some(snapshot.name.clone()),
                bytes: snapshot.bytes,
            },
        }
    }
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
            attributes: said.free,
            checks: publication.checks.iter().map(CheckResult::new).collect(),
            set: publication.of_set.as_ref().map(OfSet::new),
        }
    }
}

impl CheckResult {
    fn new(result: &check::CheckResult) -> Self {
        let check::CheckResult { name, passed, found, took_us } = result.clone();
        Self { name, passed, found, took_ms: milliseconds(took_us) }
    }

    /// The result as it is recorded.
    #[must_use]
    pub fn recorded(&self) -> check::CheckResult {
        let Self { name, passed, found, took_ms } = self.clone();
        let took = Duration::try_from_secs_f64(took_ms / 1000.0).unwrap_or_default();
        let took_us = u64::try_from(took.as_micros()).unwrap_or_default();
        check::CheckResult { name, passed, found, took_us }
    }
}

/// Microseconds as milliseconds with three decimals. A wait of 2^32 µs is shown as 71 minutes.
pub fn milliseconds(us: u64) -> f64 {
    f64::from(u32::try_from(us).unwrap_or(u32::MAX)) / 1000.0
}

impl Pin {
    fn new(pin: &core::Pin) -> Self {
        let core::Pin { reason, owner, expires_at, hot, .. } = pin.clone();
        Self { reason, owner, expires_at, hot }
    }
}
