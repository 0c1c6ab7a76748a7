//! Reading SQLite's WAL and wal-index, as bytes. Nothing in them is taken on trust.
//!
//! The formats: <https://www.sqlite.org/walformat.html>, <https://www.sqlite.org/fileformat.html#walformat>.

#[cfg(test)]
mod tests;

use asat_core::PageSize;
use asat_core::track::Place;

/// The length of the WAL's header.
pub(super) const WAL_HEADER: usize = 32;
/// The length of what stands before the page in a frame.
pub(super) const FRAME_HEADER: usize = 24;
/// So many bytes of the wal-index are read: its header twice, and how far the WAL is in the database file.
pub(super) const INDEX: usize = 132;

/// The length of one copy of the wal-index's header.
const COPY: usize = 48;
/// Where the wal-index begins to say how far the WAL is in the database file.
pub(super) const BACKFILLED: usize = 2 * COPY;
/// The version of both formats.
const VERSION: u32 = 3_007_000;
/// What a WAL begins with. The last bit says whether its checksums are of big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// Reads the wal-index's first bytes word by word, `word` by its number. How far the WAL is in the file is read first: it must not be newer
/// than the header. A checkpoint leaves out a frame if the same page has a newer one. So what it says of a header before its own is not true:
/// <https://www.sqlite.org/src/file/src/wal.c> (`walTryBeginRead`).
pub(super) fn read_words(mut word: impl FnMut(usize) -> u32) -> [u8; INDEX] {
    let mut bytes = [0; INDEX];
    let (head, rest) = bytes.as_chunks_mut::<4>().0.split_at_mut(BACKFILLED / 4);
    for (place, at) in rest.iter_mut().zip(BACKFILLED / 4..) {
        *place = word(at).to_ne_bytes();
    }
    for (place, at) in head.iter_mut().zip(0..) {
        *place = word(at).to_ne_bytes();
    }
    bytes
}

/// What the wal-index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// The last frame that readers see, and its generation.
    pub(super) place: Place,
    pub(super) page_size: PageSize,
    /// Whether checksums in the WAL are of big-endian words.
    pub(super) is_big_endian: bool,
    /// How many frames are in the database file, and how many are at most on their way there.
    pub(super) backfilled: u32,
    pub(super) attempted: u32,
}

impl Index {
    /// Understands the wal-index's first bytes, if they were read in the order of [`read_words`]. Nothing: its two headers differ or are not
    /// whole, as while somebody writes them. As long as the WAL is empty nothing is said of the size of pages: then it is the database's.
    pub(super) fn read(bytes: &[u8; INDEX], page_size: PageSize) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk::<COPY>()?;
        let native = |at| word(bytes, at, u32::from_ne_bytes);
        let is_whole = rest.get(..COPY)? == first && native(0)? == VERSION && *first.get(12)? != 0;
        let sums = (native(40)?, native(44)?);
        if !is_whole || add((0, 0), first.get(..40)?, u32::from_ne_bytes) != sums {
            return None;
        }
        let size = u16::from_ne_bytes(first.get(14..16)?.try_into().ok()?);
        let place = Place {
            salts: first.get(32..40)?.try_into().ok()?,
            frame: native(16)?,
            sums: (native(24)?, native(28)?),
        };
        let page_size = match size {
            0 if place.frame == 0 => page_size,
            // This one does not fit into two bytes.
            1 => PageSize::new(65536)?,
            size => PageSize::new(u32::from(size))?,
        };
        Some(Self {
            place,
            page_size,
            is_big_endian: *first.get(13)? != 0,
            backfilled: native(96)?,
            attempted: native(128)?,
        })
    }

    /// Whether all that readers see is in the database file.
    pub(super) fn is_backfilled(&self) -> bool {
        self.backfilled >= self.place.frame
    }

    /// How long the WAL is, as far as readers see it.
    pub(super) fn length(&self) -> u64 {
        offset_after(self.page_size, self.place.frame)
    }
}

