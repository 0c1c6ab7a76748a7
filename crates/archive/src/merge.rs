//! Merges segments: one takes the place of several, with what live versions need of them.
//!
//! Frames are copied as they are stored where what they lie upon is needed, too, but whole pages are compressed again with a dictionary if
//! there are many. Where that was given up, the page is put together and
//! stored again, as its difference from what the live version before shows, or whole. So a merged archive takes what it would if only
//! its live versions had ever been written. What a live version shows of a page, and since which version, stays the same: so versions
//! that are written meanwhile can rely on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::archive::Inner;
use crate::builder::{Builder, Sealed};
use crate::codec::{Before, Dictionary, Encoder, MOST_WHEN_MERGED, Stored};
use crate::error::{Error, unless_refused};
use crate::head::Head;
use crate::history::{Assembler, History, Item, chain, need, pages};
use crate::index::{Encoding, Entry, VersionRef};
use crate::manifest::{Description, Manifest};
use crate::segment::Segment;
use crate::state::State;
use crate::view::View;

/// Hears how many bytes were written since it was last asked, and says whether to go on. It may take its time: that
/// is how merging is kept from taking the disk's bandwidth.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Segments that are this long together get a dictionary, which takes 15 KiB of that.
const LEAST_TO_MAKE_A_DICTIONARY: u64 = 1 << 20;
/// One that has a dictionary keeps it down to this length.
const LEAST_TO_KEEP_A_DICTIONARY: u64 = 128 << 10;
/// A dictionary is made of so many pages, and no more than so many bytes: made of a fourth of that, it makes pages 2 % longer.
const SAMPLED_PAGES: usize = 800;
const SAMPLE_BYTES: usize = 4 << 20;
/// How much is written between two looks at the pace: some milliseconds, as publications come first there.
const PACE_BYTES: u64 = 32 << 10;

impl Inner {
    /// Merges segments of a history, which are known by their files, into one; answers its file. If their bytes are not what was written,
    /// that is an error, unless they `may_be_damaged`: then all that is needed of them must come out. `None`: what it was computed from
    /// has changed meanwhile, and it was dropped.
    pub(crate) fn merge(
        &self,
        history: &History,
        files: &BTreeSet<u64>,
        may_be_damaged: bool,
        pace: Pace<'_>,
    ) -> Result<Option<u64>, Error> {
        let inputs = history.segments.iter().filter(|segment| files.contains(&segment.number));
        let inputs: Vec<&Arc<Segment>> = inputs.collect();
        // What is copied is read once as it was written: nobody reads it anew for the sake of the next version.
        let mut go_on = |_| if pace(0).is_break() { Err(Error::Stopped) } else { Ok(()) };
        let sound = inputs.iter().try_for_each(|segment| segment.check_bytes(&mut go_on));
        let is_compared = sound.as_ref().is_err_and(|error| may_be_damaged && error.is_loss());
        if !is_compared {
            sound?;
        }
        let first = inputs.iter().map(|segment| segment.directory.first).min().unwrap_or(1);
        let mut builder = Builder::new(&self.objects, history.page_size, first)?;
        builder.dictionary = dictionary(history, &inputs)?;
        let mut work = Work {
            history,
            files,
            is_compared,
            encoder: Encoder::new(history.page_size.as_usize(), builder.dictionary.as_deref())?,
            builder,
            assembler: Assembler::new(history.page_size)?,
            below: Assembler::new(history.page_size)?,
            again: vec![0; history.page_size.as_usize()],
            pace,
            told: 0,
        };
        // Whoever reads the newest version finds its frames in a row, and nothing between that only older ones need.
        for is_newest in [true, false] {
            work.builder.begin_band();
            for block in history.blocks() {
                if inputs.iter().any(|segment| segment.directory.has(block)) {
                    pages(&history.items(block)?).try_for_each(|items| work.page(items, is_newest))?;
                }
            }
        }
        let (builder, versions) = (work.builder, versions(&inputs, &history.state)?);
        let is_empty = builder.count == 0 && versions.is_empty();
        let sealed = if is_empty { Sealed::empty(&*self.objects)? } else { builder.seal(versions)? };
        self.put_in_place(history, files, sealed)
    }

