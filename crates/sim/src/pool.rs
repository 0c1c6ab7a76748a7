//! A thin pool, as dm-thin keeps it: blocks are shared by the time at which they were written.
//!
//! Of each volume there is one layer for each of its snapshots, and one for itself: the blocks that were written
//! since the snapshot before. A block that is in the newest layer is overwritten where it is; any other costs a new
//! one. When a snapshot goes, its layer and the one after it become one, and what both had is freed. The metadata of
//! a layer is that of its blocks, but no more than a whole tree of mappings takes.

use std::collections::BTreeMap;

use asat_core::VersionId;

use crate::ranges::Ranges;

/// The size of a block.
pub(crate) const BLOCK: u64 = 64 << 10;

/// For how long the kernel lets writes wait for data space.
const PATIENCE_MS: u64 = 60_000;

/// Metadata of a mapping in a row of others, and of one by itself; see what was measured in the guard's `case`.
const IN_A_ROW: u64 = 40;
const BY_ITSELF: u64 = 400;

/// Metadata of a mapping at the most: in a tree whose leaves are half full.
const FOR_GOOD: u64 = 64;

/// What happened to a pool that harms whoever writes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// Writes waited for space for too long.
    NoData,
    /// There was no room for another mapping.
    NoMetadata,
}

/// What was written between two snapshots.
#[derive(Clone, Debug, Default)]
struct Layer {
    /// The snapshot that ended it; none for the volume's own.
    ended: Option<VersionId>,
    blocks: Ranges,
    metadata: u64,
}

/// A volume in the pool.
#[derive(Clone, Debug)]
struct Volume {
    /// How many blocks it may have.
    size: u64,
    /// Oldest first; the last one is its own.
    layers: Vec<Layer>,
}

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    volumes: BTreeMap<usize, Volume>,
    pub(crate) data_size: u64,
    pub(crate) metadata_size: u64,
    pub(crate) metadata_used: u64,
    blocks: u64,
    /// Since when it has had no block left.
    pub(crate) full_since: Option<u64>,
    /// What happened to it.
    pub(crate) harm: Option<Harm>,
    /// How often somebody has switched it to read-only who has not switched it back.
    pub(crate) read_only: u32,
}

impl Pool {
    pub(crate) fn new(data_size: u64, metadata_size: u64) -> Self {
        let (volumes, blocks) = (BTreeMap::new(), 0);
        Self {
            volumes,
            data_size,
            metadata_size,
            metadata_used: 64 << 10,
            blocks,
            full_since: None,
            harm: None,
            read_only: 0,
        }
    }

    /// A volume of this size, with so many bytes written at its beginning.
    pub(crate) fn add(&mut self, origin: usize, size: u64, bytes: u64) {
        self.volumes.insert(origin, Volume { size: size / BLOCK, layers: vec![Layer::default()] });
        self.write(origin, 0, bytes, false, 0);
    }

