//! What the faces read of their callers, part by part, for the targets of `crates/fuzz`.
//!
//! Nothing else of the program calls these.

use asat_core::query::Filter;

use crate::daemon::import::folder;
use crate::http::ranges::{self, Wanted};
use crate::http::{cursor, head};
use asat_wire as wire;

/// Reads a place in the list of all versions, and writes it; the mark of the list is put before it.
#[must_use]
pub fn place_in_list(text: &str) -> Option<(String, String)> {
    let filter = Filter::default();
    let cursor = format!("{}.{text}", cursor::mark(&filter));
    let position = cursor::read(&cursor, &filter).ok()?;
    Some((cursor, cursor::write(&position, &filter)))
}

/// Whether a query can be read, by a route that takes parameters or by one that takes none.
#[must_use]
pub fn query(query: &str, takes_none: bool) -> bool {
    head::check_query(query, takes_none).is_ok()
}

/// Reads a `Range` header for a copy of this length: the first byte, and the one after the last.
#[must_use]
pub fn range(header: &str, length: u64) -> Option<(u64, u64)> {
    match ranges::wanted(Some(header), length) {
        Wanted::Part(first, end) => Some((first, end)),
        Wanted::Whole | Wanted::Nothing => None,
    }
}

/// Reads the manifest of an export.
#[must_use]
pub fn manifest(text: &str) -> Option<wire::Manifest> {
    folder::parse(text).ok()
}

/// Reads the checksums of an export: how many there are.
#[must_use]
pub fn sums(text: &str) -> Option<usize> {
    folder::sums(text).ok().map(|sums| sums.len())
}
