//! `/versions` and `/as-of`: finding versions.

use std::sync::Arc;

use asat_core::query::Filter;
use asat_core::version::State as VersionState;
use asat_core::{Code, Problem};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answers::MAX_PAGE;
use super::extract::{self, Parameters, Segments};
use super::problem::Failure;
use super::{Answer, Face, cursor};
use asat_wire::{ProblemBody, Publication, PublicationList, Version, VersionList};

/// Which versions to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParameters {
    /// Only this store's.
    store: Option<String>,
    /// Only those that were published with this label.
    label: Option<String>,
    /// Only those with a publication that this person vouches for.
    certified_by: Option<String>,
    /// Only those with a publication that stands for this day.
    #[param(format = Date)]
    business_date: Option<String>,
    /// Only those with a publication of exactly this note.
    note: Option<String>,
    /// Only those with a publication that has an attribute of its publisher's with this value, as `name:value`. Numbers
    /// and truth values are written as in JSON.
    #[param(example = "batch:41")]
    attribute: Option<String>,
    /// Only those that were published with this set of stores.
    set: Option<String>,
    /// Only those that were published with a set as of this instant, which is the `cut_at` of that publication.
    #[param(format = DateTime)]
    set_cut_at: Option<String>,
    /// Only those cut at or after this instant.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Only those cut at or before this instant.
    #[param(format = DateTime)]
    to: Option<String>,
    /// Only those in one of these states, separated by commas, or `any`; if left out, `ready,lost`.
    #[param(example = "ready")]
    state: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists versions, newest first.
#[utoipa::path(
    get, path = "/versions", operation_id = "list_versions", tag = "versions", params(ListParameters),
    responses(
        (status = 200, description = "A page of versions", body = VersionList),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
        (status = 422, description = "A parameter is not allowed", body = ProblemBody),
    )
)]
pub(super) async fn list(
    State(face): State<Arc<Face>>,
    RawQuery(query): RawQuery,
    Parameters(parameters): Parameters<ListParameters>,
) -> Answer<Response> {
    let query = query.unwrap_or_default();
    if let Some(page) = face.pages.find(face.revision(), &query) {
        return Ok(written(Bytes::clone(&page)));
    }
    let filter = filter(&parameters)?;
    let limit = limit(parameters.limit)?;
    let after = parameters.cursor.as_deref().map(|text| cursor::read(text, &filter)).transpose()?;
    let engine = face.handle.engine();
    // What changes of the bucket while this is written, is in the next one.
    let revision = face.revision();
    let (entries, next) = engine.register().list(&filter, after.as_ref(), limit)?;
    let list = VersionList {
        versions: entries.into_iter().map(|entry| face.found(engine.register(), entry, &filter)).collect(),
        next_cursor: next.map(|position| cursor::write(&position, &filter)),
    };
    let page = serde_json::to_vec(&list).map(Bytes::from).map_err(|error| {
        let detail = format!("the list cannot be written: {error}");
        Problem::new(Code::Internal, detail, "report this as a defect")
    })?;
    if page.len() <= MAX_PAGE {
        // Nothing is committed as long as the engine is read.
        face.pages.keep(revision, &query, &Arc::new(page.clone()));
    }
    Ok(written(page))
}

fn written(page: Bytes) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], page).into_response()
}

fn filter(parameters: &ListParameters) -> Result<Filter, Failure> {
    let instant =
        |field, text: &Option<String>| text.as_deref().map(|t| extract::timestamp(field, t)).transpose();
    let (from, to) = (instant("from", &parameters.from)?, instant("to", &parameters.to)?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(Failure::new(
            Code::Invalid,
            "from is later than to, so that nothing lies between",
            "exchange from and to",
        ));
    }
    Ok(Filter {
        store: parameters.store.as_deref().map(extract::store).transpose()?,
        label: parameters.label.clone(),
        certified_by: parameters.certified_by.clone(),
        business_date: parameters.business_date.as_deref().map(extract::business_date).transpose()?,
        note: parameters.note.clone(),
        attribute: parameters.attribute.as_deref().map(attribute).transpose()?,
        set: parameters.set.as_deref().map(extract::set).transpose()?,
        set_cut_at: instant("set_cut_at", &parameters.set_cut_at)?,
        from,
        to,
        states: parameters.state.as_deref().map(states).transpose()?,
        search: None,
    })
}

/// The name and the value of an attribute that is asked for.
fn attribute(text: &str) -> Result<(String, String), Failure> {
    let parts = text.split_once(':').filter(|(name, _)| !name.is_empty());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| {
        Failure::new(
            Code::Malformed,
            "attribute names no value",
            "write it as name:value, for example batch:41",
        )
    })
}

fn states(text: &str) -> Result<Vec<VersionState>, Failure> {
    if text == "any" {
        return Ok(VersionState::ALL.to_vec());
    }
    let state = |name: &str| VersionState::ALL.into_iter().find(|state| state.text() == name);
    text.split(',').map(state).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let known: Vec<&str> = VersionState::ALL.iter().map(|state| state.text()).collect();
        Failure::new(
            Code::Invalid,
            "state names no state of a version",
            format!("use any, or some of: {}", known.join(",")),
        )
    })
}

