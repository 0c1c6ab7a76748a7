//! A cut: a version's content is fixed as it was at one instant.

use std::time::Duration;

use asat_core::check::{Check, CheckResult};
use asat_core::event::{Cut, CutFailure};
use asat_core::snapshot::Origin;
use asat_core::{Code, Problem, StoreName, VersionId, watch};
use asat_host::store::{Before, Checks};
use jiff::{SignedDuration, Timestamp};

use super::{Machine, lock};
use crate::daemon::archives::Note;

/// What is to be cut.
pub(super) struct Cutting<'a> {
    /// The version to be.
    pub(super) id: &'a VersionId,
    /// What is said of its publication.
    pub(super) note: Note,
    /// The cut instant lies after this.
    pub(super) after: Option<Timestamp>,
    /// What the content must meet.
    pub(super) checks: &'a [Check],
    /// The cut instant, where it is known already: that of a set.
    pub(super) at: Option<Timestamp>,
    /// Whether it becomes a version of its own although nothing has changed.
    pub(super) anew: bool,
}

impl Cutting<'_> {
    /// What the archive says of the publication, once the content is known to meet the checks.
    pub(super) fn note(&self, checks: &[CheckResult]) -> Note {
        let attributes = watch::as_found(&self.note.attributes, checks);
        Note { checks: checks.to_vec(), attributes, ..self.note.clone() }
    }
}

impl Machine {
    /// Fixes a version's content: in a snapshot if the store is cut by one, or else in the archive.
    pub(super) fn cut_as(&self, cutting: &Cutting<'_>, origin: Option<&Origin>) -> Result<Cut, CutFailure> {
        let name = &cutting.id.store;
        let is_full = |failure: &CutFailure| failure.problem.code == Code::StorageFull;
        self.check_room(name).map_err(not_begun)?;
        let store = self.configured(name).map_err(not_begun)?;
        let before = Before::look(&store.path);
        let cut = match origin {
            Some(origin) => self.cut_by_snapshot(cutting, &store, origin),
            None => self.with_room(name, is_full, || self.cut_by_pages(cutting, &store)),
        }?;
        self.seen.remember(cutting.id, &store.path, &cut.kept, &before);
        Ok(cut)
    }

    /// The checks of a cut, which end where the daemon stops.
    pub(super) fn asking<'a>(&'a self, cutting: &Cutting<'a>) -> Checks<'a> {
        Checks { checks: cutting.checks, cancel: &self.stopping }
    }

    /// The cut instant.
    pub(super) fn instant(&self, cutting: &Cutting<'_>, cut_at: Timestamp) -> Timestamp {
        cutting.at.unwrap_or_else(|| self.in_order(&[&cutting.id.store], cutting.after, cut_at))
    }

    /// The instant of a cut of these stores, as it is believed, and after the last one of each even where the machine's clock was
    /// set back.
    pub(super) fn in_order(
        &self,
        stores: &[&StoreName],
        after: Option<Timestamp>,
        cut_at: Timestamp,
    ) -> Timestamp {
        let cut_at = self.believed().corrected(cut_at);
        let mut last = lock(&self.last_cuts);
        let tick = SignedDuration::from_micros(1);
        let latest = stores.iter().filter_map(|store| last.get(*store).copied()).max();
        let floor = latest.max(after).and_then(|last| last.checked_add(tick).ok());
        let cut_at = floor.map_or(cut_at, |floor| floor.max(cut_at));
        last.extend(stores.iter().map(|store| ((*store).clone(), cut_at)));
        cut_at
    }
}

/// How a cut ends that has not begun.
pub(super) fn not_begun(problem: Problem) -> CutFailure {
    CutFailure { problem, begun: false, left: None, lacks: None }
}

/// So many whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
