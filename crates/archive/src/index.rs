//! What a segment holds of which page and version: blocks of entries, and the directory of these.
//!
//! An entry says that from a version on a page has another content, and how that is stored. Entries stand in the order of pages, and of
//! one page in the order of versions; frames stand in the same order without gaps, so an entry needs no offset. A block has the
//! entries of 256 pages, so that few are read where few pages are asked for.
//!
//! The directory is read whole when the segment is opened. A version takes a few bytes of it, and so does a block.

use std::ops::{Range, RangeInclusive};

use asat_core::PageSize;

use crate::fingerprint::{PageHash, hash};
use crate::layout::{Taker, len_of, put_varints};

/// So many pages share a block.
pub(crate) const BLOCK_PAGES: u32 = 256;

/// So many versions share one description, which is compressed as a whole.
pub(crate) const DESCRIBED_TOGETHER: usize = 64;

/// No segment has more bands: a block is looked for in all of them. A merge makes two.
const MOST_BANDS: u64 = 8;

/// No dictionary is longer.
const MOST_DICTIONARY_BYTES: u64 = 128 << 10;

/// The first bytes of a page's hash. They tell damage from what was written: nothing is taken for the same by them.
pub type Check = [u8; 8];

/// What a page with this hash is checked against.
pub(crate) fn check_of(hash: &PageHash) -> Check {
    hash.first_chunk().copied().unwrap_or_default()
}

/// The block that has a page, which is numbered from 1.
pub(crate) fn block_of(page: u32) -> u32 {
    page.saturating_sub(1) / BLOCK_PAGES
}

/// How a page is stored. Two bits of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The page as it is.
    Raw = 0,
    /// The page, compressed.
    Zstd = 1,
    /// What makes the page out of what it was at an earlier version.
    Difference = 2,
    /// The page, compressed with the segment's dictionary.
    Dictionary = 3,
}

impl Encoding {
    const ALL: [Self; 4] = [Self::Raw, Self::Zstd, Self::Difference, Self::Dictionary];

    fn of_bits(bits: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| *encoding as u64 == bits)
    }
}

/// A page's content from a version on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The page's number, from 1.
    pub(crate) page: u32,
    /// The version at which it became this.
    pub(crate) version: u64,
    /// How it is stored.
    pub(crate) encoding: Encoding,
    /// Of a difference: at which earlier version the page became what the difference lies upon. Else 0.
    pub(crate) base: u64,
    /// Where the frame begins in the file.
    pub(crate) offset: u64,
    /// The frame's length: that of a page where it is raw, and else shorter.
    pub(crate) len: u32,
    /// What the page is checked against.
    pub(crate) check: Check,
}

/// A part of a file: a block, the description of up to [`DESCRIBED_TOGETHER`] versions, or the dictionary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartRef {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) check: Check,
}

impl PartRef {
    /// What is checked against these bytes. The directory does not say where it is: parts lie one after another.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { offset: 0, len: len_of(bytes), check: check_of(&hash(bytes)) }
    }

    /// The next part, which begins at `offset`.
    fn next(offset: &mut u64, len: u64, check: Check) -> Option<Self> {
        let part = Self { offset: *offset, len, check };
        *offset = offset.checked_add(len)?;
        Some(part)
    }
}

/// A block being written.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    /// What is known of it so far.
    pub(crate) place: BlockRef,
    pub(crate) bytes: Vec<u8>,
    /// The lowest version of the segment.
    first: u64,
    last: Option<(u32, u64)>,
}

impl BlockBuilder {
    pub(crate) fn new(block: u32, first: u64) -> Self {
        let place = BlockRef { block, count: 0, part: PartRef::default(), frames_at: 0, frames_len: 0 };
        Self { place, bytes: Vec::new(), first, last: None }
    }

    /// Adds the next entry; its offset is not written.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let (page, version) = self.last.unwrap_or((self.place.block * BLOCK_PAGES, 0));
        let same_page = self.last.is_some_and(|(page, _)| page == entry.page);
        let further = entry.version - if same_page { version } else { self.first };
        let coded = (u64::from(entry.len) << 2) | entry.encoding as u64;
        put_varints(&mut self.bytes, [u64::from(entry.page - page), further, coded]);
        if entry.encoding == Encoding::Difference {
            put_varints(&mut self.bytes, [entry.version - entry.base]);
        }
        self.bytes.extend(entry.check);
        self.last = Some((entry.page, entry.version));
        self.place.count += 1;
        self.place.frames_len += u64::from(entry.len);
    }
}

