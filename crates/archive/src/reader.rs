//! Reads a version. Every page is compared with its hash before anybody sees it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use asat_core::Fingerprint;

use crate::error::Error;
use crate::fingerprint::Fingerprinter;
use crate::lock::lock;
use crate::manifest::Meta;
use crate::pages::Pages;
use crate::view::View;

/// Whole versions are read and written in pieces of this many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// So much is read ahead of those who read in order, at once: the more, the fewer pieces of a file a disk has to look for, and
/// the longer the thread that asks the system for them answers nobody.
const WINDOW_BYTES: usize = 1 << 20;

/// Who reads in order with several threads reads this far from where he was last, at most.
const SIDE_BY_SIDE_BYTES: usize = 1 << 20;

/// One version, open for reading from any number of threads. It keeps its files open, so what is given up or
/// merged meanwhile does not concern it.
pub struct Reader {
    meta: Meta,
    view: Arc<View>,
    page_len: usize,
    /// The page after those that were read last.
    reached: AtomicUsize,
    /// The window up to which the system was told what will be read.
    expected: AtomicUsize,
    /// The page, counted from 0, of whose window and the next one the system has yet to be told.
    ahead: Mutex<Option<usize>>,
    /// What nobody uses at the moment.
    idle: Mutex<Vec<Pages>>,
}

impl Reader {
    pub(crate) fn new(meta: Meta, view: impl Into<Arc<View>>) -> Self {
        let page_len = meta.page_size.as_usize();
        let view = view.into();
        let (reached, expected) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Self { meta, view, page_len, reached, expected, ahead: Mutex::default(), idle: Mutex::default() }
    }

