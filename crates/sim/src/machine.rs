//! The machine's side of the engine's effects: what each takes, does, and answers; and what a start finds.

use std::collections::{BTreeMap, BTreeSet};

use asat_core::event::{
    ArchiveFailure, Archived, Condition, Copied, Cut, CutFailure, Described, Effect, EffectId, Filed, Kept,
    Lack, Outcome, Repaired, Retired, Survey, Surveyed,
};
use asat_core::register::{Headline, Register};
use asat_core::retention::Weight;
use asat_core::snapshot::{Cost, Hold, Snapshot};
use asat_core::version::{Attributes, Content, State};
use asat_core::{Code, Fingerprint, PageSize, Problem, StoreName, VersionId, sizing};
use jiff::{SignedDuration, Timestamp};

use crate::Violation;
use crate::daemon::Daemon;
use crate::lvm::{Fate, Task};
use crate::ranges::Ranges;
use crate::sim::{Happening, Sim};
use crate::world::{EXTENT, Volume};

fn trouble(code: Code, what: &str) -> Problem {
    Problem::new(code, what, "")
}

impl Sim {
    /// An open effect.
    pub(crate) fn intended(&self, id: EffectId) -> Option<Effect> {
        self.known()?.intent(id).map(|intent| intent.effect.clone())
    }

    /// An effect begins; its end is put into the queue.
    pub(crate) fn begin_effect(&mut self, id: EffectId, effect: &Effect) {
        let life = self.life;
        let takes = match effect {
            Effect::Cut { version, .. } => match self.unchanged(version) {
                Some(same) => {
                    let outcome = Outcome::Cut(Ok(Cut {
                        cost: Cost::default(),
                        kept: Kept::SameAs(same),
                        checks: Vec::new(),
                    }));
                    return self.over(id, 5, outcome);
                }
                None => return self.command(Task::Take(id)),
            },
            Effect::DropSnapshot { .. } => return self.command(Task::Remove(id)),
            Effect::Archive { version } => {
                let bytes = self
                    .world
                    .snapshots
                    .get(version)
                    .map_or(0, |volume| self.world.origins[volume.origin].store_bytes);
                let slow = if self.faults.archive_slow > 0 { 10 } else { 1 };
                (500 + bytes / self.world.archive_pace) * slow
            }
            Effect::MakeCopy { .. } => self.dice.between(10, 200),
            Effect::Retire { .. }
            | Effect::DropCopy { .. }
            | Effect::Compact { .. }
            | Effect::Weigh { .. }
            | Effect::Repair { .. }
            | Effect::CutSet { .. }
            | Effect::Restore { .. } => self.dice.between(5, 100),
        };
        self.later(takes, Happening::Perform { life, effect: id });
    }

    /// The effect has ended on the machine; the daemon hears of it a little later.
    fn over(&mut self, effect: EffectId, ms: u64, outcome: Outcome) {
        let life = self.life;
        self.later(ms, Happening::Done { life, effect, outcome: Box::new(outcome) });
    }

    /// The effect has come to its end on the machine.
    pub(crate) fn perform(&mut self, id: EffectId) -> Result<(), Violation> {
        let Some(effect) = self.intended(id) else { return Ok(()) };
        self.glance();
        let outcome = self.act(&effect)?;
        self.over(id, 0, outcome);
        Ok(())
    }

