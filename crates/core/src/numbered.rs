//! Records by their numbers.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// Records by their numbers, of which nearly every new one has the highest. Nodes of a tree that grows at its end stay half empty, so
/// the records, which are large, stand beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered<T>(BTreeMap<u64, Box<T>>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Numbered<T> {
    /// The record with a number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&T> {
        self.0.get(&number).map(|record| &**record)
    }

    /// All records, by their numbers.
    #[must_use]
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.0.values().map(|record| &**record)
    }

    /// The records with these numbers.
    pub fn range(&self, numbers: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = &T> {
        self.0.range(numbers).map(|(_, record)| &**record)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number after the highest; they begin at 1.
    #[must_use]
    pub(crate) fn next_number(&self) -> u64 {
        self.0.last_key_value().map_or(1, |(number, _)| number + 1)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.0.get_mut(&number).map(|record| &mut **record)
    }

    pub(crate) fn insert(&mut self, number: u64, record: T) {
        self.0.insert(number, Box::new(record));
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Box<T>> {
        self.0.remove(&number)
    }
}
