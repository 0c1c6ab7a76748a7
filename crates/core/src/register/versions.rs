//! The versions of a store by number, in chunks: those at rest as bytes until somebody asks, the others as they are.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::chunk::{self, Chunk, Headline, Indexed, Offsets, Outline, SPAN};
use super::history::Entry;
use crate::StoreName;
use crate::version::{Publication, Version};

/// So many versions of packed chunks that somebody has asked for may stay in memory.
const MOST_UNPACKED: usize = 4096;

/// The versions of a store, by their numbers, each with its publications.
#[derive(Clone, Debug)]
pub struct Versions {
    store: StoreName,
    chunks: BTreeMap<u64, Loaded>,
    /// How many versions of packed chunks are unpacked.
    unpacked: Count,
}

#[derive(Debug, Default)]
struct Count(AtomicUsize);

impl Clone for Count {
    fn clone(&self) -> Self {
        Self(self.0.load(Ordering::Relaxed).into())
    }
}

/// A chunk in memory.
#[derive(Clone, Debug, Default)]
struct Loaded {
    headlines: Vec<Headline>,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Its versions, as something is to be done about one of them, or they have changed lately.
    Loose(Vec<Entry>),
    /// They are at rest.
    Packed(Packed),
}

/// The versions of a chunk as bytes.
#[derive(Clone, Debug)]
struct Packed {
    bytes: Arc<[u8]>,
    places: Vec<Offsets>,
    /// Those that somebody has asked for: a place for each version, made when the first one is asked for.
    entries: OnceLock<Box<[OnceLock<Box<Entry>>]>>,
}

impl Versions {
    pub(super) fn new(store: StoreName) -> Self {
        Self { store, chunks: BTreeMap::new(), unpacked: Count::default() }
    }

