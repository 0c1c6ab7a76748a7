//! What became of each page: all entries of an archive, page by page, and which of them live versions need.
//!
//! Whoever looks at more than one version goes through pages in this way: a merge, a verification, and whoever weighs versions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asat_core::PageSize;

use crate::codec::{Decoder, Stored};
use crate::error::{Error, unless_refused};
use crate::fingerprint::{PageHash, page_hash};
use crate::index::{BLOCK_PAGES, Encoding, Entry, VersionRef, check_of};
use crate::layout::in_memory;
use crate::segment::Segment;
use crate::state::State;

/// An entry among those of its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) entry: Entry,
    pub(crate) segment: &'a Arc<Segment>,
    /// The place of what its difference lies upon among the items of its page, if that is there.
    pub(crate) base: Option<usize>,
    /// Whether all is among the items that it is made of.
    pub(crate) is_complete: bool,
    /// Which live versions show it, by their places among those of the history: the first, and after the last.
    pub(crate) shown: (usize, usize),
    /// Which need it, in the same way: those that show it, or something that lies upon it.
    pub(crate) needed: (usize, usize),
}

impl Item<'_> {
    /// Whether a live version shows it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown.0 < self.shown.1
    }

    /// Whether a live version needs it.
    pub(crate) fn is_needed(&self) -> bool {
        self.needed.0 < self.needed.1
    }
}

/// A live version, as far as it says which pages it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) number: u64,
    page_count: u32,
    /// The version below which nothing is seen in it.
    pub(crate) floor: u64,
    /// Whether a lost segment may have it: then it is kept what it would need, and nothing else is known of it.
    pub(crate) is_lost: bool,
}

impl Live {
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
    pub(crate) state: Arc<State>,
    pub(crate) page_size: PageSize,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The live versions of these segments, by number.
    pub(crate) live: Vec<Live>,
    /// Blocks of segments that are passed over, by the files of these: they cannot be read.
    pub(crate) without: BTreeSet<(u64, u32)>,
}

impl History {
    /// The histories of an archive: one for each size that its pages ever had. Segments that are lost are not in it; whatever their
    /// versions may need counts as needed.
    pub(crate) fn all(state: &Arc<State>) -> Result<Vec<Self>, Error> {
        Self::from(state, 0)
    }

    /// The same of what became of pages from a version on: what that lies upon below is not in it.
    pub(crate) fn from(state: &Arc<State>, first: u64) -> Result<Vec<Self>, Error> {
        let mut of_size: BTreeMap<PageSize, Vec<Arc<Segment>>> = BTreeMap::new();
        let mut lost: Vec<u64> = state.manifest.unread.values().copied().collect();
        for slot in state.slots.iter().filter(|slot| slot.reference.last >= first) {
            match unless_refused(slot.segment())? {
                Ok(segment) => {
                    of_size.entry(segment.directory.page_size).or_default().push(Arc::clone(segment))
                }
                Err(_) => lost.extend(slot.reference.first..=slot.reference.last),
            }
        }
        let known = state.live_from(first);
        // A file that is put back by now is not among these segments: what it has counts as lost all the same.
        let has = |segment: &Arc<Segment>, number| segment.directory.version(number).is_some();
        let is_held = |number| of_size.values().flatten().any(|segment| has(segment, number));
        lost.retain(|number| *number >= first && state.is_live(*number) && !is_held(*number));
        let lost =
            lost.iter().map(|number| Live { number: *number, page_count: u32::MAX, floor: 0, is_lost: true });
        let live_in = |segments: &[Arc<Segment>]| {
            let is_of_these =
                |version: &&VersionRef| segments.iter().any(|segment| has(segment, version.number));
            let live = known.iter().filter(is_of_these).map(|version| {
                let VersionRef { number, page_count, .. } = *version;
                Live { number, page_count, floor: state.floor(number), is_lost: false }
            });
            let mut live: Vec<Live> = live.chain(lost.clone()).collect();
            live.sort_unstable_by_key(|live| live.number);
            live
        };
        let history = |(page_size, segments): (_, Vec<_>)| {
            let (live, state) = (live_in(&segments), Arc::clone(state));
            Self { state, page_size, segments, live, without: BTreeSet::new() }
        };
        Ok(of_size.into_iter().map(history).collect())
    }

    /// The blocks that any segment has entries of, in order.
    pub(crate) fn blocks(&self) -> BTreeSet<u32> {
        let bands = self.segments.iter().flat_map(|segment| &segment.directory.bands);
        bands.flatten().map(|block| block.block).collect()
    }

    /// The segment that an error is about, if that says that something is lost.
    pub(crate) fn blamed(&self, error: &Error) -> Option<&Arc<Segment>> {
        let is_it = |segment: &&Arc<Segment>| error.path() == Some(segment.object.name());
        self.segments.iter().find(is_it).filter(|_| error.is_loss())
    }

