//! Where every page of a version is stored.
//!
//! Pages are found block by block, when somebody asks for one of a block: a version of any size is opened at once. What is found is kept if
//! it is asked for again. A page is made of its newest entry up to the version. If that is a difference, the entry is needed that it lies
//! upon, and so on down to one that has the page whole.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use asat_core::PageSize;

use crate::error::{Error, unless_refused};
use crate::index::{BLOCK_PAGES, Check, Encoding, Entry};
use crate::segment::Segment;
use crate::state::State;

/// Stored bytes of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    /// The place of its segment among those of the view.
    pub(crate) segment: u32,
    /// Its length is that of a page at most, and nothing has none.
    len_less_one: u16,
    pub(crate) encoding: Encoding,
}

impl Frame {
    fn new(entry: &Entry, segment: u32) -> Self {
        let len_less_one = u16::try_from(entry.len.saturating_sub(1)).unwrap_or(u16::MAX);
        Self { offset: entry.offset, segment, len_less_one, encoding: entry.encoding }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::from(self.len_less_one) + 1
    }
}

/// How a page comes about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// The frame that holds it whole last, and before it the differences upon that, the newest first. None: it is nowhere.
    pub(crate) frames: &'a [Frame],
    /// What it is checked against.
    pub(crate) check: Check,
    /// The version at which it became this.
    pub(crate) since: u64,
}

/// How several pages come about: those of a block, or some that were asked for together.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// For each page where its frames end among all of them, its check, and since when it is this.
    pages: Vec<(usize, Check, u64)>,
    frames: Vec<Frame>,
}

impl Places {
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// How a page comes about, by its place among these.
    pub(crate) fn get(&self, place: usize) -> Option<Page<'_>> {
        let start = place.checked_sub(1).and_then(|before| self.pages.get(before)).map_or(0, |page| page.0);
        let &(end, check, since) = self.pages.get(place)?;
        Some(Page { frames: self.frames.get(start..end).unwrap_or_default(), check, since })
    }

    /// Those at some places of these.
    pub(crate) fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> Self {
        let mut chosen = Self::default();
        let places = (0..self.len()).filter(|place| is_chosen(*place));
        places.filter_map(|place| self.get(place)).for_each(|page| chosen.push(page));
        chosen
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Page<'_>> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// Takes one more.
    fn push(&mut self, page: Page<'_>) {
        self.frames.extend(page.frames);
        self.pages.push((self.frames.len(), page.check, page.since));
    }
}

/// A version's pages. Segments that it needs stay open, so what is merged later does not concern it.
#[derive(Debug)]
pub(crate) struct View {
    /// The version.
    pub(crate) number: u64,
    pub(crate) page_size: PageSize,
    /// How many pages there are.
    pub(crate) page_count: usize,
    /// The manifest by which this is so.
    pub(crate) manifest: u64,
    /// The version below which nothing is seen.
    floor: u64,
    /// Ranges of versions of which nothing is seen.
    voided: Vec<(u64, u64)>,
    /// The segments of which something may be seen, in the order of their files.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The files that it may need and that are lost.
    pub(crate) lost: BTreeSet<u64>,
    blocks: Vec<OnceLock<Places>>,
}

/// An entry, and the place of its segment.
type Found = (Entry, u32);

impl View {
    /// The view of a live version. All segments that it may need must be there: without one, older content could be taken for its own.
    pub(crate) fn new(state: &State, number: u64) -> Result<Self, Error> {
        state.seen_in(number).try_for_each(|slot| slot.segment().map(drop))?;
        Self::without_lost(state, number)
    }

    /// The same without the segments that are lost. Nothing may be believed of it then unless all of it has the version's fingerprint.
    pub(crate) fn without_lost(state: &State, number: u64) -> Result<Self, Error> {
        let version = state.live(number).ok_or_else(|| state.no_such_version(number))?;
        let page_size = state.described_in(number)?.directory.page_size;
        let (mut segments, mut lost) = (Vec::new(), BTreeSet::new());
        for slot in state.seen_in(number) {
            match unless_refused(slot.segment())? {
                Ok(segment) if segment.directory.page_size == page_size => segments.push(Arc::clone(segment)),
                Ok(_) => {}
                Err(_) => _ = lost.insert(slot.reference.file),
            }
        }
        // Of two entries of one page and version, that in the file with the higher number counts.
        segments.sort_unstable_by_key(|segment| segment.number);
        let page_count = usize::try_from(version.page_count).unwrap_or(usize::MAX);
        let count = version.page_count.div_ceil(BLOCK_PAGES);
        let blocks = (0..count).map(|_| OnceLock::new()).collect();
        let (floor, voided) = (state.floor(number), state.manifest.voided.clone());
        let manifest = state.manifest.number;
        Ok(Self { number, page_size, page_count, manifest, floor, voided, segments, lost, blocks })
    }

