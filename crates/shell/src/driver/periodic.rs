//! What the driver does now and then, whether anybody asks or not.

use std::time::Duration;

use asat_core::event::{Answer, Effect, Event, Outcome};
use asat_core::{By, Code, Engine, Problem, StoreName, StorePolicy};
use jiff::SignedDuration;

use super::Driver;
use crate::Ports;
use crate::lanes::PATIENCE_MS;

/// After how long an archive that is too large is weighed again although it takes what it took.
const WEIGH_AGAIN: SignedDuration = SignedDuration::from_mins(10);

impl<L> Driver<L> {
    /// Does what is due by the time that it is.
    pub fn tick<P: Ports<Listener = L>>(&mut self, ports: &mut P) {
        ports.check();
        self.record_late(ports);
        self.give_up_late(ports);
        // What the clock says is judged first: nothing ends by a time that is not believed.
        let clocks = Event::Clock(ports.clocks());
        if let Err(problem) = self.commit(ports, &By::asat(), &clocks) {
            tracing::error!("what is believed of the clock could not be recorded: {problem}");
        }
        self.ticked_at = ports.now();
        if let Err(problem) = self.commit(ports, &By::asat(), &Event::Tick) {
            tracing::error!("the periodic work could not be recorded: {problem}");
        }
        self.tell_sizes(ports);
    }

    /// After how long [`Driver::tick`] is due; zero if it is now. It rests a second at least, so that records that cannot be committed
    /// are not tried without pause.
    #[must_use]
    pub fn until_next_tick<P: Ports<Listener = L>>(&self, ports: &P) -> Duration {
        let now = ports.now();
        let next = self.engine.read().next_tick(self.ticked_at);
        let next = next.max(self.ticked_at + SignedDuration::from_secs(1));
        // After a jump of the clock, backwards too, waiting longer than usual would be wrong.
        let wait = Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO);
        let wait = wait.min(Engine::IDLE_TICK.unsigned_abs());
        let Some(patient_until) = self.lanes.patient_until() else { return wait };
        wait.min(Duration::from_millis(patient_until.saturating_sub(ports.clocks().moment.uptime_ms)))
    }

    /// Gives up the cuts of sets for which not all lanes have come in time.
    fn give_up_late<P: Ports<Listener = L>>(&mut self, ports: &mut P) {
        while let Some((effect, lanes)) = self.lanes.late(ports.clocks().moment.uptime_ms) {
            let what = match self.engine.read().register().intent(effect).map(|intent| &intent.effect) {
                Some(Effect::CutSet { set, .. }) => format!("the set {set} was not published: "),
                _ => String::new(),
            };
            let detail = format!(
                "{what}{lanes} of its stores were still being published, restored or retired after {} s",
                PATIENCE_MS / 1000
            );
            let problem = Problem::new(Code::StoreBusy, detail, "publish again when that is over");
            self.finished(ports, effect, Outcome::CutSet(Err(problem)));
        }
    }

    /// Tells the engine how large those archives are that have a size budget. One that was weighed is told of again once
    /// its size has changed, or after a while, as a pin or a lease may be over: to weigh it takes its time.
    fn tell_sizes<P: Ports<Listener = L>>(&mut self, ports: &mut P) {
        let has_budget = |(name, policy): (&StoreName, &StorePolicy)| {
            policy.retention.at_most.is_some().then(|| name.clone())
        };
        let stores: Vec<StoreName> =
            self.engine.read().policy().stores.iter().filter_map(has_budget).collect();
        for store in stores {
            let (bytes, now) = (ports.archive_bytes(&store), self.ticked_at);
            let weighed = self.weighed.get(&store);
            if weighed.is_some_and(|(then, at)| *then == bytes && now.duration_since(*at) < WEIGH_AGAIN) {
                continue;
            }
            match self.commit(ports, &By::asat(), &Event::Sized { store: store.clone(), bytes }) {
                Ok(Answer::After(_)) => _ = self.weighed.insert(store, (bytes, now)),
                Ok(_) => {}
                Err(problem) => {
                    tracing::error!(%store, "{store}: its archive could not be weighed: {problem}")
                }
            }
        }
    }
}
