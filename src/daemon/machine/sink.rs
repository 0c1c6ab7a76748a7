//! Pages on their way into the archive, be it out of a store or out of a snapshot of it.

use std::sync::{Arc, Mutex};

use asat_archive::{Archive, Writer};
use asat_core::{Code, PageSize, Problem, VersionId};
use asat_host::store::PageSink;
use asat_wire::Progress;
use jiff::Timestamp;

use super::lock;
use crate::daemon::archives::Note;
use crate::daemon::progress::{Meter, Storing};

/// Hands the pages of a version to the archive.
pub(super) struct Sink<'a, F: Fn(Progress) + Send + 'static> {
    archive: &'a Archive,
    number: u64,
    writer: Option<Writer>,
    /// The version whose unchanged pages need not come, where there is one.
    base: Option<u64>,
    /// Told by the thread that compresses, too.
    storing: Arc<Mutex<Storing<F>>>,
}

impl<'a, F: Fn(Progress) + Send + 'static> Sink<'a, F> {
    pub(super) fn new(archive: &'a Archive, number: u64, meter: Meter<F>) -> Self {
        let storing = Arc::new(Mutex::new(Storing::new(meter)));
        Self { archive, number, writer: None, base: None, storing }
    }

    /// Takes the word of whoever reads the pages for those that are as they were in this version.
    pub(super) fn after(self, base: u64) -> Self {
        Self { base: Some(base), ..self }
    }

    /// Ends the version: its pages are all there.
    pub(super) fn finish(
        self,
        id: &VersionId,
        note: &Note,
        cut_at: Timestamp,
        wal: bool,
        even_if_unchanged: bool,
    ) -> Result<asat_archive::Kept, Problem> {
        let internal = |what: String| Problem::new(Code::Internal, what, "report this as a defect");
        let mut writer = self.writer.ok_or_else(|| internal(format!("{id} was cut without pages")))?;
        let note = serde_json::to_value(note).map_err(|error| internal(error.to_string()))?;
        let store = id.store.clone();
        lock(&self.storing).is_read(u64::from(writer.changed()?));
        Ok(writer.finish(asat_archive::Cut { store, cut_at, wal, note, even_if_unchanged })?)
    }
}

impl<F: Fn(Progress) + Send + 'static> PageSink for Sink<'_, F> {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        lock(&self.storing).expect(u64::from(page_count));
        let (mut writer, storing) =
            (self.archive.begin(self.number, page_size, page_count)?, Arc::clone(&self.storing));
        writer.tell(Arc::new(move |pages| lock(&storing).stored(pages)));
        self.writer = Some(writer);
        Ok(())
    }

    fn hurry(&mut self) -> Result<(), Problem> {
        self.writer.iter_mut().for_each(Writer::hurry);
        Ok(())
    }

    fn page(&mut self, number: u32, page: &[u8]) -> Result<(), Problem> {
        lock(&self.storing).read(u64::from(number));
        match &mut self.writer {
            Some(writer) => Ok(writer.page(number, page)?),
            None => {
                Err(Problem::new(Code::Internal, "a page came before the first", "report this as a defect"))
            }
        }
    }

    fn same(&mut self, number: u32) -> Result<bool, Problem> {
        lock(&self.storing).read(u64::from(number));
        match &mut self.writer {
            // What is in the archive may be later than the clone that the pages were compared with.
            Some(writer) if self.base.is_some() && writer.compared_with() == self.base => {
                Ok(writer.same(number)?)
            }
            _ => Ok(false),
        }
    }
}
