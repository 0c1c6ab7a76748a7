//! What a version's snapshot has in common with that of the version before: that need not be read to archive it.
//!
//! Nothing depends on that. Where it cannot be told, for whatever reason, everything is read.

use std::sync::atomic::Ordering;

use asat_core::VersionId;
use asat_host::clones::Unchanged;

use super::Machine;
use super::snapshots::SnapshotVersion;

impl Machine {
    /// What a version's snapshot has in common with that of the version before, and which that is; nothing where there is none,
    /// or that cannot be told.
    pub(super) fn unchanged(&self, id: &VersionId, hot: &SnapshotVersion) -> Option<(u64, Unchanged)> {
        let number = self.archives.of(&id.store).ok()?.newest()?;
        let base = VersionId { number, ..id.clone() };
        let before = self.hot(&base).ok()?;
        let (snapshot, snapshot_before) = (&hot.snapshot, &before.snapshot);
        let of_one_kind = snapshot_before.origin.backend == snapshot.origin.backend;
        let alone = !snapshot_before.with_wal && !snapshot.with_wal;
        if !of_one_kind || !alone || before.content.page_size != hot.content.page_size {
            return None;
        }
        match self.backends.of(&snapshot.origin).in_common((id, hot), (&base, &before)) {
            Ok(unchanged) => {
                // What is wrong the next time is news again.
                self.is_told_of_reading.store(false, Ordering::Relaxed);
                unchanged.map(|unchanged| (number, unchanged))
            }
            // Once, until it can be told again: a command that is missing stays so.
            Err(problem) if self.is_told_of_reading.swap(true, Ordering::Relaxed) => {
                tracing::debug!(version = %id, "{id}: all of it is read: {problem}");
                None
            }
            Err(problem) => {
                tracing::warn!(version = %id, "{id}: all of it is read: {problem}");
                None
            }
        }
    }
}
