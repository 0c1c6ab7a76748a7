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
    /// How many pages came.
    taken: u32,
    /// Up to which page all should be as they were there, and how many of those before it are not.
    claim: Option<(u32, u32)>,
    /// How many pages are not as they should be.
    missed: u32,
    /// Told by the thread that compresses, too.
    storing: Arc<Mutex<Storing<F>>>,
}

impl<'a, F: Fn(Progress) + Send + 'static> Sink<'a, F> {
    pub(super) fn new(archive: &'a Archive, number: u64, meter: Meter<F>) -> Self {
        let storing = Arc::new(Mutex::new(Storing::new(meter)));
        Self { archive, number, writer: None, base: None, taken: 0, claim: None, missed: 0, storing }
    }

    /// Takes the word of whoever reads the pages for those that are as they were in this version.
    pub(super) fn after(self, base: u64) -> Self {
        Self { base: Some(base), ..self }
    }

    /// How many pages are not as they should be, of those that came.
    pub(super) fn missed(&mut self) -> Result<u32, Problem> {
        if let (Some((_, before)), Some(writer)) = (self.claim.take(), &mut self.writer) {
            self.missed += writer.differing()? - before;
        }
        Ok(self.missed)
    }

    /// Whether pages can be told to be as they were in the version that they were compared with.
    fn is_comparable(&self) -> bool {
        // What is in the archive may be later than that.
        let compared = self.writer.as_ref().and_then(Writer::compared_with);
        self.base.is_some() && compared == self.base
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
        // This may wait until the thread that compresses has taken a page, and that tells before it takes one.
        let changed = writer.changed()?;
        lock(&self.storing).is_read(u64::from(changed));
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
        if self.claim.is_some_and(|(until, _)| number > until) {
            self.missed()?;
        }
        self.taken = number;
        Ok(self.writer.as_mut().ok_or_else(too_early)?.page(number, page)?)
    }

    fn pages(&mut self, first: u32, pages: &[u8], page_size: PageSize) -> Result<(), Problem> {
        let count = u32::try_from(pages.len() / page_size.as_usize()).unwrap_or(u32::MAX);
        let last = first.saturating_add(count).saturating_sub(1);
        if self.claim.is_some_and(|(until, _)| last > until) {
            // The claim ends among them, or before.
            let mut pages = (first..).zip(pages.chunks_exact(page_size.as_usize()));
            return pages.try_for_each(|(number, page)| self.page(number, page));
        }
        lock(&self.storing).read(u64::from(last));
        let writer = self.writer.as_mut().ok_or_else(too_early)?;
        self.taken = last;
        Ok(writer.pages(first, pages)?)
    }

    fn same(&mut self, number: u32) -> Result<bool, Problem> {
        self.same_run(number, number)
    }

    fn same_run(&mut self, first: u32, last: u32) -> Result<bool, Problem> {
        lock(&self.storing).read(u64::from(last));
        match self.is_comparable() {
            true => {
                let Some(writer) = &mut self.writer else { return Ok(false) };
                self.taken = last;
                Ok(writer.same_run(first, last)?)
            }
            false => Ok(false),
        }
    }

    fn claim(&mut self, count: u32) -> Result<(), Problem> {
        self.missed()?;
        if self.is_comparable()
            && let Some(writer) = &mut self.writer
        {
            self.claim = Some((self.taken.saturating_add(count), writer.differing()?));
        }
        Ok(())
    }
}

fn too_early() -> Problem {
    Problem::new(Code::Internal, "a page came before the first", "report this as a defect")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Pages of a batch for the thread that compresses, and how many are looked at together.
    const BATCH: u32 = 128;
    const TOGETHER: u32 = 16;

    /// Its last pages complete a batch when everything before waits to be compressed.
    #[test]
    fn a_version_ends_though_the_thread_that_compresses_has_its_hands_full() {
        let folder = tempfile::tempdir().unwrap();
        let (archive, _) = Archive::open(folder.path()).unwrap();
        let (ended, end) = channel();
        thread::spawn(move || {
            let count = 60 * BATCH + TOGETHER / 2;
            // What cannot be compressed takes longest.
            let page = |number: u32, round: u32| {
                let round = if number <= TOGETHER / 2 { 0 } else { round };
                let mut random = u64::from(number) << 32 | u64::from(round) | 1;
                let next = |_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    random.to_be_bytes()[0]
                };
                (0..4096).map(next).collect::<Vec<u8>>()
            };
            for round in 1..3 {
                let meter = Meter::new("report".to_owned(), "cut", "pages", |_| {});
                let mut sink = Sink::new(&archive, u64::from(round), meter);
                sink.begin(PageSize::new(4096).unwrap(), count).unwrap();
                let pages: Vec<(u32, Vec<u8>)> =
                    (1..=count).map(|number| (number, page(number, round))).collect();
                pages.iter().for_each(|(number, page)| sink.page(*number, page).unwrap());
                let id = VersionId { store: "report".parse().unwrap(), number: u64::from(round) };
                let cut_at = "2026-11-29T17:00:00Z".parse().unwrap();
                ended.send(sink.finish(&id, &Note::default(), cut_at, true, false).map(drop)).unwrap();
            }
        });
        for _ in 0..2 {
            end.recv_timeout(Duration::from_secs(120)).expect("it ends").unwrap();
        }
    }
}
