//! A cut: the store's pages go straight into the archive while SQLite holds their state.

use std::path::PathBuf;
use std::sync::PoisonError;

use asat_archive::{Archive, Writer};
use asat_core::event::{Cut, CutFailure, Kept};
use asat_core::version::Content;
use asat_core::{Code, PageSize, Problem, StoreName, VersionId};
use asat_host::store::{Limits, PageSink, Read, read_pages};
use jiff::{SignedDuration, Timestamp};

use super::{Machine, Note};
use crate::daemon::progress::Meter;
use crate::wire::Progress;

impl Machine {
    pub(super) fn cut(
        &self,
        id: &VersionId,
        note: &Note,
        after: Option<Timestamp>,
    ) -> Result<Cut, CutFailure> {
        let refused = |problem| CutFailure { problem, begun: false };
        let (path, limits) = self.configured(&id.store).map_err(refused)?;
        let archive = self.archive(&id.store).map_err(refused)?;
        let meter = Meter::new(id.to_string(), "cut", "pages", |progress| self.tell(progress));
        let mut sink = Sink { archive, number: id.number, writer: None, meter };
        let read = read_pages(path, limits, &self.stopping, &mut sink).map_err(CutFailure::from)?;
        let read = Read { cut_at: self.in_order(&id.store, after, read.cut_at), ..read };
        let kept = keep(sink, id, note, &read).map_err(|problem| CutFailure { problem, begun: true })?;
        let blocked = u64::try_from(read.writer_blocked.as_micros()).unwrap_or(u64::MAX);
        Ok(Cut { writer_blocked_us: blocked, kept })
    }

    /// Where a store is, and how long one may wait for it.
    pub(super) fn configured(&self, store: &StoreName) -> Result<&(PathBuf, Limits), Problem> {
        self.stores.get(store).ok_or_else(|| {
            let detail = format!("store {store} is not configured");
            Problem::new(Code::UnknownStore, detail, "add it to the configuration")
        })
    }

    /// The cut instant, after the store's last one even where the machine's clock was set back.
    fn in_order(&self, store: &StoreName, after: Option<Timestamp>, cut_at: Timestamp) -> Timestamp {
        let mut last = self.last_cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let tick = SignedDuration::from_micros(1);
        let floor = last.get(store).copied().max(after).and_then(|last| last.checked_add(tick).ok());
        let cut_at = floor.map_or(cut_at, |floor| floor.max(cut_at));
        last.insert(store.clone(), cut_at);
        cut_at
    }
}

/// Hands the pages of a cut to the archive.
struct Sink<'a, F: Fn(Progress)> {
    archive: &'a Archive,
    number: u64,
    writer: Option<Writer>,
    meter: Meter<F>,
}

impl<F: Fn(Progress)> PageSink for Sink<'_, F> {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.meter.expect(u64::from(page_count));
        self.writer = Some(self.archive.begin(self.number, page_size, page_count)?);
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        self.meter.reach(u64::from(number));
        match &mut self.writer {
            Some(writer) => Ok(writer.page(number, page)?),
            None => {
                Err(Problem::new(Code::Internal, "a page came before the first", "report this as a defect"))
            }
        }
    }
}

/// Ends a cut: its pages are all there, and the store is free again.
fn keep<F: Fn(Progress)>(
    sink: Sink<'_, F>,
    id: &VersionId,
    note: &Note,
    read: &Read,
) -> Result<Kept, Problem> {
    let internal = |what: String| Problem::new(Code::Internal, what, "report this as a defect");
    let writer = sink.writer.ok_or_else(|| internal(format!("{id} was cut without pages")))?;
    let note = serde_json::to_value(note).map_err(|error| internal(error.to_string()))?;
    let cut = asat_archive::Cut { store: id.store.clone(), cut_at: read.cut_at, wal: read.wal, note };
    Ok(match writer.finish(cut)? {
        asat_archive::Kept::Unchanged { same_as, .. } => Kept::SameAs(same_as),
        asat_archive::Kept::Stored { fingerprint, bytes, .. } => Kept::Stored {
            content: Content {
                cut_at: read.cut_at,
                fingerprint,
                page_size: read.page_size,
                page_count: read.page_count,
                wal: read.wal,
            },
            bytes,
        },
    })
}
