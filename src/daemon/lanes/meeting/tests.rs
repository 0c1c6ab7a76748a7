//! Lanes that meet.

use std::sync::Arc;
use std::thread;

use asat_core::event::SetMember;
use asat_core::version::Attributes;

use super::*;

/// The cut of a set of two stores, by two lanes.
fn meeting() -> Arc<Meeting> {
    let member = |version: &str| SetMember { version: version.parse().unwrap(), origin: None, anew: false };
    let effect = Effect::CutSet {
        set: "month-end".parse().unwrap(),
        members: vec![member("ledger@1"), member("report@1")],
        attributes: Attributes::default(),
        key: None,
        after: None,
    };
    Arc::new(Meeting::new(EffectId(7), effect, 2))
}

fn done() -> Outcome {
    Outcome::CutSet(Err(Problem::new(Code::Internal, "done", "")))
}

#[test]
fn the_last_lane_performs_the_effect_and_all_go_on_when_its_outcome_was_told() {
    let (meeting, told) = (meeting(), Arc::new(Mutex::new(Vec::new())));
    let lane = || {
        let (meeting, told) = (Arc::clone(&meeting), Arc::clone(&told));
        thread::spawn(move || {
            meeting.attend(PATIENCE, |_| done(), |id, outcome| told.lock().unwrap().push((id, outcome)));
            let told = told.lock().unwrap();
            told.clone()
        })
    };
    let lanes = [lane(), lane()];
    for lane in lanes {
        assert_eq!(lane.join().unwrap(), [(EffectId(7), done())]);
    }
}

#[test]
fn a_lane_that_waits_too_long_gives_the_effect_up_for_all() {
    let meeting = meeting();
    let never = |_: &Effect| -> Outcome { panic!("it is given up") };
    let mut told = None;
    meeting.attend(Duration::ZERO, never, |_, outcome| told = Some(outcome));
    let Some(Outcome::CutSet(Err(problem))) = told else { panic!("it was not given up") };
    assert_eq!(problem.code, Code::StoreBusy);
    assert!(problem.detail.contains("the set month-end was not published: 1 of its stores"), "{problem}");
    // The one that is late goes on at once.
    meeting.attend(PATIENCE, never, |_, outcome| panic!("{outcome:?} is told again"));
}

#[test]
fn an_effect_that_ends_with_a_panic_holds_no_lane_up() {
    let meeting = meeting();
    let lanes = [Arc::clone(&meeting), meeting].map(|meeting| {
        let perform = |_: &Effect| -> Outcome { panic!("on purpose") };
        thread::spawn(move || meeting.attend(PATIENCE, perform, |_, _| {}))
    });
    let ended = lanes.map(thread::JoinHandle::join);
    assert_eq!(ended.iter().filter(|end| end.is_err()).count(), 1);
}
