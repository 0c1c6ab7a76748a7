//! Exported history: what lies in the folder that `asat export` writes and `asat import` reads.
//!
//! The folder has each version as a database file, a manifest, and the SHA-256 of all of these in the format of
//! `sha256sum`, so that the copy can be checked without asat.

use std::fmt::Write as _;
use std::io::{self, Read};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Publication;

/// The manifest of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format of the folder, [`Manifest::FORMAT`].
    pub format: u32,
    /// The store.
    pub store: String,
    /// Its versions, oldest first.
    pub versions: Vec<ExportedVersion>,
}

/// A version in the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedVersion {
    /// Its number within the store.
    pub number: u64,
    /// The instant at which its content was fixed.
    #[serde(with = "super::instant")]
    pub cut_at: Timestamp,
    /// The size of its database file.
    pub bytes: u64,
    /// The size of its pages, in bytes.
    pub page_size: u32,
    /// The fingerprint of its content, with the algorithm that it was made by.
    pub fingerprint: String,
    /// Its publications, oldest first. Idempotency keys are not among what is said: they are one daemon's.
    pub publications: Vec<Publication>,
}

/// What an import did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The store.
    pub store: String,
    /// The versions that were taken in.
    pub imported: Vec<String>,
    /// Those that were known here, and whose pages were gone.
    pub recovered: Vec<String>,
    /// Those that were there already.
    pub there_already: Vec<String>,
}

impl Imported {
    /// Nothing yet.
    #[must_use]
    pub fn none(store: &str) -> Self {
        let store = store.to_owned();
        Self { store, imported: Vec::new(), recovered: Vec::new(), there_already: Vec::new() }
    }
}

impl Manifest {
    /// The format that is written, and the only one that is read.
    pub const FORMAT: u32 = 2;
    /// The name of its file.
    pub const FILE: &str = "manifest.json";
    /// The name of the file with the checksums.
    pub const SUMS: &str = "SHA256SUMS";
}

/// The name of a version's file.
#[must_use]
pub fn exported_name(store: &str, number: u64) -> String {
    format!("{store}@{number}.db")
}

/// The SHA-256 of what is read, as `sha256sum` writes it.
///
/// # Errors
/// If it cannot be read.
pub fn sha256_of(mut from: impl Read) -> io::Result<String> {
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// A checksum as `sha256sum` writes it.
#[must_use]
pub fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
