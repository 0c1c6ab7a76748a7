//! Page hashes and the fingerprint made of them.
//!
//! One definition serves everybody who compares contents: the archive, the cut, the restore. The fingerprint
//! is made from page hashes rather than from the bytes, so that it can be computed from an index alone.
//!
//! Whoever can write a row chooses what pages hold, so the hash must be one for which nobody finds two contents.

use asat_core::{Fingerprint, PageSize};
use blake3::IncrementCounter;
use blake3::platform::Platform;

/// The BLAKE3 of one raw page.
pub type PageHash = [u8; 32];

/// So many pages are hashed side by side where a page is too short to fill the processor's vectors by itself.
pub(crate) const SIDE_BY_SIDE: usize = 16;
/// Fewer are faster one by one: each has several chunks of its own.
const LEAST_SIDE_BY_SIDE: usize = 4;

/// BLAKE3 of bytes that are at hand.
pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}

/// Whether bytes match the checksum that a file has of them. All do where parsers are fed with anything: it is the one thing that
/// no change of a few bytes gets behind.
pub(crate) fn matches(bytes: &[u8], checksum: &[u8; 32]) -> bool {
    cfg!(fuzzing) || hash(bytes) == *checksum
}

/// The BLAKE3 of one raw page.
#[must_use]
pub fn page_hash(page: &[u8]) -> PageHash {
    hash(page)
}

/// Appends the hash of each of these pages, which lie one after another. The more there are, the less each takes.
pub(crate) fn hash_pages(pages: &[u8], page_len: usize, hashes: &mut Vec<PageHash>) {
    for group in pages.chunks(SIDE_BY_SIDE * page_len) {
        match page_len {
            1024 | 2048 | 4096 | 8192 if group.len() >= LEAST_SIDE_BY_SIDE * page_len => {
                hash_side_by_side(group, page_len, hashes);
            }
            _ => hashes.extend(group.chunks(page_len).map(page_hash)),
        }
    }
}

/// BLAKE3's first chaining value, and its flags (section 2.2 of its specification).
const FIRST: [u32; 8] =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 2;
const PARENT: u8 = 4;
const ROOT: u8 = 8;

/// BLAKE3 cuts each page into chunks of 1 KiB and makes a binary tree of them. One page of 4 KiB has too few for the vectors of the
/// processor, so the same chunk of all pages is done at once, and then the same node of all trees: three times as fast.
fn hash_side_by_side(pages: &[u8], page_len: usize, hashes: &mut Vec<PageHash>) {
    let platform = Platform::detect();
    let chunks = pages.as_chunks::<1024>().0;
    let per_page = page_len / 1024;
    let count = chunks.len() / per_page;
    // Node by node, of each that of every page.
    let mut nodes = vec![0; chunks.len() * 32];
    for (nth, nodes) in (0_u64..).zip(nodes.chunks_mut(count * 32)) {
        let first = usize::try_from(nth).unwrap_or(usize::MAX);
        let same: Vec<&[u8; 1024]> = chunks.iter().skip(first).step_by(per_page).collect();
        let end = if per_page == 1 { CHUNK_END | ROOT } else { CHUNK_END };
        platform.hash_many(&same, &FIRST, nth, IncrementCounter::No, 0, CHUNK_START, end, nodes);
    }
    while nodes.len() > count * 32 {
        let mut pairs = Vec::with_capacity(nodes.len());
        for both in nodes.chunks(2 * count * 32) {
            let (left, right) = both.split_at(count * 32);
            for (left, right) in left.as_chunks::<32>().0.iter().zip(right.as_chunks::<32>().0) {
                pairs.extend_from_slice(left);
                pairs.extend_from_slice(right);
            }
        }
        let blocks: Vec<&[u8; 64]> = pairs.as_chunks::<64>().0.iter().collect();
        let mut parents = vec![0; blocks.len() * 32];
        let flags = if blocks.len() == count { PARENT | ROOT } else { PARENT };
        platform.hash_many(&blocks, &FIRST, 0, IncrementCounter::No, flags, 0, 0, &mut parents);
        nodes = parents;
    }
    hashes.extend(nodes.as_chunks::<32>().0);
}

/// The length of what a fingerprint begins with.
pub(crate) const HEADER: usize = 8;

/// What a fingerprint begins with: the page size and the page count, each as four bytes, little endian.
pub(crate) fn header(page_size: PageSize, page_count: u32) -> [u8; HEADER] {
    let ([a, b, c, d], [e, f, g, h]) = (page_size.bytes().to_le_bytes(), page_count.to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

/// Computes a [`Fingerprint`] page by page: BLAKE3 over the page size and the page count, each as four bytes, little endian, then
/// the hash of every page.
pub struct Fingerprinter {
    state: blake3::Hasher,
}

impl Fingerprinter {
    /// Begins the fingerprint of a content with this page size and page count.
    #[must_use]
    pub fn new(page_size: PageSize, page_count: u32) -> Self {
        let mut state = blake3::Hasher::new();
        state.update(&header(page_size, page_count));
        Self { state }
    }

    /// Takes the next page and answers its hash.
    pub fn page(&mut self, page: &[u8]) -> PageHash {
        let hash = page_hash(page);
        self.state.update(&hash);
        hash
    }

    /// Takes the hash of the next page.
    pub(crate) fn hash(&mut self, hash: &PageHash) {
        self.state.update(hash);
    }

    /// The fingerprint, once every page was taken.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        Fingerprint(self.state.finalize().into())
    }

    /// The fingerprint of a content whose page hashes are at hand.
    #[must_use]
    pub fn of_hashes(page_size: PageSize, page_count: u32, hashes: &[PageHash]) -> Fingerprint {
        let mut fingerprinter = Self::new(page_size, page_count);
        fingerprinter.state.update(hashes.as_flattened());
        fingerprinter.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_hash_of_both_numbers_and_every_page_hash() {
        let page_size = PageSize::new(512).unwrap();
        let pages = [vec![1; 512], vec![2; 512]];
        let mut fingerprinter = Fingerprinter::new(page_size, 2);
        let mut bytes = [512_u32.to_le_bytes(), 2_u32.to_le_bytes()].concat();
        for page in &pages {
            let hash = fingerprinter.page(page);
            assert_eq!(hash, *blake3::hash(page).as_bytes());
            bytes.extend(hash);
        }
        assert_eq!(fingerprinter.finish(), Fingerprint(blake3::hash(&bytes).into()));
        let hashes = pages.map(|page| page_hash(&page));
        assert_eq!(Fingerprinter::of_hashes(page_size, 2, &hashes), fingerprinter.finish());
        // The standard's own value for no input at all.
        assert_eq!(page_hash(b"")[..8], [0xaf, 0x13, 0x49, 0xb9, 0xf5, 0xf9, 0xa1, 0xa6]);
    }

    #[test]
    fn pages_side_by_side_hash_to_what_each_hashes_to_alone() {
        for page_len in (9..=16).map(|bits| 1 << bits) {
            for count in [1, 2, 3, SIDE_BY_SIDE, SIDE_BY_SIDE + 1, 3 * SIDE_BY_SIDE - 1] {
                let bytes: Vec<u8> = (0..count * page_len)
                    .map(|nth| u32::try_from(nth).unwrap().wrapping_mul(2_654_435_761).to_be_bytes()[0])
                    .collect();
                let mut hashes = vec![[7; 32]];
                hash_pages(&bytes, page_len, &mut hashes);
                let alone = bytes.chunks(page_len).map(page_hash);
                assert!(hashes.into_iter().skip(1).eq(alone), "{count} pages of {page_len} bytes");
            }
        }
    }
}
