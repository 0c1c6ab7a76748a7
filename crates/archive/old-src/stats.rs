//! Says what each version takes, and what of it which versions need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use asat_core::retention::{Part, Weight};

use crate::archive::Archive;
use crate::chain::{Layer, Layers, most_pages};
use crate::error::Error;
use crate::index::Encoding;
use crate::pages::{Frame, PageMap};
use crate::resolve::chain_of;
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
    /// Whether its layer cannot be read. What of it would be given back is not known then, and not counted.
    pub damaged: bool,
}

impl Archive {
    /// Reads the indexes of all layers, and says what each version takes.
    pub fn stats(&self) -> Result<Stats, Error> {
        let (layers, weight, lost) = self.weighed()?;
        // A part that one version alone needs has its number at both ends.
        let mut alone: BTreeMap<u64, u64> = BTreeMap::new();
        for part in weight.parts.iter().filter(|part| part.first == part.last) {
            *alone.entry(part.first).or_default() += part.bytes;
        }
        let live = layers.values().filter(|layer| layer.live).map(|layer| VersionStats {
            number: layer.number,
            bytes: layer.bytes,
            only_bytes: alone.get(&layer.number).copied().unwrap_or(0),
            damaged: lost.contains(&layer.number),
        });
        let versions = live.collect();
        let retired_bytes = layers.values().filter(|layer| !layer.live).map(|layer| layer.bytes).sum();
        Ok(Stats { bytes: weight.bytes, layers: layers.len(), retired_bytes, versions })
    }

    /// Reads the indexes of all layers, and says what of the archive which versions need. What is in a damaged one counts for none.
    pub fn weigh(&self) -> Result<Weight, Error> {
        Ok(self.weighed()?.1)
    }

    /// Answers also the layers that cannot be read.
    fn weighed(&self) -> Result<(Arc<Layers>, Weight, BTreeSet<u64>), Error> {
        loop {
            let layers = self.inner.layers();
            match self.weight_of(&layers) {
                // A layer was given up or folded meanwhile.
                Err(_) if !Arc::ptr_eq(&layers, &self.inner.layers()) => {}
                weight => {
                    let (weight, lost) = weight?;
                    return Ok((layers, weight, lost));
                }
            }
        }
    }

    fn weight_of(&self, layers: &Layers) -> Result<(Weight, BTreeSet<u64>), Error> {
        let live = layers.values().filter(|layer| layer.live).map(|layer| layer.number).collect();
        let mut scales =
            Scales { live, parts: BTreeMap::new(), shared: BTreeMap::new(), lost: BTreeSet::new() };
        let shared = self.put_on(layers, &mut scales)?;
        if !shared.is_empty() {
            // What is needed again later was counted once for each time.
            scales.parts.clear();
            scales.shared = shared.into_iter().map(|frame| (frame, (0, 0))).collect();
            self.put_on(layers, &mut scales)?;
            scales.count_shared();
        }
        let part = |((first, last), bytes)| Part { first, last, bytes };
        let parts = scales.parts.into_iter().map(part).collect();
        let bytes = layers.values().map(|layer| layer.bytes).sum();
        Ok((Weight { bytes, parts }, scales.lost))
    }

    /// Counts all frames; answers those that are shown again after versions that do without them.
    fn put_on(&self, layers: &Layers, scales: &mut Scales) -> Result<BTreeSet<(u64, u64)>, Error> {
        let mut map: Option<PageMap> = None;
        for layer in layers.values() {
            match self.put_layer_on(layer, layers, &mut map, scales) {
                Err(error) if error.is_loss() => _ = scales.lost.insert(layer.number),
                put => put?,
            }
        }
        let Some(mut map) = map else { return Ok(BTreeSet::new()) };
        map.clear(&mut |frame, from| scales.weigh(frame, from, u64::MAX));
        Ok(map.shared().clone())
    }

    fn put_layer_on(
        &self,
        layer: &Layer,
        layers: &Layers,
        map: &mut Option<PageMap>,
        scales: &mut Scales,
    ) -> Result<(), Error> {
        let pack = layer.open(&self.inner.folder)?;
        let map = map.get_or_insert_with(|| PageMap::new(pack.meta().page_size, most_pages(layers.values())));
        let mut older = || match chain_of(&self.inner.folder, layers, layer) {
            Err(error) if error.is_loss() => Ok(Vec::new()),
            chain => chain,
        };
        map.apply(&pack, &mut older, &mut |frame, from| scales.weigh(frame, from, layer.number))
    }
}

/// What has been counted so far, by the first and the last of the live versions that need it.
struct Scales {
    live: Vec<u64>,
    parts: BTreeMap<(u64, u64), u64>,
    /// The frames that are shown again, by layer and offset: their lengths, and the end of the versions that need them.
    shared: BTreeMap<(u64, u64), (u32, u64)>,
    /// The layers that cannot be read.
    lost: BTreeSet<u64>,
}

impl Scales {
    /// Counts a frame of layer `from` that the versions from there to below `until` need.
    fn weigh(&mut self, frame: &Frame, from: u64, until: u64) {
        let shared = self.shared.get_mut(&(from, frame.offset));
        match shared.filter(|_| frame.encoding != Encoding::Earlier) {
            Some(shared) => *shared = (frame.len, shared.1.max(until)),
            None => self.count(frame.len, from, until),
        }
    }

    /// Counts what is shown again as if the versions between needed it, too: that it goes with none of them alone.
    fn count_shared(&mut self) {
        for ((from, _), (len, until)) in std::mem::take(&mut self.shared) {
            self.count(len, from, until);
        }
    }

    /// Counts so many bytes where any of the versions lives.
    fn count(&mut self, len: u32, from: u64, until: u64) {
        let first = self.live.partition_point(|number| *number < from);
        let end = self.live.partition_point(|number| *number < until);
        let needed = self.live.get(first..end.max(first)).unwrap_or_default();
        if let (Some(first), Some(last)) = (needed.first(), needed.last()) {
            *self.parts.entry((*first, *last)).or_default() += u64::from(len) + ENTRY_USUAL_BYTES;
        }
    }
}
