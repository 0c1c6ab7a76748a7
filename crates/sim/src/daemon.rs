//! The daemon: the shell's driver on this machine, and whoever asks it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use asat_core::event::{EffectId, Event, Open, Outcome};
use asat_core::guard::{Advice, Rung, Target};
use asat_core::register::Register;
use asat_core::version::{LeaseId, Version};
use asat_core::{By, Engine, StoreName, VersionId, VersionRef};
use asat_shell::{Driver, Guard, Request, SharedEngine, Told};
use jiff::{SignedDuration, Timestamp};

use crate::Violation;
use crate::braking::Brake;
use crate::hardships;
use crate::ports::Listener;
use crate::sim::{Happening, Sim};

/// How long after anything that happened the engine gets a tick, in milliseconds.
const TICK_MS: u64 = 60_000;

/// The longest time between two ticks while nothing happens, in milliseconds.
const IDLE_MS: u64 = 24 * 3_600_000;

/// A daemon that runs.
pub(crate) struct Daemon {
    pub(crate) engine: Arc<SharedEngine>,
    /// It is not here while it is at work.
    driver: Option<Driver<Listener>>,
    /// It is not here while it is at work.
    pub(crate) guard: Option<Guard>,
    /// What the guard is told, and has not heard yet.
    pub(crate) unheard: VecDeque<Told>,
    /// What the guard asked the driver for and is not over.
    pub(crate) deeds: BTreeSet<(Rung, VersionId)>,
    /// Whether the guard has done anything since the last look began.
    pub(crate) has_acted: bool,
    /// Whether LVM was asked for the room, and has not answered.
    pub(crate) has_asked: bool,
    /// Whether all was quiet at the last look, and nothing has happened since.
    pub(crate) is_quiet: bool,
    /// The instants of the last cuts.
    pub(crate) last_cuts: BTreeMap<StoreName, Timestamp>,
    /// What the guard wants of publications.
    pub(crate) advice: Advice,
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
    pub(crate) fn running(&self) -> Vec<EffectId> {
        self.driver.as_ref().map_or_else(Vec::new, Driver::under_way)
    }

    /// Whether neither driver nor guard is at work.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.driver.is_some() && self.guard.is_some()
    }
}

impl Sim {
    /// Starts a daemon that finds these records.
    pub(crate) fn start_daemon(&mut self, register: Register) -> Result<(), Violation> {
        let now = self.world.now;
        let engine = Arc::new(SharedEngine::new(Engine::new(self.policy.clone(), register)));
        self.daemon = Some(Daemon {
            engine: Arc::clone(&engine),
            driver: None,
            guard: Some(Guard::new(Arc::clone(&engine), self.guard.clone(), self.room())),
            unheard: VecDeque::new(),
            deeds: BTreeSet::new(),
            has_acted: false,
            has_asked: false,
            is_quiet: false,
            last_cuts: BTreeMap::new(),
            advice: Advice::default(),
            alarms: BTreeMap::new(),
            brakes: BTreeMap::new(),
            next_look: now,
            next_tick: now + TICK_MS,
            looked: (now, now),
            idle: 0,
        });
        let driver = Driver::start(self, engine);
        self.judge()?;
        let driver =
            driver.map_err(|problem| Violation::new(format!("the daemon does not start: {problem}")))?;
        if let Some(daemon) = &mut self.daemon {
            daemon.driver = Some(driver);
        }
        self.drive(Driver::tidy)
    }

    /// The records, while there is a daemon that knows them.
    pub(crate) fn known(&self) -> Option<&Register> {
        self.daemon.as_ref().map(|_| self.records.register())
    }

    /// What must not be and was seen meanwhile.
    pub(crate) fn judge(&mut self) -> Result<(), Violation> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// Has the driver do something.
    fn drive(&mut self, work: impl FnOnce(&mut Driver<Listener>, &mut Self)) -> Result<(), Violation> {
        let driver = self.daemon.as_mut().and_then(|daemon| daemon.driver.take());
        let Some(mut driver) = driver else { return Err(Violation::new("nobody is there to be told")) };
        work(&mut driver, self);
        if let Some(daemon) = &mut self.daemon {
            daemon.driver = Some(driver);
            daemon.next_tick = daemon.next_tick.min(self.world.now + TICK_MS);
        }
        self.judge()
    }

