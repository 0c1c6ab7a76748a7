//! Damage is put right: pages where the store or a snapshot of it still has them, and a flipped bit around them.

use std::collections::BTreeSet;

use asat_archive::fingerprint::{PageHash, page_hash};
use asat_archive::{Archive, Contents, Finding, Rebuild, Report};
use asat_core::event::CutFailure;
use asat_core::{Code, PageSize, Problem, StoreName, VersionId};
use asat_host::store::PageSink;

use super::{Machine, lock};

/// So much is held in memory at most; what is more is repaired after the next verification.
const MOST_BYTES: usize = 64 << 20;

const REPAIRED: &str = "what could be put right of it was: verify once more to see what is left";

impl Machine {
    /// Repairs what a verification found, and says so there. That the store cannot be read is no reason to keep the
    /// report back.
    pub(super) fn mend(&self, name: &StoreName, report: &mut Report) {
        if report.findings.is_empty() {
            return;
        }
        let Ok(archive) = self.archive(name) else { return };
        let contents = self.gather(name, report);
        let files = archive.repair(&report.damage, &contents).unwrap_or_else(|error| {
            tracing::warn!(store = %name, %error, "{name}: cannot repair the archive");
            Vec::new()
        });
        let anew = self.rebuild(name, &archive);
        if files.is_empty() && anew.is_empty() {
            return;
        }
        tracing::info!(store = %name, ?files, ?anew, "{name}: repaired");
        let is_repaired = |finding: &&mut Finding| {
            let is_anew = |number: &u64| anew.contains(number);
            files.contains(&finding.file)
                || (!finding.affects.is_empty() && finding.affects.iter().all(is_anew))
        };
        let repaired = report.findings.iter_mut().filter(is_repaired);
        repaired.for_each(|finding| REPAIRED.clone_into(&mut finding.advice));
    }

    /// Writes versions anew that cannot be put together any more, and that the store or their snapshot is still; answers which.
    fn rebuild(&self, name: &StoreName, archive: &Archive) -> Vec<u64> {
        let mut rebuilt = Vec::new();
        // What a newer asat has written is not damaged.
        let lost = archive.unreadable().into_iter().filter(|(_, error)| error.is_loss());
        for (number, _) in lost {
            let id = VersionId { store: name.clone(), number };
            let anew = |read: &dyn Fn(&mut Anew<'_>) -> Result<(), Problem>| {
                archive.rebuild(number, |rebuild| read(&mut Anew(rebuild))).unwrap_or_else(|problem| {
                    tracing::debug!(version = %id, %problem, "{id}: cannot be written anew");
                    None
                })
            };
            let from_snapshot = |hot| anew(&|sink: &mut Anew<'_>| self.read_hot(&id, &hot, sink));
            let from_store = || anew(&|sink: &mut Anew<'_>| self.gather_from_store(name, sink));
            if self.hot(&id).ok().and_then(from_snapshot).or_else(from_store).is_some() {
                rebuilt.push(number);
            }
        }
        rebuilt
    }

    /// The pages that are wanted, as far as the store or one of its snapshots has them.
    fn gather(&self, name: &StoreName, report: &Report) -> Contents {
        let wanted: BTreeSet<PageHash> = report.damage.wanted().collect();
        let mut sink = Gather { wanted, found: Contents::new(), bytes: 0 };
        if !sink.wanted.is_empty()
            && let Err(problem) = self.gather_from_store(name, &mut sink)
        {
            tracing::warn!(store = %name, %problem, "{name}: cannot look in the store for what is damaged");
        }
        let snapshots: Vec<_> = lock(&self.hot).iter().map(|(id, hot)| (id.clone(), hot.clone())).collect();
        for (id, hot) in snapshots.iter().filter(|(id, _)| id.store == *name) {
            if !sink.wanted.is_empty()
                && let Err(problem) = self.read_hot(id, hot, &mut sink)
            {
                tracing::warn!(version = %id, %problem, "{id}: cannot look in its snapshot for what is damaged");
            }
        }
        sink.found
    }

    fn gather_from_store(&self, name: &StoreName, sink: &mut dyn PageSink) -> Result<(), Problem> {
        let store = self.configured(name)?;
        let read = self.workers.read_pages(&store.path, &store.limits, &self.stopping, sink);
        read.map(drop).map_err(|error| CutFailure::from(error).problem)
    }
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

/// Keeps the pages that are wanted.
struct Gather {
    wanted: BTreeSet<PageHash>,
    found: Contents,
    bytes: usize,
}

impl PageSink for Gather {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        let hash = page_hash(page);
        if self.bytes < MOST_BYTES && self.wanted.remove(&hash) {
            self.bytes += page.len();
            self.found.insert(hash, page.to_vec());
        }
        Ok(())
    }
}
