//! Page hashes and the fingerprint made of them.
//!
//! One definition serves everybody who compares contents: the archive, the cut, the restore. The fingerprint
//! is made from page hashes rather than from the bytes, so that it can be computed from an index alone.

use asat_core::{Fingerprint, PageSize};
use twox_hash::xxhash3_128::Hasher;

/// The XXH3-128 of one raw page.
#[must_use]
pub fn page_hash(page: &[u8]) -> u128 {
    Hasher::oneshot(page)
}

/// Computes a [`Fingerprint`] page by page: XXH3-128 over the page size and the page count, each as four
/// bytes, then the hash of every page as sixteen; all little endian.
pub struct Fingerprinter {
    state: Hasher,
}

impl Fingerprinter {
    /// Begins the fingerprint of a content with this page size and page count.
    #[must_use]
    pub fn new(page_size: PageSize, page_count: u32) -> Self {
        let mut state = Hasher::new();
        state.write(&page_size.bytes().to_le_bytes());
        state.write(&page_count.to_le_bytes());
        Self { state }
    }

    /// Takes the next page and answers its hash.
    pub fn page(&mut self, page: &[u8]) -> u128 {
        let hash = page_hash(page);
        self.hash(hash);
        hash
    }

    /// Takes the hash of the next page.
    pub fn hash(&mut self, page_hash: u128) {
        self.state.write(&page_hash.to_le_bytes());
    }

    /// The fingerprint, once every page was taken.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        Fingerprint(self.state.finish_128())
    }

    /// The fingerprint of a content whose page hashes are at hand.
    pub fn of_hashes(
        page_size: PageSize,
        page_count: u32,
        hashes: impl Iterator<Item = u128>,
    ) -> Fingerprint {
        let mut fingerprinter = Self::new(page_size, page_count);
        hashes.for_each(|hash| fingerprinter.hash(hash));
        fingerprinter.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_stands() {
        let size = PageSize::new(512).unwrap();
        let pages = [[1_u8; 512], [2_u8; 512]];
        let mut bytes = Vec::new();
        bytes.extend(512_u32.to_le_bytes());
        bytes.extend(2_u32.to_le_bytes());
        let mut fingerprinter = Fingerprinter::new(size, 2);
        for page in &pages {
            bytes.extend(Hasher::oneshot(page).to_le_bytes());
            fingerprinter.page(page);
        }
        assert_eq!(fingerprinter.finish(), Fingerprint(Hasher::oneshot(&bytes)));
        let hashes = pages.iter().map(|page| page_hash(page));
        assert_eq!(Fingerprinter::of_hashes(size, 2, hashes), fingerprinter.finish());
        // The test vector of the XXH3 specification's empty input pins the algorithm itself.
        assert_eq!(page_hash(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
    }
}
