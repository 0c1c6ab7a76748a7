//! One file of an archive of format 4: frames of pages, an index of them, and what it says about its version.
//!
//! Everything that is read is compared with its checksum first, and every length with that of the file before anything is allocated for it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use asat_archive::Error;
use asat_archive::fingerprint::PageHash;
use asat_core::{Fingerprint, PageSize, StoreName};
use jiff::Timestamp;
use serde::Deserialize;

/// The format that is read.
pub(crate) const FORMAT: u32 = 4;
/// Magic and format version.
const HEADER_LEN: u64 = 12;
const FOOTER_LEN: u64 = 180;
const HEADER_MAGIC: [u8; 8] = *b"asatpack";
const FOOTER_MAGIC: [u8; 8] = *b"asat-end";
/// No description is longer.
const META_MAX_BYTES: u64 = 1 << 20;
/// No entry of an index is shorter.
pub(crate) const ENTRY_MIN_BYTES: u64 = 34;

/// What a layer says about its version.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Meta {
    pub(crate) store: StoreName,
    /// The version's number; of a merged layer, the highest one merged.
    pub(crate) number: u64,
    /// The lowest number merged into the layer.
    pub(crate) covers_from: u64,
    /// The layer that this one was compared with. `None`: it has all pages.
    pub(crate) parent: Option<u64>,
    /// The lowest version to which it refers for the content of pages.
    pub(crate) refers_to: Option<u64>,
    pub(crate) page_size: PageSize,
    pub(crate) page_count: u32,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) wal: bool,
    pub(crate) cut_at: Timestamp,
    pub(crate) note: serde_json::Value,
}

/// How a page is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As it is.
    Raw,
    /// Compressed.
    Zstd,
    /// As what makes it out of the page that the layer below shows.
    Difference,
    /// Not at all: it is what an earlier version has in its place.
    Earlier,
}

/// One page of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerEntry {
    /// Counted from 0.
    pub(crate) nth: usize,
    pub(crate) len: u32,
    pub(crate) encoding: Encoding,
    /// Where the frame begins. Where there is none: the version that has the page.
    pub(crate) offset: u64,
    pub(crate) hash: PageHash,
}

/// A layer's file whose ends and description are valid.
#[derive(Debug)]
pub(crate) struct Pack {
    path: PathBuf,
    file: File,
    pub(crate) meta: Meta,
    index_offset: u64,
    index_len: u64,
    entry_count: u64,
    index_checksum: [u8; 32],
}

