//! Reads any pages of a version, with no more of its layers than they need.
//!
//! A version's pages lie in many layers, and most of an old layer is of no use to it: newer ones have those pages. So
//! frames that lie close together are read together, as one span, and what lies between spans is left out.

use std::ops::Range;

use crate::codec::Decoder;
use crate::error::Error;
use crate::fingerprint::{PageHash, hash_pages};
use crate::frames::Frames;
use crate::pages::{Frame, PageMap};

/// Frames of a layer with at most so much between them are read together.
const GAP_BYTES: u64 = 4 << 10;

/// The same where a disk has to read them: that much more takes it less time than beginning anew.
const GAP_ON_DISK_BYTES: u64 = 64 << 10;

/// What reading pages needs besides the pages.
pub(crate) struct Spans {
    /// The hashes of the pages read last.
    hashes: Vec<PageHash>,
    decoder: Decoder,
    /// In the order of layers, and within a layer in the order of bytes; no two of them touch.
    spans: Vec<Span>,
    bytes: Vec<u8>,
    /// The frames of the page in hand, the one that holds it whole last.
    chain: Vec<Frame>,
}

/// Bytes of a layer, which is known by its place among those of the map.
struct Span {
    layer: usize,
    start: u64,
    end: u64,
    /// Where they are in [`Spans::bytes`].
    at: usize,
}

impl Spans {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            hashes: Vec::new(),
            decoder: Decoder::new()?,
            spans: Vec::new(),
            bytes: Vec::new(),
            chain: Vec::new(),
        })
    }

    /// Reads the pages from the `nth` on, counted from 0, and compares each with its hash. They must be in the map. The system
    /// may have been told before that they are.
    pub(crate) fn pages(
        &mut self,
        map: &PageMap,
        nth: usize,
        pages: &mut [u8],
        is_expected: bool,
    ) -> Result<(), Error> {
        let page_len = map.page_size().as_usize();
        let count = pages.len() / page_len;
        self.gather(map, nth..nth + count, GAP_BYTES);
        if !is_expected && self.spans.len() > 1 {
            self.expect(map);
        }
        self.read(map)?;
        for (nth, page) in (nth..).zip(pages.chunks_exact_mut(page_len)) {
            if !self.decode(map, nth, page)? {
                return Err(Frames::new()?.blame(map, nth, page));
            }
        }
        self.hashes.clear();
        hash_pages(pages, page_len, &mut self.hashes);
        let mut hashed = (nth..).zip(&self.hashes).zip(pages.chunks_exact_mut(page_len));
        match hashed.find(|((nth, hash), _)| map.hash(*nth) != Some(**hash)) {
            Some(((nth, _), page)) => Err(Frames::new()?.blame(map, nth, page)),
            None => Ok(()),
        }
    }

    /// Has the system begin to read pages that are asked for soon.
    pub(crate) fn expect_pages(&mut self, map: &PageMap, pages: Range<usize>) {
        self.gather(map, pages, GAP_ON_DISK_BYTES);
        self.expect(map);
    }

    /// Finds what has to be read for these pages.
    fn gather(&mut self, map: &PageMap, pages: Range<usize>, gap_bytes: u64) {
        self.spans.clear();
        for frame in pages.flat_map(|page| map.frames_of(page)) {
            let (start, end) = (frame.offset, frame.offset + u64::from(frame.len));
            self.spans.push(Span { layer: frame.layer(), start, end, at: 0 });
        }
        self.spans.sort_unstable_by_key(|span| (span.layer, span.start));
        self.spans.dedup_by(|next, kept| {
            let is_near = next.layer == kept.layer && next.start.saturating_sub(kept.end) <= gap_bytes;
            if is_near {
                kept.end = kept.end.max(next.end);
            }
            is_near
        });
    }

    /// Has the system begin to read all of it at once, so that a disk is not waited for by one span after another.
    fn expect(&self, map: &PageMap) {
        for span in &self.spans {
            if let Some(pack) = map.pack_of(span.layer) {
                pack.expect(span.start, span.end - span.start);
            }
        }
    }

    fn read(&mut self, map: &PageMap) -> Result<(), Error> {
        let mut total = 0;
        for span in &mut self.spans {
            span.at = total;
            total += span.len();
        }
        self.bytes.resize(total, 0);
        for span in &self.spans {
            let bytes = self.bytes.get_mut(span.at..span.at + span.len());
            let (Some(pack), Some(bytes)) = (map.pack_of(span.layer), bytes) else { return Err(nowhere()) };
            pack.read_at(span.start, bytes)?;
        }
        Ok(())
    }

    /// Puts a page together; answers whether one came out.
    fn decode(&mut self, map: &PageMap, nth: usize, page: &mut [u8]) -> Result<bool, Error> {
        self.chain.clear();
        self.chain.extend(map.frames_of(nth));
        let mut decoded = !self.chain.is_empty();
        for frame in self.chain.iter().rev() {
            let stored = stored(&self.spans, &self.bytes, frame).ok_or_else(nowhere)?;
            decoded = decoded && self.decoder.decode(frame.encoding, stored, page);
        }
        Ok(decoded)
    }
}

impl Span {
    fn len(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }
}

/// A frame as it is stored, out of what was read.
fn stored<'a>(spans: &[Span], bytes: &'a [u8], frame: &Frame) -> Option<&'a [u8]> {
    let after = spans.partition_point(|span| (span.layer, span.start) <= (frame.layer(), frame.offset));
    let span = spans.get(after.checked_sub(1)?)?;
    let within = usize::try_from(frame.offset - span.start).ok()?;
    let at = span.at + within;
    bytes.get(at..at + usize::try_from(frame.len).ok()?)
}

fn nowhere() -> Error {
    Error::Misuse("a page in no layer".to_owned())
}
