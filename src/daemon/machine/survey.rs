//! The survey: what the machine holds of what the register speaks of.

use std::collections::BTreeMap;

use asat_core::event::{Effect, Survey};
use asat_core::register::{History, Register};
use asat_core::{Problem, StoreName, VersionId};

use super::Machine;
use super::backend::{RecordedSnapshot, SnapshotSurvey};
use crate::daemon::archives::HeldByArchives;

impl Machine {
    pub(super) fn look_around(&self, register: &Register) -> Result<Survey, Problem> {
        let SnapshotSurvey { snapshots, found, mut remarks } = self.look_at_snapshots(register);
        self.remember(register, &snapshots);
        let mut copies = Vec::new();
        for backend in self.backends.all() {
            copies.extend(backend.clear_up(&snapshots, &mut remarks));
        }
        copies.extend(self.copies.survey()?);
        let held = self.archives.look(register, &found)?;
        remarks.extend(self.note_unrecorded(&held));
        let HeldByArchives { as_recorded, archived, recorded, .. } = held;
        let (uncompacted, tree) = (self.archives.uncompacted(), self.has_tree());
        Ok(Survey { as_recorded, archived, uncompacted, recorded, copies, snapshots, found, tree, remarks })
    }

    /// What there is of versions where nothing is recorded of any.
    ///
    /// # Errors
    /// Where an archive cannot be read.
    pub(in crate::daemon) fn look_for_all(&self) -> Result<Survey, Problem> {
        let nothing = Register::default();
        let SnapshotSurvey { found, mut remarks, .. } = self.look_at_snapshots(&nothing);
        let held = self.archives.look(&nothing, &found)?;
        remarks.extend(self.note_unrecorded(&held));
        let HeldByArchives { archived, recorded, .. } = held;
        Ok(Survey { archived, recorded, found, remarks, ..Survey::default() })
    }

    /// Takes note of what archives have recorded beside their versions and cannot be read; answers what is said of it.
    fn note_unrecorded(&self, held: &HeldByArchives) -> Vec<String> {
        held.unrecorded.keys().for_each(|store| self.recorders.unread(store));
        let say = |(store, problem): (&StoreName, &Problem)| {
            format!("{store}: later publications, pins and tags in its archive cannot be read: {problem}")
        };
        held.unrecorded.iter().map(say).collect()
    }

    fn look_at_snapshots(&self, register: &Register) -> SnapshotSurvey {
        let recorded = recorded(register);
        let mut all = SnapshotSurvey::default();
        for backend in self.backends.all() {
            let SnapshotSurvey { snapshots, found, remarks } = backend.survey(&recorded, register);
            all.snapshots.extend(snapshots);
            all.found.extend(found);
            all.remarks.extend(remarks);
        }
        self.remember_found(&all.found);
        all
    }
}

/// Every snapshot that the register speaks of, by version.
fn recorded(register: &Register) -> BTreeMap<VersionId, RecordedSnapshot<'_>> {
    let mut recorded = BTreeMap::new();
    for intent in register.intents() {
        let by_snapshot = intent.effect.cuts().into_iter().filter_map(|(id, origin)| Some((id, origin?)));
        recorded.extend(
            by_snapshot.map(|(id, origin)| (id.clone(), RecordedSnapshot::Intended(origin, intent.at))),
        );
        if let Effect::DropSnapshot { version, snapshot } = &intent.effect {
            recorded.insert(version.clone(), RecordedSnapshot::Of(snapshot));
        }
    }
    // One that is at rest has none.
    for version in register.stores().flat_map(History::moving) {
        if let Some(snapshot) = version.snapshot() {
            recorded.insert(version.id.clone(), RecordedSnapshot::Of(snapshot));
        }
    }
    recorded
}
