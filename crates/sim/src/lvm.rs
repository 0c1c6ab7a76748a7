//! LVM: one command after another, those of the guard first. Each takes its time; some fail, hang, or succeed late.

use std::collections::VecDeque;

use asat_core::event::EffectId;
use asat_core::guard::{Action, Outcome, Step, Target};

use crate::Violation;
use crate::hardships;
use crate::pool::Harm;
use crate::sim::{Happening, Sim};

/// How long a command may take before it is given up.
const DEADLINE_MS: u64 = 30_000;

/// A command.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Take the snapshot of a cut.
    Take(EffectId),
    /// Remove a snapshot.
    Remove(EffectId),
    /// Extend something for the guard.
    Extend(Step),
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Works,
    Fails,
    /// It is given up at its deadline, and may have done its work all the same.
    Hangs {
        late: bool,
    },
}

/// The one command that runs, and those that wait.
#[derive(Debug, Default)]
pub(crate) struct Lvm {
    /// With what becomes of it, and when it began.
    running: Option<(Task, Fate, u64)>,
    waiting: VecDeque<Task>,
    /// When the command began that ended last, and when it ended.
    pub(crate) before: Option<(u64, u64)>,
    /// Whether the turn is the guard's: it keeps it from one extension to the next.
    reserved: bool,
}

impl Lvm {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Whether a command runs beside which nobody may be held.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self.running, Some((Task::Take(_), ..)))
    }

    /// Whether the command that runs does not end.
    pub(crate) fn hangs(&self) -> bool {
        matches!(self.running, Some((_, Fate::Hangs { .. }, _)))
    }

    /// Whether the guard has a command here.
    pub(crate) fn has_extension(&self) -> bool {
        let running = self.running.iter().map(|(task, ..)| task);
        running.chain(&self.waiting).any(|task| matches!(task, Task::Extend(_)))
    }

    /// The one that runs, where the machine stops now.
    pub(crate) fn interrupted(&mut self) -> Option<Task> {
        self.running.take().map(|(task, ..)| task)
    }

    /// Keeps the turn for the guard.
    pub(crate) fn keep_turn(&mut self) {
        self.reserved = true;
    }

    /// Gives the turn to others.
    pub(crate) fn give_turn(&mut self) {
        self.reserved = false;
    }

    /// What the guard extends at the moment, and when that began.
    pub(crate) fn extending(&self) -> Option<(&Target, u64)> {
        match &self.running {
            Some((Task::Extend(step), _, since)) => Some((&step.target, *since)),
            _ => None,
        }
    }
}

impl Sim {
    pub(crate) fn command(&mut self, task: Task) {
        if matches!(task, Task::Extend(_)) {
            self.lvm.waiting.push_front(task);
        } else {
            self.lvm.waiting.push_back(task);
        }
        self.next_command();
    }

    pub(crate) fn next_command(&mut self) {
        if !self.lvm.is_idle() {
            return;
        }
        let braking = self.is_braking();
        let reserved = self.lvm.reserved;
        let next = self.lvm.waiting.iter().position(|task| match task {
            Task::Extend(_) => true,
            Task::Take(_) => !reserved && !braking,
            Task::Remove(_) => !reserved,
        });
        let Some(task) = next.and_then(|next| self.lvm.waiting.remove(next)) else { return };
        let fate = match (self.faults.lvm_hangs > 0, self.faults.lvm_fails > 0) {
            (true, _) if self.dice.percent(70) => Fate::Hangs { late: self.dice.percent(50) },
            (_, true) if self.dice.percent(80) => Fate::Fails,
            _ => Fate::Works,
        };
        let held = self.world.origins.iter().any(|origin| origin.held);
        let takes = match (&task, fate) {
            (_, Fate::Hangs { .. }) => DEADLINE_MS,
            (Task::Take(_), _) => self.dice.between(250, 900),
            (Task::Remove(_), _) => self.dice.between(150, 500),
            // It takes less while the writer is held.
            (Task::Extend(_), _) if held => self.dice.between(150, 850),
            (Task::Extend(_), _) => self.dice.between(200, 1700),
        };
        self.lvm.running = Some((task, fate, self.world.now));
        let life = self.life;
        self.later(takes, Happening::Lvm { life });
    }

