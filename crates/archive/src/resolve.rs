//! Finds every page of a version in the layers of its chain.
//!
//! Only indexes are read. What is found is compared with the version's recorded fingerprint, so a layer that
//! is missing, foreign or of another history can never pass as part of this version.

use std::sync::Arc;

use crate::archive::Inner;
use crate::chain::{Layer, Layers, below, lock, most_pages};
use crate::disk::Folder;
use crate::error::Error;
use crate::fingerprint::Fingerprinter;
use crate::meta::Meta;
use crate::pack::Pack;
use crate::pages::PageMap;

/// So many layers are expected at once while they are opened one after another: a disk finds them side by side.
const EXPECTED: usize = 64;

/// A version's pages, all found.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) meta: Meta,
    pub(crate) map: PageMap,
}

impl Inner {
    /// Resolves a live version. Where files vanish because versions are given up or folded meanwhile, looks
    /// again at the chain as it is then.
    pub(crate) fn resolve(&self, number: u64) -> Result<Resolved, Error> {
        loop {
            let (layers, generation) = {
                let chain = lock(&self.chain);
                (chain.layers(), chain.generation)
            };
            let Some(layer) = layers.get(&number).filter(|layer| layer.live) else {
                return Err(self.no_such_version(number));
            };
            match resolve(&self.folder, &layers, layer) {
                Err(_) if lock(&self.chain).generation != generation => {}
                result => return result,
            }
        }
    }
}

fn resolve(folder: &Folder, layers: &Layers, layer: &Layer) -> Result<Resolved, Error> {
    let chain = chain_of(folder, layers, layer)?;
    let Some(newest) = chain.first() else {
        return Err(Error::NoSuchVersion { number: layer.number, folder: folder.path().to_owned() });
    };
    let meta = newest.meta().clone();
    // A page count that the layers cannot hold must not be believed, let alone allocated for.
    let page_count = usize::try_from(meta.page_count).unwrap_or(usize::MAX);
    if page_count > most_pages(layers.range(..=meta.number).map(|(_, layer)| layer)) {
        let what = format!("it has {page_count} pages, more than all layers up to it can hold");
        return Err(Error::damaged(newest.path(), what));
    }
    chain.iter().for_each(|pack| pack.expect_index());
    let map = PageMap::find(newest, &chain, page_count)?;
    check(newest, &map)?;
    Ok(Resolved { meta, map })
}

/// The layers of which something may be seen in a layer's version, newest first, from its own on: those that each of them
/// continues, and those that one refers to, even where one between continues none.
pub(crate) fn chain_of(folder: &Folder, layers: &Layers, layer: &Layer) -> Result<Vec<Arc<Pack>>, Error> {
    let mut refers_to = u64::MAX;
    layers_down(folder, layers, layer, |meta| {
        refers_to = refers_to.min(meta.refers_to.unwrap_or(u64::MAX));
        meta.parent.or(below_all(meta).filter(|_| refers_to < meta.covers_from))
    })
}

/// The layers that have pages of one size from a layer on down, newest first.
pub(crate) fn history_of(folder: &Folder, layers: &Layers, layer: &Layer) -> Result<Vec<Arc<Pack>>, Error> {
    layers_down(folder, layers, layer, below_all)
}

/// The highest number of what lies below a layer.
fn below_all(meta: &Meta) -> Option<u64> {
    meta.covers_from.checked_sub(1)
}

/// The layers from one on down, each as the one before says.
fn layers_down(
    folder: &Folder,
    layers: &Layers,
    layer: &Layer,
    mut go_on: impl FnMut(&Meta) -> Option<u64>,
) -> Result<Vec<Arc<Pack>>, Error> {
    let mut chain: Vec<Arc<Pack>> = Vec::new();
    let mut next = Some(layer);
    while let Some(layer) = next {
        if chain.len().is_multiple_of(EXPECTED) {
            let coming = layers.range(..=layer.number).rev().take(EXPECTED);
            coming.for_each(|(_, layer)| layer.expect(folder));
        }
        let pack = layer.open(folder)?;
        // The layer with which the store began again may be gone, when every page was another since.
        if chain.first().is_some_and(|newest| newest.meta().page_size != pack.meta().page_size) {
            break;
        }
        next = go_on(pack.meta()).and_then(|number| below(layers, number));
        chain.push(pack);
    }
    Ok(chain)
}

/// Whether these are the pages that the version was written with.
fn check(pack: &Pack, map: &PageMap) -> Result<(), Error> {
    let meta = pack.meta();
    let mut missing = map.missing();
    if let Some(first) = missing.next() {
        let what = format!(
            "{} pages of version {} are in no layer, the first is page {}",
            missing.count() + 1,
            meta.number,
            first + 1
        );
        return Err(Error::damaged(pack.path(), what));
    }
    let found = Fingerprinter::of_hashes(meta.page_size, meta.page_count, map.hashes());
    if found == meta.fingerprint {
        return Ok(());
    }
    let what = format!(
        "version {} was written with fingerprint {}, and the layers give {found}: one is missing or foreign",
        meta.number, meta.fingerprint
    );
    Err(Error::damaged(pack.path(), what))
}
