//! One request to the daemon, as a value.

use asat_core::{Code, Problem};
use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// What may stand unescaped in a path segment (RFC 3986, `pchar`), as far as names and instants need it.
const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@').remove(b':');
/// What may stand unescaped in a query value; `+` may not, as it would be read as a space.
const VALUE: &AsciiSet = SEGMENT;

/// The version of the API that is asked for.
const VERSION: &str = "/v1";

/// A request: what to do with which resource.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to do.
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) target: String,
    /// The same publication is not made twice under one key.
    pub(crate) key: Option<String>,
    /// The body, as JSON.
    pub(crate) body: Option<Vec<u8>>,
    /// Whether the daemon may have to work for minutes before it answers.
    pub(crate) long: bool,
}

impl Request {
    fn new(method: Method, segments: &[&str]) -> Self {
        let segments = segments.iter().map(|segment| format!("/{}", utf8_percent_encode(segment, SEGMENT)));
        let target = std::iter::once(VERSION.to_owned()).chain(segments).collect();
        Self { method, target, key: None, body: None, long: false }
    }

    /// Reads what has no version: `healthz`, `readyz` or `metrics`.
    #[must_use]
    pub fn unversioned(name: &str) -> Self {
        Self { target: format!("/{name}"), ..Self::get(&[]) }
    }

    /// Reads a resource; a segment of its path may hold anything.
    #[must_use]
    pub fn get(segments: &[&str]) -> Self {
        Self::new(Method::GET, segments)
    }

    /// Has something done to a resource.
    #[must_use]
    pub fn post(segments: &[&str]) -> Self {
        Self::new(Method::POST, segments)
    }

    /// Puts something in the place of a resource, or makes it.
    #[must_use]
    pub fn put(segments: &[&str]) -> Self {
        Self::new(Method::PUT, segments)
    }

    /// Gives a resource up.
    #[must_use]
    pub fn delete(segments: &[&str]) -> Self {
        Self::new(Method::DELETE, segments)
    }

    /// Adds `name=value` to the query, where there is a value.
    #[must_use]
    pub fn query(mut self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        if let Some(value) = value {
            self.target.push(if self.target.contains('?') { '&' } else { '?' });
            self.target.push_str(name);
            self.target.push('=');
            self.target.extend(utf8_percent_encode(value.as_ref(), VALUE));
        }
        self
    }

    /// Sends this as the body.
    ///
    /// # Errors
    /// [`Code::Internal`] if it cannot be written as JSON.
    pub fn json<T: Serialize>(mut self, body: &T) -> Result<Self, Problem> {
        let bytes = serde_json::to_vec(body).map_err(|error| {
            Problem::new(Code::Internal, format!("cannot write the request as JSON: {error}"), "")
        })?;
        self.body = Some(bytes);
        Ok(self)
    }

    /// Makes it safe to send twice.
    #[must_use]
    pub fn keyed(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Waits for the answer as long as it takes.
    #[must_use]
    pub fn long(mut self) -> Self {
        self.long = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_escaped() {
        let request = Request::get(&["versions", "report@12", "a/b ü%"])
            .query("label", Some("2026-11-19 close & more+?#"))
            .query("store", None::<&str>)
            .query("from", Some("2026-11-19T17:00:00Z"));
        assert_eq!(
            request.target,
            "/v1/versions/report@12/a%2Fb%20%C3%BC%25?label=2026-11-19%20close%20%26%20more%2B%3F%23\
             &from=2026-11-19T17:00:00Z"
        );
    }
}
