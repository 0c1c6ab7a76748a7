//! Alarms: which are on, and what is to be told of them.
//!
//! Plans name an alarm for as long as its cause lasts. A cause at the edge of a bound comes and goes with every look,
//! so an alarm is over only when no plan has named it for a while: whoever was called is not called again each time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use asat_core::guard::{Action, AlarmKey, Step};
use jiff::Timestamp;

use super::status::Alarm;

/// How long no plan names an alarm before it is over, in milliseconds.
const OVER_AFTER_MS: u64 = 10_000;

/// What is to be told of an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The alarm, as it is now or as it was last.
    pub(super) alarm: Alarm,
    /// What has become of it.
    pub(super) state: AlarmState,
}

/// What has become of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlarmState {
    /// It has begun.
    On,
    /// It lasts, and nobody has acknowledged it.
    Repeated,
    /// It is over.
    Over,
}

impl AlarmState {
    /// The state as it is written.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Repeated => "repeated",
            Self::Over => "over",
        }
    }
}

/// When each alarm was named and told. The alarms themselves stand where people see and acknowledge them.
#[derive(Clone, Debug)]
pub(super) struct Alarms {
    repeat_ms: u64,
    known: BTreeMap<AlarmKey, Known>,
}

/// On a clock that only goes forward, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Known {
    named_ms: u64,
    told_ms: u64,
}

impl Alarms {
    /// No alarms. One that nobody acknowledges is told again after `repeat`.
    pub(super) fn new(repeat: Duration) -> Self {
        let mut alarms = Self { repeat_ms: 0, known: BTreeMap::new() };
        alarms.repeat_after(repeat);
        alarms
    }

    /// From now on, one that nobody acknowledges is told again after this time.
    pub(super) fn repeat_after(&mut self, repeat: Duration) {
        self.repeat_ms = u64::try_from(repeat.as_millis()).unwrap_or(u64::MAX);
    }

    /// Takes a plan in: brings `shown` up to it, and returns what is to be told. `at_ms` is the observation's own
    /// clock, which the wall's steps do not move; `now` is for people. Nobody else may change `shown` meanwhile, but
    /// to acknowledge alarms between two calls.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        at_ms: u64,
        steps: &[Step],
        shown: &mut Vec<Alarm>,
    ) -> Vec<Due> {
        let mut due = Vec::new();
        for step in steps {
            let Action::Alarm { key, hint } = &step.action else { continue };
            let named = Known { named_ms: at_ms, told_ms: at_ms };
            self.known.entry(key.clone()).or_insert(named).named_ms = at_ms;
            if let Some(alarm) = shown.iter_mut().find(|alarm| alarm.key == *key) {
                step.reason.clone_into(&mut alarm.reason);
                hint.clone_into(&mut alarm.hint);
                continue;
            }
            let (key, reason, hint) = (key.clone(), step.reason.clone(), hint.clone());
            let alarm = Alarm { key, reason, hint, since: now, acknowledged_at: None };
            shown.push(alarm.clone());
            due.push(Due { alarm, state: AlarmState::On });
        }
        due.extend(self.repeated(at_ms, shown));
        due.extend(self.over(at_ms, shown));
        due
    }

    fn repeated(&mut self, at_ms: u64, shown: &[Alarm]) -> Vec<Due> {
        let mut due = Vec::new();
        for alarm in shown.iter().filter(|alarm| alarm.acknowledged_at.is_none()) {
            let Some(known) = self.known.get_mut(&alarm.key) else { continue };
            // What no plan names at the moment may be over, and is not worth repeating.
            if known.named_ms == at_ms && at_ms.saturating_sub(known.told_ms) >= self.repeat_ms {
                known.told_ms = at_ms;
                due.push(Due { alarm: alarm.clone(), state: AlarmState::Repeated });
            }
        }
        due
    }

    fn over(&mut self, at_ms: u64, shown: &mut Vec<Alarm>) -> Vec<Due> {
        self.known.retain(|_, known| at_ms.saturating_sub(known.named_ms) < OVER_AFTER_MS);
        let lasting: BTreeSet<&AlarmKey> = self.known.keys().collect();
        let over = shown.extract_if(.., |alarm| !lasting.contains(&alarm.key));
        over.map(|alarm| Due { alarm, state: AlarmState::Over }).collect()
    }
}

#[cfg(test)]
mod tests;
