//! The hashes of a version's pages, which the next version shares as far as they are the same.
//!
//! The fingerprint commits to every one of them. To copy and to hash them all for each version would take longer the larger the store is; so
//! they are kept in groups. A group that has not changed is shared, with what BLAKE3's tree has for it.

use std::sync::Arc;

use asat_core::{Fingerprint, PageSize};
use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::error::Error;
use crate::fingerprint::{HEADER, PageHash, header};
use crate::layout::len_of;

/// So many hashes are a group: 8 KiB, which is a whole subtree, and enough to be hashed with all of the processor's vectors.
pub(crate) const GROUP: usize = 256;
/// The hashes of a version's pages may take this part of the machine's memory.
const MEMORY_PART: u64 = 8;

/// The hashes of the pages of a version, in order.
#[derive(Clone, Debug)]
pub(crate) struct Hashes {
    groups: Vec<Group>,
    /// Those that are no whole group yet.
    rest: Vec<PageHash>,
    /// What comes before `rest` in the input of the fingerprint, and is in no subtree yet.
    before: [u8; HEADER],
}

/// What the fingerprint has before the first hash shifts all hashes by as much. So the subtree of a group begins with the end of the group
/// before, and does not have its own end.
#[derive(Clone, Debug)]
struct Group {
    hashes: Arc<[PageHash; GROUP]>,
    before: [u8; HEADER],
    subtree: ChainingValue,
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
        let (groups, rest) = (Vec::new(), Vec::with_capacity(GROUP));
        Ok(Self { groups, rest, before: header(page_size, page_count) })
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len() * GROUP + self.rest.len()
    }

    /// The hash of a page, counted from 0.
    pub(crate) fn get(&self, nth: usize) -> Option<&PageHash> {
        match self.groups.get(nth / GROUP) {
            Some(group) => group.hashes.get(nth % GROUP),
            None => self.rest.get(nth.checked_sub(self.groups.len() * GROUP)?),
        }
    }

    /// Takes the hash of the next page.
    pub(crate) fn push(&mut self, hash: PageHash) {
        self.rest.push(hash);
        if let Ok(hashes) = <&[PageHash; GROUP]>::try_from(self.rest.as_slice()) {
            let hashes = Arc::new(*hashes);
            self.rest.clear();
            self.push_group(hashes, None);
        }
    }

    /// Takes the hashes of the next pages, up to before `end`, as they are in `other`. Answers whether that has them; if not, nothing was taken.
    pub(crate) fn extend_from(&mut self, other: &Self, end: usize) -> bool {
        if other.len() < end {
            return false;
        }
        while self.len() < end {
            let nth = self.len();
            let whole =
                other.groups.get(nth / GROUP).filter(|_| nth.is_multiple_of(GROUP) && end - nth >= GROUP);
            match (whole, other.get(nth)) {
                (Some(group), _) => self.push_group(Arc::clone(&group.hashes), Some(group)),
                (None, Some(hash)) => self.push(*hash),
                (None, None) => return false,
            }
        }
        true
    }

    /// Takes a whole group, of which the subtree is known if that of the same hashes is, and what comes before is the same.
    fn push_group(&mut self, hashes: Arc<[PageHash; GROUP]>, known: Option<&Group>) {
        let (before, bytes) = (self.before, hashes.as_flattened());
        let (within, end) = bytes.split_at(bytes.len() - HEADER);
        let subtree = match known.filter(|known| known.before == before) {
            Some(known) => known.subtree,
            None => hasher_of(self.groups.len(), &[&before, within].concat()).finalize_non_root(),
        };
        self.before.copy_from_slice(end);
        self.groups.push(Group { hashes, before, subtree });
    }

    /// The fingerprint, if all pages were taken ([`crate::Fingerprinter`]).
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let last = hasher_of(self.groups.len(), &[&self.before, self.rest.as_flattened()].concat());
        if self.groups.is_empty() {
            return Fingerprint(last.finalize().into());
        }
        let mut subtrees: Vec<ChainingValue> = self.groups.iter().map(|group| group.subtree).collect();
        subtrees.push(last.finalize_non_root());
        // Level by level. One that has no other beside it belongs to the next level.
        while subtrees.len() > 2 {
            let merge = |pair: &[ChainingValue]| match pair {
                [left, right] => merge_subtrees_non_root(left, right, Mode::Hash),
                alone => alone.first().copied().unwrap_or_default(),
            };
            subtrees = subtrees.chunks(2).map(merge).collect();
        }
        match subtrees.as_slice() {
            [left, right] => Fingerprint(merge_subtrees_root(left, right, Mode::Hash).into()),
            // There were two at least.
            _ => Fingerprint([0; 32]),
        }
    }
}

/// What has hashed the part of the fingerprint's input that is the subtree with this number. It comes in one piece: BLAKE3 hashes several
/// chunks at once only if it has them together.
fn hasher_of(nth: usize, input: &[u8]) -> Hasher {
    let mut hasher = Hasher::new();
    let group = u64::try_from(GROUP).unwrap_or(u64::MAX) * len_of(&PageHash::default());
    hasher.set_input_offset(u64::try_from(nth).unwrap_or(u64::MAX).saturating_mul(group));
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
        blake3::hash(&[&nth.to_le_bytes()[..], &[round]].concat()).into()
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
        for groups in 0..=9 {
            for more in [0, 1, 31, 32, 255] {
                let all: Vec<PageHash> = (0..groups * GROUP + more).map(|nth| hash(nth, 0)).collect();
                assert_eq!(hashes_of(&all).fingerprint(), expected(&all), "{} pages", all.len());
            }
        }
    }

    proptest! {
        /// Versions of other lengths, of which each takes some runs of the one before and has other pages between them.
        #[test]
        fn what_is_shared_is_what_it_would_be_alone(
            versions in prop::collection::vec((0..2000_usize, prop::collection::vec((0..2000_usize, 1..600_usize), 0..6)), 1..5),
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
