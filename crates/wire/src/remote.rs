//! How a store stands to the bucket, and what was done with repositories, as they are written.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LastingTrouble;

/// How a store stands to the bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoreRemote {
    /// The repository's place.
    #[schema(example = "s3://history/reports")]
    pub url: String,
    /// `stored` if every version is there that can be opened, `pending` if not yet, `fenced` if somebody else publishes the store there.
    pub state: String,
    /// How many versions that can be opened are there.
    pub stored: u64,
    /// How many are not.
    pub pending: u64,
    /// When the oldest of these was cut.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, with = "super::instant::option")]
    pub pending_since: Option<Timestamp>,
    /// The number of the newest manifest of this daemon, once it is known.
    pub manifest: Option<u64>,
    /// How many bytes the archive takes there.
    pub bytes: Option<u64>,
    /// What keeps the versions from coming there, if something does.
    pub trouble: Option<LastingTrouble>,
}

/// A repository that was made, or was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteMade {
    /// Its place.
    pub url: String,
    /// What tells it from others.
    pub id: String,
    /// To whom what is stored in it is encrypted, as age writes recipients.
    #[serde(default)]
    pub recipients: Vec<String>,
    /// Whether it was made now.
    pub made: bool,
}

/// What a verification of the bucket has found of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteVerified {
    /// The store.
    pub store: String,
    /// The newest manifest.
    pub manifest: u64,
    /// How many files it names.
    pub files: u64,
    /// How many of them were read.
    pub read: u64,
    /// How many bytes these had.
    pub bytes: u64,
    /// What is wrong.
    pub findings: Vec<RemoteFinding>,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteFinding {
    /// Its key below the repository's place.
    pub key: String,
    /// What is wrong, as a sentence without its subject.
    pub what: String,
}

/// What was deleted from a bucket, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemotePruned {
    /// The store.
    pub store: String,
    /// How many files of its archive.
    pub files: u64,
    /// How many bytes these had.
    pub bytes: u64,
    /// How many manifests.
    pub manifests: u64,
    /// Whether nothing was deleted, as it was only asked.
    pub dry_run: bool,
}

/// What a repository costs a month, in dollars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteCost {
    /// How many stores it has.
    pub stores: u64,
    /// How many bytes their newest manifests name.
    pub bytes: u64,
    /// What these cost.
    pub storage: f64,
    /// How many publications of each store are assumed a month.
    pub publications: u64,
    /// What their requests cost: two that write and one that reads, for each.
    pub requests: f64,
}

/// An archive that was put back from a bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoteRestored {
    /// The store.
    pub store: String,
    /// The folder.
    pub folder: String,
    /// The manifest that it is.
    pub manifest: u64,
    /// How many versions can be read.
    pub versions: u64,
    /// The newest of them.
    pub newest: Option<String>,
    /// How many bytes were needed.
    pub bytes: u64,
    /// How many files were there from a try before.
    pub found: u64,
}
