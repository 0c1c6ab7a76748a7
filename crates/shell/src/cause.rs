//! Whose request causes what is logged.

use asat_core::By;
use tracing::Span;

/// The span of what somebody's request causes: each line that is logged in it names the request. It is empty if there is none.
#[must_use]
pub fn caused_by(by: &By) -> Span {
    by.request.as_deref().map_or_else(Span::none, request)
}

/// The same of a request by its name.
#[must_use]
pub fn request(name: &str) -> Span {
    // The name stays with what is logged, whatever level is left out.
    tracing::error_span!("by", request = %name)
}
