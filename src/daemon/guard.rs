//! The guard's thread: it hears words, and has the shell look, plan and act.
//!
//! Nothing else may delay it, so it does nothing that takes long: LVM's commands are run by a [`Worker`], each origin's
//! writers are held by a [`Brakes`] thread, and what concerns records goes to the driver. They tell it when they are
//! done; between two looks it waits for that.

mod alarm_command;
mod alarming;
mod alarms;
mod brakes;
mod events;
mod glances;
mod ports;
mod status;
mod watchdog;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use asat_core::guard::{Outcome, Policy};
use asat_core::{Code, Problem};
use asat_shell::{Actuators as _, Guard, Planned, Sensors as _, Told};

use alarming::Alarming;
use brakes::Brakes;
use events::Hearing;
use glances::Glances;
use ports::Ports;
pub use status::{Alarm, Braked, Done, GuardStatus, Looks};
use watchdog::Watchdog;
use worker::Worker;

use super::host::Host as _;
use super::machine::Machine;
use super::{Handle, Notice};
use crate::config::{Config, GuardConfig};

/// How long a stop waits for what is under way. A healthy command of LVM is over by then.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What the thread hears.
enum Word {
    /// What the guard is told.
    Told(Told),
    /// The device-mapper says that something has happened.
    Happened,
    /// The configuration has changed.
    Configured(Box<GuardConfig>),
    Stop,
}

/// A running guard.
pub(super) struct Guarding {
    words: Sender<Word>,
    thread: JoinHandle<()>,
    _hearing: Option<Hearing>,
}

/// What the thread has.
struct Thread {
    guard: Guard,
    ports: Ports,
    words: Receiver<Word>,
    alarming: Alarming,
    watchdog: Watchdog,
    looks: Looks,
}

impl Guarding {
    /// Starts the guard.
    ///
    /// # Errors
    /// If the system gives no more threads.
    pub(super) fn start(machine: Arc<Machine>, handle: Handle, config: &Config) -> std::io::Result<Self> {
        let (words, heard) = channel();
        let changed = words.clone();
        let mut notices = handle.listen();
        // It ends with the daemon, or when nobody hears it any more.
        thread::Builder::new().name("guard-notices".to_owned()).spawn(move || {
            use tokio::sync::broadcast::error::RecvError;
            loop {
                match notices.blocking_recv() {
                    Ok(Notice::Changed(_)) | Err(RecvError::Lagged(_)) => {}
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return,
                }
                if changed.send(Word::Told(Told::Changed)).is_err() {
                    return;
                }
            }
        })?;
        show(&handle, &config.guard.policy);
        let mut brakes = Brakes::new(Arc::clone(&machine), handle.clone(), words.clone());
        brakes.prepare(machine.volumes().volumes_of_stores());
        let on_volumes = machine.volumes().volumes_of_stores().next().is_some();
        let hearing = if on_volumes { Hearing::start(words.clone())? } else { None };
        let (policy, room) = (config.guard.policy.clone(), machine.volumes().room_at_start());
        let guard = Thread {
            guard: Guard::new(handle.shared_engine(), policy, room),
            words: heard,
            alarming: Alarming::start(handle.clone(), &config.guard.alarm)?,
            watchdog: Watchdog::new(),
            looks: Looks::default(),
            ports: Ports {
                worker: Worker::start(Arc::clone(&machine), words.clone())?,
                brakes,
                state: config.state.clone(),
                began: Instant::now(),
                looked: Instant::now(),
                turn: None,
                glances: Glances::default(),
                machine,
                handle,
            },
        };
        let thread = thread::Builder::new().name("guard".to_owned()).spawn(move || guard.run())?;
        Ok(Self { words, thread, _hearing: hearing })
    }

    /// Has it go by another configuration from its next look on.
    pub(super) fn configure(&self, config: &GuardConfig) {
        // A guard that is gone is told of by the watchdog.
        let _ = self.words.send(Word::Configured(Box::new(config.clone())));
    }

    /// Ends it, with every writer let go.
    pub(super) fn stop(self) {
        // A guard that is gone has nothing left to stop.
        let _ = self.words.send(Word::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the guard ended with a panic; brakes end by themselves");
        }
    }
}

