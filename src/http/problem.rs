//! Problems as HTTP answers (RFC 9457).

use asat_core::{Code, Problem};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::wire::ProblemBody;

/// A problem on its way to the caller.
#[derive(Debug)]
pub(super) struct Failure(pub(super) Problem);

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

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = status(problem.code);
        if status.is_server_error() {
            tracing::warn!(code = problem.code.text().0, "answered {status}: {problem}");
        }
        let (code, title) = problem.code.text();
        let body = ProblemBody {
            kind: format!("urn:asat:problem:{code}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: problem.detail,
            code: code.to_owned(),
            hint: problem.hint,
        };
        let mut response = (status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The HTTP status of each kind of problem.
fn status(code: Code) -> StatusCode {
    match code {
        Code::Malformed | Code::CursorMismatch => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::NotFound
        | Code::UnknownStore
        | Code::UnknownSet
        | Code::UnknownVersion
        | Code::UnknownLease
        | Code::UnknownTag
        | Code::BeforeFirst => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::Leased | Code::Pinned | Code::Tagged | Code::InUse | Code::LabelTaken | Code::NotReadable => {
            StatusCode::CONFLICT
        }
        Code::Retired => StatusCode::GONE,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        Code::Invalid
        | Code::KeyReused
        | Code::StoreMissing
        | Code::StoreUnreadable
        | Code::CheckFailed
        | Code::MarkerFailed => StatusCode::UNPROCESSABLE_ENTITY,
        Code::StoreBusy | Code::HoldExceeded | Code::LvmStuck | Code::Stopping | Code::Unreachable => {
            StatusCode::SERVICE_UNAVAILABLE
        }
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
            assert_eq!(retry, response.status() == StatusCode::SERVICE_UNAVAILABLE, "{code:?}");
        }
    }
}
