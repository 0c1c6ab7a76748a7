//! `POST /v1/stores/{name}/restore`: a store is brought back to a version.

use std::sync::Arc;

use asat_core::event::{Event, Reply, Restore};
use asat_core::{Code, Problem};
use axum::Json;
use axum::extract::State;

use super::extract::{self, Body, Segments};
use super::snapshots::written;
use super::{Answer, Caller, Face};
use asat_wire::{ProblemBody, RestoreRequest, Restored, milliseconds};

/// Brings a store back to one of its versions.
///
/// The state that is left is published first, as `before restore to report@12`; if that fails, or somebody
/// commits after it, nothing is restored. Writers wait while the store is written, at most for `max_hold`, and
/// readers see the old state or the new one. If the store already is as it is wanted, it is left alone.
#[utoipa::path(
    post, path = "/stores/{name}/restore", tag = "stores", request_body = RestoreRequest,
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "The store is as the version is", body = Restored),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or version", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed, or the store cannot be written", body = ProblemBody),
        (status = 500, description = "An unexpected error", body = ProblemBody),
        (status = 503, description = "The store is busy, or was written to meanwhile; or after a boot nobody knows which time it is (`clock_doubted`)", body = ProblemBody),
        (status = 507, description = "There is no room", body = ProblemBody),
    )
)]
pub(super) async fn restore(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(name): Segments<String>,
    Body(request): Body<RestoreRequest>,
) -> Answer<Json<Restored>> {
    let RestoreRequest { version, certified_by, note } = request;
    let (store, version) = (extract::store(&name)?, extract::version(&version)?);
    let event = Event::Restore(Restore { store, version, certified_by, note });
    let reply = face.handle.ask(caller.by, event).await?;
    let Reply::Restored { version, publication, writer_blocked_us } = reply else {
        let detail = "a restore got another answer";
        return Err(Problem::new(Code::Internal, detail, "report this as a defect").into());
    };
    Ok(Json(Restored {
        restored: face.version(&version.to_string())?,
        before: written(&face, face.handle.engine().register(), publication)?,
        writer_blocked_ms: milliseconds(writer_blocked_us),
    }))
}