    /// The version with a number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Entry> {
        let chunk = self.chunks.get(&(number / SPAN))?;
        self.entry(chunk, chunk.place_of(number).ok()?)
    }

    /// What is often asked of the version with a number.
    #[must_use]
    pub fn headline(&self, number: u64) -> Option<&Headline> {
        let chunk = self.chunks.get(&(number / SPAN))?;
        chunk.headlines.get(chunk.place_of(number).ok()?)
    }

    /// What is often asked of all versions, by their numbers: much less work than to go through the versions.
    pub fn headlines(&self) -> impl DoubleEndedIterator<Item = &Headline> + Clone {
        self.chunks.values().flat_map(|chunk| &chunk.headlines)
    }

    /// All versions, by their numbers.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Entry> + Clone {
        self.chunks.values().flat_map(move |chunk| {
            let places = 0..chunk.headlines.len();
            places.filter_map(move |place| self.entry(chunk, place))
        })
    }

    /// The versions with these numbers.
    pub fn range(&self, numbers: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = &Entry> {
        let first = match numbers.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match numbers.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let chunks = first / SPAN..=end.max(first) / SPAN;
        self.chunks.range(chunks).flat_map(move |(_, chunk)| {
            let place = |number| chunk.place_of(number).unwrap_or_else(|place| place);
            (place(first)..place(end)).filter_map(move |place| self.entry(chunk, place))
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.headlines.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number after the highest; they begin at 1.
    pub(super) fn next_number(&self) -> u64 {
        self.headlines().next_back().map_or(1, |newest| newest.number + 1)
    }

    /// Records a version's value; answers the one before.
    pub(super) fn put(&mut self, version: Version) -> Option<Version> {
        let number = version.id.number;
        self.change(number, |place, headlines, entries| match place {
            Ok(place) => {
                if let Some(headline) = headlines.get_mut(place) {
                    *headline = Headline::of(&version, headline.published_at);
                }
                entries.get_mut(place).map(|entry| std::mem::replace(&mut entry.version, version))
            }
            Err(place) => {
                headlines.insert(place, Headline::of(&version, None));
                entries.insert(place, Entry::new(version));
                None
            }
        })
    }

    /// Adds a publication to those of its version; says whether there is such a version.
    pub(super) fn publish(&mut self, publication: Publication) -> bool {
        let number = publication.version.number;
        self.headline(number).is_some()
            && self.change(number, |place, headlines, entries| {
                let Ok(place) = place else { return false };
                if let Some(headline) = headlines.get_mut(place) {
                    headline.published_at = headline.published_at.max(Some(publication.at));
                }
                entries.get_mut(place).map(|entry| entry.publish(publication)).is_some()
            })
    }

    /// Takes a version out.
    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        self.headline(number)?;
        let removed = self.change(number, |place, headlines, entries| {
            let place = place.ok()?;
            headlines.remove(place);
            Some(entries.remove(place))
        });
        if self.chunks.get(&(number / SPAN)).is_some_and(|chunk| chunk.headlines.is_empty()) {
            self.chunks.remove(&(number / SPAN));
        }
        removed
    }

    /// Puts a chunk in the place of what there is of its versions; answers what the indexes are to know of it, and nothing if its bytes
    /// are no chunk with these versions.
    pub(super) fn put_chunk(&mut self, number: u64, bytes: Arc<[u8]>) -> Option<Vec<Indexed>> {
        let Outline { headlines, places, indexed } = chunk::read_outline(&bytes)?;
        (headlines.first()?.number / SPAN == number).then_some(())?;
        let form = Form::Packed(Packed { bytes, places, entries: OnceLock::new() });
        self.chunks.insert(number, Loaded { headlines, form });
        Some(indexed)
    }

    /// The chunks that can be packed, oldest first. The newest two are not: their versions are likely to change yet.
    pub(super) fn to_be_packed(&self) -> impl Iterator<Item = Chunk> {
        let newest = self.chunks.last_key_value().map_or(0, |(number, _)| *number);
        let settled = self.chunks.iter().take_while(move |(number, _)| **number + 1 < newest);
        let loose = settled.filter(|(_, chunk)| matches!(chunk.form, Form::Loose(_)));
        loose.filter_map(|(number, chunk)| {
            Some(Chunk { store: self.store.clone(), number: *number, packed: chunk.packed()? })
        })
    }

    /// The bytes of a chunk, if it has versions and all of them are at rest.
    pub(super) fn packed(&self, number: u64) -> Option<Arc<[u8]>> {
        self.chunks.get(&number)?.packed()
    }

    /// Frees the versions of packed chunks that somebody has asked for, if these are many.
    pub(super) fn free_unpacked(&mut self) {
        if *self.unpacked.0.get_mut() <= MOST_UNPACKED {
            return;
        }
        *self.unpacked.0.get_mut() = 0;
        for chunk in self.chunks.values_mut() {
            if let Form::Packed(Packed { entries, .. }) = &mut chunk.form {
                entries.take();
            }
        }
    }

    fn entry<'a>(&self, chunk: &'a Loaded, place: usize) -> Option<&'a Entry> {
        let Packed { bytes, places, entries } = match &chunk.form {
            Form::Loose(entries) => return entries.get(place),
            Form::Packed(packed) => packed,
        };
        let entries = entries.get_or_init(|| places.iter().map(|_| OnceLock::new()).collect());
        let (known, place) = (entries.get(place)?, *places.get(place)?);
        if known.get().is_none() {
            // The bytes were made by `pack`, or have the hash of such ones, so they can be read.
            let entry = chunk::read_entry(&self.store, bytes, place)?;
            self.unpacked.0.fetch_add(1, Ordering::Relaxed);
            return Some(known.get_or_init(|| Box::new(entry)));
        }
        known.get().map(|entry| &**entry)
    }

    /// Changes what there is of a version in its chunk, which is packed no more. The change is told where the version is, or would be.
    fn change<T>(
        &mut self,
        number: u64,
        change: impl FnOnce(Result<usize, usize>, &mut Vec<Headline>, &mut Vec<Entry>) -> T,
    ) -> T {
        let Self { store, chunks, .. } = self;
        let chunk = chunks.entry(number / SPAN).or_default();
        let mut entries = match std::mem::take(&mut chunk.form) {
            Form::Loose(entries) => entries,
            Form::Packed(Packed { bytes, places, .. }) => {
                places.iter().filter_map(|place| chunk::read_entry(store, &bytes, *place)).collect()
            }
        };
        let place = chunk.place_of(number);
        let changed = change(place, &mut chunk.headlines, &mut entries);
        chunk.form = Form::Loose(entries);
        changed
    }
}

impl Loaded {
    fn packed(&self) -> Option<Arc<[u8]>> {
        match &self.form {
            Form::Packed(packed) => Some(Arc::clone(&packed.bytes)),
            Form::Loose(entries) => {
                let can_be = entries.iter().all(|entry| chunk::can_be_packed(&entry.version));
                can_be.then(|| chunk::pack(&self.headlines, entries))
            }
        }
    }

    /// Where the version with a number is, or would be.
    fn place_of(&self, number: u64) -> Result<usize, usize> {
        self.headlines.binary_search_by_key(&number, |headline| headline.number)
    }
}

impl Default for Form {
    fn default() -> Self {
        Self::Loose(Vec::new())
    }
}

impl PartialEq for Versions {
    /// Whether the versions are the same, packed or not.
    fn eq(&self, other: &Self) -> bool {
        self.store == other.store && self.len() == other.len() && self.values().eq(other.values())
    }
}

impl Eq for Versions {}
