//! What there is of snapshots of volumes, when the daemon starts.

use std::collections::BTreeMap;

use asat_core::event::{Condition, Found, Surveyed};
use asat_core::register::Register;
use asat_core::{Problem, VersionId};
use asat_host::lvm::names::Foreign;
use asat_host::lvm::report::{Activity, LogicalVolume};

use super::inventory::{Inventory, Presence};
use super::volumes::{intended, record};
use super::{LvmSnapshots, RecordedSnapshot, SnapshotSurvey, left_over, not_seen};

impl LvmSnapshots {
    /// What has become of every snapshot of a volume that the register speaks of, and what other volumes of this installation's
    /// there are. Where nothing is recorded yet, those of others are told of, and LVM is asked even where no store is cut by snapshots
    /// of its volume: one may have been. It may not be there then; where it is and does not answer, that is told.
    pub(super) fn look_at_snapshots(
        &self,
        recorded: &BTreeMap<VersionId, RecordedSnapshot<'_>>,
        register: &Register,
    ) -> SnapshotSurvey {
        let nothing = register.stores().next().is_none();
        let of_volumes = recorded.iter().filter(|(_, one)| one.origin().backend.is_of_volumes());
        let recorded: BTreeMap<&VersionId, RecordedSnapshot<'_>> =
            of_volumes.map(|(id, one)| (id, *one)).collect();
        let is_needed = !recorded.is_empty() || !self.grounds.is_empty();
        if !is_needed && !nothing {
            return SnapshotSurvey::default();
        }
        let records = recorded.iter().filter_map(|(id, one)| {
            let record = match one {
                RecordedSnapshot::Of(snapshot) => record(snapshot),
                RecordedSnapshot::Intended(origin, at) => intended(origin, *at),
            };
            Some(((*id).clone(), record.ok()?))
        });
        let looked = self.volumes.look(records.collect());
        let (inventory, found, mut remarks) = match &looked {
            Ok(inventory) => {
                let found = self.found_volumes(inventory, register);
                let strangers =
                    inventory.strangers().filter_map(|(volume, why)| stranger(volume, why, &found));
                let strangers = strangers.collect();
                (Ok(inventory), found, strangers)
            }
            Err(problem) if !is_needed => {
                let text = format!("what snapshots of volumes there are, is not known: {problem}");
                // Most machines have no LVM, and nothing is missed there.
                let is_there = self.volumes.lvm().is_ok();
                tracing::debug!("{text}");
                return SnapshotSurvey {
                    remarks: is_there.then_some(text).into_iter().collect(),
                    ..SnapshotSurvey::default()
                };
            }
            Err(problem) => (Err(problem), Vec::new(), vec![problem.to_string()]),
        };
        if nothing && let Ok(inventory) = inventory {
            remarks.extend(self.of_others(inventory));
        }
        let snapshots =
            recorded.into_iter().filter_map(|(id, one)| self.surveyed(id.clone(), one, inventory)).collect();
        SnapshotSurvey { snapshots, found, remarks }
    }

    /// What has become of one snapshot; nothing is said of one that was never taken.
    fn surveyed(
        &self,
        id: VersionId,
        recorded: RecordedSnapshot<'_>,
        inventory: Result<&Inventory, &Problem>,
    ) -> Option<Surveyed> {
        let name = match recorded {
            RecordedSnapshot::Of(snapshot) => snapshot.name.clone(),
            RecordedSnapshot::Intended(origin, _) => self.volumes.name_of(&id, origin),
        };
        let presence = match inventory {
            Ok(inventory) => inventory.of(&id, &name),
            Err(problem) => Presence::Unseen(problem.detail.clone()),
        };
        let snapshot = match (recorded, &presence) {
            (RecordedSnapshot::Of(snapshot), _) => snapshot.clone(),
            (RecordedSnapshot::Intended(..), Presence::Gone) => return None,
            (RecordedSnapshot::Intended(origin, _), Presence::Here(_, volume)) => {
                left_over(origin, format!("{}/{}", volume.group, volume.name), volume.uuid.compact())
            }
            (RecordedSnapshot::Intended(origin, at), Presence::Unseen(_)) => not_seen(origin, name, at),
        };
        let condition = match presence {
            Presence::Here(_, volume) if volume.attributes.activity == Activity::InvalidSnapshot => {
                Condition::Lost
            }
            Presence::Here(..) if self.volumes.is_lost(&snapshot).unwrap_or(false) => Condition::Lost,
            Presence::Here(..) => Condition::Whole,
            Presence::Gone => Condition::Gone,
            Presence::Unseen(why) => Condition::Unseen(why),
        };
        Some(Surveyed { version: id, snapshot, condition })
    }

    /// The versions that are shown in their snapshots. What is mounted of others is unmounted, if it is ours: other
    /// installations may mount below the same folder.
    pub(super) fn look_at_mounts(&self, snapshots: &[Surveyed]) -> Vec<VersionId> {
        let mut shown = Vec::new();
        let mounted = self.volumes.mounts.survey().unwrap_or_else(|error| {
            tracing::warn!("cannot tell which snapshots are mounted: {}", Problem::from(error));
            Vec::new()
        });
        for mounted in mounted {
            let whole = |s: &Surveyed| s.version == mounted.id && s.condition == Condition::Whole;
            if !self.volumes.is_named_ours(&mounted.id, mounted.device) {
                let id = &mounted.id;
                tracing::warn!(version = %id, "{id}: left alone what is mounted there: it is not this installation's");
            } else if snapshots.iter().any(whole) {
                shown.extend(mounted.shown.then_some(mounted.id));
            } else if let Err(error) = self.volumes.mounts.unmount(&mounted.id) {
                let id = &mounted.id;
                tracing::warn!(version = %id, "{id}: what is mounted of it cannot be unmounted: {error}");
            } else {
                let id = &mounted.id;
                tracing::info!(version = %id, "{id}: unmounted what was left of it");
            }
        }
        shown
    }
}

/// What an administrator should know of a volume with asat's tag that is not ours to touch. Another installation's
/// volumes are its own.
fn stranger(volume: &LogicalVolume, why: &Foreign, found: &[Found]) -> Option<String> {
    let name = format!("{}/{}", volume.group, volume.name);
    // The engine says what becomes of those that were found.
    let is_found = found.iter().any(|found| found.name == name);
    let is_told = !is_found && *why != Foreign::Installation;
    is_told.then(|| format!("{name} has asat's tag and is left alone: {why}"))
}
