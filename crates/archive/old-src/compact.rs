//! Gives back the space of pages that no live version needs, by folding runs of retired layers, or by trimming them
//! where there is no room to fold.

use std::sync::MutexGuard;
use std::time::Duration;

use crate::archive::{Archive, Inner};
use crate::chain::{Chain, Layer, head, lock, run_below};
use crate::change::{Change, may_refer_to};
use crate::error::Error;
use crate::fold::Pace;
use crate::survey::Survey;
use crate::trim::Trimmed;

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
        let left_over = archive.remove_left_over(&lock(&archive.upkeep))?;
        let (mut freed_bytes, mut more, mut first_error) = (left_over, false, None);
        for above in archive.unsettled() {
            if pace(0).is_break() {
                more = true;
                break;
            }
            if archive.may_be_referred_to(above) {
                more = true;
                continue;
            }
            let generation = lock(&archive.chain).generation;
            match archive.compact_below(above, pace) {
                Ok(Some(freed)) => freed_bytes += freed,
                Ok(None) => more = true,
                Err(Error::Stopped) => {
                    more = true;
                    break;
                }
                // What vanished because versions were given up meanwhile is not lost.
                Err(error) if error.may_be_moved() && lock(&archive.chain).generation != generation => {
                    more = true;
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

    /// Removes what lies above the newest version: it was given up, or nobody misses it any more. While a version is being written
    /// it can wait: then it is a run below that one.
    pub(crate) fn remove_left_over(&self, upkeep: &MutexGuard<'_, ()>) -> Result<u64, Error> {
        let (layers, is_writing) = {
            let chain = lock(&self.chain);
            (chain.layers(), chain.writing.is_some())
        };
        let newest = head(&layers).map_or(0, |layer| layer.number);
        let gone: Vec<Layer> = layers.range(newest + 1..).map(|(_, layer)| layer.clone()).collect();
        if is_writing {
            return Ok(0);
        }
        let change = Change { layers: &layers, live: None, same: None, gone: &gone };
        Ok(self.change(upkeep, &change, None)?.map_or(0, |changed| changed.freed_bytes))
    }

    /// Whether the version that is being written may refer to the run below a live version, for it was begun before all
    /// of the run was given up.
    fn may_be_referred_to(&self, above: u64) -> bool {
        let chain = lock(&self.chain);
        may_refer_to(chain.writing.as_deref(), &run_below(&chain.layers(), above))
    }

    /// Compacts the run below one live version; answers the bytes given back. `None`: versions were given up or written
    /// meanwhile, so that it has to be done again.
    fn compact_below(&self, above: u64, pace: Pace<'_>) -> Result<Option<u64>, Error> {
        let Some(survey) = self.prepare(above, pace)? else {
            return Ok(Some(0));
        };
        if survey.worth_folding() {
            return match self.fold(&survey, pace) {
                Err(full @ Error::Full { .. }) => self.compact_in_little_room(survey, full, pace),
                folded => folded,
            };
        }
        let dead = survey.dead();
        let Some(freed) = self.remove_from_run(&survey, &dead)? else { return Ok(None) };
        let mut chain = lock(&self.chain);
        // Unless another version was given up meanwhile.
        if run_below(&chain.layers(), above).len() + dead.len() == survey.run.len() {
            chain.settled.insert(above);
        }
        Ok(Some(freed))
    }

    /// Surveys the run below a live version. Where something is to be done about it, no layer refers to it any more. Another
    /// version may be given up while references are led elsewhere: then the run has grown, and they are looked for again.
    pub(crate) fn prepare(&self, above: u64, pace: Pace<'_>) -> Result<Option<Survey>, Error> {
        loop {
            match self.survey(above)? {
                Some(survey) if survey.is_work() && self.redirect(&survey, pace)? => {}
                survey => return Ok(survey),
            }
        }
    }

    /// Removes layers of a surveyed run of which nothing is needed; answers the bytes given back. `None`: the survey does not hold
    /// any more.
    fn remove_from_run(&self, survey: &Survey, dead: &[Layer]) -> Result<Option<u64>, Error> {
        let removed = self.change(&lock(&self.upkeep), &survey.change(dead), None)?;
        Ok(removed.map(|removed| removed.freed_bytes))
    }

    /// Gives back what can be had without folding, for which the disk was too `full`.
    pub(crate) fn compact_in_little_room(
        &self,
        mut survey: Survey,
        full: Error,
        pace: Pace<'_>,
    ) -> Result<Option<u64>, Error> {
        let Some(freed) = self.remove_from_run(&survey, &survey.dead())? else { return Ok(None) };
        survey.forget_dead();
        match self.trim(&survey, pace)? {
            Trimmed::Freed(more) => Ok(Some(freed + more)),
            Trimmed::Moved => Ok(None),
            Trimmed::NotWorth if freed > 0 => Ok(Some(freed)),
            Trimmed::NotWorth => Err(full),
        }
    }
}