    pub(crate) fn data_used(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// Whether writes wait or fail.
    pub(crate) fn is_stopped(&self) -> bool {
        self.full_since.is_some() || self.takes_nothing()
    }

    /// Whether it is read-only, or its origins have had errors: nothing is made in it.
    fn takes_nothing(&self) -> bool {
        self.harm.is_some() || self.read_only > 0
    }

    /// LVM refuses snapshots where three quarters of the metadata are used, and asat where writers would be left with too little.
    pub(crate) fn takes_snapshots(&self) -> bool {
        let left = (self.data_size / 20).min(256 << 20);
        let has_room = self.data_size.saturating_sub(self.data_used()) >= left;
        !self.takes_nothing() && has_room && self.metadata_used < self.metadata_size / 4 * 3
    }

    /// Bytes from `from` to before `to` of a volume are written, as far as there are blocks.
    pub(crate) fn write(&mut self, origin: usize, from: u64, to: u64, scattered: bool, now: u64) {
        let Some(volume) = self.volumes.get_mut(&origin) else { return };
        let Some(own) = volume.layers.last_mut() else { return };
        let (start, mut end) = (from / BLOCK, to.div_ceil(BLOCK));
        if start >= end {
            return;
        }
        let wanted = (end - start) - own.blocks.within(start, end);
        let left = (self.data_size / BLOCK).saturating_sub(self.blocks);
        if wanted > left {
            // Writing stops where the last block was taken.
            let (mut least, mut most) = (start, end);
            while most - least > 1 {
                let middle = least + (most - least) / 2;
                let fits = (middle - start) - own.blocks.within(start, middle) <= left;
                (least, most) = if fits { (middle, most) } else { (least, middle) };
            }
            end = least;
            self.full_since.get_or_insert(now);
        }
        let new = own.blocks.add(start, end);
        self.blocks += new;
        let cost = new * if scattered { BY_ITSELF } else { IN_A_ROW };
        let cost = cost.min((volume.size * FOR_GOOD).saturating_sub(own.metadata));
        own.metadata += cost;
        self.metadata_used += cost;
        if self.metadata_used > self.metadata_size {
            self.harm.get_or_insert(Harm::NoMetadata);
        }
    }

    /// Who has waited for too long gets an error.
    pub(crate) fn pass(&mut self, now: u64) {
        if self.full_since.is_some_and(|since| now.saturating_sub(since) > PATIENCE_MS) {
            self.harm.get_or_insert(Harm::NoData);
        }
    }

    /// There may be space again.
    pub(crate) fn look(&mut self) {
        if self.data_size > self.data_used() {
            self.full_since = None;
        }
    }

    pub(crate) fn take(&mut self, origin: usize, id: &VersionId) {
        let Some(volume) = self.volumes.get_mut(&origin) else { return };
        if let Some(last) = volume.layers.last_mut() {
            last.ended = Some(id.clone());
        }
        volume.layers.push(Layer::default());
    }

    pub(crate) fn remove(&mut self, origin: usize, id: &VersionId) {
        let Some(Volume { size, layers }) = self.volumes.get_mut(&origin) else { return };
        let Some(index) = layers.iter().position(|layer| layer.ended.as_ref() == Some(id)) else { return };
        let older = layers.remove(index);
        if let Some(newer) = layers.get_mut(index) {
            self.blocks -= newer.blocks.merge(&older.blocks);
            let (both, most) = (newer.metadata + older.metadata, *size * FOR_GOOD);
            newer.metadata = both.min(most);
            self.metadata_used -= both - newer.metadata;
        }
        // Those that wait try again.
        self.full_since = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The same with a number for every block that was ever written: what is referred to is used.
    #[derive(Default)]
    struct Model {
        next: u64,
        live: BTreeMap<u64, u64>,
        snapshots: BTreeMap<u64, BTreeMap<u64, u64>>,
    }

    impl Model {
        fn used(&self) -> u64 {
            let all = self.snapshots.values().chain([&self.live]);
            all.flat_map(|map| map.values()).collect::<BTreeSet<_>>().len() as u64
        }

        /// A block is written where it is unless a snapshot refers to it.
        fn write(&mut self, block: u64) {
            let held = |at: &u64| self.snapshots.values().any(|map| map.get(&block) == Some(at));
            if self.live.get(&block).is_none_or(held) {
                self.next += 1;
                self.live.insert(block, self.next);
            }
        }
    }

    proptest! {
        #[test]
        fn it_uses_what_is_referred_to(steps in prop::collection::vec((0..10_u8, 0..30_u64, 1..12_u64), 1..80)) {
            let (mut pool, mut model, mut number) = (Pool::new(1 << 40, 1 << 40), Model::default(), 0);
            pool.add(0, 1 << 30, 0);
            let id = |number: u64| format!("s@{number}").parse::<VersionId>().unwrap();
            for (kind, at, length) in steps {
                match kind {
                    0..6 => {
                        pool.write(0, at * BLOCK, (at + length) * BLOCK, false, 0);
                        (at..at + length).for_each(|block| model.write(block));
                    }
                    6..8 => {
                        number += 1;
                        pool.take(0, &id(number));
                        model.snapshots.insert(number, model.live.clone());
                    }
                    _ => {
                        let gone = model.snapshots.keys().nth(usize::try_from(at).unwrap() % 4).copied();
                        if let Some(gone) = gone {
                            pool.remove(0, &id(gone));
                            model.snapshots.remove(&gone);
                        }
                    }
                }
                prop_assert_eq!(pool.data_used(), model.used() * BLOCK);
            }
        }
    }
}
