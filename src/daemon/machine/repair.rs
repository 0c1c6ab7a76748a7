//! What is damaged in an archive is put right: pages and versions that the store or a snapshot of it still has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asat_archive::{Archive, Check, Contents, Fingerprinter, Meta, PutRight, Rebuild, Remedy, Report, check};
use asat_core::event::{CutFailure, Mended, Repaired};
use asat_core::harm::Finding;
use asat_core::register::Headline;
use asat_core::version::{Content, State};
use asat_core::{Code, Fingerprint, PageSize, Problem, StoreName, VersionId};
use asat_host::store::PageSink;

use super::{Machine, lock};
use crate::daemon::archives::{self, Note};
use crate::daemon::progress::Meter;

/// So much is held in memory at most; what is more is put right in the next pass.
const MOST_BYTES: usize = 64 << 20;

/// A disk that gives back something else whenever it is written to ends no repair.
const MOST_PASSES: usize = 16;

impl Machine {
    /// Verifies what is kept of a store, or what one version of it needs; answers also how many bytes were read. Nothing is changed.
    ///
    /// # Errors
    /// If the archive cannot be read at all, the caller has gone, or the daemon stops.
    pub fn verify(
        &self,
        store: &StoreName,
        number: Option<u64>,
        gone: &AtomicBool,
    ) -> Result<(Report, u64), Problem> {
        self.read_through(store, number, "verify", || {
            let is_gone = gone.load(Ordering::Relaxed);
            if is_gone {
                tracing::info!(store = %store, "the verification of {store} is stopped: its caller has gone");
            }
            is_gone
        })
    }

    fn read_through(
        &self,
        store: &StoreName,
        number: Option<u64>,
        phase: &str,
        is_over: impl Fn() -> bool,
    ) -> Result<(Report, u64), Problem> {
        let archive = self.archives.of(store)?;
        let mut meter = Meter::new(store.to_string(), phase, "bytes", |progress| self.tell(progress));
        let mut read = 0;
        let mut report = archive.verify(number, &mut |done, total| {
            read = done;
            meter.expect(total);
            meter.reach(done);
            if is_over() { ControlFlow::Break(()) } else { self.until_stopped() }
        })?;
        if number.is_none() {
            let missing = self.unheld(store, &archive).into_iter();
            report.findings.extend(missing.map(|number| of_missing(store, &archive, number)));
            let others = self.archives.of_another_history(store, &archive).into_iter();
            report.findings.extend(others.map(|number| of_other(store, &archive, number)));
        }
        if !report.findings.is_empty() {
            self.distrust(store);
        }
        Ok((report, read))
    }

