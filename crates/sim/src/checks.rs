//! What must hold: of every change, of every plan, of everything that overflows, and at rest.

use std::collections::BTreeSet;

use asat_core::VersionId;
use asat_core::event::{Change, Effect};
use asat_core::guard::{self, Action, Level, Memory, Observation, Plan, Rung, Target};
use asat_core::register::Register;
use asat_core::version::{LeaseId, State, Version};

use crate::Violation;
use crate::pool::Harm;
use crate::sim::Sim;
use crate::world::{EXTENT, Volume};

impl Sim {
    pub(crate) fn version(&self, id: &VersionId) -> Option<&Version> {
        self.known()?.entry(id).ok().map(|entry| &entry.version)
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = &Version> {
        let stores = self.known().into_iter().flat_map(Register::stores);
        stores.flat_map(|history| history.versions.values()).map(|entry| &entry.version)
    }

    fn is_leased(&self, id: &VersionId) -> bool {
        let now = self.clock();
        self.known().is_some_and(|register| register.leases_on(id).any(|lease| lease.expires_at > now))
    }

    /// Of every change, before it is taken in.
    pub(crate) fn check_change(&mut self, change: &Change) -> Result<(), Violation> {
        match change {
            Change::Published(publication) => {
                self.acknowledged.entry(publication.version.clone()).or_insert(self.world.now);
                Ok(())
            }
            Change::Discarded(id) if self.acknowledged.contains_key(id) => {
                Err(Violation::new(format!("{id} was acknowledged, and is discarded")))
            }
            Change::Version(new) => self.check_version(new),
            Change::LeaseEnded(id) => self.check_lease_ended(id),
            _ => Ok(()),
        }
    }

    /// No lease ends before its time is over, whatever the machine's clock says. Between boots nobody knows how much time has passed.
    fn check_lease_ended(&self, id: &LeaseId) -> Result<(), Violation> {
        // Its name says in which boot it was granted, when, and for how many seconds.
        let granted: Vec<u64> = id.0.split(' ').filter_map(|part| part.parse().ok()).collect();
        let &[boot, at, seconds] = granted.as_slice() else { return Ok(()) };
        let lasts = u128::from(seconds) * 1000;
        let passed = u128::from(self.world.now - at);
        // A clock is followed that is out by the bound at either end, and one that drifts.
        let out = 2 * self.policy.clock.max_jump.as_millis().unsigned_abs() + passed / 50;
        if boot != self.faults.boots || passed + out >= lasts {
            return Ok(());
        }
        let clock = self.faults.clock_ms;
        Err(Violation::new(format!(
            "{} ends after {passed} of {lasts} ms; the clock is out by {clock}",
            id.0
        )))
    }

    fn check_version(&self, new: &Version) -> Result<(), Violation> {
        let id = &new.id;
        let wrong = |what: &str| Err(Violation::new(format!("{id} {what}")));
        let before = self.version(id);
        let was = |state| before.is_some_and(|version| version.state == state);
        if self.acknowledged.contains_key(id) && matches!(new.state, State::Cutting | State::Failed) {
            return wrong("was acknowledged, and is no version any more");
        }
        if new.state == State::Retiring && was(State::Ready) {
            let pinned =
                before.and_then(|version| version.pin.as_ref()).is_some_and(|pin| pin.counts(self.clock()));
            if self.is_leased(id) || pinned {
                return wrong("is held, and is given up");
            }
        }
        if new.state == State::Lost && was(State::Ready) {
            let there = self.world.snapshots.get(id).is_some_and(|volume| !volume.lost);
            if there || self.world.archive.contains_key(id) {
                return wrong("is there, and is recorded as lost");
            }
        }
        let cut_at = new.content.as_ref().map(|content| content.cut_at);
        let older = |other: &&Version| other.id.store == id.store && other.id.number < id.number;
        let mut older = self.versions().filter(older).filter_map(|other| other.content.as_ref());
        if cut_at.is_some_and(|at| older.any(|content| content.cut_at >= at)) {
            return wrong("is no younger than the one before");
        }
        if new.state == State::Ready && new.holdings.is_empty() {
            return wrong("is ready, and nothing holds it");
        }
        Ok(())
    }

    /// Of every snapshot that the daemon removes.
    pub(crate) fn check_removal(&self, id: &VersionId, volume: &Volume) -> Result<(), Violation> {
        let Some(version) = self.version(id) else { return Ok(()) };
        if version.state != State::Ready || volume.lost {
            return Ok(());
        }
        let read = version.copy.as_ref().is_some_and(|copy| copy.in_snapshot) && self.is_leased(id);
        let hot = version.pin.as_ref().is_some_and(|pin| pin.hot && pin.counts(self.clock()));
        if !self.world.archive.contains_key(id) {
            return Err(Violation::new(format!(
                "the snapshot of {id} is removed, and nothing else holds it"
            )));
        }
        // A pin that came after the removal was intended comes too late.
        let late = self.tally.counts.contains_key("pins");
        if read || (hot && !late) {
            return Err(Violation::new(format!("the snapshot of {id} is removed, and it is needed")));
        }
        Ok(())
    }

    /// Of every plan.
    pub(crate) fn check_plan(
        &mut self,
        memory: &Memory,
        seen: &Observation,
        plan: &Plan,
    ) -> Result<(), Violation> {
        let rungs: Vec<Rung> = plan.steps.iter().map(|step| step.action.rung()).collect();
        self.check_losses_are_told(plan)?;
        self.check_doubt_is_told(plan)?;
        let others: Vec<Rung> = rungs.iter().copied().filter(|rung| *rung != Rung::Brake).collect();
        if !others.is_sorted()
            || !rungs.iter().rev().skip_while(|rung| **rung != Rung::Brake).all(|r| *r == Rung::Brake)
        {
            return Err(Violation::new(format!("the ladder is not climbed in its order: {rungs:?}")));
        }
        for step in &plan.steps {
            let found = plan.assessments.iter().find(|found| found.target == step.target);
            let urgent = found.is_some_and(|found| found.level == Level::Urgent);
            let sound = match &step.action {
                Action::Brake { .. } => urgent,
                Action::Demote { version } => {
                    hot(seen, version).is_some_and(|hot| hot.archived && !hot.needed)
                }
                Action::Retire { version } => {
                    let sound =
                        hot(seen, version).is_some_and(|hot| !hot.archived && !hot.needed && !hot.held);
                    let classic = matches!(step.target, Target::Snapshot(_));
                    sound && urgent && (self.guard.space_before_retention || !classic)
                }
                _ => true,
            };
            if !sound {
                return Err(Violation::new(format!("an unsound step: {step:?}")));
            }
        }
        self.check_hardships(seen, plan)?;
        self.check_projection(memory, seen, plan)
    }

    /// Whether something that the guard did failed lately.
    pub(crate) fn is_failing(&self) -> bool {
        self.faults.failed_at.is_some_and(|at| self.world.now < at + 600_000)
    }

    /// A plan that was carried out leaves nothing to extend, where there was enough for all and extensions do not fail.
    /// (Where there was not, others may need less once one cannot overflow any more, and what is left is shared anew.)
    fn check_projection(
        &mut self,
        memory: &Memory,
        seen: &Observation,
        plan: &Plan,
    ) -> Result<(), Violation> {
        let short = |action: &Action| {
            matches!(action, Action::Demote { .. } | Action::Retire { .. } | Action::Refuse { .. })
        };
        let extends =
            |plan: &Plan| plan.steps.iter().any(|step| matches!(step.action, Action::Extend { .. }));
        if self.is_failing() || !extends(plan) || plan.steps.iter().any(|step| short(&step.action)) {
            return Ok(());
        }
        let again = guard::plan(&self.guard, memory, &seen.after(plan));
        self.tally.count("projections");
        if extends(&again) {
            let what = format!("planning again extends again: {:?} after {:?}", again.steps, plan.steps);
            return Err(Violation::new(what));
        }
        Ok(())
    }

    /// Notes since when which snapshots could have gone.
    pub(crate) fn note_removable(&mut self, seen: &Observation) {
        let now = self.world.now;
        let thin = seen.pools.iter().flat_map(|pool| &pool.versions);
        let all = seen.snapshots.iter().map(|seen| &seen.version).chain(thin);
        let going = |id: &VersionId| {
            let intents = self.known().into_iter().flat_map(Register::intents);
            let mut effects = intents.map(|intent| &intent.effect);
            effects.any(|effect| !matches!(effect, Effect::Cut { .. }) && effect.version() == Some(id))
        };
        let removable = all.filter(|hot| (hot.is_demotable() || hot.is_retirable()) && !going(&hot.id));
        let since = &self.faults.removable_since;
        let since = |id: &VersionId| since.get(id).copied().unwrap_or(now);
        let found = removable.map(|hot| (hot.id.clone(), since(&hot.id))).collect();
        self.faults.removable_since = found;
    }

    /// For how long a rung must have been there to be one that was left.
    fn reach(&self) -> u64 {
        10_000 + 4000 * self.world.snapshots.len() as u64
    }

    /// Why the guard could do nothing at this moment, where that is so.
    fn excuse(&self) -> Option<&'static str> {
        if self.daemon.is_none() {
            return Some("lost while the daemon was down");
        }
        if self.world.pool.as_ref().is_some_and(|pool| pool.read_only > 0) {
            return Some("lost while the pool took no writes");
        }
        if !self.lvm_works() || self.faults.well_since + self.reach() > self.world.now {
            return Some("lost after LVM or the daemon did not work");
        }
        None
    }