    /// What an effect does that needs no command of LVM.
    fn act(&mut self, effect: &Effect) -> Result<Outcome, Violation> {
        Ok(match effect {
            Effect::Archive { version } => Outcome::Archive(self.file(version)?),
            Effect::Retire { version } => {
                let gone = self.world.archive.remove(version);
                let freed_bytes = gone.map_or(0, |described| described.bytes);
                Outcome::Retire(Ok(Retired { freed_bytes, worth_compacting: false }))
            }
            Effect::MakeCopy { version, in_snapshot, .. } => {
                let volume =
                    self.world.snapshots.get_mut(version).filter(|volume| *in_snapshot && !volume.lost);
                Outcome::MakeCopy(match volume {
                    Some(volume) => {
                        volume.shown = true;
                        Ok(Copied { bytes: 4096, in_snapshot: true })
                    }
                    None if self.world.archive.contains_key(version) => {
                        self.world.copies.insert(version.clone());
                        Ok(Copied { bytes: 4096, in_snapshot: false })
                    }
                    None => Err(trouble(Code::Damaged, "there is nothing to copy")),
                })
            }
            Effect::DropCopy { version } => {
                self.world.copies.remove(version);
                if let Some(volume) = self.world.snapshots.get_mut(version) {
                    volume.shown = false;
                }
                Outcome::DropCopy(Ok(()))
            }
            Effect::Compact { .. } => Outcome::Compact(Ok(())),
            Effect::Weigh { .. } => Outcome::Weigh(Ok(Weight::default())),
            Effect::Repair { .. } => Outcome::Repair(Ok(Repaired::default())),
            Effect::Restore { .. }
            | Effect::Cut { .. }
            | Effect::CutSet { .. }
            | Effect::DropSnapshot { .. } => {
                return Err(Violation::new(format!("nobody performs {effect:?} here")));
            }
        })
    }

    fn file(&mut self, id: &VersionId) -> Result<Result<Filed, ArchiveFailure>, Violation> {
        let failed = |code, what: &str, lost| Ok(Err(ArchiveFailure { problem: trouble(code, what), lost }));
        let Some(volume) = self.world.snapshots.get(id) else {
            return failed(Code::Damaged, "the snapshot is gone", true);
        };
        if volume.lost {
            return failed(Code::Damaged, "the snapshot was full", true);
        }
        if self.faults.archive_full > 0 {
            return failed(Code::StorageFull, "there is no room for the archive", false);
        }
        let newest = self.world.archive.keys().rfind(|other| other.store == id.store);
        if newest.is_some_and(|newest| newest > id) {
            return Err(Violation::new(format!("{id} comes into the archive after {newest:?}")));
        }
        let content = volume.content.clone();
        let fingerprint = content.fingerprint.unwrap_or(Fingerprint::of_model(0));
        let described = Described {
            content,
            bytes: 100,
            attributes: Attributes::default(),
            key: None,
            of_set: None,
            checks: Vec::new(),
        };
        self.world.archive.insert(id.clone(), described);
        Ok(Ok(Filed { fingerprint, bytes: 100, worth_compacting: false }))
    }

    /// The newest version of the store, where nothing has changed since.
    fn unchanged(&self, id: &VersionId) -> Option<u64> {
        let live = self.world.origins[self.origin_of(id)?].live;
        let archived = self.world.archive.iter().map(|(other, described)| (other, &described.content));
        let hot = self.world.snapshots.iter().filter(|(_, volume)| !volume.lost);
        let held = archived.chain(hot.map(|(other, volume)| (other, &volume.content)));
        let newest = held
            .filter(|(other, _)| other.store == id.store && *other < id)
            .max_by_key(|(other, _)| *other)?;
        let known = self.known()?.entry(newest.0).ok()?;
        let readable = known.version.state == asat_core::version::State::Ready;
        (readable && newest.1.fingerprint == Some(Fingerprint::of_model(live))).then_some(newest.0.number)
    }

    pub(crate) fn origin_of(&self, id: &VersionId) -> Option<usize> {
        self.world.origins.iter().position(|origin| origin.store == id.store)
    }

