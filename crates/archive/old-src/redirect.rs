//! Has no layer refer to a run that is about to be compacted.
//!
//! Compaction keeps of a run what the live version above it shows. A later layer may refer to one of the versions that were
//! given up, for a page that was another since: it is led to the live version where that has the page still, and else
//! gets the page itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::archive::Inner;
use crate::change::references;
use crate::codec::{Encoder, MOST_WHEN_FOLDED};
use crate::error::Error;
use crate::fingerprint::page_hash;
use crate::fold::Pace;
use crate::frames::{Frames, Reading};
use crate::index::{Encoding, Entry};
use crate::pack::Pack;
use crate::packer::Packer;
use crate::pages::{PageMap, nth_of};
use crate::resolve::{Resolved, chain_of};
use crate::survey::Survey;

impl Inner {
    /// Has no layer from the surveyed version on refer to its run; answers whether one did, so that the survey is out of date.
    pub(crate) fn redirect(&self, survey: &Survey, pace: Pace<'_>) -> Result<bool, Error> {
        let (layers, above) = (&survey.layers, survey.above.number);
        let run = survey.lowest()..above;
        let mut redirected = false;
        for layer in layers.range(above..).map(|(_, layer)| layer) {
            let pack = layer.open(&self.folder)?;
            let wanted = references(&pack, &run)?;
            if wanted.is_empty() {
                continue;
            }
            redirected = true;
            let chain = chain_of(&self.folder, layers, layer)?;
            let page_bytes = u64::from(pack.meta().page_size.bytes());
            let most_bytes = page_bytes.saturating_mul(u64::try_from(wanted.len()).unwrap_or(u64::MAX));
            let mut lead = Lead::new(run.clone(), &survey.version, &chain, &pack, wanted)?;
            lead.stacked = self.stacked_upon(layer.number, &lead.earlier)?;
            // At most, each of these pages is stored whole in it.
            self.check_room(layer.bytes.saturating_add(most_bytes))?;
            self.write_anew(layer, pace, &mut |entry, packer| lead.write(entry, packer))?;
        }
        Ok(redirected)
    }
}

/// One layer while its references are led elsewhere.
struct Lead<'a> {
    /// The numbers that are not referred to any more.
    run: Range<u64>,
    /// The live version above them.
    above: &'a Resolved,
    /// The pages that the layer refers to there.
    earlier: PageMap,
    /// The layer's file, for errors.
    path: PathBuf,
    /// What lies below the layer.
    below: PageMap,
    /// How many differences lie upon each page of the layer.
    stacked: Vec<u32>,
    encoder: Encoder,
    frames: Frames,
    frames_below: Frames,
    page: Vec<u8>,
    page_below: Vec<u8>,
}

impl<'a> Lead<'a> {
    fn new(
        run: Range<u64>,
        above: &'a Resolved,
        chain: &[Arc<Pack>],
        pack: &Pack,
        wanted: BTreeMap<usize, u64>,
    ) -> Result<Self, Error> {
        let page_len = pack.meta().page_size.as_usize();
        let pages = |pack: &Pack| usize::try_from(pack.meta().page_count).unwrap_or(usize::MAX);
        let lower = chain.get(1..).unwrap_or_default();
        let below = match lower.first() {
            Some(newest) => {
                PageMap::find(newest, lower, pages(newest).min(pages(pack)), &mut |_, error| Err(error))?
            }
            None => PageMap::new(pack.meta().page_size, 0),
        };
        Ok(Self {
            run,
            above,
            path: pack.path().to_owned(),
            earlier: PageMap::find_earlier(pack, chain, pages(pack), wanted)?,
            below,
            stacked: Vec::new(),
            encoder: Encoder::new(page_len)?,
            frames: Frames::new()?,
            frames_below: Frames::new()?,
            page: vec![0; page_len],
            page_below: vec![0; page_len],
        })
    }

    /// Writes an entry that refers to the run in another way; answers whether it is one.
    fn write(&mut self, entry: &Entry, packer: &mut Packer) -> Result<bool, Error> {
        let nth = nth_of(entry.page).filter(|_| entry.encoding == Encoding::Earlier);
        let Some(nth) = nth.filter(|_| self.run.contains(&entry.offset)) else { return Ok(false) };
        let above = self.above.meta.number;
        if packer.number() > above && self.above.map.hash(nth) == Some(entry.hash) {
            packer.earlier(entry.page, above, entry.hash)?;
            return Ok(true);
        }
        self.frames.page(&self.earlier, nth, Reading::InOrder, &mut self.page)?;
        if page_hash(&self.page) != entry.hash {
            let what = format!("page {} is not what version {} has in its place", entry.page, entry.offset);
            return Err(Error::damaged(&self.path, what));
        }
        let mut before = None;
        let depth = self.below.depth(nth) + 1 + self.stacked.get(nth).copied().unwrap_or(0);
        if depth <= MOST_WHEN_FOLDED
            && self.below.hash(nth).is_some()
            && self.frames_below.page(&self.below, nth, Reading::InOrder, &mut self.page_below).is_ok()
        {
            before = Some(self.page_below.as_slice());
        }
        packer.frame(entry.page, self.encoder.encode(&self.page, before), entry.hash)?;
        Ok(true)
    }
}