    /// Whether so many bytes, and an extent at the least, have been free for long enough.
    fn had_room(&self, bytes: u64) -> bool {
        let until_lately = |index: usize| {
            let next = self.faults.rooms.get(index + 1);
            next.is_none_or(|(at, _)| at + self.reach() > self.world.now)
        };
        let since = self.faults.rooms.front().is_some_and(|(at, _)| at + self.reach() <= self.world.now);
        let rooms = self.faults.rooms.iter().enumerate();
        let mut lately = rooms.filter(|(index, _)| until_lately(*index)).map(|(_, (_, free))| *free);
        since && lately.all(|free| free >= bytes.max(EXTENT))
    }

    /// What writers add to this snapshot, and to the others that nothing else holds, before they can be held once more, in bytes: with less,
    /// an extension is used up before anything can follow it.
    fn until_held(&self, id: &VersionId) -> u64 {
        let ms = 2 * (self.guard.shortest_tick_ms + self.guard.brake_latency_ms);
        let only = |other: &VersionId| !self.world.archive.contains_key(other);
        let snapshots = self.world.snapshots.iter().filter(|(other, _)| only(other));
        let filling = snapshots.filter(|(other, volume)| !volume.is_thin() && (!volume.lost || *other == id));
        let paces = filling.map(|(_, volume)| {
            // With one snapshot less, the devices take more than they did.
            self.world.pace(volume.origin).min(self.guard.full_rate / 1000)
        });
        paces.sum::<u64>() * ms * 9 / 8
    }

