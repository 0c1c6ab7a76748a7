//! Liveness, readiness, the OpenAPI document, and what there is not.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use asat_core::harm::Harm;
use asat_core::{Code, Problem};
use axum::body::Bytes;
use axum::extract::{OriginalUri, State};
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde_json::Value;

use super::access::MayRead;
use super::problem::Failure;
use super::{Answer, Face, freshness};
use asat_wire::{Health, Names, ProblemBody, Trouble};

/// Says that the daemon lives, and whether its guard is kept from its work, something is lost or damaged, or a store was
/// not published by when it is expected. It serves all the same then.
#[utoipa::path(get, path = "/healthz", tag = "daemon", responses((status = 200, description = "It lives", body = Health)))]
pub(super) async fn healthz(
    State(face): State<Arc<Face>>,
    Extension(MayRead(may_read)): Extension<MayRead>,
) -> Json<Health> {
    Json(how_it_is(&face, may_read))
}

/// Says whether the daemon takes requests, and how it is besides, as `/healthz` does.
#[utoipa::path(
    get, path = "/readyz", tag = "daemon",
    responses(
        (status = 200, description = "It takes requests", body = Health),
        (status = 500, description = "Nothing can be recorded: the catalogue was deleted or replaced, or it is not certain what is in it", body = ProblemBody),
        (status = 503, description = "It is stopping, or follows a bucket that has not answered yet", body = ProblemBody),
    )
)]
pub(super) async fn readyz(
    State(face): State<Arc<Face>>,
    Extension(MayRead(may_read)): Extension<MayRead>,
) -> Answer<Json<Health>> {
    if *face.stopping.borrow() {
        return Err(Failure::new(Code::Stopping, "the daemon is stopping", "try again when it runs again"));
    }
    if let Some(problem) = face.handle.recording().problem() {
        let detail = if may_read { problem.detail.as_str() } else { "nothing can be recorded" };
        return Err(Failure::new(problem.code, detail, problem.hint));
    }
    if let Some(problem) = waits_for_bucket(&face) {
        let detail = if may_read { problem.detail.as_str() } else { "the bucket has not answered yet" };
        return Err(Failure::new(problem.code, detail, problem.hint));
    }
    Ok(Json(how_it_is(&face, may_read)))
}

/// Why not all can be listed yet, if a bucket is followed that has not answered, and not all of a store is recorded from an earlier time.
fn waits_for_bucket(face: &Face) -> Option<Problem> {
    let follows = face.machine.follows();
    let unanswered = follows.unanswered()?;
    let engine = face.handle.engine();
    let mut stores = engine.register().stores().peekable();
    let knows_all = stores.peek().is_some() && stores.all(|history| follows.is_complete(&history.store.name));
    (!knows_all).then_some(unanswered)
}

/// Why the configuration that was read again last is not in force, if it is not.
#[derive(Default)]
pub struct RefusedConfiguration(ArcSwapOption<Problem>);

impl RefusedConfiguration {
    /// Notes that a configuration was refused, or that one is in force.
    pub fn note(&self, file: &Path, refused: Option<&Problem>) {
        self.0.store(refused.map(|problem| Arc::new(not_in_force(file, problem.code))));
    }

    pub(super) fn problem(&self) -> Option<Problem> {
        self.0.load().as_deref().cloned()
    }
}

/// Not what is wrong: that quotes the file, which may hold secrets.
fn not_in_force(file: &Path, code: Code) -> Problem {
    let file = file.display();
    let detail = format!("{file} was read again and is refused, so the configuration before stays");
    let hint = format!(
        "asat serve --check --config {file} says what is wrong; correct it, and then: systemctl reload asat, or kill -HUP the daemon"
    );
    Problem::new(code, detail, hint)
}

/// How the daemon is, and what is kept. If nothing can be recorded, all else is of no use; what keeps the guard from its work comes
/// before other harm: it may harm others. That a store could not be published or is late comes last: it harms nothing that is kept.
fn how_it_is(face: &Face, may_read: bool) -> Health {
    let standing = face.handle.standing();
    let handle = &face.handle;
    let harm = || handle.engine().register().harms().first().map(Harm::problem);
    let late = || freshness::first_problem(&handle.engine(), face.machine.believed().time);
    let trouble = handle.recording().problem().or_else(|| standing.trouble.clone());
    let refused = || face.refused.problem();
    let failed = || {
        let engine = handle.engine();
        engine.policy().stores.keys().find_map(|store| Some(handle.failures().of(store)?.0))
    };
    let kept = trouble.or_else(|| handle.verified().problem()).or_else(harm);
    match kept.or_else(refused).or_else(failed).or_else(late) {
        None => health("ok"),
        Some(problem) if may_read => degraded(Trouble::new(&problem, Names(&standing.names))),
        Some(problem) => degraded(Trouble::of_kind(&problem)),
    }
}

/// Whether a path asks only how the daemon is: that is answered where nothing else is.
#[must_use]
pub fn is_of_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

fn health(status: &str) -> Health {
    Health { status: status.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), trouble: None }
}

fn degraded(trouble: Trouble) -> Health {
    Health { trouble: Some(trouble), ..health("degraded") }
}

/// The OpenAPI document as it is sent.
#[derive(Clone)]
pub(super) struct Written(Bytes);

impl Written {
    pub(super) fn new(document: &Value) -> Self {
        Self(document.to_string().into())
    }
}

/// Describes every route, every field and every problem.
#[utoipa::path(
    get, path = "/openapi.json", tag = "daemon",
    responses((status = 200, description = "An OpenAPI 3.1 document", body = serde_json::Value))
)]
pub(super) async fn openapi(Extension(Written(document)): Extension<Written>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document)
}

pub(super) async fn not_found(OriginalUri(uri): OriginalUri) -> Failure {
    let path: String = uri.path().chars().take(200).collect();
    Failure::new(
        Code::NotFound,
        format!("there is nothing at {path}"),
        "GET /v1/openapi.json lists every route",
    )
}

pub(super) async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> Failure {
    let path: String = uri.path().chars().take(200).collect();
    let detail = format!("{method} is not possible at {path}");
    Failure::new(Code::MethodNotAllowed, detail, "GET /v1/openapi.json lists every route")
}
