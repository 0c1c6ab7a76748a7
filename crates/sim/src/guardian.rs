//! The guard in the daemon: when it looks here, and what is noted and checked of that.
//!
//! If nothing can change that a look would show, none is made: time jumps to where one could matter.

use std::time::Duration;

use asat_core::guard::{Action, Assessment, Level, Observation, Outcome, Plan, Step, Target};
use asat_core::register::Register;
use asat_core::{Code, Problem, VersionId};
use asat_shell::{Ended, Planned, Told};

use crate::Violation;
use crate::hardships::free;
use crate::sim::{Happening, Sim};

impl Sim {
    /// Looks, plans, and does what is planned.
    pub(crate) fn look(&mut self) -> Result<(), Violation> {
        let Some(mut guard) = self.daemon.as_mut().and_then(|daemon| daemon.guard.take()) else {
            return Ok(());
        };
        let planned =
            guard.look(self).map_err(|problem| Violation::new(format!("it is blind: {problem}")))?;
        let (seen, plan) = (&planned.look.seen, &planned.plan);
        self.tally.count("looks");
        self.note_look(plan);
        self.note_removable(seen);
        self.check_plan(guard.memory(), seen, plan)?;
        self.note_alarms(plan);
        guard.act(self, &planned);
        let mut wait = self.until_next_look(&planned);
        if free(seen) != self.world.free {
            // What LVM says when it is asked again is news.
            wait = wait.min(10_000);
        }
        let now = self.world.now;
        let is_quiet = self.is_quiet(&planned) && guard.memory().is_idle();
        if let Some(daemon) = &mut self.daemon {
            daemon.looked = (now, plan.tick_ms.max(1));
            daemon.next_look = now.saturating_add(wait.max(1));
            daemon.is_quiet = is_quiet;
            guard.expect(daemon.next_look);
            daemon.guard = Some(guard);
        }
        if self.listen()
            && let Some(daemon) = &mut self.daemon
        {
            daemon.next_look = now + 1;
        }
        Ok(())
    }

    /// The guard is told something, and looks again. While it is at work, it hears of that later.
    pub(crate) fn hear(&mut self, told: Told) {
        if let Some(daemon) = &mut self.daemon {
            daemon.unheard.push_back(told);
        }
        if self.listen() {
            self.look_at_once();
        }
    }

    /// The guard hears what it was told. Answers whether that was anything.
    fn listen(&mut self) -> bool {
        let mut heard = false;
        while let Some(daemon) = &mut self.daemon
            && daemon.guard.is_some()
            && let Some(told) = daemon.unheard.pop_front()
            && let Some(mut guard) = daemon.guard.take()
        {
            guard.hear(self, told);
            if let Some(daemon) = &mut self.daemon {
                (daemon.guard, daemon.is_quiet) = (Some(guard), false);
            }
            heard = true;
        }
        heard
    }

    /// An action of the guard has ended after so many milliseconds.
    pub(crate) fn ended(&mut self, step: Step, outcome: Outcome, ms: u64) {
        self.hear(Told::Ended(Ended { step, outcome, took: Some(Duration::from_millis(ms)), added: None }));
    }

