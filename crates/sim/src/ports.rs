//! What the shell works with here: the model of the machine, and records that every change is checked against.

use asat_core::clock::{Anchor, Reading};
use asat_core::event::{Change, Effect, Event, Intent, Remark, Reply, Survey};
use asat_core::guard::Step;
use asat_core::register::Register;
use asat_core::version::Publication;
use asat_core::{Code, Problem, StoreName, VersionId};
use asat_shell::{Audience, Executor, Heard, Records, SharedEngine};
use jiff::Timestamp;

use crate::sim::Sim;

/// Who asks.
pub(crate) enum Listener {
    /// Somebody who does not care for the answer.
    Nobody,
    /// The guard, for a step of its plan.
    Guard(Step),
}

impl Records for Sim {
    fn record(&mut self, changes: &[Change]) -> Result<(), Problem> {
        let committed = self.records.commit(changes).and_then(|()| {
            changes.iter().try_for_each(|change| {
                self.check_change(change)?;
                self.records.take_in(change);
                Ok(())
            })
        });
        committed.map_err(|violation| {
            self.violation.get_or_insert(violation);
            Problem::new(Code::Internal, "what must not be was to be recorded", "")
        })
    }

    fn check(&mut self) {}

    fn written_at(&self) -> Option<Timestamp> {
        None
    }
}

impl Executor for Sim {
    fn now(&self) -> Timestamp {
        self.clock()
    }

    fn clocks(&self) -> Reading {
        self.read_clocks()
    }

    /// What is recorded of it is what is gone by here.
    fn go_by(&mut self, _: &Anchor) {}

    fn survey(&self, register: &Register) -> Result<Survey, Problem> {
        Ok(self.look_around(register))
    }

    fn archive_bytes(&self, store: &StoreName) -> u64 {
        let of_store = self.world.archive.iter().filter(|(id, _)| id.store == *store);
        of_store.map(|(_, described)| described.bytes).sum()
    }

    fn held(&self, _: &[VersionId]) -> Vec<VersionId> {
        Vec::new()
    }

    fn begin(&mut self, Intent { id, effect, .. }: Intent) -> Result<(), Problem> {
        self.begin_effect(id, &effect);
        Ok(())
    }

    /// Everything is recorded here.
    fn undo(&mut self, _: &Effect) -> Result<(), Problem> {
        Ok(())
    }
}

impl Audience for Sim {
    type Listener = Listener;

    fn answer(
        &mut self,
        _: &SharedEngine,
        _: &Event,
        listener: Listener,
        answer: Result<Reply, Problem>,
    ) -> Heard {
        if let Listener::Guard(step) = listener {
            self.hear(&step, answer.map(drop));
        }
        Heard::Daemon
    }

    fn remark(&mut self, remark: &Remark) {
        self.say(|| remark.text.clone());
    }

    fn published(&mut self, _: &Publication, _: bool) {}

    fn committed(&mut self, changes: Vec<Change>) {
        if changes.iter().any(|change| !matches!(change, Change::Clock(_))) {
            // The guard is told that records have changed.
            self.look_at_once();
        }
    }
}
