//! `/leases`: who holds versions, and that an administrator may take them back.

use std::sync::Arc;

use asat_core::event::{Event, Reply};
use asat_core::version::{Lease as CoreLease, LeaseId};
use asat_core::{By, Code, Problem, StoreName};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{self, Parameters, Segments};
use super::{Answer, Caller, Face};
use crate::config::Role;
use asat_wire::{Lease, LeaseBounds, LeaseList, ProblemBody};

/// Which leases to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LeaseParameters {
    /// Only those on versions of this store.
    store: Option<String>,
    /// Only those of this holder.
    holder: Option<String>,
}

/// Lists who holds which version, and until when.
#[utoipa::path(
    get, path = "/leases", operation_id = "list_leases", tag = "as-at copies", params(LeaseParameters),
    responses(
        (status = 200, description = "The open leases", body = LeaseList),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
    )
)]
pub(super) async fn list(
    State(face): State<Arc<Face>>,
    Parameters(LeaseParameters { store, holder }): Parameters<LeaseParameters>,
) -> Answer<Json<LeaseList>> {
    let store = store.as_deref().map(extract::store).transpose()?;
    if let Some(store) = &store {
        face.handle.engine().register().history(store)?;
    }
    Ok(Json(open(&face, store.as_ref(), holder.as_deref())))
}

/// The open leases on this store's versions and of this holder, as they are written.
pub(super) fn open(face: &Face, store: Option<&StoreName>, holder: Option<&str>) -> LeaseList {
    let now = face.machine.believed().time;
    let engine = face.handle.engine();
    let register = engine.register();
    let wanted = |lease: &&CoreLease| {
        lease.expires_at > now
            && store.is_none_or(|store| lease.version.store == *store)
            && holder.is_none_or(|holder| lease.holder == holder)
    };
    let mut leases: Vec<&CoreLease> = register.leases().filter(wanted).collect();
    leases.sort_by_key(|lease| (&lease.version, lease.expires_at, &lease.id));
    let path = |lease: &CoreLease| {
        let version = &register.entry(&lease.version).ok()?.version;
        face.machine.path(version).map(|path| path.display().to_string())
    };
    let leases = leases.into_iter().map(|lease| Lease::new(lease, path(lease))).collect();
    LeaseList { leases, bounds: LeaseBounds::new(&engine, now) }
}

/// How a lease is revoked.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RevokeParameters {
    /// Why; it stands in the audit trail.
    #[param(min_length = 1, max_length = 500, example = "incident 4711: the data must go")]
    reason: Option<String>,
}

/// Takes a lease from its holder, at once. It is written down, with the reason if there is one.
///
/// The version's copy is deleted with the last lease on it; a program that has the file open reads on. In the tree of versions
/// reading fails from now on, and for a minute the version is not opened there again: time to retire it.
#[utoipa::path(
    delete, path = "/leases/{lease}", operation_id = "revoke_lease", tag = "as-at copies",
    params(("lease" = String, Path, description = "The lease's name"), RevokeParameters),
    responses(
        (status = 200, description = "The lease as it was", body = Lease),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such lease; it may have expired", body = ProblemBody),
        (status = 422, description = "The reason is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn revoke(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(lease): Segments<String>,
    Parameters(RevokeParameters { reason }): Parameters<RevokeParameters>,
) -> Answer<Json<Lease>> {
    let lease = revoked(&face, caller.by, extract::lease(&lease), reason).await?;
    Ok(Json(Lease::new(&lease, None)))
}

/// Takes a lease from its holder; answers it as it was.
///
/// # Errors
/// [`Code::UnknownLease`]; if it cannot be recorded; [`Code::Stopping`].
pub(super) async fn revoked(
    face: &Face,
    by: By,
    lease: LeaseId,
    reason: Option<String>,
) -> Result<CoreLease, Problem> {
    let machine = Arc::clone(&face.machine);
    // Whoever reads in the tree loses it before the lease can be renewed.
    let take = move |answer: &Result<Reply, Problem>| {
        if let Ok(Reply::Revoked(lease)) = answer {
            machine.take_away(lease);
        }
    };
    match face.handle.ask_and(by, Event::Revoke { lease, reason }, take).await? {
        Reply::Revoked(lease) => Ok(lease),
        other => {
            let detail = format!("a revocation got another answer: {other:?}");
            Err(Problem::new(Code::Internal, detail, "report this as a defect"))
        }
    }
}

impl Face {
    /// Refuses a lease that somebody else has taken, to a caller who may not revoke it.
    pub(super) fn check_own(&self, caller: &Caller, lease: &str) -> Result<(), Problem> {
        let engine = self.handle.engine();
        match engine.register().lease(&extract::lease(lease)) {
            Some(lease) if caller.role < Role::Admin && !lease.is_of(&caller.by) => {
                let actor = lease.actor.as_deref().unwrap_or_default();
                let detail =
                    format!("the lease {} was taken by {actor}, and you are {}", lease.id.0, caller.by.actor);
                Err(Problem::new(Code::Forbidden, detail, "an administrator may revoke it"))
            }
            _ => Ok(()),
        }
    }
}
