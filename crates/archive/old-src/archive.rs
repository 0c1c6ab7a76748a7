//! The archive itself: opening it, and what it holds.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use asat_core::{StoreName, boundary};

use crate::chain::{Chain, Layer, Layers, head, lock};
use crate::correct::InVain;
use crate::disk::Folder;
use crate::error::Error;
use crate::meta::Meta;
use crate::naming::FileName;
use crate::reader::Reader;
use crate::relied::Relied;

/// One store's archive. Cloning gives another handle on the same one.
///
/// One version may be written, one version given up or run folded, and any number read, all at the same
/// time; reads wait for nobody.
#[derive(Clone, Debug)]
pub struct Archive {
    pub(crate) inner: Arc<Inner>,
}

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) folder: Arc<Folder>,
    pub(crate) chain: Mutex<Chain>,
    /// Held while a version is given up, or a folded layer put in place.
    pub(crate) upkeep: Mutex<()>,
    /// Held during a compaction, which may take its time: giving up a version must not wait for it.
    pub(crate) compaction: Mutex<()>,
    /// Tells that no version is being written any more.
    pub(crate) written: Condvar,
    /// What is known of the newest version, while somebody may want to write the next one.
    pub(crate) head: Mutex<Option<Relied>>,
    /// Held while that is read.
    pub(crate) reading: Mutex<()>,
    /// The versions whose packs are not there, and may come back.
    pub(crate) missing: Mutex<BTreeSet<u64>>,
    /// What was found damaged by more than one flipped bit.
    pub(crate) in_vain: InVain,
}

/// What opening an archive found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Files removed: half-written ones, and layers that nothing needs since a crash.
    pub removed: Vec<String>,
    /// The bytes that this gave back.
    pub freed_bytes: u64,
    /// Files that are not the archive's. They are left alone.
    pub foreign: Vec<String>,
}

impl Archive {
    /// Opens the archive in `folder`, making the folder where it is missing, and finishes what a crash
    /// interrupted. Reads names and lengths only, so a damaged file is found when it is used.
    pub fn open(folder: &Path) -> Result<(Self, Opened), Error> {
        let folder = Folder::open(folder)?;
        let (layers, opened) = take_stock(&folder)?;
        let (folder, chain) = (Arc::new(folder), Mutex::new(Chain::new(layers)));
        let inner = Inner {
            folder,
            chain,
            upkeep: Mutex::default(),
            compaction: Mutex::default(),
            written: Condvar::new(),
            head: Mutex::default(),
            reading: Mutex::default(),
            missing: Mutex::default(),
            in_vain: InVain::default(),
        };
        Ok((Self { inner: Arc::new(inner) }, opened))
    }

    /// Tells which versions should be there and are not. Their packs may come back, so nothing is removed that they may need until
    /// each of them is given up.
    pub fn expect(&self, missing: impl IntoIterator<Item = u64>) {
        *lock(&self.inner.missing) = missing.into_iter().collect();
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    /// The live versions, oldest first.
    #[must_use]
    pub fn live(&self) -> Vec<u64> {
        self.inner.layers().values().filter(|layer| layer.live).map(|layer| layer.number).collect()
    }

    /// The highest number of a live version.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        head(&self.inner.layers()).map(|layer| layer.number)
    }

    /// Whether nothing is stored of versions from this number on.
    #[must_use]
    pub fn ends_below(&self, number: u64) -> bool {
        self.inner.layers().range(number..).next().is_none()
    }

    /// Whether a version can be read.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.inner.layers().get(&number).is_some_and(|layer| layer.live)
    }

    /// What a live version's layer says about it. Whether its pages can be had, [`Self::read`] finds out.
    pub fn describe(&self, number: u64) -> Result<Meta, Error> {
        let layers = self.inner.layers();
        let layer = layers.get(&number).filter(|layer| layer.live);
        let pack = layer.ok_or_else(|| self.inner.no_such_version(number))?.open(&self.inner.folder);
        let pack = match pack {
            // Given up since the look at the chain.
            Err(_) if !self.contains(number) => return Err(self.inner.no_such_version(number)),
            pack => pack?,
        };
        Ok(pack.meta().clone())
    }

    /// What all layers take on disk, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.layers().values().map(|layer| layer.bytes).sum()
    }

    /// What a live version's own layer takes on disk; older layers may hold pages of it too.
    #[must_use]
    pub fn stored_bytes(&self, number: u64) -> Option<u64> {
        self.inner.layers().get(&number).filter(|layer| layer.live).map(|layer| layer.bytes)
    }

    /// Opens a version for reading. What is given up or folded later does not disturb the reader.
    pub fn read(&self, number: u64) -> Result<Reader, Error> {
        Ok(Reader::new(self.inner.resolve(number)?))
    }
}

impl Inner {
    /// The layers as they are now.
    pub(crate) fn layers(&self) -> Arc<Layers> {
        boundary::step("archive: look at the chain");
        lock(&self.chain).layers()
    }

    /// Whether no pack is missed, so that nobody needs but what is there.
    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.missing).is_empty()
    }

    pub(crate) fn no_such_version(&self, number: u64) -> Error {
        Error::NoSuchVersion { number, folder: self.folder.path().to_owned() }
    }
}

/// The stores that have an archive of their name in `folder`.
pub fn stores_in(folder: &Path) -> Result<Vec<StoreName>, Error> {
    let at = |source| Error::io("list", folder, source);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at)?;
        if entry.file_type().map_err(at)?.is_dir() {
            names.extend(entry.file_name().to_str().and_then(|name| name.parse::<StoreName>().ok()));
        }
    }
    Ok(names)
}

/// Sorts the folder's files and removes what a crash left.
fn take_stock(folder: &Folder) -> Result<(Layers, Opened), Error> {
    let (mut layers, mut opened, mut litter) = (Layers::new(), Opened::default(), Vec::new());
    let mut found = Vec::new();
    for listed in folder.list()? {
        let name = listed.name.to_str().and_then(FileName::parse);
        match (name, listed.bytes) {
            (Some(FileName::Live { from, number }), Some(bytes)) => {
                found.push(Layer::new(from, number, true, bytes));
            }
            (Some(FileName::Retired { from, number }), Some(bytes)) => {
                found.push(Layer::new(from, number, false, bytes));
            }
            (Some(name @ FileName::Temporary(_)), Some(bytes)) => litter.push((name, bytes)),
            _ => opened.foreign.push(listed.name.to_string_lossy().into_owned()),
        }
    }
    // Widest first: a retired layer inside the range of another, or the same version's inside a wider one, was folded
    // into it.
    found.sort_by_key(|layer| (layer.from, std::cmp::Reverse(layer.number), !layer.live));
    let mut folded_up_to = 0;
    for layer in found {
        let inside = layer.number <= folded_up_to;
        folded_up_to = folded_up_to.max(layer.number);
        match layers.entry(layer.number) {
            Entry::Occupied(same) if same.get().from < layer.from => litter.push((layer.name(), layer.bytes)),
            Entry::Vacant(_) if !layer.live && inside => litter.push((layer.name(), layer.bytes)),
            Entry::Vacant(place) if !inside => _ = place.insert(layer),
            // A copy under the other name, or a version inside the range of another, such as a restored backup: which
            // to remove is not for asat to say.
            _ => opened.foreign.push(layer.name().text()),
        }
    }
    for (name, bytes) in litter {
        folder.unlink(&name.text())?;
        opened.freed_bytes += bytes;
        opened.removed.push(name.text());
    }
    if !opened.removed.is_empty() {
        folder.sync_folder()?;
    }
    opened.foreign.sort();
    Ok((layers, opened))
}
