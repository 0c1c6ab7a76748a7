//! Explores schedules: several threads publish, give up, merge, read, verify and repair one archive, one step at a time, and which of them
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

use base::CHANGING;
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
    Scenario { base: CHANGING, retired: retired.to_vec(), harm: Harm::None, threads, crash: None }
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

/// What a version that is being written leaves out stays, whatever is given up and merged meanwhile.
#[test]
fn a_version_that_is_being_written_can_be_read_whatever_is_given_up_and_merged_meanwhile() {
    let ops = [Op::Publish(5), Op::Compact, Op::Retire(6)];
    let schedules = explore(&side_by_side(&[3], &ops), All::at_lives(2)).unwrap();
    println!("{schedules} schedules");
    assert!(schedules > 100, "{schedules}");
}

/// Where what one operation found out could be what another has changed.
#[test]
fn every_schedule_of_two_operations_on_the_newest_version_is_right() {
    let pairs = [
        [Op::Retire(7), Op::Publish(5)],
        [Op::Retire(7), Op::Rebuild(7)],
        [Op::Rebuild(7), Op::Publish(5)],
        [Op::Retire(7), Op::Retire(6)],
    ];
    for ops in pairs {
        println!("{ops:?}: {} schedules", explore(&side_by_side(&[3], &ops), All::new(2)).unwrap());
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
