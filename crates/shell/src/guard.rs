//! The guard's loop: it looks, has the core plan, begins what is planned, and takes in what came of it.
//!
//! It waits for nobody. What takes long is begun through its ports, and is heard of later.

mod asked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use asat_core::event::{Effect, Event};
use asat_core::guard::{
    self, Action, GuardEntry, HotVersion, Memory, Observation, Outcome, Plan, Policy, Room, Rung, Step,
    Target,
};
use asat_core::harm::Harm;
use asat_core::register::Register;
use asat_core::snapshot::Snapshot;
use asat_core::{Problem, VersionId};
use jiff::Timestamp;

use crate::{GuardPorts, SharedEngine};
use asked::Asked;

/// How old what LVM said of the room may be while anything is written or not safe, in milliseconds.
const ROOM_AGE_MS: u64 = 10_000;

/// The same while all is quiet. One of LVM's commands costs more than all the guard's looks of several minutes.
const ROOM_AGE_IN_PEACE_MS: u64 = 300_000;

/// After this time LVM is asked again if it could not say how much room there is, in milliseconds; each time it fails again, after twice
/// as long, up to [`ROOM_AGE_MS`]. What is given up depends on that.
const ROOM_AGAIN_MS: u64 = 1000;

/// What the records say that the guard has to know.
#[derive(Debug)]
pub struct Recorded {
    /// The versions in snapshots, and what holds them.
    pub hot: Vec<(HotVersion, Snapshot)>,
    /// What is lost or damaged.
    pub harms: Vec<Harm>,
    /// The snapshots that take room, by their UUIDs: those of the versions, and those that are being removed.
    pub(crate) snapshots: BTreeSet<String>,
}

/// What one look shows.
#[derive(Debug)]
pub struct Look {
    /// What was seen.
    pub seen: Observation,
    /// The snapshots that are not as they should be.
    pub missing: Vec<(VersionId, Missing)>,
    /// What must be told of that can be seen on no volume, as alarms.
    pub alarms: Vec<Step>,
    /// Whether all was quiet at the last look, and nothing has happened since.
    pub in_peace: bool,
}

/// What a snapshot is that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It was full.
    Lost,
    /// The kernel has no such device.
    Gone,
}

/// A look, and the plan that follows from it.
#[derive(Debug)]
pub struct Planned {
    /// The look.
    pub look: Look,
    /// What is to be done.
    pub plan: Plan,
}

/// What the guard is told.
#[derive(Clone, Debug)]
pub enum Told {
    /// Records have changed.
    Changed,
    /// An action has ended.
    Ended(Ended),
    /// What LVM says of the room that there is.
    Room(Result<Room, Problem>),
    /// LVM says that a version's snapshot is gone for good.
    Removed(VersionId),
}

/// An action that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was done.
    pub step: Step,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took, if that was measured. Otherwise it has lasted since it began.
    pub took: Option<Duration>,
    /// What the guard itself added to the time that LVM's command took, if there was a command.
    pub added: Option<Duration>,
}

/// The guard.
#[derive(Debug)]
pub struct Guard {
    engine: Arc<SharedEngine>,
    policy: Policy,
    memory: Memory,
    /// `None` if records have changed since.
    recorded: Option<Recorded>,
    /// What LVM said of the room, less what was taken since.
    room: Room,
    /// When LVM was asked for the room last, if that matters.
    room_asked_ms: Option<u64>,
    /// Before this instant it is not asked again because it failed.
    room_again_ms: u64,
    /// For how long it is left alone if it fails.
    room_pause_ms: u64,
    /// The snapshots that there were at the last look, if there was one.
    snapshots: Option<BTreeSet<String>>,
    /// The size of what is being extended, when that began.
    extended_from: Option<u64>,
    /// Versions that are on their way into the archive, because the guard wants it.
    hurried: BTreeMap<VersionId, Step>,
    /// Snapshots that the kernel knows nothing of, about which LVM was asked.
    asked: Asked,
}

impl Guard {
    /// A guard that has seen nothing yet. `room` is what was found when the daemon started.
    #[must_use]
    pub fn new(engine: Arc<SharedEngine>, policy: Policy, room: Room) -> Self {
        Self {
            engine,
            policy,
            memory: Memory::default(),
            recorded: None,
            room,
            room_asked_ms: None,
            room_again_ms: 0,
            room_pause_ms: ROOM_AGAIN_MS,
            snapshots: None,
            extended_from: None,
            hurried: BTreeMap::new(),
            asked: Asked::default(),
        }
    }

