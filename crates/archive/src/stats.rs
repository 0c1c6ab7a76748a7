//! Says what each version takes, and what giving it up alone would give back.

use crate::archive::Archive;
use crate::chain::{Layers, most_pages};
use crate::error::Error;
use crate::pages::{Frame, PageMap};
use crate::survey::ENTRY_USUAL_BYTES;

/// What an archive takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All of it, in bytes.
    pub bytes: u64,
    /// How many files it consists of.
    pub layers: usize,
    /// The layers that only hold what later versions need of versions that were given up, in bytes.
    pub retired_bytes: u64,
    /// The live versions, oldest first.
    pub versions: Vec<VersionStats>,
}

/// What a version takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionStats {
    /// Its number.
    pub number: u64,
    /// What its own layer takes on disk.
    pub bytes: u64,
    /// What of the archive no other version needs: at least this much is given back where it alone is given up.
    pub only_bytes: u64,
}

impl Archive {
    /// Reads the indexes of all layers, and says what each version takes.
    pub fn stats(&self) -> Result<Stats, Error> {
        loop {
            let layers = self.inner.layers();
            match self.stats_of(&layers) {
                // A layer was given up or folded meanwhile.
                Err(_) if !std::sync::Arc::ptr_eq(&layers, &self.inner.layers()) => {}
                stats => return stats,
            }
        }
    }

    fn stats_of(&self, layers: &Layers) -> Result<Stats, Error> {
        let live = layers.values().filter(|layer| layer.live);
        let stats = |number, bytes| VersionStats { number, bytes, only_bytes: 0 };
        let mut versions: Vec<VersionStats> = live.map(|layer| stats(layer.number, layer.bytes)).collect();
        let mut map: Option<PageMap> = None;
        for layer in layers.values() {
            let pack = layer.open(&self.inner.folder)?;
            let map =
                map.get_or_insert_with(|| PageMap::new(pack.meta().page_size, most_pages(layers.values())));
            map.apply(&pack, &mut |frame, from| count(&mut versions, frame, from, layer.number))?;
        }
        if let Some(map) = &mut map {
            map.clear(&mut |frame, from| count(&mut versions, frame, from, u64::MAX));
        }
        let retired_bytes = layers.values().filter(|layer| !layer.live).map(|layer| layer.bytes).sum();
        let bytes = layers.values().map(|layer| layer.bytes).sum();
        Ok(Stats { bytes, layers: layers.len(), retired_bytes, versions })
    }
}

/// Counts a frame that the versions from `from` to below `until` need, for the only one of them that lives.
fn count(versions: &mut [VersionStats], frame: &Frame, from: u64, until: u64) {
    let first = versions.partition_point(|version| version.number < from);
    let end = versions.partition_point(|version| version.number < until);
    if let Some([only]) = versions.get_mut(first..end.max(first)) {
        only.only_bytes += u64::from(frame.len) + ENTRY_USUAL_BYTES;
    }
}
