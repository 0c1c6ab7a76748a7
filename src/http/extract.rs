//! What requests carry, read strictly: whatever is not understood is refused by name.

use asat_core::version::LeaseId;
use asat_core::{Code, Problem, VersionRef, instant};
use axum::body::{Bytes, HttpBody as _};
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::de::DeserializeOwned;

use super::problem::Failure;
use crate::misread;
use crate::when::is_written_as_day;

/// A JSON body. An empty one stands for `{}`.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes = json(request, state).await?;
        read_json(if bytes.is_empty() { b"{}" } else { &bytes })
    }
}

/// The bytes of a body, which is JSON by its header, or empty.
async fn json<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Failure> {
    // What is promised to be too long need not be waited for.
    if request.body().size_hint().lower() > u64::try_from(super::MAX_BODY).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    check_coding(request.headers())?;
    let is_json = is_json(request.headers());
    let bytes = Bytes::from_request(request, state).await.map_err(|error| body_lost(&error))?;
    if !bytes.is_empty() && !is_json {
        let hint = "send the header Content-Type: application/json, and JSON in UTF-8";
        return Err(Failure::new(Code::UnsupportedMediaType, "the body is not declared as JSON", hint));
    }
    Ok(bytes)
}

fn body_lost(error: &BytesRejection) -> Failure {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large();
    }
    Failure::new(Code::Malformed, format!("the body did not arrive whole: {error}"), "send it again")
}

fn too_large() -> Failure {
    let detail = format!("the body is longer than {} bytes", super::MAX_BODY);
    Failure::new(Code::TooLarge, detail, "shorten the note or the query")
}

/// Refuses a body that would have to be unpacked.
fn check_coding(headers: &HeaderMap) -> Result<(), Failure> {
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Ok(());
    }
    let hint = "send it as it is, without the header Content-Encoding";
    Err(Failure::new(Code::UnsupportedMediaType, "the body is compressed or encoded otherwise", hint))
}

/// Whether a body is declared as JSON, which is in UTF-8 and in nothing else.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let is_utf_8 = |part: &str| match part.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    };
    parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
        && parts.all(is_utf_8)
}

fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<Body<T>, Failure> {
    let hint = "/docs and GET /v1/openapi.json describe every field";
    // A derived reader also takes an array for an object, its fields in the order of their declaration.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Failure::new(Code::Invalid, "the body is an array, and should be an object", hint));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.into_inner());
        (if path == "." { "the body".to_owned() } else { shorten(&path, 80) }, error)
    });
    let read =
        read.and_then(|read| reader.end().map(|()| read).map_err(|error| ("the body".to_owned(), error)));
    read.map(Body).map_err(|(subject, error)| {
        let said = error.to_string();
        if !error.is_data() {
            return Failure::new(
                Code::Malformed,
                format!("the body is not JSON: {}", misread::no_json(&said)),
                hint,
            );
        }
        let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
        Failure::new(Code::Invalid, shorten(&misread::words(&subject, said), 300), hint)
    })
}

/// The query's parameters.
pub(super) struct Parameters<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(parameters)| Self(parameters)).map_err(|error: QueryRejection| {
            Failure::new(
                Code::Malformed,
                misread_query(&error.body_text()),
                "/docs and GET /v1/openapi.json describe every parameter",
            )
        })
    }
}

/// What is wrong with a query. What reads it says which parameter it is, if it is a value.
fn misread_query(said: &str) -> String {
    let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(said);
    let of_value = said.split_once(": ").filter(|(name, _)| !name.contains([' ', '`']));
    let words = match of_value {
        Some((name, said)) => misread::words(name, said),
        None => misread::words("a parameter", said),
    };
    format!("the query: {}", shorten(&words, 300))
}

/// The path's variable segments.
pub(super) struct Segments<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(segments)| Self(segments)).map_err(|error: PathRejection| {
            Failure::new(Code::Malformed, format!("the path: {}", error.body_text()), "write it as UTF-8")
        })
    }
}

/// A version's name in a path.
pub(super) fn version(text: &str) -> Result<VersionRef, Problem> {
    text.parse().map_err(|error: asat_core::NameError| {
        Problem::new(Code::Malformed, error.to_string(), "GET /v1/versions lists the versions that there are")
    })
}

/// A store's name in a query, a body or a path.
pub(super) fn store(text: &str) -> Result<asat_core::StoreName, Problem> {
    text.parse().map_err(|error: asat_core::NameError| {
        Problem::new(Code::Malformed, error.to_string(), "GET /v1/stores lists the stores that there are")
    })
}

/// The store that is meant, if it may be left out.
pub(super) fn meant(
    register: &asat_core::register::Register,
    text: Option<&str>,
) -> Result<asat_core::StoreName, Problem> {
    match text {
        Some(text) => store(text),
        None => Ok(register.only_store()?.store.name.clone()),
    }
}

/// The name of a set in a body or a query.
pub(super) fn set(text: &str) -> Result<asat_core::SetName, Problem> {
    text.parse().map_err(|error: asat_core::NameError| {
        Problem::new(Code::Malformed, error.to_string(), "the sets are those of the configuration ([[set]])")
    })
}

/// A business date in a body, a path or a query.
pub(super) fn business_date(text: &str) -> Result<Date, Problem> {
    // Other spellings of a date are refused: a label of days should sort and compare as text.
    let date = text.parse::<Date>().ok().filter(|date| date.to_string() == text);
    date.ok_or_else(|| {
        let text = shorten(text, 40);
        let what = if is_written_as_day(&text) { "is no day of the calendar" } else { "is not a date" };
        Problem::new(Code::Invalid, format!("business_date {text:?} {what}"), "write it as 2026-11-19")
    })
}

/// An instant in a path or a query.
pub(super) fn timestamp(field: &str, text: &str) -> Result<Timestamp, Problem> {
    instant::exact(text).map_err(|_| {
        let detail = format!("{field}: {:?} is not an instant", shorten(text, 80));
        let hint = if lost_plus(text) {
            "write the + of the offset as %2B"
        } else {
            "write it as RFC 3339 with an offset, for example 2026-11-19T17:00:00Z"
        };
        Problem::new(Code::Malformed, detail, hint)
    })
}

/// Whether an instant was written with a plus sign, which in a query stands for a space.
pub(super) fn lost_plus(text: &str) -> bool {
    text.contains(' ') && text.replace(' ', "+").parse::<Timestamp>().is_ok()
}

/// A lease's name in a path. Whatever the text, it is only looked up; a long one is cut before it is quoted.
pub(super) fn lease(text: &str) -> LeaseId {
    LeaseId(shorten(text, 80))
}

/// Keeps a hostile text from filling the answer that quotes it.
pub(super) fn shorten(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
