//! Filing: a version's pages go from its snapshot into the archive, in the background.

use std::time::Instant;

use asat_archive::{Archive, Meta};
use asat_core::event::{ArchiveFailure, Described, Filed};
use asat_core::version::Content;
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_host::store::read_changed;

use super::sink::Sink;
use super::snapshots::{SnapshotVersion, overflowed};
use super::source::Fingerprinting;
use super::{Machine, lock};
use crate::daemon::archives::describe;
use crate::daemon::progress::Meter;

/// How long an archive run is taken to last where none was seen yet, beside the time that the reading takes.
const FIRST_SECONDS: u64 = 10;

impl Machine {
    /// Puts a version into the archive, out of its snapshot. One that is in the archive already is left as it is.
    pub(super) fn file(&self, id: &VersionId) -> Result<Filed, ArchiveFailure> {
        let failed = |problem| ArchiveFailure { problem, lost: false };
        let archive = self.archives.of(&id.store).map_err(failed)?;
        if !archive.ends_below(id.number) {
            return match self.filed(&archive, id) {
                Err(problem) if matches!(problem.code, Code::Damaged | Code::NotReadable) => {
                    tracing::warn!(version = %id, %problem, "{id}: the archive cannot give it: it is read from its snapshot again");
                    self.file_anew(&archive, id)
                }
                filed => filed,
            }
            .map_err(failed);
        }
        let hot = self.hot(id).map_err(failed)?;
        let began = Instant::now();
        let filed = self.read_out(id, &hot);
        let seconds = began.elapsed().as_secs().saturating_add(1);
        lock(&self.archive_runs).insert(id.store.clone(), seconds);
        filed.map_err(|problem| self.explain(id, &hot, problem))
    }

    /// What the archive has of a version.
    fn filed(&self, archive: &Archive, id: &VersionId) -> Result<Filed, Problem> {
        let Described { content, bytes, .. } = describe(archive, id)?;
        archive.read(id.number)?;
        if self.hot(id).is_ok_and(|hot| hot.content.cut_at != content.cut_at) {
            return Err(internal(id, "is in the archive with another instant than it was cut at"));
        }
        let fingerprint = content.fingerprint.ok_or_else(|| internal(id, "has no fingerprint"))?;
        Ok(Filed { fingerprint, bytes, worth_compacting: false })
    }

    /// Writes a version anew that the archive had, and cannot give any more.
    fn file_anew(&self, archive: &Archive, id: &VersionId) -> Result<Filed, Problem> {
        let hot = self.hot(id)?;
        let mut pages = Fingerprinting::default();
        self.read_hot(id, &hot, &mut pages)?;
        let fingerprint = pages.finish().ok_or_else(|| internal(id, "has no pages"))?;
        let Content { cut_at, page_size, page_count, wal, .. } = hot.content;
        let note = serde_json::to_value(&hot.note).map_err(|error| internal(id, &error.to_string()))?;
        let (store, number) = (id.store.clone(), id.number);
        let meta = Meta { store, number, page_size, page_count, fingerprint, wal, cut_at, note };
        let written = self.write_anew(archive, &meta, |anew| self.read_hot(id, &hot, anew))?;
        written.ok_or_else(|| internal(id, "was read from its snapshot twice, and is not the same"))?;
        self.filed(archive, id)
    }

    fn read_out(&self, id: &VersionId, hot: &SnapshotVersion) -> Result<Filed, Problem> {
        let file = self.file_in_snapshot(id, &hot.snapshot)?;
        // A snapshot that is full may still answer from the machine's cache, and with anything.
        self.check_whole(id, &hot.snapshot)?;
        let archive = self.archives.of(&id.store)?;
        let meter = Meter::new(id.to_string(), "archive", "pages", self.progress_sink());
        let mut sink = Sink::new(&archive, id.number, meter);
        let expected = (hot.content.page_size, hot.content.page_count);
        if let Some((base, unchanged)) = self.unchanged(id, hot) {
            tracing::debug!(version = %id, base, unchanged = unchanged.bytes(), "{id}: what its snapshot shares with that one's is not read");
            sink = sink.after(base);
            read_changed(&file, expected, &unchanged, &self.stopping, &mut sink)
                .map_err(|failed| Problem::from(failed.error))?;
        } else {
            let frozen = self
                .workers
                .read_frozen(&file, hot.snapshot.with_wal, &self.stopping, &mut sink)
                .map_err(|failed| Problem::from(failed.error))?;
            if (frozen.page_size, frozen.page_count) != expected {
                return Err(internal(id, "has another size in its snapshot than when it was cut"));
            }
        }
        self.check_whole(id, &hot.snapshot)?;
        match sink.finish(id, &hot.note, hot.content.cut_at, hot.content.wal, true)? {
            asat_archive::Kept::Stored { fingerprint, bytes, .. } => {
                Ok(Filed { fingerprint, bytes, worth_compacting: archive.is_worth_compacting() })
            }
            asat_archive::Kept::Unchanged { .. } => Err(internal(id, "was not stored, although it must be")),
        }
    }

    /// Why a version could not be read, and whether trying again is of any use.
    fn explain(&self, id: &VersionId, hot: &SnapshotVersion, problem: Problem) -> ArchiveFailure {
        let lost = self.backends.of(&hot.snapshot.origin).is_lost(&hot.snapshot).unwrap_or(false);
        if lost {
            tracing::error!(version = %id, "{id}: its snapshot {} was full: {problem}", hot.snapshot.name);
            return ArchiveFailure { problem: overflowed(id, &hot.snapshot), lost };
        }
        // A full archive says nothing of the snapshot, and is not worth two commands of LVM each time.
        if !matches!(problem.code, Code::StorageFull | Code::Stopping) && self.is_removed(id, &hot.snapshot) {
            return ArchiveFailure { problem: removed(id, hot), lost: true };
        }
        ArchiveFailure { problem, lost }
    }

    /// How many seconds it may take until a version that is cut now is archived. The last run may have been a small one.
    pub(super) fn archive_seconds(&self, store: &StoreName) -> u64 {
        lock(&self.archive_runs).get(store).copied().unwrap_or(0).max(FIRST_SECONDS)
    }
}

fn removed(id: &VersionId, hot: &SnapshotVersion) -> Problem {
    let detail = format!("the snapshot {} of {id} was removed by somebody", hot.snapshot.name);
    Problem::new(Code::NotReadable, detail, "publish again")
}

fn internal(id: &VersionId, what: &str) -> Problem {
    Problem::new(Code::Internal, format!("{id} {what}"), "report this as a defect")
}
