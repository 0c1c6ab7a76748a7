//! What is damaged in an archive is put right: pages that the store or a snapshot of it still has, and a flipped bit around them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use asat_archive::fingerprint::{Fingerprinter, PageHash, page_hash};
use asat_archive::{Archive, Contents, PutRight, Rebuild, Remedy, Report};
use asat_core::event::{CutFailure, Mended, Repaired};
use asat_core::harm::Finding;
use asat_core::{Code, Fingerprint, PageSize, Problem, StoreName, VersionId};
use asat_host::store::PageSink;

use super::{Machine, lock};
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
        let archive = self.archive(store)?;
        let mut meter = Meter::new(store.to_string(), phase, "bytes", |progress| self.tell(progress));
        let mut read = 0;
        let report = archive.verify(number, &mut |done, total| {
            read = done;
            meter.expect(total);
            meter.reach(done);
            if is_over() { ControlFlow::Break(()) } else { self.until_stopped() }
        })?;
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
        let archive = self.archive(store)?;
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
            let unreadable: BTreeSet<u64> =
                archive.unreadable().into_iter().map(|(number, _)| number).collect();
            repaired.readable =
                archive.live().into_iter().filter(|number| !unreadable.contains(number)).collect();
        }
        Ok(repaired)
    }

    /// Puts right what can be of what a report names; answers what was, and what was in the way of more. That the store cannot be read
    /// does not keep what the snapshots have from being used.
    fn mend(&self, name: &StoreName, archive: &Archive, report: &Report) -> (Vec<Mended>, Option<Problem>) {
        // What a newer asat has written is not damaged.
        let lost = archive.unreadable().into_iter().filter(|(_, error)| error.is_loss());
        let lost: Vec<u64> = lost.map(|(number, _)| number).collect();
        let Gather { found, from, content, mut trouble, .. } = self.gather(name, report, !lost.is_empty());
        let put_right =
            archive.repair(&report.damage, &found, &mut |_| self.until_stopped()).unwrap_or_else(|error| {
                tracing::warn!(store = %name, %error, "{name}: cannot write what is damaged anew");
                trouble = Some(error.into());
                Vec::new()
            });
        let mended = |PutRight { number, file, by }: PutRight| {
            let from = match by {
                Remedy::Bit => "its checksum, as a single bit was flipped".to_owned(),
                Remedy::Itself => "itself, as all its pages come out".to_owned(),
                Remedy::Pages(pages) => {
                    let sources: BTreeSet<&str> =
                        pages.iter().filter_map(|hash| from.get(hash)).map(String::as_str).collect();
                    sources.into_iter().collect::<Vec<_>>().join(" and ")
                }
            };
            Mended { version: number, file: file.display().to_string(), from }
        };
        let mut all: Vec<Mended> = put_right.into_iter().map(mended).collect();
        all.extend(self.rebuild(name, archive, &lost, content));
        (all, trouble)
    }

    /// Writes versions anew that cannot be put together any more, and that their snapshot or the store, of this content, is still;
    /// answers which.
    fn rebuild(
        &self,
        name: &StoreName,
        archive: &Archive,
        lost: &[u64],
        content: Option<Fingerprint>,
    ) -> Vec<Mended> {
        let mut rebuilt = Vec::new();
        for &number in lost {
            // It may have lacked what is put right by now.
            if archive.read(number).is_ok() {
                continue;
            }
            let id = VersionId { store: name.clone(), number };
            let anew = |read: &dyn Fn(&mut Anew<'_>) -> Result<(), Problem>, from: String| {
                let file = archive.rebuild(number, |rebuild| read(&mut Anew(rebuild))).unwrap_or_else(
                    |problem| {
                        tracing::debug!(version = %id, %problem, "{id}: cannot be written anew");
                        None
                    },
                )?;
                Some(Mended { version: number, file: file.display().to_string(), from })
            };
            let from_snapshot =
                |hot| anew(&|sink: &mut Anew<'_>| self.read_hot(&id, &hot, sink), of_snapshot(&id));
            // The store is read for no version that it is not: that may be thousands.
            let is_store = || archive.describe(number).is_ok_and(|meta| Some(meta.fingerprint) == content);
            let from_store = || {
                let read = |sink: &mut Anew<'_>| self.gather_from_store(name, sink);
                is_store().then(|| anew(&read, STORE.to_owned())).flatten()
            };
            rebuilt.extend(self.hot(&id).ok().and_then(from_snapshot).or_else(from_store));
        }
        rebuilt
    }

    /// The pages that are wanted, as far as the store or one of its snapshots has them; and what the store is, if versions are lost.
    fn gather(&self, name: &StoreName, report: &Report, is_lost: bool) -> Gather {
        let mut sink = Gather { wanted: report.damage.wanted().collect(), ..Gather::default() };
        if is_lost || !sink.wanted.is_empty() {
            STORE.clone_into(&mut sink.source);
            match self.gather_from_store(name, &mut sink) {
                Ok(()) => sink.content = sink.fingerprinter.take().map(|pages| pages.finish()),
                Err(problem) => {
                    tracing::warn!(store = %name, %problem, "{name}: cannot look in the store for what is damaged");
                    sink.trouble = Some(problem);
                }
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
struct Anew<'a>(&'a mut Rebuild);

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
    wanted: BTreeSet<PageHash>,
    /// What is read at the moment.
    source: String,
    found: Contents,
    from: BTreeMap<PageHash, String>,
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
        let hash = self.fingerprinter.as_mut().map_or_else(|| page_hash(page), |pages| pages.page(page));
        if self.bytes < MOST_BYTES && self.wanted.remove(&hash) {
            self.bytes += page.len();
            self.found.insert(hash, page.to_vec());
            self.from.insert(hash, self.source.clone());
        }
        Ok(())
    }
}