    /// What it goes by.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Goes by another policy from its next look on.
    pub fn configure(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// What it has learned.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Nothing was written since the last look, and another one would show the same: it counts as made.
    pub fn glance(&mut self, at_ms: u64) {
        self.memory.glance(&self.policy, at_ms);
    }

    /// The next look is due then, by the guard's clock.
    pub fn expect(&mut self, due_ms: u64) {
        self.memory.expect(due_ms);
    }

    /// Looks, and plans what is to be done.
    ///
    /// # Errors
    /// If nothing can be seen. Who sees nothing holds nobody, so all writers are let go then.
    pub fn look<P: GuardPorts>(&mut self, ports: &mut P) -> Result<Planned, Problem> {
        let at_ms = ports.uptime_ms();
        let recorded = self.recorded.take().unwrap_or_else(|| self.read(ports.now()));
        self.reckon_room(ports, &recorded);
        self.settle_hurried(ports, &recorded.hot);
        let observed = ports.observe(at_ms, &recorded, &self.room);
        self.recorded = Some(recorded);
        if observed.is_err() {
            self.give_turn(ports);
            ports.release_all();
        }
        let mut look = observed?;
        let least = self.policy.least_folder_free;
        for folder in look.seen.folders.iter_mut().filter(|folder| folder.free < least) {
            folder.waiting = self.engine.read().first_in_grace();
        }
        self.memory.learn(&self.policy, &look.seen);
        let mut plan = guard::plan(&self.policy, &self.memory, &look.seen);
        plan.steps.append(&mut look.alarms);
        Ok(Planned { look, plan })
    }

    /// Begins what is planned, as far as it can be begun now. The next look is due as the plan says.
    pub fn act<P: GuardPorts>(&mut self, ports: &mut P, planned: &Planned) {
        let Planned { look, plan } = planned;
        self.report(ports, look);
        self.want_room(ports, look);
        plan.release.iter().for_each(|origin| ports.release_writers(origin));
        plan.steps.iter().for_each(|step| self.begin(ports, step, planned));
        self.give_turn(ports);
        ports.advise(guard::advice(&self.policy, &self.memory, &look.seen, plan));
        self.memory.expect(look.seen.at_ms.saturating_add(plan.tick_ms));
    }

    /// Takes in what it is told. A look should follow.
    pub fn hear<P: GuardPorts>(&mut self, ports: &mut P, told: Told) {
        match told {
            Told::Changed => self.recorded = None,
            Told::Ended(ended) => match self.is_left_of(&ended) {
                Some(version) => ports.ask_engine(&ended.step, Event::Demote(version)),
                None => self.ended(ports, ended),
            },
            Told::Room(Ok(room)) => (self.room, self.room_pause_ms) = (room, ROOM_AGAIN_MS),
            Told::Room(Err(problem)) => {
                tracing::warn!("how much is free is not known: {problem}");
                (self.room_asked_ms, self.room_again_ms) = (None, ports.uptime_ms() + self.room_pause_ms);
                self.room_pause_ms = (self.room_pause_ms * 2).min(ROOM_AGE_MS);
            }
            Told::Removed(id) => ports.tell_engine(Event::Vanished(id)),
        }
    }

    /// Takes in what has ended before it stops: no look follows, so nothing depends on what it left.
    pub fn hear_last<P: GuardPorts>(&mut self, ports: &mut P, ended: Ended) {
        self.ended(ports, ended);
        self.give_turn(ports);
    }

    /// Lets others change volumes, if nothing is being extended.
    pub fn give_turn<P: GuardPorts>(&self, ports: &mut P) {
        if !self.memory.is_extending() {
            ports.give_turn();
        }
    }

    fn read(&self, now: Timestamp) -> Recorded {
        let engine = self.engine.read();
        let (hot, register) = (engine.in_snapshots(now), engine.register());
        // What a clone takes, no group has.
        let dropped = dropped(register).map(|(_, snapshot)| snapshot);
        let dropped = dropped.filter(|snapshot| snapshot.origin.backend.is_of_volumes());
        let snapshots = hot.iter().map(|(_, snapshot)| snapshot).chain(dropped);
        let snapshots = snapshots.map(|snapshot| snapshot.uuid.clone()).collect();
        Recorded { hot, harms: register.harms(), snapshots }
    }

    /// The version that was given up and whose snapshot is being removed. A volume gets nothing back before that is over, and what else is
    /// to be given up depends on it. A folder has what it gets once the version is out of the archive.
    fn is_left_of(&self, Ended { step, outcome, .. }: &Ended) -> Option<VersionId> {
        let (Action::Retire { version }, Outcome::Done) = (&step.action, outcome) else { return None };
        if matches!(step.target, Target::Folder(_)) {
            return None;
        }
        dropped(self.engine.read().register()).any(|(id, _)| id == version).then(|| version.clone())
    }

    /// Reckons with what new snapshots take of their groups until LVM says how much is free. What was given back, it knows.
    fn reckon_room<P: GuardPorts>(&mut self, ports: &mut P, Recorded { hot, snapshots, .. }: &Recorded) {
        let Some(before) = self.snapshots.replace(snapshots.clone()).filter(|before| before != snapshots)
        else {
            return;
        };
        ports.ask_room();
        for (_, snapshot) in hot.iter().filter(|(_, snapshot)| !before.contains(&snapshot.uuid)) {
            self.room.take(&snapshot.origin.group, snapshot.bytes);
        }
    }

    /// What was to come into the archive is there, or is gone.
    fn settle_hurried<P: GuardPorts>(&mut self, ports: &mut P, hot: &[(HotVersion, Snapshot)]) {
        let waits = |id: &VersionId| hot.iter().any(|(version, _)| version.id == *id && !version.archived);
        let over: Vec<Step> = self.hurried.extract_if(.., |id, _| !waits(id)).map(|(_, step)| step).collect();
        for step in over {
            self.ended(ports, Ended { step, outcome: Outcome::Done, took: None, added: None });
        }
    }

    /// Has the records say what became of snapshots. One that is gone may be inactive, or its group may be away for a while: LVM
    /// knows, and is not asked without pause.
    fn report<P: GuardPorts>(&mut self, ports: &mut P, look: &Look) {
        for (id, missing) in &look.missing {
            let mut hot = self.recorded.iter().flat_map(|recorded| &recorded.hot);
            match (missing, hot.find(|(version, _)| version.id == *id)) {
                (Missing::Lost, _) => ports.tell_engine(Event::Overflowed(id.clone())),
                (Missing::Gone, Some((_, snapshot))) if self.asked.is_due(id, look.seen.at_ms) => {
                    ports.ask_whether_removed(id, snapshot);
                }
                (Missing::Gone, _) => {}
            }
        }
    }

    /// Has LVM asked how much room there is, if that matters and what is known is old.
    fn want_room<P: GuardPorts>(&mut self, ports: &mut P, Look { seen, in_peace, .. }: &Look) {
        let grows = !seen.snapshots.is_empty() || seen.pools.iter().any(|pool| pool.may_grow);
        // Of a pool that may not be extended it matters how large what is in it looks, which seldom changes.
        let wanted = grows || !seen.pools.is_empty();
        let age = if *in_peace || !grows { ROOM_AGE_IN_PEACE_MS } else { ROOM_AGE_MS };
        let known = self.room_asked_ms.filter(|asked| seen.at_ms.saturating_sub(*asked) < age);
        let is_due = wanted && known.is_none() && seen.at_ms >= self.room_again_ms;
        if is_due {
            ports.ask_room();
        }
        self.room_asked_ms = if is_due { Some(seen.at_ms) } else { known.filter(|_| wanted) };
    }

    /// Begins a step, if that is something to begin. What is under way already is not planned again.
    fn begin<P: GuardPorts>(&mut self, ports: &mut P, step: &Step, Planned { look, plan }: &Planned) {
        let at_ms = look.seen.at_ms;
        match &step.action {
            Action::Extend { .. } if !ports.extend(step) => return,
            Action::Extend { target, .. } => {
                let found = plan.assessments.iter().find(|found| found.target == *target);
                self.extended_from = found.map(|found| found.size);
                ports.keep_turn();
            }
            Action::Brake { origin, most_ms } if !ports.hold_writers(origin, step, *most_ms) => return,
            Action::Brake { .. } => {}
            Action::Demote { version } => ports.ask_engine(step, Event::Demote(version.clone())),
            Action::Retire { version } => {
                let (version, why) = (version.clone(), step.reason.clone());
                ports.ask_engine(step, Event::GiveUp { version, why });
            }
            Action::Hurry { version } => {
                self.hurried.insert(version.clone(), step.clone());
                ports.tell_engine(Event::Tick);
            }
            Action::Refuse { .. } | Action::Alarm { .. } => return,
        }
        self.memory.began(step, at_ms);
        ports.began(step);
    }

    fn ended<P: GuardPorts>(&mut self, ports: &mut P, ended: Ended) {
        let Ended { step, outcome, took, added } = ended;
        let now_ms = ports.uptime_ms();
        let lasted = || now_ms.saturating_sub(self.memory.begun_ms(&step.action).unwrap_or(now_ms));
        let took_ms = took.map_or_else(lasted, |took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        self.memory.ended(&self.policy, &step, now_ms, &outcome);
        if step.action.rung() == Rung::Extend {
            ports.ask_room();
            self.room_after(&step, &outcome);
        }
        ports.ended(GuardEntry::of(&step, ports.now(), outcome, took_ms), added);
    }

    /// What an extension has taken is no longer free, until LVM says how much it is.
    fn room_after(&mut self, step: &Step, outcome: &Outcome) {
        let Action::Extend { target, to } = &step.action else { return };
        let mut hot = self.recorded.iter().flat_map(|recorded| &recorded.hot);
        let found = hot.find(|(version, _)| target.version() == Some(&version.id));
        if let (Outcome::Done, Some((_, snapshot)), Some(from)) = (outcome, found, self.extended_from) {
            self.room.take(&snapshot.origin.group, to.saturating_sub(from));
        }
    }
}

/// The versions whose snapshots are being removed, or are about to be.
fn dropped(register: &Register) -> impl Iterator<Item = (&VersionId, &Snapshot)> {
    register.intents().filter_map(|intent| match &intent.effect {
        Effect::DropSnapshot { version, snapshot } => Some((version, snapshot)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
