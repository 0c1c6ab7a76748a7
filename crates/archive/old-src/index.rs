//! A layer's index: which pages it holds, where, and what each must hash to.
//!
//! Entries stand in page order, and so do the frames, without gaps; so an entry needs no offset, and page
//! numbers are written as differences. With its 32 bytes of hash an entry takes about 35 bytes.

use std::ops::Range;
use std::path::Path;

use asat_core::PageSize;

use crate::error::Error;
use crate::fingerprint::PageHash;

/// How a page is stored. Two bits of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The page as it is.
    Raw,
    /// The page, compressed.
    Zstd,
    /// What makes the page out of the one that the layer below shows.
    Difference,
    /// No frame is stored: the page is what an earlier version has in its place.
    Earlier,
}

impl Encoding {
    const ALL: [Self; 4] = [Self::Raw, Self::Zstd, Self::Difference, Self::Earlier];

    /// Whether the frame has all of the page.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Raw | Self::Zstd)
    }

    fn bits(self) -> u64 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
            Self::Difference => 2,
            Self::Earlier => 3,
        }
    }

    fn of_bits(bits: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.bits() == bits)
    }
}

/// One page of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The page's number, from 1.
    pub(crate) page: u32,
    /// The stored frame's length: that of a page where it is raw, 0 where there is none, and else shorter.
    pub(crate) len: u32,
    /// How it is stored.
    pub(crate) encoding: Encoding,
    /// Where the frame begins in the file. Where there is none: the version that has the page.
    pub(crate) offset: u64,
    /// BLAKE3 of the raw page.
    pub(crate) hash: PageHash,
}

/// Builds an index as the frames are written.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    bytes: Vec<u8>,
    last_page: u32,
    /// How many entries were added.
    pub(crate) count: u64,
}

impl IndexBuilder {
    /// Adds the next page's frame.
    pub(crate) fn add(&mut self, page: u32, len: u32, encoding: Encoding, hash: PageHash) {
        self.put(page, u64::from(len), encoding, hash);
    }

    /// Adds the next page, which is what it was so many version numbers before.
    pub(crate) fn add_earlier(&mut self, page: u32, back: u32, hash: PageHash) {
        self.put(page, u64::from(back), Encoding::Earlier, hash);
    }

    fn put(&mut self, page: u32, value: u64, encoding: Encoding, hash: PageHash) {
        put_varint(&mut self.bytes, u64::from(page.saturating_sub(self.last_page)));
        put_varint(&mut self.bytes, (value << 2) | encoding.bits());
        self.bytes.extend(hash);
        self.last_page = page;
        self.count += 1;
    }

    /// The index as it is written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// An index read from a file, not yet decoded. Its length and count fit the file that it came from.
pub(crate) struct Index<'a> {
    /// The file, for errors.
    pub(crate) path: &'a Path,
    /// The encoded entries.
    pub(crate) bytes: Vec<u8>,
    /// How many there must be.
    pub(crate) count: u64,
    /// Where the first frame begins.
    pub(crate) first_offset: u64,
    /// Where the last frame must end.
    pub(crate) end_offset: u64,
    /// The size of a raw page.
    pub(crate) page_size: PageSize,
    /// The highest page number allowed.
    pub(crate) page_count: u32,
    /// The layer's own number.
    pub(crate) number: u64,
}

