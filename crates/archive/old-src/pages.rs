//! Where every page of a version is stored, as its layers say one after another from the oldest on.
//!
//! A page is found by its newest frame. Where that is a difference, the frame below it is needed too, and so on
//! down to one that holds the page whole. Frames that nothing shown needs any more are forgotten at once, so a
//! map takes no more memory than its version needs, however many layers there are.

mod earlier;
mod find;

use std::collections::BTreeSet;
use std::sync::Arc;

use asat_core::PageSize;

use crate::error::Error;
use crate::fingerprint::PageHash;
use crate::index::{Encoding, Entry};
use crate::pack::Pack;

/// One entry of a layer. Entries are known by their place in [`PageMap::frames`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Where its bytes begin; of one that has none, the version that has the page.
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Which of the map's packs holds it.
    pack: u32,
    /// The frame of the page that this one differs from, or [`NONE`].
    before: u32,
    pub(crate) encoding: Encoding,
}

impl Frame {
    fn of(entry: &Entry, pack: u32, before: u32) -> Self {
        Self { offset: entry.offset, len: entry.len, pack, before, encoding: entry.encoding }
    }

    /// The place of its layer among all that the map has seen.
    pub(crate) fn layer(&self) -> usize {
        index(self.pack)
    }
}

/// The place of no frame.
const NONE: u32 = u32::MAX;

/// A layer of a map, and how many of its frames are needed.
#[derive(Debug)]
struct Held {
    pack: Option<Arc<Pack>>,
    number: u64,
    uses: usize,
}

/// The pages of a version.
#[derive(Debug)]
pub(crate) struct PageMap {
    page_size: PageSize,
    /// The hash of each page, in order.
    hashes: Vec<PageHash>,
    /// The newest frame of each page, or [`NONE`] where it was not found.
    tops: Vec<u32>,
    frames: Vec<Frame>,
    /// Places of frames that are not needed any more.
    free: Vec<u32>,
    held: Vec<Held>,
    /// How many pages the layers so far have; no page beyond is looked for.
    page_count: usize,
    most_pages: usize,
    /// Frames that were shown again after they had been forgotten: their layers and offsets.
    shared: BTreeSet<(u64, u64)>,
}

impl PageMap {
    /// An empty map for a version of so many pages.
    pub(crate) fn new(page_size: PageSize, most_pages: usize) -> Self {
        let (hashes, tops, frames) = (Vec::new(), Vec::new(), Vec::new());
        let (free, held) = (Vec::new(), Vec::new());
        Self {
            page_size,
            hashes,
            tops,
            frames,
            free,
            held,
            page_count: 0,
            most_pages,
            shared: BTreeSet::new(),
        }
    }

    /// Lays the next layer upon those before, which are `older`, newest first, should it refer to them. `gone` hears of
    /// each frame that is not shown from here on, with the number of its layer. Fails where an index is malformed, or
    /// for want of memory.
    pub(crate) fn apply(
        &mut self,
        pack: &Arc<Pack>,
        older: &mut dyn FnMut() -> Result<Vec<Arc<Pack>>, Error>,
        gone: &mut dyn FnMut(&Frame, u64),
    ) -> Result<(), Error> {
        let meta = pack.meta();
        if meta.parent.is_none() || meta.page_size != self.page_size {
            self.resize(0, pack, gone)?;
            self.page_size = meta.page_size;
        }
        self.resize(usize::try_from(meta.page_count).unwrap_or(usize::MAX), pack, gone)?;
        let nth = u32::try_from(self.held.len()).unwrap_or(NONE);
        self.held.push(Held { pack: Some(Arc::clone(pack)), number: meta.number, uses: 0 });
        let mut again = Vec::new();
        let mut read = pack.index()?.each(|entry| match entry.encoding {
            Encoding::Earlier => again.push(entry),
            _ => self.add(nth, &entry, gone),
        });
        if read.is_ok() && !again.is_empty() {
            read = older().and_then(|older| self.add_earlier(nth, &again, &older, gone));
        }
        self.held.iter_mut().filter(|held| held.uses == 0).for_each(|held| held.pack = None);
        read
    }

    /// Takes away the pages beyond an end, or makes room for those up to it.
    fn resize(&mut self, count: usize, pack: &Pack, gone: &mut dyn FnMut(&Frame, u64)) -> Result<(), Error> {
        let count = count.min(self.most_pages);
        for nth in count..self.page_count {
            self.let_go(nth, gone);
        }
        let refused =
            |_| Error::io("hold the page map of", pack.path(), std::io::ErrorKind::OutOfMemory.into());
        let more = count.saturating_sub(self.tops.len());
        self.tops.try_reserve(more).map_err(refused)?;
        self.hashes.try_reserve(more).map_err(refused)?;
        self.tops.resize(self.tops.len() + more, NONE);
        self.hashes.resize(self.hashes.len() + more, PageHash::default());
        self.page_count = count;
        Ok(())
    }

