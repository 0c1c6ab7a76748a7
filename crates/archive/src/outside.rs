//! What this crate reads of files, part by part, for the targets of `crates/fuzz`.
//!
//! What was taken is handed back as this crate writes it. Nothing else of the program calls these.

use std::path::Path;

use asat_core::PageSize;

use crate::codec::{Before, Decoder, Encoder, Stored};
use crate::error::Error;
use crate::folder::{Folder, name_of, number_of};
use crate::index::{BlockBuilder, BlockRef, Directory, Encoding, PartRef};
use crate::layout::{Footer, HEADER_LEN};
use crate::manifest::Manifest;
use crate::records;
use crate::segment::Ends;

/// What a block has to keep within.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Which block it is.
    pub block: u32,
    /// How many entries there must be.
    pub count: u32,
    /// How long all their frames are.
    pub frames_len: u64,
    /// The lowest and the highest version allowed.
    pub versions: (u64, u64),
    /// The size of a raw page.
    pub page_size: PageSize,
}

/// Reads the header and the footer of a file of this length.
#[must_use]
pub fn ends(header: &[u8], footer: &[u8], file_len: u64) -> Option<Vec<u8>> {
    Some(Footer::decode(header, footer, file_len).ok()?.encode())
}

/// Reads a manifest.
#[must_use]
pub fn manifest(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Manifest::decode(bytes).ok()?.encode())
}

/// Reads records.
#[must_use]
pub fn records(bytes: &[u8]) -> Option<Vec<u8>> {
    records::encode(&records::decode(bytes, records::MOST_BYTES).ok()?.0).ok()
}

/// Reads a directory of frames that end, and of blocks and descriptions that end, at these places.
#[must_use]
pub fn directory(bytes: &[u8], frames_end: u64, end: u64) -> Option<Vec<u8>> {
    Some(Directory::decode(bytes, HEADER_LEN..frames_end, frames_end..end)?.encode())
}

/// Reads a block.
#[must_use]
pub fn block(bytes: &[u8], bounds: Bounds) -> Option<Vec<u8>> {
    let Bounds { block, count, frames_len, versions, page_size } = bounds;
    let place = BlockRef { block, count, part: PartRef::of(bytes), frames_at: HEADER_LEN, frames_len };
    let mut builder = BlockBuilder::new(block, versions.0);
    place.decode(bytes, versions, page_size, |entry| builder.add(&entry))?;
    Some(builder.bytes)
}

/// Decodes a frame, of a page that is whole or, if it is a difference, of one that was `before`.
pub fn frame(is_difference: bool, frame: &[u8], before: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let encoding = if is_difference { Encoding::Difference } else { Encoding::Zstd };
    let mut page = before.to_vec();
    let decoded = Decoder::new()?.decode(Stored { encoding, frame, dictionary: None }, &mut page);
    Ok(decoded.then_some(page))
}

/// The frame of a page, if it is one, and whether it is a difference.
pub fn framed(page: &[u8], before: &[u8]) -> Result<Option<(bool, Vec<u8>)>, Error> {
    let mut encoder = Encoder::new(page.len(), None)?;
    let (encoding, frame) = encoder.encode(page, Some(Before { page: before, depth: 0, whole_bytes: 0 }));
    let is_difference = encoding == Encoding::Difference;
    Ok((encoding != Encoding::Raw).then(|| (is_difference, frame.to_vec())))
}

/// Reads file 1 of a folder, but for its frames; answers how many entries it has.
pub fn segment(folder: &Path) -> Result<usize, Error> {
    let (folder, _) = Folder::open(folder)?;
    let opened = Ends::open(&folder, 1)?;
    opened.manifest()?;
    let Some(segment) = opened.segment(1)? else { return Ok(0) };
    let mut entries = 0;
    for block in segment.directory.bands.iter().flatten() {
        segment.entries(block.block, |_| entries += 1)?;
    }
    for nth in 0..segment.directory.descriptions.len() {
        segment.descriptions(nth)?;
    }
    Ok(entries)
}

/// Recognises the name of a file.
#[must_use]
pub fn file_name(text: &str) -> Option<String> {
    number_of(text).map(name_of)
}
