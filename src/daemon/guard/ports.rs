//! The guard's ports in the daemon: the kernel's counters, the threads that act, the driver, and those who listen.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use asat_core::event::Event;
use asat_core::guard::{self, Advice, GuardEntry, Outcome, Room, Step};
use asat_core::snapshot::{Origin, Snapshot};
use asat_core::{Problem, VersionId};
use asat_host::lvm::report::Uuid;
use asat_host::volume::DeviceUuid;
use asat_shell::{Actuators, Ended, Look, Recorded, Sensors, Spectators};
use jiff::Timestamp;
use tracing::field::display;

use super::{Brakes, Done, Glances, Worker};
use crate::daemon::host::Host as _;
use crate::daemon::machine::{Machine, Reserved};
use crate::daemon::{Handle, Notice};

/// How many of its last actions are kept in mind.
const LAST_ACTIONS: usize = 50;

/// The guard's ports.
pub(super) struct Ports {
    pub(super) machine: Arc<Machine>,
    pub(super) handle: Handle,
    pub(super) state: PathBuf,
    pub(super) began: Instant,
    pub(super) worker: Worker,
    pub(super) brakes: Brakes,
    /// The turn of an extension, which is kept until the look after it.
    pub(super) turn: Option<Reserved>,
    pub(super) glances: Glances,
    /// When the last look began.
    pub(super) looked: Instant,
}

impl Sensors for Ports {
    fn uptime_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn observe(&mut self, at_ms: u64, recorded: &Recorded, room: &Room) -> Result<Look, Problem> {
        self.looked = Instant::now();
        let in_peace = self.glances.begin();
        self.brakes.prepare(recorded.hot.iter().filter_map(|(_, snapshot)| device(&snapshot.origin)));
        let folder = self.machine.folder(&self.state)?;
        let (mut seen, missing, written) = self.machine.volumes().look(at_ms, recorded, room)?;
        self.glances.over(&written);
        seen.folders.push(folder);
        seen.clock = self.machine.doubted();
        let state = self.state.display().to_string();
        let unrecorded = self.handle.recording().problem();
        let unrecorded = unrecorded.map(|problem| guard::unrecorded(&state, &problem));
        let damaged = self.handle.verified().problem();
        let damaged = damaged.map(|problem| guard::records_damaged(&state, &problem));
        let alarms = unrecorded.into_iter().chain(damaged).chain(self.machine.remotes().late());
        let alarms = alarms.chain(self.machine.follows().late()).chain(self.machine.tracking_alarms());
        Ok(Look { seen, missing, alarms: alarms.collect(), in_peace })
    }

    fn ask_room(&mut self) {
        self.worker.ask_room();
    }

    fn ask_whether_removed(&mut self, id: &VersionId, snapshot: &Snapshot) {
        self.worker.ask_whether_removed(id, snapshot);
    }
}

impl Actuators for Ports {
    fn extend(&mut self, step: &Step) -> bool {
        self.worker.extend(step, self.looked)
    }

    fn keep_turn(&mut self) {
        self.turn.get_or_insert_with(|| self.machine.volumes().reserve_turn());
    }

    fn give_turn(&mut self) {
        self.turn = None;
    }

    fn hold_writers(&mut self, origin: &str, step: &Step, most_ms: u64) -> bool {
        self.brakes.hold(origin, step, most_ms)
    }

    fn release_writers(&mut self, origin: &str) {
        self.brakes.release(origin);
    }

    fn release_all(&mut self) {
        self.brakes.release_all();
    }

    fn ask_engine(&mut self, step: &Step, event: Event) {
        let (tell, step) = (self.worker.after_room(), step.clone());
        self.handle.tell(event, move |answer| {
            let outcome = answer.map_or_else(|problem| Outcome::Failed(problem.detail), |_| Outcome::Done);
            tell(Ended { step, outcome, took: None, added: None });
        });
    }

    fn tell_engine(&mut self, event: Event) {
        self.handle.tell(event, |_| {});
    }

    fn advise(&mut self, advice: Advice) {
        self.machine.advise(advice);
    }
}

impl Spectators for Ports {
    fn began(&mut self, step: &Step) {
        let version = step.action.version().or_else(|| step.target.version()).map(display);
        let (of, action) = (&step.target, step.action.rung().text());
        tracing::info!(version, %of, action, "guard: {action} for {of}: {}", step.reason);
    }

    fn ended(&mut self, entry: GuardEntry, added: Option<Duration>) {
        let GuardEntry { version, target: of, rung, outcome, took_ms, .. } = &entry;
        self.handle.metrics().acted(*rung, outcome);
        let (version, action) = (version.as_ref().map(display), rung.text());
        match outcome {
            Outcome::Done => tracing::info!(version, %of, action, took_ms, "guard: {action} for {of}: done"),
            Outcome::Failed(why) => {
                tracing::warn!(version, %of, action, took_ms, "guard: {action} for {of}: failed: {why}")
            }
            Outcome::Stalled => {
                tracing::error!(version, %of, action, took_ms, "guard: {action} for {of}: it does not end")
            }
        }
        self.handle.change_standing(|standing| {
            standing.done.insert(0, Done { entry: entry.clone(), added });
            standing.done.truncate(LAST_ACTIONS);
        });
        self.handle.notify(Notice::Guard(Box::new(entry.clone())));
        self.handle.log(vec![entry]);
    }
}

/// The device of a volume, if what is recorded of it can be read.
fn device(origin: &Origin) -> Option<DeviceUuid> {
    let (group, volume) = (Uuid::from_compact(&origin.group)?, Uuid::from_compact(&origin.volume)?);
    Some(DeviceUuid { group, volume })
}
