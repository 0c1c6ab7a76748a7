//! Finds the pages of one version from its newest layer on downwards.
//!
//! What a version needs is known as soon as it is seen so, and nothing is forgotten again; and where every page is found
//! whole, older layers are not looked at. A page that a store had, lost as it shrank, and had again as it grew was stored
//! anew then, so nothing older is taken for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Frame, Held, NONE, PageMap, nth_of};
use crate::error::Error;
use crate::index::{Encoding, Entry};
use crate::pack::Pack;
use crate::resolve::PassOver;

/// In [`Search::ends`]: the page was found, down to a frame that holds it whole.
const WHOLE: u32 = NONE - 1;

impl PageMap {
    /// The pages of the version of the newest layer, which is the first of these; each continues the one after it. So many
    /// pages are looked for. Fails where an index is malformed and may not be passed over, or for want of memory.
    pub(crate) fn find(
        newest: &Pack,
        chain: &[Arc<Pack>],
        page_count: usize,
        pass_over: PassOver<'_>,
    ) -> Result<Self, Error> {
        let ends = vec![NONE; page_count];
        Search { ends, limits: BTreeMap::new(), open: page_count }.run(newest, chain, pass_over)
    }

    /// Some pages, counted from 0 and below `page_count`, each as a certain version of these layers has it.
    pub(crate) fn find_earlier(
        newest: &Pack,
        chain: &[Arc<Pack>],
        page_count: usize,
        wanted: BTreeMap<usize, u64>,
    ) -> Result<Self, Error> {
        let mut ends = vec![WHOLE; page_count];
        for &page in wanted.keys() {
            if let Some(end) = ends.get_mut(page) {
                *end = NONE;
            }
        }
        Search { ends, open: wanted.len(), limits: wanted }.run(newest, chain, &mut |_, error| Err(error))
    }
}

/// How far each page was found.
struct Search {
    /// The oldest entry of each page so far, [`NONE`] before the first, or [`WHOLE`].
    ends: Vec<u32>,
    /// The newest layer in which to look for a page, where that is not the next.
    limits: BTreeMap<usize, u64>,
    /// How many are not whole.
    open: usize,
}

impl Search {
    fn run(mut self, newest: &Pack, chain: &[Arc<Pack>], pass_over: PassOver<'_>) -> Result<PageMap, Error> {
        let mut map = PageMap::new(newest.meta().page_size, self.ends.len());
        map.resize(self.ends.len(), newest, &mut |_, _| {})?;
        let layers = u32::try_from(chain.len()).unwrap_or(NONE);
        for (nth, pack) in (0..layers).rev().zip(chain) {
            let number = pack.meta().number;
            map.held.push(Held { pack: Some(Arc::clone(pack)), number, uses: 0 });
            if self.open > 0 {
                let read = pack
                    .index()
                    .and_then(|index| index.each(|entry| self.add(&mut map, nth, number, &entry)));
                match read {
                    Err(error) if number != newest.meta().number && error.is_loss() => {
                        pass_over(number, error)?;
                    }
                    read => read?,
                }
            }
        }
        // Layers are known by their place from the oldest on.
        map.held.reverse();
        for frame in &map.frames {
            if let Some(held) = map.held.get_mut(frame.layer()) {
                held.uses += 1;
            }
        }
        map.held.iter_mut().filter(|held| held.uses == 0).for_each(|held| held.pack = None);
        self.forget_lost(&mut map);
        Ok(map)
    }

    fn add(&mut self, map: &mut PageMap, nth: u32, number: u64, entry: &Entry) {
        let page = nth_of(entry.page);
        let Some((page, end)) = page.and_then(|page| Some((page, self.ends.get_mut(page)?))) else { return };
        let is_above = |limit: &u64| number > *limit;
        if *end == WHOLE || (!self.limits.is_empty() && self.limits.get(&page).is_some_and(is_above)) {
            return;
        }
        let place = u32::try_from(map.frames.len()).unwrap_or(NONE);
        map.frames.push(Frame::of(entry, nth, NONE));
        match map.frames.get_mut(super::index(*end)) {
            Some(after) => after.before = place,
            None => {
                if let (Some(top), Some(hash)) = (map.tops.get_mut(page), map.hashes.get_mut(page)) {
                    (*top, *hash) = (place, entry.hash);
                }
            }
        }
        *end = match entry.encoding {
            Encoding::Raw | Encoding::Zstd => WHOLE,
            Encoding::Difference => place,
            Encoding::Earlier => {
                self.limits.insert(page, entry.offset);
                place
            }
        };
        self.open -= usize::from(*end == WHOLE);
    }

    /// A difference from a page that is nowhere is nowhere too.
    fn forget_lost(&self, map: &mut PageMap) {
        for (top, _) in map.tops.iter_mut().zip(&self.ends).filter(|(_, end)| **end != WHOLE) {
            *top = NONE;
        }
    }
}
