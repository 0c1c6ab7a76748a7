//! A restore: a version is laid down as a file of its own, and SQLite writes it over the store.

use std::sync::{Mutex, PoisonError};

use asat_archive::Fingerprinter;
use asat_core::{Fingerprint, PageSize, Problem, VersionId};
use asat_host::scratch::Scratch;
use asat_host::store::{PageSink, Restoring, read_pages, restore};

use super::Machine;
use crate::daemon::progress::Meter;

impl Machine {
    /// Brings the store back to `id`, provided that it is as it was at `before`. Answers for how many microseconds
    /// writers could have been held.
    pub(super) fn restore(&self, id: &VersionId, before: &VersionId) -> Result<u64, Problem> {
        let (path, limits) = self.configured(&id.store)?;
        let kept = self.archive(&before.store)?.read(before.number)?.meta().fingerprint;
        let source = self.lay_down(id)?;
        let mut meter = Meter::new(id.to_string(), "restore", "pages", |progress| self.tell(progress));
        let mut told = |done: u32, total: u32| {
            meter.expect(u64::from(total));
            meter.reach(u64::from(done));
        };
        let unchanged = || {
            let mut sink = Fingerprinting::default();
            read_pages(path, limits, &self.stopping, &mut sink).map_err(|failed| failed.error)?;
            Ok(sink.finish() == Some(kept))
        };
        let restoring = Restoring { source: source.path(), limits, cancel: &self.stopping };
        let held = restore(path, &restoring, unchanged, &mut told)?;
        Ok(u64::try_from(held.as_micros()).unwrap_or(u64::MAX))
    }

    /// Writes a version into a file that nobody else uses; every page of it is verified.
    fn lay_down(&self, id: &VersionId) -> Result<Scratch, Problem> {
        let reader = self.archive(&id.store)?.read(id.number)?;
        let (scratch, file) = Scratch::create(&self.scratch, &format!("{id}.db"))?;
        let mut meter = Meter::new(id.to_string(), "copy", "bytes", |progress| self.tell(progress));
        meter.expect(reader.len());
        let meter = Mutex::new(meter);
        let told = |done| meter.lock().unwrap_or_else(PoisonError::into_inner).reach(done);
        reader.write_to_file(&file, scratch.path(), &told)?;
        Ok(scratch)
    }
}

/// Takes the fingerprint of a store's content.
#[derive(Default)]
struct Fingerprinting(Option<Fingerprinter>);

impl Fingerprinting {
    fn finish(&self) -> Option<Fingerprint> {
        self.0.as_ref().map(Fingerprinter::finish)
    }
}

impl PageSink for Fingerprinting {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.0 = Some(Fingerprinter::new(page_size, page_count));
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        if let Some(fingerprinter) = &mut self.0 {
            fingerprinter.page(page);
        }
        Ok(())
    }
}
