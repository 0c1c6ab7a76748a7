//! Where every page of a version is stored.
//!
//! Pages are found block by block, when somebody asks for one of a block: a version of any size is opened at once. A page is made of its
//! newest entry up to the version. Where that is a difference, the entry is needed that it lies upon, and so on down to one that has
//! the page whole.

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

/// The pages of a block.
#[derive(Debug, Default)]
struct Block {
    /// For each page where its frames end among all of them, its check, and since when it is this.
    pages: Vec<(usize, Check, u64)>,
    frames: Vec<Frame>,
}

/// A version's pages. Segments that it needs stay open, so what is merged later does not concern it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The version.
    pub(crate) number: u64,
    pub(crate) page_size: PageSize,
    page_count: usize,
    /// The version below which nothing is seen.
    floor: u64,
    /// Ranges of versions of which nothing is seen.
    voided: Vec<(u64, u64)>,
    /// The segments of which something may be seen.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The files that it may need and that are lost.
    pub(crate) lost: BTreeSet<u64>,
    blocks: Vec<OnceLock<Arc<Block>>>,
}

/// Room for so many entries is made before they are read: how many there are, a forged file may say.
const MOST_RESERVED: usize = 1 << 16;

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
        let page_count = usize::try_from(version.page_count).unwrap_or(usize::MAX);
        let count = version.page_count.div_ceil(BLOCK_PAGES);
        let blocks = (0..count).map(|_| OnceLock::new()).collect();
        let (floor, voided) = (state.floor(number), state.manifest.voided.clone());
        Ok(Self { number, page_size, page_count, floor, voided, segments, lost, blocks })
    }

    /// The view of a version that was written upon this one, of which `segment` has what is new. What is known of this one's pages is known of
    /// the others of that.
    pub(crate) fn next(
        &self,
        state: &State,
        segment: &Arc<Segment>,
        number: u64,
        page_count: u32,
    ) -> Result<Self, Error> {
        let place = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let pages = usize::try_from(page_count).unwrap_or(usize::MAX);
        let per_block = usize::try_from(BLOCK_PAGES).unwrap_or(usize::MAX);
        let voided = state.manifest.voided.clone();
        let mut next = Self { number, page_count: pages, voided, ..self.clone() };
        next.segments.push(Arc::clone(segment));
        next.blocks.resize_with(pages.div_ceil(per_block), OnceLock::new);
        for (block, (nth, known)) in (0..).zip(next.blocks.iter_mut().enumerate()) {
            let end = (nth + 1) * per_block;
            if self.page_count.min(end) != pages.min(end) {
                known.take();
            } else if segment.directory.has(block)
                && let Some(below) = known.take()
                && let Some(with) = below.with(segment, place, block)?
            {
                *known = OnceLock::from(Arc::new(with));
            }
        }
        Ok(next)
    }

    /// How many pages there are.
    pub(crate) fn page_count(&self) -> usize {
        self.page_count
    }

    /// A segment by its place.
    pub(crate) fn segment(&self, place: u32) -> Option<&Arc<Segment>> {
        self.segments.get(usize::try_from(place).unwrap_or(usize::MAX))
    }

    /// How a page, counted from 0, comes about.
    pub(crate) fn page(&self, nth: usize) -> Result<Page<'_>, Error> {
        let per_block = usize::try_from(BLOCK_PAGES).unwrap_or(usize::MAX);
        let block = self.block(nth / per_block)?;
        let within = nth % per_block;
        let start = within.checked_sub(1).and_then(|before| block.pages.get(before)).map_or(0, |page| page.0);
        match block.pages.get(within) {
            Some(&(end, check, since)) if nth < self.page_count => {
                Ok(Page { frames: block.frames.get(start..end).unwrap_or_default(), check, since })
            }
            _ => Err(Error::Misuse(format!("page {} is beyond the end of version {}", nth + 1, self.number))),
        }
    }

    fn block(&self, nth: usize) -> Result<&Block, Error> {
        let Some(place) = self.blocks.get(nth) else {
            return Err(Error::Misuse(format!("block {nth} is beyond the end of version {}", self.number)));
        };
        if let Some(block) = place.get() {
            return Ok(block);
        }
        let block = self.load(u32::try_from(nth).unwrap_or(u32::MAX))?;
        Ok(place.get_or_init(|| Arc::new(block)))
    }

    fn load(&self, number: u32) -> Result<Block, Error> {
        self.segments.iter().for_each(|segment| segment.expect_block(number));
        let counts = self.segments.iter().flat_map(|segment| segment.directory.blocks(number));
        let count = counts.map(|block| usize::try_from(block.count).unwrap_or(0)).sum();
        let mut found: Vec<Found> = Vec::with_capacity(usize::min(count, MOST_RESERVED));
        for (place, segment) in (0..).zip(&self.segments) {
            segment.entries(number, |entry| {
                let is_void =
                    self.voided.iter().any(|(first, last)| (*first..=*last).contains(&entry.version));
                if (self.floor..=self.number).contains(&entry.version) && !is_void {
                    found.push((entry, place));
                }
            })?;
        }
        // Each segment has its own in order already: a stable sort is quick with that.
        let file = |place: u32| self.segment(place).map_or(0, |segment| segment.number);
        found.sort_by_key(|(entry, place)| (entry.page, entry.version, file(*place)));
        let mut block = Block::default();
        let mut rest = found.as_slice();
        let first = number * BLOCK_PAGES + 1;
        let last =
            first.saturating_add(BLOCK_PAGES - 1).min(u32::try_from(self.page_count).unwrap_or(u32::MAX));
        for page in first..=last {
            let (of_page, after) = rest.split_at(rest.partition_point(|(entry, _)| entry.page <= page));
            rest = after;
            block.push(of_page);
        }
        Ok(block.fitted())
    }
}

