//! Where every page of a version is stored, as layers say one after another from the oldest on.
//!
//! A page is a frame that holds it whole, and the differences that lie upon that. What cannot be read of a layer is passed over: whether
//! a version needs it, its fingerprint tells, and of each page its hash.

use std::collections::BTreeMap;
use std::rc::Rc;

use asat_archive::Error;
use asat_archive::fingerprint::{Fingerprinter, PageHash, page_hash};
use asat_core::PageSize;
use zstd::zstd_safe::DCtx;

use crate::layers::{Layer, Layers};
use crate::pack::{Encoding, LayerEntry, Meta, Pack};

/// One entry of a layer.
#[derive(Clone, Copy, Debug)]
struct Frame {
    layer: u64,
    offset: u64,
    len: u32,
    encoding: Encoding,
}

/// The pages up to the layer that was laid last.
pub(crate) struct Pages<'a> {
    layers: &'a Layers,
    /// The layer that was laid last, or could not be.
    top: Option<u64>,
    page_size: Option<PageSize>,
    pub(crate) hashes: Vec<PageHash>,
    /// The frames of each page, the one that holds it whole first. None: it is nowhere.
    frames: Vec<Box<[Frame]>>,
    decoder: DCtx<'static>,
    /// The page before, while a difference from it is decoded in its place.
    before: Vec<u8>,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(layers: &'a Layers) -> Result<Self, Error> {
        let decoder = DCtx::try_create();
        let decoder = decoder.ok_or_else(|| Error::Misuse("zstd cannot be set up: no memory".to_owned()))?;
        let (hashes, frames, before) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { layers, top: None, page_size: None, hashes, frames, decoder, before })
    }

    /// Lays a layer upon what it was written upon: that is the one that was laid last, nearly always.
    pub(crate) fn lay(&mut self, layer: &Layer) -> Result<Rc<Pack>, Error> {
        let top = self.top.replace(layer.number);
        let pack = self.layers.open(layer.number)?;
        let below = pack.meta.parent.and_then(|parent| self.layers.below(parent));
        match below {
            None => self.clear(),
            Some(below) if Some(below.number) == top => {}
            Some(below) => self.lay_all_up_to(below)?,
        }
        self.top = Some(layer.number);
        if self.page_size != Some(pack.meta.page_size) {
            self.clear();
            self.page_size = Some(pack.meta.page_size);
        }
        let mut earlier = BTreeMap::new();
        self.resize(&pack)?;
        pack.index(|entry| self.show(layer.number, &entry, &mut earlier))?;
        if !earlier.is_empty() {
            let mut found = self.find_earlier(layer, earlier.clone())?;
            for nth in earlier.into_keys() {
                if let Some(frames) = self.frames.get_mut(nth) {
                    *frames = found.remove(&nth).unwrap_or_default();
                }
            }
        }
        Ok(pack)
    }

    /// Begins anew, up to this layer.
    fn lay_all_up_to(&mut self, layer: &Layer) -> Result<(), Error> {
        let (mut chain, mut next) = (Vec::new(), Some(layer));
        while let Some(layer) = next {
            chain.push(layer);
            let parent = match self.layers.open(layer.number) {
                Ok(pack) => pack.meta.parent,
                Err(error) if error.is_loss() => layer.from.checked_sub(1),
                Err(error) => return Err(error),
            };
            next = parent.and_then(|parent| self.layers.below(parent));
        }
        self.clear();
        self.top = None;
        for layer in chain.into_iter().rev() {
            match self.lay(layer) {
                Err(error) if !error.is_loss() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.frames.clear();
    }

    fn resize(&mut self, pack: &Pack) -> Result<(), Error> {
        let count = usize::try_from(pack.meta.page_count).unwrap_or(usize::MAX);
        let more = count.saturating_sub(self.hashes.len());
        if self.hashes.try_reserve(more).is_err() || self.frames.try_reserve(more).is_err() {
            return Err(Error::TooManyPages { number: pack.meta.number, page_count: pack.meta.page_count });
        }
        self.hashes.resize(count, PageHash::default());
        self.frames.resize_with(count, Box::default);
        Ok(())
    }

    /// Has a page be what a layer says, but for its frames where it is what it was at an earlier version: that goes to `earlier`.
    fn show(&mut self, layer: u64, entry: &LayerEntry, earlier: &mut BTreeMap<usize, u64>) {
        let LayerEntry { nth, len, encoding, offset, hash } = *entry;
        let (Some(frames), Some(shown)) = (self.frames.get_mut(nth), self.hashes.get_mut(nth)) else {
            return;
        };
        *shown = hash;
        let frame = Frame { layer, offset, len, encoding };
        match encoding {
            Encoding::Raw | Encoding::Zstd => *frames = Box::new([frame]),
            // A difference from a page that is nowhere is nowhere too.
            Encoding::Difference if frames.is_empty() => {}
            Encoding::Difference => *frames = frames.iter().copied().chain([frame]).collect(),
            Encoding::Earlier => _ = earlier.insert(nth, offset),
        }
    }

    /// The frames of some pages, each as a certain version below a layer has it, in the layers which that continues or refers to.
    fn find_earlier(
        &self,
        layer: &Layer,
        mut wanted: BTreeMap<usize, u64>,
    ) -> Result<BTreeMap<usize, Box<[Frame]>>, Error> {
        let (mut found, mut refers_to, mut next) =
            (BTreeMap::<usize, Vec<Frame>>::new(), u64::MAX, Some(layer));
        while let Some(layer) = next.filter(|_| !wanted.is_empty()) {
            let mut search = |pack: Rc<Pack>| {
                if Some(pack.meta.page_size) != self.page_size {
                    return Ok(None);
                }
                pack.index(|LayerEntry { nth, len, encoding, offset, .. }| {
                    let Some(up_to) = wanted.get_mut(&nth).filter(|up_to| layer.number <= **up_to) else {
                        return;
                    };
                    match encoding {
                        Encoding::Earlier => *up_to = offset,
                        _ => found.entry(nth).or_default().push(Frame {
                            layer: layer.number,
                            offset,
                            len,
                            encoding,
                        }),
                    }
                    if matches!(encoding, Encoding::Raw | Encoding::Zstd) {
                        wanted.remove(&nth);
                    }
                })?;
                refers_to = refers_to.min(pack.meta.refers_to.unwrap_or(u64::MAX));
                let goes_on = refers_to < pack.meta.covers_from;
                Ok(pack.meta.parent.or(Some(layer.from - 1).filter(|_| goes_on)))
            };
            let parent = match self.layers.open(layer.number).and_then(&mut search) {
                Err(error) if error.is_loss() => layer.from.checked_sub(1),
                parent => parent?,
            };
            next = parent.and_then(|parent| self.layers.below(parent));
        }
        found.retain(|nth, _| !wanted.contains_key(nth));
        let in_order = |(nth, frames): (usize, Vec<Frame>)| (nth, frames.into_iter().rev().collect());
        Ok(found.into_iter().map(in_order).collect())
    }

    /// Whether these are the pages that a version was written with, by what is said of them. Each is compared when it is read.
    pub(crate) fn are_of(&self, meta: &Meta) -> bool {
        Fingerprinter::of_hashes(meta.page_size, meta.page_count, &self.hashes) == meta.fingerprint
    }

    /// Reads a page, counted from 0, and compares it with its hash.
    pub(crate) fn read(&mut self, nth: usize, page: &mut [u8]) -> Result<(), Error> {
        let Self { layers, frames, decoder, before, .. } = self;
        let (mut is_whole, mut newest) = (false, self.top);
        for frame in frames.get(nth).into_iter().flatten() {
            newest = Some(frame.layer);
            let stored = layers.open(frame.layer)?.frame(frame.offset, frame.len)?;
            let len = match frame.encoding {
                Encoding::Raw if stored.len() == page.len() => {
                    page.copy_from_slice(&stored);
                    Some(stored.len())
                }
                Encoding::Zstd => decoder.decompress(page, &stored).ok(),
                Encoding::Difference => {
                    before.clear();
                    before.extend_from_slice(page);
                    decoder.decompress_using_dict(page, &stored, before).ok()
                }
                Encoding::Raw | Encoding::Earlier => None,
            };
            is_whole = len == Some(page.len());
            if !is_whole {
                break;
            }
        }
        if is_whole && self.hashes.get(nth) == Some(&page_hash(page)) {
            return Ok(());
        }
        let pack = layers.open(newest.unwrap_or(0))?;
        Err(pack.damaged(&format!("page {} does not match its hash", nth + 1)))
    }
}
