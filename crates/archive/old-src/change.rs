//! The one way in which layers are replaced and removed.
//!
//! What takes a layer's place is computed from the chain as it was, which may take hours. Meanwhile versions are given up and
//! written, and any of them may matter. So each change says what it was computed from, and is made only if that still holds:
//! this is looked at while nobody else can give up or replace anything, just before the first file is touched.
//!
//! That nobody relies on a layer stays true once it is: only live versions are referred to, so a version that is begun later
//! finds nothing there to refer to.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::MutexGuard;

use asat_core::boundary;

use crate::archive::Inner;
use crate::chain::{Layer, Layers, lock};
use crate::error::Error;
use crate::index::Encoding;
use crate::meta::Meta;
use crate::pack::Pack;
use crate::packer::Packer;
use crate::pages::nth_of;

/// What a change was computed from, and which layers it does away with.
pub(crate) struct Change<'a> {
    /// The layers as they were. None of these relied on what goes.
    pub(crate) layers: &'a Layers,
    /// A version that must still be live, and in the same file.
    pub(crate) live: Option<&'a Layer>,
    /// A layer that must still be in the same file; its version may have been given up since.
    pub(crate) same: Option<&'a Layer>,
    /// The layers that go. Nobody may rely on them any more, but for the live version above with what takes their place.
    pub(crate) gone: &'a [Layer],
}

/// What a change did.
pub(crate) struct Changed {
    /// What it gave back on disk.
    pub(crate) freed_bytes: u64,
    /// The length of the new file.
    pub(crate) new_bytes: u64,
}

impl Inner {
    /// Makes a change: `new` is put in the place of the layer of its number, and what goes is removed. `None`: what the change
    /// was computed from has changed, and nothing was done. `_upkeep` is held so that nobody else makes a change.
    pub(crate) fn change(
        &self,
        _upkeep: &MutexGuard<'_, ()>,
        change: &Change<'_>,
        new: Option<(Packer, &Meta)>,
    ) -> Result<Option<Changed>, Error> {
        boundary::step("archive: change");
        if !self.holds(change, new.as_ref().map(|(_, meta)| *meta))? {
            return Ok(None);
        }
        let Some((packer, meta)) = new else {
            let freed_bytes = self.remove(change.gone.to_vec())?;
            return Ok(Some(Changed { freed_bytes, new_bytes: 0 }));
        };
        let old = self.layers().get(&meta.number).cloned();
        let is_live = old.as_ref().is_none_or(|old| old.live);
        let mut new = Layer::new(meta.covers_from, meta.number, is_live, 0);
        new.bytes = packer.publish(meta, new.name())?;
        let (new_bytes, new_name) = (new.bytes, new.name());
        boundary::step("archive: changed");
        // The chain has the new layer before the old files go, so that a reader that misses one looks there.
        lock(&self.chain).put(new);
        let gone = change.gone.iter().filter(|layer| layer.number != meta.number).cloned().collect();
        let mut freed_bytes = self.remove(gone)?;
        if let Some(old) = old {
            freed_bytes += old.bytes;
            if old.name() != new_name {
                self.folder.unlink(&old.name().text())?;
                self.folder.sync_folder()?;
            }
        }
        Ok(Some(Changed { freed_bytes: freed_bytes.saturating_sub(new_bytes), new_bytes }))
    }

    /// Whether what a change was computed from is still so, and nobody relies on what goes.
    fn holds(&self, change: &Change<'_>, new: Option<&Meta>) -> Result<bool, Error> {
        let (now, writing) = {
            let chain = lock(&self.chain);
            (chain.layers(), chain.writing.clone())
        };
        let find = |layer: &Layer| now.get(&layer.number).filter(|now| now.is_same_file(layer));
        let as_computed = change.live.is_none_or(|layer| find(layer).is_some_and(|now| now.live))
            && change.same.is_none_or(|layer| find(layer).is_some())
            && change.gone.iter().all(|layer| find(layer).is_some_and(|now| !now.live));
        let is_taken = |new: &Meta| {
            let next = now.range(new.number..).next().map(|(_, layer)| layer);
            next.is_some_and(|next| next.number != new.number && next.from <= new.number)
        };
        if !as_computed || new.is_some_and(is_taken) || may_refer_to(writing.as_deref(), change.gone) {
            return Ok(false);
        }
        let (Some(lowest), Some(highest)) = (
            change.gone.iter().map(|layer| layer.number).min(),
            change.gone.iter().map(|layer| layer.number).max(),
        ) else {
            return Ok(true);
        };
        for (number, layer) in now.range(highest + 1..) {
            let is_known = change.layers.get(number).is_some_and(|known| known.is_same_file(layer));
            if !is_known && relies_on(&*layer.open(&self.folder)?, &(lowest..highest + 1))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes layers that nothing needs. They leave the chain first, so that a reader that misses a file
    /// finds a newer chain; where a file cannot be removed, its layer comes back.
    fn remove(&self, mut layers: Vec<Layer>) -> Result<u64, Error> {
        if layers.is_empty() {
            return Ok(0);
        }
        // From the top: what is below is never gone while a layer is there that continues it.
        layers.sort_by_key(|layer| std::cmp::Reverse(layer.number));
        {
            let mut chain = lock(&self.chain);
            layers.iter().for_each(|layer| chain.take(layer.number));
        }
        let mut freed_bytes = 0;
        for (nth, layer) in layers.iter().enumerate() {
            if let Err(error) = self.folder.unlink(&layer.name().text()) {
                let mut chain = lock(&self.chain);
                layers.iter().skip(nth).for_each(|kept| chain.put(kept.clone()));
                return Err(error);
            }
            freed_bytes += layer.bytes;
        }
        self.folder.sync_folder()?;
        Ok(freed_bytes)
    }
}

/// Whether a version that was begun when the layers were as in `writing` may refer to one of these: it may where that was live.
pub(crate) fn may_refer_to(writing: Option<&Layers>, layers: &[Layer]) -> bool {
    let was_live = |layer: &Layer| writing?.get(&layer.number).map(|then| then.live);
    layers.iter().any(|layer| was_live(layer) == Some(true))
}

/// Whether a layer continues one of these numbers, or refers to one.
fn relies_on(pack: &Pack, numbers: &Range<u64>) -> Result<bool, Error> {
    let continues = pack.meta().parent.is_some_and(|parent| numbers.contains(&parent));
    Ok(continues || !references(pack, numbers)?.is_empty())
}

/// The pages of a layer that refer to one of these numbers, counted from 0, with the number.
pub(crate) fn references(pack: &Pack, numbers: &Range<u64>) -> Result<BTreeMap<usize, u64>, Error> {
    let mut found = BTreeMap::new();
    if pack.meta().refers_to.is_none_or(|lowest| lowest >= numbers.end) {
        return Ok(found);
    }
    pack.index()?.each(|entry| {
        let page = nth_of(entry.page).filter(|_| entry.encoding == Encoding::Earlier);
        if let Some(page) = page.filter(|_| numbers.contains(&entry.offset)) {
            found.insert(page, entry.offset);
        }
    })?;
    Ok(found)
}
