//! `POST /snapshots`: somebody certified a store, or several together.

use std::time::Instant;

use asat_core::event::{Event, Publish, PublishSet, Reply};
use asat_core::snapshot::Hold;
use asat_core::version::Attributes;
use asat_core::{Code, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::extract::{self, Body};
use super::{Answer, Caller, Face};
use crate::wire::{OfSet, ProblemBody, PublishAnswer, PublishRequest, Published, PublishedSet, milliseconds};

/// So many publications of a version are told to who publishes it again. Others may be many, and are told who asks for
/// them.
const MOST_TOLD: usize = 10;

/// Publishes a store, or a set of stores: fixes its content as a version, and those of a set as of one instant.
///
/// Where `set` is given instead of `store`, all stores of that set are published as they are at one instant, or none is; the
/// answer is a `PublishedSet` then.
///
/// The answer comes when the version is durable. Where nothing has changed since the newest version, that one
/// is published again; where the same was said of it before, that publication is answered again. A request that is
/// repeated with the same `Idempotency-Key` gets the first one's answer.
#[utoipa::path(
    post, path = "/snapshots", tag = "versions", request_body = PublishRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat")),
    responses(
        (status = 201, description = "A new version; of a set, one at least", body = PublishAnswer, headers(("Location" = String))),
        (status = 200, description = "The version was there already; of a set, all of them", body = PublishAnswer),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or set", body = ProblemBody),
        (status = 409, description = "An earlier version is on its way in or out", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed, the store cannot be read, or it does not meet a check (`check_failed`)", body = ProblemBody),
        (status = 500, description = "An unexpected error", body = ProblemBody),
        (status = 503, description = "A store is busy", body = ProblemBody, headers(("Retry-After" = u32))),
        (status = 507, description = "There is no room", body = ProblemBody),
    )
)]
pub(super) async fn publish(
    State(face): State<Face>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<PublishRequest>,
) -> Answer<(StatusCode, HeaderMap, Json<PublishAnswer>)> {
    let (reused, location, answer) = match request.set {
        None => publish_store(&face, caller, request, &headers).await?,
        Some(_) => publish_set(&face, caller, request, &headers).await?,
    };
    let status = if reused { StatusCode::OK } else { StatusCode::CREATED };
    let mut headers = HeaderMap::new();
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(header::LOCATION, location);
    }
    Ok((status, headers, Json(answer)))
}

/// Whether what was published was there already, where to find it, and the answer.
type Outcome = (bool, String, PublishAnswer);

async fn publish_store(
    face: &Face,
    caller: Caller,
    request: PublishRequest,
    headers: &HeaderMap,
) -> Result<Outcome, Problem> {
    let began = Instant::now();
    let store = request.store.as_deref().map(extract::store).transpose()?;
    let (attributes, key) = (attributes(request)?, read_key(headers)?);
    let mut publish = Publish { store, attributes, key, unchanged: None };
    publish.unchanged = unchanged_since(face, &publish);
    // What was said before of a version that the store still is needs nobody's time.
    let already = face.handle.engine().known(&publish);
    let published = match already {
        Some(number) => known(face, number, began)?,
        None => match face.handle.ask(caller.by, Event::Publish(publish)).await? {
            Reply::Published(number) => written(face, number)?,
            Reply::Known(number) => known(face, number, began)?,
            _ => return Err(other_answer()),
        },
    };
    let location = format!("/versions/{}", published.version.id);
    Ok((published.reused, location, PublishAnswer::Store(Box::new(published))))
}

async fn publish_set(
    face: &Face,
    caller: Caller,
    request: PublishRequest,
    headers: &HeaderMap,
) -> Result<Outcome, Problem> {
    if request.store.is_some() {
        let detail = "the request names a store and a set";
        return Err(Problem::new(Code::Invalid, detail, "name one of them"));
    }
    let set = extract::set(request.set.as_deref().unwrap_or_default())?;
    let (attributes, key) = (attributes(request)?, read_key(headers)?);
    let event = Event::PublishSet(PublishSet { set, attributes, key });
    let Reply::Published(first) = face.handle.ask(caller.by, event).await? else {
        return Err(other_answer());
    };
    let (of_set, numbers) = {
        let engine = face.handle.engine();
        let publications: Vec<_> = engine.register().publications_with(first).collect();
        let of_set = publications.iter().find_map(|publication| publication.of_set.clone());
        let numbers: Vec<u64> = publications.iter().map(|publication| publication.number).collect();
        (of_set.ok_or_else(other_answer)?, numbers)
    };
    let published: Vec<Published> =
        numbers.into_iter().map(|number| written(face, number)).collect::<Result<_, _>>()?;
    let reused = published.iter().all(|published| published.reused);
    let longest = |of: fn(&Published) -> f64| published.iter().map(of).fold(0.0, f64::max);
    let OfSet { name: set, cut_at } = OfSet::new(&of_set);
    let answer = PublishedSet {
        reused,
        writer_blocked_ms: longest(|published| published.writer_blocked_ms),
        elapsed_ms: longest(|published| published.elapsed_ms),
        set,
        cut_at,
        published,
    };
    let location = format!("/versions?set={}&set_cut_at={:.6}", answer.set, answer.cut_at);
    Ok((reused, location, PublishAnswer::Set(answer)))
}

fn other_answer() -> Problem {
    Problem::new(Code::Internal, "a publication got another answer", "report this as a defect")
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

/// What is said of a publication, as the engine takes it.
fn attributes(request: PublishRequest) -> Result<Attributes, Problem> {
    let PublishRequest { label, certified_by, business_date, note, attributes, .. } = request;
    let business_date = business_date.as_deref().map(extract::business_date).transpose()?;
    let mut free = attributes.unwrap_or_default();
    free.retain(|_, value| !value.is_null());
    let attributes = Attributes { label, certified_by, business_date, note, free };
    attributes.check_names()?;
    Ok(attributes)
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
