//! Finds the pages of one version from its newest layer on downwards.
//!
//! What a version needs is known as soon as it is seen so, and nothing is forgotten again; and where every page is found
//! whole, older layers are not looked at. A page that a store had, lost as it shrank, and had again as it grew was stored
//! whole then, so nothing older is taken for it.

use std::sync::Arc;

use super::{Frame, Held, NONE, PageMap, nth_of};
use crate::error::Error;
use crate::index::{Encoding, Entry};
use crate::pack::Pack;

/// In [`Search::ends`]: the page was found, down to a frame that holds it whole.
const WHOLE: u32 = NONE - 1;

impl PageMap {
    /// The pages of the version of the newest layer, which is the first of these; each continues the one after it. So many
    /// pages are looked for. Fails where an index is malformed, or for want of memory.
    pub(crate) fn find(newest: &Pack, chain: &[Arc<Pack>], page_count: usize) -> Result<Self, Error> {
        let mut map = Self::new(newest.meta().page_size, page_count);
        map.resize(page_count, newest, &mut |_, _| {})?;
        let mut search = Search { ends: vec![NONE; page_count], open: page_count };
        let layers = u32::try_from(chain.len()).unwrap_or(NONE);
        for (nth, pack) in (0..layers).rev().zip(chain) {
            let held = Held { pack: Some(Arc::clone(pack)), number: pack.meta().number, uses: 0 };
            map.held.push(held);
            if search.open > 0 {
                pack.index()?.each(|entry| search.add(&mut map, nth, &entry))?;
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
        search.forget_lost(&mut map);
        Ok(map)
    }
}

/// How far each page was found.
struct Search {
    /// The oldest frame of each page so far, [`NONE`] before the first, or [`WHOLE`].
    ends: Vec<u32>,
    /// How many are not whole.
    open: usize,
}

impl Search {
    fn add(&mut self, map: &mut PageMap, nth: u32, entry: &Entry) {
        let page = nth_of(entry.page);
        let Some((page, end)) = page.and_then(|page| Some((page, self.ends.get_mut(page)?))) else { return };
        if *end == WHOLE {
            return;
        }
        let place = u32::try_from(map.frames.len()).unwrap_or(NONE);
        map.frames.push(Frame {
            offset: entry.offset,
            len: entry.len,
            pack: nth,
            before: NONE,
            encoding: entry.encoding,
        });
        match map.frames.get_mut(super::index(*end)) {
            Some(after) => after.before = place,
            None => {
                if let (Some(top), Some(hash)) = (map.tops.get_mut(page), map.hashes.get_mut(page)) {
                    (*top, *hash) = (place, entry.hash);
                }
            }
        }
        *end = if entry.encoding == Encoding::Difference { place } else { WHOLE };
        self.open -= usize::from(*end == WHOLE);
    }

    /// A difference from a page that is nowhere is nowhere too.
    fn forget_lost(&self, map: &mut PageMap) {
        for (top, _) in map.tops.iter_mut().zip(&self.ends).filter(|(_, end)| **end != WHOLE) {
            *top = NONE;
        }
    }
}
