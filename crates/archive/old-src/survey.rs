//! Looks at a run: the retired layers between two live versions, of which only the upper one needs pages.
//!
//! No later version needs anything of the run that the one directly above it does not: what it does not show
//! was replaced, or lies beyond its end, and pages beyond an end are stored anew when the file grows again.
//! A difference in a later layer is laid upon what the version above the run shows, whatever that is made of.

use std::collections::BTreeSet;
use std::sync::Arc;

use asat_core::boundary;

use crate::archive::Inner;
use crate::chain::{Layer, Layers, run_below};
use crate::change::Change;
use crate::codec::Encoder;
use crate::error::Error;
use crate::frames::{Frames, Reading};
use crate::index::Encoding;
use crate::pages::{Frame, PageMap, nth_of};
use crate::resolve::Resolved;

/// A run of more layers than this is folded even where that gives back little, so that looking through it
/// stays cheap while thousands of versions are given up one by one.
const RUN_MAX_LAYERS: usize = 64;
/// So many of the pages that are stored whole are tried as differences.
const TRIED_PAGES: usize = 64;
/// What an index entry usually takes.
pub(crate) const ENTRY_USUAL_BYTES: u64 = 35;
/// What a zstd frame takes besides what it is about, about.
const FRAME_AROUND_BYTES: u64 = 12;

/// A live version and the run below it.
pub(crate) struct Survey {
    /// The layers as they were.
    pub(crate) layers: Arc<Layers>,
    /// The live version's layer.
    pub(crate) above: Layer,
    /// The run, newest first.
    pub(crate) run: Vec<Layer>,
    /// The live version's pages.
    pub(crate) version: Resolved,
    /// The numbers of those layers of the run of which something is needed.
    needed: BTreeSet<u64>,
    /// What one layer in place of the run and the live version's would take, about.
    pub(crate) folded_bytes: u64,
}

impl Survey {
    /// The lowest layer number of the run, or that of the live version where there is none.
    pub(crate) fn lowest(&self) -> u64 {
        self.run.last().map_or(self.above.number, |layer| layer.number)
    }

    /// Those entries of a page that lie in the run or in the live version's layer, newest first.
    pub(crate) fn entries_within(&self, page: usize) -> impl Iterator<Item = &Frame> + Clone {
        let (map, lowest) = (&self.version.map, self.lowest());
        map.entries_of(page).take_while(move |frame| map.layer_of(frame) >= lowest)
    }

    /// What a reference of the run or the live version says once these are one layer, where it leads below them.
    pub(crate) fn below(&self, version: u64) -> u64 {
        let from = self.run.last().map_or(self.above.from, |layer| layer.from);
        version.min(from.saturating_sub(1))
    }

