//! Who may: everybody whom the socket's permissions let in may do everything; over TCP a token says what.

use std::sync::Arc;

use asat_core::{Code, Problem};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::Failure;
use crate::config::{Role, Token};

/// How a listener lets callers in.
#[derive(Clone)]
pub enum Access {
    /// The permissions of the Unix socket have already decided.
    Socket,
    /// By bearer token.
    Tokens(Arc<Vec<Token>>),
}

/// Whether the caller has shown that he may read: a public route answers everybody, and not everybody everything.
#[derive(Clone, Copy)]
pub(super) struct MayRead(pub(super) bool);

pub(super) async fn check(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    // The route and not the path: what a path says is the caller's own text.
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if is_public(route) {
        let may_read = access.role_of(request.headers()).is_some();
        request.extensions_mut().insert(MayRead(may_read));
    } else if let Err(problem) = access.allow(request.method(), route, request.headers()) {
        return Failure(problem).into_response();
    }
    next.run(request).await
}

impl Access {
    fn allow(&self, method: &Method, route: &str, headers: &HeaderMap) -> Result<(), Problem> {
        let role = self.role_of(headers).ok_or_else(|| {
            let hint = "send the header Authorization: Bearer TOKEN with a token of the configuration";
            Problem::new(Code::Unauthenticated, "the request carries no valid token", hint)
        })?;
        let needed = needed(method, route);
        if role >= needed {
            return Ok(());
        }
        let detail = format!("this needs the role {needed:?}, and the token has the role {role:?}");
        Err(Problem::new(Code::Forbidden, detail, "use a token with that role"))
    }

    /// What the caller may do; `None` where nothing says that he may do anything.
    fn role_of(&self, headers: &HeaderMap) -> Option<Role> {
        let Self::Tokens(tokens) = self else { return Some(Role::Admin) };
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok())?;
        let (kind, token) = header.split_once(' ')?;
        if kind.eq_ignore_ascii_case("bearer") { role(tokens, token.trim()) } else { None }
    }
}

/// The role of a token. Every token is compared, each in constant time, so that the time tells nothing.
fn role(tokens: &[Token], given: &str) -> Option<Role> {
    let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
    let mut found = None;
    for token in tokens {
        if bool::from(token.sha256.ct_eq(&given)) {
            found = found.max(Some(token.role));
        }
    }
    found
}

/// Whether a route tells everybody who asks: whether the daemon lives, and nothing of what it keeps.
pub(super) fn is_public(route: &str) -> bool {
    matches!(route, "/healthz" | "/readyz")
}

/// The role that a request needs. To open a version is to read it; where there is no route there is nothing to
/// keep from anybody.
pub(super) fn needed(method: &Method, route: &str) -> Role {
    let reads = matches!(
        route,
        "" | "/versions/{id}/mounts"
            | "/versions/{id}/mounts/{lease}"
            | "/stores/{name}/verify"
            | "/stores/{name}/retention"
    );
    if reads || [Method::GET, Method::HEAD].contains(method) {
        Role::Read
    } else if *method == Method::DELETE
        || matches!(route, "/stores/{name}/restore" | "/capacity/alarms/acknowledge")
    {
        Role::Admin
    } else {
        Role::Publish
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let token =
            |text: &str, role| Token { name: text.to_owned(), role, sha256: Sha256::digest(text).into() };
        Access::Tokens(Arc::new(vec![
            token("r", Role::Read),
            token("p", Role::Publish),
            token("a", Role::Admin),
        ]))
    }

    fn allowed(method: &Method, route: &str, authorization: Option<&str>) -> Result<(), Code> {
        let headers = authorization.map(|value| (AUTHORIZATION, value.parse().unwrap()));
        access().allow(method, route, &headers.into_iter().collect()).map_err(|problem| problem.code)
    }

    #[test]
    fn a_role_allows_what_it_says_and_no_more() {
        let calls = [
            (Method::GET, "/versions", "rpa"),
            (Method::POST, "/versions/{id}/mounts", "rpa"),
            (Method::DELETE, "/versions/{id}/mounts/{lease}", "rpa"),
            (Method::POST, "/stores/{name}/verify", "rpa"),
            (Method::POST, "/stores/{name}/retention", "rpa"),
            (Method::DELETE, "", "rpa"),
            (Method::POST, "/snapshots", "pa"),
            (Method::PUT, "/versions/{id}/pin", "pa"),
            (Method::DELETE, "/versions/{id}/pin", "a"),
            (Method::DELETE, "/versions/{id}", "a"),
            (Method::POST, "/stores/{name}/restore", "a"),
            (Method::GET, "/capacity", "rpa"),
            (Method::GET, "/versions/{id}/why", "rpa"),
            (Method::POST, "/capacity/alarms/acknowledge", "a"),
        ];
        for (method, route, roles) in calls {
            for role in ["r", "p", "a"] {
                let expected = if roles.contains(role) { Ok(()) } else { Err(Code::Forbidden) };
                let header = format!("Bearer {role}");
                assert_eq!(allowed(&method, route, Some(&header)), expected, "{method} {route} as {role}");
            }
        }
    }

    #[test]
    fn without_a_valid_token_only_liveness_is_told() {
        for header in
            [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Bearer x"), Some("Basic r"), Some("r")]
        {
            assert_eq!(allowed(&Method::GET, "/versions", header), Err(Code::Unauthenticated), "{header:?}");
        }
        assert!(is_public("/healthz") && access().role_of(&HeaderMap::new()).is_none());
        assert_eq!(allowed(&Method::GET, "/versions", Some("bearer r")), Ok(()));
        assert!(Access::Socket.allow(&Method::DELETE, "/versions/{id}", &HeaderMap::new()).is_ok());
    }
}