impl Index<'_> {
    /// Decodes every entry in page order. `each` has seen some entries where this fails halfway.
    pub(crate) fn each(&self, mut each: impl FnMut(Entry)) -> Result<(), Error> {
        self.each_at(|entry, _| each(entry))
    }

    /// The same, with where among the bytes each entry stands.
    pub(crate) fn each_at(&self, mut each: impl FnMut(Entry, Range<usize>)) -> Result<(), Error> {
        let wrong = |what: &str| Error::damaged(self.path, format!("its index is malformed: {what}"));
        let (mut rest, mut page, mut offset) = (self.bytes.as_slice(), 0_u32, self.first_offset);
        for _ in 0..self.count {
            let start = self.bytes.len() - rest.len();
            let delta = take_varint(&mut rest).ok_or_else(|| wrong("a page number"))?;
            let coded = take_varint(&mut rest).ok_or_else(|| wrong("a length"))?;
            let (hash, after) = rest.split_first_chunk().ok_or_else(|| wrong("a hash"))?;
            rest = after;
            let step = u32::try_from(delta).ok().filter(|&step| step > 0);
            let next = step.and_then(|step| page.checked_add(step)).filter(|&next| next <= self.page_count);
            page = next.ok_or_else(|| wrong("page numbers out of range or order"))?;
            let mut entry = Entry { page, len: 0, encoding: Encoding::Raw, offset, hash: *hash };
            self.decode(coded, &mut entry).ok_or_else(|| wrong("a frame's length or encoding"))?;
            each(entry, start..self.bytes.len() - rest.len());
            offset = offset
                .checked_add(u64::from(entry.len))
                .filter(|&end| end <= self.end_offset)
                .ok_or_else(|| wrong("frames longer than the file"))?;
        }
        if rest.is_empty() && offset == self.end_offset {
            Ok(())
        } else {
            Err(wrong("bytes that belong to no entry"))
        }
    }

    /// Completes an entry by its second number; `None` where that cannot be.
    fn decode(&self, coded: u64, entry: &mut Entry) -> Option<()> {
        let value = u32::try_from(coded >> 2).ok()?;
        entry.encoding = Encoding::of_bits(coded & 3)?;
        let fits = match entry.encoding {
            Encoding::Raw => value == self.page_size.bytes(),
            Encoding::Zstd | Encoding::Difference => value > 0 && value < self.page_size.bytes(),
            Encoding::Earlier => {
                entry.offset = self.number.checked_sub(u64::from(value)).filter(|&version| version > 0)?;
                return (value > 0).then_some(());
            }
        };
        entry.len = value;
        fits.then_some(())
    }
}

/// Writes a number in groups of seven bits, lowest first, the high bit saying that more follow (LEB128).
fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Takes a number of at most five groups: none that an index holds is larger.
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            // A last group of zero would be a second spelling of the same number.
            return (byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(bytes: Vec<u8>, count: u64, end_offset: u64) -> Index<'static> {
        let page_size = PageSize::new(512).unwrap();
        let path = Path::new("/x/1.pack");
        let (first_offset, page_count) = (12, u32::MAX);
        Index { path, bytes, count, first_offset, end_offset, page_size, page_count, number: 1000 }
    }

    #[test]
    fn frames_that_do_not_fill_the_body_are_refused() {
        let mut builder = IndexBuilder::default();
        builder.add(1, 100, Encoding::Zstd, [7; 32]);
        for (end_offset, fits) in [(111, false), (112, true), (113, false)] {
            assert_eq!(index(builder.bytes().to_vec(), 1, end_offset).each(|_| {}).is_ok(), fits);
        }
        let superfluous = [&[0x81, 0x00], &builder.bytes()[1..]].concat();
        assert!(index(superfluous, 1, 112).each(|_| {}).is_err());
    }

    #[test]
    fn an_earlier_version_is_one_that_comes_before() {
        for (back, version) in [(0, None), (1, Some(999)), (999, Some(1)), (1000, None), (u32::MAX, None)] {
            let mut builder = IndexBuilder::default();
            builder.add_earlier(1, back, [7; 32]);
            let mut found = None;
            let read = index(builder.bytes().to_vec(), 1, 12).each(|entry| found = Some(entry.offset));
            assert_eq!((read.is_ok(), found), (version.is_some(), version), "{back} back");
        }
    }

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_added(
            pages in prop::collection::btree_map(1..=u32::MAX, (1..=512_u32, any::<bool>(), any::<PageHash>()), 0..50),
        ) {
            let (mut builder, mut offset, mut added) = (IndexBuilder::default(), 12, Vec::new());
            for (&page, &(len, is_difference, hash)) in &pages {
                let encoding = match len {
                    512 => Encoding::Raw,
                    _ if is_difference => Encoding::Difference,
                    _ => Encoding::Zstd,
                };
                builder.add(page, len, encoding, hash);
                added.push(Entry { page, len, encoding, offset, hash });
                offset += u64::from(len);
            }
            let mut read = Vec::new();
            index(builder.bytes().to_vec(), builder.count, offset).each(|entry| read.push(entry)).unwrap();
            prop_assert_eq!(read, added);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0..20_u64) {
            let _ = index(bytes, count, 5000).each(|entry| assert!(entry.offset < 5000 && entry.len <= 512));
        }
    }
}
