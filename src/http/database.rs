//! `GET /v1/versions/{id}/database`: a version as a download, straight from what holds it.

use std::sync::Arc;

use asat_core::version::Content;
use asat_core::{Code, Problem, VersionId};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use tracing::Instrument as _;

use super::extract::Segments;
use super::ranges::{Wanted, wanted};
use super::work::Share;
use super::{Answer, Caller, Face};
use crate::daemon::VersionBytes;
use asat_wire::ProblemBody;

/// How many bytes are read from the archive and sent at a time.
const PIECE: u64 = 256 * 1024;
/// How many pieces are read before the client has taken them.
const AHEAD: usize = 2;

/// Downloads a version as a SQLite database in rollback mode. Ranges are served, so that a download can go on
/// where it stopped; the `ETag` is the version's fingerprint, once that is known.
#[utoipa::path(
    get, path = "/versions/{id}/database", tag = "as-at copies",
    params(
        ("id" = String, Path, description = "`report@12` or `report@latest`"),
        ("Range" = Option<String>, Header, description = "One range of bytes"),
        ("If-Range" = Option<String>, Header, description = "The range is wanted of this ETag only"),
        ("If-None-Match" = Option<String>, Header, description = "Nothing is wanted of this ETag"),
    ),
    responses(
        (status = 200, description = "The whole database", content_type = "application/vnd.sqlite3"),
        (status = 206, description = "The range", content_type = "application/vnd.sqlite3"),
        (status = 304, description = "The caller has it already"),
        (status = 400, description = "No version's name", body = ProblemBody),
        (status = 404, description = "No such version", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 416, description = "The copy has no such bytes", body = ProblemBody),
        (status = 500, description = "Stored data is damaged", body = ProblemBody),
        (status = 503, description = "As many downloads are under way, or files are open, as there may be; or the bucket that has the version does not answer", body = ProblemBody),
    )
)]
pub(super) async fn download(
    State(face): State<Arc<Face>>,
    caller: Caller,
    method: Method,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let id = face.version_id(&id)?;
    let content = {
        let engine = face.handle.engine();
        let version = &engine.register().entry(&id)?.version;
        version.check_readable()?;
        let nothing =
            || Problem::new(Code::Internal, format!("{id} has no content"), "report this as a defect");
        version.content.clone().ok_or_else(nothing)?
    };
    let (length, etag) = (content.size_bytes(), etag(&id, &content));
    let mut answer = HeaderMap::new();
    answer.insert(header::ETAG, value(&etag)?);
    answer.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if names(&headers, header::IF_NONE_MATCH, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    let range = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    // A range is of this very copy, or the caller's part and the rest would not fit together.
    let current = headers.get(header::IF_RANGE).is_none_or(|tag| tag.as_bytes() == etag.as_bytes());
    let (status, from, to) = match wanted(range.filter(|_| current), length) {
        Wanted::Whole => (StatusCode::OK, 0, length),
        Wanted::Part(from, to) => (StatusCode::PARTIAL_CONTENT, from, to),
        Wanted::Nothing => return unsatisfiable(&id.to_string(), length),
    };
    if status == StatusCode::PARTIAL_CONTENT {
        answer.insert(
            header::CONTENT_RANGE,
            value(&format!("bytes {from}-{}/{length}", to.saturating_sub(1)))?,
        );
    }
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/vnd.sqlite3"));
    answer.insert(header::CONTENT_DISPOSITION, value(&format!("attachment; filename=\"{id}.db\""))?);
    answer.insert(header::CONTENT_LENGTH, HeaderValue::from(to - from));
    if method == Method::HEAD {
        return Ok((status, answer).into_response());
    }
    let share = face.work.downloads.take(&caller)?;
    let (machine, version) = (Arc::clone(&face.machine), id.clone());
    let source = face.work.run(move || machine.bytes(&version)).await.or_else(|problem| {
        // It may have been given up since it was looked up: then that is the answer.
        face.handle.engine().register().entry(&id)?.version.check_readable()?;
        Err(problem)
    })?;
    let source = Arc::new((source, id, share));
    // As long as nothing was promised, what is in the way can be said.
    let (first, length) = (Arc::clone(&source), PIECE.min(to - from));
    let first = face.work.run(move || piece(&first.0, &first.1, from, length)).await?;
    Ok((status, answer, stream_of(face, source, first, from + length..to)).into_response())
}

/// The entity tag: the content's fingerprint, or the version's own name and instant as long as that is not known.
fn etag(id: &VersionId, content: &Content) -> String {
    match content.fingerprint {
        Some(fingerprint) => format!("\"{fingerprint}\""),
        None => format!("\"{id} {}\"", content.cut_at),
    }
}

fn unsatisfiable(id: &str, length: u64) -> Answer<Response> {
    let detail = format!("{id} has {length} bytes, and none in the range that was asked for");
    let failure =
        super::problem::Failure::new(Code::RangeNotSatisfiable, detail, "ask for bytes that it has");
    let mut response = failure.into_response();
    response.headers_mut().insert(header::CONTENT_RANGE, value(&format!("bytes */{length}"))?);
    Ok(response)
}

/// Some bytes of a version. No thread waits for the client: one is taken for each piece, as soon as the client has taken an earlier
/// one. Damage that is found on the way breaks the connection: what was promised cannot be sent, and nothing else may be.
fn stream_of(
    face: Arc<Face>,
    source: Arc<(VersionBytes, VersionId, Share)>,
    first: Bytes,
    bytes: std::ops::Range<u64>,
) -> Body {
    // The share is given back when the stream is dropped: at its end, or when the client has gone.
    let cause = tracing::Span::current();
    let step = usize::try_from(PIECE).unwrap_or(usize::MAX);
    let pieces = stream::iter(bytes.clone().step_by(step)).map(move |at| {
        let (face, source) = (Arc::clone(&face), Arc::clone(&source));
        let length = PIECE.min(bytes.end - at);
        let read = async move { face.work.run(move || piece(&source.0, &source.1, at, length)).await };
        read.instrument(cause.clone())
    });
    Body::from_stream(stream::iter([Ok(first)]).chain(pieces.buffered(AHEAD)))
}

fn piece(source: &VersionBytes, id: &VersionId, at: u64, length: u64) -> Result<Bytes, Problem> {
    let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
    source.read_at(at, &mut piece).inspect_err(|problem| {
        tracing::error!(version = %id, "a download of {id} ends here: {problem}");
    })?;
    Ok(Bytes::from(piece))
}

/// Whether a conditional header names this entity tag. Versions never change, so weak and strong are one.
fn names(headers: &HeaderMap, name: header::HeaderName, etag: &str) -> bool {
    let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| {
        value.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
}

fn value(text: &str) -> Result<HeaderValue, Problem> {
    HeaderValue::from_str(text)
        .map_err(|error| Problem::new(Code::Internal, error.to_string(), "report this as a defect"))
}
