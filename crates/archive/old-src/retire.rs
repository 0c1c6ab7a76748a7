//! Gives versions up without rewriting their neighbours.
//!
//! A version is renamed to a retired layer, since later versions may need pages of it; what they do not need is given back by
//! compaction. Of the newest version nobody needs anything: its layers down to the next live one are removed at once.

use asat_core::boundary;

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, live_above, lock};
use crate::error::Error;

/// What giving up a version did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// It was live, and is no more.
    Retired {
        /// What this gave back on disk.
        freed_bytes: u64,
        /// Whether [`Archive::compact`] would give back more.
        worth_compacting: bool,
    },
    /// No such version is live.
    AlreadyGone,
}

impl Archive {
    /// Gives up a version. Those who read it at the moment read on.
    pub fn retire(&self, number: u64) -> Result<Retired, Error> {
        let archive = &*self.inner;
        boundary::step("archive: give up a version");
        let upkeep = lock(&archive.upkeep);
        let layers = archive.layers();
        let Some(layer) = layers.get(&number).filter(|layer| layer.live) else {
            let was_missing = lock(&archive.missing).remove(&number);
            let held_back = Retired::Retired { freed_bytes: 0, worth_compacting: true };
            return Ok(if was_missing { held_back } else { Retired::AlreadyGone });
        };
        // What a newer asat has written may not be this one's to give up.
        if let Err(error @ (Error::Older { .. } | Error::Newer { .. })) = layer.open(&archive.folder) {
            return Err(error);
        }
        let layer = layer.clone();
        drop(layers);
        let is_newest = archive.set_aside(&layer)?;
        // Where a version is missed, it may need what lies there.
        let is_removed = is_newest && archive.is_complete();
        let freed_bytes = if is_removed { archive.remove_left_over(&upkeep)? } else { 0 };
        Ok(Retired::Retired { freed_bytes, worth_compacting: !is_removed })
    }
}

impl Inner {
    /// Gives up a version, durably; answers whether it was the newest. Its layer stays: what nobody needs of it is removed
    /// afterwards, so that a version never comes back after a crash when another was stored upon the one below it.
    fn set_aside(&self, layer: &Layer) -> Result<bool, Error> {
        let above = {
            let mut chain = lock(&self.chain);
            let above = live_above(&chain.layers(), layer.number);
            if above.is_none() && chain.writing.is_some() {
                let folder = self.folder.path().to_owned();
                return Err(Error::Busy { folder, what: "a version is being written on top of this one" });
            }
            let retired = layer.retired();
            self.folder.rename(&layer.name().text(), &retired.name().text())?;
            chain.put(retired);
            chain.settled.remove(&layer.number);
            above.map(|above| chain.settled.remove(&above))
        };
        if above.is_none() {
            *lock(&self.head) = None;
        }
        self.folder.sync_folder()?;
        Ok(above.is_none())
    }
}
