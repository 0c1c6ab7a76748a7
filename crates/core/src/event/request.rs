//! What somebody may ask for.

use crate::version::{Attributes, LeaseId};
use crate::{SetName, StoreName, VersionRef};

/// A request to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Publish {
    /// The store; may be left out where there is only one.
    pub store: Option<StoreName>,
    /// What is said of the publication.
    pub attributes: Attributes,
    /// The caller's idempotency key.
    pub key: Option<String>,
    /// The version whose content the store still has, where that was seen without reading it.
    pub unchanged: Option<u64>,
}

/// A request to publish a set of stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishSet {
    /// The set.
    pub set: SetName,
    /// What is said of the publication of each store.
    pub attributes: Attributes,
    /// The caller's idempotency key.
    pub key: Option<String>,
}

/// A request to bring a store back to a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The store.
    pub store: StoreName,
    /// The version that it shall be as.
    pub version: VersionRef,
    /// Who vouches for the state that is left, which is published first.
    pub certified_by: Option<String>,
    /// Anything else to be said of that publication.
    pub note: Option<String>,
}

/// A request for a lease on an as-at copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The version.
    pub version: VersionRef,
    /// The name that the lease will have.
    pub lease: LeaseId,
    /// Who holds it.
    pub holder: String,
    /// For how long, in seconds.
    pub ttl_s: u32,
    /// Whether it is read in the tree of versions, where that can be: what is in the archive needs no copy then.
    pub in_tree: bool,
}