impl Pack {
    /// Opens the layer of these versions.
    pub(crate) fn open(path: &Path, (from, number): (u64, u64)) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| io("open", path, source))?;
        let wrong = |what: &str| damaged(path, what);
        let file_len = file.metadata().map_err(|source| io("look at", path, source))?.len();
        if file_len < HEADER_LEN + FOOTER_LEN {
            return Err(wrong("it is too short for a layer"));
        }
        let header = read(path, &file, 0, HEADER_LEN)?;
        let footer = read(path, &file, file_len - FOOTER_LEN, FOOTER_LEN)?;
        check_format(path, &header, &footer)?;
        let (covered, rest) = footer.split_at_checked(136).ok_or_else(|| wrong("its footer is too short"))?;
        let (numbers, sums) = covered.split_at(40);
        let ([index_offset, index_len, meta_len, written_len, entry_count], [index_sum, meta_sum, _body]) =
            (numbers_of(numbers), sums_of(sums));
        if rest.get(..32) != Some(hash(covered).as_slice()) {
            return Err(wrong("its footer does not match the footer's checksum"));
        }
        let end =
            [index_len, meta_len, FOOTER_LEN].iter().try_fold(index_offset, |sum, len| sum.checked_add(*len));
        let fits = written_len == file_len
            && end == Some(file_len)
            && index_offset >= HEADER_LEN
            && meta_len <= META_MAX_BYTES
            && entry_count <= index_len / ENTRY_MIN_BYTES;
        if !fits {
            return Err(wrong("the lengths in its footer do not fit the file"));
        }
        let json = read(path, &file, index_offset + index_len, meta_len)?;
        if hash(&json) != meta_sum {
            return Err(wrong("its description does not match its checksum"));
        }
        let meta: Meta = serde_json::from_slice(&json)
            .map_err(|error| wrong(&format!("its description cannot be read: {error}")))?;
        if (meta.covers_from, meta.number) != (from, number) {
            return Err(wrong(&format!("it is the layer of {} to {}", meta.covers_from, meta.number)));
        }
        if meta.parent.is_some_and(|parent| parent >= from) || entry_count > u64::from(meta.page_count) {
            return Err(wrong("its description contradicts itself"));
        }
        let path = path.to_owned();
        Ok(Self { path, file, meta, index_offset, index_len, entry_count, index_checksum: index_sum })
    }

    /// Reads a frame.
    pub(crate) fn frame(&self, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        read(&self.path, &self.file, offset, u64::from(len))
    }

    /// That it is damaged.
    pub(crate) fn damaged(&self, what: &str) -> Error {
        damaged(&self.path, what)
    }

    /// Goes through the index, which is found sound first: `each` hears of all entries in the order of pages, or of none.
    pub(crate) fn index(&self, mut each: impl FnMut(LayerEntry)) -> Result<(), Error> {
        let bytes = read(&self.path, &self.file, self.index_offset, self.index_len)?;
        if hash(&bytes) != self.index_checksum {
            return Err(self.damaged("its index does not match its checksum"));
        }
        self.entries(&bytes, &mut |_| {}).ok_or_else(|| self.damaged("its index is malformed"))?;
        self.entries(&bytes, &mut each).ok_or_else(|| self.damaged("its index is malformed"))
    }

    /// Entries follow one another in page order, and so do frames, without gaps.
    fn entries(&self, mut rest: &[u8], each: &mut dyn FnMut(LayerEntry)) -> Option<()> {
        let page_len = self.meta.page_size.bytes();
        let (mut page, mut offset) = (0_u32, HEADER_LEN);
        for _ in 0..self.entry_count {
            let step = u32::try_from(take_number(&mut rest)?).ok().filter(|step| *step > 0)?;
            let coded = take_number(&mut rest)?;
            let (hash, after) = rest.split_first_chunk()?;
            rest = after;
            page = page.checked_add(step).filter(|page| *page <= self.meta.page_count)?;
            let value = u32::try_from(coded >> 2).ok()?;
            let (encoding, fits) = match coded & 3 {
                0 => (Encoding::Raw, value == page_len),
                1 => (Encoding::Zstd, value > 0 && value < page_len),
                2 => (Encoding::Difference, value > 0 && value < page_len),
                _ => (Encoding::Earlier, value > 0 && u64::from(value) < self.meta.number),
            };
            let is_stored = encoding != Encoding::Earlier;
            let (len, place) = if is_stored {
                (value, offset)
            } else {
                (0, self.meta.number - u64::from(value).min(self.meta.number))
            };
            let nth = usize::try_from(page - 1).ok()?;
            fits.then(|| each(LayerEntry { nth, len, encoding, offset: place, hash: *hash }))?;
            offset = offset.checked_add(u64::from(len)).filter(|end| *end <= self.index_offset)?;
        }
        (rest.is_empty() && offset == self.index_offset).then_some(())
    }
}

/// Tells a file of another format from a damaged one by the bytes that keep their meaning in every format of such files.
fn check_format(path: &Path, header: &[u8], footer: &[u8]) -> Result<(), Error> {
    let (magic, format) = header.split_at(8);
    let (again, end_magic) = footer.split_at(footer.len().saturating_sub(12)).1.split_at(4);
    if magic != HEADER_MAGIC || end_magic != FOOTER_MAGIC || format != again {
        return Err(damaged(path, "it does not begin or end as a layer does"));
    }
    let path = path.to_owned();
    match format.first_chunk().map_or(0, |format| u32::from_le_bytes(*format)) {
        FORMAT => Ok(()),
        found @ 1.. => Err(Error::Format { path, found }),
        0 => Err(damaged(&path, "its format version does not exist")),
    }
}

fn numbers_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

fn sums_of<const N: usize>(bytes: &[u8]) -> [[u8; 32]; N] {
    let mut sums = bytes.as_chunks::<32>().0.iter().copied();
    std::array::from_fn(|_| sums.next().unwrap_or_default())
}

/// Takes a number of at most five groups of seven bits, the lowest first.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (byte != 0 || shift == 0).then_some(number);
        }
    }
    None
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}

/// Reads a part that the file's length bounds.
fn read(path: &Path, file: &File, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    let refused = || io("read", path, std::io::ErrorKind::OutOfMemory.into());
    let len = usize::try_from(len).map_err(|_| refused())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| refused())?;
    bytes.resize(len, 0);
    file.read_exact_at(&mut bytes, offset).map_err(|source| io("read", path, source))?;
    Ok(bytes)
}

pub(crate) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { doing, path: path.to_owned(), source }
}

pub(crate) fn damaged(path: &Path, what: &str) -> Error {
    Error::Damaged { path: path.to_owned(), what: what.to_owned() }
}
