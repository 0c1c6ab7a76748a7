//! The guard's thread: it looks, has the core plan, and sees to it that the plan is carried out.
//!
//! Nothing else may delay it, so it does nothing that takes long: LVM's commands are run by a [`Worker`], each origin's
//! writers are held by a [`Brakes`] thread, and what concerns records goes to the driver. They tell it when they are
//! done; between two looks it waits for that.

mod acting;
mod alarm_command;
mod alarming;
mod alarms;
mod asked;
mod brakes;
mod events;
mod glances;
mod status;
mod watchdog;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use asat_core::event::Event;
use asat_core::guard::{self, HotVersion, Memory, Outcome, Plan, Policy, Step};
use asat_core::harm::Harm;
use asat_core::snapshot::{Origin, Snapshot};
use asat_core::{Code, Problem, VersionId};
use asat_host::lvm::report::Uuid;
use asat_host::volume::DeviceUuid;

use alarming::Alarming;
use asked::Asked;
pub use status::{Alarm, Braked, Done, GuardStatus, Looks};

use super::host::Host as _;
use super::machine::{Look, Machine, Missing, Reserved, Room};
use super::{Handle, Notice};
use crate::config::{Config, GuardConfig};
use brakes::Brakes;
use events::Hearing;
use glances::Glances;
use watchdog::Watchdog;
use worker::Worker;

/// How old what LVM said of the room may be, while anything is written or not safe.
const ROOM_AGE: Duration = Duration::from_secs(10);

/// The same while all is quiet. One of LVM's commands costs more than all the guard's looks of several minutes.
const ROOM_AGE_IN_PEACE: Duration = Duration::from_secs(300);

/// How many of its last actions it keeps in mind.
const LAST_ACTIONS: usize = 50;

/// How long a stop waits for what is under way. A healthy command of LVM is over by then.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What the guard is told.
enum Word {
    /// Records have changed.
    Changed,
    /// An action has ended.
    Ended {
        step: Step,
        outcome: Outcome,
        took: Duration,
        /// What the guard itself added to the time that LVM's command took.
        added: Option<Duration>,
    },
    /// What LVM says of the room that there is.
    Room(Result<Room, Problem>),
    /// LVM says that a version's snapshot is gone for good.
    Removed(VersionId),
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

/// What the records say that the guard has to know.
struct Recorded {
    hot: Vec<(HotVersion, Snapshot)>,
    harms: Vec<Harm>,
}

struct Guard {
    machine: Arc<Machine>,
    handle: Handle,
    state: PathBuf,
    policy: Policy,
    memory: Memory,
    began: Instant,
    words: Receiver<Word>,
    worker: Worker,
    brakes: Brakes,
    /// The versions in snapshots, and what is lost or damaged; `None` where records have changed since.
    recorded: Option<Recorded>,
    room: Room,
    /// The size of what is being extended, when that began.
    extended_from: Option<u64>,
    /// The turn of an extension, which is kept until the look after it.
    turn: Option<Reserved>,
    /// The snapshots that there were at the last look, where there was one.
    snapshots: Option<BTreeSet<String>>,
    /// When LVM was asked for the room last, where it matters.
    room_asked: Option<Instant>,
    glances: Glances,
    /// Versions that are on their way into the archive, because the guard wants it, and since when.
    hurried: BTreeMap<VersionId, (Step, Instant)>,
    /// How many actions have begun that tell when they have ended.
    open: usize,
    /// Snapshots that the kernel knows nothing of, about which LVM was asked.
    asked: Asked,
    alarming: Alarming,
    watchdog: Watchdog,
    looks: Looks,
}

impl Guarding {
    /// Starts the guard.
    ///
    /// # Errors
    /// Where the system gives no more threads.
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
                if changed.send(Word::Changed).is_err() {
                    return;
                }
            }
        })?;
        show(&handle, &config.guard.policy);
        let mut brakes = Brakes::new(Arc::clone(&machine), handle.clone(), words.clone());
        brakes.prepare(machine.volumes().volumes_of_stores());
        let guard = Guard {
            brakes,
            worker: Worker::start(Arc::clone(&machine), words.clone())?,
            room: machine.volumes().room_at_start(),
            alarming: Alarming::start(handle.clone(), &config.guard.alarm)?,
            state: config.state.clone(),
            policy: config.guard.policy.clone(),
            machine,
            handle,
            memory: Memory::default(),
            began: Instant::now(),
            words: heard,
            recorded: None,
            extended_from: None,
            turn: None,
            snapshots: None,
            room_asked: None,
            glances: Glances::default(),
            hurried: BTreeMap::new(),
            open: 0,
            asked: Asked::default(),
            watchdog: Watchdog::new(),
            looks: Looks::default(),
        };
        let on_volumes = guard.machine.volumes().volumes_of_stores().next().is_some();
        let hearing = if on_volumes { Hearing::start(words.clone())? } else { None };
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
            tracing::error!("the guard ended with a panic; brakes let go by themselves");
        }
    }
}

