//! The guard in the daemon: it looks, plans, and has one command of LVM and one brake at a time.
//!
//! Where nothing can change that a look would show, none is made: time jumps to where one could matter.

use asat_core::event::{Effect, EffectId, Event, Intent};
use asat_core::guard::{self, Action, Assessment, Level, Observation, Outcome, Plan, Rung, Step, Target};
use asat_core::register::Register;
use asat_core::version::Version;
use asat_core::{Problem, VersionId};

use crate::Violation;
use crate::lvm::Task;
use crate::ports::Listener;
use crate::sim::Sim;

impl Sim {
    /// Looks, plans, and does what is planned.
    pub(crate) fn look(&mut self) -> Result<(), Violation> {
        let seen = self.observe();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        daemon.memory.learn(&self.guard, &seen);
        let plan = guard::plan(&self.guard, &daemon.memory, &seen);
        self.tally.count("looks");
        self.note_look(&plan);
        self.note_removable(&seen);
        self.check_plan(&seen, &plan)?;
        let told = self.tell_overflowed()? | self.tell_vanished()?;
        self.let_go_of(&plan.release)?;
        let began = self.carry_out(&plan)? | told;
        self.lvm.give_turn();
        self.next_command();
        let wait = self.until_next_look(&seen, &plan, began);
        let now = self.world.now;
        if let Some(daemon) = &mut self.daemon {
            daemon.looked = (now, plan.tick_ms.max(1));
            daemon.next_look = now.saturating_add(wait.max(1));
            daemon.memory.expect(daemon.next_look);
        }
        Ok(())
    }

    /// Writes into the diary what is not safe, where that has changed.
    fn note_look(&mut self, plan: &Plan) {
        let unsafe_ones = plan.assessments.iter().filter(|found| found.level != Level::Safe);
        let levels: Vec<String> =
            unsafe_ones.map(|found| format!("{} {}", found.target, found.level.text())).collect();
        let rungs: Vec<&str> = plan.steps.iter().map(|step| step.action.rung().text()).collect();
        let noted = format!("{}; {}", levels.join(", "), rungs.join(", "));
        if noted != self.noted {
            self.say(|| format!("it is seen: {noted}"));
            self.noted = noted;
        }
    }

    /// Something is about to change: what was seen until now is learned, where looks were left out.
    pub(crate) fn glance(&mut self) {
        let (now, seen) = (self.world.now, self.observe());
        let paused = self.faults.paused_until > now;
        let Some(daemon) = self.daemon.as_mut().filter(|_| !paused) else { return };
        let (last, tick) = daemon.looked;
        if now > last + tick && daemon.next_look > last + tick {
            // The last of the looks that were left out, which might have brought the next one nearer.
            daemon.memory.expect(now);
            daemon.memory.learn(&self.guard, &seen);
            let tick = guard::plan(&self.guard, &daemon.memory, &seen).tick_ms;
            daemon.looked = (now, tick.max(1));
        }
    }

    /// Something has changed: the next look comes as soon as it would have if none had been left out.
    pub(crate) fn wake(&mut self) {
        let now = self.world.now;
        let Some(daemon) = &mut self.daemon else { return };
        daemon.idle = 0;
        let (last, tick) = daemon.looked;
        if daemon.next_look > last + tick {
            daemon.next_look = daemon.next_look.min(now + self.dice.between(1, tick));
            daemon.memory.expect(daemon.next_look);
        }
    }

    /// Looks again now, since something was made or has ended.
    pub(crate) fn look_at_once(&mut self) {
        let now = self.world.now;
        if let Some(daemon) = &mut self.daemon {
            daemon.next_look = now;
        }
    }

    /// After how long a look could show something that asks for an action.
    fn until_next_look(&mut self, seen: &Observation, plan: &Plan, began: bool) -> u64 {
        let tick = plan.tick_ms;
        let rates: Vec<u64> = (0..self.world.origins.len()).map(|origin| self.world.rate(origin)).collect();
        let works =
            self.lvm.has_extension() || self.daemon.as_ref().is_some_and(|daemon| !daemon.brakes.is_empty());
        if self.scenario.every_look || works || began {
            return tick;
        }
        if rates.iter().all(|rate| *rate == 0) {
            let Some(daemon) = &mut self.daemon else { return tick };
            daemon.idle = (daemon.idle + 1).min(40);
            let safe = plan.assessments.iter().all(|found| found.level == Level::Safe);
            // What is pending after a failure is tried again, ever more seldom.
            let seldom = tick.saturating_mul(1 << daemon.idle).min(3_600_000);
            return if safe && daemon.idle > 1 { u64::MAX / 4 } else { seldom };
        }
        let filling = plan.assessments.iter().filter_map(|found| {
            let rate = self.filling(&found.target, seen, &rates);
            (rate > 0).then(|| if found.level == Level::Safe { left(found) / rate } else { 0 })
        });
        tick.max(filling.min().unwrap_or(u64::MAX / 4))
    }

