//! The style sheet, the script and the icon: in the binary, and named after their content, so that browsers may keep them for good.

use std::sync::LazyLock;

use asat_core::Code;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::super::extract::Segments;
use super::super::problem::Failure;
use asat_wire::hex;

struct Asset {
    path: String,
    etag: String,
    kind: &'static str,
    text: &'static str,
}

static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", include_str!("assets/style.css")));
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("script", "js", "text/javascript; charset=utf-8", include_str!("assets/script.js"))
});
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")));

impl Asset {
    fn new(name: &str, extension: &str, kind: &'static str, text: &'static str) -> Self {
        let digest = hex(&Sha256::digest(text));
        let mark = digest.get(..16).unwrap_or(&digest);
        Self { path: format!("/assets/{name}-{mark}.{extension}"), etag: format!("\"{mark}\""), kind, text }
    }
}

/// Where the style sheet is.
pub(super) fn style() -> &'static str {
    &STYLE.path
}

/// Where the script is.
pub(super) fn script() -> &'static str {
    &SCRIPT.path
}

/// Where the icon is.
pub(super) fn icon() -> &'static str {
    &ICON.path
}

pub(super) async fn show(Segments(name): Segments<String>, headers: HeaderMap) -> Response {
    let all: [&'static Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    let Some(asset) = all.into_iter().find(|asset| asset.path.strip_prefix("/assets/") == Some(&name)) else {
        let hint = "load the page again: it names those of this version";
        return Failure::new(Code::NotFound, "there is no such part of the page", hint).into_response();
    };
    let kept = [(CACHE_CONTROL, "public, max-age=31536000, immutable"), (ETAG, &*asset.etag)];
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == asset.etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(CONTENT_TYPE, asset.kind), (X_CONTENT_TYPE_OPTIONS, "nosniff")], asset.text).into_response()
}
