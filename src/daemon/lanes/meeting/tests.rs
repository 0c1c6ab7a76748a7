//! Lanes that meet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use asat_core::event::SetMember;
use asat_core::version::Attributes;

use super::*;

/// The cut of a set of two stores, by two lanes.
fn meeting() -> Arc<Meeting> {
    let member = |version: &str| SetMember { version: version.parse().unwrap(), origin: None };
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
fn the_last_lane_performs_the_effect_and_the_others_rest_until_it_is_over() {
    let (meeting, performed) = (meeting(), Arc::new(AtomicUsize::new(0)));
    let lane = || {
        let (meeting, performed) = (Arc::clone(&meeting), Arc::clone(&performed));
        thread::spawn(move || {
            let outcome = meeting.attend(PATIENCE, |_| {
                performed.fetch_add(1, Ordering::SeqCst);
                done()
            });
            (outcome, performed.load(Ordering::SeqCst))
        })
    };
    let lanes = [lane(), lane()];
    let came: Vec<_> = lanes.into_iter().map(|lane| lane.join().unwrap()).collect();
    // Whoever goes on, goes on after it.
    assert!(came.iter().all(|(_, performed)| *performed == 1));
    let outcomes: Vec<_> = came.into_iter().filter_map(|(outcome, _)| outcome).collect();
    assert_eq!(outcomes, [done()]);
}

#[test]
fn a_lane_that_waits_too_long_gives_the_effect_up_for_all() {
    let meeting = meeting();
    let never = |_: &Effect| -> Outcome { panic!("it is given up") };
    let Some(Outcome::CutSet(Err(problem))) = meeting.attend(Duration::ZERO, never) else {
        panic!("it was not given up")
    };
    assert_eq!(problem.code, Code::StoreBusy);
    assert!(problem.detail.contains("the set month-end was not published: 1 of its stores"), "{problem}");
    // The one that is late goes on at once.
    assert_eq!(meeting.attend(PATIENCE, never), None);
}

#[test]
fn an_effect_that_ends_with_a_panic_holds_no_lane_up() {
    let meeting = meeting();
    let (first, other) = (Arc::clone(&meeting), Arc::clone(&meeting));
    let (say, said) = mpsc::channel();
    let lanes = [first, other].map(|meeting| {
        let say = say.clone();
        thread::spawn(move || say.send(meeting.attend(PATIENCE, |_| panic!("on purpose"))).unwrap())
    });
    assert_eq!(said.recv().unwrap(), None);
    let ended = lanes.map(thread::JoinHandle::join);
    assert_eq!(ended.iter().filter(|end| end.is_err()).count(), 1);
}
