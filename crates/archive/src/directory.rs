//! A segment's directory: which versions it has, and where its blocks and descriptions are.
//!
//! It is read whole when the segment is opened. A version takes a few bytes of it, and so does a block.

use std::ops::Range;

use asat_core::PageSize;

use crate::bytes::{Taker, put_varint};
use crate::index::{BlockRef, Check};

/// So many versions share one description, which is compressed as a whole.
pub(crate) const DESCRIBED_TOGETHER: usize = 64;

/// No dictionary is longer.
const MOST_DICTIONARY_BYTES: u64 = 128 << 10;

/// A version that a segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRef {
    /// Its number.
    pub(crate) number: u64,
    /// How many pages it has.
    pub(crate) page_count: u32,
    /// What it took when it was written, in bytes.
    pub(crate) bytes: u64,
    /// Whether it has an entry for each of its pages, none of which lies upon an older version: it needs nothing older.
    pub(crate) is_whole: bool,
    /// Whether nothing that was written upon it needs anything older either. A version that was put back may be whole, and what was written
    /// upon what it was before may need more.
    pub(crate) stands_alone: bool,
}

/// Where the description of up to [`DESCRIBED_TOGETHER`] versions is, or the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartRef {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) check: Check,
}

/// What a segment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The size of every page.
    pub(crate) page_size: PageSize,
    /// The lowest and the highest version that an entry or a version is of.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The versions, in order.
    pub(crate) versions: Vec<VersionRef>,
    /// The blocks that have entries, in bands: those of a band are in order, and so are their frames.
    pub(crate) bands: Vec<Vec<BlockRef>>,
    /// The descriptions of the versions, in order.
    pub(crate) descriptions: Vec<PartRef>,
    /// What whole pages are compressed with, if there is one, and once more: all of these pages need it.
    pub(crate) dictionary: Option<[PartRef; 2]>,
}

impl Directory {
    /// The directory as it is written.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |value: u64| put_varint(&mut bytes, value);
        put(u64::from(self.page_size.bytes()));
        put(self.first);
        put(self.last - self.first);
        let dictionary = self.dictionary.as_ref().and_then(|copies| copies.first());
        put(dictionary.map_or(0, |dictionary| dictionary.len));
        dictionary.into_iter().for_each(|dictionary| bytes.extend(dictionary.check));
        put_varint(&mut bytes, count(&self.versions));
        let mut put = |value: u64| put_varint(&mut bytes, value);
        let mut before = 0;
        for version in &self.versions {
            put(version.number - before);
            let (is_whole, stands_alone) = (u64::from(version.is_whole), u64::from(version.stands_alone));
            put((u64::from(version.page_count) << 2) | (stands_alone << 1) | is_whole);
            put(version.bytes);
            before = version.number;
        }
        put(count(&self.bands));
        for band in &self.bands {
            put_varint(&mut bytes, count(band));
            let mut before = 0;
            for block in band {
                put_varint(&mut bytes, u64::from(block.block - before));
                put_varint(&mut bytes, u64::from(block.count));
                put_varint(&mut bytes, block.len);
                put_varint(&mut bytes, block.frames_len);
                bytes.extend(block.check);
                before = block.block;
            }
        }
        put_varint(&mut bytes, count(&self.descriptions));
        for part in &self.descriptions {
            put_varint(&mut bytes, part.len);
            bytes.extend(part.check);
        }
        bytes
    }

    /// Reads a directory. Frames lie in `frames`, and blocks, descriptions and the dictionary in `rest`; `None` where they do not fill these, or where
    /// something cannot have been written.
    pub(crate) fn decode(bytes: &[u8], frames: Range<u64>, rest: Range<u64>) -> Option<Self> {
        let mut taker = Taker(bytes);
        let page_size = PageSize::new(taker.varint32()?)?;
        let first = taker.varint()?;
        let last = first.checked_add(taker.varint()?)?;
        let (mut frames_at, mut offset) = (frames.start, rest.start);
        let dictionary = take_dictionary(&mut taker, &mut offset)?;
        let versions = take_versions(&mut taker, first..=last)?;
        let mut bands = Vec::new();
        for _ in 0..taker.varint()? {
            bands.push(take_blocks(&mut taker, &mut frames_at, &mut offset)?);
        }
        let described = taker.varint()?;
        let mut descriptions = Vec::new();
        for _ in 0..described {
            let (len, check) = (taker.varint()?, taker.array()?);
            descriptions.push(PartRef { offset, len, check });
            offset = offset.checked_add(len)?;
        }
        let again = dictionary.map(|dictionary| PartRef { offset, ..dictionary });
        offset = offset.checked_add(again.map_or(0, |again| again.len))?;
        let dictionary = dictionary.zip(again).map(|(dictionary, again)| [dictionary, again]);
        let is_described = descriptions.len() == versions.len().div_ceil(DESCRIBED_TOGETHER);
        let is_full = taker.is_empty() && frames_at == frames.end && offset == rest.end;
        (is_full && is_described && first > 0).then_some(Self {
            page_size,
            first,
            last,
            versions,
            bands,
            descriptions,
            dictionary,
        })
    }

    /// A version that the segment has.
    pub(crate) fn version(&self, number: u64) -> Option<&VersionRef> {
        self.nth(number).and_then(|nth| self.versions.get(nth))
    }

    /// Its place among them.
    pub(crate) fn nth(&self, number: u64) -> Option<usize> {
        self.versions.binary_search_by_key(&number, |version| version.number).ok()
    }

    /// A block of each band that has entries of it.
    pub(crate) fn blocks(&self, block: u32) -> impl Iterator<Item = &BlockRef> {
        self.bands
            .iter()
            .filter_map(move |band| band.get(band.binary_search_by_key(&block, |block| block.block).ok()?))
    }

    /// Whether there are entries of a block.
    pub(crate) fn has(&self, block: u32) -> bool {
        self.blocks(block).next().is_some()
    }
}