/// A block's place in a file and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef {
    pub(crate) block: u32,
    /// How many entries it has.
    pub(crate) count: u32,
    pub(crate) part: PartRef,
    /// Where its first frame begins, and how long all of them are.
    pub(crate) frames_at: u64,
    pub(crate) frames_len: u64,
}

impl BlockRef {
    /// Decodes the entries of a segment that begins at version `first` and ends at `last`. `None`: they are malformed.
    pub(crate) fn decode(
        &self,
        bytes: &[u8],
        (first, last): (u64, u64),
        page_size: PageSize,
        mut each: impl FnMut(Entry),
    ) -> Option<()> {
        let (mut taker, mut offset) = (Taker(bytes), self.frames_at);
        let start = self.block.checked_mul(BLOCK_PAGES)?;
        let (mut page, mut version, mut any) = (start, 0_u64, false);
        for _ in 0..self.count {
            let step = taker.varint32()?;
            let same_page = any && step == 0;
            page = page.checked_add(step)?;
            let further = taker.varint()?;
            version = if same_page { version } else { first }.checked_add(further)?;
            let is_in_order = page > start && page - start <= BLOCK_PAGES && !(same_page && further == 0);
            let coded = taker.varint()?;
            let (encoding, len) = (Encoding::of_bits(coded & 3)?, u32::try_from(coded >> 2).ok()?);
            let base = if encoding == Encoding::Difference {
                let back = taker.varint()?;
                version.checked_sub(back).filter(|base| back > 0 && *base > 0)?
            } else {
                0
            };
            let is_whole = encoding == Encoding::Raw && len == page_size.bytes();
            let is_shorter = encoding != Encoding::Raw && (1..page_size.bytes()).contains(&len);
            if !is_in_order || !(is_whole || is_shorter) || version > last {
                return None;
            }
            each(Entry { page, version, encoding, base, offset, len, check: taker.array()? });
            offset = offset.checked_add(u64::from(len))?;
            any = true;
        }
        (taker.is_empty() && offset == self.frames_at + self.frames_len).then_some(())
    }
}

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
    /// That of a segment which has nothing yet, of versions from `first` on.
    pub(crate) fn new(page_size: PageSize, first: u64) -> Self {
        let (versions, bands, descriptions) = (Vec::new(), vec![Vec::new()], Vec::new());
        Self { page_size, first, last: first, versions, bands, descriptions, dictionary: None }
    }

    /// The directory as it is written.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let dictionary = self.dictionary.as_ref().map(|[first, _]| first);
        let page_size = u64::from(self.page_size.bytes());
        let dictionary_len = dictionary.map_or(0, |dictionary| dictionary.len);
        put_varints(&mut bytes, [page_size, self.first, self.last - self.first, dictionary_len]);
        dictionary.into_iter().for_each(|dictionary| bytes.extend(dictionary.check));
        put_varints(&mut bytes, [len_of(&self.versions)]);
        let mut before = 0;
        for version in &self.versions {
            let shape = u64::from(version.stands_alone) << 1 | u64::from(version.is_whole);
            let shape = (u64::from(version.page_count) << 2) | shape;
            put_varints(&mut bytes, [version.number - before, shape, version.bytes]);
            before = version.number;
        }
        put_varints(&mut bytes, [len_of(&self.bands)]);
        for band in &self.bands {
            put_varints(&mut bytes, [len_of(band)]);
            let mut before = 0;
            for BlockRef { block, count, part, frames_len, .. } in band {
                let numbers = [u64::from(block - before), u64::from(*count), part.len, *frames_len];
                put_varints(&mut bytes, numbers);
                bytes.extend(part.check);
                before = *block;
            }
        }
        put_varints(&mut bytes, [len_of(&self.descriptions)]);
        for part in &self.descriptions {
            put_varints(&mut bytes, [part.len]);
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
        let dictionary = match taker.varint()? {
            0 => None,
            len @ ..=MOST_DICTIONARY_BYTES => Some(PartRef::next(&mut offset, len, taker.array()?)?),
            _ => return None,
        };
        let versions = take_versions(&mut taker, first..=last)?;
        let bands = taker.list(|taker| take_blocks(taker, &mut frames_at, &mut offset))?;
        let descriptions = taker.list(|taker| PartRef::next(&mut offset, taker.varint()?, taker.array()?))?;
        let dictionary = match dictionary {
            Some(copy) => Some([copy, PartRef::next(&mut offset, copy.len, copy.check)?]),
            None => None,
        };
        let is_described = descriptions.len() == versions.len().div_ceil(DESCRIBED_TOGETHER);
        let has_few_bands = len_of(&bands) <= MOST_BANDS;
        let is_full = taker.is_empty() && frames_at == frames.end && offset == rest.end;
        let directory = Self { page_size, first, last, versions, bands, descriptions, dictionary };
        (is_full && is_described && has_few_bands && first > 0).then_some(directory)
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

fn take_versions(taker: &mut Taker<'_>, range: RangeInclusive<u64>) -> Option<Vec<VersionRef>> {
    let mut before = 0_u64;
    taker.list(|taker| {
        let step = taker.varint()?;
        let number = before.checked_add(step).filter(|number| step > 0 && range.contains(number))?;
        before = number;
        let coded = taker.varint()?;
        let page_count = u32::try_from(coded >> 2).ok()?;
        let (is_whole, stands_alone) = (coded & 1 == 1, coded & 2 == 2);
        Some(VersionRef { number, page_count, bytes: taker.varint()?, is_whole, stands_alone })
    })
}

fn take_blocks(taker: &mut Taker<'_>, frames_at: &mut u64, offset: &mut u64) -> Option<Vec<BlockRef>> {
    let mut before = None;
    let blocks = taker.list(|taker| {
        let step = taker.varint32()?;
        let block = before.unwrap_or(0_u32).checked_add(step).filter(|_| before.is_none() || step > 0)?;
        before = Some(block);
        let (count, len, frames_len) = (taker.varint32()?, taker.varint()?, taker.varint()?);
        // No entry takes less, so a forged count allocates no more than a few times the length of the file.
        if u64::from(count).checked_mul(11)? > len || count == 0 {
            return None;
        }
        let part = PartRef::next(offset, len, taker.array()?)?;
        let first_frame = *frames_at;
        *frames_at = frames_at.checked_add(frames_len)?;
        Some(BlockRef { block, count, part, frames_at: first_frame, frames_len })
    })?;
    Some(blocks).filter(|blocks| !blocks.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let one = (1..=BLOCK_PAGES, 5..60_u64, 0..4_usize, 1..512_u32, any::<Check>());
        prop::collection::vec(one, 0..40).prop_map(|drawn| {
            let mut entries: Vec<Entry> = drawn
                .into_iter()
                .map(|(page, version, encoding, len, check)| {
                    let encoding = Encoding::ALL[encoding];
                    let base = if encoding == Encoding::Difference { version - 4 } else { 0 };
                    let len = if encoding == Encoding::Raw { 512 } else { len.min(511) };
                    Entry { page: page + 3 * BLOCK_PAGES, version, encoding, base, offset: 0, len, check }
                })
                .collect();
            entries.sort_by_key(|entry| (entry.page, entry.version));
            entries.dedup_by_key(|entry| (entry.page, entry.version));
            let mut offset = 12;
            for entry in &mut entries {
                entry.offset = offset;
                offset += u64::from(entry.len);
            }
            entries
        })
    }

    fn decode(built: &BlockBuilder, bytes: &[u8]) -> Option<Vec<Entry>> {
        let place = BlockRef { frames_at: 12, ..built.place };
        let mut entries = Vec::new();
        place.decode(bytes, (5, 59), PageSize::new(512)?, |entry| entries.push(entry)).map(|()| entries)
    }

    fn build(entries: &[Entry]) -> BlockBuilder {
        let mut builder = BlockBuilder::new(3, 5);
        entries.iter().for_each(|entry| builder.add(entry));
        builder
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in entries()) {
            let built = build(&entries);
            prop_assert_eq!(decode(&built, &built.bytes), Some(entries));
        }

        #[test]
        fn what_was_changed_is_refused_or_in_order(
            entries in entries(), at in any::<prop::sample::Index>(), byte: u8,
        ) {
            let built = build(&entries);
            let mut bytes = built.bytes.clone();
            if !bytes.is_empty() {
                *at.get_mut(&mut bytes) = byte;
            }
            if let Some(read) = decode(&built, &bytes) {
                prop_assert!(read.is_sorted_by_key(|entry| (entry.page, entry.version)));
                prop_assert!(read.iter().all(|entry| block_of(entry.page) == 3 && entry.base < entry.version));
            }
        }
    }
}
