//! What this crate reads of a bucket, for the target of `crates/fuzz`. Nothing else of the program calls this.

use asat_core::StoreName;

use crate::layout;
use crate::manifest::Manifest;

/// Reads a manifest of this store and number; what was taken is handed back as this crate writes it, and so are its files' keys.
#[must_use]
pub fn manifest(store: &StoreName, number: u64, bytes: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let (manifest, _) = Manifest::decode(store, number, bytes).ok()?;
    let keys = manifest.files.iter().map(|file| file.key(store)).collect();
    Some((manifest.encode().0, keys))
}

/// Reads the key of a manifest, or of a file: its number, or its epoch and number.
#[must_use]
pub fn key(store: &StoreName, key: &str) -> (Option<u64>, Option<(u64, u64)>) {
    (layout::number_of_manifest(store, key), layout::numbers_of_file(store, key))
}
