//! The two fixed ends of a pack file: a header that says what it is, a footer that says where everything is.
//!
//! The first twelve and the last twelve bytes keep their meaning in every format version, so that any asat
//! can tell a newer file from a damaged one.

use std::path::Path;

use crate::error::Error;
use crate::fingerprint::{hash, matches};

/// The format version that this build writes, and the only one that it reads.
pub(crate) const VERSION: u32 = 4;
/// The header's length: magic, format version.
pub(crate) const HEADER_LEN: u64 = 12;
/// The footer's length.
pub(crate) const FOOTER_LEN: u64 = 180;

const HEADER_MAGIC: [u8; 8] = *b"asatpack";
const FOOTER_MAGIC: [u8; 8] = *b"asat-end";
/// No metadata is longer: it is read whole, and a hostile length must not fill the memory.
pub(crate) const META_MAX_BYTES: u64 = 1 << 20;
/// No index entry is shorter: a delta, a length and a hash.
pub(crate) const ENTRY_MIN_BYTES: u64 = 34;

/// The header's bytes.
pub(crate) fn header() -> [u8; 12] {
    let mut bytes = [0; 12];
    let (magic, version) = bytes.split_at_mut(8);
    magic.copy_from_slice(&HEADER_MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// What a footer records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where the frames end and the index begins.
    pub(crate) index_offset: u64,
    /// The index's length; the metadata follow it.
    pub(crate) index_len: u64,
    /// The metadata's length; the footer follows them.
    pub(crate) meta_len: u64,
    /// The whole file's length.
    pub(crate) file_len: u64,
    /// How many pages the layer holds.
    pub(crate) entry_count: u64,
    /// BLAKE3 of the index.
    pub(crate) index_checksum: [u8; 32],
    /// BLAKE3 of the metadata.
    pub(crate) meta_checksum: [u8; 32],
    /// BLAKE3 of every byte before the footer.
    pub(crate) body_checksum: [u8; 32],
}

impl Footer {
    /// The footer's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(180);
        for number in [self.index_offset, self.index_len, self.meta_len, self.file_len, self.entry_count] {
            bytes.extend(number.to_le_bytes());
        }
        for checksum in [self.index_checksum, self.meta_checksum, self.body_checksum] {
            bytes.extend(checksum);
        }
        bytes.extend(hash(&bytes));
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(FOOTER_MAGIC);
        bytes
    }

    /// Reads both ends of a file that is `file_len` bytes long. What it returns fits into the file.
    pub(crate) fn decode(path: &Path, header: &[u8], footer: &[u8], file_len: u64) -> Result<Self, Error> {
        check_versions(path, header, footer)?;
        let short = || Error::damaged(path, "its footer is too short");
        let (covered, _) = footer.split_at_checked(136).ok_or_else(short)?;
        let mut fields = Fields(footer);
        let footer = Self {
            index_offset: fields.u64().ok_or_else(short)?,
            index_len: fields.u64().ok_or_else(short)?,
            meta_len: fields.u64().ok_or_else(short)?,
            file_len: fields.u64().ok_or_else(short)?,
            entry_count: fields.u64().ok_or_else(short)?,
            index_checksum: fields.array().ok_or_else(short)?,
            meta_checksum: fields.array().ok_or_else(short)?,
            body_checksum: fields.array().ok_or_else(short)?,
        };
        if !matches(covered, &fields.array().ok_or_else(short)?) {
            return Err(Error::damaged(path, "its footer does not match the footer's checksum"));
        }
        footer.check_lengths(path, file_len)?;
        Ok(footer)
    }

    /// Bounds every length by the file's own before anything is allocated for it.
    fn check_lengths(&self, path: &Path, file_len: u64) -> Result<(), Error> {
        if self.file_len != file_len {
            let what = format!("it is {file_len} bytes long, and was written with {}", self.file_len);
            return Err(Error::damaged(path, what));
        }
        let end = [self.index_len, self.meta_len, FOOTER_LEN]
            .iter()
            .try_fold(self.index_offset, |sum, len| sum.checked_add(*len));
        let fits = end == Some(file_len)
            && self.index_offset >= HEADER_LEN
            && self.meta_len <= META_MAX_BYTES
            && self.entry_count <= u64::from(u32::MAX)
            && self.entry_count <= self.index_len / ENTRY_MIN_BYTES;
        if fits {
            Ok(())
        } else {
            Err(Error::damaged(path, "the lengths in its footer contradict each other"))
        }
    }
}

/// Tells a foreign, a damaged, an older and a newer file apart by the bytes that keep their meaning.
fn check_versions(path: &Path, header: &[u8], footer: &[u8]) -> Result<(), Error> {
    let mut fields = Fields(header);
    let (magic, written) = (fields.array::<8>(), fields.u32());
    let mut fields = Fields(footer.get(footer.len().saturating_sub(12)..).unwrap_or_default());
    let (repeated, end_magic) = (fields.u32(), fields.array::<8>());
    if magic != Some(HEADER_MAGIC) {
        return Err(Error::damaged(path, "it does not begin as a pack file does"));
    }
    if end_magic != Some(FOOTER_MAGIC) {
        return Err(Error::damaged(path, "it does not end as a pack file does: cut short, or overwritten"));
    }
    match (written, repeated) {
        (Some(found), Some(again)) if found != again => {
            Err(Error::damaged(path, format!("it names two format versions, {found} and {again}")))
        }
        (Some(found), _) if found > VERSION => Err(Error::Newer { path: path.to_owned(), found }),
        (Some(VERSION), _) => Ok(()),
        (Some(found @ 1..VERSION), _) => Err(Error::Older { path: path.to_owned(), found }),
        _ => Err(Error::damaged(path, "its format version does not exist")),
    }
}

/// Takes little-endian fields from the front of a slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
