//! The run: one thing after another, from event to event.

use std::collections::{BTreeMap, VecDeque};

use asat_core::VersionId;
use asat_core::clock::{self, Believed, Moment, Reading};
use asat_core::event::{EffectId, Outcome};
use asat_core::guard;
use asat_core::register::Register;
use asat_shell::Ended;
use jiff::{SignedDuration, Timestamp};

use crate::daemon::Daemon;
use crate::dice::Dice;
use crate::faults::{Fault, Faults};
use crate::lvm::Lvm;
use crate::records::Records;
use crate::world::{Burst, World};
use crate::{Scenario, Tally, Violation};

/// Something that happens at its time. What the daemon has begun bears the number of its life, and is void when that
/// is over.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// Somebody begins to write, or pauses.
    Write {
        origin: usize,
        burst: Option<Burst>,
    },
    /// Somebody certifies a store.
    Publish {
        origin: usize,
    },
    /// Somebody reads the newest version of a store, for so many seconds.
    Read {
        origin: usize,
        seconds: u32,
    },
    /// Somebody pins the newest version of a store, perhaps with its snapshot, for so many seconds.
    Pin {
        origin: usize,
        hot: bool,
        seconds: i64,
    },
    /// An effect is over.
    Done {
        life: u64,
        effect: EffectId,
        outcome: Box<Outcome>,
    },
    /// An effect that needs no command of LVM has come to its end on the machine.
    Perform {
        life: u64,
        effect: EffectId,
    },
    /// The command of LVM that runs has ended.
    Lvm {
        life: u64,
    },
    /// LVM says how much room there is; with what has ended that may have given some back.
    Room {
        life: u64,
        ended: Option<Box<Ended>>,
    },
    /// LVM says whether a snapshot is gone.
    IsRemoved {
        life: u64,
        id: VersionId,
        uuid: String,
    },
    /// Writes to an origin are held from now on, or are held again after LVM has resumed it, or are let go.
    Hold {
        life: u64,
        origin: usize,
    },
    HoldAgain {
        life: u64,
        origin: usize,
    },
    LetGo {
        life: u64,
        origin: usize,
    },
    /// Something goes wrong, or is well again.
    Fault(Fault),
    Mend(Fault),
    /// The daemon starts.
    Start,
}

impl Happening {
    /// Whether the daemon has begun it.
    pub(crate) fn is_of_a_life(&self) -> bool {
        matches!(
            self,
            Self::Done { .. }
                | Self::Perform { .. }
                | Self::Lvm { .. }
                | Self::Room { .. }
                | Self::IsRemoved { .. }
                | Self::Hold { .. }
                | Self::HoldAgain { .. }
                | Self::LetGo { .. }
        )
    }

    /// Whether it waits until a daemon that is stopped goes on. A brake that is on needs no daemon.
    fn is_put_off(&self) -> bool {
        let asks = matches!(self, Self::Publish { .. } | Self::Read { .. } | Self::Pin { .. });
        asks || (self.is_of_a_life() && !matches!(self, Self::HoldAgain { .. } | Self::LetGo { .. }))
    }
}

fn guard_policy(scenario: &Scenario) -> guard::Policy {
    guard::Policy {
        ladder: scenario.rungs(),
        space_before_retention: scenario.space_first,
        ..guard::Policy::default()
    }
}

/// How many lines the diary has.
const DIARY: usize = 60;

/// A run.
pub(crate) struct Sim {
    pub(crate) scenario: Scenario,
    pub(crate) dice: Dice,
    pub(crate) world: World,
    pub(crate) policy: asat_core::Policy,
    pub(crate) guard: guard::Policy,
    pub(crate) records: Records,
    pub(crate) daemon: Option<Daemon>,
    pub(crate) lvm: Lvm,
    pub(crate) faults: Faults,
    pub(crate) life: u64,
    pub(crate) acknowledged: BTreeMap<VersionId, u64>,
    pub(crate) tally: Tally,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    diary: VecDeque<String>,
    /// What was noted of the last look.
    pub(crate) noted: String,
    /// What must not be, and was seen while the driver was at work.
    pub(crate) violation: Option<Violation>,
}

impl Sim {
    /// Runs a scenario from its beginning to its end, and then lets everything come to rest.
    pub(crate) fn run(scenario: &Scenario) -> Result<Tally, Violation> {
        let mut dice = Dice::new(scenario.seed);
        let (world, policy) = crate::script::setting(scenario, &mut dice);
        let mut sim = Self {
            scenario: scenario.clone(),
            dice,
            world,
            policy,
            guard: guard_policy(scenario),
            records: Records::new(scenario.catalogue)?,
            daemon: None,
            lvm: Lvm::default(),
            faults: Faults::default(),
            life: 0,
            acknowledged: BTreeMap::new(),
            tally: Tally::default(),
            queue: BTreeMap::new(),
            sequence: 0,
            diary: VecDeque::new(),
            noted: String::new(),
            violation: None,
        };
        let told = |sim: &mut Self, violation: Violation| {
            let what = format!("after {} ms: {}", sim.world.now, violation.what);
            Violation { what, diary: sim.diary.drain(..).collect() }
        };
        sim.live().and_then(|()| sim.come_to_rest()).map_err(|violation| told(&mut sim, violation))?;
        sim.tally.ms = sim.world.now;
        Ok(sim.tally)
    }