impl Block {
    /// The block with what a segment has of it, which lies upon this. `None`: it has to be read anew.
    fn with(&self, segment: &Segment, place: u32, number: u32) -> Result<Option<Self>, Error> {
        let mut new = Vec::new();
        segment.entries(number, |entry| new.push(entry))?;
        let mut new = new.into_iter().peekable();
        let (mut block, mut start) = (Self::default(), 0);
        for (page, &(end, check, since)) in (number * BLOCK_PAGES + 1..).zip(&self.pages) {
            let known = self.frames.get(start..end).unwrap_or_default();
            start = end;
            let Some(entry) = new.next_if(|entry| entry.page == page) else {
                block.frames.extend(known);
                block.pages.push((block.frames.len(), check, since));
                continue;
            };
            block.frames.push(Frame::new(&entry, place));
            if entry.encoding == Encoding::Difference {
                if entry.base != since || known.is_empty() {
                    return Ok(None);
                }
                block.frames.extend(known);
            }
            block.pages.push((block.frames.len(), entry.check, entry.version));
        }
        Ok(Some(block.fitted()))
    }

    /// The block without room for more: of a large store there are many.
    fn fitted(mut self) -> Self {
        self.pages.shrink_to_fit();
        self.frames.shrink_to_fit();
        self
    }

    /// Takes the entries of the next page, in the order of versions; of those of one version the last counts.
    fn push(&mut self, mut entries: &[Found]) {
        let start = self.frames.len();
        let (check, since) =
            entries.last().map_or((Check::default(), 0), |(entry, _)| (entry.check, entry.version));
        while let Some((entry, segment)) = entries.last() {
            let Entry { encoding, base, .. } = *entry;
            self.frames.push(Frame::new(entry, *segment));
            if encoding != Encoding::Difference {
                self.pages.push((self.frames.len(), check, since));
                return;
            }
            let (below, _) = entries.split_at(entries.partition_point(|(other, _)| other.version <= base));
            entries = if below.last().is_some_and(|(other, _)| other.version == base) { below } else { &[] };
        }
        // Something that it lies upon is nowhere, and so is it.
        self.frames.truncate(start);
        self.pages.push((start, check, since));
    }
}