    /// Whether no page below the run is seen through it.
    pub(crate) fn stands_alone(&self, archive: &Inner) -> Result<bool, Error> {
        for layer in self.run.iter().chain([&self.above]) {
            if layer.open(&archive.folder)?.meta().parent.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether something is to be done about the run.
    pub(crate) fn is_work(&self) -> bool {
        self.worth_folding() || !self.dead().is_empty()
    }

    /// The change that does away with some layers of the run, computed from this survey.
    pub(crate) fn change<'a>(&'a self, gone: &'a [Layer]) -> Change<'a> {
        Change { layers: &self.layers, live: Some(&self.above), same: None, gone }
    }

    /// The layers in which nothing is needed.
    pub(crate) fn dead(&self) -> Vec<Layer> {
        self.run.iter().filter(|layer| !self.needed.contains(&layer.number)).cloned().collect()
    }

    /// Leaves those layers out.
    pub(crate) fn forget_dead(&mut self) {
        self.run.retain(|layer| self.needed.contains(&layer.number));
    }

    /// Whether one layer instead would give back at least a tenth, or shorten a long run.
    pub(crate) fn worth_folding(&self) -> bool {
        let is_needed = |layer: &&Layer| self.needed.contains(&layer.number);
        let run_bytes: u64 = self.run.iter().filter(is_needed).map(|layer| layer.bytes).sum();
        let stored_bytes = run_bytes + self.above.bytes;
        !self.needed.is_empty()
            && (self.folded_bytes <= stored_bytes / 10 * 9 || self.needed.len() > RUN_MAX_LAYERS)
    }
}

impl Inner {
    /// Surveys the run directly below a live version; `None` where that is not live any more.
    pub(crate) fn survey(&self, above: u64) -> Result<Option<Survey>, Error> {
        boundary::step("archive: survey");
        let layers = self.layers();
        let Some(layer) = layers.get(&above).filter(|layer| layer.live) else {
            return Ok(None);
        };
        let (run, above) = (run_below(&layers, above), layer.clone());
        let version = self.resolve(above.number)?;
        let mut folded = above.open(&self.folder)?.bytes_around();
        let mut survey = Survey { layers, above, run, version, needed: BTreeSet::new(), folded_bytes: 0 };
        let (mut needed, mut wholes) = (BTreeSet::new(), Vec::new());
        for page in 0..survey.version.map.page_count() {
            let frames = survey.entries_within(page);
            needed.extend(frames.clone().map(|frame| survey.version.map.layer_of(frame)));
            folded += folded_bytes(frames.clone());
            let whole = frames.filter(|frame| frame.encoding.is_whole()).last();
            wholes.extend(whole.map(|frame| (page, u64::from(frame.len))));
        }
        needed.remove(&survey.above.number);
        (survey.needed, survey.folded_bytes) = (needed, folded);
        if !survey.needed.is_empty() {
            survey.folded_bytes -= self.shorter_as_differences(&survey, &wholes)?.min(folded);
        }
        Ok(Some(survey))
    }

    /// By how much pages get shorter, about, that are stored whole in the run or in the live version and would be
    /// differences from the live version below: some of them are tried. Pages that changed so often that they were
    /// stored whole again did so in the same versions, it may be, all of them.
    fn shorter_as_differences(&self, survey: &Survey, wholes: &[(usize, u64)]) -> Result<u64, Error> {
        let parent = survey.layers.range(..survey.lowest()).next_back().map(|(_, layer)| layer);
        let Some(below) = self.version_below(survey, parent)? else { return Ok(0) };
        let map = &survey.version.map;
        let page_len = map.page_size().as_usize();
        let (mut encoder, mut frames, mut frames_below) =
            (Encoder::new(page_len)?, Frames::new()?, Frames::new()?);
        let (mut page, mut before) = (vec![0; page_len], vec![0; page_len]);
        let (mut tried, mut shorter) = (0, 0);
        for &(nth, len) in wholes.iter().step_by(wholes.len().div_ceil(TRIED_PAGES).max(1)) {
            tried += len;
            // What is new, or cannot be read, gets no shorter.
            if below.map.hash(nth).is_none()
                || frames.page(map, nth, Reading::Single, &mut page).is_err()
                || frames_below.page(&below.map, nth, Reading::Single, &mut before).is_err()
            {
                continue;
            }
            if let (Encoding::Difference, frame) = encoder.encode(&page, Some(&before)) {
                shorter += len.saturating_sub(u64::try_from(frame.len()).unwrap_or(len));
            }
        }
        let all: u128 = wholes.iter().map(|&(_, len)| u128::from(len)).sum();
        let shorter = all * u128::from(shorter) / u128::from(tried.max(1));
        Ok(u64::try_from(shorter).unwrap_or(u64::MAX))
    }

    /// How many differences lie directly upon each page of a live version, in layers above it.
    pub(crate) fn stacked_upon(&self, number: u64, map: &PageMap) -> Result<Vec<u32>, Error> {
        let mut stacked = vec![0; map.page_count()];
        let mut open = vec![true; map.page_count()];
        for layer in self.layers().range(number + 1..).map(|(_, layer)| layer) {
            let pack = layer.open(&self.folder)?;
            if pack.meta().parent.is_none() || pack.meta().page_size != map.page_size() {
                break;
            }
            pack.index()?.each(|entry| {
                let Some(page) = nth_of(entry.page) else { return };
                if let (Some(open), Some(stacked)) = (open.get_mut(page), stacked.get_mut(page)) {
                    *open = match entry.encoding {
                        Encoding::Raw | Encoding::Zstd => false,
                        Encoding::Difference => *open,
                        // It may be what the version shows, with all that lay upon it then.
                        Encoding::Earlier => entry.offset >= number,
                    };
                    *stacked += u32::from(*open && entry.encoding == Encoding::Difference);
                }
            })?;
        }
        Ok(stacked)
    }
}

/// What a page would take in a folded layer, about: its only frame as it is, the whole page where that is within,
/// or one difference that says what several say now.
fn folded_bytes<'a>(frames: impl Iterator<Item = &'a Frame>) -> u64 {
    let (mut sum, mut count, mut whole) = (0, 0_u64, None);
    for frame in frames {
        sum += u64::from(frame.len);
        count += 1;
        whole = (frame.encoding != Encoding::Difference).then_some(u64::from(frame.len));
    }
    let difference = sum - sum.min(FRAME_AROUND_BYTES * count.saturating_sub(1));
    if count == 0 { 0 } else { ENTRY_USUAL_BYTES + whole.unwrap_or(difference) }
}
