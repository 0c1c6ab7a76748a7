//! `/versions/{id}/mounts` and `/mounts`: leases on as-at copies.

use std::sync::Arc;

use asat_core::event::{Event, Open, Reply};
use asat_core::version::LeaseId;
use asat_core::{Code, Problem, VersionRef};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{self, Body, Parameters, Segments};
use super::find::FindParameters;
use super::{Answer, Caller, Face};
use asat_wire::{Mount, MountRequest, ProblemBody, RenewRequest};

/// Opens a version: leases a plain read-only database file with its content.
#[utoipa::path(
    post, path = "/versions/{id}/mounts", tag = "as-at copies", request_body = MountRequest,
    params(("id" = String, Path, description = "`report@12` or `report@latest`")),
    responses(
        (status = 201, description = "The lease, and where the copy is", body = Mount),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed", body = ProblemBody),
        (status = 429, description = "As many leases are open as may be", body = ProblemBody),
        (status = 500, description = "Stored data is damaged", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room for the copy", body = ProblemBody),
    )
)]
pub(super) async fn open(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Body(request): Body<MountRequest>,
) -> Answer<(StatusCode, Json<Mount>)> {
    opened(&face, caller, extract::version(&id)?, request).await
}

/// Finds the version that is meant, and opens it: one request leads from a day to a database file.
#[utoipa::path(
    post, path = "/mounts", tag = "as-at copies", request_body = MountRequest, params(FindParameters),
    responses(
        (status = 201, description = "The lease, and where the copy is", body = Mount),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store, or no version is meant", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed, or no version or several are named", body = ProblemBody),
        (status = 429, description = "As many leases are open as may be", body = ProblemBody),
        (status = 500, description = "Stored data is damaged", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room for the copy", body = ProblemBody),
    )
)]
pub(super) async fn open_found(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Parameters(parameters): Parameters<FindParameters>,
    Body(request): Body<MountRequest>,
) -> Answer<(StatusCode, Json<Mount>)> {
    let version = VersionRef::Exact(parameters.version(&face)?);
    opened(&face, caller, version, request).await
}

async fn opened(
    face: &Face,
    caller: Caller,
    version: VersionRef,
    MountRequest { holder, ttl_seconds: ttl_s }: MountRequest,
) -> Answer<(StatusCode, Json<Mount>)> {
    let lease = LeaseId(asat_host::clock::new_lease_id());
    let in_tree = face.machine.has_tree();
    let open = Open { version, lease, holder, ttl_s, in_tree };
    let reply = face.handle.ask(caller.by, Event::Open(open)).await?;
    Ok((StatusCode::CREATED, Json(written(face, reply)?)))
}

/// Renews a lease: from now on it lasts as long as asked for.
#[utoipa::path(
    put, path = "/versions/{id}/mounts/{lease}", tag = "as-at copies", request_body = RenewRequest,
    params(("id" = String, Path), ("lease" = String, Path)),
    responses(
        (status = 200, description = "The lease", body = Mount),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such lease; it may have expired", body = ProblemBody),
        (status = 409, description = "Its copy is being made", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn renew(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments((id, lease)): Segments<(String, String)>,
    Body(RenewRequest { ttl_seconds: ttl_s }): Body<RenewRequest>,
) -> Answer<Json<Mount>> {
    let version = face.version_id(&id)?;
    face.check_own(&caller, &lease)?;
    let renew = Event::Renew { version, lease: extract::lease(&lease), ttl_s };
    let reply = face.handle.ask(caller.by, renew).await?;
    Ok(Json(written(&face, reply)?))
}

/// Releases a lease.
#[utoipa::path(
    delete, path = "/versions/{id}/mounts/{lease}", tag = "as-at copies",
    params(("id" = String, Path), ("lease" = String, Path)),
    responses(
        (status = 204, description = "The lease is over"),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such lease; it may have expired", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn close(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments((id, lease)): Segments<(String, String)>,
) -> Answer<StatusCode> {
    let version = face.version_id(&id)?;
    face.check_own(&caller, &lease)?;
    face.handle.ask(caller.by, Event::Close { version, lease: extract::lease(&lease) }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn written(face: &Face, reply: Reply) -> Result<Mount, Problem> {
    let Reply::Leased(lease) = reply else {
        return Err(Problem::new(Code::Internal, "a lease got another answer", "report this as a defect"));
    };
    face.mount(face.handle.engine().register(), &lease)
}