impl Thread {
    fn run(mut self) {
        loop {
            let since = Instant::now();
            let tick = match self.glance() {
                Some(tick) => tick,
                None => self.look_and_act(),
            };
            self.looks.spent += since.elapsed();
            self.watchdog.feed();
            match self.words.recv_timeout(tick) {
                Ok(word) => {
                    let mut words = vec![word];
                    words.extend(self.words.try_iter());
                    // What was said after the word to stop counts too.
                    let stops: Vec<bool> = words.into_iter().map(|word| self.hear(word)).collect();
                    if stops.contains(&true) {
                        return self.wind_up();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Lets everybody go, and waits for a while for what is under way, so that what came of it is on record.
    fn wind_up(&mut self) {
        self.ports.release_all();
        self.guard.give_turn(&mut self.ports);
        let until = Instant::now() + LAST_WAIT;
        while self.guard.memory().open() > 0 {
            match self.words.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Word::Told(Told::Ended(ended))) => self.guard.hear_last(&mut self.ports, ended),
                Ok(_) => {}
                Err(_) => {
                    let open = self.guard.memory().open();
                    return tracing::warn!(open, "guard: stopped before its actions had ended");
                }
            }
        }
    }

    /// Takes in what it was told; `true` if that is to stop.
    fn hear(&mut self, word: Word) -> bool {
        self.ports.glances.disturb();
        match word {
            Word::Told(told) => self.guard.hear(&mut self.ports, told),
            Word::Happened => {}
            Word::Configured(config) => self.configure(*config),
            Word::Stop => return true,
        }
        false
    }

    fn configure(&mut self, config: GuardConfig) {
        show(&self.ports.handle, &config.policy);
        self.guard.configure(config.policy);
        self.alarming.configure(config.alarm);
    }

    /// If all was quiet at the last look, looks whether anybody has written since: if not, another look would show the
    /// same, and lead to no other plan. Answers when to look again; `None` if everything is to be looked at now.
    fn glance(&mut self) -> Option<Duration> {
        let tick_ms = self.ports.glances.glance()?;
        let now_ms = self.ports.uptime_ms();
        self.guard.glance(now_ms);
        self.guard.expect(now_ms.saturating_add(tick_ms));
        self.looks.glances += 1;
        Some(Duration::from_millis(tick_ms))
    }

    /// Looks, plans and begins what is to be done; answers when to look again.
    fn look_and_act(&mut self) -> Duration {
        self.looks.full += 1;
        let planned = match self.guard.look(&mut self.ports) {
            Ok(planned) => planned,
            Err(problem) => {
                self.ports.handle.change_standing(|standing| standing.trouble = Some(problem));
                return Duration::from_millis(self.guard.policy().longest_tick_ms);
            }
        };
        self.guard.act(&mut self.ports, &planned);
        let (now, plan) = (self.ports.now(), &planned.plan);
        self.alarming.tell(now, planned.look.seen.at_ms, &plan.steps);
        self.ports.glances.end(self.ports.looked, &planned, self.guard.memory().is_idle());
        let tick = Duration::from_millis(plan.tick_ms);
        self.say(planned);
        tick
    }

    fn say(&self, Planned { plan, .. }: Planned) {
        let Ports { machine, handle, .. } = &self.ports;
        let wedge = machine.volumes().wedged();
        handle.change_standing(|standing| {
            standing.looked_at = Some(machine.now());
            standing.tick_ms = plan.tick_ms;
            standing.looks = self.looks;
            standing.assessments = plan.assessments;
            standing.steps = plan.steps;
            standing.trouble = wedge;
            if standing.names.is_empty() {
                standing.names = machine.volumes().names();
            }
        });
    }
}

/// Lets others see what the guard may do.
fn show(handle: &Handle, policy: &Policy) {
    handle.change_standing(|standing| {
        standing.ladder.clone_from(&policy.ladder);
        standing.precedence = policy.precedence();
    });
}

/// What came of something that LVM was asked for.
fn outcome(result: Result<(), Problem>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(problem) if problem.code == Code::LvmStuck => Outcome::Stalled,
        Err(problem) => Outcome::Failed(problem.detail),
    }
}
