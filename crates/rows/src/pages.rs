//! Where pages come from, and sets of them.

use std::error::Error;

use asat_core::PageSize;

use crate::bytes::index;

/// What a source of pages says when it cannot give one.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// The pages of one version of a store. What it says of itself is believed, what is in its pages is not.
pub trait Pages {
    /// How long each page is.
    fn page_size(&self) -> PageSize;

    /// How many pages there are.
    fn page_count(&self) -> u32;

    /// Reads a page, numbered from 1, into a buffer of the page size.
    ///
    /// # Errors
    /// Where the page cannot be had.
    fn read(&self, number: u32, page: &mut [u8]) -> Result<(), SourceError>;

    /// Hears which pages are read soon, in this order, so that a disk can be asked for them at once.
    fn expect(&self, _numbers: &[u32]) {}
}

/// A set of page numbers: one bit for each page that the file has.
#[derive(Clone, Debug)]
pub(crate) struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// An empty set for pages up to this one.
    pub(crate) fn new(page_count: u32) -> Self {
        Self { words: vec![0; index(page_count) / 64 + 1] }
    }

    /// Whether it was made for no pages.
    pub(crate) fn is_for_none(&self) -> bool {
        self.words.len() <= 1
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.words.get(index(number) / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts a page in; answers whether it was not in before. A page that the file does not have stays out.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let Some(word) = self.words.get_mut(index(number) / 64) else { return false };
        let before = *word;
        *word |= 1 << (number % 64);
        before != *word
    }

    /// Takes a page out; answers whether it was in.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let Some(word) = self.words.get_mut(index(number) / 64) else { return false };
        let before = *word;
        *word &= !(1 << (number % 64));
        before != *word
    }

    pub(crate) fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0_u32..).step_by(64).zip(&self.words).flat_map(|(first, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(first + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set = PageSet::new(200);
        let numbers = [1, 63, 64, 127, 128, 200];
        assert!(numbers.iter().all(|&number| set.insert(number) && !set.insert(number)));
        assert_eq!(set.iter().collect::<Vec<_>>(), numbers);
        assert!(!set.insert(1000) && !set.contains(1000) && !set.contains(2));
        assert!(set.remove(64) && !set.remove(64) && !set.is_empty());
        assert_eq!(set.len(), 5);
    }
}
