//! The survey: what the machine holds of what the register speaks of.

use std::collections::BTreeMap;

use asat_core::event::{Condition, Effect, Found, Survey, Surveyed};
use asat_core::register::Register;
use asat_core::snapshot::{Backend, Origin, Snapshot};
use asat_core::{Problem, VersionId};
use asat_host::lvm::names::Foreign;
use asat_host::lvm::report::{Activity, LogicalVolume};
use jiff::Timestamp;

use super::hot::SnapshotVersion;
use super::inventory::{Inventory, Presence};
use super::volumes::{intended, record};
use super::{Machine, Note, lock};

/// What was found of snapshots.
#[derive(Default)]
struct Looked {
    snapshots: Vec<Surveyed>,
    found: Vec<Found>,
    remarks: Vec<String>,
}

/// A snapshot that the register speaks of, or one that was about to be taken.
#[derive(Clone, Copy)]
pub(super) enum Spoken<'a> {
    Of(&'a Snapshot),
    /// With the instant of the intent.
    Intended(&'a Origin, Timestamp),
}

impl Spoken<'_> {
    fn origin(&self) -> &Origin {
        match self {
            Self::Of(snapshot) => &snapshot.origin,
            Self::Intended(origin, _) => origin,
        }
    }
}

impl Machine {
    pub(super) fn look_around(&self, register: &Register) -> Result<Survey, Problem> {
        let (clones, volumes): (BTreeMap<_, _>, _) = spoken_of(register)
            .into_iter()
            .partition(|(_, spoken)| spoken.origin().backend == Backend::Reflink);
        let Looked { mut snapshots, mut found, mut remarks } = self.look_at_snapshots(volumes, register);
        let clones = clones.into_iter().filter_map(|(id, spoken)| Self::surveyed_clone(id, spoken));
        snapshots.extend(clones);
        found.extend(self.found_clones(&snapshots, register));
        remarks.extend(self.strange_clones(&snapshots, &found));
        self.remember(register, &snapshots);
        // Nothing depends on it; a pool that keeps something is asked again when its next version is archived.
        remarks.extend(self.volumes.let_go_of_pools().err().map(|problem| problem.to_string()));
        let mut copies = self.copies.survey()?;
        copies.extend(self.look_at_mounts(&snapshots));
        let (archived, tree) = (self.look_at_archives(register, &found)?, self.has_tree());
        Ok(Survey { archived, copies, snapshots, found, tree, remarks })
    }

    /// What there is of versions where nothing is recorded of any.
    ///
    /// # Errors
    /// Where an archive cannot be read.
    pub(in crate::daemon) fn look_for_all(&self) -> Result<Survey, Problem> {
        let nothing = Register::default();
        let Looked { mut found, remarks, .. } = self.look_at_snapshots(BTreeMap::new(), &nothing);
        found.extend(self.found_clones(&[], &nothing));
        let archived = self.look_at_archives(&nothing, &found)?;
        Ok(Survey { archived, found, remarks, ..Survey::default() })
    }

    /// What has become of every snapshot of a volume that the register speaks of, and what other volumes of this installation's
    /// there are. Where nothing is recorded yet, those of others are told of, and LVM is asked even where no store is cut by snapshots
    /// of its volume: one may have been. It may not be there then; where it is and does not answer, that is told.
    fn look_at_snapshots(&self, spoken: BTreeMap<VersionId, Spoken<'_>>, register: &Register) -> Looked {
        let nothing = register.stores().next().is_none();
        let is_needed = !spoken.is_empty() || !self.grounds.is_empty();
        if !is_needed && !nothing {
            return Looked::default();
        }
        let records = spoken.iter().filter_map(|(id, spoken)| {
            let record = match spoken {
                Spoken::Of(snapshot) => record(snapshot),
                Spoken::Intended(origin, at) => intended(origin, *at),
            };
            Some((id.clone(), record.ok()?))
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
                return Looked {
                    remarks: is_there.then_some(text).into_iter().collect(),
                    ..Looked::default()
                };
            }
            Err(problem) => (Err(problem), Vec::new(), vec![problem.to_string()]),
        };
        if nothing && let Ok(inventory) = inventory {
            remarks.extend(self.of_others(inventory));
        }
        let snapshots =
            spoken.into_iter().filter_map(|(id, spoken)| self.surveyed(id, spoken, inventory)).collect();
        Looked { snapshots, found, remarks }
    }