impl Guard {
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
        self.brakes.release_all();
        self.give_turn();
        let until = Instant::now() + LAST_WAIT;
        while self.open > 0 {
            match self.words.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(word @ Word::Ended { .. }) => {
                    self.hear(word);
                    // No look follows.
                    self.give_turn();
                }
                Ok(_) => {}
                Err(_) => {
                    return tracing::warn!(open = self.open, "guard: stopped before its actions had ended");
                }
            }
        }
    }

    /// Takes in what it was told; true where that is to stop.
    fn hear(&mut self, word: Word) -> bool {
        self.glances.disturb();
        match word {
            Word::Changed => self.recorded = None,
            Word::Ended { step, outcome, took, added } => {
                self.open = self.open.saturating_sub(1);
                self.ended(&step, outcome, took, added);
            }
            Word::Room(Ok(room)) => self.room = room,
            Word::Room(Err(problem)) => tracing::warn!("how much is free is not known: {problem}"),
            Word::Happened => {}
            Word::Configured(config) => self.configure(*config),
            Word::Removed(id) => self.handle.tell(Event::Vanished(id), |_| {}),
            Word::Stop => return true,
        }
        false
    }

    fn configure(&mut self, config: GuardConfig) {
        show(&self.handle, &config.policy);
        self.policy = config.policy;
        self.alarming.configure(config.alarm);
    }

    /// Where all was quiet at the last look, looks whether anybody has written since: if not, another look would show the
    /// same, and lead to no other plan. Answers when to look again; `None` where everything is to be looked at now.
    fn glance(&mut self) -> Option<Duration> {
        let tick_ms = self.glances.glance()?;
        let now_ms = self.now_ms();
        self.memory.glance(&self.policy, now_ms);
        self.memory.expect(now_ms.saturating_add(tick_ms));
        self.looks.glances += 1;
        Some(Duration::from_millis(tick_ms))
    }

    /// Looks, plans and begins what is to be done; answers when to look again.
    fn look_and_act(&mut self) -> Duration {
        let (looked, now_ms) = (Instant::now(), self.now_ms());
        let since = self.glances.begin();
        self.looks.full += 1;
        let look = match self.look(now_ms) {
            Ok(look) => look,
            Err(problem) => {
                self.give_turn();
                // Who sees nothing holds nobody.
                self.brakes.release_all();
                self.handle.change_standing(|standing| standing.trouble = Some(problem));
                return Duration::from_millis(self.policy.longest_tick_ms);
            }
        };
        let seen = &look.seen;
        self.memory.learn(&self.policy, seen);
        let mut plan = guard::plan(&self.policy, &self.memory, seen);
        let unrecorded = self.handle.recording().problem();
        let state = self.state.display().to_string();
        plan.steps.extend(unrecorded.map(|problem| guard::unrecorded(&state, &problem)));
        let damaged = self.handle.verified().problem();
        plan.steps.extend(damaged.map(|problem| guard::records_damaged(&state, &problem)));
        let grows = !seen.snapshots.is_empty() || seen.pools.iter().any(|pool| pool.may_grow);
        // Of a pool that may not be extended it matters how large what is in it looks, which seldom changes.
        self.want_room(grows || !seen.pools.is_empty(), since.in_peace || !grows);
        plan.release.iter().for_each(|origin| self.brakes.release(origin));
        plan.steps.iter().for_each(|step| self.begin(step, &plan, (now_ms, looked)));
        self.give_turn();
        self.machine.advise(self.advice(&plan, seen));
        self.memory.expect(now_ms.saturating_add(plan.tick_ms));
        let tick = Duration::from_millis(plan.tick_ms);
        self.alarming.tell(self.machine.now(), now_ms, &plan.steps);
        self.glances.end(since, (&look, looked), &plan, self.memory.is_idle());
        self.say(plan);
        tick
    }

    /// Lets others change volumes, if nothing is being extended.
    fn give_turn(&mut self) {
        self.turn = self.turn.take().filter(|_| self.memory.is_extending());
    }

    /// Has LVM asked how much room there is, where that matters and what is known is old.
    fn want_room(&mut self, wanted: bool, in_peace: bool) {
        let age = if in_peace { ROOM_AGE_IN_PEACE } else { ROOM_AGE };
        let known = self.room_asked.is_some_and(|asked| asked.elapsed() < age);
        self.room_asked = if known { self.room_asked } else { Some(Instant::now()) }.filter(|_| wanted);
        if wanted && !known {
            self.worker.ask_room();
        }
    }

    fn look(&mut self, now_ms: u64) -> Result<Look, Problem> {
        let recorded = match self.recorded.take() {
            Some(recorded) => recorded,
            None => {
                let engine = self.handle.engine();
                Recorded { hot: engine.in_snapshots(self.machine.now()), harms: engine.register().harms() }
            }
        };
        let Recorded { hot, harms } = &recorded;
        self.reckon_room(hot);
        self.settle_hurried(hot);
        self.brakes.prepare(hot.iter().filter_map(|(_, snapshot)| device(&snapshot.origin)));
        let mut folder = self.machine.folder(&self.state)?;
        if folder.free < self.policy.least_folder_free {
            folder.waiting = self.handle.engine().first_in_grace();
        }
        let mut look = self.machine.volumes().look(now_ms, (hot, harms), &self.room, Some(folder));
        if let Ok(look) = &mut look {
            look.seen.clock = self.machine.doubted();
        }
        for (id, missing) in look.as_ref().map_or(&[][..], |look| &look.missing) {
            self.report(id, missing, hot);
        }
        self.recorded = Some(recorded);
        look
    }

    /// Reckons with what new snapshots take of their groups until LVM says how much is free. What others gave back, it knows.
    fn reckon_room(&mut self, hot: &[(HotVersion, Snapshot)]) {
        let snapshots: BTreeSet<String> = hot.iter().map(|(_, snapshot)| snapshot.uuid.clone()).collect();
        let Some(before) = self.snapshots.replace(snapshots.clone()).filter(|before| *before != snapshots)
        else {
            return;
        };
        self.worker.ask_room();
        for (_, snapshot) in hot.iter().filter(|(_, snapshot)| !before.contains(&snapshot.uuid)) {
            let mut groups = self.room.groups.iter_mut();
            if let Some(group) = groups.find(|group| group.id == snapshot.origin.group) {
                group.free = group.free.saturating_sub(snapshot.bytes);
            }
        }
    }

    /// Has the records say what became of a snapshot.
    fn report(&mut self, id: &VersionId, missing: &Missing, hot: &[(HotVersion, Snapshot)]) {
        if *missing == Missing::Lost {
            return self.handle.tell(Event::Overflowed(id.clone()), |_| {});
        }
        // It may be inactive, or its group may be away for a while: LVM knows, and is not asked without pause.
        let found = hot.iter().find(|(version, _)| version.id == *id);
        if let Some((_, snapshot)) = found.filter(|_| self.asked.is_due(id, Instant::now())) {
            self.worker.ask_whether_removed(id, snapshot);
        }
    }

    fn say(&self, Plan { assessments, steps, tick_ms, .. }: Plan) {
        let wedge = self.machine.volumes().wedged();
        self.handle.change_standing(|standing| {
            standing.looked_at = Some(self.machine.now());
            standing.tick_ms = tick_ms;
            standing.looks = self.looks;
            standing.assessments = assessments;
            standing.steps = steps;
            standing.trouble = wedge;
            if standing.names.is_empty() {
                standing.names = self.machine.volumes().names();
            }
        });
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Lets others see what the guard may do.
fn show(handle: &Handle, policy: &Policy) {
    handle.change_standing(|standing| {
        standing.ladder.clone_from(&policy.ladder);
        standing.precedence = policy.precedence();
    });
}

/// The device of a volume, if what is recorded of it can be read.
fn device(origin: &Origin) -> Option<DeviceUuid> {
    let (group, volume) = (Uuid::from_compact(&origin.group)?, Uuid::from_compact(&origin.volume)?);
    Some(DeviceUuid { group, volume })
}

/// What came of something that LVM was asked for.
fn outcome(result: Result<(), Problem>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(problem) if problem.code == Code::LvmStuck => Outcome::Stalled,
        Err(problem) => Outcome::Failed(problem.detail),
    }
}
