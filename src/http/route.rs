//! The route of a request: the same one with the version of the API before it and without.
//!
//! Whatever depends on the route asks here, so no rule holds for one spelling alone. A path without a version is that of the
//! newest version.

use axum::extract::MatchedPath;
use axum::http::Extensions;

/// The version of the API, as each of its paths begins.
pub(super) const VERSION: &str = "/v1";

/// The route that a request has met, without the version; empty if it has met none.
pub(super) fn of(request: &Extensions) -> &str {
    // The route and not the path: what a path says is the caller's own text.
    request.get::<MatchedPath>().map_or("", |route| plain(route.as_str()))
}

/// A route without the version.
pub(super) fn plain(route: &str) -> &str {
    route.strip_prefix(VERSION).unwrap_or(route)
}
