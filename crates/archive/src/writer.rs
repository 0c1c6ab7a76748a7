//! Writes a version: every page is taken, hashed and compared; those that changed are kept.

use std::sync::Arc;
use std::time::Duration;

use asat_core::{Fingerprint, PageSize, boundary};

use crate::archive::{Archive, Inner};
use crate::builder::{Builder, Sealed};
use crate::compress::{Compressor, Told};
use crate::error::{Error, unless_refused};
use crate::fingerprint::{PageHash, SIDE_BY_SIDE, hash_pages};
use crate::hashes::Draft;
use crate::head::{GoOn, Head};
use crate::index::VersionRef;
use crate::lock::lock;
use crate::manifest::{Cut, Description, Meta};
use crate::recent;
use crate::view::View;

/// How a version ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was stored, and will survive a crash.
    Stored {
        /// The content's fingerprint.
        fingerprint: Fingerprint,
        /// What it takes on disk.
        bytes: u64,
        /// How many pages differ from the version before, or are new.
        pages_changed: u32,
    },
    /// Nothing differs from the newest version, and nothing was written.
    Unchanged {
        /// The version that has this content.
        same_as: u64,
        /// The content's fingerprint.
        fingerprint: Fingerprint,
    },
}

/// A version being written. Dropped unfinished, it leaves nothing.
pub struct Writer {
    writing: Writing,
    number: u64,
    page_size: PageSize,
    page_count: u32,
    /// The version compared with: the newest one if its pages have the same size.
    head: Option<Head>,
    /// Pages that were taken and not looked at yet: several at once are hashed faster.
    waiting: Vec<u8>,
    /// The hashes of the pages before them.
    hashes: Draft,
    pages_changed: u32,
    /// Those of them of which it is known what they were before.
    pages_differing: u32,
    /// Started at the first page that changed.
    compressor: Option<Compressor>,
    /// Pages of the version before that need not be read.
    recent: Arc<recent::RecentPages>,
    /// Hears how many of the pages that changed are stored.
    told: Option<Told>,
    /// Whether somebody waits until the last page is taken.
    hurries: bool,
    broken: bool,
}

impl Archive {
    /// Begins version `number`, which must be above every version that the archive ever had. Where what the newest one was is not known any
    /// more because of damage, this one is compared with none, and stands alone.
    pub fn begin(&self, number: u64, page_size: PageSize, page_count: u32) -> Result<Writer, Error> {
        let writing = self.inner.reserve(number)?;
        // Were what is lost above it put back, that would be seen in a version that lies upon this one.
        let is_lost_above = |newest: &u64| self.inner.look(|state| state.is_lost_above(*newest));
        // If it was put back before that was asked, it has a newer one.
        let is_newest = |newest: &u64| !is_lost_above(newest) && self.newest() == Some(*newest);
        let head = match self.newest().filter(is_newest) {
            Some(newest) => unless_refused(self.inner.head(newest, &|| true))?.ok(),
            None => None,
        };
        let head = head.filter(|head| head.view.page_size == page_size);
        let base = head.as_ref().map(|head| &head.hashes);
        Ok(Writer {
            writing,
            number,
            page_size,
            page_count,
            waiting: Vec::with_capacity(SIDE_BY_SIDE * page_size.as_usize()),
            hashes: Draft::new(number, page_size, page_count, base)?,
            head,
            pages_changed: 0,
            pages_differing: 0,
            compressor: None,
            recent: self.inner.recent.get(),
            told: None,
            hurries: false,
            broken: false,
        })
    }

    /// Waits until no version is being written, for so long at most.
    #[must_use]
    pub fn wait_for_writer(&self, most: Duration) -> bool {
        let writing = lock(&self.inner.writing);
        let waited = self.inner.written.wait_timeout_while(writing, most, |writing| *writing);
        waited.is_ok_and(|(writing, _)| !*writing)
    }

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
        let state = self.inner.state();
        state.slots.iter().any(|slot| slot.is_gone() && self.inner.state().has(&slot.reference))
    }

    /// Whether this is the newest version and all of its pages were read since their files were last changed. Nothing is read for that.
    #[must_use]
    pub fn was_read(&self, number: u64) -> bool {
        self.newest() == Some(number) && self.inner.known_head(number).is_some()
    }
}

