//! The layers of an archive laid one upon another from the oldest on, and every page of each compared with its hash.

use std::sync::Arc;

use asat_core::PageSize;

use crate::error::Error;
use crate::fingerprint::{Fingerprinter, PageHash};
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::meta::Meta;
use crate::pack::Pack;
use crate::pages::{PageMap, nth_of};

/// How far a replay has come.
pub(crate) struct Replay {
    most_pages: usize,
    /// The pages up to the newest layer so far, once there is one.
    map: Option<PageMap>,
    frames: Option<Frames>,
    page: Vec<u8>,
    /// The pages that were read and match their hash. What is laid upon another page cannot be judged: it is another
    /// layer's fault where it does not come out.
    sound: Vec<bool>,
    /// What each page is made of.
    made_of: Vec<MadeOf>,
    misses_one: bool,
}

/// What a page is made of, where a layer could not be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MadeOf {
    /// Of entries above that layer alone.
    All,
    /// Of entries below it alone: it may have had a newer one.
    Older,
    /// Of both: one may be laid upon what is not known.
    Both,
}

impl Replay {
    /// A replay of layers that can hold at most so many pages.
    pub(crate) fn new(most_pages: usize) -> Self {
        let (page, sound, made_of) = (Vec::new(), Vec::new(), Vec::new());
        Self { most_pages, map: None, frames: None, page, sound, made_of, misses_one: false }
    }

    /// Lays the next layer upon those before, which `older` opens, newest first; answers the pages in it that can be
    /// judged, how they are stored, and whether these are all of its pages.
    pub(crate) fn lay(
        &mut self,
        pack: &Arc<Pack>,
        older: impl Fn() -> Result<Vec<Arc<Pack>>, Error>,
    ) -> Result<(Vec<(u32, Encoding)>, bool), Error> {
        let page_size = pack.meta().page_size;
        let mut pages = Vec::new();
        pack.index()?.each(|entry| pages.push((entry.page, entry.encoding)))?;
        let map = self.map.get_or_insert_with(|| PageMap::new(page_size, self.most_pages));
        let mut has_older = true;
        let mut older = || match older() {
            Err(error) if error.is_finding() => {
                has_older = false;
                Ok(Vec::new())
            }
            older => older,
        };
        map.apply(pack, &mut older, &mut |_, _| {})?;
        self.fit(page_size, pack.meta());
        for &(page, encoding) in &pages {
            if let Some(made_of) = nth_of(page).and_then(|nth| self.made_of.get_mut(nth)) {
                *made_of = match encoding {
                    Encoding::Raw | Encoding::Zstd => MadeOf::All,
                    Encoding::Difference if *made_of == MadeOf::All => MadeOf::All,
                    Encoding::Earlier if !self.misses_one => MadeOf::All,
                    Encoding::Difference | Encoding::Earlier => MadeOf::Both,
                };
            }
        }
        let all = pages.len();
        pages.retain(|&(page, encoding)| match encoding {
            Encoding::Raw | Encoding::Zstd => true,
            Encoding::Difference => nth_of(page).and_then(|nth| self.sound.get(nth)) == Some(&true),
            Encoding::Earlier => has_older,
        });
        let are_all = pages.len() == all;
        Ok((pages, are_all))
    }

    fn fit(&mut self, page_size: PageSize, meta: &Meta) {
        if meta.parent.is_none() || self.page.len() != page_size.as_usize() {
            self.sound.clear();
        }
        self.page.resize(page_size.as_usize(), 0);
        let page_count = self.map.as_ref().map_or(0, PageMap::page_count);
        self.sound.resize(page_count, false);
        self.made_of.resize(page_count, MadeOf::All);
    }

    /// Reads a page of the newest layer; answers whether it matches its hash.
    pub(crate) fn check(&mut self, page: u32) -> Result<bool, Error> {
        let frames = match &mut self.frames {
            Some(frames) => frames,
            none => none.insert(Frames::new()?),
        };
        let (Some(nth), Some(map)) = (nth_of(page), &self.map) else {
            return Ok(false);
        };
        let is_sound = match frames.page(map, nth, Reading::InOrder, &mut self.page) {
            Ok(()) => true,
            Err(error) if error.is_finding() => false,
            Err(error) => return Err(error),
        };
        if let Some(sound) = self.sound.get_mut(nth) {
            *sound = is_sound;
        }
        Ok(is_sound)
    }

    /// What a page of the newest layer must hash to.
    pub(crate) fn hash(&self, page: u32) -> PageHash {
        let hash = nth_of(page).and_then(|nth| self.map.as_ref()?.hash(nth));
        hash.unwrap_or_default()
    }

    /// A layer could not be used: what those above it lay upon its pages cannot be judged.
    pub(crate) fn miss_one(&mut self) {
        self.sound.fill(false);
        self.made_of
            .iter_mut()
            .filter(|made_of| **made_of == MadeOf::All)
            .for_each(|made_of| *made_of = MadeOf::Older);
        self.misses_one = true;
    }

    /// Whether the newest layer's version has the pages that it was written with, as far as that shows without reading them.
    pub(crate) fn comes_out(&self, meta: &Meta) -> bool {
        let Some(map) = &self.map else { return false };
        let count = usize::try_from(meta.page_count).unwrap_or(usize::MAX);
        let found = || Fingerprinter::of_hashes(meta.page_size, meta.page_count, map.hashes());
        let is_known = !self.made_of.contains(&MadeOf::Both);
        map.page_count() == count && is_known && map.missing().next().is_none() && found() == meta.fingerprint
    }
}
