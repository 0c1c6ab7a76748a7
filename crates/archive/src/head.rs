//! What a new version may rely on: those pages of the newest one that were read.
//!
//! A page that has not changed is left out of a new version, which relies on what the archive has of it. An index says what that is
//! checked against, and nothing of whether it still comes out. So it is read once before: after a start, and again where a file has
//! changed since. A page that does not come out is stored whole by the next version, which has it from the store; so that one and
//! those after it can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::Error;
use crate::fingerprint::PageHash;
use crate::hashes::{Draft, Hashes};
use crate::index::BLOCK_PAGES;
use crate::objects::Stamp;
use crate::pages::Pages;
use crate::segment::Segment;
use crate::state::{Slot, State};
use crate::view::{Page, View};

/// So many pages are read at once: those of a block of the index.
const TOGETHER: usize = BLOCK_PAGES as usize;

/// Says whether to go on reading.
pub type GoOn<'a> = &'a dyn Fn() -> bool;

/// The newest version, as far as the next one relies on it.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Where its pages are.
    pub(crate) view: Arc<View>,
    /// The hash of each page.
    pub(crate) hashes: Arc<Hashes>,
    /// The pages, counted from 0, that cannot be read.
    pub(crate) lost: Arc<BTreeSet<usize>>,
    /// What the files were like that its pages were read of, by their numbers.
    pub(crate) files: Arc<BTreeMap<u64, Stamp>>,
}

impl Head {
    /// The hash of a page, counted from 0, that a new version may leave out.
    pub(crate) fn hash(&self, nth: usize) -> Option<&PageHash> {
        self.hashes.get(nth).filter(|_| !self.lost.contains(&nth))
    }

    /// Whether all files that the version may be read of are there as they were.
    pub(crate) fn is_as_read(&self, state: &State) -> bool {
        state.seen_in(self.view.number).all(|slot| {
            let file = slot.reference.file;
            match slot.segment() {
                Ok(segment) => {
                    segment.object.stamp().is_some_and(|stamp| self.files.get(&file) == Some(&stamp))
                }
                Err(_) => self.view.lost.contains(&file),
            }
        })
    }

    /// Reads what is not known of a version.
    pub(crate) fn read(
        state: &State,
        number: u64,
        known: Option<&Self>,
        go_on: GoOn<'_>,
    ) -> Result<Self, Error> {
        let view = View::without_lost(state, number)?;
        let files: BTreeMap<u64, Stamp> = view
            .segments
            .iter()
            .filter_map(|segment| Some((segment.number, segment.object.stamp()?)))
            .collect();
        // What is open already may be gone, or what it was opened by be damaged.
        let is_there = |slot: &&Arc<Slot>| !view.lost.contains(&slot.reference.file);
        let mut seen = state.seen_in(number).filter(is_there);
        seen.try_for_each(|slot| slot.open().map(drop))?;
        let is_read = |segment: &Arc<Segment>| {
            known.is_some_and(|known| known.files.get(&segment.number) == files.get(&segment.number))
        };
        let is_known = |(nth, page): (usize, Page<'_>)| {
            let is_read = |place| view.segment(place).is_some_and(is_read);
            known.is_some_and(|known| known.hash(nth).is_some())
                && page.frames.iter().all(|frame| is_read(frame.segment))
        };
        let page_len = view.page_size.as_usize();
        let (mut pages, mut bytes) = (Pages::new()?, vec![0; TOGETHER * page_len]);
        let count = u32::try_from(view.page_count).unwrap_or(u32::MAX);
        let base = known.map(|known| &known.hashes);
        let (mut hashes, mut lost) = (Draft::new(number, view.page_size, count, base)?, BTreeSet::new());
        for start in (0..view.page_count).step_by(TOGETHER) {
            let range = start..(start + TOGETHER).min(view.page_count);
            let places = view.pages(range.clone(), false)?;
            if !(range.clone().zip(places.iter()).all(is_known) && hashes.same(range.end)) {
                let bytes = bytes.get_mut(..range.len() * page_len).unwrap_or_default();
                pages.read_placed(&view, &places, bytes, false)?;
                pages.hashes.iter().for_each(|hash| hashes.push(*hash));
                lost.extend(pages.lost.iter().map(|place| start + place));
            }
            if !go_on() {
                return Err(Error::Stopped);
            }
        }
        let meta = state.describe(number)?;
        let (expected, found) = (meta.fingerprint, hashes.fingerprint());
        if (lost.is_empty() || !view.lost.is_empty()) && found != expected {
            let what = format!("version {number} was written with fingerprint {expected}, and has {found}");
            return Err(state.described_in(number)?.object.damaged(what));
        }
        let (hashes, lost, files) = (hashes.settle(), Arc::new(lost), Arc::new(files));
        Ok(Self { view: Arc::new(view), hashes, lost, files })
    }
}
