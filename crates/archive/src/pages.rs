//! Reads pages of a version, with no more of its segments than they need.
//!
//! A version's pages lie in several segments, and not all of a segment is of use to it. So frames that lie close together are read
//! together, as one span, and what lies between spans is left out. Every page is compared with its check.

use crate::codec::{Decoder, Stored};
use crate::error::{Error, unless_refused};
use crate::fingerprint::{PageHash, hash_pages};
use crate::index::check_of;
use crate::view::{Frame, Places, View};

/// Frames of a segment with at most so much between them are read together. A disk is asked for all spans at once: with more
/// between them, it would read little of a version and much of others.
const GAP_BYTES: u64 = 4 << 10;

/// What reading pages needs besides the pages.
pub(crate) struct Pages {
    decoder: Decoder,
    /// In the order of segments, and within one in the order of bytes; no two of them touch.
    spans: Vec<Span>,
    bytes: Vec<u8>,
    /// The hash of each page that was read last.
    pub(crate) hashes: Vec<PageHash>,
    /// Those that did not come out, by their places among the pages that were read last.
    pub(crate) lost: Vec<usize>,
}

/// Bytes of a segment, which is known by its place in the view.
struct Span {
    segment: u32,
    start: u64,
    end: u64,
    /// Where they are in [`Pages::bytes`].
    at: usize,
    /// Whether they could be read.
    is_read: bool,
}

impl Span {
    /// Takes the next one in if it is near enough to be read together with this; answers whether it is.
    fn takes_in(&mut self, next: &Self) -> bool {
        let near = self.start..=self.end.saturating_add(GAP_BYTES);
        let is_near = next.segment == self.segment && near.contains(&next.start);
        if is_near {
            self.end = self.end.max(next.end);
        }
        is_near
    }

    fn len(&self) -> usize {
        usize::try_from(self.end - self.start).unwrap_or(usize::MAX)
    }
}

impl Pages {
    pub(crate) fn new() -> Result<Self, Error> {
        let (spans, bytes, hashes, lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { decoder: Decoder::new()?, spans, bytes, hashes, lost })
    }

    /// Reads these pages, counted from 0, one after another into `out`. What does not come out is told by [`Self::lost`].
    ///
    /// # Errors
    /// Where the machine refuses.
    pub(crate) fn read(
        &mut self,
        view: &View,
        pages: impl Iterator<Item = usize>,
        out: &mut [u8],
        is_expected: bool,
    ) -> Result<(), Error> {
        self.read_placed(view, &view.pages(pages, true)?, out, is_expected)
    }

    /// The same, if it is known how the pages come about.
    pub(crate) fn read_placed(
        &mut self,
        view: &View,
        places: &Places,
        out: &mut [u8],
        is_expected: bool,
    ) -> Result<(), Error> {
        let page_len = view.page_size.as_usize();
        self.lost.clear();
        self.gather(places);
        if !is_expected && self.spans.len() > 1 {
            self.expect(view);
        }
        self.read_spans(view)?;
        for (nth, (place, page)) in places.iter().zip(out.chunks_exact_mut(page_len)).enumerate() {
            if !self.decode(view, place.frames, page)? {
                self.lost.push(nth);
            }
        }
        self.hashes.clear();
        hash_pages(out, page_len, &mut self.hashes);
        for (nth, (place, hash)) in places.iter().zip(&self.hashes).enumerate() {
            if check_of(hash) != place.check && !self.lost.contains(&nth) {
                self.lost.push(nth);
            }
        }
        Ok(())
    }

    /// Has the system begin to read pages that are asked for soon.
    pub(crate) fn expect_pages(&mut self, view: &View, pages: impl Iterator<Item = usize>) {
        if let Ok(places) = view.pages(pages, true) {
            self.gather(&places);
            self.expect(view);
        }
    }

    /// Finds what has to be read for these pages.
    fn gather(&mut self, places: &Places) {
        self.spans.clear();
        for place in places.iter() {
            // Differences lie one after another behind what they lie upon: most are near the last span already.
            for frame in place.frames.iter().rev() {
                let (start, end) = (frame.offset, frame.offset + u64::from(frame.len()));
                let next = Span { segment: frame.segment, start, end, at: 0, is_read: false };
                if !self.spans.last_mut().is_some_and(|kept| kept.takes_in(&next)) {
                    self.spans.push(next);
                }
            }
        }
        self.spans.sort_unstable_by_key(|span| (span.segment, span.start));
        self.spans.dedup_by(|next, kept| kept.takes_in(next));
    }

    /// Has the system begin to read all of it at once, so that a disk is not waited for by one span after another.
    fn expect(&self, view: &View) {
        for span in &self.spans {
            if let Some(segment) = view.segment(span.segment) {
                segment.object.expect(span.start, span.end - span.start);
            }
        }
    }

    fn read_spans(&mut self, view: &View) -> Result<(), Error> {
        let mut total = 0;
        for span in &mut self.spans {
            span.at = total;
            total += span.len();
        }
        self.bytes.resize(total, 0);
        for span in &mut self.spans {
            let bytes = self.bytes.get_mut(span.at..span.at + span.len());
            let (Some(segment), Some(bytes)) = (view.segment(span.segment), bytes) else { continue };
            span.is_read = unless_refused(segment.object.read(span.start, bytes))?.is_ok();
        }
        Ok(())
    }

    /// Puts a page together; answers whether one came out.
    fn decode(&mut self, view: &View, frames: &[Frame], page: &mut [u8]) -> Result<bool, Error> {
        let Self { decoder, spans, bytes, .. } = self;
        for frame in frames.iter().rev() {
            let (read, segment) = (read(spans, bytes, frame), view.segment(frame.segment));
            let (Some(read), Some(segment)) = (read, segment) else { return Ok(false) };
            let dictionary = unless_refused(segment.dictionary_for(frame.encoding))?;
            let stored = |dictionary| Stored { encoding: frame.encoding, frame: read, dictionary };
            if !dictionary.is_ok_and(|dictionary| decoder.decode(stored(dictionary), page)) {
                return Ok(false);
            }
        }
        Ok(!frames.is_empty())
    }
}

/// A frame's bytes, unless they could not be read.
fn read<'a>(spans: &[Span], bytes: &'a [u8], frame: &Frame) -> Option<&'a [u8]> {
    let after = spans.partition_point(|span| (span.segment, span.start) <= (frame.segment, frame.offset));
    let span = spans.get(after.checked_sub(1)?).filter(|span| span.is_read)?;
    let within = usize::try_from(frame.offset - span.start).ok()?;
    let at = span.at + within;
    bytes.get(at..at + usize::try_from(frame.len()).ok()?)
}
