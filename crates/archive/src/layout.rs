//! The two ends of a file: its header and its footer.
//!
//! The footer says where the parts of the file are and what they hash to, so a file that was cut short or
//! written over is noticed before anything of it is believed.

use std::ops::Range;

use crate::bytes::Taker;
use crate::fingerprint::{hash, matches};

/// The format version that this build writes, and the only one that it reads.
pub(crate) const VERSION: u32 = 6;
/// The header's length: magic, format version.
pub(crate) const HEADER_LEN: u64 = 12;
/// The footer's length.
pub(crate) const FOOTER_LEN: u64 = 172;

const HEADER_MAGIC: [u8; 8] = *b"asat-seg";
const FOOTER_MAGIC: [u8; 8] = *b"asat-end";
/// The footer's bytes that its own checksum covers.
const COVERED: usize = 128;

/// The header's bytes.
pub(crate) fn header() -> [u8; 12] {
    let mut bytes = [0; 12];
    let (magic, version) = bytes.split_at_mut(8);
    magic.copy_from_slice(&HEADER_MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// What a footer records. The parts of a file lie one after another in this order, from the header to the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where the frames end, and blocks and descriptions begin.
    pub(crate) frames_end: u64,
    /// Where the directory begins.
    pub(crate) directory_at: u64,
    /// Where the manifest begins.
    pub(crate) manifest_at: u64,
    /// The whole file's length.
    pub(crate) file_len: u64,
    /// BLAKE3 of the directory.
    pub(crate) directory_hash: [u8; 32],
    /// BLAKE3 of the manifest.
    pub(crate) manifest_hash: [u8; 32],
    /// BLAKE3 of every byte before the footer. Nobody makes two files with the same, so it is the file's identity as well.
    pub(crate) body_hash: [u8; 32],
}

/// Why two ends are not those of a file that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is damaged, or no file of an archive.
    Damaged(String),
    /// It has another format version.
    Format(u32),
}

impl Footer {
    /// The directory's place.
    pub(crate) fn directory(&self) -> Range<u64> {
        self.directory_at..self.manifest_at
    }

    /// The manifest's place.
    pub(crate) fn manifest(&self) -> Range<u64> {
        self.manifest_at..self.file_len - FOOTER_LEN
    }

    /// The footer's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(172);
        for number in [self.frames_end, self.directory_at, self.manifest_at, self.file_len] {
            bytes.extend(number.to_le_bytes());
        }
        for checksum in [self.directory_hash, self.manifest_hash, self.body_hash] {
            bytes.extend(checksum);
        }
        bytes.extend(hash(&bytes));
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(FOOTER_MAGIC);
        bytes
    }

    /// Reads both ends of a file that is `file_len` bytes long. What it returns fits into the file.
    pub(crate) fn decode(header: &[u8], footer: &[u8], file_len: u64) -> Result<Self, Unfit> {
        check_versions(header, footer)?;
        let short = || Unfit::Damaged("its footer is too short".to_owned());
        let covered = footer.get(..COVERED).ok_or_else(short)?;
        let mut fields = Taker(footer);
        let footer = Self {
            frames_end: fields.u64().ok_or_else(short)?,
            directory_at: fields.u64().ok_or_else(short)?,
            manifest_at: fields.u64().ok_or_else(short)?,
            file_len: fields.u64().ok_or_else(short)?,
            directory_hash: fields.array().ok_or_else(short)?,
            manifest_hash: fields.array().ok_or_else(short)?,
            body_hash: fields.array().ok_or_else(short)?,
        };
        if !matches(covered, &fields.array().ok_or_else(short)?) {
            return Err(Unfit::Damaged("its footer does not match the footer's checksum".to_owned()));
        }
        if footer.file_len != file_len {
            let what = format!("it is {file_len} bytes long, and was written with {}", footer.file_len);
            return Err(Unfit::Damaged(what));
        }
        let places = [HEADER_LEN, footer.frames_end, footer.directory_at, footer.manifest_at];
        if places.is_sorted() && footer.manifest_at.checked_add(FOOTER_LEN).is_some_and(|end| end <= file_len)
        {
            Ok(footer)
        } else {
            Err(Unfit::Damaged("the places in its footer contradict each other".to_owned()))
        }
    }
}

/// Tells a foreign file, a damaged one, and one of another format apart by the bytes that keep their meaning: the first 12 and the last 12.
fn check_versions(header: &[u8], footer: &[u8]) -> Result<(), Unfit> {
    let damaged = |what: &str| Err(Unfit::Damaged(what.to_owned()));
    let mut fields = Taker(header);
    let (magic, written) = (fields.array::<8>(), fields.u32());
    let mut fields = Taker(footer.get(footer.len().saturating_sub(12)..).unwrap_or_default());
    let (repeated, end_magic) = (fields.u32(), fields.array::<8>());
    if magic != Some(HEADER_MAGIC) {
        return damaged("it does not begin as a file of an archive does");
    }
    if end_magic != Some(FOOTER_MAGIC) {
        return damaged("it does not end as a file of an archive does: cut short, or overwritten");
    }
    match (written, repeated) {
        (Some(found), Some(again)) if found != again => {
            Err(Unfit::Damaged(format!("it names two format versions, {found} and {again}")))
        }
        (Some(VERSION), _) => Ok(()),
        (Some(found @ 1..), _) => Err(Unfit::Format(found)),
        _ => damaged("its format version does not exist"),
    }
}
