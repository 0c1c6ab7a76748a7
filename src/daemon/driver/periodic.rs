//! What the driver does now and then, whether anybody asks or not.

use std::time::Duration;

use asat_core::audit::By;
use asat_core::event::{Answer, Event};
use asat_core::{Engine, Host, StoreName, StorePolicy};
use jiff::SignedDuration;

use super::Driver;

/// After how long an archive that is too large is weighed again although it takes what it took.
const WEIGH_AGAIN: SignedDuration = SignedDuration::from_mins(10);

impl<H: Host> Driver<H> {
    pub(super) fn tick(&mut self) {
        self.tell_whether_recorded();
        self.record_late();
        // What the clock says is judged first: nothing ends by a time that is not believed.
        if let Err(problem) = self.commit(&By::asat(), &Event::Clock(self.host.clocks())) {
            tracing::error!("what is believed of the clock could not be recorded: {problem}");
        }
        self.ticked_at = self.host.now();
        if let Err(problem) = self.commit(&By::asat(), &Event::Tick) {
            tracing::error!("the periodic work could not be recorded: {problem}");
        }
        self.tell_sizes();
    }

    /// Tells the engine how large those archives are that have a size budget. One that was weighed is told of again once
    /// its size has changed, or after a while, as a pin or a lease may be over: to weigh it takes its time.
    fn tell_sizes(&mut self) {
        let has_budget = |(name, policy): (&StoreName, &StorePolicy)| {
            policy.retention.at_most.is_some().then(|| name.clone())
        };
        let stores: Vec<StoreName> = self.read().policy().stores.iter().filter_map(has_budget).collect();
        for store in stores {
            let (bytes, now) = (self.host.archive_bytes(&store), self.ticked_at);
            let weighed = self.weighed.get(&store);
            if weighed.is_some_and(|(then, at)| *then == bytes && now.duration_since(*at) < WEIGH_AGAIN) {
                continue;
            }
            match self.commit(&By::asat(), &Event::Sized { store: store.clone(), bytes }) {
                Ok(Answer::After(_)) => _ = self.weighed.insert(store, (bytes, now)),
                Ok(_) => {}
                Err(problem) => {
                    tracing::error!(%store, "{store}: its archive could not be weighed: {problem}")
                }
            }
        }
    }

    /// Zero where the periodic work is due. It rests a second at least, so that a catalogue that cannot commit
    /// is not asked without pause.
    pub(super) fn until_next_tick(&self) -> Duration {
        let now = self.host.now();
        let next = self.read().next_tick(self.ticked_at).max(self.ticked_at + SignedDuration::from_secs(1));
        // After a jump of the clock, backwards too, waiting longer than usual would be wrong.
        let wait = Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO);
        wait.min(Engine::IDLE_TICK.unsigned_abs())
    }
}
