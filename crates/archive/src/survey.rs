//! Looks at a run: the retired layers between two live versions, of which only the upper one needs pages.
//!
//! No later version needs anything of the run that the one directly above it does not: what it does not show
//! was replaced, or lies beyond its end, and pages beyond an end are stored anew when the file grows again.

use std::sync::Arc;

use crate::archive::Inner;
use crate::chain::{Layer, Layers, below, run_below};
use crate::error::Error;
use crate::index::Entry;
use crate::pack::Pack;
use crate::resolve::slot_mut;

/// A run of more layers than this is merged even where little in it is dead, so that looking through it
/// stays cheap while thousands of versions are given up one by one.
const RUN_MAX_LAYERS: usize = 64;
/// What an index entry usually takes.
const ENTRY_USUAL_BYTES: u64 = 19;

/// What the live version above a run still needs of it.
pub(crate) struct Survey {
    /// The run, newest first.
    pub(crate) run: Vec<Layer>,
    /// Those of its layers in which something is needed, newest first.
    pub(crate) needed: Vec<Needed>,
    /// The stored length of the frames needed.
    pub(crate) needed_bytes: u64,
    /// Whether what is needed also includes pages of layers below the run.
    pub(crate) needs_below: bool,
    /// What the run takes on disk.
    pub(crate) stored_bytes: u64,
}

/// A layer and what is needed of it.
pub(crate) struct Needed {
    pub(crate) number: u64,
    pub(crate) pack: Arc<Pack>,
    /// In page order.
    pub(crate) entries: Vec<Entry>,
}

impl Survey {
    /// The layers in which nothing is needed.
    pub(crate) fn dead(&self) -> Vec<Layer> {
        let is_needed = |layer: &&Layer| !self.needed.iter().any(|needed| needed.number == layer.number);
        self.run.iter().filter(is_needed).cloned().collect()
    }

    /// Whether merging what is needed would give back at least half, or shorten a long run.
    pub(crate) fn worth_merging(&self) -> bool {
        let index_bytes: u64 =
            self.needed.iter().map(|needed| ENTRY_USUAL_BYTES * len(&needed.entries)).sum();
        let around_bytes = self.needed.first().map_or(0, |newest| newest.pack.bytes_around());
        let merged_bytes = self.needed_bytes + index_bytes + around_bytes;
        !self.needed.is_empty()
            && (merged_bytes <= self.stored_bytes / 2 || self.needed.len() > RUN_MAX_LAYERS)
    }
}

impl Inner {
    /// Surveys the run directly below the live version `above`.
    pub(crate) fn survey(&self, layers: &Layers, above: &Layer) -> Result<Survey, Error> {
        let run = run_below(layers, above.number);
        let stored_bytes = run.iter().map(|layer| layer.bytes).sum();
        let mut survey =
            Survey { run, needed: Vec::new(), needed_bytes: 0, needs_below: false, stored_bytes };
        let Some(lowest) = survey.run.last().map(|layer| layer.number) else {
            return Ok(survey);
        };
        let pack = above.open(&self.folder)?;
        let mut unseen = Unseen::below(&pack)?;
        let mut parent = pack.meta().parent;
        while let Some(layer) = parent.filter(|_| unseen.count > 0).and_then(|parent| below(layers, parent)) {
            if layer.number < lowest {
                break;
            }
            let pack = layer.open(&self.folder)?;
            let entries = unseen.take_from(&pack)?;
            parent = pack.meta().parent;
            survey.needed_bytes += entries.iter().map(|entry| u64::from(entry.len)).sum::<u64>();
            if !entries.is_empty() {
                survey.needed.push(Needed { number: layer.number, pack, entries });
            }
        }
        survey.needs_below = unseen.count > 0;
        Ok(survey)
    }
}

/// The pages of a version that no layer looked into so far holds.
struct Unseen {
    pages: Vec<bool>,
    count: usize,
}

impl Unseen {
    /// The pages that a version's own layer does not hold.
    fn below(pack: &Pack) -> Result<Self, Error> {
        let count = usize::try_from(pack.meta().page_count).unwrap_or(usize::MAX);
        let mut pages = Vec::new();
        pages
            .try_reserve_exact(count)
            .map_err(|_| Error::io("survey", pack.path(), std::io::ErrorKind::OutOfMemory.into()))?;
        pages.resize(count, true);
        let mut unseen = Self { pages, count };
        unseen.take_from(pack)?;
        Ok(unseen)
    }

    /// Takes the unseen pages that a layer holds.
    fn take_from(&mut self, pack: &Pack) -> Result<Vec<Entry>, Error> {
        let mut taken = Vec::new();
        pack.index()?.each(|entry| {
            if let Some(unseen) = slot_mut(&mut self.pages, entry.page).filter(|unseen| **unseen) {
                *unseen = false;
                self.count -= 1;
                taken.push(entry);
            }
        })?;
        Ok(taken)
    }
}

fn len<T>(slice: &[T]) -> u64 {
    u64::try_from(slice.len()).unwrap_or(u64::MAX)
}