    /// The command that takes a snapshot has ended. Until it is looked into, some time passes.
    pub(crate) fn taken(&mut self, effect: EffectId, fate: Fate) {
        let Some(Effect::Cut { version, after, origin: Some(ground), .. }) = self.intended(effect) else {
            return;
        };
        let refused = |code, what: &str| CutFailure {
            problem: trouble(code, what),
            begun: false,
            left: None,
            lacks: None,
        };
        let Some(origin) = self.origin_of(&version) else { return };
        let content = Content {
            cut_at: self.in_order(&version, after),
            fingerprint: Some(Fingerprint::of_model(self.world.origins[origin].live)),
            page_size: PageSize::new(4096).unwrap_or_else(|| unreachable!("a size of SQLite")),
            page_count: 1,
            wal: true,
        };
        let size = if self.world.origins[origin].thin { 0 } else { self.space(origin) };
        let snapshot = Snapshot {
            origin: ground,
            name: format!("vg/{version}"),
            uuid: format!("{version} of {}", self.world.now),
            with_wal: false,
            bytes: size,
            lost: false,
            not_before: None,
        };
        let volume = Volume {
            snapshot: snapshot.clone(),
            origin,
            content: content.clone(),
            size,
            copied: Ranges::default(),
            lost: false,
            shown: false,
        };
        let made =
            !matches!(fate, Fate::Fails | Fate::Hangs { late: false }) && self.world.take(&version, volume);
        self.note_room();
        let snapshot = Box::new(snapshot);
        let outcome = match fate {
            Fate::Works if made => {
                let content = Content { fingerprint: None, ..content };
                let cost = Cost { writer_blocked_us: 0, hold: Hold::Nobody, snapshot_us: 300_000 };
                Ok(Cut { cost, kept: Kept::Snapshot { content, snapshot }, checks: Vec::new() })
            }
            Fate::Works => {
                let failure = refused(Code::StorageFull, "there is no room for a snapshot");
                Err(CutFailure { lacks: Some(Lack::Bytes(size.saturating_sub(self.world.free))), ..failure })
            }
            Fate::Fails => Err(refused(Code::Internal, "made up")),
            Fate::Hangs { .. } => {
                let problem = trouble(Code::LvmStuck, "made up");
                Err(CutFailure { problem, begun: made, left: made.then_some(snapshot), lacks: None })
            }
        };
        let looked = self.dice.between(50, 400);
        self.tally.count("cuts");
        self.over(effect, looked, Outcome::Cut(outcome));
    }

    /// The cut instant, after the store's last one: of those on record when this was intended, and of this process.
    fn in_order(&mut self, id: &VersionId, after: Option<Timestamp>) -> Timestamp {
        let now = self.clock();
        let Some(daemon) = &mut self.daemon else { return now };
        let floor = daemon.last_cuts.get(&id.store).copied().max(after);
        let cut_at = floor.map_or(now, |last| now.max(last + SignedDuration::from_micros(1)));
        daemon.last_cuts.insert(id.store.clone(), cut_at);
        cut_at
    }

    /// What an outcome is by the time at which the daemon hears of it: a snapshot that was full by then is no version.
    pub(crate) fn as_it_is_now(&self, effect: &Effect, outcome: Outcome) -> Outcome {
        let (Effect::Cut { version, .. }, Outcome::Cut(Ok(_))) = (effect, &outcome) else { return outcome };
        match self.world.snapshots.get(version).filter(|volume| volume.lost) {
            Some(volume) => {
                let problem = trouble(Code::StorageFull, "the snapshot was full before it was looked into");
                let left = Some(Box::new(volume.snapshot.clone()));
                Outcome::Cut(Err(CutFailure { problem, begun: true, left, lacks: None }))
            }
            None => outcome,
        }
    }

    /// The space that a daemon gives a classic snapshot, by the pace that it has seen, and as the guard advises.
    fn space(&mut self, origin: usize) -> u64 {
        let now = self.world.now;
        let found = &mut self.world.origins[origin];
        let (written, at) = std::mem::replace(&mut found.paced, (found.written, now));
        let seconds = (now - at).max(1000) / 1000;
        let need = sizing::Need {
            origin: found.size,
            chunk: sizing::CHUNK,
            extent: EXTENT,
            write_rate: (at > 0).then(|| (found.written - written) / seconds),
            seconds: 10,
            store: found.store_bytes,
        };
        let most = sizing::most_needed(found.size, sizing::CHUNK).next_multiple_of(EXTENT);
        let sizes = self.daemon.as_ref().map(|daemon| &daemon.advice.volumes.sizes);
        let advised = sizes.and_then(|sizes| sizes.get(&self.world.origins[origin].id)).copied().unwrap_or(0);
        sizing::space(&need).max(advised.next_multiple_of(EXTENT)).min(most)
    }

    pub(crate) fn removed(&mut self, effect: EffectId, fate: Fate) -> Result<(), Violation> {
        let Some(Effect::DropSnapshot { version, snapshot }) = self.intended(effect) else { return Ok(()) };
        let thin = self.world.snapshots.get(&version).is_some_and(Volume::is_thin);
        let read_only = thin && self.world.pool.as_ref().is_some_and(|pool| pool.read_only > 0);
        if !read_only && matches!(fate, Fate::Works | Fate::Hangs { late: true }) {
            self.remove(&version, &snapshot)?;
        }
        let outcome = match fate {
            Fate::Works if read_only => Err(trouble(Code::Internal, "the pool takes no writes")),
            Fate::Works => Ok(()),
            _ => Err(trouble(Code::LvmStuck, "made up")),
        };
        self.over(effect, 0, Outcome::DropSnapshot(outcome));
        Ok(())
    }