fn take_dictionary(taker: &mut Taker<'_>, offset: &mut u64) -> Option<Option<PartRef>> {
    let len = taker.varint()?;
    if len == 0 {
        return Some(None);
    }
    let dictionary = PartRef { offset: *offset, len, check: taker.array()? };
    *offset = offset.checked_add(len)?;
    (len <= MOST_DICTIONARY_BYTES).then_some(Some(dictionary))
}

fn take_versions(taker: &mut Taker<'_>, range: std::ops::RangeInclusive<u64>) -> Option<Vec<VersionRef>> {
    let (mut versions, mut before) = (Vec::new(), 0_u64);
    for _ in 0..taker.varint()? {
        let step = taker.varint()?;
        let number = before.checked_add(step).filter(|number| step > 0 && range.contains(number))?;
        let coded = taker.varint()?;
        let page_count = u32::try_from(coded >> 2).ok()?;
        let (is_whole, stands_alone) = (coded & 1 == 1, coded & 2 == 2);
        versions.push(VersionRef { number, page_count, bytes: taker.varint()?, is_whole, stands_alone });
        before = number;
    }
    Some(versions)
}

fn take_blocks(taker: &mut Taker<'_>, frames_at: &mut u64, offset: &mut u64) -> Option<Vec<BlockRef>> {
    let (mut blocks, mut before) = (Vec::<BlockRef>::new(), 0_u32);
    for _ in 0..taker.varint()? {
        let step = taker.varint32()?;
        let block = before.checked_add(step).filter(|_| blocks.is_empty() || step > 0)?;
        let (count, len, frames_len) = (taker.varint32()?, taker.varint()?, taker.varint()?);
        // No entry takes less, so a forged count allocates no more than a few times the length of the file.
        if u64::from(count).checked_mul(11)? > len || count == 0 {
            return None;
        }
        let check = taker.array()?;
        blocks.push(BlockRef {
            block,
            count,
            offset: *offset,
            len,
            frames_at: *frames_at,
            frames_len,
            check,
        });
        *offset = offset.checked_add(len)?;
        *frames_at = frames_at.checked_add(frames_len)?;
        before = block;
    }
    Some(blocks).filter(|blocks| !blocks.is_empty())
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}