impl Inner {
    /// Makes `number` the version being written.
    fn reserve(self: &Arc<Self>, number: u64) -> Result<Writing, Error> {
        boundary::step("archive: begin a version");
        let highest = self.state().manifest.highest;
        if number <= highest {
            let what = format!("version {number} cannot be written, the archive is at {highest} already");
            return Err(Error::Misuse(what));
        }
        // A newest version that is being given up is gone afterwards.
        let _unchanging = self.unchanging();
        let mut writing = lock(&self.writing);
        if *writing {
            return Err(Error::busy(self.objects.place(), "another version is being written"));
        }
        *writing = true;
        Ok(Writing { archive: Arc::clone(self) })
    }

    /// The newest version, all pages of which were read since their files were last changed.
    fn head(&self, number: u64, go_on: GoOn<'_>) -> Result<Head, Error> {
        let _alone = lock(&self.reading);
        let known = lock(&self.head).clone().filter(|known| known.view.number == number);
        if let Some(known) = known.as_ref().filter(|known| known.is_as_read(&self.state())) {
            return Ok(known.clone());
        }
        let head = self.look_at(number, |state| Head::read(state, number, known.as_ref(), go_on))?;
        *lock(&self.head) = Some(head.clone());
        Ok(head)
    }
}

/// Says that a version is being written, as long as it lives.
struct Writing {
    archive: Arc<Inner>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        boundary::step("archive: end a version");
        *lock(&self.archive.writing) = false;
        self.archive.written.notify_all();
    }
}

impl Writer {
    /// The version that this one is compared with, where its pages have the same size.
    #[must_use]
    pub fn compared_with(&self) -> Option<u64> {
        self.head.as_ref().map(|head| head.view.number)
    }

    /// Has `told` hear from another thread how many of the pages that changed are stored. It is said before the first page comes. Nothing more is
    /// stored until `told` returns, and who hands pages over may wait for that: it must not wait for who does.
    pub fn tell(&mut self, told: Told) {
        self.told = Some(told);
    }

    /// Has no page wait for those before it to be compressed: somebody waits until the last one is taken. It is said before the first page
    /// comes.
    pub fn hurry(&mut self) {
        self.hurries = true;
    }

    /// How many of the pages that came differ from the version before, or are new.
    pub fn changed(&mut self) -> Result<u32, Error> {
        self.look_at_waiting()?;
        Ok(self.pages_changed)
    }

    /// How many of the pages that came differ from a page of the version before that is known.
    pub fn differing(&mut self) -> Result<u32, Error> {
        self.look_at_waiting()?;
        Ok(self.pages_differing)
    }

    /// Takes the next page as it is in the version that this one is compared with. Answers whether that has such a page, and it can
    /// be read; if not, nothing was taken, and the page itself must come.
    pub fn same(&mut self, number: u32) -> Result<bool, Error> {
        self.same_run(number, number)
    }

    /// Takes the next pages, from the first to the last, as they are in the version that this one is compared with. Answers whether that has
    /// all of them, and they can be read; if not, nothing was taken, and the pages themselves must come.
    pub fn same_run(&mut self, first: u32, last: u32) -> Result<bool, Error> {
        let nth = self.taken();
        if self.broken || !self.is_next(first) || !(first..=self.page_count).contains(&last) {
            let what = format!("pages {first} to {last} cannot be the same after page {nth}");
            return Err(Error::Misuse(what));
        }
        let end = usize::try_from(last).unwrap_or(usize::MAX);
        let has_all = |head: &Head| head.lost.range(nth..end).next().is_none();
        if !self.head.as_ref().is_some_and(has_all) {
            return Ok(false);
        }
        self.look_at_waiting()?;
        Ok(self.hashes.same(end))
    }

