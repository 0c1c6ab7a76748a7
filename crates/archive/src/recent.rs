//! Pages of the newest version that are in memory still. The next version often changes the same ones again, and to find their differences,
//! they need not be read and decoded.
//!
//! They are known by their numbers and hashes, so it does not matter what was merged or replaced meanwhile. Some are kept of each archive, and
//! of all archives of a process together as many as two of them may have: the oldest make way. While versions are written there may be twice
//! as many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::fingerprint::PageHash;

/// So many bytes of pages are kept of one archive at most, and of all together.
const MOST_BYTES: usize = 16 << 20;
const MOST_BYTES_OF_ALL: usize = 2 * MOST_BYTES;
/// So many bytes there are at most, with those of versions that are being written.
const MOST_BYTES_THERE: usize = 2 * MOST_BYTES_OF_ALL;

/// How many bytes there are.
static THERE: AtomicUsize = AtomicUsize::new(0);

/// The archives that keep some, the oldest first.
type All = Mutex<Vec<Weak<Mutex<Arc<RecentPages>>>>>;

/// Those of this process.
static ALL: All = Mutex::new(Vec::new());

/// Pages that were written together: their numbers and hashes, and the pages one after another.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) pages: Vec<(u32, PageHash)>,
    pub(crate) data: Vec<u8>,
}

/// A page as it was written.
#[derive(Clone, Debug)]
pub(crate) struct RecentPage {
    batch: Arc<Batch>,
    nth: usize,
}

impl RecentPage {
    pub(crate) fn bytes(&self) -> &[u8] {
        let page_len = self.batch.data.len() / self.batch.pages.len().max(1);
        let start = self.nth * page_len;
        self.batch.data.get(start..start + page_len).unwrap_or_default()
    }
}

/// Pages of a version.
#[derive(Debug, Default)]
pub(crate) struct RecentPages {
    batches: Vec<Arc<Batch>>,
    /// The batch of each page, and the place of the page in it.
    places: HashMap<u32, (usize, usize)>,
    bytes: usize,
}

impl RecentPages {
    /// Keeps the pages of one more batch, unless there are enough.
    pub(crate) fn add(&mut self, batch: &Arc<Batch>) {
        let len = batch.data.len();
        let there = THERE.fetch_add(len, Ordering::Relaxed) + len;
        if self.bytes + len > MOST_BYTES || there > MOST_BYTES_THERE {
            THERE.fetch_sub(len, Ordering::Relaxed);
            return;
        }
        self.bytes += len;
        let places =
            batch.pages.iter().enumerate().map(|(nth, (page, _))| (*page, (self.batches.len(), nth)));
        self.places.extend(places);
        self.batches.push(Arc::clone(batch));
    }

    /// The page with this number, if it is one with this hash.
    pub(crate) fn page(&self, number: u32, hash: &PageHash) -> Option<RecentPage> {
        let &(batch, nth) = self.places.get(&number)?;
        let batch = self.batches.get(batch)?;
        let (_, known) = batch.pages.get(nth)?;
        (known == hash).then(|| RecentPage { batch: Arc::clone(batch), nth })
    }
}

impl Drop for RecentPages {
    fn drop(&mut self) {
        THERE.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The pages that an archive keeps.
#[derive(Debug, Default)]
pub(crate) struct Recent(Arc<Mutex<Arc<RecentPages>>>);

impl Recent {
    pub(crate) fn get(&self) -> Arc<RecentPages> {
        Arc::clone(&lock(&self.0))
    }

    /// Keeps these from now on, and none of those before.
    pub(crate) fn keep(&self, kept: RecentPages) {
        self.keep_among(&ALL, kept);
    }

    fn keep_among(&self, all: &All, kept: RecentPages) {
        *lock(&self.0) = Arc::new(kept);
        let mut all = lock(all);
        all.retain(|other| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, &self.0)));
        all.push(Arc::downgrade(&self.0));
        let mut bytes = 0;
        for other in all.iter().rev().filter_map(Weak::upgrade) {
            let mut kept = lock(&other);
            if bytes + kept.bytes > MOST_BYTES_OF_ALL {
                *kept = Arc::default();
            }
            bytes += kept.bytes;
        }
    }
}

/// The tests' scheduler need not know of these locks: nothing waits while one is held, and archives of other tests have them, too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first: u32, count: u32, page_len: usize) -> Arc<Batch> {
        let pages: Vec<(u32, PageHash)> =
            (first..first + count).map(|page| (page, [page.to_le_bytes()[0]; 32])).collect();
        let data = pages.iter().flat_map(|(_, hash)| vec![hash[0]; page_len]).collect();
        Arc::new(Batch { pages, data })
    }

    #[test]
    fn a_page_is_known_by_its_number_and_its_hash() {
        let mut kept = RecentPages::default();
        kept.add(&batch(3, 2, 512));
        kept.add(&batch(9, 1, 512));
        for page in [3, 4, 9] {
            let hash = [u8::try_from(page).unwrap(); 32];
            assert_eq!(kept.page(page, &hash).unwrap().bytes(), [hash[0]; 512]);
            assert!(kept.page(page, &[0; 32]).is_none(), "it was another page then");
        }
        assert!(kept.page(5, &[5; 32]).is_none());
    }

    #[test]
    fn all_archives_together_keep_so_much_and_the_oldest_makes_way() {
        let full = || {
            let mut kept = RecentPages::default();
            (0..40).for_each(|nth| kept.add(&batch(1 + nth * 8, 8, 64 << 10)));
            kept
        };
        assert_eq!(full().bytes, MOST_BYTES, "no more than there may be of one");
        let archives: Vec<Recent> = (0..3).map(|_| Recent::default()).collect();
        let has_some = || archives.iter().map(|recent| recent.get().bytes > 0).collect::<Vec<_>>();
        let all = All::default();
        archives.iter().for_each(|recent| recent.keep_among(&all, full()));
        assert_eq!(has_some(), [false, true, true]);
        archives[0].keep_among(&all, full());
        assert_eq!(has_some(), [true, false, true]);
        archives[2].keep_among(&all, RecentPages::default());
        assert_eq!(has_some(), [true, false, false]);
    }
}
