//! A restore: a version is laid down as a file of its own, and SQLite writes it over the store.

use asat_core::{Problem, VersionId};
use asat_host::scratch::Scratch;
use asat_host::store::Restoring;

use super::Machine;
use super::configured::Store;
use super::source::Fingerprinting;
use crate::daemon::progress::Meter;

impl Machine {
    /// Brings the store back to `id`, provided that it is as it was at `before`. Answers for how many microseconds
    /// writers could have been held.
    pub(super) fn restore(&self, id: &VersionId, before: &VersionId) -> Result<u64, Problem> {
        let store = self.configured(&id.store)?;
        let Store { path, limits, .. } = &*store;
        let kept = self.fingerprint(before)?;
        let source = self.lay_down(id)?;
        let mut meter = Meter::new(id.to_string(), "restore", "pages", |progress| self.tell(progress));
        let mut told = |done: u32, total: u32| {
            meter.expect(u64::from(total));
            meter.reach(u64::from(done));
        };
        let unchanged = || {
            let mut sink = Fingerprinting::default();
            let read = self.workers.read_pages(path, limits, &self.stopping, &mut sink);
            read.map_err(|failed| failed.error)?;
            Ok(kept.is_some() && sink.finish() == kept)
        };
        let restoring = Restoring { source: source.path(), limits, cancel: &self.stopping };
        // A process that has the store open keeps others from having it for themselves.
        self.tracking.close(&id.store);
        let held = self.workers.restore(path, &restoring, unchanged, &mut told)?;
        Ok(u64::try_from(held.as_micros()).unwrap_or(u64::MAX))
    }

    /// Writes a version into a file that nobody else uses; every page of it is verified.
    fn lay_down(&self, id: &VersionId) -> Result<Scratch, Problem> {
        let (scratch, file) = Scratch::create(&self.scratch, &format!("{id}.db"))?;
        self.write_out(id, &file, scratch.path())?;
        Ok(scratch)
    }
}
