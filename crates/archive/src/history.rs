//! What became of each page: all entries of an archive, page by page, and which of them live versions need.
//!
//! Whoever looks at more than one version goes through pages in this way: a merge, a verification, and whoever weighs versions.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use asat_core::PageSize;

use crate::codec::{Decoder, Stored};
use crate::directory::VersionRef;
use crate::error::Error;
use crate::index::{BLOCK_PAGES, Encoding, Entry};
use crate::segment::Segment;
use crate::state::State;

/// An entry among those of its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) entry: Entry,
    /// The place of its segment among those of the history.
    pub(crate) segment: usize,
    /// Which live versions show it, by their places among those of the history.
    pub(crate) shown: (usize, usize),
}

impl Item {
    /// Whether a live version shows it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown.0 < self.shown.1
    }

    /// The places of the live versions that may show it.
    pub(crate) fn shown_in(&self) -> Range<usize> {
        self.shown.0..self.shown.1
    }
}

/// A live version, as far as it says which pages it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) number: u64,
    page_count: u32,
    floor: u64,
    /// Whether a lost segment may have it: then it is kept what it would need, and nothing else is known of it.
    pub(crate) is_lost: bool,
}

impl Live {
    /// A version of which a lost segment may know more.
    fn lost(number: u64) -> Self {
        Self { number, page_count: u32::MAX, floor: 0, is_lost: true }
    }

    /// The version below which nothing is seen in it.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Whether it may need a block of a segment.
    pub(crate) fn may_need(&self, segment: &Segment, block: u32) -> bool {
        let (first, last) = (segment.directory.first, segment.directory.last);
        first <= self.number && self.floor <= last && self.page_count > block.saturating_mul(BLOCK_PAGES)
    }

    /// Whether it shows what a page became at a version, if nothing came after that.
    pub(crate) fn shows(&self, page: u32, since: u64) -> bool {
        page <= self.page_count && self.floor <= since
    }
}

/// The entries of all segments with pages of one size.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) page_size: PageSize,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The live versions of these segments, by number.
    pub(crate) live: Vec<Live>,
    /// Ranges of versions of which nothing is seen.
    voided: Vec<(u64, u64)>,
    /// Blocks of segments that are passed over, by the places of these: they cannot be read.
    pub(crate) without: RefCell<BTreeSet<(usize, u32)>>,
}

impl History {
    /// The histories of an archive: one for each size that its pages ever had. Segments that are lost are not in it; whatever their
    /// versions may need counts as needed.
    pub(crate) fn all(state: &State) -> Result<Vec<Self>, Error> {
        Self::from(state, 0)
    }

