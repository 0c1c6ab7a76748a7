//! Explores schedules: several threads publish, give up, compact, read, verify and repair one archive, one step at a time, and which of them
//! goes on is a choice at each step. After each schedule every version is what a plain model says, wherever the machine stopped.
//!
//! A schedule that fails is made smaller, and printed as `SCHEDULE=...`. With that variable set, the tests that are run by hand
//! (`--ignored --nocapture`) run it again and say each step.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;

mod base;
mod case;
mod choices;
mod crash;
mod scenario;
mod scheduler;

use base::REFERRING;
use case::Case;
use choices::{All, Choices};
use scenario::{Harm, Op, Scenario};

/// Runs all these schedules of a scenario; answers how many there are.
fn explore(scenario: &Scenario, mut all: All) -> Result<usize, String> {
    for number in 1.. {
        let (choices, ran) = scenario::run(scenario, Choices::All(all), false);
        ran.map_err(|what| format!("schedule {number} of {scenario:?}: {what}"))?;
        let Choices::All(rest) = choices else { unreachable!() };
        all = rest;
        if !all.advance() {
            return Ok(number);
        }
    }
    unreachable!()
}

fn side_by_side(retired: &[u64], ops: &[Op]) -> Scenario {
    let threads = ops.iter().map(|op| vec![op.clone()]).collect();
    Scenario { base: REFERRING, retired: retired.to_vec(), harm: Harm::None, threads, crash: None }
}

/// The defect that the explorer was made for: version 6 refers to 2 and to 3, and was lost for good.
#[test]
fn a_version_is_given_up_while_references_to_the_run_above_it_are_led_elsewhere() {
    let schedules = explore(&side_by_side(&[3], &[Op::Compact, Op::Retire(2)]), All::new(2)).unwrap();
    println!("{schedules} schedules");
    assert!(schedules > 100, "{schedules}");
}

/// All that is done to an archive, beside a compaction that has something to do.
const BESIDE: [Op; 7] =
    [Op::Publish(5), Op::Retire(2), Op::Retire(4), Op::Retire(7), Op::Read(6), Op::Verify, Op::Rebuild(6)];

/// Explores a compaction beside each of these.
fn beside_a_compaction(all: impl Fn() -> All) {
    let explored = BESIDE.map(|op| explore(&side_by_side(&[3], &[Op::Compact, op]), all()).unwrap());
    println!("{explored:?} schedules");
    assert!(explored.iter().all(|schedules| *schedules > 5), "{explored:?}");
}

#[test]
fn every_schedule_of_a_compaction_and_another_operation_with_one_interruption_is_right() {
    beside_a_compaction(|| All::new(1));
}

#[test]
fn every_schedule_of_a_compaction_and_another_operation_at_their_changes_is_right() {
    beside_a_compaction(All::at_changes);
}

#[test]
#[ignore = "takes minutes"]
fn every_schedule_of_a_compaction_and_another_operation_with_two_interruptions_is_right() {
    beside_a_compaction(|| All::new(2));
}

#[test]
#[ignore = "takes minutes"]
fn every_schedule_of_a_compaction_and_two_other_operations_with_one_interruption_is_right() {
    let mut explored = 0;
    for (nth, first) in BESIDE.iter().enumerate() {
        for second in &BESIDE[nth + 1..] {
            let ops = [Op::Compact, first.clone(), second.clone()];
            explored += explore(&side_by_side(&[3], &ops), All::new(1)).unwrap();
        }
    }
    println!("{explored} schedules");
    assert!(explored > 1000, "{explored}");
}

/// A version that was begun while what it refers to was live, which is given up while references to the run above it are led elsewhere.
#[test]
fn a_version_that_is_being_written_keeps_what_it_refers_to_whatever_is_given_up_and_compacted_meanwhile() {
    let ops = [Op::Publish(base::again(2)), Op::Compact, Op::Retire(2)];
    let schedules = explore(&side_by_side(&[3], &ops), All::at_lives(3)).unwrap();
    println!("{schedules} schedules");
    assert!(schedules > 1000, "{schedules}");
}

/// What random schedules have found, in a small form: a version that was given up came back, one was stored above what was left of a
/// newer one, and damage was seen where compaction had just been at work.
#[test]
fn every_schedule_in_which_a_defect_was_found_is_right() {
    let found = [
        (9, [Op::Compact, Op::Verify]),
        (REFERRING, [Op::Retire(7), Op::Publish(5)]),
        (REFERRING, [Op::Retire(7), Op::Rebuild(7)]),
    ];
    for (base, ops) in found {
        let scenario = Scenario { base, ..side_by_side(&[3], &ops) };
        println!("{ops:?}: {} schedules", explore(&scenario, All::new(2)).unwrap());
    }
}

#[test]
fn two_thousand_random_schedules_are_right() {
    case::run_from(1, 2000).unwrap();
}

#[test]
#[ignore = "explores 100,000 schedules, or SCHEDULES of them from the seed SCHEDULES_FROM on"]
fn a_hundred_thousand_random_schedules_are_right() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Ok(line) = std::env::var("SCHEDULE") {
        return line.parse::<Case>().unwrap().run(true).unwrap();
    }
    let (first, count) = (number("SCHEDULES_FROM").unwrap_or(1), number("SCHEDULES").unwrap_or(100_000));
    case::run_from(first, count).unwrap();
    println!("{count} schedules from seed {first} on are right");
}
