//! What a new version may rely on: those pages of the newest one that were read.
//!
//! A page that has not changed is left out of a new version, which relies on what the archive has of it. An index says what that is
//! checked against, and nothing of whether it still comes out. So it is read once before: after a start, and again where a file has
//! changed since. A page that does not come out is stored whole by the next version, which has it from the store; so that one and
//! those after it can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asat_core::PageSize;

use crate::archive::{Archive, Inner};
use crate::error::Error;
use crate::fingerprint::{Fingerprinter, PageHash};
use crate::lock::lock;
use crate::objects::Stamp;
use crate::pages::Pages;
use crate::segment::Segment;
use crate::state::{Slot, State};
use crate::view::View;

/// So many pages are read at once.
const TOGETHER: usize = 64;

/// Says whether to go on reading.
pub type GoOn<'a> = &'a dyn Fn() -> bool;

/// The newest version, as far as the next one relies on it.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) page_size: PageSize,
    /// The hash of each page.
    pub(crate) hashes: Arc<Vec<PageHash>>,
    /// The pages, counted from 0, that cannot be read.
    pub(crate) lost: Arc<BTreeSet<usize>>,
    /// Where its pages are.
    pub(crate) view: Arc<View>,
    /// What the files were like that its pages were read of, by their numbers.
    pub(crate) files: Arc<BTreeMap<u64, Stamp>>,
}

impl Head {
    /// The hash of a page, counted from 0, that a new version may leave out.
    pub(crate) fn hash(&self, nth: usize) -> Option<&PageHash> {
        self.hashes.get(nth).filter(|_| !self.lost.contains(&nth))
    }
}

