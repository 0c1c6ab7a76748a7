//! A cut by pages: they go straight into the archive while SQLite holds the store's state.

use std::path::Path;
use std::sync::{Arc, Mutex};

use asat_archive::{Archive, Writer};
use asat_core::check::{Check, CheckResult};
use asat_core::event::{Cut, CutFailure, Kept};
use asat_core::snapshot::{Backend, Cost, Hold, Origin};
use asat_core::version::{Attributes, Content, SetPublication};
use asat_core::{Code, PageSize, Problem, StoreName, VersionId, watch};
use asat_host::store::{Before, Checks, CutError, PageSink, Read, StillState, Told};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::hot::micros;
use super::{Machine, lock};
use crate::daemon::progress::{Meter, Storing};
use asat_wire::Progress;

/// What the archive says of the publication that a version was made for, so that a lost catalogue can be rebuilt.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::daemon) struct Note {
    pub(in crate::daemon) attributes: Attributes,
    pub(in crate::daemon) key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::daemon) checks: Vec<CheckResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::daemon) of_set: Option<SetPublication>,
}

impl Note {
    /// What of it anybody on this machine may read, as he may what a command is given: what the publication is called, of which day
    /// it is, and who vouches for it.
    pub(super) fn for_all(mut self) -> Self {
        (self.attributes.note, self.key) = (None, None);
        self.attributes.free.clear();
        self
    }
}

/// What is to be written down beside a snapshot of the version: until its pages are in the archive, nothing but the catalogue knows it
/// otherwise.
pub(super) fn told(note: &Note, cut_at: Timestamp, state: &StillState, inside: Option<&Path>) -> Vec<String> {
    let note = serde_json::to_string(note).unwrap_or_default();
    Told::of(state, cut_at, inside, note).lines()
}

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
    /// Fixes a version's content, in a snapshot where the store is cut by those.
    pub(super) fn cut_as(&self, cutting: &Cutting<'_>, origin: Option<&Origin>) -> Result<Cut, CutFailure> {
        let store = &cutting.id.store;
        let is_full = |failure: &CutFailure| failure.problem.code == Code::StorageFull;
        self.check_advice(store, origin).map_err(not_begun)?;
        let path = self.configured(store).map_err(not_begun)?.path.clone();
        let before = Before::look(&path);
        let cut = match origin {
            Some(origin) if origin.backend == Backend::Reflink => self.cut_clone(cutting, origin),
            Some(origin) => self.cut_hot(cutting, origin),
            None => self.with_room(store, is_full, || self.cut(cutting)),
        }?;
        self.seen.remember(cutting.id, &path, &cut.kept, &before);
        Ok(cut)
    }

    /// Fixes a version's content in the archive.
    pub(super) fn cut(&self, cutting: &Cutting<'_>) -> Result<Cut, CutFailure> {
        let store = self.configured(&cutting.id.store).map_err(not_begun)?;
        self.read_newest(&cutting.id.store).map_err(not_begun)?;
        self.cut_by(cutting, |checks, sink| {
            self.workers.read_checked(&store.path, &store.limits, checks, sink)
        })
    }

    /// Fixes a version's content in the archive, as `read` reads it.
    pub(super) fn cut_by(
        &self,
        cutting: &Cutting<'_>,
        read: impl FnOnce(&Checks<'_>, &mut dyn PageSink) -> Result<(Read, Vec<CheckResult>), CutError>,
    ) -> Result<Cut, CutFailure> {
        let id = cutting.id;
        let archive = self.archive(&id.store).map_err(not_begun)?;
        let meter = Meter::new(id.to_string(), "cut", "pages", self.progress_sink());
        let mut sink = Sink::new(&archive, id.number, meter);
        let (read, checks) = read(&self.asking(cutting), &mut sink).map_err(CutFailure::from)?;
        let read = Read { cut_at: self.instant(cutting, read.cut_at), ..read };
        let failed = |problem| CutFailure { begun: true, ..not_begun(problem) };
        let kept = sink.keep(cutting, &checks, &read).map_err(failed)?;
        let hold = match read.wal {
            true if read.writer_blocked.is_zero() => Hold::Nobody,
            true => Hold::Look,
            false => Hold::Read,
        };
        let cost = Cost { writer_blocked_us: micros(read.writer_blocked), hold, snapshot_us: 0 };
        Ok(Cut { cost, kept, checks })
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

/// What a cut by a snapshot fixed. The fingerprint is known once the pages are read.
pub(super) fn content(state: &StillState, cut_at: Timestamp) -> Content {
    let &StillState { page_size, page_count, wal, .. } = state;
    Content { cut_at, fingerprint: None, page_size, page_count, wal }
}

/// How a cut ends that has not begun.
pub(super) fn not_begun(problem: Problem) -> CutFailure {
    CutFailure { problem, begun: false, left: None, lacks: None }
}

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

    fn keep(self, cutting: &Cutting<'_>, checks: &[CheckResult], read: &Read) -> Result<Kept, Problem> {
        let (note, archive) = (cutting.note(checks), self.archive);
        Ok(match self.finish(cutting.id, &note, read.cut_at, read.wal, cutting.anew)? {
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
        })
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
