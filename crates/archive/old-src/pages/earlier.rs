//! Lays pages upon a map that are what earlier versions had: their frames may have been forgotten since.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Frame, Held, NONE, PageMap, nth_of};
use crate::error::Error;
use crate::index::Entry;
use crate::pack::Pack;

impl PageMap {
    /// Lays entries upon those before that say of a page which earlier version has it. What they refer to is found in
    /// the `older` layers, newest first.
    pub(super) fn add_earlier(
        &mut self,
        nth: u32,
        entries: &[Entry],
        older: &[Arc<Pack>],
        gone: &mut dyn FnMut(&Frame, u64),
    ) -> Result<(), Error> {
        let wanted = |entry: &Entry| nth_of(entry.page).map(|page| (page, entry.offset));
        let wanted: BTreeMap<usize, u64> =
            entries.iter().filter_map(wanted).filter(|(page, _)| *page < self.page_count).collect();
        let found = match older.first() {
            Some(newest) => Self::find_earlier(newest, older, self.page_count, wanted)?,
            None => Self::new(self.page_size, 0),
        };
        for entry in entries {
            let Some(page) = nth_of(entry.page).filter(|page| *page < self.page_count) else { continue };
            self.let_go(page, gone);
            let mut place = NONE;
            let mut frames: Vec<Frame> = found.entries_of(page).copied().collect();
            while let Some(frame) = frames.pop() {
                let Some((_, pack)) = found.pack(&frame) else { continue };
                self.shared.insert((pack.meta().number, frame.offset));
                let held = self.hold(pack);
                place = self.put(Frame { pack: held, before: place, ..frame });
            }
            // What is nowhere stays so.
            if place != NONE {
                place = self.put(Frame::of(entry, nth, place));
            }
            self.show(page, place, entry.hash);
        }
        Ok(())
    }

    /// Has a layer open of which something is needed; answers its place.
    fn hold(&mut self, pack: &Arc<Pack>) -> u32 {
        let number = pack.meta().number;
        let place = self.held.iter().position(|held| held.number == number).unwrap_or_else(|| {
            self.held.push(Held { pack: None, number, uses: 0 });
            self.held.len() - 1
        });
        if let Some(held) = self.held.get_mut(place) {
            held.pack = Some(Arc::clone(pack));
        }
        u32::try_from(place).unwrap_or(NONE)
    }
}
