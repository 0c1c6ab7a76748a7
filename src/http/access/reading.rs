//! What an asat that follows a bucket refuses: it reads what others have published, and changes nothing of it.

use asat_core::{Code, Problem};
use axum::http::Method;

use super::needed;
use crate::config::{FollowConfig, Role};

/// Refuses what would change a history.
pub(super) fn check(follow: Option<&FollowConfig>, method: &Method, route: &str) -> Result<(), Problem> {
    let Some(follow) = follow else { return Ok(()) };
    let why = match () {
        () if is_far(route) => "would have to read all of it",
        () if changes(method, route) => "changes nothing of what is published there",
        () => return Ok(()),
    };
    let detail = format!("this asat follows {}, and {why}", follow.place.url);
    let hint = "ask the machine that publishes the store: asat remote status names it";
    Err(Problem::new(Code::ReadOnly, detail, hint))
}

/// Whether a request has the indexes or all of a history be read.
fn is_far(route: &str) -> bool {
    matches!(route, "/stores/{name}/verify" | "/stores/{name}/archive" | "/stores/{name}/retention")
}

/// Whether a request changes more than what is the daemon's own.
fn changes(method: &Method, route: &str) -> bool {
    let is_own = matches!(route, "/leases/{lease}" | "/capacity/alarms/acknowledge" | "/clock/accept");
    let is_change = needed(method, route) > Role::Read && ![Method::GET, Method::HEAD].contains(method);
    // What is not done is not planned either.
    is_change && !is_own || route == "/versions/{id}/retirement"
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn what_changes_a_history_is_refused_and_what_reads_it_is_not() {
        let config =
            Config::parse("[follow]\nurl = \"s3://history/reports\"", Path::new("/etc/asat")).unwrap();
        let calls = [
            (Method::GET, "/versions", true),
            (Method::GET, "/audit", true),
            (Method::POST, "/mounts", true),
            (Method::POST, "/versions/{id}/mounts", true),
            (Method::DELETE, "/versions/{id}/mounts/{lease}", true),
            (Method::DELETE, "/leases/{lease}", true),
            (Method::POST, "/page/leases/{lease}/end", true),
            (Method::POST, "/query", true),
            (Method::GET, "/stores", true),
            (Method::GET, "/stores/{name}/archive", false),
            (Method::GET, "/stores/{name}/retention", false),
            (Method::GET, "/versions/{id}/retirement", false),
            (Method::POST, "/capacity/alarms/acknowledge", true),
            (Method::POST, "/snapshots", false),
            (Method::DELETE, "/versions/{id}", false),
            (Method::POST, "/versions/{id}/unretire", false),
            (Method::PUT, "/versions/{id}/pin", false),
            (Method::DELETE, "/versions/{id}/pin", false),
            (Method::PUT, "/stores/{name}/tags/{tag}", false),
            (Method::DELETE, "/stores/{name}/tags/{tag}", false),
            (Method::POST, "/stores/{name}/restore", false),
            (Method::POST, "/stores/{name}/verify", false),
            (Method::POST, "/stores/{name}/remote/take-over", false),
            (Method::POST, "/stores/{name}/remote/push", false),
        ];
        for (method, route, is_allowed) in calls {
            let checked = check(config.follow.as_ref(), &method, route);
            assert_eq!(checked.is_ok(), is_allowed, "{method} {route}");
            assert!(checked.map_or_else(|problem| problem.code == Code::ReadOnly, |()| true));
            assert_eq!(check(None, &method, route), Ok(()), "{method} {route}");
        }
    }
}