    fn until_stopped(&self) -> ControlFlow<()> {
        if self.stopping.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Finds out what is damaged in a store's archive, puts right what can be, and looks what is left.
    ///
    /// # Errors
    /// If the archive cannot be read at all, the daemon stops, or nothing could be put right and what may have the content could not be
    /// read.
    pub(super) fn repair(&self, store: &StoreName) -> Result<Repaired, Problem> {
        let archive = self.archives.of(store)?;
        let look = || self.read_through(store, None, "repair", || false).map(|(report, _)| report);
        let (mut repaired, mut report) = (Repaired::default(), look()?);
        for _ in 0..MOST_PASSES {
            if report.findings.is_empty() {
                break;
            }
            let (mended, trouble) = self.mend(store, &archive, &report);
            if mended.is_empty() {
                let is_stopped = |problem: &Problem| problem.code == Code::Stopping;
                match trouble.filter(|trouble| repaired.mended.is_empty() || is_stopped(trouble)) {
                    // It may be there, and could not be had at this moment.
                    Some(problem) => return Err(problem),
                    None => break,
                }
            }
            repaired.mended.extend(mended);
            report = look()?;
        }
        repaired.left = found(&report);
        if !repaired.mended.is_empty() {
            let unreadable = affected(&report);
            repaired.readable =
                archive.live().into_iter().filter(|number| !unreadable.contains(number)).collect();
        }
        Ok(repaired)
    }

    /// Puts right what can be of what a report names; answers what was, and what was in the way of more. That the store cannot be read
    /// does not keep what the snapshots have from being used.
    fn mend(&self, name: &StoreName, archive: &Archive, report: &Report) -> (Vec<Mended>, Option<Problem>) {
        let Gather { found, from, content, mut trouble, .. } = self.gather(name, report);
        let put_right =
            archive.repair(&report.damage, &found, &mut |_| self.until_stopped()).unwrap_or_else(|error| {
                tracing::warn!(store = %name, %error, "{name}: cannot write what is damaged anew");
                trouble = Some(error.into());
                Vec::new()
            });
        let mended = |PutRight { number, file, by }: PutRight| {
            let from = match by {
                Remedy::Itself => "itself, as all its pages come out".to_owned(),
                Remedy::Pages(pages) => {
                    let sources: BTreeSet<&str> =
                        pages.iter().filter_map(|check| from.get(check)).map(String::as_str).collect();
                    sources.into_iter().collect::<Vec<_>>().join(" and ")
                }
            };
            Mended { version: number, file: file.display().to_string(), from }
        };
        let mut all: Vec<Mended> = put_right.into_iter().map(mended).collect();
        if report.damage.records {
            match self.write_records_anew(name) {
                Ok(()) => all.push(Mended {
                    version: archive.newest().unwrap_or(0),
                    file: "its file with later publications, pins and tags".to_owned(),
                    from: "the catalogue".to_owned(),
                }),
                Err(problem) => trouble = Some(problem),
            }
        }
        let lost = affected(report).into_iter();
        all.extend(lost.filter_map(|number| self.put_back(name, archive, number, content)));
        match self.forget_unread(name, archive) {
            Ok(forgotten) => all.extend(forgotten),
            Err(problem) => trouble = Some(problem),
        }
        (all, trouble)
    }

    /// Deletes files that were written last and cannot be read, if all versions are there that the records say are archived.
    fn forget_unread(&self, store: &StoreName, archive: &Archive) -> Result<Vec<Mended>, Problem> {
        let Some(newest) = archive.newest().filter(|_| self.driver.get().is_some()) else {
            return Ok(Vec::new());
        };
        if !self.unheld(store, archive).is_empty() {
            return Ok(Vec::new());
        }
        let from = "the other files, as they have all versions".to_owned();
        let mended =
            |file: PathBuf| Mended { version: newest, file: file.display().to_string(), from: from.clone() };
        Ok(archive.forget_unread()?.into_iter().map(mended).collect())
    }

    /// Writes a version anew that cannot be put together any more, and that its snapshot or the store, of this content, is still.
    fn put_back(
        &self,
        name: &StoreName,
        archive: &Archive,
        number: u64,
        content: Option<Fingerprint>,
    ) -> Option<Mended> {
        let id = VersionId { store: name.clone(), number };
        let meta = archive.describe(number).ok().or_else(|| self.recorded(&id))?;
        let fingerprint = meta.fingerprint;
        let anew = |read: &dyn Fn(&mut Anew<'_>) -> Result<(), Problem>, from: String| {
            // It may have lacked what is put right by now.
            if archive.read(number).and_then(|reader| reader.fingerprint()).is_ok() {
                return None;
            }
            let file = self.write_anew(archive, &meta, read).unwrap_or_else(|problem| {
                tracing::debug!(version = %id, %problem, "{id}: cannot be written anew");
                None
            })?;
            Some(Mended { version: number, file: file.display().to_string(), from })
        };
        let from_snapshot =
            |hot| anew(&|sink: &mut Anew<'_>| self.read_hot(&id, &hot, sink), of_snapshot(&id));
        // The store is read for no version that it is not: that may be thousands.
        let from_store = || {
            let read = |sink: &mut Anew<'_>| self.gather_from_store(name, sink);
            (content == Some(fingerprint)).then(|| anew(&read, STORE.to_owned())).flatten()
        };
        self.hot(&id).ok().and_then(from_snapshot).or_else(from_store)
    }

    /// Writes a version anew from what `read` hands over; answers its file. A version that somebody writes meanwhile is waited for, as it
    /// may lie upon this one.
    pub(super) fn write_anew(
        &self,
        archive: &Archive,
        meta: &Meta,
        read: impl Fn(&mut Anew<'_>) -> Result<(), Problem>,
    ) -> Result<Option<PathBuf>, Problem> {
        let read = |rebuild: &mut Rebuild| {
            read(&mut Anew(rebuild))?;
            while !archive.wait_for_writer(Duration::from_secs(1)) {
                if self.until_stopped().is_break() {
                    return Err(asat_archive::Error::Stopped.into());
                }
            }
            Ok(())
        };
        let mut passes = 1..MOST_PASSES;
        loop {
            // One that lives may be given up at any moment, and is not to come back then.
            match archive.put_back(meta.clone(), archive.contains(meta.number), read) {
                // Somebody has begun one since.
                Err(problem) if problem.code == Code::InUse && passes.next().is_some() => {}
                written => return written,
            }
        }
    }

    /// What is recorded of a version that the archive does not know any more.
    fn recorded(&self, id: &VersionId) -> Option<Meta> {
        let engine = self.driver.get()?.engine();
        let entry = engine.register().entry(id).ok()?;
        let Content { cut_at, fingerprint, page_size, page_count, wal } = entry.version.content.clone()?;
        let publication = entry.publications.first()?;
        let note = serde_json::to_value(Note {
            attributes: publication.attributes.clone(),
            key: publication.key.clone(),
            checks: publication.checks.clone(),
            of_set: publication.of_set.clone(),
        });
        let (store, number, fingerprint, note) = (id.store.clone(), id.number, fingerprint?, note.ok()?);
        Some(Meta { store, number, page_size, page_count, fingerprint, wal, cut_at, note })
    }

    /// The versions that are recorded as archived, and that the archive knows nothing of.
    fn unheld(&self, store: &StoreName, archive: &Archive) -> Vec<u64> {
        let Some(driver) = self.driver.get() else { return Vec::new() };
        let live: BTreeSet<u64> = archive.live().into_iter().collect();
        let engine = driver.engine();
        let headlines =
            engine.register().history(store).into_iter().flat_map(|history| history.versions.headlines());
        let is_held = |version: &&Headline| {
            version.is_archived
                && (version.is_in_grace || matches!(version.state, State::Ready | State::Lost))
        };
        let held = headlines.filter(is_held).map(|version| version.number);
        held.filter(|number| !live.contains(number)).collect()
    }

    /// The pages that are wanted, as far as the store or one of its snapshots has them; and what the store is.
    fn gather(&self, name: &StoreName, report: &Report) -> Gather {
        let mut sink = Gather { wanted: report.damage.wanted().collect(), ..Gather::default() };
        STORE.clone_into(&mut sink.source);
        match self.gather_from_store(name, &mut sink) {
            Ok(()) => sink.content = sink.fingerprinter.take().map(|pages| pages.finish()),
            Err(problem) => {
                tracing::warn!(store = %name, %problem, "{name}: cannot look in the store for what is damaged");
                sink.trouble = Some(problem);
            }
        }
        let snapshots: Vec<_> = lock(&self.hot).iter().map(|(id, hot)| (id.clone(), hot.clone())).collect();
        for (id, hot) in snapshots.iter().filter(|(id, _)| id.store == *name) {
            sink.source = of_snapshot(id);
            if !sink.wanted.is_empty()
                && let Err(problem) = self.read_hot(id, hot, &mut sink)
            {
                tracing::warn!(version = %id, %problem, "{id}: cannot look in its snapshot for what is damaged");
                sink.trouble = Some(problem);
            }
        }
        sink
    }

    fn gather_from_store(&self, name: &StoreName, sink: &mut dyn PageSink) -> Result<(), Problem> {
        let store = self.configured(name)?;
        let read = self.workers.read_pages(&store.path, &store.limits, &self.stopping, sink);
        read.map(drop).map_err(|error| CutFailure::from(error).problem)
    }
}

const STORE: &str = "the store";

fn of_snapshot(id: &VersionId) -> String {
    format!("the snapshot of {id}")
}

/// The versions that a report says cannot be read whole.
fn affected(report: &Report) -> BTreeSet<u64> {
    report.findings.iter().flat_map(|finding| finding.affects.iter().copied()).collect()
}

/// What is said of a version of which the archive has nothing.
fn of_missing(store: &StoreName, archive: &Archive, number: u64) -> asat_archive::Finding {
    asat_archive::Finding {
        file: archive.folder().to_owned(),
        what: format!("no file of the archive has {store}@{number}"),
        affects: vec![number],
        advice:
            "put the file back from a backup, import an export of the version, or retire it (docs/recover.md)"
                .to_owned(),
    }
}

/// What is said of a version of which the archive has another one than was certified.
fn of_other(store: &StoreName, archive: &Archive, number: u64) -> asat_archive::Finding {
    let id = VersionId { store: store.clone(), number };
    asat_archive::Finding {
        file: archive.folder().to_owned(),
        what: archives::of_another_history(&id),
        affects: vec![number],
        advice: archives::ADVICE.to_owned(),
    }
}

/// What a report names, as the records keep it.
#[must_use]
pub fn found(report: &Report) -> Vec<Finding> {
    let finding = |finding: &asat_archive::Finding| Finding {
        file: finding.file.display().to_string(),
        what: finding.what.clone(),
        versions: finding.affects.clone(),
    };
    report.findings.iter().map(finding).collect()
}

/// Hands over the content of a version, which it may be.
pub(super) struct Anew<'a>(pub(super) &'a mut Rebuild);

impl PageSink for Anew<'_> {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        let meta = self.0.meta();
        if (meta.page_size, meta.page_count) == (page_size, page_count) {
            return Ok(());
        }
        Err(Problem::new(Code::Invalid, "the content is another, of another size", ""))
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        Ok(self.0.page(page)?)
    }
}

/// Keeps the pages that are wanted, and which source had each.
#[derive(Default)]
struct Gather {
    wanted: BTreeSet<Check>,
    /// What is read at the moment.
    source: String,
    found: Contents,
    from: BTreeMap<Check, String>,
    /// Of what is read at the moment.
    fingerprinter: Option<Fingerprinter>,
    /// What the store is.
    content: Option<Fingerprint>,
    /// Why a source could not be read.
    trouble: Option<Problem>,
    bytes: usize,
}

impl PageSink for Gather {
    fn begin(&mut self, page_size: PageSize, page_count: u32) -> Result<(), Problem> {
        self.fingerprinter = Some(Fingerprinter::new(page_size, page_count));
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        self.fingerprinter.as_mut().into_iter().for_each(|pages| _ = pages.page(page));
        let check = check(page);
        if self.bytes < MOST_BYTES && self.wanted.remove(&check) {
            self.bytes += page.len();
            self.found.insert(check, page.to_vec());
            self.from.insert(check, self.source.clone());
        }
        Ok(())
    }
}
