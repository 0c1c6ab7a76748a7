//! Writes the layer of a version anew from the version's whole content, where somebody has that still.
//!
//! Nothing but the metadata of the old file is used, and nothing of what it continued is needed any more: what takes its place
//! stands alone. Later layers see the same through it.

use std::path::PathBuf;
use std::sync::Arc;

use asat_core::Problem;

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, Layers, lock};
use crate::change::Change;
use crate::codec::Encoder;
use crate::error::Error;
use crate::fingerprint::Fingerprinter;
use crate::meta::Meta;
use crate::naming::FileName;
use crate::packer::Packer;

/// A layer that is written anew.
pub struct Rebuild {
    meta: Meta,
    packer: Packer,
    encoder: Encoder,
    fingerprinter: Fingerprinter,
    pages: u32,
}

impl Archive {
    /// Writes the layer of a live version anew from what `read` hands over; answers its file. `None`: that is not the content of the
    /// version, and nothing has changed.
    ///
    /// # Errors
    /// Where the version is not live or its metadata cannot be read, where `read` fails, or where the machine refuses.
    pub fn rebuild(
        &self,
        number: u64,
        read: impl FnOnce(&mut Rebuild) -> Result<(), Problem>,
    ) -> Result<Option<PathBuf>, Problem> {
        let archive = &self.inner;
        let _alone = lock(&archive.compaction);
        let meta = self.describe(number)?;
        let place = archive.layers().get(&number).filter(|layer| layer.live).cloned();
        // It may have been given up since. Then there is no place for it, and it must not come back.
        let place = place.ok_or_else(|| archive.no_such_version(number))?;
        archive.write_version(meta, Some(&place), read)
    }

    /// The same with what is known of the version from elsewhere, also where its file is gone, whatever was stored since: nothing
    /// is stored upon an older version while a newer one is missing.
    ///
    /// # Errors
    /// Where the version was given up or folded into another, where `read` fails, or where the machine refuses.
    pub fn put_back(
        &self,
        meta: Meta,
        read: impl FnOnce(&mut Rebuild) -> Result<(), Problem>,
    ) -> Result<Option<PathBuf>, Problem> {
        let archive = &self.inner;
        let _alone = lock(&archive.compaction);
        let (place, _between) = archive.place_for(meta.number)?;
        archive.write_version(meta, place.as_ref(), read)
    }
}

/// A version that is put where none is: no other is written meanwhile, for it would be stored upon one that is older than both.
struct Between<'a>(&'a Inner);

impl Drop for Between<'_> {
    fn drop(&mut self) {
        lock(&self.0.chain).writing = None;
        self.0.written.notify_all();
    }
}

impl Inner {
    /// Writes the layer of a version anew, whole, in the place of the one that it has.
    fn write_version(
        &self,
        meta: Meta,
        place: Option<&Layer>,
        read: impl FnOnce(&mut Rebuild) -> Result<(), Problem>,
    ) -> Result<Option<PathBuf>, Problem> {
        let number = meta.number;
        let from = place.map_or(number, |layer| layer.from);
        let mut rebuild = Rebuild {
            packer: Packer::create(&self.folder, number)?,
            encoder: Encoder::new(meta.page_size.as_usize())?,
            fingerprinter: Fingerprinter::new(meta.page_size, meta.page_count),
            pages: 0,
            meta: Meta { covers_from: from, parent: None, refers_to: None, ..meta },
        };
        read(&mut rebuild)?;
        let Rebuild { meta, packer, fingerprinter, pages, .. } = rebuild;
        if pages != meta.page_count || fingerprinter.finish() != meta.fingerprint {
            return Ok(None);
        }
        let upkeep = lock(&self.upkeep);
        let change = Change { layers: &Layers::new(), live: place, same: None, gone: &[] };
        if self.change(&upkeep, &change, Some((packer, &meta)))?.is_none() {
            return Ok(None);
        }
        lock(&self.missing).remove(&number);
        Ok(Some(self.folder.path().join(FileName::Live { from, number }.text())))
    }

    /// The layer of a live version. `None`: its file is gone, and from now on no other version is written.
    ///
    /// # Errors
    /// Where it was given up, where another is being written, or where one above was stored upon one below.
    fn place_for(&self, number: u64) -> Result<(Option<Layer>, Option<Between<'_>>), Error> {
        let layers = {
            let mut chain = lock(&self.chain);
            let layers = chain.layers();
            match layers.range(number..).next().map(|(_, layer)| layer).filter(|layer| layer.from <= number) {
                Some(layer) if layer.live && layer.number == number => {
                    return Ok((Some(layer.clone()), None));
                }
                Some(_) => return Err(self.no_such_version(number)),
                None if chain.writing.is_some() => {
                    let folder = self.folder.path().to_owned();
                    return Err(Error::Busy { folder, what: "another version is being written" });
                }
                None => chain.writing = Some(Arc::clone(&layers)),
            }
            layers
        };
        let between = Between(self);
        for layer in layers.range(number..).map(|(_, layer)| layer) {
            let parent = match layer.open(&self.folder) {
                Ok(pack) => pack.meta().parent,
                // It is of no use itself.
                Err(error) if error.is_loss() => None,
                Err(error) => return Err(error),
            };
            if let Some(parent) = parent.filter(|parent| *parent < number) {
                let above = layer.number;
                let what = format!("version {above} lies on version {parent}: {number} cannot come between");
                return Err(Error::Misuse(what));
            }
        }
        Ok((None, Some(between)))
    }
}

impl Rebuild {
    /// The metadata of the version.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Takes the next page.
    ///
    /// # Errors
    /// Where it is of another size, or the machine refuses.
    pub fn page(&mut self, page: &[u8]) -> Result<(), Error> {
        if page.len() != self.meta.page_size.as_usize() || self.pages == self.meta.page_count {
            return Err(Error::Misuse(format!("page {} does not belong to the version", self.pages + 1)));
        }
        self.pages += 1;
        let hash = self.fingerprinter.page(page);
        self.packer.frame(self.pages, self.encoder.encode(page, None), hash)
    }
}