    fn add(&mut self, nth: u32, entry: &Entry, gone: &mut dyn FnMut(&Frame, u64)) {
        let Some(page) = nth_of(entry.page).filter(|&page| page < self.page_count) else {
            return;
        };
        let mut before = NONE;
        if entry.encoding == Encoding::Difference {
            before = self.top(page).unwrap_or(NONE);
        } else {
            self.let_go(page, gone);
        }
        // A difference from a page that is nowhere is nowhere too.
        let is_lost = entry.encoding == Encoding::Difference && before == NONE;
        let place = if is_lost { NONE } else { self.put(Frame::of(entry, nth, before)) };
        self.show(page, place, entry.hash);
    }

    /// Has a page, counted from 0, begin with this entry.
    fn show(&mut self, page: usize, place: u32, page_hash: PageHash) {
        if let (Some(top), Some(hash)) = (self.tops.get_mut(page), self.hashes.get_mut(page)) {
            (*top, *hash) = (place, page_hash);
        }
    }

    fn put(&mut self, frame: Frame) -> u32 {
        if let Some(held) = self.held_mut(&frame) {
            held.uses += 1;
        }
        if let Some(place) = self.free.pop() {
            if let Some(old) = self.frames.get_mut(index(place)) {
                *old = frame;
            }
            return place;
        }
        self.frames.push(frame);
        u32::try_from(self.frames.len() - 1).unwrap_or(NONE)
    }

    /// Forgets the frames of a page, counted from 0.
    fn let_go(&mut self, page: usize, gone: &mut dyn FnMut(&Frame, u64)) {
        let mut next = self.tops.get_mut(page).map_or(NONE, |top| std::mem::replace(top, NONE));
        while let Some(frame) = self.frames.get(index(next)).copied() {
            self.free.push(next);
            next = frame.before;
            if let Some(held) = self.held_mut(&frame) {
                held.uses -= 1;
                gone(&frame, held.number);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, gone: &mut dyn FnMut(&Frame, u64)) {
        (0..self.page_count).for_each(|page| self.let_go(page, gone));
    }

    fn held_mut(&mut self, frame: &Frame) -> Option<&mut Held> {
        self.held.get_mut(index(frame.pack))
    }

    /// The size of a page.
    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// How many pages the newest layer has, as far as they were to be looked for.
    pub(crate) fn page_count(&self) -> usize {
        self.page_count
    }

    /// The hash of every page, in order.
    pub(crate) fn hashes(&self) -> &[PageHash] {
        self.hashes.get(..self.page_count).unwrap_or(&self.hashes)
    }

    /// The hash of a page, counted from 0.
    pub(crate) fn hash(&self, page: usize) -> Option<PageHash> {
        self.hashes.get(page).filter(|_| page < self.page_count).copied()
    }

    /// Frames that more than one row of versions needs, by their layers and offsets.
    pub(crate) fn shared(&self) -> &BTreeSet<(u64, u64)> {
        &self.shared
    }

    /// The pages that are in no layer.
    pub(crate) fn missing(&self) -> impl Iterator<Item = usize> {
        (0..self.page_count).filter(|&page| self.top(page).is_none())
    }

    fn top(&self, page: usize) -> Option<u32> {
        self.tops.get(page).copied().filter(|&top| top != NONE)
    }

    /// The frames that make a page, counted from 0: the newest first, the one that holds it whole last.
    pub(crate) fn frames_of(&self, page: usize) -> impl Iterator<Item = &Frame> + Clone {
        self.entries_of(page).filter(|frame| frame.encoding != Encoding::Earlier)
    }

    /// These, and among them those without bytes that say where to go on.
    pub(crate) fn entries_of(&self, page: usize) -> impl Iterator<Item = &Frame> + Clone {
        let first = self.top(page).and_then(|top| self.frames.get(index(top)));
        std::iter::successors(first, |frame| self.frames.get(index(frame.before)))
    }

    /// How many differences lie upon the frame that holds a page whole.
    pub(crate) fn depth(&self, page: usize) -> u32 {
        u32::try_from(self.frames_of(page).count().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The layer of a frame, and its place among all that the map has seen.
    pub(crate) fn pack(&self, frame: &Frame) -> Option<(usize, &Arc<Pack>)> {
        Some((frame.layer(), self.pack_of(frame.layer())?))
    }

    /// The layer at a place among all that the map has seen, where something of it is needed.
    pub(crate) fn pack_of(&self, layer: usize) -> Option<&Arc<Pack>> {
        self.held.get(layer)?.pack.as_ref()
    }

    /// The number of a frame's layer.
    pub(crate) fn layer_of(&self, frame: &Frame) -> u64 {
        self.held.get(index(frame.pack)).map_or(0, |held| held.number)
    }

    /// How many layers the map has seen.
    pub(crate) fn layers(&self) -> usize {
        self.held.len()
    }

    /// The layers of which something is needed, oldest first.
    pub(crate) fn packs(&self) -> impl Iterator<Item = &Arc<Pack>> {
        self.held.iter().filter_map(|held| held.pack.as_ref())
    }
}

/// A page's place, counted from 0; page numbers begin at 1.
pub(crate) fn nth_of(page: u32) -> Option<usize> {
    usize::try_from(page.checked_sub(1)?).ok()
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}
