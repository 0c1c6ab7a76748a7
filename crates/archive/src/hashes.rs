//! The hashes of a version's pages, which the next version shares as far as they are the same.
//!
//! The fingerprint commits to every one of them. To copy and to hash them all for each version would take longer the larger the store is. So
//! they are kept as the tree that BLAKE3 makes of them: what has not changed is shared, however much it is, and a version takes what its own changes
//! take.

use std::sync::Arc;

use asat_core::{Fingerprint, PageSize};
use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::error::Error;
use crate::fingerprint::{HEADER, PageHash, header};
use crate::layout::len_of;

/// So many hashes are a leaf: 1 KiB, a chunk of BLAKE3.
const LEAF: usize = 32;
/// So many nodes are below another one. It is a power of two, as a subtree of BLAKE3 is of chunks.
const BRANCHES: usize = 16;
/// The hashes of a version's pages may take this part of the machine's memory.
const MEMORY_PART: u64 = 8;

/// The hashes of the pages of a version, in order.
#[derive(Clone, Debug)]
pub(crate) struct Hashes {
    /// The nodes that have none above them yet, fewer than [`BRANCHES`] of each level. Those of the first one are leaves. A node of a higher level comes
    /// before those of the lower ones.
    levels: Vec<Vec<Node>>,
    /// Those that are no whole leaf yet.
    rest: Vec<PageHash>,
    /// What comes before `rest` in the input of the fingerprint, and is in no chunk yet.
    before: [u8; HEADER],
}

/// A subtree. What the fingerprint has before the first hash shifts all hashes by as much: a leaf's chunk begins with the end of the hash before, and does
/// not have the end of its own last one.
#[derive(Clone, Debug)]
struct Node {
    before: [u8; HEADER],
    end: [u8; HEADER],
    subtree: ChainingValue,
    below: Below,
}

/// What a subtree is made of.
#[derive(Clone, Debug)]
enum Below {
    Hashes(Arc<[PageHash; LEAF]>),
    Nodes(Arc<[Node; BRANCHES]>),
}

impl Hashes {
    /// Room for the hashes of a version's pages. How many pages there are a store's file says, which may be forged and nearly all holes:
    /// so they may take only a part of the machine's memory.
    pub(crate) fn new(number: u64, page_size: PageSize, page_count: u32) -> Result<Self, Error> {
        let system = rustix::system::sysinfo();
        let memory = system.totalram.saturating_mul(u64::from(system.mem_unit));
        if u64::from(page_count) * len_of(&PageHash::default()) > memory / MEMORY_PART {
            return Err(Error::TooManyPages { number, page_count });
        }
        let (levels, rest) = (Vec::new(), Vec::with_capacity(LEAF));
        Ok(Self { levels, rest, before: header(page_size, page_count) })
    }

    pub(crate) fn len(&self) -> usize {
        self.in_nodes() + self.rest.len()
    }

    fn in_nodes(&self) -> usize {
        (0..).zip(&self.levels).map(|(level, nodes)| nodes.len() * width(level)).sum()
    }

    /// The hash of a page, counted from 0.
    pub(crate) fn get(&self, nth: usize) -> Option<&PageHash> {
        self.from(nth).first()
    }

    /// Takes the hash of the next page.
    pub(crate) fn push(&mut self, hash: PageHash) {
        self.take(&[hash]);
    }

    /// Takes the hashes of the next pages, up to before `end`, as they are in `other`. Answers whether that has them; if not, nothing was taken.
    pub(crate) fn extend_from(&mut self, other: &Self, end: usize) -> bool {
        if other.len() < end {
            return false;
        }
        loop {
            let nth = self.len();
            let most = end.saturating_sub(nth);
            if most == 0 {
                return true;
            }
            match other.node_at(nth, most, self.before) {
                Some((level, node)) => self.push_node(level, node.clone()),
                None => {
                    let hashes = other.from(nth);
                    self.take(hashes.get(..most).unwrap_or(hashes));
                }
            }
        }
    }

