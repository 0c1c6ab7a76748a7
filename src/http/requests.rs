//! Each request, from its head to that of its answer: what it is called, and how long it took.
//!
//! The name goes with whatever the request causes: into the audit trail, into the log, and back to the caller. It is the
//! caller's own where he gives one that can be written anywhere, and else one that nobody had before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use asat_core::By;
use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::Instrument as _;

use super::problem::{self, Crowded};
use super::{Face, route};

/// The header in which a request is named, by the caller and to the caller.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The route of requests that meet none.
const NO_ROUTE: &str = "none";

/// What a request is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(HeaderValue);

impl Name {
    /// The name that a caller gives, if it is one word of visible characters that is not long.
    fn given(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(HEADER)?;
        let bytes = value.as_bytes();
        let is_fit = (1..=By::MAX_REQUEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
        is_fit.then(|| Self(value.clone()))
    }

    pub(super) fn text(&self) -> &str {
        // It is made of nothing else.
        self.0.to_str().unwrap_or_default()
    }
}

/// Makes names for requests that have none.
pub struct Names {
    /// Differs from start to start.
    start: String,
    next: AtomicU64,
}

impl Default for Names {
    fn default() -> Self {
        let random = uuid::Uuid::now_v7().simple().to_string();
        Self { start: random.chars().skip(24).collect(), next: AtomicU64::new(1) }
    }
}

impl Names {
    fn make(&self) -> Name {
        let name = format!("{}-{}", self.start, self.next.fetch_add(1, Ordering::Relaxed));
        Name(HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("none")))
    }
}

/// Names a request and its answer, has whatever is logged meanwhile name it, and counts it.
pub(super) async fn observe(State(face): State<Arc<Face>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let name = Name::given(request.headers()).unwrap_or_else(|| face.names.make());
    let span = asat_shell::request(name.text());
    let (method, route) = (counted(request.method()), request.extensions().get::<MatchedPath>().cloned());
    let wanted = match &route {
        Some(route) if route::plain(route.as_str()).starts_with("/versions/{id}") => {
            segment(&mut request, "id").await
        }
        _ => None,
    };
    request.extensions_mut().insert(name.clone());
    let mut response = match request.extensions().get::<Crowded>().copied() {
        Some(crowded) => crowded.into_response(),
        None => next.run(request).instrument(span.clone()).await,
    };
    span.in_scope(|| problem::tell(&response, || wanted.and_then(|id| face.version_id(&id).ok())));
    problem::name(&mut response, name.text());
    let (route, status) =
        (route.as_ref().map_or(NO_ROUTE, |route| route::plain(route.as_str())), response.status());
    face.handle.metrics().answered(route, method, status.as_u16(), began.elapsed());
    response.headers_mut().insert(HEADER, name.0);
    response
}

/// A segment of the path by its name in the route.
async fn segment(request: &mut Request, name: &str) -> Option<String> {
    let segments = request.extract_parts::<RawPathParams>().await.ok()?;
    segments.iter().find(|(of, _)| *of == name).map(|(_, text)| text.to_owned())
}

/// The method as it is counted: one that no route has is the caller's own text.
fn counted(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_name_that_its_caller_gives_it_if_that_can_be_written_anywhere() {
        let name = |value: &[u8]| {
            let headers = [(HEADER, HeaderValue::from_bytes(value).unwrap())].into_iter().collect();
            Name::given(&headers).map(|name| name.text().to_owned())
        };
        assert_eq!(name(b"7f3c-1").as_deref(), Some("7f3c-1"));
        assert_eq!(name(&[b'x'; 200]).map(|name| name.len()), Some(200));
        for odd in [&b""[..], b"  ", b"a b", b"a\tb", &[b'x'; 201], "gr\u{fc}n".as_bytes(), &[0xff]] {
            assert_eq!(name(odd), None, "{odd:?}");
        }
        assert_eq!(Name::given(&HeaderMap::new()), None);
    }

    #[test]
    fn no_name_is_made_twice() {
        let (names, others) = (Names::default(), Names::default());
        let made: std::collections::BTreeSet<String> =
            [&names, &names, &others, &others].map(|names| names.make().text().to_owned()).into();
        assert_eq!(made.len(), 4);
        assert!(made.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_graphic())), "{made:?}");
    }
}
