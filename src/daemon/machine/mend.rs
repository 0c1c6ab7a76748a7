//! Damage is put right: pages where the store or a snapshot of it still has them, and a flipped bit around them.

use std::collections::BTreeSet;

use asat_archive::fingerprint::page_hash;
use asat_archive::{Contents, Report};
use asat_core::event::CutFailure;
use asat_core::{PageSize, Problem, StoreName};
use asat_host::store::{PageSink, read_pages};

use super::{Machine, lock};

/// So much is held in memory at most; what is more is repaired after the next verification.
const MOST_BYTES: usize = 64 << 20;

const REPAIRED: &str = "what could be put right of it was: verify once more to see what is left";

impl Machine {
    /// Repairs what a verification found, and says so there. That the store cannot be read is no reason to keep the
    /// report back.
    pub(super) fn mend(&self, name: &StoreName, report: &mut Report) {
        if report.damage.is_empty() {
            return;
        }
        let contents = self.gather(name, report);
        let repaired = self.archive(name).and_then(|archive| Ok(archive.repair(&report.damage, &contents)?));
        match repaired {
            Ok(files) => {
                tracing::info!(store = %name, ?files, "{name}: repaired");
                let findings = report.findings.iter_mut();
                let repaired = findings.filter(|finding| files.contains(&finding.file));
                repaired.for_each(|finding| REPAIRED.clone_into(&mut finding.advice));
            }
            Err(problem) => tracing::warn!(store = %name, %problem, "{name}: cannot repair the archive"),
        }
    }

    /// The pages that are wanted, as far as the store or one of its snapshots has them.
    fn gather(&self, name: &StoreName, report: &Report) -> Contents {
        let wanted: BTreeSet<u128> = report.damage.wanted().collect();
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

    fn gather_from_store(&self, name: &StoreName, sink: &mut Gather) -> Result<(), Problem> {
        let store = self.configured(name)?;
        let read = read_pages(&store.path, &store.limits, &self.stopping, sink);
        read.map(drop).map_err(|error| CutFailure::from(error).problem)
    }
}

/// Keeps the pages that are wanted.
struct Gather {
    wanted: BTreeSet<u128>,
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
