//! Gives back the space of pages that no live version needs, by folding runs of retired layers, or by trimming them
//! where there is no room to fold.

use std::time::Duration;

use crate::archive::{Archive, Inner};
use crate::chain::{Chain, Layer, head, lock, run_below};
use crate::error::Error;
use crate::fold::Pace;
use crate::survey::Survey;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// What it gave back on disk.
    pub freed_bytes: u64,
    /// How many layers there were, live ones included.
    pub layers_before: usize,
    /// How many there are now.
    pub layers_after: usize,
    /// Whether there is more to do: the pace ended it, or what is left must wait for a version that is being written.
    pub more: bool,
}

impl Archive {
    /// Gives back the space of pages that no live version needs, wherever that is at least a tenth of a run of
    /// retired layers and of the live one above it. Where `pace` says to stop, what is not done yet is left for
    /// another time. A damaged run is left as it is, and reported after the others are done. As long as a version is missed
    /// ([`Self::expect`]), all is left.
    pub fn compact(&self, pace: Pace<'_>) -> Result<Compacted, Error> {
        let archive = &*self.inner;
        let _alone = lock(&archive.compaction);
        let layers_before = archive.layers().len();
        if !archive.is_complete() {
            return Ok(Compacted { layers_before, layers_after: layers_before, ..Compacted::default() });
        }
        let (mut freed_bytes, mut more, mut first_error) = (archive.remove_left_over()?, false, None);
        for above in archive.unsettled() {
            if pace(0).is_break() {
                more = true;
                break;
            }
            if archive.may_be_referred_to(above) {
                more = true;
                continue;
            }
            match archive.compact_below(above, pace) {
                Ok(freed) => freed_bytes += freed,
                Err(Error::Stopped) => {
                    more = true;
                    break;
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let layers_after = archive.layers().len();
        match first_error {
            Some(error) => Err(error),
            None => Ok(Compacted { freed_bytes, layers_before, layers_after, more }),
        }
    }
}

impl Archive {
    /// Waits until no version is being written, for so long at most. What compaction left because of one can be done then.
    pub fn wait_for_writer(&self, patience: Duration) {
        let chain = lock(&self.inner.chain);
        let is_writing = |chain: &mut Chain| chain.writing.is_some();
        drop(self.inner.written.wait_timeout_while(chain, patience, is_writing));
    }
}

impl Inner {
    /// The live versions above runs that may be worth compacting, newest first: how many differences lie upon a
    /// page is best known where what is above was folded before.
    pub(crate) fn unsettled(&self) -> Vec<u64> {
        let chain = lock(&self.chain);
        let layers = chain.layers();
        let mut last_live = true;
        let above_a_run = layers.values().filter(|layer| {
            let below_is_live = std::mem::replace(&mut last_live, layer.live);
            layer.live && !below_is_live
        });
        let mut unsettled: Vec<u64> =
            above_a_run.map(|layer| layer.number).filter(|number| !chain.settled.contains(number)).collect();
        unsettled.reverse();
        unsettled
    }

    /// Removes what lies above the newest version, which a crash left as it was given up, or nobody misses any more. While a version
    /// is being written it can wait: then it is a run below that one.
    fn remove_left_over(&self) -> Result<u64, Error> {
        let _upkeep = lock(&self.upkeep);
        let left_over: Vec<Layer> = {
            let chain = lock(&self.chain);
            let layers = chain.layers();
            let newest = head(&layers).map_or(0, |layer| layer.number);
            let above = layers.range(newest + 1..).map(|(_, layer)| layer.clone());
            if chain.writing.is_some() { Vec::new() } else { above.collect() }
        };
        self.remove(&left_over)
    }

    /// Compacts the run below one live version; answers the bytes given back.
    fn compact_below(&self, above: u64, pace: Pace<'_>) -> Result<u64, Error> {
        let Some(survey) = self.prepare(above, pace)? else {
            return Ok(0);
        };
        if survey.worth_folding() {
            return match self.fold(&survey, pace) {
                Err(full @ Error::Full { .. }) => self.compact_in_little_room(survey, full, pace),
                folded => folded,
            };
        }
        let dead = survey.dead();
        let freed = self.remove(&dead)?;
        let mut chain = lock(&self.chain);
        // Unless another version was given up meanwhile.
        if run_below(&chain.layers(), above).len() + dead.len() == survey.run.len() {
            chain.settled.insert(above);
        }
        Ok(freed)
    }

    /// Surveys the run below a live version. Where something is to be done about it, no layer refers to it any more.
    pub(crate) fn prepare(&self, above: u64, pace: Pace<'_>) -> Result<Option<Survey>, Error> {
        let survey = self.survey(above)?;
        let is_work = |survey: &Survey| survey.worth_folding() || !survey.dead().is_empty();
        match survey.as_ref().is_some_and(is_work) && self.redirect(above, pace)? {
            // The live version's own layer may be another now.
            true => self.survey(above),
            false => Ok(survey),
        }
    }

    /// Gives back what can be had without folding, for which the disk was too `full`.
    pub(crate) fn compact_in_little_room(
        &self,
        mut survey: Survey,
        full: Error,
        pace: Pace<'_>,
    ) -> Result<u64, Error> {
        let freed = self.remove(&survey.dead())?;
        survey.forget_dead();
        match self.trim(&survey, pace)? {
            Some(more) => Ok(freed + more),
            None if freed > 0 => Ok(freed),
            None => Err(full),
        }
    }
}
