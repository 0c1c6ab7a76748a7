//! Whether what an archive has as a version is what was certified as that version.
//!
//! Files of another history, as of a copy of the state folder that went on by itself, are sound, and have other versions of the same
//! numbers. What is recorded tells them apart.

use asat_archive::{Archive, Reader};
use asat_core::version::Version;
use asat_core::{Code, Fingerprint, Problem, StoreName, VersionId};

use super::Machine;

impl Machine {
    /// Opens a version that is in the archive.
    ///
    /// # Errors
    /// If it cannot be read, or is another one than was certified.
    pub(in crate::daemon) fn read_archived(&self, id: &VersionId) -> Result<Reader, Problem> {
        let reader = self.archive(&id.store)?.read(id.number)?;
        let found = reader.meta().fingerprint;
        let is_other = |driver: &crate::daemon::handle::Handle| {
            let engine = driver.engine();
            engine.register().entry(id).is_ok_and(|entry| differs(&entry.version, found))
        };
        match self.driver.get().is_some_and(is_other) {
            true => Err(Problem::new(Code::Damaged, of_another_history(id), ADVICE)),
            false => Ok(reader),
        }
    }

    /// The versions of which an archive has others than were certified.
    pub(super) fn of_another_history(&self, store: &StoreName, archive: &Archive) -> Vec<u64> {
        let Some(driver) = self.driver.get() else { return Vec::new() };
        let engine = driver.engine();
        let version = |number: &u64| {
            let id = VersionId { store: store.clone(), number: *number };
            engine.register().entry(&id).ok().map(|entry| &entry.version)
        };
        let live = archive.live().into_iter();
        live.filter(|number| version(number).is_some_and(|version| is_other(archive, version))).collect()
    }
}

/// What to do about it.
pub(super) const ADVICE: &str = "put the archive's own files back, as from a backup of this state folder, and restart asat (docs/recover.md)";

pub(super) fn of_another_history(id: &VersionId) -> String {
    format!("the archive has another {id} than was certified: its files are of another history")
}

/// Whether an archive has another version than is recorded. What it cannot describe is damaged, and found as such.
pub(super) fn is_other(archive: &Archive, version: &Version) -> bool {
    version.is_archived()
        && archive.describe(version.id.number).is_ok_and(|meta| differs(version, meta.fingerprint))
}

fn differs(version: &Version, found: Fingerprint) -> bool {
    let recorded = version.content.as_ref().and_then(|content| content.fingerprint);
    recorded.is_some_and(|recorded| recorded != found)
}