/// Shows one version.
#[utoipa::path(
    get, path = "/versions/{id}", tag = "versions",
    params(("id" = String, Path, description = "`report@12` or `report@latest`")),
    responses(
        (status = 200, description = "The version", body = Version),
        (status = 400, description = "No version's name", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
    )
)]
pub(super) async fn show(
    State(face): State<Arc<Face>>,
    Segments(id): Segments<String>,
) -> Answer<Json<Version>> {
    Ok(Json(face.version(&id)?))
}

/// Which publications to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PublicationParameters {
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists the publications of one version, newest first.
#[utoipa::path(
    get, path = "/versions/{id}/publications", operation_id = "list_publications", tag = "versions",
    params(("id" = String, Path, description = "`report@12` or `report@latest`"), PublicationParameters),
    responses(
        (status = 200, description = "A page of publications", body = PublicationList),
        (status = 400, description = "No version's name, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 422, description = "A parameter is not allowed", body = ProblemBody),
    )
)]
pub(super) async fn publications(
    State(face): State<Arc<Face>>,
    Segments(id): Segments<String>,
    Parameters(PublicationParameters { limit: wanted, cursor }): Parameters<PublicationParameters>,
) -> Answer<Json<PublicationList>> {
    let limit = limit(wanted)?;
    let wanted = extract::version(&id)?;
    let engine = face.handle.engine();
    let entry = engine.register().resolve(&wanted)?;
    let id = &entry.version.id;
    let before = cursor.as_deref().map(|text| cursor::read_number(text, id)).transpose()?;
    let known = entry.publications.partition_point(|said| before.is_none_or(|before| said.number < before));
    let first = known.saturating_sub(limit);
    let page = entry.publications.get(first..known).unwrap_or_default();
    let written = page.iter().rev().map(Publication::new).collect();
    let next = page.first().filter(|_| first > 0).map(|said| cursor::write_number(said.number, id));
    Ok(Json(PublicationList { publications: written, next_cursor: next }))
}

/// How many a page of a list has at most.
fn limit(wanted: Option<u32>) -> Result<usize, Failure> {
    let limit = wanted.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(Failure::new(Code::Invalid, format!("limit is {limit}"), "write a limit from 1 to 1000"));
    }
    Ok(usize::try_from(limit).unwrap_or(1000))
}

/// Which store is meant.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AsOfParameters {
    /// The store; may be left out if there is only one.
    store: Option<String>,
}

/// Shows the newest version that was cut at or before an instant.
#[utoipa::path(
    get, path = "/as-of/{timestamp}", tag = "versions",
    params(("timestamp" = String, Path, format = DateTime, description = "RFC 3339"), AsOfParameters),
    responses(
        (status = 200, description = "The version", body = Version),
        (status = 400, description = "No instant, or a parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store, or no version is that old", body = ProblemBody),
        (status = 409, description = "The version of that moment was lost", body = ProblemBody),
        (status = 410, description = "The version of that moment was retired", body = ProblemBody),
        (status = 422, description = "There are several stores, and none is named", body = ProblemBody),
    )
)]
pub(super) async fn as_of(
    State(face): State<Arc<Face>>,
    Segments(timestamp): Segments<String>,
    Parameters(AsOfParameters { store }): Parameters<AsOfParameters>,
) -> Answer<Json<Version>> {
    let at = extract::timestamp("timestamp", &timestamp)?;
    let engine = face.handle.engine();
    let register = engine.register();
    let store = extract::meant(register, store.as_deref())?;
    Ok(Json(face.shown(register, register.as_of(&store, at)?)))
}

/// Shows the version that stood for a business day: the last one published for it, or else for the last day before it.
#[utoipa::path(
    get, path = "/as-of-business-date/{date}", tag = "versions",
    params(("date" = String, Path, format = Date, description = "YYYY-MM-DD"), AsOfParameters),
    responses(
        (status = 200, description = "The version", body = Version),
        (status = 400, description = "A parameter cannot be read", body = ProblemBody),
        (status = 404, description = "No such store, or none was published for that day or before it", body = ProblemBody),
        (status = 409, description = "The version of that day was lost", body = ProblemBody),
        (status = 410, description = "The version of that day was retired", body = ProblemBody),
        (status = 422, description = "No date, or there are several stores, and none is named", body = ProblemBody),
    )
)]
pub(super) async fn as_of_business_date(
    State(face): State<Arc<Face>>,
    Segments(date): Segments<String>,
    Parameters(AsOfParameters { store }): Parameters<AsOfParameters>,
) -> Answer<Json<Version>> {
    let date = extract::business_date(&date)?;
    let engine = face.handle.engine();
    let register = engine.register();
    let store = extract::meant(register, store.as_deref())?;
    Ok(Json(face.shown(register, register.as_of_business_date(&store, date)?)))
}
