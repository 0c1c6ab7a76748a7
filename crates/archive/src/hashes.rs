//! The hashes of a version's pages, with the tree that BLAKE3 makes of them.
//!
//! The fingerprint commits to every one of them. To copy and to hash them all for each version would take longer the larger the store is. So
//! a version notes what is other than in the one before, and computes the nodes above that alone; once it is stored, these take the place of what was there.

use std::ops::Range;
use std::sync::Arc;

use asat_core::{Fingerprint, PageSize};
use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::error::Error;
use crate::fingerprint::{HEADER, PageHash, header};
use crate::layout::len_of;

/// The length of a chunk, which is a leaf of BLAKE3's tree.
const CHUNK: usize = 1024;
/// The length of a hash.
const HASH: usize = size_of::<PageHash>();
/// The hashes of a version's pages may take this part of the machine's memory.
const MEMORY_PART: u64 = 8;

/// The hashes of the pages of a version, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes {
    /// What the fingerprint has before the first of them.
    header: [u8; HEADER],
    hashes: Vec<PageHash>,
    /// The nodes of the tree, level by level: those of the first are chunks, and each of the next is of two. The last chunk is none of them, and
    /// neither is a node that has it.
    levels: Vec<Vec<ChainingValue>>,
}

/// A node that is to be at this place of its level.
type Node = (usize, ChainingValue);

/// The hashes of a version that is being written: those of another one, and what is other.
#[derive(Debug)]
pub(crate) struct Draft {
    base: Arc<Hashes>,
    header: [u8; HEADER],
    /// How many were taken.
    len: usize,
    /// Those of them that are other than in `base`, in order.
    changed: Vec<(usize, PageHash)>,
    /// Those that come after all of `base`.
    more: Vec<PageHash>,
    /// The nodes that are other or come anew, level by level and in order, once they are computed.
    nodes: Vec<Vec<Node>>,
}

impl Hashes {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// The hash of a page, counted from 0.
    pub(crate) fn get(&self, nth: usize) -> Option<&PageHash> {
        self.hashes.get(nth)
    }
}

