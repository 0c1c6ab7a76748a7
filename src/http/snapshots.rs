//! `POST /snapshots`: somebody certified a store.

use std::sync::Arc;
use std::time::Instant;

use asat_core::event::{Event, Publish, Reply};
use asat_core::register::Register;
use asat_core::snapshot::Hold;
use asat_core::version::Attributes;
use asat_core::{Code, Problem};
use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::answers::Prepared;
use super::extract::{self, Body};
use super::problem::Failure;
use super::{Answer, Caller, Face};
use crate::wire::{ProblemBody, PublishRequest, Published, milliseconds};

/// So many publications of a version are told to who publishes it again. Others may be many, and are told who asks for
/// them.
const MOST_TOLD: usize = 10;

/// Publishes a store: fixes its content as a version.
///
/// The answer comes when the version is durable. Where nothing has changed since the newest version, that one
/// is published again; where the same was said of it before, that publication is answered again. A request that is
/// repeated with the same `Idempotency-Key` gets the first one's answer.
#[utoipa::path(
    post, path = "/snapshots", tag = "versions", request_body = PublishRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat")),
    responses(
        (status = 201, description = "A new version", body = Published, headers(("Location" = String))),
        (status = 200, description = "The version was there already", body = Published),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 409, description = "An earlier version is on its way in or out", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed, the store cannot be read, or it does not meet a check (`check_failed`)", body = ProblemBody),
        (status = 500, description = "An unexpected error", body = ProblemBody),
        (status = 503, description = "The store is busy", body = ProblemBody, headers(("Retry-After" = u32))),
        (status = 507, description = "There is no room", body = ProblemBody),
    )
)]
pub(super) async fn publish(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Key(key): Key,
    Body(request): Body<PublishRequest>,
) -> Answer<Response> {
    let began = Instant::now();
    let publish = read(request, key)?;
    // While it is held, the version is not given up.
    let held = face.machine.unchanged_since(publish.store.as_ref());
    let publish = Publish { unchanged: held.as_ref().map(|(number, _)| *number), ..publish };
    // What was said before of a version that the store still is needs nobody's time.
    if held.is_some() && publish.key.is_none() {
        if let Some(prepared) = face.answers.find(face.handle.revision(), &publish) {
            return Ok(prepared.told(began));
        }
        if let Some(prepared) = known_already(&face, &publish, began)? {
            return Ok(prepared.told(began));
        }
    }
    drop(held);
    let published = match face.handle.ask(caller.by, Event::Publish(publish)).await? {
        Reply::Published(number) => written(&face, face.handle.engine().register(), number)?,
        Reply::Known(number) => known(&face, face.handle.engine().register(), number, began)?,
        _ => {
            let detail = "a publication got another answer";
            return Err(Problem::new(Code::Internal, detail, "report this as a defect").into());
        }
    };
    let status = if published.reused { StatusCode::OK } else { StatusCode::CREATED };
    let mut headers = HeaderMap::new();
    headers.extend(location(&published.version.id).map(|location| (header::LOCATION, location)));
    Ok((status, headers, Json(published)).into_response())
}

/// Where a version is found.
pub(super) fn location(id: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("/versions/{id}")).ok()
}

/// The answer to a request that says nothing new; it is kept for those who say it again.
fn known_already(face: &Face, publish: &Publish, began: Instant) -> Result<Option<Arc<Prepared>>, Problem> {
    // Nothing is committed as long as the engine is read.
    let engine = face.handle.engine();
    let Some(number) = engine.known(publish) else { return Ok(None) };
    let prepared = Prepared::new(&known(face, engine.register(), number, began)?).map(Arc::new);
    if let Some(prepared) = &prepared {
        face.answers.keep(face.handle.revision(), publish, prepared);
    }
    Ok(prepared)
}

/// A publication that was there already, as it is written for somebody who asks for the same again.
fn known(face: &Face, register: &Register, number: u64, began: Instant) -> Result<Published, Problem> {
    Ok(Published {
        reused: true,
        writer_blocked_ms: 0.0,
        hold: Hold::Nobody.text().to_owned(),
        snapshot_ms: 0.0,
        elapsed_ms: began.elapsed().as_secs_f64() * 1e3,
        ..written(face, register, number)?
    })
}

/// The request as the engine takes it.
fn read(request: PublishRequest, key: Option<String>) -> Result<Publish, Problem> {
    let PublishRequest { store, label, certified_by, business_date, note, attributes } = request;
    let business_date = business_date.as_deref().map(extract::business_date).transpose()?;
    let mut free = attributes.unwrap_or_default();
    free.retain(|_, value| !value.is_null());
    let attributes = Attributes { label, certified_by, business_date, note, free };
    attributes.check_names()?;
    Ok(Publish { store: store.as_deref().map(extract::store).transpose()?, attributes, key, unchanged: None })
}

/// The idempotency key, where the caller gives one.
pub(super) struct Key(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self(read_key(&parts.headers)?))
    }
}

fn read_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::new(Code::Malformed, "there is more than one Idempotency-Key", "send one"));
    }
    value
        .to_str()
        .map(|key| Some(key.to_owned()))
        .map_err(|_| Problem::new(Code::Malformed, "the Idempotency-Key is not visible ASCII", "use a UUID"))
}

/// A publication with its version, as it is written.
pub(super) fn written(face: &Face, register: &Register, number: u64) -> Result<Published, Problem> {
    let gone =
        || Problem::new(Code::Internal, "the publication is not in the register", "report this as a defect");
    let publication = register.publication(number).ok_or_else(gone)?;
    Ok(Published {
        version: face.with_newest(MOST_TOLD, register, register.entry(&publication.version)?),
        publication: crate::wire::Publication::new(publication),
        reused: publication.reused,
        writer_blocked_ms: milliseconds(publication.cost.writer_blocked_us),
        hold: publication.cost.hold.text().to_owned(),
        snapshot_ms: milliseconds(publication.cost.snapshot_us),
        elapsed_ms: milliseconds(publication.elapsed_us),
    })
}
