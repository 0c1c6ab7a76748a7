//! Whether a browser sends a request on behalf of a page of another site, and that such a one changes nothing.
//!
//! A browser that is signed in, or one that reaches the Unix socket by way of a proxy, would lend its rights to any page that it shows.
//! It says whose page that is: in `Sec-Fetch-Site` (<https://www.w3.org/TR/fetch-metadata/>) where the connection is encrypted or
//! stays on the machine, and in `Origin` otherwise. No page can change either. Other programs send neither.
//!
//! For a browser, the site includes all ports of a host, and cookies go to all of them; here only the very same origin is trusted.

use asat_core::{Code, Problem};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};

/// Refuses what would change something and comes from elsewhere, or from a browser that does not say from where.
///
/// # Errors
/// [`Code::CrossSite`].
pub(super) fn check(method: &Method, headers: &HeaderMap, by_cookie: bool) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let (detail, hint) = match is_own(headers) {
        Some(true) => return Ok(()),
        // Only browsers have cookies.
        None if !by_cookie => return Ok(()),
        None => (
            "the request is signed in by a cookie and does not say which page sent it",
            "send a token instead",
        ),
        Some(false) => (
            "a page of another site sent the request",
            "do it on asat's own page, or with a client of its own",
        ),
    };
    Err(Problem::new(Code::CrossSite, detail, hint))
}

/// Whether a page of asat's own sent it, or a person; `None` if it does not say.
fn is_own(headers: &HeaderMap) -> Option<bool> {
    let text =
        |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site".parse().ok()?) {
        return Some(matches!(site, "same-origin" | "none"));
    }
    let origin = text(ORIGIN)?;
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    Some(
        host.is_some_and(|host| {
            !host.is_empty() && text(HOST).is_some_and(|own| own.eq_ignore_ascii_case(host))
        }),
    )
}

/// Whether the browser's connection is encrypted, by a proxy before asat. The browser's own word is in `Origin`, which it sends with
/// every form; proxies add `X-Forwarded-Proto` or `Forwarded` (RFC 7239).
pub(super) fn is_encrypted(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_https = |word: &str| word.trim().trim_matches('"').eq_ignore_ascii_case("https");
    let of_first_hop = |text: &str| -> Vec<String> {
        let hop = text.split(',').next().unwrap_or_default();
        hop.split(';').map(|part| part.trim().to_ascii_lowercase()).collect()
    };
    text("origin").to_ascii_lowercase().starts_with("https://")
        || text("x-forwarded-proto").split(',').next().is_some_and(is_https)
        || of_first_hop(text("forwarded"))
            .iter()
            .any(|part| part.strip_prefix("proto=").is_some_and(is_https))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: &Method, headers: &[(&str, &str)], by_cookie: bool) -> bool {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        check(method, &headers, by_cookie).is_ok()
    }

    #[test]
    fn an_encrypted_connection_is_known_by_the_browser_or_by_the_proxy() {
        let cases = [
            ("origin", "https://asat.example", true),
            ("origin", "http://asat.example", false),
            ("origin", "null", false),
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "HTTPS, http", true),
            ("x-forwarded-proto", "http, https", false),
            ("forwarded", "for=192.0.2.60;proto=https;by=203.0.113.43", true),
            ("forwarded", "for=192.0.2.60; Proto=\"https\", for=10.0.0.1;proto=http", true),
            ("forwarded", "for=192.0.2.60;proto=http, for=10.0.0.1;proto=https", false),
            ("forwarded", "proto=httpsx", false),
            ("host", "https", false),
        ];
        for (name, value, expected) in cases {
            let headers = [(name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())]
                .into_iter()
                .collect();
            assert_eq!(is_encrypted(&headers), expected, "{name}: {value}");
        }
    }

    #[test]
    fn only_asats_own_page_may_use_what_a_browser_may() {
        let host = ("host", "asat.example:7878");
        type Headers<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Headers<'_>, bool, bool); 14] = [
            // What a browser says, and whether it may without and with a cookie.
            (&[host], true, false),
            (&[host, ("sec-fetch-site", "same-origin")], true, true),
            (&[host, ("sec-fetch-site", "none")], true, true),
            (&[host, ("sec-fetch-site", "same-site")], false, false),
            (&[host, ("sec-fetch-site", "cross-site")], false, false),
            (&[host, ("sec-fetch-site", "")], false, false),
            (&[host, ("origin", "http://asat.example:7878")], true, true),
            (&[host, ("origin", "https://ASAT.example:7878")], true, true),
            (&[host, ("origin", "http://asat.example")], false, false),
            (&[host, ("origin", "http://asat.example:7879")], false, false),
            (&[host, ("origin", "null")], false, false),
            (&[host, ("origin", "http://asat.example:7878.evil.example")], false, false),
            // The browser's own word goes before a host that a proxy may have changed.
            (&[host, ("sec-fetch-site", "same-origin"), ("origin", "https://outside.example")], true, true),
            (&[("origin", "http://")], false, false),
        ];
        for (headers, without, with) in cases {
            assert_eq!(checked(&Method::POST, headers, false), without, "{headers:?}");
            assert_eq!(checked(&Method::DELETE, headers, true), with, "{headers:?}");
            assert!(checked(&Method::GET, headers, true), "reading changes nothing: {headers:?}");
        }
    }
}