    /// How fast something fills at the most while nobody changes pace, in bytes a millisecond.
    fn filling(&self, target: &Target, seen: &Observation, rates: &[u64]) -> u64 {
        let of = |id: &str| {
            self.world.origins.iter().position(|origin| origin.id == id).map_or(0, |index| rates[index])
        };
        match target {
            Target::Snapshot(id) => {
                let found = seen.snapshots.iter().find(|seen| seen.version.id == *id);
                found.map_or(0, |seen| of(&seen.origin) * 9 / 8)
            }
            // Scattered writes take a block for each chunk of 4 KiB, and no more than 8 KiB of metadata.
            Target::PoolData(_) | Target::PoolMetadata(_) => {
                seen.pools.iter().flat_map(|pool| &pool.origins).map(|id| of(id) * 16).sum()
            }
            Target::Group(_) | Target::Folder(_) | Target::Version(_) | Target::Store(_) | Target::Clock => 0,
        }
    }

    /// Tells the engine what has overflowed. Answers whether anything has.
    fn tell_overflowed(&mut self) -> Result<bool, Violation> {
        let Some(daemon) = &self.daemon else { return Ok(false) };
        let is_full = |id: &VersionId| self.world.snapshots.get(id).is_some_and(|volume| volume.lost);
        let hot = daemon.engine.read().in_snapshots(self.clock());
        let full: Vec<VersionId> = hot.into_iter().map(|(seen, _)| seen.id).filter(is_full).collect();
        for id in &full {
            self.tell(Event::Overflowed(id.clone()))?;
        }
        Ok(!full.is_empty())
    }

    /// Tells the engine which snapshots are not there any more. Answers whether that was news. Then no record speaks of
    /// one, unless somebody is at work on it who finds out by himself.
    fn tell_vanished(&mut self) -> Result<bool, Violation> {
        let gone = |version: &&Version| {
            let there = self.world.snapshots.get(&version.id).map(|volume| &volume.snapshot.uuid);
            version.snapshot().is_some_and(|held| there != Some(&held.uuid))
        };
        let gone: Vec<VersionId> = self.versions().filter(gone).map(|version| version.id.clone()).collect();
        let mut told = false;
        for id in gone {
            self.tell(Event::Vanished(id.clone()))?;
            let recorded = self.version(&id).is_some_and(|version| version.snapshot().is_some());
            if recorded && !self.is_worked_on(&id) {
                return Err(Violation::new(format!("the snapshot of {id} is gone, and is recorded still")));
            }
            told |= !recorded;
        }
        Ok(told)
    }

    fn is_worked_on(&self, id: &VersionId) -> bool {
        let mut intents = self.known().into_iter().flat_map(Register::intents);
        intents.any(|intent| intent.effect.version() == Some(id))
    }

    /// Does what is planned, as far as it can be begun now. Answers whether anything was.
    fn carry_out(&mut self, plan: &Plan) -> Result<bool, Violation> {
        let mut began = false;
        let (mut refused, mut alarms) = (Vec::new(), Vec::new());
        for step in &plan.steps {
            began |= match &step.action {
                Action::Brake { origin, .. } => self.begin_brake(step, origin),
                Action::Extend { .. } if !self.lvm.has_extension() => {
                    self.began(step);
                    self.command(Task::Extend(step.clone()));
                    true
                }
                Action::Extend { .. } => false,
                Action::Demote { version } => self.want(step, Event::Demote(version.clone()))?,
                Action::Retire { version } => {
                    let (version, why) = (version.clone(), step.reason.clone());
                    self.want(step, Event::GiveUp { version, why })?
                }
                Action::Hurry { version } => self.hurry(step, version)?,
                Action::Refuse { scope } => {
                    refused.push(scope.clone());
                    false
                }
                Action::Alarm { key, .. } => {
                    self.tally.count("alarms");
                    alarms.push((key.target.clone(), self.world.now));
                    false
                }
            };
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.refused = refused;
            // One is over when no plan has had it for ten seconds.
            let now = self.world.now;
            daemon.alarms.extend(alarms);
            daemon.alarms.retain(|_, at| *at + 10_000 > now);
        }
        Ok(began)
    }