    /// A segment by its place.
    pub(crate) fn segment(&self, place: u32) -> Option<&Arc<Segment>> {
        self.segments.get(usize::try_from(place).unwrap_or(usize::MAX))
    }

    /// How a page, counted from 0, comes about.
    pub(crate) fn page(&self, nth: usize) -> Result<Page<'_>, Error> {
        let per_block = usize::try_from(BLOCK_PAGES).unwrap_or(usize::MAX);
        let page = self.block(nth / per_block)?.get(nth % per_block).filter(|_| nth < self.page_count);
        let beyond = || format!("page {} is beyond the end of version {}", nth + 1, self.number);
        page.ok_or_else(|| Error::Misuse(beyond()))
    }

    /// How pages, counted from 0, come about, one after another. If they are `asked_again`, what is found is kept, with the other pages of their
    /// blocks: of a large version that takes more memory than the hashes of its pages.
    pub(crate) fn pages(
        &self,
        pages: impl Iterator<Item = usize>,
        asked_again: bool,
    ) -> Result<Places, Error> {
        let per_block = usize::try_from(BLOCK_PAGES).unwrap_or(usize::MAX);
        let (pages, mut places) = (pages.collect::<Vec<_>>(), Places::default());
        let blocks = || pages.iter().map(|page| page / per_block);
        let mut before = None;
        blocks().filter(|nth| before.replace(*nth) != Some(*nth)).for_each(|nth| self.expect_block(nth));
        for together in pages.chunk_by(|one, next| one / per_block == next / per_block) {
            let nth = together.first().map_or(0, |page| page / per_block);
            let is_known = self.blocks.get(nth).is_none_or(|block| block.get().is_some());
            let is_sorted = together.is_sorted_by(|one, next| one < next);
            if asked_again || is_known || !is_sorted || together.last() >= Some(&self.page_count) {
                together.iter().try_for_each(|&page| self.page(page).map(|page| places.push(page)))?;
            } else {
                let numbers = together.iter().map(|&page| u32::try_from(page + 1).unwrap_or(u32::MAX));
                let numbers: Vec<u32> = numbers.collect();
                let is_asked = |page| numbers.binary_search(&page).is_ok();
                let number = u32::try_from(nth).unwrap_or(u32::MAX);
                let found = self.load(number, numbers.iter().copied(), is_asked)?;
                found.iter().for_each(|page| places.push(page));
            }
        }
        Ok(places)
    }

    fn block(&self, nth: usize) -> Result<&Places, Error> {
        let Some(place) = self.blocks.get(nth) else {
            return Err(Error::Misuse(format!("block {nth} is beyond the end of version {}", self.number)));
        };
        if let Some(block) = place.get() {
            return Ok(block);
        }
        self.expect_block(nth);
        let number = u32::try_from(nth).unwrap_or(u32::MAX);
        let first = number * BLOCK_PAGES + 1;
        let end = u32::try_from(self.page_count).unwrap_or(u32::MAX);
        let pages = first..=first.saturating_add(BLOCK_PAGES - 1).min(end);
        let block = self.load(number, pages, |_| true)?.fitted();
        Ok(place.get_or_init(|| block))
    }

    /// Has the system begin to read a block that is not known yet, of all segments at once.
    fn expect_block(&self, nth: usize) {
        if self.blocks.get(nth).is_some_and(|block| block.get().is_none()) {
            let number = u32::try_from(nth).unwrap_or(u32::MAX);
            self.segments.iter().for_each(|segment| segment.expect_block(number));
        }
    }

    /// Finds pages of a block, in their order; `is_asked` says which these are.
    fn load(
        &self,
        number: u32,
        pages: impl Iterator<Item = u32>,
        is_asked: impl Fn(u32) -> bool,
    ) -> Result<Places, Error> {
        let mut found: Vec<Found> = Vec::new();
        for (place, segment) in (0..).zip(&self.segments) {
            segment.entries(number, |entry| {
                if self.sees(entry.version) && is_asked(entry.page) {
                    found.push((entry, place));
                }
            })?;
        }
        Ok(Places::of(&found, pages))
    }

    /// Whether an entry of a version belongs to what this version is made of.
    fn sees(&self, version: u64) -> bool {
        let is_void = self.voided.iter().any(|(first, last)| (*first..=*last).contains(&version));
        (self.floor..=self.number).contains(&version) && !is_void
    }

    /// The numbers of the pages, from 1 to `most` and in order, that became what they are after an older version that this one's archive has
    /// as well. Only indexes are read, of the segments that have something newer than that.
    pub(crate) fn changed_after(&self, older: u64, most: u32) -> Result<Vec<u32>, Error> {
        let mut pages = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.directory.last > older) {
            let blocks = segment.directory.bands.iter().flatten().map(|block| block.block);
            let is_of_these = |block: &u32| u64::from(*block) * u64::from(BLOCK_PAGES) < u64::from(most);
            let blocks: BTreeSet<u32> = blocks.filter(is_of_these).collect();
            blocks.iter().for_each(|block| segment.expect_block(*block));
            for block in blocks {
                segment.entries(block, |entry| {
                    if entry.page <= most && entry.version > older && self.sees(entry.version) {
                        pages.push(entry.page);
                    }
                })?;
            }
        }
        pages.sort_unstable();
        pages.dedup();
        Ok(pages)
    }
}

