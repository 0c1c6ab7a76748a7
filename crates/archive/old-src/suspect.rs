//! Where in an index the flipped bit may be because of which it does not match its checksum.
//!
//! Each entry says what its page hashes to, so it can be held against the page: a frame with the whole page by itself, a difference
//! laid upon the page below, a reference beside the version that it names. Only the number of a page that is stored whole has
//! nothing to be held against, unless the layer has all pages.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::chain::{Layers, below, most_pages};
use crate::codec::Decoder;
use crate::disk::Folder;
use crate::error::Error;
use crate::fingerprint::page_hash;
use crate::frames::{Frames, Reading};
use crate::index::{Encoding, Entry, Index};
use crate::pack::Pack;
use crate::pages::{PageMap, nth_of};
use crate::resolve::history_of;

/// So many entries that do not agree with their pages are looked around. In a layer whose version was given up, differences may lie upon
/// pages that are gone.
const MOST_TROUBLES: usize = 16;
/// How far before such an entry the flip may be, in bytes: entries in between may agree by chance, or say nothing of it.
const BEFORE: usize = 2 << 10;
/// An entry is not longer.
const ENTRY_MOST_BYTES: usize = 42;

/// The places, the likeliest first: entries that do not agree with their pages, what is before them, and then the page number of
/// every entry.
pub(crate) fn suspects(
    folder: &Folder,
    layers: &Layers,
    pack: &Pack,
    index: &[u8],
) -> Result<Vec<Range<usize>>, Error> {
    let index = pack.index_of(index.to_vec());
    let mut pages = Pages::of(folder, layers, pack, &index)?;
    let is_whole_version = index.count == u64::from(index.page_count);
    let (mut troubles, mut before, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut vouched, mut end, mut number) = (0, 0, 0);
    let read = index.each_at(|entry, at| {
        number += 1;
        let found =
            if is_whole_version && entry.page != number { Found::Other } else { pages.look(pack, &entry) };
        match found {
            Found::Other if troubles.len() < MOST_TROUBLES => {
                before.push(vouched.max(at.start.saturating_sub(BEFORE))..at.start);
                troubles.push(at.clone());
            }
            Found::Same if is_whole_version || !entry.encoding.is_whole() => vouched = at.end,
            _ => {}
        }
        end = at.end;
        steps.push(at.start..at.start + step_len(index.bytes.get(at).unwrap_or_default()));
    });
    if read.is_err() {
        before.push(vouched.max(end.saturating_sub(BEFORE))..end);
        troubles.push(end..end.saturating_add(ENTRY_MOST_BYTES).min(index.bytes.len()));
    }
    Ok([troubles, before, steps].concat())
}

/// How many bytes of an entry tell its page, by how many it is after the one before.
fn step_len(entry: &[u8]) -> usize {
    entry.iter().take_while(|byte| *byte & 0x80 != 0).count() + 1
}

/// What comes of holding an entry against its page.
enum Found {
    /// It is what the entry says.
    Same,
    /// It is not.
    Other,
    /// Nothing can be said: what is below cannot be read.
    Unknown,
}

/// The pages of a layer whose index is not to be trusted.
struct Pages {
    /// What the version below shows.
    below: Option<PageMap>,
    /// What the versions have that the layer refers to.
    earlier: Option<PageMap>,
    frames: Frames,
    decoder: Decoder,
    frame: Vec<u8>,
    page: Vec<u8>,
}

impl Pages {
    fn of(folder: &Folder, layers: &Layers, pack: &Pack, index: &Index<'_>) -> Result<Self, Error> {
        let meta = pack.meta();
        let most = most_pages(layers.range(..=meta.number).map(|(_, layer)| layer));
        let page_count = usize::try_from(meta.page_count).unwrap_or(usize::MAX).min(most);
        let lower = meta.covers_from.checked_sub(1).and_then(|number| below(layers, number));
        // Where something is wrong there as well, the frames with whole pages are what there is to go by.
        let older = lower.and_then(|layer| history_of(folder, layers, layer).ok()).unwrap_or_default();
        let newest = older.first().filter(|newest| newest.meta().page_size == meta.page_size);
        let mut wanted = BTreeMap::new();
        let mut want = |entry: Entry| {
            if let Some(nth) = nth_of(entry.page).filter(|_| entry.encoding == Encoding::Earlier) {
                wanted.insert(nth, entry.offset);
            }
        };
        let _ = index.each(&mut want);
        let find = |newest: &Pack| PageMap::find(newest, &older, page_count, &mut |_, error| Err(error)).ok();
        let find_earlier = |newest: &Pack| PageMap::find_earlier(newest, &older, page_count, wanted).ok();
        Ok(Self {
            below: newest.filter(|_| meta.parent.is_some()).and_then(|newest| find(newest)),
            earlier: newest.and_then(|newest| find_earlier(newest)),
            frames: Frames::new()?,
            decoder: Decoder::new()?,
            frame: Vec::new(),
            page: vec![0; meta.page_size.as_usize()],
        })
    }

    /// Holds an entry against its page.
    fn look(&mut self, pack: &Pack, entry: &Entry) -> Found {
        let nth = nth_of(entry.page).unwrap_or(usize::MAX);
        if entry.encoding == Encoding::Earlier {
            let Some(earlier) = &self.earlier else { return Found::Unknown };
            return if earlier.hash(nth) == Some(entry.hash) { Found::Same } else { Found::Other };
        }
        if entry.encoding == Encoding::Difference {
            let Some(below) = &self.below else { return Found::Unknown };
            if self.frames.page(below, nth, Reading::InOrder, &mut self.page).is_err() {
                return Found::Unknown;
            }
        }
        self.frame.resize(usize::try_from(entry.len).unwrap_or(usize::MAX), 0);
        let is_same = pack.read_at(entry.offset, &mut self.frame).is_ok()
            && self.decoder.decode(entry.encoding, &self.frame, &mut self.page)
            && page_hash(&self.page) == entry.hash;
        if is_same { Found::Same } else { Found::Other }
    }
}
