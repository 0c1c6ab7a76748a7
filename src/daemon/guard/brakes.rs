//! The brakes: one for each volume that has snapshots, each with a thread and a process of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use asat_core::Problem;
use asat_core::guard::{Outcome, Step};
use asat_host::brake::{self, Brake, Error, Released};
use asat_host::volume::DeviceUuid;
use asat_shell::{Ended, Told};

use super::{Braked, Word};
use crate::daemon::machine::Machine;
use crate::daemon::{Handle, failed};

/// The brakes of all origins.
pub(super) struct Brakes {
    machine: Arc<Machine>,
    handle: Handle,
    words: Sender<Word>,
    threads: BTreeMap<String, Sender<Order>>,
}

/// What one of the threads has.
struct Holder {
    machine: Arc<Machine>,
    handle: Handle,
    device: DeviceUuid,
    /// The identity of the origin.
    id: String,
}

enum Order {
    /// Hold the writers for a step, for at most so long.
    Hold(Step, Duration),
    /// Let them go, if they are held.
    Release,
}

impl Brakes {
    pub(super) fn new(machine: Arc<Machine>, handle: Handle, words: Sender<Word>) -> Self {
        Self { machine, handle, words, threads: BTreeMap::new() }
    }

    /// Starts what is needed to hold the writers of these volumes, before it is needed.
    pub(super) fn prepare(&mut self, origins: impl Iterator<Item = DeviceUuid>) {
        for device in origins {
            let id = device.volume.compact();
            if self.threads.contains_key(&id) {
                continue;
            }
            // A process that holds lets go by itself, and so does the daemon; this is for where both are killed.
            if let Err(error) = brake::write_down(Path::new(brake::RECORDS), &device) {
                tracing::error!("{device} cannot be written down in {}: {error}", brake::RECORDS);
            }
            let ((orders, queue), words) = (channel(), self.words.clone());
            let (machine, handle) = (Arc::clone(&self.machine), self.handle.clone());
            let holder = Holder { machine, handle, device, id: id.clone() };
            match thread::Builder::new()
                .name("guard-brake".to_owned())
                .spawn(move || holder.serve(&queue, &words))
            {
                Ok(_) => {
                    self.handle.change_standing(|standing| {
                        standing.brakes.entry(id.clone()).or_default();
                    });
                    self.threads.insert(id, orders);
                }
                Err(error) => tracing::error!("no thread to hold the writers of {device}: {error}"),
            }
        }
    }

    /// Has an origin's writers held; false where there is nobody to do it.
    pub(super) fn hold(&self, origin: &str, step: &Step, most_ms: u64) -> bool {
        let order = Order::Hold(step.clone(), Duration::from_millis(most_ms));
        self.threads.get(origin).is_some_and(|thread| thread.send(order).is_ok())
    }

    /// Lets an origin's writers go, if they are held.
    pub(super) fn release(&self, origin: &str) {
        if let Some(thread) = self.threads.get(origin) {
            // One that is gone holds nobody.
            let _ = thread.send(Order::Release);
        }
    }

    /// Lets all writers go that are held.
    pub(super) fn release_all(&self) {
        self.threads.keys().for_each(|origin| self.release(origin));
    }
}

impl Holder {
    /// Holds the origin's writers whenever it is told to.
    fn serve(&self, orders: &Receiver<Order>, words: &Sender<Word>) {
        let program = std::env::current_exe();
        let start = || match &program {
            Ok(program) => Brake::start(program, &["brake"]).map_err(Problem::from),
            Err(error) => Err(failed("find its own program", error)),
        };
        let mut brake = start();
        if let Err(problem) = &brake {
            tracing::error!("writers of {} cannot be held: {problem}", self.device);
        }
        for order in orders {
            let Order::Hold(step, most) = order else { continue };
            if brake.is_err() {
                brake = start();
            }
            let _turn = self.machine.volumes().turn_to_hold();
            let since = Instant::now();
            // What was said while it waited for its turn: what follows is up to the next plan.
            let released = orders.try_iter().any(|order| matches!(order, Order::Release));
            let (outcome, held) = match &mut brake {
                _ if released => (Outcome::Done, None),
                Ok(brake) => self.hold(brake, most, orders),
                Err(problem) => (Outcome::Failed(problem.to_string()), None),
            };
            // A hold that was refused held nobody, and took its time all the same.
            let took = held.unwrap_or_else(|| since.elapsed());
            let ended = Ended { step, outcome, took: Some(took), added: None };
            if words.send(Word::Told(Told::Ended(ended))).is_err() {
                return;
            }
        }
    }

    /// Holds them once; answers also for how long they were held, where they may have been.
    fn hold(
        &self,
        brake: &mut Brake,
        most: Duration,
        orders: &Receiver<Order>,
    ) -> (Outcome, Option<Duration>) {
        let since = Instant::now();
        let released = brake.hold(&self.device, most).and_then(|held| {
            self.note(|braked| braked.now = true);
            // Whatever comes first ends it: the order, the time, or the end of the guard.
            let _ = orders.recv_timeout(most);
            held.release()
        });
        let held = match &released {
            Ok(released) => Some(released.held),
            // What is not known exactly is told as what it was at the most.
            Err(Error::Failed { .. } | Error::StillHeld { .. } | Error::Mapper(_)) => Some(since.elapsed()),
            Err(_) => None,
        };
        self.note(|braked| held.into_iter().for_each(|held| braked.add(held)));
        (self.outcome(released), held)
    }

    fn outcome(&self, released: Result<Released, Error>) -> Outcome {
        match released {
            Ok(Released { trouble: None, .. }) => Outcome::Done,
            Ok(Released { trouble: Some(trouble), .. }) => {
                tracing::warn!("{} was released without the process that held it: {trouble}", self.device);
                Outcome::Done
            }
            Err(error @ Error::Refused { .. }) => Outcome::Failed(error.to_string()),
            Err(error) => {
                let said = error.to_string();
                tracing::error!("the brake of {} failed: {}", self.device, Problem::from(error));
                Outcome::Failed(said)
            }
        }
    }

    /// Notes how the origin's writers fare, for `GET /v1/capacity`.
    fn note(&self, change: impl FnOnce(&mut Braked)) {
        self.handle.change_standing(|standing| change(standing.brakes.entry(self.id.clone()).or_default()));
    }
}