    /// Takes the next page. Every page from 1 to the page count must come, in order.
    pub fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Error> {
        if self.broken || !self.is_next(number) || page.len() != self.page_size.as_usize() {
            let (len, taken) = (page.len(), self.taken());
            return Err(Error::Misuse(format!(
                "page {number} of {len} bytes cannot be written after page {taken}"
            )));
        }
        self.waiting.extend_from_slice(page);
        if self.waiting.len() < SIDE_BY_SIDE * page.len() { Ok(()) } else { self.look_at_waiting() }
    }

    /// Takes the next pages, which lie one after another: they are looked at where they are.
    pub fn pages(&mut self, first: u32, pages: &[u8]) -> Result<(), Error> {
        let size = self.page_size.as_usize();
        let count = u32::try_from(pages.len() / size).ok().filter(|_| pages.len().is_multiple_of(size));
        let end = count.and_then(|count| first.checked_add(count));
        let are_there = end.is_some_and(|end| end > first && end - 1 <= self.page_count);
        if self.broken || !self.is_next(first) || !are_there {
            let (len, taken) = (pages.len(), self.taken());
            return Err(Error::Misuse(format!(
                "{len} bytes of pages from {first} on cannot be written after page {taken}"
            )));
        }
        self.look_at_waiting()?;
        self.look_at(pages)
    }

    /// How many pages were taken.
    fn taken(&self) -> usize {
        self.hashes.len() + self.waiting.len() / self.page_size.as_usize()
    }

    /// Whether this is the number of the page to come.
    fn is_next(&self, number: u32) -> bool {
        number <= self.page_count && usize::try_from(number).ok() == self.taken().checked_add(1)
    }

    /// Looks at the pages that wait.
    fn look_at_waiting(&mut self) -> Result<(), Error> {
        let pages = std::mem::take(&mut self.waiting);
        let kept = self.look_at(&pages);
        self.waiting = pages;
        self.waiting.clear();
        kept
    }

    /// Hashes pages, and keeps those that changed.
    fn look_at(&mut self, pages: &[u8]) -> Result<(), Error> {
        let (first, size) = (self.hashes.len(), self.page_size.as_usize());
        let mut hashes = Vec::with_capacity(pages.len() / size);
        hash_pages(pages, size, &mut hashes);
        hashes.iter().for_each(|hash| self.hashes.push(*hash));
        let pages_of = pages.chunks_exact(size).zip(hashes);
        let kept = (first..).zip(pages_of).try_for_each(|(nth, (page, hash))| self.compare(nth, page, hash));
        // Their hashes count already: a version that went on without a page could never be read.
        self.broken |= kept.is_err();
        kept
    }

    /// Keeps a page, counted from 0, if it is another than in the version before.
    fn compare(&mut self, nth: usize, page: &[u8], hash: PageHash) -> Result<(), Error> {
        let number = u32::try_from(nth + 1).unwrap_or(u32::MAX);
        let below = match self.head.as_ref().and_then(|head| head.hash(nth)) {
            Some(known) if *known == hash => return Ok(()),
            Some(known) => {
                self.pages_differing += 1;
                self.recent.page(number, known)
            }
            None => None,
        };
        self.pages_changed += 1;
        let compressor = match self.compressor.as_mut() {
            Some(compressor) => compressor,
            None => {
                let before = self.head.as_ref().map(|head| Arc::clone(&head.view));
                let (builder, told) = (self.builder()?, self.told.clone());
                self.compressor.insert(Compressor::start(builder, before, told, self.hurries)?)
            }
        };
        if compressor.page(number, page, hash, below)? { Ok(()) } else { Err(self.why_broken()) }
    }