    /// Whether a version has been known for no longer than it takes to hold its writers, and that has begun; or for no longer than they may
    /// be held, and LVM had something else to do when it became known: its extension began directly after that, and has not ended.
    fn is_being_held_at_once(&self, id: &VersionId) -> bool {
        let within = self.guard.shortest_tick_ms + self.guard.brake_latency_ms;
        let Some(known_at) = self.acknowledged.get(id) else { return false };
        let is_known_for = |ms: u64| self.world.now <= known_at + ms;
        let had_to_wait = |(began, ended): (u64, u64)| {
            let next = self.lvm.extending().filter(|(target, _)| target.version() == Some(id));
            began <= known_at + within && next.is_some_and(|(_, since)| since <= ended + within)
        };
        // It takes as long once more to hold them again.
        let waits =
            is_known_for(self.guard.brake_ms + 2 * within) && self.lvm.before.is_some_and(had_to_wait);
        let origin = self.world.snapshots[id].origin;
        (is_known_for(within) || waits)
            && self.daemon.as_ref().is_some_and(|daemon| daemon.brakes.contains_key(&origin))
    }

    /// The versions whose snapshots could have gone for long enough, of those that a test lets through.
    fn removable(&self, test: impl Fn(&VersionId, &Volume) -> bool) -> Option<&VersionId> {
        let long = |since: u64| since + self.reach() <= self.world.now;
        let known = self.faults.removable_since.iter().filter(|(_, since)| long(**since)).map(|(id, _)| id);
        let mut known =
            known.filter(|id| self.world.snapshots.get(*id).is_some_and(|volume| test(id, volume)));
        known.next()
    }