    /// Somebody asks something.
    pub(crate) fn ask(&mut self, event: Event, listener: Listener) -> Result<(), Violation> {
        let request = Request { by: By::asat(), event: Box::new(event), listener };
        self.drive(|driver, sim| driver.ask(sim, request))
    }

    /// The same, if nobody cares for the answer.
    pub(crate) fn tell(&mut self, event: Event) -> Result<(), Violation> {
        self.ask(event, Listener::Nobody)
    }

    /// An effect is over, and the daemon hears of it.
    pub(crate) fn done(&mut self, id: EffectId, outcome: Outcome) -> Result<(), Violation> {
        let Some(effect) = self.intended(id) else {
            return Err(Violation::new(format!("{id:?} is over, and nobody intended it")));
        };
        self.glance();
        let outcome = self.as_it_is_now(&effect, outcome);
        let failed = failure(&outcome);
        let of = effect.version().map_or_else(String::new, ToString::to_string);
        self.say(|| {
            let why = failed.as_ref().map_or(String::new(), |why| format!(": {why}"));
            format!("{} {of} is over{why}", effect.text())
        });
        self.drive(|driver, sim| driver.finished(sim, id, outcome))?;
        self.wake();
        Ok(())
    }

    /// The periodic work. While nothing happens there is little of it.
    pub(crate) fn tick(&mut self) -> Result<(), Violation> {
        let before = self.known().map(Register::next_effect);
        self.drive(|driver, sim| driver.tick(sim))?;
        self.tally.count("ticks");
        if self.believed().doubted {
            self.tally.count(hardships::DOUBTED);
        }
        let now = self.clock();
        let Some(register) = self.known() else { return Ok(()) };
        let busy = before != Some(register.next_effect()) || register.intents().next().is_some();
        let ends = register.leases().map(|lease| lease.expires_at).chain(pins(register));
        let until = ends.map(|end| end.duration_since(now).as_millis().max(1)).min();
        let until = until.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(IDLE_MS);
        let next_tick = self.world.now + if busy { TICK_MS } else { until.min(IDLE_MS) };
        if let Some(daemon) = &mut self.daemon {
            daemon.next_tick = next_tick;
        }
        self.wake();
        Ok(())
    }

    /// Somebody certifies a store.
    pub(crate) fn publish(&mut self, origin: usize) -> Result<(), Violation> {
        let store = self.world.origins[origin].store.clone();
        let thin = self.world.origins[origin].thin;
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let advice = &daemon.advice;
        if advice.nowhere.is_some() || (!thin && !advice.volumes.not_in.is_empty()) {
            self.tally.count("publications refused by the guard");
            return Ok(());
        }
        self.tally.count("publications");
        self.tell(Event::publish(&store))
    }

    /// The newest version of a store that can be read.
    fn newest(&self, origin: usize) -> Option<VersionId> {
        let history = self.known()?.history(&self.world.origins[origin].store).ok()?;
        history.newest_readable().map(|entry| entry.version.id.clone())
    }

    pub(crate) fn read(&mut self, origin: usize, seconds: u32) -> Result<(), Violation> {
        let Some(version) = self.newest(origin) else { return Ok(()) };
        let lease = LeaseId(format!("{} {} {seconds}", self.faults.boots, self.world.now));
        let version = VersionRef::Exact(version);
        self.tally.count("leases");
        let open = Open { version, lease, holder: "ann".to_owned(), ttl_s: seconds, in_tree: false };
        self.tell(Event::Open(open))
    }

    pub(crate) fn pin(&mut self, origin: usize, hot: bool, seconds: i64) -> Result<(), Violation> {
        let Some(version) = self.newest(origin) else { return Ok(()) };
        let expires_at = self.clock().checked_add(SignedDuration::from_secs(seconds)).ok();
        let (version, reason) = (VersionRef::Exact(version), "audit".to_owned());
        self.tally.count("pins");
        self.tell(Event::Pin { version, reason, owner: None, expires_at, hot })
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