    /// The items of a block, in the order of pages, and those of a page in the order of versions.
    pub(crate) fn items(&self, block: u32) -> Result<Vec<Item<'_>>, Error> {
        let mut items = Vec::new();
        let is_read = |segment: &&Arc<Segment>| !self.without.contains(&(segment.number, block));
        for segment in self.segments.iter().filter(is_read) {
            segment.entries(block, |entry| {
                if !self.state.manifest.is_void(entry.version) {
                    let (shown, needed) = ((0, 0), (0, 0));
                    items.push(Item { entry, segment, base: None, is_complete: false, shown, needed });
                }
            })?;
        }
        let file = |item: &Item<'_>| Reverse(item.segment.number);
        items.sort_unstable_by_key(|item| (item.entry.page, item.entry.version, file(item)));
        // Of several that say the same, the one counts that was written last.
        items.dedup_by_key(|item| (item.entry.page, item.entry.version));
        items.chunk_by_mut(is_same_page).for_each(|page| self.relate(page));
        Ok(items)
    }

    /// Passes over what the segment that an error is about has of a block; answers which one. `None`: the error is not about the loss of
    /// that.
    pub(crate) fn pass_over(&mut self, block: u32, error: &Error) -> Option<Arc<Segment>> {
        let segment = self.blamed(error).cloned()?;
        self.without.insert((segment.number, block)).then_some(segment)
    }

    /// Passes over those blocks that cannot be read of all segments but that of one file.
    pub(crate) fn pass_over_others(&mut self, file: u64) -> Result<(), Error> {
        for block in self.blocks() {
            while let Err(error) = self.items(block).map(drop) {
                if self.pass_over(block, &error).is_none_or(|segment| segment.number == file) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Finds out what each of a page's entries lies upon, and which live versions show it and need it.
    fn relate(&self, items: &mut [Item<'_>]) {
        for place in 0..items.len() {
            let (below, rest) = items.split_at_mut(place);
            let Some(item) = rest.first_mut() else { continue };
            item.base = below.binary_search_by_key(&item.entry.base, |item| item.entry.version).ok();
            let base = item.base.and_then(|base| below.get(base));
            let is_whole = item.entry.encoding != Encoding::Difference;
            item.is_complete = base.map_or(is_whole, |base| base.is_complete);
        }
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
            item.needed = item.shown;
            until = from;
        }
        need(items);
    }
}

fn is_same_page(one: &Item<'_>, other: &Item<'_>) -> bool {
    one.entry.page == other.entry.page
}

/// The items of a block, page by page.
pub(crate) fn pages<'a, 'b>(items: &'b [Item<'a>]) -> impl Iterator<Item = &'b [Item<'a>]> {
    items.chunk_by(is_same_page)
}

/// Marks what each item lies upon as needed by the versions that need the item. If what it lies upon is lost, that may lie upon any older
/// item, so all of these are needed.
pub(crate) fn need(mut items: &mut [Item<'_>]) {
    while let Some((item, below)) = items.split_last_mut() {
        let (from, to) = item.needed;
        let upon = match item.base {
            Some(base) => base..base + 1,
            None if item.is_complete => 0..0,
            None => 0..below.partition_point(|other| other.entry.version < item.entry.base),
        };
        for base in below.get_mut(upon).into_iter().flatten().filter(|_| from < to) {
            let (first, last) = base.needed;
            base.needed = if first < last { (first.min(from), last.max(to)) } else { (from, to) };
        }
        items = below;
    }
}

/// The places of what a page is made of as it became at an item: that one, what it lies upon, and so on.
pub(crate) fn chain(items: &[Item<'_>], place: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(place), |place| items.get(*place)?.base)
}

/// Puts pages together out of items.
pub(crate) struct Assembler {
    pub(crate) decoder: Decoder,
    frame: Vec<u8>,
    /// The page that was put together last, if it is what it was: what lies upon it is laid upon it.
    pub(crate) page: Vec<u8>,
    in_hand: Option<(u32, u64)>,
}

impl Assembler {
    /// For pages of this size.
    pub(crate) fn new(page_size: PageSize) -> Result<Self, Error> {
        let page = vec![0; page_size.as_usize()];
        Ok(Self { decoder: Decoder::new()?, frame: Vec::new(), page, in_hand: None })
    }

    /// Reads a frame as it is stored.
    pub(crate) fn stored(&mut self, item: &Item<'_>) -> Result<&[u8], Error> {
        self.frame.resize(in_memory(item.entry.len.into()), 0);
        item.segment.object.read(item.entry.offset, &mut self.frame)?;
        Ok(&self.frame)
    }

    /// Puts a page together as it became at an item; answers its hash if it comes out as it was.
    pub(crate) fn page(&mut self, items: &[Item<'_>], place: usize) -> Result<Option<PageHash>, Error> {
        let in_hand = self.in_hand.take();
        let is_in_hand = |item: &Item<'_>| in_hand == Some((item.entry.page, item.entry.version));
        let chain = || chain(items, place).filter_map(|place| items.get(place));
        let above: Vec<&Item<'_>> = chain().take_while(|item| !is_in_hand(item)).collect();
        let is_upon_hand = chain().nth(above.len()).is_some();
        let mut came_out = is_upon_hand || above.last().is_some_and(|item| item.is_complete);
        for item in above.into_iter().rev() {
            came_out = came_out && self.lay(item)?;
        }
        let hash = page_hash(&self.page);
        let entry = items
            .get(place)
            .map(|item| item.entry)
            .filter(|entry| came_out && check_of(&hash) == entry.check);
        self.in_hand = entry.map(|entry| (entry.page, entry.version));
        Ok(entry.map(|_| hash))
    }

    /// Lays an item's frame upon the page before it, or takes it for the page; answers whether a page came out.
    fn lay(&mut self, item: &Item<'_>) -> Result<bool, Error> {
        let encoding = item.entry.encoding;
        let read = self.stored(item).map(drop).and_then(|()| item.segment.dictionary_for(encoding));
        let Ok(dictionary) = unless_refused(read)? else { return Ok(false) };
        Ok(self.decoder.decode(Stored { encoding, frame: &self.frame, dictionary }, &mut self.page))
    }
}
