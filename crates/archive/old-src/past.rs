//! What earlier versions had, so that a page that is again what it once was is not stored again.
//!
//! Only live versions are referred to, and only for the page in the same place: what a page was is known from the indexes
//! alone, and a version that is shown can be looked at before anything relies on it.

use std::sync::Arc;

use crate::archive::Inner;
use crate::chain::{Layers, head, most_pages};
use crate::error::Error;
use crate::fingerprint::PageHash;
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::pages::nth_of;
use crate::resolve::{Resolved, history_of};

/// So many pages of earlier versions are known at most, the newest. They take 12 MiB.
const MOST_KNOWN: usize = 256 << 10;
/// So many versions are looked at for one that is written. A store that was brought back is one of them.
const MOST_LOOKED_AT: u32 = 16;

/// A content that a page had.
struct Known {
    hash: PageHash,
    page: u32,
    /// The newest version that shows it; versions are counted from the newest one down.
    newest: u32,
    /// The oldest.
    oldest: u32,
}

/// The pages of the versions below the one that is being written.
pub(crate) struct Past {
    archive: Arc<Inner>,
    /// The live versions, newest first.
    versions: Vec<u64>,
    /// In the order of pages and hashes.
    known: Vec<Known>,
    /// The version that was looked at last, by its place among all.
    opened: Option<(u32, Resolved)>,
    looked_at: u32,
    frames: Frames,
    page: Vec<u8>,
}

impl Past {
    /// What the versions of these layers had. Where some of it cannot be read, nothing is known.
    pub(crate) fn of(archive: &Arc<Inner>, layers: &Layers, page_len: usize) -> Result<Self, Error> {
        let mut past = Self {
            archive: Arc::clone(archive),
            versions: Vec::new(),
            known: Vec::new(),
            opened: None,
            looked_at: 0,
            frames: Frames::new()?,
            page: vec![0; page_len],
        };
        if past.learn(layers).is_err() {
            past.known.clear();
        }
        past.known.sort_by_key(|known| (known.page, known.hash));
        Ok(past)
    }

    fn learn(&mut self, layers: &Layers) -> Result<(), Error> {
        let Some(head) = head(layers) else { return Ok(()) };
        // From which version on a page is another than the ones before it in these turns have it.
        let (mut since, mut page_count) = (Vec::new(), 0);
        let most_pages = most_pages(layers.values());
        for pack in history_of(&self.archive.folder, layers, head)? {
            let meta = pack.meta();
            if layers.get(&meta.number).is_some_and(|layer| layer.live) {
                page_count = usize::try_from(meta.page_count).unwrap_or(usize::MAX).min(most_pages);
                // Newer versions end before the pages that are new here, and what lies beyond the end of this one is
                // not shown through it.
                since.resize(since.len().max(page_count), place(self.versions.len()));
                self.versions.push(meta.number);
                since.get_mut(page_count..).unwrap_or_default().fill(place(self.versions.len()));
            }
            let oldest = place(self.versions.len()).saturating_sub(1);
            let (known, versions) = (&mut self.known, oldest + 1);
            pack.index()?.each(|entry| {
                let Some(nth) = nth_of(entry.page).filter(|&nth| nth < page_count) else { return };
                let Some(since) = since.get_mut(nth) else { return };
                let newest = std::mem::replace(since, versions);
                // What the newest version shows is not new.
                if newest > 0 && newest < versions && entry.encoding != Encoding::Earlier {
                    known.push(Known { hash: entry.hash, page: entry.page, newest, oldest });
                }
            })?;
            if known.len() >= MOST_KNOWN {
                break;
            }
        }
        Ok(())
    }

    /// The version that has this page, where there is one and it can be read.
    pub(crate) fn version_with(&mut self, page: u32, hash: PageHash) -> Option<u64> {
        let nth = self.known.binary_search_by_key(&(page, hash), |known| (known.page, known.hash)).ok()?;
        let known = self.known.get(nth)?;
        let shows_it = known.newest..=known.oldest;
        if !self.opened.as_ref().is_some_and(|(version, _)| shows_it.contains(version)) {
            self.look_at(known.newest)?;
        }
        let (version, resolved) = self.opened.as_ref()?;
        let nth = nth_of(page).filter(|&nth| resolved.map.hash(nth) == Some(hash))?;
        self.frames.page(&resolved.map, nth, Reading::InOrder, &mut self.page).ok()?;
        self.versions.get(usize::try_from(*version).ok()?).copied()
    }

    fn look_at(&mut self, version: u32) -> Option<()> {
        self.opened = None;
        if self.looked_at == MOST_LOOKED_AT {
            return None;
        }
        self.looked_at += 1;
        let number = self.versions.get(usize::try_from(version).ok()?)?;
        self.opened = Some((version, self.archive.resolve(*number).ok()?));
        self.frames = Frames::new().ok()?;
        Some(())
    }
}

fn place(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
