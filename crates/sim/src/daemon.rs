//! The daemon: the engine with its lanes, as the driver has them, and whoever asks it.

use std::collections::{BTreeMap, VecDeque};

use asat_core::event::{Answer, Change, Effect, EffectId, Event, Intent, Open, Outcome};
use asat_core::guard::{Memory, Scope, Step, Target};
use asat_core::register::Register;
use asat_core::version::{LeaseId, Version};
use asat_core::{Engine, StoreName, VersionId, VersionRef};
use jiff::{SignedDuration, Timestamp};

use crate::Violation;
use crate::braking::Brake;
use crate::hardships;
use crate::sim::{Happening, Sim};

/// Effects of a lane are performed one after another: each store has one, one for its archive and one for compaction;
/// copies have one, and so have removals.
type Lane = (u8, String);

fn lane(effect: &Effect) -> Lane {
    match effect {
        Effect::Cut { version, .. } | Effect::Restore { version, .. } | Effect::Retire { version } => {
            (0, version.store.to_string())
        }
        // Its stores are never published together.
        Effect::CutSet { set, .. } => (5, set.to_string()),
        Effect::Compact { store } | Effect::Weigh { store } | Effect::Repair { store } => {
            (4, store.to_string())
        }
        Effect::Archive { version } => (1, version.store.to_string()),
        Effect::DropSnapshot { .. } => (2, String::new()),
        Effect::MakeCopy { .. } | Effect::DropCopy { .. } => (3, String::new()),
    }
}

/// How long after anything that happened the engine gets a tick, in milliseconds.
const TICK_MS: u64 = 60_000;

/// The longest time between two ticks while nothing happens, in milliseconds.
const IDLE_MS: u64 = 24 * 3_600_000;

/// A daemon that runs.
pub(crate) struct Daemon {
    pub(crate) engine: Engine,
    pub(crate) memory: Memory,
    lanes: BTreeMap<Lane, VecDeque<EffectId>>,
    /// Who asks again once an effect has made room: of which store.
    again: Vec<(EffectId, StoreName)>,
    /// What the guard asked the engine for: over when these effects are.
    pub(crate) deeds: Vec<(EffectId, Step, u64)>,
    /// The instants of the last cuts.
    pub(crate) last_cuts: BTreeMap<StoreName, Timestamp>,
    /// Where new publications are refused.
    pub(crate) refused: Vec<Scope>,
    /// The alarms that are on, and when a plan last had each.
    pub(crate) alarms: BTreeMap<Target, u64>,
    /// Brakes by their origins: each has one of its own, since two writers may have to be held at once.
    pub(crate) brakes: BTreeMap<usize, Brake>,
    pub(crate) next_look: u64,
    pub(crate) next_tick: u64,
    /// When the last look was, and when the one after it would have been.
    pub(crate) looked: (u64, u64),
    /// Looks in a row that brought nothing new.
    pub(crate) idle: u32,
}

impl Daemon {
    /// The effects that have begun.
    pub(crate) fn running(&self) -> impl Iterator<Item = EffectId> {
        self.lanes.values().filter_map(|lane| lane.front().copied())
    }
}

impl Sim {
    pub(crate) fn wake_daemon(&mut self, register: Register) {
        let now = self.world.now;
        self.daemon = Some(Daemon {
            engine: Engine::new(self.policy.clone(), register),
            memory: Memory::default(),
            lanes: BTreeMap::new(),
            again: Vec::new(),
            last_cuts: BTreeMap::new(),
            deeds: Vec::new(),
            refused: Vec::new(),
            alarms: BTreeMap::new(),
            brakes: BTreeMap::new(),
            next_look: now,
            next_tick: now + TICK_MS,
            looked: (now, now),
            idle: 0,
        });
    }

    /// An open effect.
    pub(crate) fn intended(&self, id: EffectId) -> Option<Effect> {
        let register = self.daemon.as_ref()?.engine.register();
        register.intent(id).map(|intent| intent.effect.clone())
    }

