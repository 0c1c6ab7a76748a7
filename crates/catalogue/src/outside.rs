//! What this crate reads beside the catalogue itself, for the targets of `crates/fuzz`.
//!
//! Nothing else of the program calls this.

use crate::newest;

/// Reads the file that says which commit is the newest, and writes what it says.
#[must_use]
pub fn newest(bytes: &[u8]) -> Option<Vec<u8>> {
    newest::newest_of(bytes).map(|seal| newest::written(&seal))
}
