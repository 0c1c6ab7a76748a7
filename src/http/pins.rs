//! `/versions/{id}/pin`: marks that retention must not touch.

use std::sync::Arc;

use asat_core::event::{Event, Reply};
use axum::Json;
use axum::extract::State;

use super::extract::{self, Body, Segments};
use super::{Answer, Caller, Face};
use asat_wire::{PinRequest, ProblemBody, Version};

/// Pins a version: neither retention nor a request retires it until it is unpinned.
#[utoipa::path(
    put, path = "/versions/{id}/pin", tag = "versions", request_body = PinRequest,
    params(("id" = String, Path, description = "`report@12` or `report@latest`")),
    responses(
        (status = 200, description = "The version, pinned", body = Version),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn pin(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Body(PinRequest { reason, owner, expires_at, hot }): Body<PinRequest>,
) -> Answer<Json<Version>> {
    let version = extract::version(&id)?;
    ask(&face, caller, Event::Pin { version, reason, owner, expires_at, hot }).await
}

/// Unpins a version.
#[utoipa::path(
    delete, path = "/versions/{id}/pin", tag = "versions",
    params(("id" = String, Path, description = "`report@12` or `report@latest`")),
    responses(
        (status = 200, description = "The version, without a pin", body = Version),
        (status = 400, description = "No version's name", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn unpin(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answer<Json<Version>> {
    let version = extract::version(&id)?;
    ask(&face, caller, Event::Unpin(version)).await
}

async fn ask(face: &Face, caller: Caller, event: Event) -> Answer<Json<Version>> {
    match face.handle.ask(caller.by, event).await? {
        Reply::Version(id) => Ok(Json(face.version(&id.to_string())?)),
        other => {
            let detail = format!("a pin got another answer: {other:?}");
            Err(super::problem::Failure::new(asat_core::Code::Internal, detail, "report this as a defect"))
        }
    }
}
