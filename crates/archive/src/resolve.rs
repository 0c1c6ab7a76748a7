//! Finds every page of a version: in the newest layer at or below it that holds the page.
//!
//! Only indexes are read. What is found is compared with the version's recorded fingerprint, so a layer that
//! is missing, foreign or of another history can never pass as part of this version.

use std::sync::Arc;

use crate::archive::Inner;
use crate::chain::{Layers, below, lock};
use crate::disk::Folder;
use crate::error::Error;
use crate::fingerprint::Fingerprinter;
use crate::footer::ENTRY_MIN_BYTES;
use crate::index::Entry;
use crate::meta::Meta;
use crate::pack::Pack;

/// Where one page is stored, and what it must hash to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) hash: u128,
    pub(crate) offset: u64,
    /// The frame's length; zero while the page has not been found.
    pub(crate) len: u32,
    /// Which of the map's packs holds it.
    pub(crate) pack: u32,
}

/// A version's pages, all found.
#[derive(Debug)]
pub(crate) struct PageMap {
    pub(crate) meta: Meta,
    pub(crate) packs: Vec<Arc<Pack>>,
    /// One slot a page, in order.
    pub(crate) slots: Vec<Slot>,
}

impl PageMap {
    /// The file that holds a slot.
    pub(crate) fn pack(&self, slot: &Slot) -> Option<&Arc<Pack>> {
        self.packs.get(usize::try_from(slot.pack).ok()?)
    }
}

impl Inner {
    /// Resolves a live version. Where files vanish because versions are given up or merged meanwhile, looks
    /// again at the chain as it is then.
    pub(crate) fn resolve(&self, number: u64) -> Result<PageMap, Error> {
        loop {
            let (layers, generation) = {
                let chain = lock(&self.chain);
                (chain.layers(), chain.generation)
            };
            if !layers.get(&number).is_some_and(|layer| layer.live) {
                return Err(self.no_such_version(number));
            }
            match resolve(&self.folder, &layers, number) {
                Err(_) if lock(&self.chain).generation != generation => {}
                result => return result,
            }
        }
    }
}

fn resolve(folder: &Folder, layers: &Layers, number: u64) -> Result<PageMap, Error> {
    let mut next = layers.get(&number);
    let mut search: Option<Search> = None;
    while let Some(layer) = next {
        let pack = layer.open(folder)?;
        let parent = pack.meta().parent;
        let search = match &mut search {
            Some(search) => search,
            none => none.insert(Search::new(layers, &pack)?),
        };
        search.look_into(pack)?;
        next = parent.filter(|_| search.missing > 0).and_then(|parent| below(layers, parent));
    }
    match search {
        Some(search) => search.finish(folder, number),
        None => Err(Error::NoSuchVersion { number, folder: folder.path().to_owned() }),
    }
}

/// A walk down the chain that has not found every page yet.
struct Search {
    map: PageMap,
    missing: usize,
}

impl Search {
    /// Begins at the version's own layer.
    fn new(layers: &Layers, pack: &Pack) -> Result<Self, Error> {
        let meta = pack.meta().clone();
        // A page count that the layers cannot hold must not be believed, let alone allocated for.
        let stored: u64 = layers.range(..=meta.number).map(|(_, layer)| layer.bytes).sum();
        if u64::from(meta.page_count) > stored / ENTRY_MIN_BYTES {
            let what = format!("it has {} pages, more than all layers up to it can hold", meta.page_count);
            return Err(Error::damaged(pack.path(), what));
        }
        let missing = usize::try_from(meta.page_count).unwrap_or(usize::MAX);
        let mut slots = Vec::new();
        slots.try_reserve_exact(missing).map_err(|_| {
            Error::io("hold the page map of", pack.path(), std::io::ErrorKind::OutOfMemory.into())
        })?;
        slots.resize(missing, Slot::default());
        Ok(Self { map: PageMap { meta, packs: Vec::new(), slots }, missing })
    }

    /// Takes from a layer the pages that no newer one had.
    fn look_into(&mut self, pack: Arc<Pack>) -> Result<(), Error> {
        if pack.meta().page_size != self.map.meta.page_size {
            return Err(Error::damaged(
                pack.path(),
                "its pages have another size than those of the layer above",
            ));
        }
        let nth = u32::try_from(self.map.packs.len()).unwrap_or(u32::MAX);
        let missing_before = self.missing;
        pack.index()?.each(|Entry { page, len, offset, hash }| {
            if let Some(slot) = slot_mut(&mut self.map.slots, page).filter(|slot| slot.len == 0) {
                *slot = Slot { hash, offset, len, pack: nth };
                self.missing -= 1;
            }
        })?;
        if self.missing < missing_before {
            self.map.packs.push(pack);
        }
        Ok(())
    }

    fn finish(self, folder: &Folder, number: u64) -> Result<PageMap, Error> {
        let map = self.map;
        let path = || folder.path().join(crate::naming::FileName::Live(number).text());
        if self.missing > 0 {
            let first = map.slots.iter().take_while(|slot| slot.len > 0).count() + 1;
            let what = format!(
                "{} pages of version {number} are in no layer, the first is page {first}",
                self.missing
            );
            return Err(Error::damaged(&path(), what));
        }
        let hashes = map.slots.iter().map(|slot| slot.hash);
        let found = Fingerprinter::of_hashes(map.meta.page_size, map.meta.page_count, hashes);
        if found != map.meta.fingerprint {
            let what = format!(
                "version {number} was written with fingerprint {}, and the layers give {found}: one is missing or foreign",
                map.meta.fingerprint
            );
            return Err(Error::damaged(&path(), what));
        }
        Ok(map)
    }
}

/// The element of a page, whose numbers begin at 1.
pub(crate) fn slot_mut<T>(pages: &mut [T], page: u32) -> Option<&mut T> {
    pages.get_mut(usize::try_from(page.checked_sub(1)?).ok()?)
}
