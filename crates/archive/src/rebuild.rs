//! Writes the layer of a version anew from the version's whole content, where somebody has that still.
//!
//! Nothing but the metadata of the old file is used, and nothing of what it continued is needed any more: what takes its place
//! stands alone. Later layers see the same through it.

use std::path::PathBuf;

use asat_core::Problem;

use crate::archive::{Archive, Inner};
use crate::chain::{Layer, lock};
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
        self.put_back(self.describe(number)?, read)
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
        let archive = &*self.inner;
        let _alone = lock(&archive.compaction);
        let number = meta.number;
        let place = archive.place_of(number)?;
        let from = place.unwrap_or(number);
        let mut rebuild = Rebuild {
            packer: Packer::create(&archive.folder, number)?,
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
        let _upkeep = lock(&archive.upkeep);
        // It may have been given up meanwhile.
        if !archive.place_of(number).is_ok_and(|now| now == place) {
            return Ok(None);
        }
        let name = FileName::Live { from, number };
        let bytes = packer.publish(&meta, name)?;
        lock(&archive.chain).put(Layer::new(from, number, true, bytes));
        lock(&archive.missing).remove(&number);
        Ok(Some(archive.folder.path().join(name.text())))
    }
}

impl Inner {
    /// From which version on the layer of a live version stands for what was folded into it. `None`: its file is gone.
    ///
    /// # Errors
    /// Where it was given up.
    fn place_of(&self, number: u64) -> Result<Option<u64>, Error> {
        let layers = self.layers();
        match layers.range(number..).next().map(|(_, layer)| layer).filter(|layer| layer.from <= number) {
            None => Ok(None),
            Some(layer) if layer.live && layer.number == number => Ok(Some(layer.from)),
            Some(_) => Err(self.no_such_version(number)),
        }
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