    /// Has a file take the place of several, which a merge was computed from.
    fn put_in_place(
        &self,
        history: &History,
        files: &BTreeSet<u64>,
        sealed: Sealed,
    ) -> Result<Option<u64>, Error> {
        let replaced = history.segments.iter().filter(|segment| files.contains(&segment.number));
        let first = replaced.clone().map(|segment| segment.directory.first).min().unwrap_or(1);
        let last = replaced.map(|segment| segment.directory.last).max().unwrap_or(1);
        let overlap = |manifest: &Manifest| -> BTreeSet<u64> {
            let near = manifest.segments.iter().filter(|other| other.first <= last && other.last >= first);
            near.map(|segment| segment.file).collect()
        };
        let expected = overlap(&history.state.manifest);
        let committed = self.commit(sealed, |state, manifest| {
            manifest.segments.retain(|other| !files.contains(&other.file));
            manifest.forget();
            overlap(&state.manifest) == expected
        })?;
        let Some(after) = committed else { return Ok(None) };
        self.rely_on(&after, |known| {
            let of_all = |head: &&mut Head| files.iter().all(|file| head.files.contains_key(file));
            let Some(head) = known.as_mut().filter(of_all) else { return false };
            let Ok(view) = View::without_lost(&after, head.view.number) else { return false };
            let has_same = view.lost == head.view.lost;
            if has_same {
                // What took their place is read from now on, and they need not stay open.
                head.view = Arc::new(view);
            }
            has_same
        });
        Ok(Some(after.manifest.number))
    }
}

/// What whole pages of the merged segment are compressed with: the dictionary of an input that is half of it, as when something is given back,
/// or one that is made for them, as a store's content changes. A short segment does without.
fn dictionary(history: &History, inputs: &[&Arc<Segment>]) -> Result<Option<Arc<Dictionary>>, Error> {
    let bytes: u64 = inputs.iter().map(|segment| segment.bytes()).sum();
    let has_one = inputs.iter().filter(|segment| segment.directory.dictionary.is_some());
    let known = has_one.max_by_key(|segment| segment.bytes()).filter(|segment| segment.bytes() >= bytes / 2);
    if bytes < if known.is_some() { LEAST_TO_KEEP_A_DICTIONARY } else { LEAST_TO_MAKE_A_DICTIONARY } {
        return Ok(None);
    }
    if let Some(known) = known
        && let Ok(Some(known)) = unless_refused(known.dictionary())?
    {
        return Ok(Some(Arc::clone(known)));
    }
    let pages = sample(history, inputs)?;
    Ok(Dictionary::train(&pages, history.page_size.as_usize()).map(Arc::new))
}

/// Some of the pages that are whole in segments, from everywhere in the store, one after another.
fn sample(history: &History, inputs: &[&Arc<Segment>]) -> Result<Vec<u8>, Error> {
    let is_input = |item: &Item<'_>| inputs.iter().any(|input| Arc::ptr_eq(item.segment, input));
    let page_len = history.page_size.as_usize();
    let most = (SAMPLE_BYTES / page_len).min(SAMPLED_PAGES);
    let has = |block: &u32| inputs.iter().any(|segment| segment.directory.has(*block));
    let blocks: Vec<u32> = history.blocks().into_iter().filter(has).collect();
    let per_block = most.div_ceil(blocks.len().max(1));
    let (mut assembler, mut sampled) = (Assembler::new(history.page_size)?, Vec::new());
    for block in blocks.iter().step_by(blocks.len().div_ceil(most).max(1)) {
        let end = sampled.len() + per_block * page_len;
        for items in pages(&history.items(*block)?) {
            let is_whole = |item: &Item<'_>| item.entry.encoding != Encoding::Difference;
            let whole = items.iter().rposition(|item| is_whole(item) && is_input(item));
            if let Some(place) = whole.filter(|_| sampled.len() < end)
                && assembler.page(items, place)?.is_some()
            {
                sampled.extend_from_slice(&assembler.page);
            }
        }
    }
    Ok(sampled)
}

/// The versions of segments that are merged, with their descriptions, but for those that were given up.
fn versions(inputs: &[&Arc<Segment>], state: &State) -> Result<Vec<(VersionRef, Description)>, Error> {
    let mut versions = BTreeMap::new();
    for segment in inputs {
        for version in segment.directory.versions.iter().filter(|version| state.is_live(version.number)) {
            // What another one says that was written later counts.
            if state.described_in(version.number)?.number == segment.number {
                let description = Description::of(&segment.describe(version.number)?)?;
                versions.insert(version.number, (*version, description));
            }
        }
    }
    Ok(versions.into_values().collect())
}