    /// A classic snapshot has overflowed: a version is lost, unless it is in the archive or nobody was told of it.
    pub(crate) fn check_overflow(&mut self, id: &VersionId) -> Result<(), Violation> {
        let known =
            self.daemon.is_none() || self.version(id).is_some_and(|version| version.state == State::Ready);
        if self.world.archive.contains_key(id) {
            self.tally.count("overflows of archived versions");
            return Ok(());
        }
        if !self.acknowledged.contains_key(id) || !known {
            self.tally.count("overflows before anybody was told");
            return Ok(());
        }
        if let Some(excuse) = self.excuse() {
            self.tally.count(excuse);
            return Ok(());
        }
        if self.had_to_wait_for_lvm() {
            // Writers cannot be held while LVM takes a snapshot of their volume.
            self.tally.count("lost since LVM took another snapshot");
            return Ok(());
        }
        if self.is_being_held_at_once(id) {
            // Its writers began while LVM took the snapshot, so nobody knew how fast they are.
            self.tally.count("lost before its writers could be held");
            return Ok(());
        }
        if self.had_room(self.until_held(id)) {
            return Err(Violation::new(format!("{id} is lost, and the group has {} bytes", self.world.free)));
        }
        let archived = |other: &VersionId| self.world.archive.contains_key(other);
        let mine = &self.world.snapshots[id];
        let older = |other: &Volume| other.content.cut_at < mine.content.cut_at;
        let left = self.removable(|other, volume| {
            let gives = archived(other) || (self.scenario.space_first && older(volume));
            other != id && !volume.is_thin() && !volume.lost && gives
        });
        if let Some(left) = left {
            return Err(Violation::new(format!("{id} is lost, and {left} could have gone")));
        }
        self.tally.count("lost with no rung left");
        self.check_alarmed(|target| target.version() == Some(id))
    }

    /// A pool has run full, and harms its origins.
    pub(crate) fn check_harm(&mut self, harm: Harm) -> Result<(), Violation> {
        self.tally.count("pools that ran full");
        if let Some(excuse) = self.excuse() {
            self.tally.count(excuse);
            return Ok(());
        }
        if self.had_room(EXTENT) {
            let free = self.world.free;
            return Err(Violation::new(format!("the pool has {harm:?}, and the group has {free} bytes")));
        }
        match self.removable(|_, volume| volume.is_thin()) {
            Some(left) => Err(Violation::new(format!("the pool has {harm:?}, and {left} could have gone"))),
            None => {
                self.check_alarmed(|target| matches!(target, Target::PoolData(_) | Target::PoolMetadata(_)))
            }
        }
    }