    /// The widest node that begins with this hash, after these bytes, and has so many hashes at most; and its level.
    fn node_at(&self, nth: usize, most: usize, before: [u8; HEADER]) -> Option<(usize, &Node)> {
        let (mut level, mut nodes, mut nth) = self.nodes_with(nth)?;
        loop {
            let node = nodes.get(nth / width(level))?;
            nth %= width(level);
            if nth == 0 && width(level) <= most && node.before == before {
                return Some((level, node));
            }
            match &node.below {
                Below::Nodes(below) => (level, nodes) = (level - 1, below.as_slice()),
                Below::Hashes(_) => return None,
            }
        }
    }

    /// The hashes from this one to the end of its leaf.
    fn from(&self, nth: usize) -> &[PageHash] {
        let Some((mut level, mut nodes, mut nth)) = self.nodes_with(nth) else {
            let within = nth.checked_sub(self.in_nodes());
            return within.and_then(|nth| self.rest.get(nth..)).unwrap_or_default();
        };
        loop {
            let node = nodes.get(nth / width(level));
            nth %= width(level);
            match node.map(|node| &node.below) {
                Some(Below::Nodes(below)) => (level, nodes) = (level - 1, below.as_slice()),
                Some(Below::Hashes(hashes)) => return hashes.get(nth..).unwrap_or_default(),
                None => return &[],
            }
        }
    }

    /// The nodes without any above them among which this hash is: their level, they themselves, and which hash it is of theirs.
    fn nodes_with(&self, mut nth: usize) -> Option<(usize, &[Node], usize)> {
        for (level, nodes) in self.levels.iter().enumerate().rev() {
            match nth.checked_sub(nodes.len() * width(level)) {
                Some(beyond) => nth = beyond,
                None => return Some((level, nodes, nth)),
            }
        }
        None
    }

    /// Takes the next hashes, no more than the leaf has room for.
    fn take(&mut self, hashes: &[PageHash]) {
        self.rest.extend_from_slice(hashes);
        if let Ok(hashes) = <[PageHash; LEAF]>::try_from(self.rest.as_slice()) {
            self.rest.clear();
            let leaf = Node::leaf(self.len() / LEAF, self.before, hashes);
            self.push_node(0, leaf);
        }
    }

    /// Takes the next node. There are none of lower levels, and no hashes that are no whole leaf yet.
    fn push_node(&mut self, mut level: usize, mut node: Node) {
        self.before = node.end;
        loop {
            if self.levels.len() <= level {
                self.levels.resize_with(level + 1, Vec::new);
            }
            let Some(nodes) = self.levels.get_mut(level) else { return };
            nodes.push(node);
            let Ok(all) = <[Node; BRANCHES]>::try_from(std::mem::take(nodes)).map_err(|few| *nodes = few)
            else {
                return;
            };
            (level, node) = (level + 1, Node::above(all));
        }
    }

    /// The fingerprint, if all pages were taken ([`crate::Fingerprinter`]).
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let last = hasher_of(self.in_nodes() / LEAF, &[&self.before, self.rest.as_flattened()].concat());
        let Some((highest, lower)) = self.levels.split_last() else {
            return Fingerprint(last.finalize().into());
        };
        let with = |nodes: &[Node], last| nodes.iter().map(|node| node.subtree).chain([last]).collect();
        let mut last = last.finalize_non_root();
        for nodes in lower {
            last = joined(with(nodes, last), 1).first().copied().unwrap_or_default();
        }
        match joined(with(highest, last), 2).as_slice() {
            [left, right] => Fingerprint(merge_subtrees_root(left, right, Mode::Hash).into()),
            // The highest level has a node at least.
            _ => Fingerprint([0; 32]),
        }
    }
}

impl Node {
    /// The leaf with this number, of these hashes.
    fn leaf(nth: usize, before: [u8; HEADER], hashes: [PageHash; LEAF]) -> Self {
        let bytes = hashes.as_flattened();
        let (within, end) = bytes.split_last_chunk().unwrap_or((bytes, &before));
        let subtree = hasher_of(nth, &[&before, within].concat()).finalize_non_root();
        Self { before, end: *end, subtree, below: Below::Hashes(Arc::new(hashes)) }
    }

