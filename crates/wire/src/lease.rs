//! Leases on the wire.

use std::cmp::Reverse;

use asat_core::version as core;
use asat_core::{Engine, LeaseUse};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::instant;

/// An open lease.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    /// Its name.
    pub lease: String,
    /// The version that it holds.
    #[schema(example = "report@12")]
    pub version: String,
    /// Who holds it, in the holder's own words.
    pub holder: String,
    /// Who took it, as the audit trail has it; absent of a lease that is older than the trail.
    #[schema(example = "uid 1000 (ann)")]
    pub actor: Option<String>,
    /// The path at which the version is read; absent while its copy is being made.
    pub path: Option<String>,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "instant")]
    pub granted_at: Timestamp,
    /// When it ends unless it is renewed.
    #[schema(value_type = String, format = DateTime)]
    #[serde(with = "instant")]
    pub expires_at: Timestamp,
}

/// The open leases.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LeaseList {
    /// The leases, by version; those of one version by when they end.
    pub leases: Vec<Lease>,
    /// How many are open of how many, whatever the list is filtered by.
    #[serde(default)]
    pub bounds: LeaseBounds,
}

/// How many leases are open, of how many that may be. Those of the tree of versions do not count: asat takes one for each
/// version that is open there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseBounds {
    /// How many are open, or are granted as soon as a copy is made.
    pub open: usize,
    /// How many may be (`copies.max_leases`).
    pub most: usize,
    /// How many one caller may have (`copies.max_leases_per_caller`).
    pub most_per_caller: usize,
    /// How many each caller has, the one with the most first.
    pub callers: Vec<LeaseCaller>,
}

/// How many leases a caller has open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseCaller {
    /// Who took them, as the audit trail has it.
    #[schema(example = "token report server")]
    pub actor: String,
    /// How many.
    pub open: usize,
}

impl LeaseBounds {
    /// How many leases are open, as it is written.
    #[must_use]
    pub fn new(engine: &Engine, now: Timestamp) -> Self {
        let LeaseUse { in_all, callers } = engine.lease_use(now);
        let mut callers: Vec<LeaseCaller> =
            callers.into_iter().map(|(actor, open)| LeaseCaller { actor, open }).collect();
        callers.sort_by_key(|caller| Reverse(caller.open));
        let bounds = engine.policy().leases;
        Self { open: in_all, most: bounds.in_all, most_per_caller: bounds.per_caller, callers }
    }
}

impl Lease {
    /// A lease as it is written, with the path at which its version is read.
    #[must_use]
    pub fn new(lease: &core::Lease, path: Option<String>) -> Self {
        Self {
            lease: lease.id.0.clone(),
            version: lease.version.to_string(),
            holder: lease.holder.clone(),
            actor: lease.actor.clone(),
            path,
            granted_at: lease.granted_at,
            expires_at: lease.expires_at,
        }
    }
}
