//! The head of each request: what holds for it on every route, before a handler sees it.
//!
//! Which routes take no parameters says the OpenAPI document: what it does not have is refused, and not overlooked, since who
//! sends it expects that it counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use asat_core::Code;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::{Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::extract::shorten;
use super::problem::Failure;
use super::route;

/// The operations that take no parameters in their query: the methods of each route.
#[derive(Clone)]
pub(super) struct Bare(Arc<BTreeMap<String, Vec<Method>>>);

impl Bare {
    /// Those of the document.
    pub(super) fn new(document: &Value) -> Self {
        let paths = document.get("paths").and_then(Value::as_object);
        let methods = |item: &Value| {
            let bare = item.as_object().into_iter().flatten().filter(|(_, operation)| !has_query(operation));
            let method = |name: &String| name.to_ascii_uppercase().parse().ok();
            bare.filter_map(|(name, _)| method(name)).collect()
        };
        Self(Arc::new(
            paths
                .into_iter()
                .flatten()
                .map(|(path, item)| (route::plain(path).to_owned(), methods(item)))
                .collect(),
        ))
    }

    fn has(&self, route: &str, method: &Method) -> bool {
        let Self(routes) = self;
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        routes.get(route).is_some_and(|methods| methods.contains(method))
    }
}

fn has_query(operation: &Value) -> bool {
    let parameters = operation.get("parameters").and_then(Value::as_array);
    parameters
        .into_iter()
        .flatten()
        .any(|parameter| parameter.get("in").is_some_and(|place| place == "query"))
}

/// Refuses a request that does not say what host it is for, and a query or a body that cannot be read or is not taken.
pub(super) async fn check(State(bare): State<Bare>, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let route = route::of(request.extensions());
    let takes_none = bare.has(route, request.method());
    let checked = check_host(&request).and_then(|()| check_query(query, takes_none));
    match checked.and_then(|()| check_body(&request)) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

/// RFC 9112 wants one `Host` in each request of HTTP/1.1, whatever it says.
fn check_host(request: &Request) -> Result<(), Failure> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts == 1 || hosts == 0 && request.version() < Version::HTTP_11 {
        return Ok(());
    }
    let detail = format!("the request has {hosts} headers Host, and must have one");
    Err(Failure::new(Code::Malformed, detail, "send one header Host"))
}

/// `DELETE` takes no body: many clients and proxies drop it, and what it says would be lost.
fn check_body(request: &Request) -> Result<(), Failure> {
    if *request.method() != Method::DELETE || request.body().is_end_stream() {
        return Ok(());
    }
    let hint = "leave it out, and write a reason as the parameter reason";
    Err(Failure::new(Code::Malformed, "the request has a body, and DELETE takes none", hint))
}

pub(crate) fn check_query(query: &str, takes_none: bool) -> Result<(), Failure> {
    let malformed = |detail: String, hint: &str| Err(Failure::new(Code::Malformed, detail, hint));
    let is_escape =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !query.split('%').skip(1).all(is_escape) {
        let detail = "the query: a % is not followed by two hexadecimal digits".to_owned();
        return malformed(detail, "write a % that is meant as %25");
    }
    let Ok(text) = percent_decode_str(query).decode_utf8() else {
        return malformed("the query: it is not UTF-8".to_owned(), "write it as UTF-8, percent-encoded");
    };
    if takes_none && !text.is_empty() {
        let name = text.split(['=', '&']).next().unwrap_or_default();
        let detail = format!("the query: unknown parameter {:?}: this takes none", shorten(name, 80));
        return malformed(detail, "leave it out; GET /v1/openapi.json describes every parameter");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_utf_8_in_whole_escapes_and_only_where_one_is_taken() {
        for query in ["", "label=a", "label=gr%C3%bcn", "label=100%25", "a+b"] {
            assert!(check_query(query, false).is_ok(), "{query}");
            assert_eq!(check_query(query, true).is_ok(), query.is_empty(), "{query}");
        }
        for query in ["label=%ff", "%ff=a", "label=%zz", "label=%f", "label=%", "label=%c3", "label=%%41"] {
            let refused = [false, true].map(|takes_none| check_query(query, takes_none).unwrap_err().0.code);
            assert_eq!(refused, [Code::Malformed; 2], "{query}");
        }
    }
}
