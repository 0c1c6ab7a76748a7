//! What this crate reads of files, part by part, for the targets of `crates/fuzz`.
//!
//! What was taken is handed back as this crate writes it. Nothing else of the program calls these.

use std::fs::File;
use std::path::Path;

use asat_core::PageSize;

use crate::codec::{Decoder, Encoder};
use crate::error::Error;
use crate::footer::Footer;
use crate::index::{Encoding, Entry, Index, IndexBuilder};
use crate::meta::Meta;
use crate::naming::FileName;
use crate::pack::Pack;

/// What an index has to keep within.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many entries there must be.
    pub count: u64,
    /// Where the first frame begins, and where the last must end.
    pub frames: (u64, u64),
    /// The size of a raw page.
    pub page_size: PageSize,
    /// The highest page number allowed.
    pub page_count: u32,
    /// The layer's own number.
    pub number: u64,
}

/// Reads the header and the footer of a pack of this length.
pub fn ends(header: &[u8], footer: &[u8], file_len: u64) -> Result<Vec<u8>, Error> {
    Footer::decode(Path::new("pack"), header, footer, file_len).map(|footer| footer.encode())
}

/// Reads an index.
pub fn index(bytes: &[u8], bounds: Bounds) -> Result<Vec<u8>, Error> {
    let Bounds { count, frames: (first_offset, end_offset), page_size, page_count, number } = bounds;
    let path = Path::new("pack");
    let bytes = bytes.to_vec();
    let index = Index { path, bytes, count, first_offset, end_offset, page_size, page_count, number };
    written(&index)
}

/// Reads a whole pack, without its frames: what it says of itself, and its index.
pub fn pack(file: File) -> Result<(Meta, Vec<u8>), Error> {
    let pack = Pack::read_ends("pack".into(), file)?;
    let index = written(&pack.index()?)?;
    Ok((pack.meta().clone(), index))
}

fn written(index: &Index<'_>) -> Result<Vec<u8>, Error> {
    let mut builder = IndexBuilder::default();
    index.each(|Entry { page, len, encoding, offset, hash }| match encoding {
        Encoding::Earlier => {
            let back = u32::try_from(index.number.saturating_sub(offset)).unwrap_or(u32::MAX);
            builder.add_earlier(page, back, hash);
        }
        _ => builder.add(page, len, encoding, hash),
    })?;
    Ok(builder.bytes().to_vec())
}

/// Decodes a frame, of a page that is whole or, where it is a difference, of one that was `before`.
pub fn frame(is_difference: bool, frame: &[u8], before: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let encoding = if is_difference { Encoding::Difference } else { Encoding::Zstd };
    let mut page = before.to_vec();
    let decoded = Decoder::new()?.decode(encoding, frame, &mut page);
    Ok(decoded.then_some(page))
}

/// The frame of a page, where it is one, and whether it is a difference.
pub fn framed(page: &[u8], before: &[u8]) -> Result<Option<(bool, Vec<u8>)>, Error> {
    let mut encoder = Encoder::new(page.len())?;
    let (encoding, frame) = encoder.encode(page, Some(before));
    let is_difference = encoding == Encoding::Difference;
    Ok((encoding != Encoding::Raw).then(|| (is_difference, frame.to_vec())))
}

/// Recognises the name of a file.
#[must_use]
pub fn file_name(text: &str) -> Option<String> {
    FileName::parse(text).map(FileName::text)
}