    /// What is recorded of the version.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The version's length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.meta.len_bytes()
    }

    /// Whether the version has no pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a page, numbered from 1, into a buffer of the page size.
    pub fn read_page(&self, number: u32, page: &mut [u8]) -> Result<(), Error> {
        let nth = usize::try_from(number).unwrap_or(usize::MAX).checked_sub(1);
        match nth.filter(|&nth| nth < self.view.page_count && page.len() == self.page_len) {
            Some(nth) => self.with_scratch(|scratch| self.fill(nth, page, scratch)),
            None => {
                let what = format!("page {number} cannot be read into {} bytes", page.len());
                Err(Error::Misuse(what))
            }
        }
    }

    /// The number of the manifest by which the version is read. What [`Self::since`] says holds among versions that are read by the same one.
    #[must_use]
    pub fn manifest(&self) -> u64 {
        self.view.manifest
    }

    /// The version at which a page, numbered from 1, became what it is: it is the same in all versions from that one up to this.
    pub fn since(&self, number: u32) -> Result<u64, Error> {
        let nth = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        self.view.page(nth).map(|page| page.since)
    }

    /// The numbers of pages, from 1 on, that may differ from those of another version of the same archive, in their order. Those
    /// that it does not name are the same; pages that only one of the versions has are left out. No page is read.
    pub fn differing_from(&self, other: &Self) -> Result<Vec<u32>, Error> {
        let most = self.meta.page_count.min(other.meta.page_count);
        if self.manifest() == other.manifest() {
            let (older, newer) =
                if self.meta.number < other.meta.number { (self, other) } else { (other, self) };
            return newer.view.changed_after(older.meta.number, most);
        }
        // One of the two may have been given up since, and have pages that later versions do not lie upon.
        let differs = |page: &u32| Ok(self.since(*page)? != other.since(*page)?);
        (1..=most)
            .filter_map(|page| differs(&page).map(|differs| differs.then_some(page)).transpose())
            .collect()
    }

    /// Reads bytes as from a file: answers how many, fewer only at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let mut rest = buffer.get_mut(..wanted).unwrap_or_default();
        if rest.is_empty() {
            return Ok(0);
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let (mut nth, within) = (start / self.page_len, start % self.page_len);
        self.with_scratch(|scratch| {
            if within > 0 {
                let (head, after) = rest.split_at_mut(rest.len().min(self.page_len - within));
                self.fill_part((nth, within), head, scratch)?;
                (rest, nth) = (after, nth + 1);
            }
            let (whole, tail) = rest.split_at_mut(rest.len() - rest.len() % self.page_len);
            self.fill(nth, whole, scratch)?;
            if tail.is_empty() {
                Ok(())
            } else {
                self.fill_part((nth + whole.len() / self.page_len, 0), tail, scratch)
            }
        })?;
        Ok(wanted)
    }

    /// Has the system begin to read what is likely to be asked for next. Whoever reads calls it when he has handed on what he
    /// has read: nobody waits for it then.
    pub fn look_ahead(&self) {
        if lock(&self.ahead).is_some() {
            // It is for speed alone: for want of memory, reading goes on without.
            let _ = self.with_scratch(|scratch| {
                self.prepare(scratch);
                Ok(())
            });
        }
    }

    /// Reads the whole version, and answers the fingerprint of what came out.
    pub fn fingerprint(&self) -> Result<Fingerprint, Error> {
        let mut fingerprinter = Fingerprinter::new(self.meta.page_size, self.meta.page_count);
        let mut pages = vec![0; self.piece_pages() * self.page_len];
        self.with_scratch(|scratch| {
            for piece in self.pieces() {
                let pages = pages.get_mut(..piece.len() * self.page_len).unwrap_or_default();
                self.fill(piece.start, pages, scratch)?;
                self.prepare(scratch);
                scratch.hashes.iter().for_each(|hash| fingerprinter.hash(hash));
            }
            Ok(fingerprinter.finish())
        })
    }

    /// Writes the whole version into a file from its beginning, on as many threads as there are processors up
    /// to four. `path` names the file in errors, and `told` hears how many bytes are written. The file is not
    /// synced.
    pub fn write_to_file(&self, file: &File, path: &Path, told: &(impl Fn(u64) + Sync)) -> Result<(), Error> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let pieces: Vec<Range<usize>> = self.pieces().collect();
        let (next, written) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = || {
            let mut pages = vec![0; self.piece_pages() * self.page_len];
            self.with_scratch(|scratch| {
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let pages = pages.get_mut(..piece.len() * self.page_len).unwrap_or_default();
                    self.fill(piece.start, pages, scratch)?;
                    self.prepare(scratch);
                    let offset = u64::try_from(piece.start * self.page_len).unwrap_or(u64::MAX);
                    file.write_all_at(pages, offset).map_err(|source| Error::io("write", path, source))?;
                    let more = u64::try_from(pages.len()).unwrap_or(u64::MAX);
                    told(written.fetch_add(more, Ordering::Relaxed) + more);
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(pieces.len())).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for other in others {
                let ended_early = |_| Err(Error::Misuse("a materialising thread ended early".to_owned()));
                result = result.and(other.join().unwrap_or_else(ended_early));
            }
            result
        })
    }

    fn piece_pages(&self) -> usize {
        (PIECE_BYTES / self.page_len).max(1)
    }

    /// The version's pages, counted from 0, in pieces for reading one after another.
    fn pieces(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (count, step) = (self.view.page_count, self.piece_pages());
        (0..count).step_by(step).map(move |start| start..(start + step).min(count))
    }

    fn with_scratch<T>(&self, work: impl FnOnce(&mut Pages) -> Result<T, Error>) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let mut scratch = idle.map_or_else(Pages::new, Ok)?;
        let result = work(&mut scratch);
        lock(&self.idle).push(scratch);
        result
    }

    /// Fills `pages` with whole pages from the `nth` on, counted from 0.
    fn fill(&self, nth: usize, pages: &mut [u8], scratch: &mut Pages) -> Result<(), Error> {
        let count = pages.len() / self.page_len;
        let reached = self.reached.swap(nth + count, Ordering::Relaxed);
        if nth == 0 {
            // A reader that begins again may find nothing of it in memory: the system is told once more.
            self.expected.store(0, Ordering::Relaxed);
        }
        let side_by_side = SIDE_BY_SIDE_BYTES / self.page_len;
        // Who begins to read a short version soon reads all of it. Otherwise one page alone is no reading in order, even if it is the next.
        let is_short = self.view.page_count <= self.window_pages();
        let is_in_order = is_short && nth == 0 || count > 1 && nth.abs_diff(reached) <= side_by_side;
        let told = if is_in_order { self.windows_told(nth) } else { 0 };
        if is_in_order && told < 2 {
            *lock(&self.ahead) = Some(nth);
        }
        scratch.read(&self.view, nth..nth + count, pages, told > 0)?;
        scratch.lost.first().map_or(Ok(()), |place| Err(self.damaged(nth + place)))
    }

    /// What is said of a page, counted from 0, that does not come out.
    fn damaged(&self, nth: usize) -> Error {
        let number = self.view.number;
        let segments = self.view.page(nth).map(|page| page.frames.to_vec()).unwrap_or_default();
        // Any of those that it is made of may not be what was written.
        let made_of = segments.iter().filter_map(|frame| self.view.segment(frame.segment));
        made_of.for_each(|segment| segment.object.doubt());
        let named = segments.first().and_then(|frame| self.view.segment(frame.segment));
        let what = format!("page {} of version {number} does not match its check", nth + 1);
        match named.or(self.view.segments.last()) {
            Some(segment) => segment.object.damaged(what),
            None => Error::Misuse(what),
        }
    }

    /// Of how many windows the system was told, from that of the `nth` page on.
    fn windows_told(&self, nth: usize) -> usize {
        let told = self.expected.load(Ordering::Relaxed).saturating_sub(nth / self.window_pages());
        // One window more where several read side by side, of whom this one is behind. Else it was somebody elsewhere.
        if told <= 3 { told } else { 0 }
    }

    fn window_pages(&self) -> usize {
        (WINDOW_BYTES / self.page_len).max(1)
    }

    /// Tells the system what it has yet to be told.
    fn prepare(&self, scratch: &mut Pages) {
        let Some(nth) = lock(&self.ahead).take() else { return };
        let (window_pages, expected) = (self.window_pages(), self.expected.load(Ordering::Relaxed));
        let (window, told) = (nth / window_pages, self.windows_told(nth));
        if told >= 2 {
            return;
        }
        let is_first =
            self.expected.compare_exchange(expected, window + 2, Ordering::Relaxed, Ordering::Relaxed);
        if is_first.is_ok() {
            let end = self.view.page_count;
            let pages = ((window + told) * window_pages).min(end)..((window + 2) * window_pages).min(end);
            scratch.expect_pages(&self.view, pages);
        }
    }

    /// Fills `part` with bytes from within the `nth` page.
    fn fill_part(
        &self,
        (nth, within): (usize, usize),
        part: &mut [u8],
        scratch: &mut Pages,
    ) -> Result<(), Error> {
        let mut page = vec![0; self.page_len];
        self.fill(nth, &mut page, scratch)?;
        if let Some(bytes) = page.get(within..within + part.len()) {
            part.copy_from_slice(bytes);
        }
        Ok(())
    }
}
