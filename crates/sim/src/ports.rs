//! What the shell works with here: the model of the machine, and records that every change is checked against.

use std::time::Duration;

use asat_core::clock::{Anchor, Reading};
use asat_core::event::{Change, Effect, Event, Intent, Remark, Reply, Survey};
use asat_core::guard::{Advice, GuardEntry, Outcome, Room, Rung, Step};
use asat_core::recorder::Commit;
use asat_core::register::Register;
use asat_core::snapshot::Snapshot;
use asat_core::version::Publication;
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_shell::{
    Actuators, Audience, Executor, Heard, Look, Recorded, Records, Sensors, SharedEngine, Spectators, Told,
};
use jiff::Timestamp;

use crate::Violation;
use crate::daemon::Daemon;
use crate::lvm::Task;
use crate::sim::{Happening, Sim};

/// Who asks.
pub(crate) enum Listener {
    /// Somebody who does not care for the answer.
    Nobody,
    /// The guard, for a step of its plan.
    Guard(Step),
}

impl Records for Sim {
    fn record(&mut self, changes: &[Change]) -> Result<(), Problem> {
        let committed = self.records.commit(changes).and_then(|()| {
            changes.iter().try_for_each(|change| {
                self.check_change(change)?;
                self.records.take_in(change);
                Ok(())
            })
        });
        committed.map_err(|violation| {
            self.violation.get_or_insert(violation);
            Problem::new(Code::Internal, "what must not be was to be recorded", "")
        })
    }

    fn check(&mut self) {}

    fn commit(&self) -> Commit {
        Commit::default()
    }

    fn written_at(&self) -> Option<Timestamp> {
        None
    }
}

impl Executor for Sim {
    fn now(&self) -> Timestamp {
        self.clock()
    }

    fn clocks(&self) -> Reading {
        self.read_clocks()
    }

    /// What is recorded of it is what is gone by here.
    fn go_by(&mut self, _: &Anchor) {}

    fn survey(&self, register: &Register) -> Result<Survey, Problem> {
        Ok(self.look_around(register))
    }

    fn archive_bytes(&self, store: &StoreName) -> u64 {
        let of_store = self.world.archive.iter().filter(|(id, _)| id.store == *store);
        of_store.map(|(_, described)| described.bytes).sum()
    }

    fn held(&self, _: &[VersionId], _: bool) -> Vec<VersionId> {
        Vec::new()
    }

    fn begin(&mut self, Intent { id, effect, .. }: Intent) -> Result<(), Problem> {
        self.begin_effect(id, &effect);
        Ok(())
    }

    /// Everything is recorded here.
    fn undo(&mut self, _: &Effect) -> Result<(), Problem> {
        Ok(())
    }
}

impl Audience for Sim {
    type Listener = Listener;

    fn answer(
        &mut self,
        _: &SharedEngine,
        _: &Event,
        listener: Listener,
        answer: Result<Reply, Problem>,
    ) -> Heard {
        if let Listener::Guard(step) = listener {
            self.answered(step, answer.map(drop));
        }
        Heard::Daemon
    }

    fn remark(&mut self, remark: &Remark) {
        self.say(|| remark.text.clone());
    }

    fn published(&mut self, _: &Publication, _: bool) {}

    fn committed(&mut self, changes: Vec<Change>) {
        if changes.iter().any(|change| !matches!(change, Change::Clock(_))) {
            self.hear(Told::Changed);
        }
    }
}

impl Sensors for Sim {
    fn uptime_ms(&self) -> u64 {
        self.world.now
    }

    fn now(&self) -> Timestamp {
        self.clock()
    }

    fn observe(&mut self, at_ms: u64, recorded: &Recorded, room: &Room) -> Result<Look, Problem> {
        Ok(self.see(at_ms, recorded, room))
    }

    fn ask_room(&mut self) {
        let (life, ms) = (self.life, self.dice.between(50, 300));
        let asks = |daemon: &mut Daemon| !std::mem::replace(&mut daemon.has_asked, true);
        if self.daemon.as_mut().is_some_and(asks) {
            self.later(ms, Happening::Room { life, ended: None });
        }
    }

    fn ask_whether_removed(&mut self, id: &VersionId, snapshot: &Snapshot) {
        let (life, ms, uuid) = (self.life, self.dice.between(100, 600), snapshot.uuid.clone());
        self.later(ms, Happening::IsRemoved { life, id: id.clone(), uuid });
    }
}

impl Actuators for Sim {
    fn extend(&mut self, step: &Step) -> bool {
        let is_free = !self.lvm.has_extension();
        if is_free {
            self.command(Task::Extend(step.clone()));
        }
        is_free
    }

    fn keep_turn(&mut self) {
        self.lvm.keep_turn();
    }

    fn give_turn(&mut self) {
        self.lvm.give_turn();
        self.next_command();
    }

    fn hold_writers(&mut self, origin: &str, step: &Step, _: u64) -> bool {
        self.begin_brake(step, origin)
    }

    fn release_writers(&mut self, origin: &str) {
        let released = self.let_go_of(origin);
        self.keep_in_mind(released);
    }

    fn release_all(&mut self) {
        let origins: Vec<String> = self.world.origins.iter().map(|origin| origin.id.clone()).collect();
        origins.iter().for_each(|origin| self.release_writers(origin));
    }

    fn ask_engine(&mut self, step: &Step, event: Event) {
        let asked = self.ask(event, Listener::Guard(step.clone()));
        self.keep_in_mind(asked);
    }

    fn tell_engine(&mut self, event: Event) {
        self.daemon.iter_mut().for_each(|daemon| daemon.has_acted = true);
        let told = self.tell(event);
        self.keep_in_mind(told);
    }

    fn advise(&mut self, advice: Advice) {
        self.daemon.iter_mut().for_each(|daemon| daemon.advice = advice.clone());
    }
}

impl Spectators for Sim {
    fn began(&mut self, step: &Step) {
        self.say(|| format!("{:?} for {}: {}", step.action, step.target, step.reason));
        let rung = step.action.rung();
        self.tally.count(rung.text());
        let Some(daemon) = &mut self.daemon else { return };
        daemon.has_acted = true;
        if let Some(version) = step.action.version().filter(|_| is_of_records(rung)) {
            daemon.deeds.insert((rung, version.clone()));
        }
    }

    fn ended(&mut self, entry: GuardEntry, _: Option<Duration>) {
        self.say(|| format!("{} for {}: {:?}", entry.rung.text(), entry.target, entry.outcome));
        if entry.outcome != Outcome::Done {
            self.faults.failed_at = Some(self.world.now);
        }
        if let (Some(daemon), Some(version)) = (&mut self.daemon, &entry.version) {
            daemon.deeds.remove(&(entry.rung, version.clone()));
        }
        let logged = self.records.log(&entry);
        self.keep_in_mind(logged);
    }
}

impl Sim {
    /// Keeps a violation until the run can be ended with it: no port has a way to say so.
    fn keep_in_mind(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.violation.get_or_insert(violation);
        }
    }
}

/// Whether an action is one of the driver's.
fn is_of_records(rung: Rung) -> bool {
    matches!(rung, Rung::Demote | Rung::Hurry | Rung::Retire)
}
