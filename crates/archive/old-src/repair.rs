//! Repairs layers: pages that are damaged in them are stored again, where somebody still has their content, and a flipped bit
//! around them is flipped back.
//!
//! What a page was is known by its hash, which the index has. So content from anywhere will do: the store as it is, a
//! snapshot, or another archive of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, Layers, lock};
use crate::change::Change;
use crate::codec::Encoder;
use crate::error::Error;
use crate::fingerprint::{PageHash, page_hash};
use crate::fold::{Pace, Paced};
use crate::index::{Encoding, Entry};
use crate::meta::Meta;
use crate::packer::Packer;

/// What is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Of each layer, known by the versions that it covers, the pages and what they must hash to. None: its bytes are
    /// not what was written, and still all pages come out.
    layers: BTreeMap<(u64, u64), BTreeMap<u32, PageHash>>,
    /// The layers of which something around the frames is damaged.
    around: BTreeSet<(u64, u64)>,
}

/// A layer that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutRight {
    /// The newest version that it covers.
    pub number: u64,
    /// Its file.
    pub file: PathBuf,
    /// How.
    pub by: Remedy,
}

/// What puts a layer right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A bit was flipped back.
    Bit,
    /// All its pages come out, and were written once more.
    Itself,
    /// These pages came from elsewhere.
    Pages(Vec<PageHash>),
}

/// Pages by their hashes.
pub type Contents = BTreeMap<PageHash, Vec<u8>>;

impl Damage {
    /// Whether nothing is damaged that could be repaired.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty() && self.around.is_empty()
    }

    /// The hashes of the pages whose content is wanted.
    pub fn wanted(&self) -> impl Iterator<Item = PageHash> {
        self.layers.values().flat_map(|pages| pages.values().copied())
    }

    pub(crate) fn note(&mut self, layer: &Meta, pages: impl IntoIterator<Item = (u32, PageHash)>) {
        self.layers.entry((layer.covers_from, layer.number)).or_default().extend(pages);
    }

    pub(crate) fn note_around(&mut self, layer: &Layer) {
        self.around.insert((layer.from, layer.number));
    }
}

impl Archive {
    /// Corrects what is one flipped bit around the frames, and writes those damaged layers anew of which at least one page is
    /// among `contents`; answers which. What is not there stays damaged.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the pace says so; or if the machine refuses.
    pub fn repair(
        &self,
        damage: &Damage,
        contents: &Contents,
        pace: Pace<'_>,
    ) -> Result<Vec<PutRight>, Error> {
        let archive = &*self.inner;
        let _alone = lock(&archive.compaction);
        let mut repaired = Vec::new();
        for &(from, number) in &damage.around {
            let Some(layer) = archive.layer(from, number) else { continue };
            let file = archive.correct(&layer, &mut *pace)?;
            repaired.extend(file.map(|file| PutRight { number, file, by: Remedy::Bit }));
        }
        for (&(from, number), pages) in &damage.layers {
            let can_be = pages.is_empty() || pages.values().any(|hash| contents.contains_key(hash));
            let Some(layer) = archive.layer(from, number).filter(|_| can_be) else { continue };
            let page_len = layer.open(&archive.folder)?.meta().page_size.as_usize();
            let mut encoder = Encoder::new(page_len)?;
            let mut repair = |entry: &Entry, packer: &mut Packer| {
                let content = pages.get(&entry.page).and_then(|_| contents.get(&entry.hash));
                match content.filter(|content| content.len() == page_len && page_hash(content) == entry.hash)
                {
                    Some(content) => {
                        packer.frame(entry.page, encoder.encode(content, None), entry.hash).map(|()| true)
                    }
                    None => Ok(false),
                }
            };
            if let Some(layer) = archive.write_anew(&layer, &mut *pace, &mut repair)? {
                let given = pages.values().copied().filter(|hash| contents.contains_key(hash));
                let by = if pages.is_empty() { Remedy::Itself } else { Remedy::Pages(given.collect()) };
                let file = archive.folder.path().join(layer.name().text());
                repaired.push(PutRight { number, file, by });
            }
        }
        Ok(repaired)
    }
}

impl Inner {
    /// A layer that covers just these versions.
    pub(crate) fn layer(&self, from: u64, number: u64) -> Option<Layer> {
        self.layers().get(&number).filter(|layer| layer.from == from).cloned()
    }

    /// Writes a layer anew and puts it in the place of the old one. Each page is what `write` makes of it, or else what it
    /// was where that answers that it wrote nothing. `None`: the layer is gone meanwhile.
    pub(crate) fn write_anew(
        &self,
        layer: &Layer,
        pace: Pace<'_>,
        write: &mut dyn FnMut(&Entry, &mut Packer) -> Result<bool, Error>,
    ) -> Result<Option<Layer>, Error> {
        let pack = layer.open(&self.folder)?;
        let mut entries = Vec::new();
        pack.index()?.each(|entry| entries.push(entry))?;
        let (mut packer, mut frame) = (Packer::create(&self.folder, layer.number)?, Vec::new());
        let mut paced = Paced::new(pace);
        for entry in entries {
            paced.reach(packer.len())?;
            if write(&entry, &mut packer)? {
                continue;
            }
            if entry.encoding == Encoding::Earlier {
                packer.earlier(entry.page, entry.offset, entry.hash)?;
                continue;
            }
            frame.resize(usize::try_from(entry.len).unwrap_or(usize::MAX), 0);
            pack.read_at(entry.offset, &mut frame)?;
            packer.frame(entry.page, (entry.encoding, &frame), entry.hash)?;
        }
        let upkeep = lock(&self.upkeep);
        let change = Change { layers: &Layers::new(), live: None, same: Some(layer), gone: &[] };
        let Some(changed) = self.change(&upkeep, &change, Some((packer, pack.meta())))? else {
            return Ok(None);
        };
        let repaired = self.layer(layer.from, layer.number);
        drop(upkeep);
        paced.end(changed.new_bytes);
        Ok(repaired)
    }
}