/// A merge under way.
struct Work<'a> {
    history: &'a History,
    files: &'a BTreeSet<u64>,
    /// Whether pages are put together of which only frames are copied: their file is damaged.
    is_compared: bool,
    builder: Builder,
    encoder: Encoder,
    assembler: Assembler,
    /// Puts together what a page is stored upon.
    below: Assembler,
    /// What was stored again, as it comes out.
    again: Vec<u8>,
    pace: Pace<'a>,
    told: u64,
}

impl Work<'_> {
    /// Writes what is needed of a page: what the newest version shows of it is made of, or the rest.
    fn page(&mut self, items: &[Item<'_>], is_newest: bool) -> Result<(), Error> {
        let plan = plan(items, self.history, |item| self.files.contains(&item.segment.number));
        for (place, (item, (deed, of_newest))) in items.iter().zip(plan).enumerate() {
            match deed {
                _ if of_newest != is_newest => {}
                Deed::Leave => {}
                Deed::Copy if self.is_made_otherwise(item)? => self.store(items, place, None)?,
                Deed::Copy => {
                    if self.is_compared {
                        self.assemble(items, place)?;
                    }
                    let frame = self.assembler.stored(item)?;
                    self.builder.add(item.entry, frame)?;
                }
                Deed::Store { upon } => self.store(items, place, upon)?,
            }
        }
        self.tell()
    }

    /// Whether a page is stored whole, and its frame was made with another dictionary than is at hand, or without.
    fn is_made_otherwise(&self, item: &Item<'_>) -> Result<bool, Error> {
        let at_hand = self.builder.dictionary.as_ref();
        let made_with = match item.entry.encoding {
            Encoding::Raw | Encoding::Difference => return Ok(false),
            Encoding::Zstd => None,
            Encoding::Dictionary => item.segment.dictionary()?,
        };
        Ok(made_with.map(|dictionary| &dictionary.bytes) != at_hand.map(|dictionary| &dictionary.bytes))
    }

    /// Stores a page again, upon what it was at another item, or whole.
    fn store(&mut self, items: &[Item<'_>], place: usize, upon: Option<usize>) -> Result<(), Error> {
        self.assemble(items, place)?;
        let Self { assembler, below, again, encoder, builder, .. } = self;
        let Some(mut entry) = items.get(place).map(|item| item.entry) else { return Ok(()) };
        let upon = match upon {
            Some(upon) if below.page(items, upon)?.is_some() => items.get(upon),
            _ => None,
        };
        let (encoding, frame) = encoder
            .encode(&assembler.page, upon.map(|_| Before { page: &below.page, depth: 0, whole_bytes: 0 }));
        // What it was made of is deleted: it must come out of this.
        let stored = Stored { encoding, frame, dictionary: builder.dictionary.as_deref() };
        again.copy_from_slice(&below.page);
        if !below.decoder.decode(stored, again) || *again != assembler.page {
            let what = format!("page {} cannot be stored again: the memory is faulty", entry.page);
            return Err(Error::Misuse(what));
        }
        entry.encoding = encoding;
        entry.base = upon.filter(|_| encoding == Encoding::Difference).map_or(0, |upon| upon.entry.version);
        builder.add(entry, frame)
    }

    /// Puts a page together as it became at an item.
    fn assemble(&mut self, items: &[Item<'_>], place: usize) -> Result<(), Error> {
        let comes_out = self.assembler.page(items, place)?.is_some();
        let Some(item) = items.get(place).filter(|_| !comes_out) else { return Ok(()) };
        let Entry { page, version, .. } = item.entry;
        let what = format!("page {page} of version {version} does not match its check");
        Err(item.segment.object.damaged(what))
    }

    /// Tells the pace what was written.
    fn tell(&mut self) -> Result<(), Error> {
        let news = self.builder.len().saturating_sub(self.told);
        if news < PACE_BYTES {
            return Ok(());
        }
        self.told += news;
        if (self.pace)(news).is_break() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// What is done with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// It is in a segment that stays, or nobody needs it.
    Leave,
    /// Its frame is copied.
    Copy,
    /// Its page is stored again, upon what it was at another item if there is one.
    Store { upon: Option<usize> },
}

/// What is done with each item of a page, and whether what the newest version shows of it is made of that.
fn plan(items: &[Item<'_>], history: &History, is_merged: impl Fn(&Item<'_>) -> bool) -> Vec<(Deed, bool)> {
    let mut plan: Vec<(Deed, bool)> = Vec::with_capacity(items.len());
    // As items are after the merge: what they lie upon, and as how many differences they are stored.
    let mut after: Vec<Item<'_>> = Vec::with_capacity(items.len());
    let mut depths: Vec<u32> = Vec::with_capacity(items.len());
    let mut shown_before = None;
    for (place, item) in items.iter().enumerate() {
        let depth_upon = |base: usize| depths.get(base).map_or(1, |depth| depth + 1);
        let is_upon_shown = item.base.and_then(|base| items.get(base)).is_some_and(Item::is_shown);
        let (mut base, mut deed) = (item.base, Deed::Leave);
        let is_too_deep = base.map_or(0, depth_upon) > MOST_WHEN_MERGED;
        // What it lies upon at last may be below this history, or lost: then it is kept as it is.
        let must_store = base.is_some() && item.is_complete && (!is_upon_shown || is_too_deep);
        if item.is_shown() && is_merged(item) && must_store {
            // Those that show it see nothing below the last version that stands alone.
            let floor = history.live.get(item.shown.0).map_or(0, |live| live.floor);
            let can_be_laid_upon = |upon: &Item<'_>| upon.is_complete && upon.entry.version >= floor;
            base = shown_before.filter(|upon| items.get(*upon).is_some_and(can_be_laid_upon));
            base = base.filter(|upon| depth_upon(*upon) <= MOST_WHEN_MERGED);
            deed = Deed::Store { upon: base };
        }
        depths.push(base.map_or(0, depth_upon));
        after.push(Item { base, needed: item.shown, ..*item });
        plan.push((deed, false));
        shown_before = if item.is_shown() { Some(place) } else { shown_before };
    }
    let shown_last = after.iter().rposition(|item| item.is_shown() && is_merged(item));
    for place in shown_last.into_iter().flat_map(|place| chain(&after, place)) {
        plan.get_mut(place).into_iter().for_each(|(_, is_newest)| *is_newest = true);
    }
    need(&mut after);
    for (item, (deed, _)) in after.iter().zip(&mut plan) {
        if *deed == Deed::Leave && item.is_needed() && is_merged(item) {
            *deed = Deed::Copy;
        }
    }
    plan
}

/// What of a segment no live version shows.
pub(crate) struct Spare<'a> {
    pub(crate) segment: &'a Segment,
    /// How long its frames are.
    pub(crate) bytes: u64,
    /// The files with what lies upon it and is shown: it is left out if they are merged with it.
    pub(crate) below: BTreeSet<u64>,
}

/// What of a history's segments no live version shows, in their order; `alone`: of those, what nothing lies upon either.
pub(crate) fn spare(history: &History, alone: bool) -> Result<Vec<Spare<'_>>, Error> {
    let none = |segment| Spare { segment, bytes: 0, below: BTreeSet::new() };
    let segments = history.segments.iter();
    let mut spare: BTreeMap<u64, Spare<'_>> =
        segments.map(|segment| (segment.number, none(segment))).collect();
    for block in history.blocks() {
        for items in pages(&history.items(block)?) {
            // What cannot be stored again keeps what it lies upon.
            let plan = (!alone).then(|| plan(items, history, |_| true));
            for (place, item) in items.iter().enumerate() {
                let stays = match &plan {
                    Some(plan) => plan.get(place).is_some_and(|(deed, _)| *deed != Deed::Leave),
                    None => item.is_needed(),
                };
                if let Some(spare) = spare.get_mut(&item.segment.number).filter(|_| !stays) {
                    spare.bytes += u64::from(item.entry.len);
                }
                let below = chain(items, place).skip(1).filter_map(|below| items.get(below));
                for below in below.take_while(|below| item.is_shown() && !below.is_shown() && !alone) {
                    let spare = spare.get_mut(&below.segment.number).into_iter();
                    spare.for_each(|spare| _ = spare.below.insert(item.segment.number));
                }
            }
        }
    }
    Ok(history.segments.iter().filter_map(|segment| spare.remove(&segment.number)).collect())
}
