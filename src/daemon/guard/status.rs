//! How the guard stands: what it saw, what it means to do, and what it did. For `GET /v1/capacity` and for those who ask
//! whether all is well.

use std::collections::BTreeMap;
use std::time::Duration;

use asat_core::Problem;
use asat_core::guard::{AlarmKey, Assessment, GuardEntry, Rung, Step};
use jiff::Timestamp;

use asat_wire::Names;

/// How the guard stands after its last look.
#[derive(Clone, Debug, Default)]
pub struct GuardStatus {
    /// When it looked last; `None` where there is nothing to look at, or it has not looked yet.
    pub looked_at: Option<Timestamp>,
    /// When it looks again, in milliseconds from then.
    pub tick_ms: u64,
    /// How often it has looked, and what that took.
    pub looks: Looks,
    /// Everything that can run out of space, and how near it is.
    pub assessments: Vec<Assessment>,
    /// What it would do now, or is doing.
    pub steps: Vec<Step>,
    /// What it did last, newest first.
    pub done: Vec<Done>,
    /// For how long writers were held, by the identity of their origin.
    pub brakes: BTreeMap<String, Braked>,
    /// The rungs that it may take, in the order of their precedence.
    pub ladder: Vec<Rung>,
    /// Whether retention or space goes first, in words.
    pub precedence: &'static str,
    /// What is wrong, as long as it is.
    pub alarms: Vec<Alarm>,
    /// What keeps it from looking or from acting: a command of LVM that does not end, or a device-mapper that does not
    /// answer.
    pub trouble: Option<Problem>,
    /// The names, for people, of origins, pools and groups, whose identities are UUIDs.
    pub names: BTreeMap<String, String>,
}

/// How often the guard has looked since the daemon started, and what that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Looks at everything.
    pub full: u64,
    /// Looks at the counters of writes alone, which had not moved.
    pub glances: u64,
    /// The time that all of them took, with what was planned and begun.
    pub spent: Duration,
}

/// Something that the guard did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// As it is recorded.
    pub entry: GuardEntry,
    /// From the look that found it necessary until the kernel had it, without the time that LVM's own command ran; `None`
    /// where no command was needed, or it failed.
    pub added: Option<Duration>,
}

/// For how long an origin's writers were held since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Braked {
    /// Whether they are held at this moment.
    pub now: bool,
    /// How often they were.
    pub holds: u64,
    /// For how long in all.
    pub total: Duration,
    /// The longest time in one.
    pub longest: Duration,
}

impl Braked {
    /// Adds a hold that is over.
    pub fn add(&mut self, held: Duration) {
        self.now = false;
        self.holds = self.holds.saturating_add(1);
        self.total = self.total.saturating_add(held);
        self.longest = self.longest.max(held);
    }
}

/// Something that an administrator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Its name, the same for as long as it lasts.
    pub key: AlarmKey,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
    /// Since when.
    pub since: Timestamp,
    /// When somebody said that he knows.
    pub acknowledged_at: Option<Timestamp>,
}

impl GuardStatus {
    /// Notes that somebody knows of an alarm, and returns it. Its key is taken as it is written for people, and with
    /// identities. Who knows already is not asked again.
    pub(in crate::daemon) fn acknowledge(&mut self, key: &str, at: Timestamp) -> Option<Alarm> {
        let names = Names(&self.names);
        let is_meant = |alarm: &&mut Alarm| {
            let own = alarm.key.to_string();
            own == key || names.told(&own) == key
        };
        let alarm = self.alarms.iter_mut().find(is_meant)?;
        alarm.acknowledged_at.get_or_insert(at);
        Some(alarm.clone())
    }
}

#[cfg(test)]
mod tests {
    use asat_core::guard::{AlarmKind, Target};

    use super::*;

    #[test]
    fn an_alarm_is_acknowledged_once_by_either_of_its_keys() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let alarm = |kind| Alarm {
            key: AlarmKey { target: Target::Group("gX1aBc".to_owned()), kind },
            reason: "why".to_owned(),
            hint: "what to do".to_owned(),
            since: at("2026-11-19T17:00:00Z"),
            acknowledged_at: None,
        };
        let mut standing = GuardStatus {
            alarms: vec![alarm(AlarmKind::Short), alarm(AlarmKind::Stuck)],
            names: [("gX1aBc".to_owned(), "vg".to_owned())].into(),
            ..GuardStatus::default()
        };
        let (first, later) = (at("2026-11-19T17:01:00Z"), at("2026-11-19T17:02:00Z"));
        for key in ["", "vg", "group vg", "group vg: lost", "group other: short", "group vg: short "] {
            assert_eq!(standing.acknowledge(key, first), None, "{key:?}");
        }
        for (key, now) in [("group vg: short", first), ("group gX1aBc: short", later)] {
            let known = standing.acknowledge(key, now).unwrap();
            assert_eq!((known.key.kind, known.acknowledged_at), (AlarmKind::Short, Some(first)), "{key}");
        }
        assert_eq!(standing.alarms.iter().filter(|alarm| alarm.acknowledged_at.is_some()).count(), 1);
    }
}
