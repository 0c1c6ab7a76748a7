//! Scenarios by the thousand: nothing that must not be. `make sim` runs many more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use asat_core::guard::Rung;
use asat_sim::{HARDSHIPS, Scenario, Tally, Violation, run, shrink};

/// Runs the scenarios of these seeds on all processors.
fn run_all(count: u64) -> Tally {
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                break;
            }
            let scenario = Scenario::of(seed);
            match run(&scenario) {
                Ok(tally) => sum.lock().unwrap().join(&tally),
                Err(violation) => {
                    next.store(count, Ordering::Relaxed);
                    let (smallest, violation) = shrink(&scenario).unwrap_or((scenario, violation));
                    panic!("{}\n{}\n{smallest}", violation.diary.join("\n"), violation.what);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    sum.into_inner().unwrap()
}

#[test]
fn no_version_is_lost_while_a_rung_is_left() {
    let tally = run_all(2000);
    // What is not exercised is not tested.
    let everything = [
        "extend",
        "demote",
        "hurry",
        "brake",
        "retire",
        "alarms",
        "crashes",
        "cuts",
        "leases",
        "pins",
        "projections",
        "publications refused by the guard",
        "overflows of archived versions",
        "lost with no rung left",
        "pools that ran full",
        "extensions that failed",
    ];
    for what in everything.into_iter().chain(HARDSHIPS) {
        assert!(tally.counts.contains_key(what), "never: {what}");
    }
    assert!(tally.ms / 3_600_000 > 100_000, "{} simulated hours", tally.ms / 3_600_000);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..40 {
        let scenario = Scenario::of(seed);
        assert_eq!(run(&scenario), run(&scenario), "{scenario}");
    }
}

#[test]
fn looking_at_every_tick_finds_nothing_else() {
    for seed in 0..400 {
        let scenario = Scenario::of(seed);
        if scenario.minutes <= 10 {
            let all = Scenario { every_look: true, ..scenario };
            assert_eq!(run(&all).map(|_| ()), Ok(()), "{all}");
        }
    }
}

/// Whether a version or a pool was lost that could have been kept.
fn is_loss(violation: &Violation) -> bool {
    violation.what.contains("is lost") || violation.what.contains("the pool has")
}

#[test]
fn without_any_one_rung_something_is_lost() {
    // The archive is on its way without being hurried, and the last two rungs only speak. Versions are given up where
    // there is no room for a pool.
    let cases = [(Rung::Extend, ""), (Rung::Demote, ""), (Rung::Brake, ""), (Rung::Retire, "room=0,thin=4")];
    for (rung, values) in cases {
        let bit = Rung::ALL.into_iter().position(|other| other == rung).unwrap();
        let ladder = Scenario::WHOLE_LADDER & !(1 << bit);
        let without = |seed| Scenario { ladder, ..Scenario::of(seed).with(values).unwrap() };
        let misses = |seed| run(&without(seed)).is_err_and(|violation| is_loss(&violation));
        assert!((0..2000).any(misses), "nobody misses {rung:?}");
    }
}

#[test]
fn without_the_guard_the_same_checks_find_what_is_lost_and_shrink_it() {
    let unguarded = |seed| Scenario { ladder: 0, ..Scenario::of(seed) };
    let failing: Vec<Scenario> = (0..300).map(unguarded).filter(|scenario| run(scenario).is_err()).collect();
    assert!(failing.len() > 20, "only {} of 300", failing.len());
    let (smallest, violation) = shrink(&failing[0]).unwrap();
    assert!(is_loss(&violation) && !violation.diary.is_empty(), "{}", violation.what);
    assert!(smallest.smaller().iter().all(|smaller| run(smaller).is_ok()), "{smallest} is not the smallest");
    assert_eq!(run(&smallest), Err(violation), "{smallest} replays");
}