    /// What has become of one snapshot; nothing is said of one that was never taken.
    fn surveyed(
        &self,
        id: VersionId,
        spoken: Spoken<'_>,
        inventory: Result<&Inventory, &Problem>,
    ) -> Option<Surveyed> {
        let name = match spoken {
            Spoken::Of(snapshot) => snapshot.name.clone(),
            Spoken::Intended(origin, _) => self.volumes.name_of(&id, origin),
        };
        let presence = match inventory {
            Ok(inventory) => inventory.of(&id, &name),
            Err(problem) => Presence::Unseen(problem.detail.clone()),
        };
        let snapshot = match (spoken, &presence) {
            (Spoken::Of(snapshot), _) => snapshot.clone(),
            (Spoken::Intended(..), Presence::Gone) => return None,
            (Spoken::Intended(origin, _), Presence::Here(_, volume)) => {
                left_over(origin, format!("{}/{}", volume.group, volume.name), volume.uuid.compact())
            }
            (Spoken::Intended(origin, at), Presence::Unseen(_)) => not_seen(origin, name, at),
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

    /// Keeps in mind what is to be known of the versions in snapshots.
    fn remember(&self, register: &Register, snapshots: &[Surveyed]) {
        let mut hot = lock(&self.hot);
        for Surveyed { version: id, snapshot, condition } in snapshots {
            let Ok(entry) = register.entry(id) else { continue };
            let Some(content) = entry.version.content.clone().filter(|_| *condition == Condition::Whole)
            else {
                continue;
            };
            let first = entry.publications.first().and_then(|&number| register.publication(number));
            let note = first.map_or_else(Note::default, |publication| Note {
                attributes: publication.attributes.clone(),
                key: publication.key.clone(),
                checks: publication.checks.clone(),
                of_set: publication.of_set.clone(),
            });
            hot.insert(
                id.clone(),
                SnapshotVersion { snapshot: snapshot.clone(), content, note, stamp: None },
            );
        }
    }

    /// The versions that are shown in their snapshots. What is mounted of others is unmounted, if it is ours: other
    /// installations may mount below the same folder.
    fn look_at_mounts(&self, snapshots: &[Surveyed]) -> Vec<VersionId> {
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

/// What may be left of a snapshot that was about to be taken at this instant, and was not seen since.
pub(super) fn not_seen(origin: &Origin, name: String, at: Timestamp) -> Snapshot {
    Snapshot { not_before: Some(at), ..left_over(origin, name, String::new()) }
}

/// What is left of a snapshot that was about to be taken.
pub(super) fn left_over(origin: &Origin, name: String, uuid: String) -> Snapshot {
    Snapshot { origin: origin.clone(), name, uuid, with_wal: false, bytes: 0, lost: false, not_before: None }
}

/// Every snapshot that the register speaks of, by version.
fn spoken_of(register: &Register) -> BTreeMap<VersionId, Spoken<'_>> {
    let mut spoken = BTreeMap::new();
    for intent in register.intents() {
        let by_snapshot = intent.effect.cuts().into_iter().filter_map(|(id, origin)| Some((id, origin?)));
        spoken.extend(by_snapshot.map(|(id, origin)| (id.clone(), Spoken::Intended(origin, intent.at))));
        if let Effect::DropSnapshot { version, snapshot } = &intent.effect {
            spoken.insert(version.clone(), Spoken::Of(snapshot));
        }
    }
    let entries = register.stores().flat_map(|history| history.versions.values());
    for version in entries.map(|entry| &entry.version) {
        if let Some(snapshot) = version.snapshot() {
            spoken.insert(version.id.clone(), Spoken::Of(snapshot));
        }
    }
    spoken
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
