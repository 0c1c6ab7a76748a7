//! Gives versions up without rewriting their neighbours.
//!
//! Giving up the newest version removes its layers down to the next live one. Any other version is renamed to
//! a retired layer, since later versions may need pages of it; what they do not need is given back by compaction.

use crate::archive::{Archive, Inner};
use crate::chain::{Chain, Layer, head, live_above, lock, run_below};
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
        let _upkeep = lock(&archive.upkeep);
        let layers = archive.layers();
        let Some(layer) = layers.get(&number).filter(|layer| layer.live) else {
            let was_missing = lock(&archive.missing).remove(&number);
            let held_back = Retired::Retired { freed_bytes: 0, worth_compacting: true };
            return Ok(if was_missing { held_back } else { Retired::AlreadyGone });
        };
        // What a newer asat has written may not be this one's to give up.
        if let Err(error @ Error::Newer { .. }) = layer.open(&archive.folder) {
            return Err(error);
        }
        match live_above(&layers, number) {
            Some(above) => {
                archive.retire_below(layer, above)?;
                Ok(Retired::Retired { freed_bytes: 0, worth_compacting: true })
            }
            None if !archive.is_complete() => {
                archive.set_newest_aside(layer)?;
                Ok(Retired::Retired { freed_bytes: 0, worth_compacting: true })
            }
            None => {
                let freed_bytes = archive.retire_newest(layer)?;
                Ok(Retired::Retired { freed_bytes, worth_compacting: false })
            }
        }
    }
}

impl Inner {
    /// Gives up the newest version: nothing above needs it, nor the retired layers between it and the next.
    fn retire_newest(&self, layer: &Layer) -> Result<u64, Error> {
        let run = {
            let mut chain = lock(&self.chain);
            let layers = chain.layers();
            self.check_newest(&chain, layer)?;
            // Above there can be what an earlier removal had to leave.
            let left_over = layers.range(layer.number + 1..).map(|(_, layer)| layer.clone());
            let run: Vec<Layer> = left_over.chain(run_below(&layers, layer.number)).collect();
            // Whoever begins a version from now on finds the next live one as the newest.
            chain.take(layer.number);
            run.iter().for_each(|layer| chain.take(layer.number));
            run
        };
        *lock(&self.head) = None;
        // The version must be gone for good before layers go that it needs.
        let result =
            self.remove(std::slice::from_ref(layer)).and_then(|freed| Ok(freed + self.remove(&run)?));
        if result.is_err() {
            let mut chain = lock(&self.chain);
            let back = chain.layers().contains_key(&layer.number);
            run.into_iter().filter(|_| back).for_each(|layer| chain.put(layer));
        }
        result
    }

    fn check_newest(&self, chain: &Chain, layer: &Layer) -> Result<(), Error> {
        let newest = head(&chain.layers()).map(|head| head.number);
        if chain.writing.is_some() || newest != Some(layer.number) {
            let folder = self.folder.path().to_owned();
            return Err(Error::Busy { folder, what: "a version is being written on top of this one" });
        }
        Ok(())
    }

    /// Gives up the newest version where a version is missed that may need what lies there.
    fn set_newest_aside(&self, layer: &Layer) -> Result<(), Error> {
        {
            let mut chain = lock(&self.chain);
            self.check_newest(&chain, layer)?;
            let retired = layer.retired();
            self.folder.rename(&layer.name().text(), &retired.name().text())?;
            chain.put(retired);
            chain.settled.remove(&layer.number);
        }
        *lock(&self.head) = None;
        self.folder.sync_folder()
    }

    /// Gives up a version that has a live one above it.
    fn retire_below(&self, layer: &Layer, above: u64) -> Result<(), Error> {
        let retired = layer.retired();
        self.folder.rename(&layer.name().text(), &retired.name().text())?;
        {
            let mut chain = lock(&self.chain);
            chain.put(retired);
            chain.settled.remove(&layer.number);
            chain.settled.remove(&above);
        }
        self.folder.sync_folder()
    }
}
