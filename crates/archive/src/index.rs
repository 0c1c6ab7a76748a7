//! What a segment holds of which page: entries, in blocks of neighbouring pages.
//!
//! An entry says that from a version on a page has another content, and how that is stored. Entries stand in the order of pages, and of
//! one page in the order of versions; frames stand in the same order without gaps, so an entry needs no offset. A block has the
//! entries of 256 pages, so that few are read where few pages are asked for.

use asat_core::PageSize;

use crate::bytes::{Taker, put_varint};
use crate::fingerprint::PageHash;

/// So many pages share a block.
pub(crate) const BLOCK_PAGES: u32 = 256;

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
    Raw,
    /// The page, compressed.
    Zstd,
    /// What makes the page out of what it was at an earlier version.
    Difference,
    /// The page, compressed with the segment's dictionary.
    Dictionary,
}

impl Encoding {
    const ALL: [Self; 4] = [Self::Raw, Self::Zstd, Self::Difference, Self::Dictionary];

    fn bits(self) -> u64 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
            Self::Difference => 2,
            Self::Dictionary => 3,
        }
    }

    fn of_bits(bits: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.bits() == bits)
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

/// A block being written.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    /// Which block it is.
    pub(crate) block: u32,
    /// The lowest version of the segment.
    first: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) frames_len: u64,
    last: Option<(u32, u64)>,
}

impl BlockBuilder {
    pub(crate) fn new(block: u32, first: u64) -> Self {
        Self { block, first, bytes: Vec::new(), count: 0, frames_len: 0, last: None }
    }

    /// Adds the next entry; its offset is not written.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let (page, version) = self.last.unwrap_or((self.block * BLOCK_PAGES, 0));
        put_varint(&mut self.bytes, u64::from(entry.page - page));
        let same_page = self.last.is_some_and(|(page, _)| page == entry.page);
        put_varint(&mut self.bytes, entry.version - if same_page { version } else { self.first });
        put_varint(&mut self.bytes, (u64::from(entry.len) << 2) | entry.encoding.bits());
        if entry.encoding == Encoding::Difference {
            put_varint(&mut self.bytes, entry.version - entry.base);
        }
        self.bytes.extend(entry.check);
        self.last = Some((entry.page, entry.version));
        self.count += 1;
        self.frames_len += u64::from(entry.len);
    }
}

/// A block's place in a file and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef {
    pub(crate) block: u32,
    /// How many entries it has.
    pub(crate) count: u32,
    /// Where it is, and how long.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Where its first frame begins, and how long all of them are.
    pub(crate) frames_at: u64,
    pub(crate) frames_len: u64,
    pub(crate) check: Check,
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
            let base = match encoding {
                Encoding::Difference => {
                    let back = taker.varint()?;
                    version.checked_sub(back).filter(|base| back > 0 && *base > 0)?
                }
                _ => 0,
            };
            let fits = match encoding {
                Encoding::Raw => len == page_size.bytes(),
                Encoding::Zstd | Encoding::Difference | Encoding::Dictionary => {
                    len > 0 && len < page_size.bytes()
                }
            };
            if !is_in_order || !fits || version > last {
                return None;
            }
            each(Entry { page, version, encoding, base, offset, len, check: taker.array()? });
            offset = offset.checked_add(u64::from(len))?;
            any = true;
        }
        (taker.is_empty() && offset == self.frames_at + self.frames_len).then_some(())
    }
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
        let place = BlockRef {
            block: built.block,
            count: built.count,
            offset: 0,
            len: 0,
            frames_at: 12,
            frames_len: built.frames_len,
            check: Check::default(),
        };
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
