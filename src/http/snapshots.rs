//! `POST /snapshots`: somebody certified a store.

use std::time::Instant;

use asat_core::event::{Event, Publish, Reply};
use asat_core::snapshot::Hold;
use asat_core::version::Attributes;
use asat_core::{Code, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::extract::{self, Body};
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
    State(face): State<Face>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<PublishRequest>,
) -> Answer<(StatusCode, HeaderMap, Json<Published>)> {
    let began = Instant::now();
    let mut publish = read(request, &headers)?;
    publish.unchanged = unchanged_since(&face, &publish);
    // What was said before of a version that the store still is needs nobody's time.
    let already = face.handle.engine().known(&publish);
    let published = match already {
        Some(number) => known(&face, number, began)?,
        None => match face.handle.ask(caller.by, Event::Publish(publish)).await? {
            Reply::Published(number) => written(&face, number)?,
            Reply::Known(number) => known(&face, number, began)?,
            _ => {
                let detail = "a publication got another answer";
                return Err(Problem::new(Code::Internal, detail, "report this as a defect").into());
            }
        },
    };
    let status = if published.reused { StatusCode::OK } else { StatusCode::CREATED };
    let mut headers = HeaderMap::new();
    if let Ok(location) = HeaderValue::from_str(&format!("/versions/{}", published.version.id)) {
        headers.insert(header::LOCATION, location);
    }
    Ok((status, headers, Json(published)))
}

/// The version whose content the store has still, where that shows without reading it.
fn unchanged_since(face: &Face, publish: &Publish) -> Option<u64> {
    let engine = face.handle.engine();
    face.machine.unchanged_since(&engine.wanted(publish).ok()?.store.name)
}

/// A publication that was there already, as it is written for somebody who asks for the same again.
fn known(face: &Face, number: u64, began: Instant) -> Result<Published, Problem> {
    Ok(Published {
        reused: true,
        writer_blocked_ms: 0.0,
        hold: Hold::Nobody.text().to_owned(),
        snapshot_ms: 0.0,
        elapsed_ms: began.elapsed().as_secs_f64() * 1e3,
        ..written(face, number)?
    })
}

/// The request as the engine takes it.
fn read(request: PublishRequest, headers: &HeaderMap) -> Result<Publish, Problem> {
    let PublishRequest { store, label, certified_by, business_date, note, attributes } = request;
    let business_date = business_date.as_deref().map(extract::business_date).transpose()?;
    let mut free = attributes.unwrap_or_default();
    free.retain(|_, value| !value.is_null());
    let attributes = Attributes { label, certified_by, business_date, note, free };
    attributes.check_names()?;
    Ok(Publish {
        store: store.as_deref().map(extract::store).transpose()?,
        attributes,
        key: read_key(headers)?,
        unchanged: None,
    })
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
pub(super) fn written(face: &Face, number: u64) -> Result<Published, Problem> {
    let engine = face.handle.engine();
    let register = engine.register();
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