impl Archive {
    /// Reads those pages of the newest version that the next one may rely on and that were not read yet. [`Self::begin`] does the same;
    /// if somebody is held up while a version is written, this is called before. Answers how many pages cannot be read.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `go_on` says so; or if the machine refuses.
    pub fn read_newest(&self, go_on: GoOn<'_>) -> Result<usize, Error> {
        let Some(number) = self.newest() else { return Ok(0) };
        match self.inner.head(number, go_on) {
            Ok(head) => Ok(head.lost.len()),
            // The next version relies on nothing then.
            Err(error) if error.is_loss() || matches!(error, Error::NoSuchVersion { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether files are not there any more that are open still.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.inner.state().slots.iter().any(|slot| slot.is_gone())
    }

    /// Whether this is the newest version and all of its pages were read since their files were last changed. Nothing is read for that.
    #[must_use]
    pub fn was_read(&self, number: u64) -> bool {
        let known = lock(&self.inner.head).clone();
        let known = known.filter(|known| known.number == number && known.lost.is_empty());
        self.newest() == Some(number) && known.is_some_and(|known| self.inner.is_as_read(&known))
    }
}

impl Inner {
    /// The newest version, all pages of which were read since their files were last changed.
    pub(crate) fn head(&self, number: u64, go_on: GoOn<'_>) -> Result<Head, Error> {
        let _alone = lock(&self.reading);
        let known = lock(&self.head).clone().filter(|known| known.number == number);
        if let Some(known) = &known
            && self.is_as_read(known)
        {
            return Ok(known.clone());
        }
        let head = self.look(number, |state| self.read_head(state, number, known.as_ref(), go_on))?;
        *lock(&self.head) = Some(head.clone());
        Ok(head)
    }

    /// Where the pages of a version are, if it is the newest one, all of its pages were read, and their files have not changed since: of
    /// a large store that takes time to find out, and memory.
    pub(crate) fn known_view(&self, number: u64) -> Option<Arc<View>> {
        let known = lock(&self.head).clone().filter(|known| known.number == number)?;
        let is_whole = known.lost.is_empty() && known.view.lost.is_empty() && self.is_as_read(&known);
        is_whole.then_some(known.view)
    }

    /// Whether all files that the version may be read of are there as they were.
    fn is_as_read(&self, known: &Head) -> bool {
        let state = self.state();
        let mut seen = state.seen_in(known.number);
        seen.all(|slot| {
            let file = slot.reference.file;
            match slot.segment() {
                Ok(segment) => {
                    let stamp = segment.stamp();
                    stamp.is_some() && known.files.get(&file).copied() == stamp
                }
                Err(_) => known.view.lost.contains(&file),
            }
        })
    }

    /// Reads what is not known of a version.
    fn read_head(
        &self,
        state: &State,
        number: u64,
        known: Option<&Head>,
        go_on: GoOn<'_>,
    ) -> Result<Head, Error> {
        let view = View::without_lost(state, number)?;
        let files: BTreeMap<u64, Stamp> =
            view.segments().iter().filter_map(|segment| Some((segment.number, segment.stamp()?))).collect();
        // What is open already may be gone, or what it was opened by be damaged.
        let is_there = |slot: &&Arc<Slot>| !view.lost.contains(&slot.reference.file);
        let mut seen = state.seen_in(number).filter(is_there);
        seen.try_for_each(|slot| slot.open().map(drop))?;
        let is_read = |segment: &Arc<Segment>| {
            known.is_some_and(|known| known.files.get(&segment.number) == files.get(&segment.number))
        };
        let page_len = view.page_size().as_usize();
        let (mut pages, mut bytes) = (Pages::new()?, vec![0; TOGETHER * page_len]);
        let (mut hashes, mut lost) = (Vec::new(), BTreeSet::new());
        crate::writer::make_room(&mut hashes, number, u32::try_from(view.page_count()).unwrap_or(u32::MAX))?;
        for start in (0..view.page_count()).step_by(TOGETHER) {
            let range = start..(start + TOGETHER).min(view.page_count());
            let is_known = |nth: usize| {
                known.is_some_and(|known| !known.lost.contains(&nth))
                    && view.page(nth).is_ok_and(|page| {
                        page.frames.iter().all(|frame| view.segment(frame.segment).is_some_and(is_read))
                    })
            };
            match known
                .and_then(|known| known.hashes.get(range.clone()))
                .filter(|_| range.clone().all(is_known))
            {
                Some(known) => hashes.extend(known),
                None => {
                    let bytes = bytes.get_mut(..range.len() * page_len).unwrap_or_default();
                    pages.read(&view, range, bytes, false)?;
                    hashes.extend(&pages.hashes);
                    lost.extend(pages.lost.iter().map(|place| start + place));
                }
            }
            if !go_on() {
                return Err(Error::Stopped);
            }
        }
        let meta = state.describe(number)?;
        let found = Fingerprinter::of_hashes(meta.page_size, meta.page_count, &hashes);
        if (lost.is_empty() || !view.lost.is_empty()) && found != meta.fingerprint {
            let what = format!(
                "version {number} was written with fingerprint {}, and has {found}",
                meta.fingerprint
            );
            return Err(Error::damaged(self.objects.place(), what));
        }
        let (page_size, hashes, lost) = (view.page_size(), Arc::new(hashes), Arc::new(lost));
        Ok(Head { number, page_size, hashes, lost, view: Arc::new(view), files: Arc::new(files) })
    }

    /// Takes note of what was just written: a version upon the one `before`, or another file with what these files had. What was left
    /// out, or was taken from them, was read then.
    pub(crate) fn rely_on(&self, file: u64, state: &State, change: impl FnOnce(&mut Option<Head>) -> bool) {
        let slot = state.slots.iter().find(|slot| slot.reference.file == file);
        let stamp = slot.and_then(|slot| slot.segment().ok()?.stamp());
        let mut head = lock(&self.head);
        if change(&mut head)
            && let (Some(head), Some(stamp)) = (head.as_mut(), stamp)
        {
            Arc::make_mut(&mut head.files).insert(file, stamp);
        }
    }
}
