//! What this crate reads of a bucket, for the target of `crates/fuzz`. Nothing else of the program calls this.

use asat_core::StoreName;
use http::StatusCode;

use crate::layout;
use crate::manifest::Manifest;
use crate::protection::Retention;
use crate::s3::{self, Deleted};

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

/// An answer of S3, read as if each of these had been asked; an error is what is told instead.
#[derive(Debug)]
pub struct S3Answer {
    /// Whether versions are kept.
    pub keeps_versions: Result<bool, String>,
    /// For how long Object Lock keeps them.
    pub retention: Result<Option<Retention>, String>,
    /// Whether a deletion was done, and not refused.
    pub is_deleted: Result<bool, String>,
}

/// Reads an answer of S3 with this status.
#[must_use]
pub fn s3(status: u16, body: &[u8]) -> S3Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let is_deleted = match s3::deleted(status, body) {
        Deleted::Done => Ok(true),
        Deleted::Denied => Ok(false),
        Deleted::Failed(why) => Err(why),
    };
    let (keeps_versions, retention) = (s3::versioning(status, body), s3::retention(status, body));
    S3Answer { keeps_versions, retention, is_deleted }
}