    /// Decides, commits, takes in, checks, and hands on, as the driver does.
    pub(crate) fn tell(&mut self, event: &Event) -> Result<Answer, Violation> {
        let now = self.clock();
        let Some(daemon) = &mut self.daemon else { return Err(Violation::new("nobody is there to be told")) };
        let decision = daemon.engine.decide(now, event);
        daemon.next_tick = daemon.next_tick.min(self.world.now + TICK_MS);
        self.records.commit(&decision.changes)?;
        for change in &decision.changes {
            self.check_change(change, event)?;
            if let Some(daemon) = &mut self.daemon {
                daemon.engine.evolve(change);
            }
        }
        for remark in &decision.remarks {
            self.say(|| remark.text.clone());
        }
        if decision.changes.iter().any(|change| !matches!(change, Change::Clock(_))) {
            // The guard is told that records have changed.
            self.look_at_once();
        }
        let published = decision.changes.iter().any(|change| matches!(change, Change::Published(_)));
        for change in decision.changes {
            if let Change::Intended(Intent { id, effect, .. }) = change {
                self.hand_on(id, &effect);
            }
        }
        if published {
            self.tell(&Event::Tick)?;
        }
        Ok(decision.answer)
    }

    fn hand_on(&mut self, id: EffectId, effect: &Effect) {
        let Some(daemon) = &mut self.daemon else { return };
        let lane = daemon.lanes.entry(lane(effect)).or_default();
        lane.push_back(id);
        if lane.len() == 1 {
            self.begin(id);
        }
    }

    /// An effect is over, and the daemon hears of it.
    pub(crate) fn done(&mut self, id: EffectId, outcome: Outcome) -> Result<(), Violation> {
        let Some(effect) = self.intended(id) else {
            return Err(Violation::new(format!("{id:?} is over, and nobody intended it")));
        };
        self.glance();
        let failed = failure(&outcome);
        let of = effect.version().map_or_else(String::new, ToString::to_string);
        let kind = format!("{effect:?}");
        let kind = kind.split(' ').next().unwrap_or_default();
        self.say(|| {
            format!("{kind} {of} is over{}", failed.as_ref().map_or(String::new(), |why| format!(": {why}")))
        });
        let outcome = self.as_it_is_now(&effect, outcome);
        let answer = self.tell(&Event::Finished { effect: id, outcome })?;
        self.settle_again(&effect, answer);
        let made_room = failed.is_none();
        self.settle_deeds(id, failed)?;
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let lane = daemon.lanes.entry(lane(&effect)).or_default();
        lane.pop_front();
        if let Some(next) = lane.front().copied() {
            self.begin(next);
        }
        self.ask_again(id, made_room)?;
        self.wake();
        Ok(())
    }

    /// Remembers who is to ask again.
    fn settle_again(&mut self, effect: &Effect, answer: Answer) {
        if let (Some(daemon), Answer::Again(room), Some(version)) =
            (&mut self.daemon, answer, effect.version())
        {
            daemon.again.push((room, version.store.clone()));
        }
    }

