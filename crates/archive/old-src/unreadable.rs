//! Which of all versions cannot be put together any more.

use crate::archive::Archive;
use crate::chain::{Layer, Layers, lock, most_pages};
use crate::error::Error;
use crate::replay::Replay;
use crate::resolve::chain_of;

impl Archive {
    /// The live versions whose pages cannot be found any more, oldest first, each with what is in the way. All indexes are read
    /// once; pages are not.
    #[must_use]
    pub fn unreadable(&self) -> Vec<(u64, Error)> {
        let layers = self.inner.layers();
        let mut missing = lock(&self.inner.missing).clone();
        let mut replay = Replay::new(most_pages(layers.values()));
        let mut unreadable = Vec::new();
        for layer in layers.values() {
            if missing.first().is_some_and(|&number| number < layer.number) {
                replay.miss_one();
                missing = missing.split_off(&layer.number);
            }
            let comes_out = self.comes_out(layer, &layers, &mut replay).unwrap_or_else(|_| {
                replay.miss_one();
                false
            });
            // It may have been given up since.
            if layer.live
                && !comes_out
                && let Err(error) = self.inner.resolve(layer.number)
                && self.contains(layer.number)
            {
                unreadable.push((layer.number, error));
            }
        }
        unreadable
    }

    fn comes_out(&self, layer: &Layer, layers: &Layers, replay: &mut Replay) -> Result<bool, Error> {
        let folder = &self.inner.folder;
        let pack = layer.open(folder)?;
        replay.lay(&pack, || chain_of(folder, layers, layer))?;
        Ok(replay.comes_out(pack.meta()))
    }
}
