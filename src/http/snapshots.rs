//! `POST /v1/snapshots`: somebody certified a store, or several together.

use std::sync::Arc;
use std::time::Instant;

use asat_core::event::{Event, Publish, PublishSet, Reply};
use asat_core::register::Register;
use asat_core::snapshot::Hold;
use asat_core::version::{Attributes, Publication};
use asat_core::{Code, Problem, VersionId};
use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::answers::Prepared;
use super::extract::{self, Body};
use super::problem::Failure;
use super::route::VERSION;
use super::{Answer, Caller, Face, remote};
use crate::daemon::Remotes;
use asat_wire::{
    OfSet, ProblemBody, PublishAnswer, PublishRequest, Published, PublishedSet, Wait, milliseconds,
};

/// Publishes a store, or a set of stores: fixes its content as a version, and those of a set as of one instant.
///
/// If `set` is given instead of `store`, all stores of that set are published as they are at one instant, or none is; the
/// answer is a `PublishedSet` then.
///
/// The answer comes when the version is durable. If nothing has changed since the newest version, that one
/// is published again; if the same was said of it before, that publication is answered again. A request that is
/// repeated with the same `Idempotency-Key` gets the first one's answer.
#[utoipa::path(
    post, path = "/snapshots", tag = "versions", request_body = PublishRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat")),
    responses(
        (status = 201, description = "A new version; of a set, one at least", body = PublishAnswer, headers(("Location" = String))),
        (status = 200, description = "The version was there already; of a set, all of them", body = PublishAnswer),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or set", body = ProblemBody),
        (status = 409, description = "An earlier version is on its way in or out; or with `wait`, the version is durable here, and the bucket belongs to another publisher", body = ProblemBody),
        (status = 410, description = "With `wait`, the version was retired before it was in the bucket", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed, the store cannot be read, or it does not meet a check (`check_failed`)", body = ProblemBody),
        (status = 500, description = "An unexpected error", body = ProblemBody),
        (status = 503, description = "A store is busy; or after a boot nobody knows which time it is (`clock_doubted`)", body = ProblemBody),
        (status = 507, description = "There is no room", body = ProblemBody),
    )
)]
pub(super) async fn publish(
    State(face): State<Arc<Face>>,
    caller: Caller,
    key: Result<Key, Failure>,
    body: Result<Body<PublishRequest>, Failure>,
) -> Answer<Response> {
    let began = Instant::now();
    // Those that get to the engine are counted there.
    let asked = read(key, body).inspect_err(|Failure(problem)| face.handle.metrics().failed(problem.code))?;
    let (asked, wait) = asked;
    if wait.is_some() && face.machine.remotes().config().is_none() {
        return Err(Remotes::no_bucket().into());
    }
    match asked {
        Asked::Store(publish) => publish_store(&face, caller, publish, wait, began).await,
        Asked::Set(publish) => publish_set(&face, caller, publish, wait).await,
    }
}

/// What somebody asks for.
enum Asked {
    Store(Publish),
    Set(PublishSet),
}

fn read(
    key: Result<Key, Failure>,
    body: Result<Body<PublishRequest>, Failure>,
) -> Answer<(Asked, Option<Wait>)> {
    let (Key(key), Body(request)) = (key?, body?);
    let (store, set) = (request.store.as_deref(), request.set.as_deref());
    if store.is_some() && set.is_some() {
        let detail = "the request names a store and a set";
        return Err(Failure::new(Code::Invalid, detail, "name one of them"));
    }
    let (store, set) = (store.map(extract::store).transpose()?, set.map(extract::set).transpose()?);
    let wait = request.wait;
    let attributes = attributes(request)?;
    let asked = match set {
        Some(set) => Asked::Set(PublishSet { set, attributes, key }),
        None => Asked::Store(Publish { store, attributes, key, unchanged: None }),
    };
    Ok((asked, wait))
}

