//! The chain of layers as it stands in memory: names only, no contents.
//!
//! A reader takes the map as it is and keeps it; a change makes a new one. So nobody waits for anybody, and a
//! reader that finds a file gone looks whether the chain has moved on meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use asat_core::boundary;

use crate::disk::Folder;
use crate::error::Error;
use crate::footer::ENTRY_MIN_BYTES;
use crate::naming::FileName;
use crate::pack::Pack;

/// One layer of the chain.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The lowest version number that it stands for.
    pub(crate) from: u64,
    /// The highest, by which it is ordered.
    pub(crate) number: u64,
    /// Whether its version lives.
    pub(crate) live: bool,
    /// The file's length.
    pub(crate) bytes: u64,
    /// The open file, shared by everybody who reads through it at the same time. Each file has another.
    open: Arc<Mutex<Weak<Pack>>>,
}

impl Layer {
    pub(crate) fn new(from: u64, number: u64, live: bool, bytes: u64) -> Self {
        Self { from, number, live, bytes, open: Arc::default() }
    }

    /// The same layer, its version given up.
    pub(crate) fn retired(&self) -> Self {
        Self { live: false, ..self.clone() }
    }

    /// Whether these are the same file, whatever has become of its version.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.open, &other.open)
    }

    /// The name of its file.
    pub(crate) fn name(&self) -> FileName {
        match self.live {
            true => FileName::Live { from: self.from, number: self.number },
            false => FileName::Retired { from: self.from, number: self.number },
        }
    }

    /// Has the system begin to read what opening it will ask for. It is advice: where it is not taken, nothing else changes.
    pub(crate) fn expect(&self, folder: &Folder) {
        if lock(&self.open).strong_count() == 0
            && let Ok(file) = folder.read(&self.name().text())
        {
            Pack::expect_ends(&file, self.bytes);
        }
    }

    /// Opens its file, or joins those who have it open.
    pub(crate) fn open(&self, folder: &Folder) -> Result<Arc<Pack>, Error> {
        boundary::step("archive: open a layer");
        let mut open = lock(&self.open);
        if let Some(pack) = open.upgrade() {
            return Ok(pack);
        }
        let opened = match self.live {
            true => Pack::open(folder, self.from, self.number),
            false => Pack::open_retired(folder, self.from, self.number),
        };
        let pack = Arc::new(opened?);
        *open = Arc::downgrade(&pack);
        Ok(pack)
    }
}

/// The layers by their number.
pub(crate) type Layers = BTreeMap<u64, Layer>;

/// The layer to look in for what a layer with this parent does not hold. The parent itself may have
/// been folded or given up since; what it showed then is in the next layer below.
pub(crate) fn below(layers: &Layers, parent: u64) -> Option<&Layer> {
    layers.range(..=parent).next_back().map(|(_, layer)| layer)
}

/// More pages than this cannot be held by layers of these lengths, whatever they say of themselves: each takes an
/// entry of an index.
pub(crate) fn most_pages<'a>(layers: impl Iterator<Item = &'a Layer>) -> usize {
    let bytes: u64 = layers.map(|layer| layer.bytes).sum();
    usize::try_from(bytes / ENTRY_MIN_BYTES).unwrap_or(usize::MAX)
}

/// What is known of the chain.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    layers: Arc<Layers>,
    /// Grows with every change.
    pub(crate) generation: u64,
    /// The live versions below which nothing is worth compacting, as far as looked.
    pub(crate) settled: BTreeSet<u64>,
    /// While a version is being written: the layers as they were when it was begun, which it may refer to.
    pub(crate) writing: Option<Arc<Layers>>,
}

impl Chain {
    pub(crate) fn new(layers: Layers) -> Self {
        Self { layers: Arc::new(layers), ..Self::default() }
    }

    /// The layers as they are now.
    pub(crate) fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.layers)
    }

    /// Adds or replaces a layer.
    pub(crate) fn put(&mut self, layer: Layer) {
        self.generation += 1;
        Arc::make_mut(&mut self.layers).insert(layer.number, layer);
    }

    /// Takes a layer out.
    pub(crate) fn take(&mut self, number: u64) {
        self.generation += 1;
        self.settled.remove(&number);
        Arc::make_mut(&mut self.layers).remove(&number);
    }
}

/// The newest live version.
pub(crate) fn head(layers: &Layers) -> Option<&Layer> {
    layers.values().rev().find(|layer| layer.live)
}

/// The live version next above `number`.
pub(crate) fn live_above(layers: &Layers, number: u64) -> Option<u64> {
    let above = layers.range((Bound::Excluded(number), Bound::Unbounded)).find(|(_, layer)| layer.live);
    above.map(|(&number, _)| number)
}

/// The retired layers directly below `number`, newest first, down to the next live version.
pub(crate) fn run_below(layers: &Layers, number: u64) -> Vec<Layer> {
    layers.range(..number).rev().map(|(_, layer)| layer.clone()).take_while(|layer| !layer.live).collect()
}

/// Locks what no panic can leave half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => wait_for(mutex),
    }
}

#[cold]
fn wait_for<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    while boundary::blocked("archive: lock") {
        if let Ok(guard) = mutex.try_lock() {
            boundary::step("archive: locked");
            return guard;
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
