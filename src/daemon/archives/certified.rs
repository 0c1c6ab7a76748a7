//! Whether what an archive has as a version is what was certified as that version.
//!
//! Files of another history, as of a copy of the state folder that went on by itself, are sound, and have other versions of the same
//! numbers. What is recorded tells them apart.

use std::collections::BTreeSet;

use asat_archive::{Archive, Reader};
use asat_core::version::Version;
use asat_core::{Code, Fingerprint, Problem, StoreName, VersionId};

use super::Archives;

impl Archives {
    /// Opens a version that is in the archive.
    ///
    /// # Errors
    /// If it cannot be read, or is another one than was certified.
    pub fn read(&self, id: &VersionId) -> Result<Reader, Problem> {
        let reader = self.of(&id.store)?.read(id.number)?;
        let found = reader.meta().fingerprint;
        match self.certified(id) {
            Some(certified) if certified != found => {
                Err(Problem::new(Code::Damaged, of_another_history(id), ADVICE))
            }
            _ => Ok(reader),
        }
    }

    /// The fingerprint of what was certified as this version, if that is recorded.
    pub(in crate::daemon) fn certified(&self, id: &VersionId) -> Option<Fingerprint> {
        let engine = self.records.get()?.engine();
        recorded(&engine.register().entry(id).ok()?.version)
    }

    /// The versions of which an archive has others than were certified.
    pub(in crate::daemon) fn of_another_history(&self, store: &StoreName, archive: &Archive) -> Vec<u64> {
        let Some(records) = self.records.get() else { return Vec::new() };
        // Copied first: nothing is recorded as long as the engine is looked at, and the archive is read from the disk.
        let recorded: Vec<(u64, Fingerprint)> = {
            let engine = records.engine();
            let versions =
                engine.register().history(store).into_iter().flat_map(|history| history.versions.values());
            let versions = versions.map(|entry| &entry.version).filter(|version| version.is_archived());
            versions.filter_map(|version| Some((version.id.number, recorded(version)?))).collect()
        };
        let live: BTreeSet<u64> = archive.live().into_iter().collect();
        let recorded = recorded.into_iter().filter(|(number, _)| live.contains(number));
        recorded
            .filter(|(number, recorded)| has_another(archive, *number, *recorded))
            .map(|(number, _)| number)
            .collect()
    }
}

/// What to do about it.
pub(in crate::daemon) const ADVICE: &str = "put the archive's own files back, as from a backup of this state folder, and restart asat (docs/recover.md)";

pub(in crate::daemon) fn of_another_history(id: &VersionId) -> String {
    format!("the archive has another {id} than was certified: its files are of another history")
}

/// Whether an archive has another version than is recorded.
pub(super) fn is_other(archive: &Archive, version: &Version) -> bool {
    let recorded = recorded(version).filter(|_| version.is_archived());
    recorded.is_some_and(|recorded| has_another(archive, version.id.number, recorded))
}

/// What an archive cannot describe is damaged, and found as such.
fn has_another(archive: &Archive, number: u64, recorded: Fingerprint) -> bool {
    archive.describe(number).is_ok_and(|meta| meta.fingerprint != recorded)
}

fn recorded(version: &Version) -> Option<Fingerprint> {
    version.content.as_ref().and_then(|content| content.fingerprint)
}
