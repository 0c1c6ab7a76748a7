//! Who may: over the Unix socket whom its permissions let in, or whom the configuration names; over TCP a token says what.

mod peers;
mod rules;
mod tokens;

use asat_core::audit::By;
use asat_core::{Code, Problem};
use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

pub use peers::Peer;
use peers::Peers;
pub use rules::Rules;

use super::problem::Failure;
use crate::config::Role;

/// How a listener lets callers in.
#[derive(Clone)]
pub enum Access {
    /// By the user at the other end of a Unix socket.
    Socket(Rules),
    /// By bearer token.
    Tokens(Rules),
}

/// Somebody who has shown who he is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// What he may do.
    pub(super) role: Role,
    /// Who he is, for the audit trail.
    pub(super) by: By,
}

/// Every handler of a route that is not public may ask who calls.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Self>().cloned();
        let unknown = || Failure::new(Code::Internal, "nobody has seen who calls", "report this as a defect");
        caller.ok_or_else(unknown)
    }
}

/// Whether the caller has shown that he may read: a public route answers everybody, and not everybody everything.
#[derive(Clone, Copy)]
pub(super) struct MayRead(pub(super) bool);

pub(super) async fn check(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>().map(|ConnectInfo(peer)| peer);
    let caller = access.caller(peer, request.headers()).await;
    // The route and not the path: what a path says is the caller's own text.
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if is_public(route) {
        request.extensions_mut().insert(MayRead(caller.is_ok()));
    } else {
        match caller.and_then(|caller| caller.allowed(request.method(), route)) {
            Ok(caller) => _ = request.extensions_mut().insert(caller),
            Err(problem) => return Failure(problem).into_response(),
        }
    }
    next.run(request).await
}

impl Access {
    async fn caller(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<Caller, Problem> {
        let Caller { role, by } = match self {
            Self::Socket(rules) => rules.peers().caller(peer).await?,
            Self::Tokens(rules) => tokens::caller(&rules.tokens(), headers, asat_host::clock::now())?,
        };
        Ok(Caller { role, by: By { request: request_name(headers), ..by } })
    }
}

impl Caller {
    /// Refuses what his role does not allow.
    fn allowed(self, method: &Method, route: &str) -> Result<Self, Problem> {
        let needed = needed(method, route);
        if self.role >= needed {
            return Ok(self);
        }
        let (needed, by, role) = (needed.text(), &self.by.actor, self.role.text());
        let detail = format!("this needs the role {needed}, and {by} has the role {role}");
        Err(Problem::new(Code::Forbidden, detail, "ask somebody who has that role"))
    }
}

/// What the caller calls his request. Anything that is no short visible text is left out of the trail.
fn request_name(headers: &HeaderMap) -> Option<String> {
    let name = headers.get("x-request-id")?.to_str().ok()?.trim();
    (1..=By::MAX_REQUEST).contains(&name.len()).then(|| name.to_owned())
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
    if route == "/audit" {
        Role::Admin
    } else if reads || [Method::GET, Method::HEAD].contains(method) {
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
    use axum::http::header::AUTHORIZATION;
    use jiff::{SignedDuration, Timestamp};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::config::Token;

    fn now() -> Timestamp {
        "2026-11-19T17:00:00Z".parse().unwrap()
    }

    fn token(text: &str, role: Role, lasts_s: Option<i64>) -> Token {
        let expires_at = lasts_s.map(|seconds| now() + SignedDuration::from_secs(seconds));
        Token { name: text.to_owned(), role, sha256: Sha256::digest(text).into(), expires_at }
    }

    fn caller(tokens: &[Token], authorization: Option<&str>) -> Result<Caller, Problem> {
        let headers = authorization.map(|value| (AUTHORIZATION, value.parse().unwrap()));
        tokens::caller(tokens, &headers.into_iter().collect(), now())
    }

    fn allowed(method: &Method, route: &str, authorization: Option<&str>) -> Result<(), Code> {
        let tokens =
            [token("r", Role::Read, None), token("p", Role::Publish, None), token("a", Role::Admin, None)];
        let caller = caller(&tokens, authorization).and_then(|caller| caller.allowed(method, route));
        caller.map(drop).map_err(|problem| problem.code)
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
            (Method::GET, "/audit", "a"),
            (Method::HEAD, "/audit", "a"),
            (Method::GET, "/leases", "rpa"),
            (Method::DELETE, "/leases/{lease}", "a"),
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
        assert!(is_public("/healthz"));
        assert_eq!(allowed(&Method::GET, "/versions", Some("bearer r")), Ok(()));
    }

    #[test]
    fn that_a_token_has_expired_is_told_to_who_shows_it() {
        let tokens = [token("old", Role::Admin, Some(0)), token("new", Role::Read, Some(1))];
        let expired = caller(&tokens, Some("Bearer old")).unwrap_err();
        assert_eq!(expired.code, Code::Unauthenticated);
        assert!(expired.detail.contains("\"old\" has expired at 2026-11-19T17:00:00Z"), "{expired}");
        assert!(caller(&tokens, Some("Bearer new")).is_ok());
        for wrong in [None, Some("Bearer other"), Some("Basic old"), Some("Bearer OLD")] {
            let refused = caller(&tokens, wrong).unwrap_err();
            assert!(!refused.detail.contains("expired"), "{wrong:?}: {refused}");
        }
        let twice = [
            token("t", Role::Read, None),
            token("t", Role::Publish, Some(9)),
            token("t", Role::Admin, Some(-9)),
        ];
        assert_eq!(caller(&twice, Some("Bearer t")).unwrap().role, Role::Publish);
    }

    #[test]
    fn a_request_has_the_name_that_its_caller_gives_it_if_that_can_be_written_down() {
        let name = |value: &[u8]| {
            let value = axum::http::HeaderValue::from_bytes(value).unwrap();
            request_name(&[("x-request-id".parse().unwrap(), value)].into_iter().collect())
        };
        assert_eq!(name(b" 7f3c-1 ").as_deref(), Some("7f3c-1"));
        assert_eq!(name(&[b'x'; 200]).map(|name| name.len()), Some(200));
        for odd in [&b""[..], b"  ", &[b'x'; 201], "gr\u{fc}n".as_bytes(), &[0xff]] {
            assert_eq!(name(odd), None, "{odd:?}");
        }
        assert_eq!(request_name(&HeaderMap::new()), None);
    }
}