    fn remove(&mut self, id: &VersionId, snapshot: &Snapshot) -> Result<(), Violation> {
        let Some(volume) =
            self.world.snapshots.get(id).filter(|volume| volume.snapshot.uuid == snapshot.uuid)
        else {
            return Ok(());
        };
        self.check_removal(id, volume)?;
        self.world.remove(id);
        self.note_room();
        Ok(())
    }

    /// What was under way when the daemon died has happened, or has not.
    pub(crate) fn finish_by_chance(&mut self) -> Result<(), Violation> {
        if let Some(task) = self.lvm.interrupted().filter(|_| self.dice.percent(50)) {
            match task {
                Task::Take(effect) => self.taken(effect, Fate::Hangs { late: true }),
                Task::Remove(effect) => self.removed(effect, Fate::Hangs { late: true })?,
                Task::Extend(step) => drop(self.extend(&step.action)),
            }
        }
        let running: Vec<EffectId> = self.daemon.iter().flat_map(Daemon::running).collect();
        let effects: Vec<Effect> = running.into_iter().filter_map(|id| self.intended(id)).collect();
        for effect in effects {
            let physical =
                matches!(effect, Effect::Archive { .. } | Effect::Retire { .. } | Effect::DropCopy { .. });
            if physical && self.dice.percent(30) {
                self.act(&effect)?;
            }
        }
        Ok(())
    }

    /// What a daemon sees that starts now.
    pub(crate) fn look_around(&self, register: &Register) -> Survey {
        let known = |id: &VersionId| register.entry(id).is_ok_and(|entry| entry.version.is_archived());
        let mut as_recorded: BTreeMap<StoreName, BTreeSet<u64>> = BTreeMap::new();
        let mut archived = Vec::new();
        for (id, described) in &self.world.archive {
            match known(id) {
                true => _ = as_recorded.entry(id.store.clone()).or_default().insert(id.number),
                false => archived
                    .push(Archived { version: id.clone(), described: Ok(Box::new(described.clone())) }),
            }
        }
        let shown = self.world.snapshots.iter().filter(|(_, volume)| volume.shown).map(|(id, _)| id);
        let mut found: BTreeMap<VersionId, Surveyed> = BTreeMap::new();
        let versions =
            register.stores().flat_map(|history| history.versions.values()).map(|entry| &entry.version);
        let recorded = versions.filter_map(|version| Some((&version.id, version.snapshot()?)));
        let intended = register.intents().filter_map(|intent| match &intent.effect {
            Effect::DropSnapshot { version, snapshot } => Some((version, snapshot)),
            Effect::Cut { version, origin: Some(_), .. } => {
                self.world.snapshots.get(version).map(|volume| (version, &volume.snapshot))
            }
            _ => None,
        });
        for (id, snapshot) in recorded.chain(intended) {
            let there = self.world.snapshots.get(id).filter(|volume| volume.snapshot.uuid == snapshot.uuid);
            let condition = match there {
                None => Condition::Gone,
                Some(volume) if volume.lost => Condition::Lost,
                Some(_) => Condition::Whole,
            };
            let surveyed = Surveyed { version: id.clone(), snapshot: snapshot.clone(), condition };
            found.insert(id.clone(), surveyed);
        }
        let is_over = |headline: &Headline| headline.state == State::Retired && !headline.is_in_grace;
        let given_up = register.stores().filter(|history| history.versions.headlines().any(is_over));
        Survey {
            as_recorded,
            archived,
            uncompacted: given_up.map(|history| history.store.name.clone()).collect(),
            copies: self.world.copies.iter().chain(shown).cloned().collect(),
            snapshots: found.into_values().collect(),
            // Its catalogue is never lost.
            found: Vec::new(),
            tree: false,
            remarks: Vec::new(),
            recorded: BTreeMap::new(),
        }
    }
}
