//! Finds every page of a version in the layers of its chain.
//!
//! Only indexes are read. What is found is compared with the version's recorded fingerprint, so a layer that
//! is missing, foreign or of another history can never pass as part of this version.

use std::collections::BTreeSet;
use std::sync::Arc;

use asat_core::boundary;

use crate::archive::Inner;
use crate::chain::{Layer, Layers, below, lock, most_pages};
use crate::disk::Folder;
use crate::error::Error;
use crate::fingerprint::Fingerprinter;
use crate::frames::{Frames, Reading};
use crate::meta::Meta;
use crate::naming::FileName;
use crate::pack::Pack;
use crate::pages::PageMap;

/// So many layers are expected at once while they are opened one after another: a disk finds them side by side.
const EXPECTED: usize = 64;

/// So many numbers between two layers are looked at for a file that is missing: what a file says of them may be anything.
const MOST_MISSING: usize = 1000;

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
            boundary::step("archive: resolve");
            let (layers, generation) = {
                let chain = lock(&self.chain);
                (chain.layers(), chain.generation)
            };
            let Some(layer) = layers.get(&number).filter(|layer| layer.live) else {
                return Err(self.no_such_version(number));
            };
            let lost = lock(&self.missing).clone();
            let has_changed = || lock(&self.chain).generation != generation;
            let resolved = match resolve(&self.folder, &layers, layer, &mut |_, error| Err(error)) {
                Ok(version) if lost.is_empty() => return Ok(version),
                // What vanished meanwhile is not lost, but in another file.
                Err(error) if !error.is_loss() || has_changed() => Err(error),
                _ => self.resolve_without(lost, &layers, layer),
            };
            if !has_changed() {
                return resolved;
            }
        }
    }

    /// Resolves a version where something below it is lost: nothing of that may be needed. Whether that is so, the fingerprint tells
    /// of entries that are not seen, and the pages themselves of differences that may lie upon such an entry.
    fn resolve_without(
        &self,
        mut lost: BTreeSet<u64>,
        layers: &Layers,
        layer: &Layer,
    ) -> Result<Resolved, Error> {
        let mut first_error = None;
        let mut pass_over = |number: u64, error: Error| {
            lost.insert(number);
            first_error.get_or_insert(error);
            Ok(())
        };
        let resolved = resolve(&self.folder, layers, layer, &mut pass_over);
        let checked = resolved.and_then(|version| match needed(&version.map, &lost)? {
            None => Ok(version),
            Some(number) => Err(gone(&self.folder, number)),
        });
        // What this machine cannot read at the moment is not lost.
        checked.map_err(|error| if error.is_loss() { first_error.unwrap_or(error) } else { error })
    }
}

fn resolve(
    folder: &Folder,
    layers: &Layers,
    layer: &Layer,
    pass_over: PassOver<'_>,
) -> Result<Resolved, Error> {
    let chain = continued(folder, layers, layer, pass_over)?;
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
    let map = PageMap::find(newest, &chain, page_count, pass_over)?;
    match check(newest, &map) {
        Ok(()) => Ok(Resolved { meta, map }),
        Err(error) => Err(missing(folder, layers, &chain).unwrap_or(error)),
    }
}

/// The lost layer without which a page does not come out: those are read that it may have had an entry of between the others.
fn needed(map: &PageMap, lost: &BTreeSet<u64>) -> Result<Option<u64>, Error> {
    let (mut frames, mut page) = (Frames::new()?, vec![0; map.page_size().as_usize()]);
    for nth in 0..map.page_count() {
        let layers = map.entries_of(nth).map(|entry| map.layer_of(entry));
        let mut gaps = layers.clone().skip(1).zip(layers);
        let Some(&across) = gaps.find_map(|(lower, upper)| lost.range(lower..upper).next()) else { continue };
        match frames.page(map, nth, Reading::InOrder, &mut page) {
            Ok(_) => {}
            Err(error) if error.is_loss() => return Ok(Some(across)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Says which file is not there, where one is missing between the layers of a version that does not come out.
fn missing(folder: &Folder, layers: &Layers, chain: &[Arc<Pack>]) -> Option<Error> {
    let is_there = |number: u64| layers.values().any(|layer| (layer.from..=layer.number).contains(&number));
    let numbers = chain.iter().filter_map(|pack| pack.meta().parent).flat_map(|parent| {
        let next = below(layers, parent).map_or(0, |layer| layer.number);
        (next + 1..=parent).rev().take(MOST_MISSING)
    });
    numbers.into_iter().find(|&number| !is_there(number)).map(|number| gone(folder, number))
}

fn gone(folder: &Folder, number: u64) -> Error {
    let path = folder.path().join(FileName::Live { from: number, number }.text());
    Error::damaged(&path, "it is missing, and a later version cannot be put together without it")
}

/// The layers of which something may be seen in a layer's version, newest first, from its own on: those that each of them
/// continues, and those that one refers to, even where one between continues none.
pub(crate) fn chain_of(folder: &Folder, layers: &Layers, layer: &Layer) -> Result<Vec<Arc<Pack>>, Error> {
    continued(folder, layers, layer, &mut |_, error| Err(error))
}

fn continued(
    folder: &Folder,
    layers: &Layers,
    layer: &Layer,
    pass_over: PassOver<'_>,
) -> Result<Vec<Arc<Pack>>, Error> {
    let mut refers_to = u64::MAX;
    let go_on = |meta: &Meta| {
        refers_to = refers_to.min(meta.refers_to.unwrap_or(u64::MAX));
        meta.parent.or(below_all(meta).filter(|_| refers_to < meta.covers_from))
    };
    layers_down(folder, layers, layer, go_on, pass_over)
}

/// The layers that have pages of one size from a layer on down, newest first.
pub(crate) fn history_of(folder: &Folder, layers: &Layers, layer: &Layer) -> Result<Vec<Arc<Pack>>, Error> {
    layers_down(folder, layers, layer, below_all, &mut |_, error| Err(error))
}

/// The highest number of what lies below a layer.
fn below_all(meta: &Meta) -> Option<u64> {
    meta.covers_from.checked_sub(1)
}

/// Hears of a layer that is lost below a version's own, by its number; fails where nothing may be passed over.
pub(crate) type PassOver<'a> = &'a mut dyn FnMut(u64, Error) -> Result<(), Error>;

/// The layers from one on down, each as the one before says. What a lost one continued is not known: so what is below it is
/// looked at, too.
fn layers_down(
    folder: &Folder,
    layers: &Layers,
    layer: &Layer,
    mut go_on: impl FnMut(&Meta) -> Option<u64>,
    pass_over: PassOver<'_>,
) -> Result<Vec<Arc<Pack>>, Error> {
    let mut chain: Vec<Arc<Pack>> = Vec::new();
    let mut next = Some(layer);
    while let Some(layer) = next {
        if chain.len().is_multiple_of(EXPECTED) {
            let coming = layers.range(..=layer.number).rev().take(EXPECTED);
            coming.for_each(|(_, layer)| layer.expect(folder));
        }
        let pack = match layer.open(folder) {
            Ok(pack) => pack,
            Err(error) if !chain.is_empty() && error.is_loss() => {
                pass_over(layer.number, error)?;
                next = layer.from.checked_sub(1).and_then(|number| below(layers, number));
                continue;
            }
            Err(error) => return Err(error),
        };
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
