//! What a version's snapshot has in common with that of the version before: that need not be read to archive it.
//!
//! Nothing depends on that. Where it cannot be told, for whatever reason, everything is read.

use std::sync::atomic::Ordering;

use asat_core::snapshot::Backend;
use asat_core::{Problem, VersionId};
use asat_host::clones::Unchanged;

use super::Machine;
use super::hot::SnapshotVersion;

impl Machine {
    /// What a version's snapshot has in common with that of the version before, and which that is; nothing where there is none,
    /// or that cannot be told.
    pub(super) fn unchanged(&self, id: &VersionId, hot: &SnapshotVersion) -> Option<(u64, Unchanged)> {
        let number = self.archive(&id.store).ok()?.newest()?;
        let base = VersionId { number, ..id.clone() };
        let before = self.hot(&base).ok()?;
        let of_one_kind = before.snapshot.origin.backend == hot.snapshot.origin.backend;
        let alone = !before.snapshot.with_wal && !hot.snapshot.with_wal;
        if !of_one_kind || !alone || before.content.page_size != hot.content.page_size {
            return None;
        }
        let told = match hot.snapshot.origin.backend {
            Backend::Reflink => Self::shared_with_clone((id, hot), (&base, &before)),
            Backend::LvmThin => {
                let told = self.shared_in_pool((id, hot), (&base, &before));
                // What is wrong the next time is news again.
                told.inspect(|_| self.is_told_of_pool.store(false, Ordering::Relaxed))
            }
            Backend::LvmClassic | Backend::Pages => return None,
        };
        match told {
            Ok(unchanged) => Some((number, unchanged?)),
            Err(problem) => {
                self.tell_of_reading_all(id, hot.snapshot.origin.backend, &problem);
                None
            }
        }
    }

    /// What a version's thin snapshot has in common with another one's. Both have to be mounted: one of before the daemon
    /// started is mounted again only where it is read.
    fn shared_in_pool(
        &self,
        (id, hot): (&VersionId, &SnapshotVersion),
        (base, before): (&VersionId, &SnapshotVersion),
    ) -> Result<Option<Unchanged>, Problem> {
        let origins = (&hot.snapshot.origin, &before.snapshot.origin);
        let of_one_volume = (&origins.0.group, &origins.0.volume) == (&origins.1.group, &origins.1.volume);
        let file =
            |id: &VersionId, hot: &SnapshotVersion| self.volumes.mounts.file(id, &hot.snapshot.origin.inside);
        let (mine, theirs) = (file(id, hot), file(base, before));
        if !of_one_volume || !theirs.exists() {
            return Ok(None);
        }
        self.volumes.shared([(mine.as_path(), &hot.snapshot), (theirs.as_path(), &before.snapshot)])
    }

    /// Says why everything is read; of pools once, until they can be asked again: a command that is missing stays so.
    fn tell_of_reading_all(&self, id: &VersionId, backend: Backend, problem: &Problem) {
        if backend == Backend::LvmThin && self.is_told_of_pool.swap(true, Ordering::Relaxed) {
            tracing::debug!(version = %id, "{id}: all of it is read: {problem}");
        } else {
            tracing::warn!(version = %id, "{id}: all of it is read: {problem}");
        }
    }
}
