//! Problems as HTTP answers (RFC 9457).

use asat_core::{Code, Problem, VersionId};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tracing::field::display;

use asat_wire::ProblemBody;

/// A problem on its way to the caller.
#[derive(Debug)]
pub(crate) struct Failure(pub(super) Problem);

impl<E: Into<Problem>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Failure {
    pub(super) fn new(code: Code, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self(Problem::new(code, detail, hint))
    }
}

/// Is sent with a request that came while so many others were being answered, which are as many as may be: it is answered so.
#[derive(Clone, Copy, Debug)]
pub struct Crowded(pub usize);

impl IntoResponse for Crowded {
    fn into_response(self) -> Response {
        let detail = format!("{} connections are being answered, and there may not be more", self.0);
        Failure::new(Code::Overloaded, detail, "try again in a moment, or raise listen.max_connections")
            .into_response()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = status(problem.code);
        let (code, title) = problem.code.text();
        // What the request is called is added to it by whoever knows.
        let body = ProblemBody {
            kind: format!("/docs/problems/{code}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: problem.detail,
            code: code.to_owned(),
            hint: problem.hint,
            request: None,
        };
        let mut response = (status, axum::Json(&body)).into_response();
        response.extensions_mut().insert(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after(problem.code) {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Tells of an answer that is the daemon's own trouble, and of which version it was asked.
pub(super) fn tell(response: &Response, version: impl FnOnce() -> Option<VersionId>) {
    let Some(body) = response.extensions().get::<ProblemBody>() else { return };
    let status = response.status();
    // Whoever turns connections away tells of it, and not of each.
    if status.is_server_error() && body.code != Code::Overloaded.text().0 {
        let (version, ProblemBody { code, detail, hint, .. }) = (version(), body);
        let version = version.as_ref().map(display);
        tracing::warn!(version, code, "answered {status}: {detail} ({hint})");
    }
}

/// Says in an answer that is a problem what the request is called.
pub(super) fn name(response: &mut Response, request: &str) {
    let Some(body) = response.extensions_mut().remove::<ProblemBody>() else { return };
    let body = ProblemBody { request: Some(request.to_owned()), ..body };
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = axum::Json(body).into_response().into_body();
}

/// After how many seconds the same request may succeed; none if somebody has to do something first.
fn retry_after(code: Code) -> Option<u16> {
    match (code, status(code)) {
        (Code::ClockDoubted, _) => None,
        // A lease ends by itself or is given back, but rarely within a second.
        (_, StatusCode::TOO_MANY_REQUESTS) => Some(10),
        (_, StatusCode::SERVICE_UNAVAILABLE) => Some(1),
        _ => None,
    }
}

/// The HTTP status of each kind of problem.
pub(super) fn status(code: Code) -> StatusCode {
    match code {
        Code::Malformed => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::CrossSite => StatusCode::FORBIDDEN,
        Code::NotFound
        | Code::UnknownStore
        | Code::UnknownSet
        | Code::UnknownVersion
        | Code::UnknownLease
        | Code::UnknownTag
        | Code::BeforeFirst => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::Leased
        | Code::Pinned
        | Code::Tagged
        | Code::InUse
        | Code::LabelTaken
        | Code::Late
        | Code::NotReadable
        | Code::Fenced
        | Code::ReadOnly => StatusCode::CONFLICT,
        Code::TooManyLeases => StatusCode::TOO_MANY_REQUESTS,
        Code::Retired | Code::Purged => StatusCode::GONE,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        Code::Invalid
        | Code::CursorMismatch
        | Code::KeyReused
        | Code::StoreMissing
        | Code::StoreUnreadable
        | Code::CheckFailed
        | Code::MarkerFailed => StatusCode::UNPROCESSABLE_ENTITY,
        Code::StoreBusy
        | Code::HoldExceeded
        | Code::TooManyFiles
        | Code::LvmStuck
        | Code::ClockDoubted
        | Code::Overloaded
        | Code::RemoteUnavailable
        | Code::Stopping
        | Code::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        Code::Damaged | Code::Configuration | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_an_error_and_says_its_code() {
        for code in Code::ALL {
            let response = Failure::new(code, "what", "do").into_response();
            assert!(response.status().is_client_error() || response.status().is_server_error(), "{code:?}");
            assert_eq!(response.headers().get(CONTENT_TYPE).unwrap(), "application/problem+json");
            let retry = response.headers().contains_key(RETRY_AFTER);
            let may_pass = matches!(response.status().as_u16(), 429 | 503) && code != Code::ClockDoubted;
            assert_eq!(retry, may_pass, "{code:?}");
            // These are logged as they are answered, and by nobody else.
            assert_eq!(response.status().is_server_error(), code.is_trouble(), "{code:?}");
        }
    }
}
