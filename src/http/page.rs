//! Pages for people: the status page at `/`, those of versions, stores and the audit trail below `/page`, the API reference at `/docs`, and
//! how a browser signs in.
//!
//! They are rendered here, from the very values that the JSON is made of. The one script asks for the page again when something has
//! happened, and sends what its forms say to the routes that every client uses; nothing can be done here that could not be done there.

mod assets;
mod calendar;
mod capacity;
mod consequences;
mod home;
mod leases;
mod list;
mod meanings;
mod plots;
mod reference;
mod schema;
mod store;
mod timeline;
mod trail;
mod verdict;
mod version;
mod words;

use std::sync::Arc;

use asat_core::{Code, Problem};
use askama::Template;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, OriginalUri, Request};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::access::{Access, Address, Caller, SignedIn};
use super::problem::Failure;
use super::requests::Name;
use super::{Answer, Face};
use crate::config::Role;
use asat_wire::ProblemBody;

/// What a page may load: what this daemon serves, and nothing that stands in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of the pages. They are no part of the API, and not in its document.
pub(super) fn routes(document: &Value, access: Access) -> Router<Arc<Face>> {
    Router::new()
        .route("/", get(home::show))
        .route("/docs", get(reference::show))
        .route("/docs/problems/{code}", get(meanings::show))
        .route("/page/versions/{id}", get(version::show))
        .route("/page/stores/{name}", get(store::show))
        .route("/page/audit", get(trail::show))
        .route("/page/leases/{lease}/end", post(leases::end))
        .route("/page/{*rest}", get(nothing))
        .route("/assets/{name}", get(assets::show))
        .route("/sign-in", post(sign_in).get(go_home))
        .route("/sign-out", post(sign_out).get(go_home))
        .layer(Extension(access))
        .layer(Extension(Arc::new(reference::Reference::new(document))))
}

/// Whether a route is a page on which somebody who has not signed in can do that.
pub(super) fn is_for_people(route: &str) -> bool {
    matches!(
        route,
        "/" | "/docs"
            | "/docs/problems/{code}"
            | "/page/versions/{id}"
            | "/page/stores/{name}"
            | "/page/audit"
            | "/page/{*rest}"
    )
}

/// What all pages have in common.
struct Frame {
    style: &'static str,
    script: &'static str,
    icon: &'static str,
    version: &'static str,
    who: Option<Who>,
}

/// Who looks at the page.
struct Who {
    name: String,
    role: &'static str,
    /// Whether the caller has a session to end.
    signed_in: bool,
    /// Whether the caller may read the audit trail.
    may_audit: bool,
}

impl Frame {
    fn new(who: Option<Who>) -> Self {
        let (style, script, icon) = (assets::style(), assets::script(), assets::icon());
        Self { style, script, icon, version: env!("CARGO_PKG_VERSION"), who }
    }

    fn of(caller: &Caller, SignedIn(signed_in): SignedIn) -> Self {
        Self::new(Some(Who {
            name: caller.by.actor.clone(),
            role: caller.role.text(),
            signed_in,
            may_audit: caller.role >= Role::Admin,
        }))
    }
}

/// What a field of a form says; one that was left empty says nothing.
fn given(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A text as a part of an address.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A page as it is sent. It is never kept: it says what is now, to who may know.
fn answer(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => {
            let headers = [
                (CONTENT_SECURITY_POLICY, POLICY),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
                // With no-referrer a browser would not say whose form it sends either.
                (REFERRER_POLICY, "same-origin"),
                (CACHE_CONTROL, "no-store"),
            ];
            (status, headers, Html(text)).into_response()
        }
        Err(error) => {
            let detail = format!("the page cannot be written: {error}");
            Failure::new(Code::Internal, detail, "use the JSON API, and report this as a defect")
                .into_response()
        }
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    problem: &'a ProblemBody,
}

/// Shows a problem of a request for a page as a page, if a browser asks. What is the daemon's own trouble stays what the log tells of.
pub(super) async fn for_people(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_page = path == "/"
        || path == "/docs"
        || path.starts_with("/docs/")
        || path == "/page"
        || path.starts_with("/page/");
    let is_browser = is_page && request.method() == Method::GET && accepts_pages(request.headers());
    let name = request.extensions().get::<Name>().map(|name| name.text().to_owned());
    let response = next.run(request).await;
    let status = response.status();
    let Some(problem) =
        response.extensions().get::<ProblemBody>().filter(|_| is_browser && status.is_client_error())
    else {
        return response;
    };
    let problem = ProblemBody { request: name, ..problem.clone() };
    let mut page = answer(status, &ProblemPage { frame: Frame::new(None), problem: &problem });
    for (header, value) in response.headers() {
        if header != CONTENT_LENGTH && !page.headers().contains_key(header) {
            page.headers_mut().append(header, value.clone());
        }
    }
    page
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.into_iter().any(|accepted| accepted.to_ascii_lowercase().contains("text/html"))
}

async fn nothing(OriginalUri(uri): OriginalUri) -> Failure {
    let path: String = uri.path().chars().take(200).collect();
    Failure::new(
        Code::NotFound,
        format!("there is no page at {path}"),
        "the status page leads to those that there are",
    )
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: Frame,
    problem: Option<&'a Problem>,
}

/// The form on which a token is shown, with what was wrong with the last one.
pub(super) fn sign_in_form(problem: Option<&Problem>) -> Response {
    let mut response = answer(StatusCode::UNAUTHORIZED, &SignInPage { frame: Frame::new(None), problem });
    let headers = response.headers_mut();
    headers.insert(axum::http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// What the form says.
#[derive(Deserialize)]
struct SignIn {
    token: String,
}

async fn sign_in(
    Extension(access): Extension<Access>,
    address: Option<Extension<Address>>,
    headers: HeaderMap,
    form: Result<Form<SignIn>, FormRejection>,
) -> Answer<Response> {
    let Form(SignIn { token }) = form.map_err(|error| {
        let detail = format!("the form: {}", error.body_text());
        Problem::new(Code::Malformed, detail, "sign in on the page at /")
    })?;
    match access.sign_in(&token, &headers, address.as_deref()) {
        Ok(cookie) => went(cookie),
        Err(problem) if problem.code == Code::Unauthenticated => Ok(sign_in_form(Some(&problem))),
        Err(problem) => Err(problem.into()),
    }
}

async fn sign_out(Extension(access): Extension<Access>, headers: HeaderMap) -> Answer<Response> {
    went(access.sign_out(&headers))
}

async fn go_home() -> Redirect {
    Redirect::to("/")
}

/// Leads back to the status page, with another cookie.
fn went(cookie: Option<String>) -> Answer<Response> {
    let mut response = Redirect::to("/").into_response();
    if let Some(cookie) = cookie {
        let cookie = HeaderValue::from_str(&cookie)
            .map_err(|error| Problem::new(Code::Internal, error.to_string(), "report this as a defect"))?;
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}
