//! Giving a version up, and bringing it back.

use std::sync::Arc;

use asat_core::event::{Change, Event};
use asat_core::{VersionId, VersionRef};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Parameters, Segments};
use super::{Answer, Caller, Face};
use asat_wire::{ProblemBody, Version};

/// How a version is given up.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RetireParameters {
    /// Why; it stands in the audit trail.
    #[param(min_length = 1, max_length = 500, example = "published by mistake")]
    reason: Option<String>,
    /// Whether its pages are deleted at once, so that nobody can bring it back. It ends the grace of a version that was retired before, too.
    #[serde(default)]
    now: bool,
}

/// Gives a version up. It can be brought back until `purge_after`; if that is absent, its pages are gone or on their way
/// out. What was retired before stays retired.
#[utoipa::path(
    delete, path = "/versions/{id}", tag = "versions",
    params(("id" = String, Path, description = "`report@12` or `report@latest`"), RetireParameters),
    responses(
        (status = 200, description = "The version, retired, or `retiring` if its pages could not be removed yet, which is tried again", body = Version),
        (status = 400, description = "No version's name, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "A lease, a pin or a tag forbids it", body = ProblemBody),
        (status = 422, description = "The reason is not allowed", body = ProblemBody),
        (status = 500, description = "It cannot be recorded, and nothing was done", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it, and nothing was done", body = ProblemBody),
    )
)]
pub(super) async fn retire(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Parameters(RetireParameters { reason, now }): Parameters<RetireParameters>,
) -> Answer<Json<Version>> {
    let id = face.version_id(&id)?;
    let event = Event::Retire { version: VersionRef::Exact(id.clone()), reason, now };
    face.machine.let_go(&id);
    face.handle.ask(caller.by, event).await?;
    Ok(Json(face.version(&id.to_string())?))
}

/// Says what giving a version up would make of it, or what forbids it. Nothing is changed.
#[utoipa::path(
    get, path = "/versions/{id}/retirement", operation_id = "plan_retirement", tag = "versions",
    params(("id" = String, Path, description = "`report@12` or `report@latest`"), RetireParameters),
    responses(
        (status = 200, description = "The version as it would be", body = Version),
        (status = 400, description = "No version's name, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "A lease, a pin or a tag forbids it", body = ProblemBody),
        (status = 422, description = "The reason is not allowed", body = ProblemBody),
    )
)]
pub(super) async fn plan(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Parameters(RetireParameters { reason, now }): Parameters<RetireParameters>,
) -> Answer<Json<Version>> {
    let id = face.version_id(&id)?;
    let event = Event::Retire { version: VersionRef::Exact(id.clone()), reason, now };
    Ok(Json(face.would_be(&caller, &id, &event)?))
}

/// Why a version is brought back.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UnretireParameters {
    /// Why; it stands in the audit trail.
    #[param(min_length = 1, max_length = 500, example = "retired by mistake")]
    reason: Option<String>,
}

/// Brings a retired version back, as long as its grace lasts (`purge_after`). Its tags and its pin do not come back.
#[utoipa::path(
    post, path = "/versions/{id}/unretire", tag = "versions",
    params(("id" = String, Path, description = "`report@12`"), UnretireParameters),
    responses(
        (status = 200, description = "The version, which can be read again", body = Version),
        (status = 400, description = "No version's name, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "The version was never retired, and cannot be read", body = ProblemBody),
        (status = 410, description = "It is too late: its pages are gone or on their way out (`purged`)", body = ProblemBody),
        (status = 422, description = "The reason is not allowed", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn unretire(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments(id): Segments<String>,
    Parameters(UnretireParameters { reason }): Parameters<UnretireParameters>,
) -> Answer<Json<Version>> {
    let id = face.version_id(&id)?;
    let event = Event::Unretire { version: VersionRef::Exact(id.clone()), reason };
    face.handle.ask(caller.by, event).await?;
    Ok(Json(face.version(&id.to_string())?))
}

impl Face {
    /// What a version would be after an event. Nothing is recorded.
    fn would_be(&self, caller: &Caller, id: &VersionId, event: &Event) -> Answer<Version> {
        use asat_core::event::Answer as Told;
        let engine = self.handle.engine();
        let decision = engine.decide_for(self.machine.believed().time, &caller.by, event);
        if let Told::Now(Err(problem)) = decision.answer {
            return Err(problem.into());
        }
        let entry = engine.register().entry(id)?;
        let changed = decision.changes.into_iter().rev().find_map(|change| match change {
            Change::Version(version) if version.id == *id => Some(*version),
            _ => None,
        });
        let version = changed.unwrap_or_else(|| entry.version.clone());
        Ok(self.shown(engine.register(), &entry.with(version)))
    }
}