/// Whether a WAL of a database with pages of this size begins so.
pub(super) fn is_header(header: &[u8; WAL_HEADER], page_size: PageSize) -> bool {
    let big = |at| word(header, at, u32::from_be_bytes);
    matches!(big(0), Some(magic) if magic & !1 == MAGIC) && big(8) == Some(page_size.bytes())
}

/// At which offset the frame after this one begins.
pub(super) fn offset_after(page_size: PageSize, frame: u32) -> u64 {
    WAL_HEADER as u64 + u64::from(frame) * frame_length(page_size) as u64
}

/// How long a frame is.
pub(super) fn frame_length(page_size: PageSize) -> usize {
    FRAME_HEADER + page_size.as_usize()
}

/// What was found of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Which page it holds.
    pub(super) page: u32,
    /// How many pages the database has after the transaction that ends with it, if one does.
    pub(super) page_count: Option<u32>,
}

/// Frames one after another, each of which is checked against all before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    page_size: PageSize,
    is_big_endian: bool,
    /// After the last frame that was taken.
    pub(super) place: Place,
}

impl Chain {
    /// Continues after a place in a WAL of which the wal-index says this.
    pub(super) fn after(place: Place, index: &Index) -> Self {
        let Index { page_size, is_big_endian, .. } = *index;
        Self { page_size, is_big_endian, place }
    }

    /// Begins at the start of a WAL with this header; nothing if that is none, or is not of the generation of the wal-index.
    pub(super) fn begin(header: &[u8; WAL_HEADER], index: &Index) -> Option<Self> {
        let big = |at| word(header, at, u32::from_be_bytes);
        let is_big_endian = match big(0)?.checked_sub(MAGIC)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let page_size = PageSize::new(big(8)?)?;
        let salts: [u8; 8] = header.get(16..24)?.try_into().ok()?;
        let sums = sum((0, 0), header.get(..24)?, is_big_endian);
        let is_of_index = big(4)? == VERSION
            && (page_size, is_big_endian) == (index.page_size, index.is_big_endian)
            && salts == index.place.salts
            && sums == (big(24)?, big(28)?);
        is_of_index.then_some(Self { page_size, is_big_endian, place: Place { salts, frame: 0, sums } })
    }

    /// Takes the next frame; nothing if these bytes are not what belongs there, and then nothing is taken.
    pub(super) fn take(&mut self, frame: &[u8]) -> Option<Frame> {
        let (header, page) = frame.split_first_chunk::<FRAME_HEADER>()?;
        let big = |at| word(header, at, u32::from_be_bytes);
        if page.len() != self.page_size.as_usize() || header.get(8..16)? != self.place.salts {
            return None;
        }
        let sums = sum(self.place.sums, header.get(..8)?, self.is_big_endian);
        let sums = sum(sums, page, self.is_big_endian);
        let number = big(0)?;
        if number == 0 || sums != (big(16)?, big(20)?) {
            return None;
        }
        self.place = Place { frame: self.place.frame.checked_add(1)?, sums, ..self.place };
        Some(Frame { page: number, page_count: big(4).filter(|count| *count > 0) })
    }
}

/// Whether what stands before the page of a frame is that of the frame that ends at this place.
pub(super) fn ends_at(header: &[u8; FRAME_HEADER], place: &Place) -> bool {
    let big = |at| word(header, at, u32::from_be_bytes);
    header.get(8..16) == Some(&place.salts) && big(16).zip(big(20)) == Some(place.sums)
}

/// SQLite's checksum, which continues from an earlier one.
fn sum(sums: (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    if is_big_endian { add(sums, bytes, u32::from_be_bytes) } else { add(sums, bytes, u32::from_le_bytes) }
}

fn add((mut one, mut two): (u32, u32), bytes: &[u8], read: impl Fn([u8; 4]) -> u32) -> (u32, u32) {
    for [a, b, c, d, e, f, g, h] in bytes.as_chunks::<8>().0 {
        one = one.wrapping_add(read([*a, *b, *c, *d])).wrapping_add(two);
        two = two.wrapping_add(read([*e, *f, *g, *h])).wrapping_add(one);
    }
    (one, two)
}

fn word(bytes: &[u8], at: usize, read: impl Fn([u8; 4]) -> u32) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(read)
}