    /// The driver tells what came of a step. What it gave back is known a little later.
    pub(crate) fn answered(&mut self, step: Step, answer: Result<(), Problem>) {
        if let Err(problem) = answer {
            let outcome = Outcome::Failed(problem.to_string());
            return self.hear(Told::Ended(Ended { step, outcome, took: None, added: None }));
        }
        let ended = Ended { step, outcome: Outcome::Done, took: None, added: None };
        let (life, ms) = (self.life, self.dice.between(50, 300));
        self.later(ms, Happening::Room { life, ended: Some(Box::new(ended)) });
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

    /// Something is about to change: the last of the looks that were left out is made, which might have brought the next one nearer.
    pub(crate) fn glance(&mut self) {
        let now = self.world.now;
        let paused = self.faults.paused_until > now;
        let Some(daemon) = self.daemon.as_mut().filter(|daemon| !paused && daemon.is_at_rest()) else {
            return;
        };
        let (last, tick) = daemon.looked;
        if now > last + tick && daemon.next_look > last + tick {
            daemon.guard.iter_mut().for_each(|guard| guard.expect(now));
            if let Err(violation) = self.look() {
                self.violation.get_or_insert(violation);
            }
        }
    }

    /// Something has changed: the next look comes as soon as it would have if none had been left out.
    pub(crate) fn wake(&mut self) {
        let now = self.world.now;
        let Some(daemon) = &mut self.daemon else { return };
        (daemon.idle, daemon.is_quiet) = (0, false);
        let (last, tick) = daemon.looked;
        if daemon.next_look > last + tick {
            daemon.next_look = daemon.next_look.min(now + self.dice.between(1, tick));
            let due = daemon.next_look;
            daemon.guard.iter_mut().for_each(|guard| guard.expect(due));
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
    fn until_next_look(&mut self, Planned { look, plan }: &Planned) -> u64 {
        let (tick, seen) = (plan.tick_ms, &look.seen);
        let rates: Vec<u64> = (0..self.world.origins.len()).map(|origin| self.world.rate(origin)).collect();
        let acts = self
            .daemon
            .as_mut()
            .is_some_and(|daemon| std::mem::take(&mut daemon.has_acted) || !daemon.brakes.is_empty());
        // Of what is missing, LVM is asked again after a while.
        if self.scenario.every_look || acts || self.lvm.has_extension() || !look.missing.is_empty() {
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

    /// LVM says how much room there is, and the guard hears it with what it waited for.
    pub(crate) fn tell_room(&mut self, ended: Option<Box<Ended>>) {
        if let Some(daemon) = self.daemon.as_mut().filter(|_| ended.is_none()) {
            daemon.has_asked = false;
        }
        let fails = !self.lvm_works() && self.dice.percent(70);
        let stuck = || Problem::new(Code::LvmStuck, "made up", "");
        self.hear(Told::Room(if fails { Err(stuck()) } else { Ok(self.room()) }));
        ended.into_iter().for_each(|ended| self.hear(Told::Ended(*ended)));
    }

    /// LVM says whether a snapshot is there. If it is not, no record speaks of it from then on, unless somebody is at work on it who
    /// finds out by himself.
    pub(crate) fn tell_whether_removed(&mut self, id: VersionId, uuid: &str) -> Result<(), Violation> {
        let is_there = self.world.snapshots.get(&id).is_some_and(|volume| volume.snapshot.uuid == uuid);
        if is_there || !self.lvm_works() {
            return Ok(());
        }
        self.hear(Told::Removed(id.clone()));
        let held = self.version(&id).and_then(|version| version.snapshot());
        if held.is_some_and(|held| held.uuid == uuid) && !self.is_worked_on(&id) {
            return Err(Violation::new(format!("the snapshot of {id} is gone, and is recorded still")));
        }
        Ok(())
    }

    fn is_worked_on(&self, id: &VersionId) -> bool {
        let mut intents = self.known().into_iter().flat_map(Register::intents);
        intents.any(|intent| intent.effect.version() == Some(id))
    }

    /// Notes the alarms of a plan. One is over when no plan has had it for ten seconds.
    fn note_alarms(&mut self, plan: &Plan) {
        let now = self.world.now;
        for step in &plan.steps {
            let Action::Alarm { key, .. } = &step.action else { continue };
            self.tally.count("alarms");
            self.daemon.iter_mut().for_each(|daemon| _ = daemon.alarms.insert(key.target.clone(), now));
        }
        self.daemon.iter_mut().for_each(|daemon| daemon.alarms.retain(|_, at| *at + 10_000 > now));
    }

    /// Whether nobody writes, and there is nothing to do.
    fn is_quiet(&self, Planned { look, plan }: &Planned) -> bool {
        let is_written = (0..self.world.origins.len()).any(|origin| self.world.rate(origin) > 0);
        let is_safe = plan.assessments.iter().all(|found| found.level == Level::Safe);
        let is_of_records = plan.steps.iter().all(|step| step.target.is_of_records());
        !is_written && is_safe && is_of_records && look.missing.is_empty()
    }
}

/// What is left until it is no longer safe.
fn left(found: &Assessment) -> u64 {
    found.size.saturating_sub(found.worst)
}