    fn live(&mut self) -> Result<(), Violation> {
        self.write_script();
        self.note_room();
        self.start()?;
        let end = self.scenario.minutes * 60_000;
        while self.step(end)? {}
        Ok(())
    }

    /// Goes on to the next thing that happens before `end`; false where there is none.
    pub(crate) fn step(&mut self, end: u64) -> Result<bool, Violation> {
        let happens = self.queue.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
        let paused = self.faults.paused_until;
        let looks = self.daemon.as_ref().map_or(u64::MAX, |daemon| daemon.next_look.max(paused));
        let ticks = self.daemon.as_ref().map_or(u64::MAX, |daemon| daemon.next_tick.max(paused));
        let then = happens.min(looks).min(ticks);
        if then >= end {
            self.pass(end)?;
            return Ok(false);
        }
        self.pass(then)?;
        if then == happens {
            let Some((_, happening)) = self.queue.pop_first() else { return Ok(false) };
            if paused > then && happening.is_put_off() {
                self.at(paused, happening);
            } else {
                self.handle(happening)?;
            }
        } else if then == looks {
            self.look()?;
        } else {
            self.tick()?;
        }
        self.judge()?;
        Ok(true)
    }

    /// Lets time pass. What overflows meanwhile is judged at once.
    fn pass(&mut self, then: u64) -> Result<(), Violation> {
        let ms = then.saturating_sub(self.world.now);
        if ms == 0 {
            return Ok(());
        }
        let harmed = self.world.pool.as_ref().and_then(|pool| pool.harm);
        let overflowed = self.world.pass(ms);
        for id in overflowed {
            self.say(|| format!("{id} has overflowed"));
            self.check_overflow(&id)?;
        }
        match self.world.pool.as_ref().and_then(|pool| pool.harm) {
            Some(harm) if harmed.is_none() => self.check_harm(harm),
            _ => Ok(()),
        }
    }

    fn handle(&mut self, happening: Happening) -> Result<(), Violation> {
        let alive = |life: u64, sim: &Self| sim.life == life && sim.daemon.is_some();
        match happening {
            Happening::Write { origin, burst } => {
                self.glance();
                if burst.is_some() {
                    self.world.origins[origin].live += 1;
                }
                self.say(|| format!("origin {origin} is written: {burst:?}"));
                self.world.origins[origin].burst = burst;
                self.wake();
                Ok(())
            }
            Happening::Publish { origin } => self.publish(origin),
            Happening::Read { origin, seconds } => self.read(origin, seconds),
            Happening::Pin { origin, hot, seconds } => self.pin(origin, hot, seconds),
            Happening::Done { life, effect, outcome } if alive(life, self) => self.done(effect, *outcome),
            Happening::Perform { life, effect } if alive(life, self) => self.perform(effect),
            Happening::Lvm { life } if alive(life, self) => self.lvm_ended(),
            Happening::Room { life, ended } if alive(life, self) => {
                self.tell_room(ended);
                Ok(())
            }
            Happening::IsRemoved { life, id, uuid } if alive(life, self) => {
                self.tell_whether_removed(id, &uuid)
            }
            Happening::Hold { life, origin } if alive(life, self) => {
                self.hold(origin);
                Ok(())
            }
            Happening::HoldAgain { life, origin } if alive(life, self) => {
                self.hold_again(origin);
                Ok(())
            }
            Happening::LetGo { life, origin } if alive(life, self) => self.let_go(origin),
            Happening::Fault(fault) => self.go_wrong(fault),
            Happening::Mend(fault) => self.mend(fault),
            Happening::Start => self.start(),
            _ => Ok(()),
        }
    }

    /// Something happens later.
    pub(crate) fn later(&mut self, ms: u64, happening: Happening) {
        self.at(self.world.now + ms, happening);
    }

    /// Something happens then.
    pub(crate) fn at(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    /// What was to happen does not.
    pub(crate) fn drop_happenings(&mut self, which: impl Fn(&Happening) -> bool) {
        self.queue.retain(|_, happening| !which(happening));
    }

    /// Whether anything is still to happen, but that the guard hears how much room there is.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.values().all(|happening| matches!(happening, Happening::Room { ended: None, .. }))
    }

    /// What the machine's clocks say.
    pub(crate) fn read_clocks(&self) -> Reading {
        let begin = Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH);
        let ms = i64::try_from(self.world.now).unwrap_or(i64::MAX) + self.faults.clock_ms;
        let wall = begin.checked_add(SignedDuration::from_millis(ms)).unwrap_or(Timestamp::MAX);
        let (boot, uptime_ms) = (self.faults.boots.to_string(), self.world.now - self.faults.booted_at);
        Reading { wall, moment: Moment { boot, uptime_ms } }
    }

    /// What the daemon believes of them; where there is none, what they say.
    pub(crate) fn believed(&self) -> Believed {
        let anchor = self.known().and_then(Register::clock);
        clock::believed(anchor, &self.policy.clock, &self.read_clocks())
    }

    /// The time that the daemon goes by.
    pub(crate) fn clock(&self) -> Timestamp {
        self.believed().time
    }

    /// Writes a line into the diary.
    pub(crate) fn say(&mut self, text: impl FnOnce() -> String) {
        if self.diary.len() == DIARY {
            self.diary.pop_front();
        }
        let line = format!("{} ms: {}", self.world.now, text());
        self.diary.push_back(line);
    }
}