    /// Ends the version. When this returns, it is stored durably under its number, or nothing is.
    pub fn finish(mut self, cut: Cut) -> Result<Kept, Error> {
        if self.broken || u32::try_from(self.taken()) != Ok(self.page_count) {
            let what = format!("version {} ends after {} pages", self.number, self.taken());
            return Err(Error::Misuse(what));
        }
        self.look_at_waiting()?;
        self.recent = Arc::default();
        let fingerprint = self.hashes.fingerprint();
        let is_unchanged = |head: &&Head| self.pages_changed == 0 && head.hashes.len() == self.hashes.len();
        if let Some(head) = self.head.as_ref().filter(is_unchanged).filter(|_| !cut.even_if_unchanged) {
            return Ok(Kept::Unchanged { same_as: head.view.number, fingerprint });
        }
        let (builder, recent) = match self.compressor.take() {
            // What was kept of the version before tells of pages that cannot be had any more.
            Some(compressor) => compressor.finish().inspect_err(|_| *lock(&self.archive().head) = None)?,
            None => (self.builder()?, recent::RecentPages::default()),
        };
        let stands_alone = builder.count == u64::from(self.page_count) && !builder.needs_below;
        let (number, page_size, page_count) = (self.number, self.page_size, self.page_count);
        let version = VersionRef { number, page_count, bytes: 0, is_whole: stands_alone, stands_alone };
        let Cut { store, cut_at, wal, note, .. } = cut;
        let meta = Meta { store, number, page_size, page_count, fingerprint, wal, cut_at, note };
        let sealed = builder.seal(vec![(version, Description::of(&meta)?)])?;
        let bytes = self.publish(sealed, stands_alone)?;
        self.archive().recent.keep(recent);
        Ok(Kept::Stored { fingerprint, bytes, pages_changed: self.pages_changed })
    }

    /// Puts the version into the archive; answers what it takes. What it leaves out is there as long as the version that it was compared with
    /// lives, however segments are merged.
    fn publish(&mut self, sealed: Sealed, stands_alone: bool) -> Result<u64, Error> {
        let (number, before) = (self.number, self.head.take());
        let (archive, upon) = (Arc::clone(&self.writing.archive), before.as_ref().filter(|_| !stands_alone));
        let state = archive.commit(sealed, |state, manifest| {
            // It was kept for a file that could not be read, and may be forgotten by now.
            upon.into_iter().for_each(|upon| manifest.void_above(upon.view.number));
            let is_there = upon.is_none_or(|upon| state.live(upon.view.number).is_some());
            is_there && state.manifest.highest < number
        })?;
        let Some(state) = state else {
            let what = "the version that this one lies upon was given up meanwhile";
            return Err(Error::busy(archive.objects.place(), what));
        };
        // What it needs is in no segment that is lost: it has those pages itself.
        let view = View::without_lost(&state, number);
        // It is stored. If it cannot be opened now, the next version reads it first.
        archive.rely_on(&state, |known| {
            // Somebody may have found damage meanwhile, or given up the version before.
            let number = |head: &Head| head.view.number;
            let is_upon = before.is_none() || known.as_ref().map(number) == before.as_ref().map(number);
            let Some(view) = view.ok().filter(|_| is_upon) else { return false };
            let files = before.map(|head| head.files).unwrap_or_default();
            // Nobody has the hashes of the version before any more, so that they can become those of this one.
            *known = None;
            let (view, hashes) = (Arc::new(view), self.hashes.settle());
            *known = Some(Head { view, hashes, lost: Arc::default(), files });
            true
        });
        Ok(state.live(number).map_or(0, |version| version.bytes))
    }

    fn archive(&self) -> &Inner {
        &self.writing.archive
    }

    fn builder(&self) -> Result<Builder, Error> {
        Builder::new(&self.archive().objects, self.page_size, self.number)
    }

    /// The compressing thread ended early: it knows why.
    fn why_broken(&mut self) -> Error {
        match self.compressor.take().map(Compressor::finish) {
            Some(Err(error)) => error,
            _ => Error::Misuse("the compressing thread ended early".to_owned()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(compressor) = self.compressor.take() {
            compressor.abandon();
        }
    }
}