    /// The node above others.
    fn above(nodes: [Self; BRANCHES]) -> Self {
        let [first, .., last] = &nodes;
        let (before, end) = (first.before, last.end);
        let subtrees = joined(nodes.iter().map(|node| node.subtree).collect(), 1);
        let subtree = subtrees.first().copied().unwrap_or_default();
        Self { before, end, subtree, below: Below::Nodes(Arc::new(nodes)) }
    }
}

/// How many hashes a node of a level has.
fn width(level: usize) -> usize {
    (0..level).fold(LEAF, |width, _| width.saturating_mul(BRANCHES))
}

/// Joins neighbours, level by level, until there are `most` of them. One that has no other beside it belongs to the next level.
fn joined(mut subtrees: Vec<ChainingValue>, most: usize) -> Vec<ChainingValue> {
    let join = |pair: &[ChainingValue]| match pair {
        [left, right] => merge_subtrees_non_root(left, right, Mode::Hash),
        alone => alone.first().copied().unwrap_or_default(),
    };
    while subtrees.len() > most {
        subtrees = subtrees.chunks(2).map(join).collect();
    }
    subtrees
}

/// What has hashed the chunk with this number of the fingerprint's input.
fn hasher_of(nth: usize, input: &[u8]) -> Hasher {
    let mut hasher = Hasher::new();
    let chunk = u64::try_from(LEAF).unwrap_or(u64::MAX) * len_of(&PageHash::default());
    hasher.set_input_offset(u64::try_from(nth).unwrap_or(u64::MAX).saturating_mul(chunk));
    hasher.update(input);
    hasher
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

    fn hashes_of(all: &[PageHash]) -> Hashes {
        let mut hashes = Hashes::new(1, size(), u32::try_from(all.len()).unwrap()).unwrap();
        all.iter().for_each(|hash| hashes.push(*hash));
        hashes
    }

    #[test]
    fn the_fingerprint_is_that_of_all_hashes_one_after_another() {
        for leaves in (0..=35).chain([255, 256, 257, 511, 512, 600]) {
            for more in [0, 1, 31] {
                let all: Vec<PageHash> = (0..leaves * LEAF + more).map(|nth| hash(nth, 0)).collect();
                assert_eq!(hashes_of(&all).fingerprint(), expected(&all), "{} pages", all.len());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Versions of other lengths, of which each takes some runs of the one before and has other pages between them.
        #[test]
        fn what_is_shared_is_what_it_would_be_alone(
            versions in prop::collection::vec((0..20_000_usize, prop::collection::vec((0..20_000_usize, 1..9000_usize), 0..6)), 1..5),
        ) {
            let (mut before, mut model) = (hashes_of(&[]), Vec::new());
            for (round, (count, runs)) in (1..).zip(versions) {
                let mut hashes = Hashes::new(1, size(), u32::try_from(count).unwrap()).unwrap();
                let mut all: Vec<PageHash> = Vec::new();
                for nth in 0..count {
                    if let Some((_, len)) = runs.iter().find(|(start, _)| *start == nth) {
                        let end = (nth + len).min(count);
                        let is_there = end <= model.len();
                        if hashes.len() == nth {
                            prop_assert_eq!(hashes.extend_from(&before, end), is_there);
                            all.extend(model.get(nth..end).unwrap_or_default());
                        }
                    }
                    if all.len() == nth {
                        hashes.push(hash(nth, round));
                        all.push(hash(nth, round));
                    }
                }
                prop_assert_eq!(hashes.len(), all.len());
                prop_assert!((0..=count).all(|nth| hashes.get(nth) == all.get(nth)));
                prop_assert_eq!(hashes.fingerprint(), expected(&all));
                (before, model) = (hashes, all);
            }
        }
    }
}
