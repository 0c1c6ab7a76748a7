//! Who may: over the Unix socket whom its permissions let in, or whom the configuration names; over TCP a token says what, or a
//! session that was begun with one.

mod address;
mod peers;
mod reading;
mod rules;
mod sessions;
mod site;
mod tokens;

use std::time::Duration;

use asat_core::{By, Code, Problem};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

pub use address::{Address, Source};
pub use peers::Peer;
use peers::Peers;
pub use rules::Rules;

use super::problem::Failure;
use super::requests::Name;
use super::{page, route, status};
use crate::config::{Role, Token};

/// How long a public route waits to know who asks.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a listener lets callers in.
#[derive(Clone)]
pub enum Access {
    /// By the user at the other end of a Unix socket.
    Socket(Rules),
    /// By bearer token, or by the cookie of a session.
    Tokens(Rules),
}

/// A caller whose identity is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// What the caller may do.
    pub(super) role: Role,
    /// The caller's name in the audit trail.
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

/// Whether the caller has shown the right to read: a public route answers everybody, and not everybody everything.
#[derive(Clone, Copy)]
pub(super) struct MayRead(pub(super) bool);

pub(super) async fn check(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let name = request.extensions().get::<Name>().map(|name| name.text().to_owned());
    let route = route::of(request.extensions());
    let public = is_public(route);
    let found = access.caller(request.extensions(), request.headers());
    // A public route answers also while it cannot be found out who asks.
    let patience = if public { PATIENCE } else { Duration::MAX };
    let found = tokio::time::timeout(patience, found).await.unwrap_or_else(|_| Err(unknown()));
    let found =
        found.map(|(Caller { role, by }, means)| (Caller { role, by: By { request: name, ..by } }, means));
    let by_cookie = matches!(found, Ok((_, Means::Cookie)));
    if (public || found.is_ok())
        && let Err(problem) = site::check(request.method(), request.headers(), by_cookie)
    {
        return Failure(problem).into_response();
    }
    if public {
        request.extensions_mut().insert(MayRead(found.is_ok()));
    } else {
        let allowed = found.and_then(|(caller, _)| caller.allowed(request.method(), route));
        let follow = access.rules().follow();
        match allowed.and_then(|caller| reading::check(follow, request.method(), route).map(|()| caller)) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                request.extensions_mut().insert(SignedIn(by_cookie));
            }
            Err(problem) if problem.code == Code::Unauthenticated && page::is_for_people(route) => {
                return page::sign_in_form(None);
            }
            Err(problem) => return Failure(problem).into_response(),
        }
    }
    next.run(request).await
}

fn unknown() -> Problem {
    Problem::new(Code::Overloaded, "it takes too long to find out who asks", "try again in a moment")
}

/// Whether the caller came in by a session, which the caller can end.
#[derive(Clone, Copy)]
pub(super) struct SignedIn(pub(super) bool);

/// How a caller has shown an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// By what only the caller has: a token, or a process on this machine.
    Own,
    /// By a cookie, which a browser sends with whatever any page asks of it.
    Cookie,
}

impl Access {
    fn rules(&self) -> &Rules {
        match self {
            Self::Socket(rules) | Self::Tokens(rules) => rules,
        }
    }

    async fn caller(&self, from: &Extensions, headers: &HeaderMap) -> Result<(Caller, Means), Problem> {
        match self {
            Self::Socket(rules) => Ok((rules.peers().caller(from.get::<Peer>()).await?, Means::Own)),
            Self::Tokens(rules) => {
                let (tokens, now) = (rules.tokens(), asat_host::clock::now());
                let session = rules.sessions().token(&tokens, headers, now);
                let bearer = tokens::bearer(headers);
                if let Some(token) = session.filter(|_| bearer.is_none()) {
                    return Ok((Caller::with(token), Means::Cookie));
                }
                let caller = tokens::caller(&tokens, headers, now);
                // Who shows none has not tried one.
                if let (Err(problem), Some(_)) = (&caller, bearer) {
                    rules.refusals().tell(from.get::<Address>(), problem);
                }
                Ok((caller?, Means::Own))
            }
        }
    }

    /// Begins a session for a caller who shows a token; answers the cookie, or nothing if none is needed.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`] where the token does not count.
    pub(super) fn sign_in(
        &self,
        token: &str,
        headers: &HeaderMap,
        from: Option<&Address>,
    ) -> Result<Option<String>, Problem> {
        let Self::Tokens(rules) = self else { return Ok(None) };
        let (tokens, now) = (rules.tokens(), asat_host::clock::now());
        let known = tokens::shown(&tokens, token.trim(), now).and_then(|token| {
            let hint = "see that it was copied whole, or ask the administrator of asat for one";
            token.ok_or_else(|| Problem::new(Code::Unauthenticated, "the token is not known", hint))
        });
        let token = known.inspect_err(|problem| rules.refusals().tell(from, problem))?;
        rules.sessions().begin(token, headers, now).map(Some)
    }

    /// Ends the session of a request, if it has one; answers the cookie that takes its own away.
    pub(super) fn sign_out(&self, headers: &HeaderMap) -> Option<String> {
        match self {
            Self::Tokens(rules) => Some(rules.sessions().end(headers)),
            Self::Socket(_) => None,
        }
    }
}

