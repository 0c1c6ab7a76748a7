//! What is told of alarms, look by look.

use asat_core::guard::{AlarmKind, Target};
use proptest::prelude::*;

use super::*;

const REPEAT_MS: u64 = 60_000;

fn key(name: u8) -> AlarmKey {
    AlarmKey { target: Target::Group(name.to_string()), kind: AlarmKind::Short }
}

fn step(name: u8, reason: &str) -> Step {
    let action = Action::Alarm { key: key(name), hint: format!("mend {name}") };
    Step { target: key(name).target, action, reason: reason.to_owned() }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + i64::try_from(ms).unwrap()).unwrap()
}

fn alarms() -> Alarms {
    Alarms::new(Duration::from_millis(REPEAT_MS))
}

/// What is due, in words.
fn told(due: &[Due]) -> Vec<String> {
    due.iter().map(|due| format!("{} {}: {}", due.alarm.key, due.state.text(), due.alarm.reason)).collect()
}

#[test]
fn an_alarm_is_told_when_it_begins_again_after_a_while_and_when_it_is_over() {
    let (mut alarms, mut shown) = (alarms(), Vec::new());
    let looks = [
        (0, Some("5 MiB left"), vec!["group 1: short on: 5 MiB left"]),
        (20, Some("4 MiB left"), vec![]),
        (59_999, Some("3 MiB left"), vec![]),
        (60_000, Some("2 MiB left"), vec!["group 1: short repeated: 2 MiB left"]),
        (60_020, Some("1 MiB left"), vec![]),
        (120_000, Some("1 MiB left"), vec!["group 1: short repeated: 1 MiB left"]),
        // It comes and goes.
        (121_000, None, vec![]),
        (129_999, None, vec![]),
        (129_999, Some("again"), vec![]),
        (139_998, None, vec![]),
        (139_999, None, vec!["group 1: short over: again"]),
        (139_999, None, vec![]),
        (140_000, Some("anew"), vec!["group 1: short on: anew"]),
    ];
    for (ms, named, expected) in looks {
        let steps: Vec<Step> = named.map(|reason| step(1, reason)).into_iter().collect();
        assert_eq!(told(&alarms.update(at(ms), ms, &steps, &mut shown)), expected, "at {ms} ms");
    }
    let anew = Alarm {
        key: key(1),
        reason: "anew".to_owned(),
        hint: "mend 1".to_owned(),
        since: at(140_000),
        acknowledged_at: None,
    };
    assert_eq!(shown, [anew]);
}

#[test]
fn an_acknowledged_alarm_is_shown_and_not_repeated_until_it_is_over() {
    let (mut alarms, mut shown) = (alarms(), Vec::new());
    alarms.update(at(0), 0, &[step(1, "a"), step(2, "b")], &mut shown);
    shown[0].acknowledged_at = Some(at(5));
    let due = alarms.update(at(REPEAT_MS), REPEAT_MS, &[step(1, "a"), step(2, "b")], &mut shown);
    assert_eq!(told(&due), ["group 2: short repeated: b"]);
    assert_eq!((shown.len(), shown[0].acknowledged_at), (2, Some(at(5))));
    let later = REPEAT_MS + OVER_AFTER_MS;
    let due = alarms.update(at(later), later, &[], &mut shown);
    assert_eq!(told(&due), ["group 1: short over: a", "group 2: short over: b"]);
    assert_eq!(shown, []);
    let due = alarms.update(at(later), later, &[step(1, "a")], &mut shown);
    assert_eq!((told(&due).len(), shown[0].acknowledged_at), (1, None), "it begins anew");
}

#[test]
fn other_steps_of_a_plan_are_no_alarms_and_one_that_is_named_twice_is_one() {
    let (mut alarms, mut shown) = (alarms(), Vec::new());
    let brake = Step {
        target: Target::Group("1".to_owned()),
        action: Action::Brake { origin: "o".to_owned(), most_ms: 5 },
        reason: "urgent".to_owned(),
    };
    let due = alarms.update(at(0), 0, &[brake, step(1, "first"), step(1, "second")], &mut shown);
    assert_eq!(told(&due), ["group 1: short on: first"]);
    assert_eq!((shown.len(), shown[0].reason.as_str()), (1, "second"));
}

proptest! {
    /// Whatever plans say: each alarm that is told to be on is told to be over before it is on again, and what was
    /// told is what is shown.
    #[test]
    fn what_is_told_is_what_is_shown(looks in proptest::collection::vec((0..40_000_u64, 0..8_u8, any::<bool>()), 1..60)) {
        let (mut alarms, mut shown, mut now) = (alarms(), Vec::new(), 0);
        let mut on = BTreeSet::new();
        for (pause, named, acknowledge) in looks {
            now += pause;
            let steps: Vec<Step> =
                (0..3).filter(|bit| named & (1 << bit) != 0).map(|name| step(name, "r")).collect();
            for due in alarms.update(at(now), now, &steps, &mut shown) {
                let expected = match due.state {
                    AlarmState::On => on.insert(due.alarm.key),
                    AlarmState::Repeated => due.alarm.acknowledged_at.is_none() && on.contains(&due.alarm.key),
                    AlarmState::Over => on.remove(&due.alarm.key),
                };
                prop_assert!(expected, "{:?} at {}", due.state, now);
            }
            let keys: BTreeSet<AlarmKey> = shown.iter().map(|alarm| alarm.key.clone()).collect();
            prop_assert_eq!(&keys, &on);
            prop_assert_eq!(keys.len(), shown.len());
            prop_assert!(steps.iter().all(|step| shown.iter().any(|alarm| alarm.key.target == step.target)));
            if acknowledge && let Some(first) = shown.first_mut() {
                first.acknowledged_at = Some(at(now));
            }
        }
    }
}