async fn publish_store(
    face: &Face,
    caller: Caller,
    asked: Publish,
    wait: Option<Wait>,
    began: Instant,
) -> Answer<Response> {
    // While it is held, the version is not given up.
    let held = face.machine.unchanged_since(asked.store.as_ref());
    let seen = held.as_ref().map(|(version, _)| version.clone());
    // What was seen is of this store, whatever the configuration says in a moment.
    let (store, unchanged) = match seen {
        Some(VersionId { store, number }) => (Some(store), Some(number)),
        None => (asked.store, None),
    };
    let publish = Publish { store, unchanged, ..asked };
    // What was said before of a version that the store still is needs nobody's time.
    if let (Some(store), Some(_), None, None) = (&publish.store, unchanged, &publish.key, wait) {
        let prepared = match face.known.find(face.revision(), &publish) {
            None => known_already(face, &publish, began)?,
            found => found,
        };
        if let Some(prepared) = prepared {
            face.handle.metrics().known(store);
            face.handle.failures().forget(store);
            return Ok(prepared.told(began));
        }
    }
    drop(held);
    let reply = face.handle.ask(caller.by, Event::Publish(publish)).await?;
    if let (Some(Wait::Remote), Reply::Published(number) | Reply::Known(number)) = (wait, &reply) {
        let publication = face.handle.engine().register().publication(*number).map(awaited);
        remote::wait(face, publication.as_slice()).await?;
    }
    let published = match reply {
        Reply::Published(number) => written(face, face.handle.engine().register(), number)?,
        Reply::Known(number) => known(face, face.handle.engine().register(), number, began)?,
        _ => return Err(other_answer().into()),
    };
    let location = location(&published.version.id);
    Ok(answer(published.reused, location, PublishAnswer::Store(Box::new(published))))
}

/// The version of a publication, and whether that was there already.
fn awaited(publication: &Publication) -> (VersionId, bool) {
    (publication.version.clone(), publication.reused)
}

/// An answer, with where to find what was published.
fn answer(reused: bool, location: Option<HeaderValue>, answer: PublishAnswer) -> Response {
    let status = if reused { StatusCode::OK } else { StatusCode::CREATED };
    let mut headers = HeaderMap::new();
    headers.extend(location.map(|location| (header::LOCATION, location)));
    (status, headers, Json(answer)).into_response()
}

async fn publish_set(
    face: &Face,
    caller: Caller,
    publish: PublishSet,
    wait: Option<Wait>,
) -> Answer<Response> {
    let Reply::Published(first) = face.handle.ask(caller.by, Event::PublishSet(publish)).await? else {
        return Err(other_answer().into());
    };
    if let Some(Wait::Remote) = wait {
        let publications: Vec<_> =
            face.handle.engine().register().publications_with(first).map(awaited).collect();
        remote::wait(face, &publications).await?;
    }
    let (of_set, published) = {
        let engine = face.handle.engine();
        let publications: Vec<_> = engine.register().publications_with(first).collect();
        let of_set = publications.iter().find_map(|publication| publication.of_set.clone());
        let written = |publication: &&Publication| written(face, engine.register(), publication.number);
        let published: Vec<Published> = publications.iter().map(written).collect::<Result<_, _>>()?;
        (of_set.ok_or_else(other_answer)?, published)
    };
    let reused = published.iter().all(|published| published.reused);
    let longest = |of: fn(&Published) -> f64| published.iter().map(of).fold(0.0, f64::max);
    let OfSet { name: set, cut_at } = OfSet::new(&of_set);
    let published = PublishedSet {
        reused,
        writer_blocked_ms: longest(|published| published.writer_blocked_ms),
        elapsed_ms: longest(|published| published.elapsed_ms),
        set,
        cut_at,
        published,
    };
    let location = format!("{VERSION}/versions?set={}&set_cut_at={:.6}", published.set, published.cut_at);
    Ok(answer(reused, HeaderValue::from_str(&location).ok(), PublishAnswer::Set(published)))
}

fn other_answer() -> Problem {
    Problem::new(Code::Internal, "a publication got another answer", "report this as a defect")
}

/// Where a version is found.
pub(super) fn location(id: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{VERSION}/versions/{id}")).ok()
}

/// The answer to a request that says nothing new; it is kept for those who say it again.
fn known_already(face: &Face, publish: &Publish, began: Instant) -> Result<Option<Arc<Prepared>>, Problem> {
    // Nothing is committed as long as the engine is read.
    let engine = face.handle.engine();
    let revision = face.revision();
    let Some(number) = engine.known(publish) else { return Ok(None) };
    let prepared = Prepared::new(&known(face, engine.register(), number, began)?).map(Arc::new);
    if let Some(prepared) = &prepared {
        face.known.keep(revision, publish, prepared);
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
        version: face.listed(register, register.entry(&publication.version)?),
        publication: asat_wire::Publication::new(publication),
        reused: publication.reused,
        writer_blocked_ms: milliseconds(publication.cost.writer_blocked_us),
        hold: publication.cost.hold.text().to_owned(),
        snapshot_ms: milliseconds(publication.cost.snapshot_us),
        elapsed_ms: milliseconds(publication.elapsed_us),
    })
}