impl Caller {
    /// The bearer of a token.
    fn with(token: &Token) -> Self {
        Self { role: token.role, by: By::token(&token.name) }
    }

    /// Refuses what the caller's role does not allow.
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

/// Whether a route answers everybody who asks: whether the daemon lives, how to come in, and nothing of what it keeps.
pub(super) fn is_public(route: &str) -> bool {
    status::is_of_health(route)
        || matches!(route, "/assets/{name}" | "/docs/problems/{code}" | "/sign-in" | "/sign-out")
}

/// The role that a request needs. To open a version, or to ask a query, is to read it; if there is no route there is nothing to
/// keep from anybody.
pub(super) fn needed(method: &Method, route: &str) -> Role {
    let reads = matches!(
        route,
        "" | "/mounts"
            | "/versions/{id}/mounts"
            | "/versions/{id}/mounts/{lease}"
            | "/stores/{name}/verify"
            | "/query"
            | "/page/leases/{lease}/end"
    );
    if matches!(route, "/audit" | "/page/audit") {
        Role::Admin
    } else if reads || [Method::GET, Method::HEAD].contains(method) {
        Role::Read
    } else if *method == Method::DELETE
        || matches!(
            route,
            "/stores/{name}/restore"
                | "/stores/{name}/remote/take-over"
                | "/capacity/alarms/acknowledge"
                | "/versions/{id}/unretire"
                | "/clock/accept"
        )
    {
        Role::Admin
    } else {
        Role::Publish
    }
}

/// Does something while the one thread that there is for blocking work has some.
#[cfg(test)]
fn while_threads_are_busy(work: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
    let (done, until_done) = std::sync::mpsc::channel::<()>();
    let busy = runtime.spawn_blocking(move || until_done.recv());
    runtime.block_on(work);
    assert!(!busy.is_finished());
    drop(done);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use axum::body::{Body, to_bytes};
    use axum::http::header::AUTHORIZATION;
    use axum::routing::get;
    use axum::{Extension, Router, middleware};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use jiff::{SignedDuration, Timestamp};
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::config::{Config, Token};

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
    fn a_public_route_answers_while_nobody_can_find_out_who_asks() {
        let text =
            "state = \"/s\"\n[listen]\nunix = \"/run/s\"\n[[peer]]\nuser = \"daemon\"\nrole = \"read\"\n";
        let config = Config::parse(text, Path::new("/etc/asat")).unwrap();
        while_threads_are_busy(async {
            let answer = |Extension(MayRead(may_read))| async move { format!("{may_read}") };
            let app = Router::new().route("/healthz", get(answer));
            let app = app.layer(middleware::from_fn_with_state(Access::Socket(Rules::new(&config)), check));
            let mut request = Request::builder().uri("/healthz").body(Body::empty()).unwrap();
            request.extensions_mut().insert(Peer::of_user(3_999_999_998));
            let answered = TowerToHyperService::new(app).call(request);
            let answered = tokio::time::timeout(Duration::from_secs(20), answered).await.unwrap().unwrap();
            assert_eq!(to_bytes(answered.into_body(), 100).await.unwrap(), "false");
        });
    }

    #[test]
    fn a_role_allows_what_it_says_and_no_more() {
        let calls = [
            (Method::GET, "/versions", "rpa"),
            (Method::POST, "/mounts", "rpa"),
            (Method::POST, "/versions/{id}/mounts", "rpa"),
            (Method::DELETE, "/versions/{id}/mounts/{lease}", "rpa"),
            (Method::POST, "/stores/{name}/verify", "rpa"),
            (Method::GET, "/stores/{name}/retention", "rpa"),
            (Method::GET, "/versions/{id}/retirement", "rpa"),
            (Method::DELETE, "", "rpa"),
            (Method::POST, "/snapshots", "pa"),
            (Method::PUT, "/versions/{id}/pin", "pa"),
            (Method::DELETE, "/versions/{id}/pin", "a"),
            (Method::DELETE, "/versions/{id}", "a"),
            (Method::POST, "/versions/{id}/unretire", "a"),
            (Method::POST, "/stores/{name}/restore", "a"),
            (Method::POST, "/stores/{name}/remote/take-over", "a"),
            (Method::POST, "/stores/{name}/remote/push", "pa"),
            (Method::GET, "/capacity", "rpa"),
            (Method::GET, "/versions/{id}/why", "rpa"),
            (Method::POST, "/capacity/alarms/acknowledge", "a"),
            (Method::GET, "/clock", "rpa"),
            (Method::POST, "/clock/accept", "a"),
            (Method::GET, "/audit", "a"),
            (Method::HEAD, "/audit", "a"),
            (Method::GET, "/metrics", "rpa"),
            (Method::GET, "/leases", "rpa"),
            (Method::DELETE, "/leases/{lease}", "a"),
            (Method::GET, "/page/audit", "a"),
            (Method::GET, "/page/stores/{name}", "rpa"),
            (Method::POST, "/page/leases/{lease}/end", "rpa"),
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
}