    /// Where nothing could be done any more, an administrator was told of it before.
    fn check_alarmed(&self, of: impl Fn(&Target) -> bool) -> Result<(), Violation> {
        let Some(daemon) = self.daemon.as_ref().filter(|_| self.guard.ladder.contains(&Rung::Alarm)) else {
            return Ok(());
        };
        let told = daemon.alarms.keys().any(of);
        if told { Ok(()) } else { Err(Violation::new("no rung was left, and no alarm said so")) }
    }

    /// After a start, records and machine say the same.
    pub(crate) fn check_after_start(&mut self) -> Result<(), Violation> {
        for version in self.versions() {
            let id = &version.id;
            let held = |what: &str| Err(Violation::new(format!("after a start, {id} {what}")));
            if version.state == State::Cutting {
                return held("is being cut");
            }
            if version.state != State::Ready {
                continue;
            }
            if version.is_archived() != self.world.archive.contains_key(id) {
                return held("is in the archive for one of records and machine");
            }
            let there = self.world.snapshots.get(id);
            if version
                .snapshot()
                .is_some_and(|held| there.is_none_or(|volume| volume.snapshot.uuid != held.uuid))
            {
                return held("is held by a snapshot that is not there");
            }
        }
        let unknown = self
            .world
            .snapshots
            .keys()
            .find(|id| self.version(id).is_none_or(|version| version.snapshot().is_none()));
        match unknown {
            Some(id) => Err(Violation::new(format!("after a start, nobody knows of the snapshot of {id}"))),
            None => Ok(()),
        }
    }

    /// Lets everything come to rest, and compares records and machine.
    pub(crate) fn come_to_rest(&mut self) -> Result<(), Violation> {
        self.quieten();
        self.scenario.every_look = false;
        self.restart_now()?;
        // Longer than any lease or pin, even if the clock was set back.
        let end = self.world.now + 24 * 3_600_000;
        while self.step(end)? {}
        if self.is_busy() || self.known().is_some_and(|register| register.intents().next().is_some()) {
            return Err(Violation::new("after a day of rest something is still under way"));
        }
        if let Some((rung, version)) = self.daemon.as_ref().and_then(|daemon| daemon.deeds.first()) {
            let deed = rung.text();
            return Err(Violation::new(format!(
                "after a day of rest the guard has not ended to {deed} {version}"
            )));
        }
        let register = self.records.load()?;
        if self.daemon.as_ref().is_none_or(|daemon| *daemon.engine.read().register() != register) {
            return Err(Violation::new("the records are not what the daemon knows"));
        }
        self.check_after_start()?;
        let ready = self.versions().filter(|version| version.state == State::Ready);
        let (archived, hot): (BTreeSet<_>, BTreeSet<_>) = (
            ready.map(|version| &version.id).collect(),
            self.versions()
                .filter(|version| version.snapshot().is_some())
                .map(|version| &version.id)
                .collect(),
        );
        if archived != self.world.archive.keys().collect() {
            return Err(Violation::new("at rest, the archive is not what the records say"));
        }
        if hot != self.world.snapshots.keys().collect() {
            return Err(Violation::new("at rest, the snapshots are not what the records say"));
        }
        for origin in &self.world.origins {
            let kept = hot.iter().filter(|id| id.store == origin.store).count() as u64;
            // One thin snapshot stays, that of the newest archived version: it tells what changes from then on.
            let base = u64::from(origin.thin);
            if kept > self.scenario.keep.max(base) {
                return Err(Violation::new(format!(
                    "at rest, {kept} snapshots of {} are left",
                    origin.store
                )));
            }
        }
        self.tally.add("versions", archived.len() as u64);
        Ok(())
    }
}

/// A version as it is seen.
fn hot<'a>(seen: &'a Observation, id: &VersionId) -> Option<&'a guard::HotVersion> {
    let thin = seen.pools.iter().flat_map(|pool| &pool.versions);
    seen.snapshots.iter().map(|seen| &seen.version).chain(thin).find(|hot| hot.id == *id)
}