impl Places {
    /// How these pages come about, which are in order. What was found of them is in parts, each of one page with rising versions.
    fn of(found: &[Found], pages: impl Iterator<Item = u32>) -> Self {
        let is_further =
            |(one, _): &Found, (next, _): &Found| one.page == next.page && one.version < next.version;
        let page_of = |part: &[Found]| part.first().map_or(0, |(entry, _)| entry.page);
        let mut parts: Vec<&[Found]> = found.chunk_by(is_further).collect();
        // Each band has its own in order already: a stable sort is quick with that.
        parts.sort_by_key(|part| page_of(part));
        let (mut block, mut rest) = (Self::default(), parts.as_slice());
        for page in pages {
            let (of_page, after) = rest.split_at(rest.partition_point(|part| page_of(part) <= page));
            rest = after;
            block.push_parts(of_page);
        }
        block
    }

    /// The block without room for more: of a large store there are many.
    fn fitted(mut self) -> Self {
        self.pages.shrink_to_fit();
        self.frames.shrink_to_fit();
        self
    }

    /// Takes the next page by its parts. Of several entries of one version that counts whose segment has the highest place.
    fn push_parts(&mut self, parts: &[&[Found]]) {
        let start = self.frames.len();
        let newest = parts.iter().filter_map(|part| part.last());
        let newest = newest.max_by_key(|(entry, place)| (entry.version, *place));
        let (check, since) = newest.map_or((Check::default(), 0), |(entry, _)| (entry.check, entry.version));
        let mut next = newest;
        while let Some((entry, place)) = next {
            self.frames.push(Frame::new(entry, *place));
            if entry.encoding != Encoding::Difference {
                self.pages.push((self.frames.len(), check, since));
                return;
            }
            let at_base = parts.iter().filter_map(|part| {
                let at = part.binary_search_by_key(&entry.base, |(other, _)| other.version);
                at.ok().and_then(|at| part.get(at))
            });
            next = at_base.max_by_key(|(_, place)| *place);
        }
        // Something that it lies upon is nowhere, and so is it.
        self.frames.truncate(start);
        self.pages.push((start, check, since));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Segments, each with bands of entries: which page, which version, how far below lies what it is laid upon if it is a difference.
    fn segments() -> impl Strategy<Value = Vec<Vec<Vec<(u32, u64, u64)>>>> {
        let band = prop::collection::vec((1..6_u32, 10..24_u64, 0..4_u64), 0..12);
        prop::collection::vec(prop::collection::vec(band, 0..3), 0..6)
    }

    proptest! {
        #[test]
        fn a_page_is_made_of_its_newest_entry_and_what_that_lies_upon(segments in segments()) {
            let (mut found, mut model) = (Vec::new(), BTreeMap::new());
            let mut offset = 0_u64;
            for (place, bands) in (0..).zip(&segments) {
                let mut is_there = BTreeSet::new();
                for band in bands {
                    let mut band = band.clone();
                    band.sort_unstable();
                    for (page, version, back) in band {
                        // No segment says of a page twice what it became at a version.
                        if !is_there.insert((page, version)) {
                            continue;
                        }
                        offset += 1;
                        let encoding = if back > 0 { Encoding::Difference } else { Encoding::Zstd };
                        let (base, check) = (if back > 0 { version - back } else { 0 }, offset.to_le_bytes());
                        let entry = Entry { page, version, encoding, base, offset, len: 1, check };
                        found.push((entry, place));
                        model.insert((page, version), (entry, place));
                    }
                }
            }
            let block = Places::of(&found, 1..=5);
            let mut start = 0;
            prop_assert_eq!(block.pages.len(), 5);
            for (page, &(end, check, since)) in (1..).zip(&block.pages) {
                let newest = model.range((page, 0)..(page + 1, 0)).next_back().map(|(_, newest)| *newest);
                let upon = |(entry, _): &Found| {
                    let is_difference = entry.encoding == Encoding::Difference;
                    model.get(&(page, entry.base)).copied().filter(|_| is_difference)
                };
                let chain: Vec<Found> = std::iter::successors(newest, upon).collect();
                let is_whole = chain.last().is_some_and(|(last, _)| last.encoding == Encoding::Zstd);
                let expected = chain.iter().filter(|_| is_whole).map(|(entry, place)| (entry.offset, *place));
                let frames = block.frames[start..end].iter().map(|frame| (frame.offset, frame.segment));
                prop_assert!(frames.eq(expected), "page {}", page);
                let said = newest.map_or((Check::default(), 0), |(entry, _)| (entry.check, entry.version));
                prop_assert_eq!((check, since), said);
                start = end;
            }
        }
    }
}
