//! The brakes, as the daemon has them: one for each origin. Brakes, the guard's extensions and removals share the turn that
//! commands of LVM take; no snapshot is taken while a writer is held, and nobody is held while one is taken. An extension
//! or a removal resumes its origin when it ends, and the brake holds that again a moment later.

use asat_core::VersionId;
use asat_core::guard::{Action, Outcome, Step};

use crate::Violation;
use crate::sim::{Happening, Sim};

/// The longest time until an origin is held again that LVM has resumed, in milliseconds: the brake looks every one, and
/// then has to suspend it.
const HELD_AGAIN_MS: u64 = 5;

/// A brake that is on, or is being put on.
pub(crate) struct Brake {
    step: Step,
    origin: usize,
    /// Whether it waits for a command of LVM to end.
    waits: bool,
    held_at: Option<u64>,
}

impl Sim {
    pub(crate) fn begin_brake(&mut self, step: &Step, id: &str) -> bool {
        let origin = self.world.origins.iter().position(|origin| origin.id == id);
        let free =
            |origin: &usize| self.daemon.as_ref().is_some_and(|daemon| !daemon.brakes.contains_key(origin));
        let Some(origin) = origin.filter(free) else { return false };
        if let Some(daemon) = &mut self.daemon {
            daemon.brakes.insert(origin, Brake { step: step.clone(), origin, waits: false, held_at: None });
        }
        let (life, within) = (self.life, self.dice.between(1, self.guard.brake_latency_ms));
        self.later(within, Happening::Hold { life, origin });
        true
    }

    /// The brake is ready to hold.
    pub(crate) fn hold(&mut self, origin: usize) {
        let (now, life, busy) = (self.world.now, self.life, self.lvm.is_taken());
        let brake = self.daemon.as_mut().and_then(|daemon| daemon.brakes.get_mut(&origin));
        let Some(brake) = brake.filter(|brake| brake.held_at.is_none()) else { return };
        brake.waits = busy;
        if busy {
            self.faults.waited_at = Some(now);
            return;
        }
        brake.held_at = Some(now);
        let Action::Brake { most_ms, .. } = brake.step.action else { return };
        self.world.origins[origin].held = true;
        self.later(most_ms, Happening::LetGo { life, origin });
    }

    /// A command of LVM has ended: who waited for that is held now.
    pub(crate) fn hold_those_that_wait(&mut self) {
        let brakes = self.daemon.iter().flat_map(|daemon| daemon.brakes.values());
        let waiting: Vec<usize> = brakes.filter(|brake| brake.waits).map(|brake| brake.origin).collect();
        waiting.into_iter().for_each(|origin| self.hold(origin));
    }

    /// Whether writers are held, or wait to be: other commands of LVM wait then.
    pub(crate) fn is_braking(&self) -> bool {
        let mut brakes = self.daemon.iter().flat_map(|daemon| daemon.brakes.values());
        brakes.any(|brake| brake.waits || brake.held_at.is_some())
    }

    /// Whether a writer could not be held a moment ago, since LVM was at work on something else. While it was not,
    /// every snapshot of its volume filled, and they are extended one after another.
    pub(crate) fn had_to_wait_for_lvm(&self) -> bool {
        self.faults.waited_at.is_some_and(|at| self.world.now < at + 5000)
    }

    /// Lets go, if a brake is on and its time is over.
    pub(crate) fn let_go(&mut self, origin: usize) -> Result<(), Violation> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let due = |brake: &Brake| brake.held_at.is_some_and(|at| self.world.now >= at + self.guard.brake_ms);
        let brake =
            daemon.brakes.get(&origin).is_some_and(due).then(|| daemon.brakes.remove(&origin)).flatten();
        brake.map_or(Ok(()), |brake| self.released(brake))?;
        self.next_command();
        Ok(())
    }

    /// Lets the writers of an origin go, if they are held.
    pub(crate) fn let_go_of(&mut self, id: &str) -> Result<(), Violation> {
        let held = |brake: &&Brake| self.world.origins[brake.origin].id == id && brake.held_at.is_some();
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let origin = daemon.brakes.values().find(held).map(|brake| brake.origin);
        let brake = origin.and_then(|origin| daemon.brakes.remove(&origin));
        brake.map_or(Ok(()), |brake| self.released(brake))?;
        self.next_command();
        Ok(())
    }

    /// LVM has resumed the origin of a version's snapshot, or all of a pool: one that is held is held again a moment later.
    pub(crate) fn resumed(&mut self, of: Option<&VersionId>) {
        let (life, one) = (self.life, of.and_then(|id| self.origin_of(id)));
        for origin in 0..self.world.origins.len() {
            if self.world.origins[origin].held && one.is_none_or(|one| one == origin) {
                self.world.origins[origin].held = false;
                let within = self.dice.between(1, HELD_AGAIN_MS);
                self.later(within, Happening::HoldAgain { life, origin });
            }
        }
    }

    /// The brake holds what LVM has resumed, if it is still on.
    pub(crate) fn hold_again(&mut self, origin: usize) {
        self.glance();
        let brake = self.daemon.as_ref().and_then(|daemon| daemon.brakes.get(&origin));
        self.world.origins[origin].held = brake.is_some_and(|brake| brake.held_at.is_some());
    }

    fn released(&mut self, brake: Brake) -> Result<(), Violation> {
        self.glance();
        self.world.origins[brake.origin].held = false;
        let held = brake.held_at.map_or(0, |at| self.world.now - at);
        self.tally.add("braked ms", held);
        if held > self.guard.brake_ms {
            return Err(Violation::new(format!("a writer was held for {held} ms")));
        }
        self.ended(brake.step, Outcome::Done, held);
        Ok(())
    }
}