    /// The same of what became of pages from a version on: what that lies upon below is not in it.
    pub(crate) fn from(state: &State, first: u64) -> Result<Vec<Self>, Error> {
        let mut histories: Vec<Self> = Vec::new();
        let mut lost: Vec<u64> = state.manifest.unread.values().copied().collect();
        for slot in state.slots.iter().filter(|slot| slot.reference.last >= first) {
            let segment = match slot.segment() {
                Ok(segment) => Arc::clone(segment),
                Err(error) if error.is_loss() => {
                    lost.extend(slot.reference.first..=slot.reference.last);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let page_size = segment.page_size();
            match histories.iter_mut().find(|history| history.page_size == page_size) {
                Some(history) => history.segments.push(segment),
                None => histories.push(Self {
                    page_size,
                    segments: vec![segment],
                    live: Vec::new(),
                    voided: state.manifest.voided.clone(),
                    without: RefCell::default(),
                }),
            }
        }
        let (live, alone) = (state.live_from(first), state.alone());
        lost.retain(|number| *number >= first && state.is_live(*number) && !live.contains_key(number));
        for history in &mut histories {
            let mut of_segments: BTreeSet<u64> = BTreeSet::new();
            for segment in &history.segments {
                of_segments.extend(segment.directory.versions.iter().map(|version| version.number));
            }
            let versions = of_segments.iter().filter_map(|number| live.get(number));
            let shown = |version: &VersionRef| {
                let below = alone.partition_point(|alone| *alone <= version.number).checked_sub(1);
                let floor = below.and_then(|nth| alone.get(nth)).copied().unwrap_or(0);
                let (number, page_count) = (version.number, version.page_count);
                Live {
                    number,
                    page_count,
                    floor: if version.is_whole { number } else { floor },
                    is_lost: false,
                }
            };
            history.live = versions.map(shown).chain(lost.iter().map(|number| Live::lost(*number))).collect();
            history.live.sort_unstable_by_key(|live| live.number);
        }
        Ok(histories)
    }

    /// The blocks that any segment has entries of, in order.
    pub(crate) fn blocks(&self) -> BTreeSet<u32> {
        self.segments
            .iter()
            .flat_map(|segment| segment.directory.bands.iter().flatten().map(|block| block.block))
            .collect()
    }

    /// The segment that has an item.
    pub(crate) fn segment(&self, item: &Item) -> Result<&Arc<Segment>, Error> {
        let nowhere = || Error::Misuse("an entry of no segment".to_owned());
        self.segments.get(item.segment).ok_or_else(nowhere)
    }

    /// The place of the segment that an error is about.
    pub(crate) fn place_of(&self, error: &Error) -> Option<usize> {
        self.segments.iter().position(|segment| error.path() == Some(segment.name()))
    }

    /// Goes through the pages of a block: `each` hears of the entries of a page, in the order of versions.
    pub(crate) fn pages(
        &self,
        block: u32,
        mut each: impl FnMut(&mut [Item]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut items = Vec::new();
        let without = self.without.borrow();
        let is_read = |(place, _): &(usize, _)| !without.contains(&(*place, block));
        for (place, segment) in self.segments.iter().enumerate().filter(is_read) {
            segment.entries(block, |entry| {
                if !self.voided.iter().any(|(first, last)| (*first..=*last).contains(&entry.version)) {
                    items.push(Item { entry, segment: place, shown: (0, 0) });
                }
            })?;
        }
        let file = |place: usize| self.segments.get(place).map_or(0, |segment| segment.number);
        items.sort_unstable_by_key(|item| (item.entry.page, item.entry.version, Reverse(file(item.segment))));
        // Of several that say the same, the one counts that was written last.
        items.dedup_by_key(|item| (item.entry.page, item.entry.version));
        for page in items.chunk_by_mut(|one, other| one.entry.page == other.entry.page) {
            self.show(page);
            each(page)?;
        }
        Ok(())
    }

    /// Passes over those blocks that cannot be read of all segments but one.
    pub(crate) fn pass_over_others(&self, one: usize) -> Result<(), Error> {
        for block in self.blocks() {
            while let Err(error) = self.pages(block, |_| Ok(())) {
                let other = self.place_of(&error).filter(|place| error.is_loss() && *place != one);
                if !other.is_some_and(|other| self.without.borrow_mut().insert((other, block))) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Finds out which live versions show which of a page's entries.
    fn show(&self, items: &mut [Item]) {
        let mut until = self.live.len();
        for item in items.iter_mut().rev() {
            let Entry { page, version, .. } = item.entry;
            let from = self.live.partition_point(|live| live.number < version);
            let range = from..until.max(from);
            let shows = |live: &Live| live.shows(page, version);
            let versions = self.live.get(range.clone()).unwrap_or_default();
            let first = versions.iter().position(shows).unwrap_or(versions.len());
            let last = versions.iter().rposition(shows).map_or(first, |last| last + 1);
            item.shown = (range.start + first, range.start + last.max(first));
            until = from;
        }
    }
}

/// The place of what an item's difference lies upon, among the items of its page.
pub(crate) fn base_of(items: &[Item], entry: &Entry) -> Option<usize> {
    let is_difference = entry.encoding == Encoding::Difference;
    let found = items.binary_search_by_key(&entry.base, |item| item.entry.version).ok();
    found.filter(|_| is_difference)
}

/// The places of what a page is made of as it became at an item: that one, what it lies upon, and so on.
pub(crate) fn chain(items: &[Item], place: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(place), |place| base_of(items, &items.get(*place)?.entry))
}

/// Which items are needed: those that are shown, and what they lie upon.
pub(crate) fn needed(items: &[Item]) -> Vec<bool> {
    let mut needed: Vec<bool> = items.iter().map(Item::is_shown).collect();
    for (place, item) in items.iter().enumerate().rev() {
        if needed.get(place) == Some(&true)
            && let Some(base) = base_of(items, &item.entry).and_then(|base| needed.get_mut(base))
        {
            *base = true;
        }
    }
    needed
}

/// Puts pages together out of items.
pub(crate) struct Assembler {
    decoder: Decoder,
    frame: Vec<u8>,
}

impl Assembler {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::new()?, frame: Vec::new() })
    }

    /// Reads a frame as it is stored.
    pub(crate) fn stored(&mut self, history: &History, item: &Item) -> Result<&[u8], Error> {
        self.frame.resize(usize::try_from(item.entry.len).unwrap_or(usize::MAX), 0);
        history.segment(item)?.read(item.entry.offset, &mut self.frame)?;
        Ok(&self.frame)
    }

    /// Lays an item's frame upon the page before it, or takes it for the page; answers whether a page came out, which is not compared with its
    /// check.
    pub(crate) fn lay(&mut self, history: &History, item: &Item, page: &mut [u8]) -> Result<bool, Error> {
        match self.try_to_lay(history, item, page) {
            Err(error) if error.is_loss() => Ok(false),
            result => result,
        }
    }

    fn try_to_lay(&mut self, history: &History, item: &Item, page: &mut [u8]) -> Result<bool, Error> {
        self.stored(history, item)?;
        let encoding = item.entry.encoding;
        let dictionary = history.segment(item)?.dictionary_for(encoding)?;
        Ok(self.decoder.decode(Stored { encoding, frame: &self.frame, dictionary }, page))
    }

    /// Puts a page together as it became at an item; answers whether it came out, which is not compared with its check.
    pub(crate) fn page(
        &mut self,
        history: &History,
        items: &[Item],
        place: usize,
        page: &mut [u8],
    ) -> Result<bool, Error> {
        let chain: Vec<&Item> = chain(items, place).filter_map(|place| items.get(place)).collect();
        let mut came_out = chain.last().is_some_and(|item| item.entry.encoding != Encoding::Difference);
        for item in chain.into_iter().rev() {
            came_out = came_out && self.lay(history, item, page)?;
        }
        Ok(came_out)
    }
}
