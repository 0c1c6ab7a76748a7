//! A cut by pages: they go straight into the archive while SQLite holds the store's state.

use asat_archive::Archive;
use asat_core::Problem;
use asat_core::check::CheckResult;
use asat_core::event::{Cut, CutFailure, Kept};
use asat_core::snapshot::{Cost, Hold};
use asat_core::version::Content;
use asat_host::store::{Checks, CutError, PageSink, Read};

use super::Machine;
use super::configured::Store;
use super::cut::{Cutting, micros, not_begun};
use super::sink::Sink;
use crate::daemon::progress::Meter;

impl Machine {
    /// Fixes a version's content in the archive.
    pub(super) fn cut_by_pages(&self, cutting: &Cutting<'_>, store: &Store) -> Result<Cut, CutFailure> {
        self.read_newest(&cutting.id.store).map_err(not_begun)?;
        match self.track_of(store) {
            Some(track) => self.cut_tracked(cutting, store, track),
            None => self.cut_whole(cutting, store),
        }
    }

    /// Fixes a version's content in the archive, and reads all of the store.
    pub(super) fn cut_whole(&self, cutting: &Cutting<'_>, store: &Store) -> Result<Cut, CutFailure> {
        self.store_pages(cutting, |checks, sink| {
            self.workers.read_checked(&store.path, &store.limits, checks, sink)
        })
    }

    /// Fixes a version's content in the archive, as `read` reads it.
    pub(super) fn store_pages(
        &self,
        cutting: &Cutting<'_>,
        read: impl FnOnce(&Checks<'_>, &mut dyn PageSink) -> Result<(Read, Vec<CheckResult>), CutError>,
    ) -> Result<Cut, CutFailure> {
        let mut pages = 0;
        let counting = |checks: &Checks<'_>, sink: &mut dyn PageSink| {
            let (read, results) = read(checks, sink)?;
            pages = read.page_count;
            Ok((read, results))
        };
        let (cut, _) = self.store_pages_after(cutting, None, counting)?;
        self.metrics.read(&cutting.id.store, true, pages);
        Ok(cut)
    }

    /// The same, where `read` may leave out the pages that are as they were in this version. Answers besides how many should have been, and
    /// are not.
    pub(super) fn store_pages_after(
        &self,
        cutting: &Cutting<'_>,
        base: Option<u64>,
        read: impl FnOnce(&Checks<'_>, &mut dyn PageSink) -> Result<(Read, Vec<CheckResult>), CutError>,
    ) -> Result<(Cut, u32), CutFailure> {
        let (id, _under_way) = (cutting.id, self.precedence.cut());
        let archive = self.archives.of(&id.store).map_err(not_begun)?;
        let meter = Meter::new(id.to_string(), "cut", "pages", self.progress_sink());
        let sink = Sink::new(&archive, id.number, meter);
        let mut sink = match base {
            Some(base) => sink.after(base),
            None => sink,
        };
        let (read, checks) = read(&self.asking(cutting), &mut sink).map_err(CutFailure::from)?;
        let read = Read { cut_at: self.instant(cutting, read.cut_at), ..read };
        let failed = |problem: Problem| CutFailure { begun: true, ..not_begun(problem) };
        let missed = sink.missed().map_err(failed)?;
        let stored = sink.finish(id, &cutting.note(&checks), read.cut_at, read.wal, cutting.anew);
        let kept = kept(stored.map_err(failed)?, &archive, &read);
        let hold = match read.wal {
            true if read.writer_blocked.is_zero() => Hold::Nobody,
            true => Hold::Look,
            false => Hold::Read,
        };
        let cost = Cost { writer_blocked_us: micros(read.writer_blocked), hold, snapshot_us: 0 };
        Ok((Cut { cost, kept, checks }, missed))
    }
}

/// What was kept of a store as it was read.
fn kept(stored: asat_archive::Kept, archive: &Archive, read: &Read) -> Kept {
    match stored {
        asat_archive::Kept::Unchanged { same_as, .. } => Kept::SameAs(same_as),
        asat_archive::Kept::Stored { fingerprint, bytes, .. } => Kept::Stored {
            content: Content {
                cut_at: read.cut_at,
                fingerprint: Some(fingerprint),
                page_size: read.page_size,
                page_count: read.page_count,
                wal: read.wal,
            },
            bytes,
            worth_compacting: archive.is_worth_compacting(),
        },
    }
}