    /// An effect is over for which somebody waited, to ask again if it has made room.
    fn ask_again(&mut self, effect: EffectId, made_room: bool) -> Result<(), Violation> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let (due, open): (Vec<_>, Vec<_>) = daemon.again.drain(..).partition(|(room, _)| *room == effect);
        daemon.again = open;
        for (_, store) in due.into_iter().filter(|_| made_room) {
            self.tally.count("publications after room was made");
            self.tell(&Event::publish(&store))?;
        }
        Ok(())
    }

    /// The periodic work. While nothing happens there is little of it.
    pub(crate) fn tick(&mut self) -> Result<(), Violation> {
        let before = self.daemon.as_ref().map(|daemon| daemon.engine.register().next_effect());
        self.tell(&Event::Clock(self.clocks()))?;
        self.tell(&Event::Tick)?;
        self.tally.count("ticks");
        if self.believed().doubted {
            self.tally.count(hardships::DOUBTED);
        }
        let now = self.clock();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let register = daemon.engine.register();
        let busy = before != Some(register.next_effect()) || register.intents().next().is_some();
        let ends = register.leases().map(|lease| lease.expires_at).chain(pins(register));
        let until = ends.map(|end| end.duration_since(now).as_millis().max(1)).min();
        let until = until.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(IDLE_MS);
        daemon.next_tick = self.world.now + if busy { TICK_MS } else { until.min(IDLE_MS) };
        self.wake();
        Ok(())
    }

    /// Somebody certifies a store.
    pub(crate) fn publish(&mut self, origin: usize) -> Result<(), Violation> {
        let store = self.world.origins[origin].store.clone();
        let thin = self.world.origins[origin].thin;
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let refused = daemon.refused.iter().any(|scope| match scope {
            Scope::Everywhere => true,
            Scope::Group(_) => !thin,
            Scope::Pool(_) => thin,
        });
        if refused {
            self.tally.count("publications refused by the guard");
            return Ok(());
        }
        self.tally.count("publications");
        self.tell(&Event::publish(&store)).map(drop)
    }

    /// The newest version of a store that can be read.
    fn newest(&self, origin: usize) -> Option<VersionId> {
        let register = self.daemon.as_ref()?.engine.register();
        let history = register.history(&self.world.origins[origin].store).ok()?;
        history.newest_readable().map(|entry| entry.version.id.clone())
    }

    pub(crate) fn read(&mut self, origin: usize, seconds: u32) -> Result<(), Violation> {
        let Some(version) = self.newest(origin) else { return Ok(()) };
        let lease = LeaseId(format!("{} {} {seconds}", self.faults.boots, self.world.now));
        let version = VersionRef::Exact(version);
        self.tally.count("leases");
        let open = Open { version, lease, holder: "ann".to_owned(), ttl_s: seconds, in_tree: false };
        self.tell(&Event::Open(open)).map(drop)
    }

    pub(crate) fn pin(&mut self, origin: usize, hot: bool, seconds: i64) -> Result<(), Violation> {
        let Some(version) = self.newest(origin) else { return Ok(()) };
        let expires_at = self.clock().checked_add(SignedDuration::from_secs(seconds)).ok();
        let (version, reason) = (VersionRef::Exact(version), "audit".to_owned());
        self.tally.count("pins");
        self.tell(&Event::Pin { version, reason, owner: None, expires_at, hot }).map(drop)
    }

    /// Notes how much is free from now on.
    pub(crate) fn note_room(&mut self) {
        let (now, rooms) = (self.world.now, &mut self.faults.rooms);
        rooms.push_back((now, self.world.free));
        // Nobody asks for what was longer ago.
        while rooms.get(1).is_some_and(|(at, _)| at + 3_600_000 < now) {
            rooms.pop_front();
        }
    }

    /// Kills the daemon, unless it is dead, and has it start again.
    pub(crate) fn restart_now(&mut self) -> Result<(), Violation> {
        self.crash(false)?;
        while self.daemon.is_none() {
            self.step(u64::MAX)?;
        }
        Ok(())
    }

    /// Ends everything that comes from outside, and lets the rest come to an end.
    pub(crate) fn quieten(&mut self) {
        self.drop_happenings(|happening| {
            matches!(
                happening,
                Happening::Write { .. }
                    | Happening::Publish { .. }
                    | Happening::Read { .. }
                    | Happening::Pin { .. }
                    | Happening::Fault(_)
                    | Happening::Mend(_)
            )
        });
        self.world.origins.iter_mut().for_each(|origin| origin.burst = None);
        self.world.archive_pace = 1_000_000;
        self.world.pool.iter_mut().for_each(|pool| pool.read_only = 0);
        let faults = std::mem::take(&mut self.faults);
        self.world.free += faults.stolen;
        self.faults.clock_ms = faults.clock_ms;
        (self.faults.boots, self.faults.booted_at) = (faults.boots, faults.booted_at);
        self.faults.well_since = self.world.now;
        self.note_room();
    }
}

/// When pins end.
fn pins(register: &Register) -> impl Iterator<Item = jiff::Timestamp> {
    let versions = register.stores().flat_map(|history| history.versions.values());
    versions.filter_map(|entry| pinned_until(&entry.version))
}

fn pinned_until(version: &Version) -> Option<jiff::Timestamp> {
    version.pin.as_ref()?.expires_at
}

/// Why an effect failed, where it did.
fn failure(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Cut(result) => result.as_ref().err().map(|failure| failure.problem.to_string()),
        Outcome::Archive(result) => result.as_ref().err().map(|failure| failure.problem.to_string()),
        Outcome::CutSet(result) => result.as_ref().err().map(ToString::to_string),
        Outcome::Restore(result) => result.as_ref().err().map(ToString::to_string),
        Outcome::Weigh(result) => result.as_ref().err().map(ToString::to_string),
        Outcome::Repair(result) => result.as_ref().err().map(ToString::to_string),
        Outcome::Retire(result) => result.as_ref().err().map(ToString::to_string),
        Outcome::MakeCopy(result) => result.as_ref().err().map(ToString::to_string),
        Outcome::DropSnapshot(result) | Outcome::Compact(result) | Outcome::DropCopy(result) => {
            result.as_ref().err().map(ToString::to_string)
        }
    }
}