    /// The command that ran has ended.
    pub(crate) fn lvm_ended(&mut self) -> Result<(), Violation> {
        self.glance();
        let Some((task, fate, began)) = self.lvm.running.take() else { return Ok(()) };
        self.lvm.before = Some((began, self.world.now));
        if fate != Fate::Works {
            self.faults.well_since = self.faults.well_since.max(self.world.now);
            self.say(|| format!("{fate:?}: {task:?}"));
        }
        match task {
            // A snapshot may fill before it is looked into, and before the next look is due.
            Task::Take(effect) => {
                self.taken(effect, fate);
                self.look_at_once();
            }
            Task::Remove(effect) => {
                let of = self.intended(effect).and_then(|effect| effect.version().cloned());
                self.removed(effect, fate)?;
                self.resumed(of.as_ref());
            }
            Task::Extend(step) => {
                let of = step.action.version().cloned();
                self.extended(step, fate, self.world.now - began);
                self.resumed(of.as_ref());
            }
        }
        self.hold_those_that_wait();
        self.next_command();
        self.wake();
        Ok(())
    }

    fn extended(&mut self, step: Step, fate: Fate, ms: u64) {
        let done = match fate {
            Fate::Works => {
                let done = self.extend(&step.action);
                if done.is_err() {
                    // Somebody has taken what was free: what is left is known before anything else is planned.
                    self.tell_room(None);
                }
                done
            }
            Fate::Fails => {
                self.tally.count(hardships::FAILED);
                Err("made up".to_owned())
            }
            Fate::Hangs { late } => {
                // Whether it worked is seen at the next look.
                let worked = late && self.extend(&step.action).is_ok();
                self.tally.count(if worked { hardships::LATE } else { hardships::HUNG });
                return self.ended(step, Outcome::Stalled, ms);
            }
        };
        self.tally.count(if done.is_ok() { "extensions" } else { "extensions that failed" });
        self.ended(step, done.map_or_else(Outcome::Failed, |()| Outcome::Done), ms);
    }

    /// What `lvextend` does.
    pub(crate) fn extend(&mut self, action: &Action) -> Result<(), String> {
        let Action::Extend { target, to } = action else { return Ok(()) };
        let size = match target {
            Target::Snapshot(id) => self.world.snapshots.get(id).map(|volume| volume.size),
            Target::PoolData(_) => self.world.pool.as_ref().map(|pool| pool.data_size),
            Target::PoolMetadata(_) => self.world.pool.as_ref().map(|pool| pool.metadata_size),
            Target::Group(_) | Target::Folder(_) | Target::Version(_) | Target::Store(_) | Target::Clock => {
                None
            }
        };
        let size = size.ok_or("there is no such volume")?;
        let mut more = to.saturating_sub(size);
        if let Target::Snapshot(id) = target {
            let volume = &self.world.snapshots[id];
            if volume.lost {
                // LVM says that it succeeded, and changes nothing.
                return Ok(());
            }
            more = more.min(self.world.most(volume).saturating_sub(size));
        }
        if more > self.world.free {
            return Err(format!("insufficient free space: {} extents", more / crate::world::EXTENT));
        }
        self.world.free -= more;
        self.note_room();
        match (target, &mut self.world.pool) {
            (Target::Snapshot(id), _) => {
                if let Some(volume) = self.world.snapshots.get_mut(id) {
                    volume.size += more;
                }
            }
            (Target::PoolData(_), Some(pool)) => {
                pool.data_size += more;
                pool.look();
            }
            (_, Some(pool)) => {
                pool.metadata_size += more;
                if pool.harm == Some(Harm::NoMetadata) && pool.metadata_used < pool.metadata_size {
                    pool.harm = None;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