impl Draft {
    /// Begins with a version that is written upon `base`. How many pages there are a store's file says, which may be forged and nearly all holes:
    /// so their hashes may take only a part of the machine's memory. While a version is written, what it changes takes as much again.
    pub(crate) fn new(
        number: u64,
        page_size: PageSize,
        page_count: u32,
        base: Option<&Arc<Hashes>>,
    ) -> Result<Self, Error> {
        let system = rustix::system::sysinfo();
        let memory = system.totalram.saturating_mul(u64::from(system.mem_unit));
        if u64::from(page_count) * len_of(&PageHash::default()) > memory / MEMORY_PART {
            return Err(Error::TooManyPages { number, page_count });
        }
        let (base, header) = (base.cloned().unwrap_or_default(), header(page_size, page_count));
        Ok(Self { base, header, len: 0, changed: Vec::new(), more: Vec::new(), nodes: Vec::new() })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the hash of the next page.
    pub(crate) fn push(&mut self, hash: PageHash) {
        match self.base.get(self.len) {
            Some(known) if *known == hash => {}
            Some(_) => self.changed.push((self.len, hash)),
            None => self.more.push(hash),
        }
        self.len += 1;
    }

    /// Takes the hashes of the next pages, up to before `end`, as they are in the version before. Answers whether that has them; if not, nothing was taken.
    pub(crate) fn same(&mut self, end: usize) -> bool {
        let is_there = end <= self.base.len();
        if is_there {
            self.len = self.len.max(end);
        }
        is_there
    }

    /// The fingerprint, if all pages were taken ([`crate::Fingerprinter`]).
    pub(crate) fn fingerprint(&mut self) -> Fingerprint {
        self.compute();
        let count = self.chunks();
        let last = self.chunk(count);
        let Some(levels) = count.checked_ilog2() else { return Fingerprint(last.finalize().into()) };
        // A node that has no other beside it belongs to the next level.
        let mut last = last.finalize_non_root();
        for level in 0..levels as usize {
            if (count >> level) % 2 == 1 {
                let left = self.node(level, (count >> level) - 1);
                last = merge_subtrees_non_root(&left, &last, Mode::Hash);
            }
        }
        let left = self.node(levels as usize, 0);
        Fingerprint(merge_subtrees_root(&left, &last, Mode::Hash).into())
    }

    /// The hashes, once the fingerprint was computed and the version is stored. If nobody else has those of the version before any more, what is
    /// other takes their place.
    pub(crate) fn settle(&mut self) -> Arc<Hashes> {
        let mut settled = std::mem::take(&mut self.base);
        let count = self.chunks();
        let Hashes { header, hashes, levels } = Arc::make_mut(&mut settled);
        *header = self.header;
        hashes.truncate(self.len);
        for (nth, hash) in self.changed.drain(..) {
            hashes.get_mut(nth).into_iter().for_each(|place| *place = hash);
        }
        if hashes.is_empty() {
            *hashes = std::mem::take(&mut self.more)
        } else {
            hashes.append(&mut self.more)
        }
        levels.resize_with(self.nodes.len().max(levels.len()), Vec::new);
        for (level, nodes) in levels.iter_mut().enumerate() {
            nodes.truncate(count >> level);
        }
        for (nodes, new) in levels.iter_mut().zip(self.nodes.drain(..)) {
            for (nth, node) in new {
                match nodes.get_mut(nth) {
                    Some(place) => *place = node,
                    // What comes anew comes without a gap.
                    None => nodes.push(node),
                }
            }
        }
        settled
    }

    /// Computes the nodes that are other than in the version before, or come anew.
    fn compute(&mut self) {
        let count = self.chunks();
        let mut places = self.changed_chunks();
        places.retain(|&nth| nth < count);
        let first = places.iter().map(|&nth| (nth, self.chunk(nth).finalize_non_root())).collect();
        self.nodes = vec![first];
        for level in 0.. {
            places.iter_mut().for_each(|nth| *nth /= 2);
            places.dedup();
            places.retain(|&nth| nth < count >> (level + 1));
            if places.is_empty() {
                return;
            }
            let above = |&nth: &usize| {
                let (left, right) = (self.node(level, 2 * nth), self.node(level, 2 * nth + 1));
                (nth, merge_subtrees_non_root(&left, &right, Mode::Hash))
            };
            let above = places.iter().map(above).collect();
            self.nodes.push(above);
        }
    }

    /// The chunks that have anything that is other than in the version before or comes anew, in order.
    fn changed_chunks(&self) -> Vec<usize> {
        let header = (self.header != self.base.header).then_some(0);
        let of_hash = |nth: usize| [HEADER + nth * HASH, HEADER + (nth + 1) * HASH - 1].map(|at| at / CHUNK);
        let changed = self.changed.iter().flat_map(|(nth, _)| of_hash(*nth));
        let is_new = !self.more.is_empty() || self.base.hashes.is_empty();
        let anew = if is_new { (HEADER + self.base.len() * HASH) / CHUNK..self.chunks() } else { 0..0 };
        let mut places: Vec<usize> = header.into_iter().chain(changed).chain(anew).collect();
        places.dedup();
        places
    }

    /// How many chunks there are besides the last one, which is never empty.
    fn chunks(&self) -> usize {
        (HEADER + self.len * HASH) / CHUNK
    }

    /// A node as it is in this version. It is computed already if it is other than in the one before.
    fn node(&self, level: usize, nth: usize) -> ChainingValue {
        let new = self.nodes.get(level).and_then(|nodes| {
            nodes.get(nodes.binary_search_by_key(&nth, |(place, _)| *place).ok()?).map(|(_, node)| *node)
        });
        let known = || self.base.levels.get(level).and_then(|nodes| nodes.get(nth)).copied();
        let node = new.or_else(known);
        debug_assert!(node.is_some(), "node {nth} of level {level} is not there");
        node.unwrap_or_default()
    }

    /// What has hashed this chunk of the fingerprint's input.
    fn chunk(&self, nth: usize) -> Hasher {
        let (start, end) = (nth * CHUNK, ((nth + 1) * CHUNK).min(HEADER + self.len * HASH));
        let mut hasher = Hasher::new();
        hasher.set_input_offset(u64::try_from(start).unwrap_or(u64::MAX));
        // The header shifts all hashes: a chunk begins with the end of one, and does not have the end of its own last one.
        let first = start.saturating_sub(HEADER) / HASH;
        let hashes = self.hashes(first..end.saturating_sub(HEADER).div_ceil(HASH));
        let bytes = [if nth == 0 { &self.header[..] } else { &[] }, hashes.as_flattened()].concat();
        let skipped = if nth == 0 { 0 } else { start - HEADER - first * HASH };
        hasher.update(bytes.get(skipped..skipped + (end - start)).unwrap_or_default());
        hasher
    }

    /// These hashes as they are in this version.
    fn hashes(&self, range: Range<usize>) -> Vec<PageHash> {
        let count = self.base.len();
        let within = |at: usize, end: usize| at.min(end);
        let known = self.base.hashes.get(within(range.start, count)..within(range.end, count));
        let more = range.start.saturating_sub(count)..range.end.saturating_sub(count);
        let mut hashes = [known.unwrap_or_default(), self.more.get(more).unwrap_or_default()].concat();
        let changed = self.changed.partition_point(|(nth, _)| *nth < range.start);
        let changed = self.changed.iter().skip(changed).take_while(|(nth, _)| *nth < range.end);
        for (nth, hash) in changed {
            hashes.get_mut(nth - range.start).into_iter().for_each(|place| *place = *hash);
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Fingerprinter;

    fn size() -> PageSize {
        PageSize::new(4096).unwrap()
    }

    fn hash(nth: usize, round: u8) -> PageHash {
        let mut hash = [round; 32];
        hash[8..16].copy_from_slice(&nth.to_le_bytes());
        hash[24..].copy_from_slice(&nth.to_be_bytes());
        hash
    }

    fn expected(hashes: &[PageHash]) -> Fingerprint {
        let mut fingerprinter = Fingerprinter::new(size(), u32::try_from(hashes.len()).unwrap());
        hashes.iter().for_each(|hash| fingerprinter.hash(hash));
        fingerprinter.finish()
    }

    fn draft(count: usize, base: Option<&Arc<Hashes>>) -> Draft {
        Draft::new(1, size(), u32::try_from(count).unwrap(), base).unwrap()
    }

    #[test]
    fn the_fingerprint_is_that_of_all_hashes_one_after_another() {
        for chunks in (0..=35).chain([255, 256, 257, 511, 512, 600]) {
            for more in [0, 1, 31] {
                let all: Vec<PageHash> = (0..chunks * CHUNK / HASH + more).map(|nth| hash(nth, 0)).collect();
                let mut draft = draft(all.len(), None);
                all.iter().for_each(|hash| draft.push(*hash));
                assert_eq!(draft.fingerprint(), expected(&all), "{} pages", all.len());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Versions of other lengths, of which each takes some runs of the one before and reads the pages between them.
        #[test]
        fn what_is_shared_is_what_it_would_be_alone(
            versions in prop::collection::vec((0..20_000_usize, prop::collection::vec((0..20_000_usize, 1..9000_usize), 0..6)), 1..5),
        ) {
            let (mut base, mut model) = (Arc::<Hashes>::default(), Vec::new());
            for (round, (count, runs)) in (1..).zip(versions) {
                let mut draft = draft(count, Some(&base));
                let mut all: Vec<PageHash> = Vec::new();
                for nth in 0..count {
                    if let Some((_, len)) = runs.iter().find(|(start, _)| *start == nth) {
                        let end = (nth + len).min(count);
                        let is_there = end <= model.len();
                        if draft.len() == nth {
                            prop_assert_eq!(draft.same(end), is_there);
                            all.extend(model.get(nth..end).unwrap_or_default());
                        }
                    }
                    if all.len() == nth {
                        // Some that are read are as they were.
                        let other = model.get(nth).copied().filter(|_| nth % 3 > 0).unwrap_or_else(|| hash(nth, round));
                        draft.push(other);
                        all.push(other);
                    }
                }
                prop_assert_eq!(draft.len(), all.len());
                prop_assert_eq!(draft.fingerprint(), expected(&all));
                // Sometimes another one has those of the version before still.
                let kept = (round % 2 == 0).then(|| Arc::clone(&base));
                drop(base);
                base = draft.settle();
                prop_assert!((0..=count).all(|nth| base.get(nth) == all.get(nth)));
                prop_assert!(kept.is_none_or(|kept| kept.hashes == model));
                model = all;
            }
        }
    }
}