    pub(crate) fn began(&mut self, step: &Step) {
        self.say(|| format!("{:?} for {}: {}", step.action, step.target, step.reason));
        self.tally.count(step.action.rung().text());
        let now = self.world.now;
        if let Some(daemon) = &mut self.daemon {
            daemon.memory.began(step, now);
        }
    }

    /// An action of the guard is over.
    pub(crate) fn ended(&mut self, step: &Step, outcome: &Outcome) {
        self.say(|| format!("{:?}: {outcome:?}", step.action));
        let now = self.world.now;
        if *outcome != Outcome::Done {
            self.faults.failed_at = Some(now);
        }
        let Some(daemon) = &mut self.daemon else { return };
        daemon.memory.ended(&self.guard, step, now, outcome);
        let entry = guard::GuardEntry::of(step, self.clock(), outcome.clone(), 0);
        if let Err(violation) = self.records.log(&entry) {
            self.violation.get_or_insert(violation);
        }
        self.look_at_once();
    }

    /// Asks the driver for something; it tells when that is over.
    fn want(&mut self, step: &Step, event: Event) -> Result<bool, Violation> {
        self.began(step);
        if let Some(daemon) = &mut self.daemon {
            daemon.deeds.push((None, step.clone()));
        }
        self.ask(event, Listener::Guard(step.clone()))?;
        Ok(true)
    }

    /// The driver tells what came of a step. A version that is given up is over with its snapshot.
    pub(crate) fn hear(&mut self, step: &Step, result: Result<(), Problem>) {
        let dropping = step.action.version().and_then(|version| self.dropping(version));
        let dropping = dropping.filter(|_| step.action.rung() == Rung::Retire && result.is_ok());
        let Some(daemon) = &mut self.daemon else { return };
        let Some(nth) = daemon.deeds.iter().position(|(_, deed)| deed == step) else { return };
        match dropping {
            Some(effect) => daemon.deeds[nth].0 = Some(effect),
            None => {
                daemon.deeds.remove(nth);
                self.ended(step, &result.map_or_else(|problem| failed(&problem), |()| Outcome::Done));
            }
        }
    }

    fn remember(&mut self, effect: EffectId, step: &Step) {
        if let Some(daemon) = &mut self.daemon {
            daemon.deeds.push((Some(effect), step.clone()));
        }
    }

    /// The engine archives the oldest version of a store as soon as it can. Where it could not, it tries again now.
    fn hurry(&mut self, step: &Step, version: &VersionId) -> Result<bool, Violation> {
        self.began(step);
        if self.archiving(version).is_none() {
            self.tell(Event::Tick)?;
        }
        match self.archiving(version) {
            Some(effect) => self.remember(effect, step),
            None => self.ended(step, &Outcome::Failed("it cannot be archived now".to_owned())),
        }
        Ok(true)
    }

    fn archiving(&self, id: &VersionId) -> Option<EffectId> {
        let mut intents = self.known()?.intents();
        let of_store = |intent: &&Intent| matches!(&intent.effect, Effect::Archive { version } if version.store == id.store);
        intents.find(of_store).map(|intent| intent.id)
    }

    /// An effect is over, and with it what the guard asked for.
    pub(crate) fn settle_deeds(&mut self, effect: EffectId, failed: Option<String>) {
        let Some(daemon) = &mut self.daemon else { return };
        let (over, open): (Vec<_>, Vec<_>) =
            daemon.deeds.drain(..).partition(|(waits_for, _)| *waits_for == Some(effect));
        daemon.deeds = open;
        let outcome = failed.map_or(Outcome::Done, Outcome::Failed);
        over.iter().for_each(|(_, step)| self.ended(step, &outcome));
    }

    fn dropping(&self, id: &VersionId) -> Option<EffectId> {
        let mut intents = self.known()?.intents();
        let drops = |intent: &&Intent| matches!(&intent.effect, Effect::DropSnapshot { version, .. } if version == id);
        intents.find(drops).map(|intent| intent.id)
    }
}

/// What is left until it is no longer safe.
fn left(found: &Assessment) -> u64 {
    found.size.saturating_sub(found.worst)
}

fn failed(problem: &Problem) -> Outcome {
    Outcome::Failed(problem.to_string())
}
