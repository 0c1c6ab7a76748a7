//! `make sim`: runs scenarios one seed after another on all processors, and shows the smallest one that fails.
//!
//! `SEED` is the first seed (0 by default), `SCENARIOS` how many to run (1 where a seed is given, else 100,000), and
//! `SIM` replaces values of the scenario, as it was printed.

#![allow(clippy::print_stdout, reason = "it is a program for the terminal")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use asat_sim::{HARDSHIPS, Scenario, Tally, Violation, run, shrink};

/// How often it is said how far things are.
const SAY_EVERY: Duration = Duration::from_secs(30);

fn number(name: &str) -> Result<Option<u64>, String> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{name}={text} is not a number"))
}

/// What came of the runs until now.
#[derive(Default)]
struct Sum {
    tally: Tally,
    done: u64,
    failed: Option<Scenario>,
    /// How often it was said how far things are.
    said: u32,
}

impl Sum {
    fn take(&mut self, scenario: Scenario, result: Result<Tally, Violation>, since: Duration) {
        self.done += 1;
        match result {
            Ok(tally) => self.tally.join(&tally),
            Err(violation) => {
                println!("{scenario} fails: {}", violation.what);
                self.failed.get_or_insert(scenario);
            }
        }
        if since >= SAY_EVERY * (self.said + 1) {
            self.said += 1;
            let (hours, seconds) = (self.tally.ms / 3_600_000, since.as_secs());
            println!("{} scenarios, {hours} simulated hours, in {seconds} s", self.done);
        }
    }
}

/// Runs all, and answers with the sum or the first that failed.
fn run_all(first: u64, count: u64, values: &str) -> Result<Tally, Scenario> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let sum = Mutex::new(Sum::default());
    let begun = Instant::now();
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let Ok(scenario) = Scenario::of(first + index).with(values) else { break };
            let result = run(&scenario);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sum.take(scenario, result, begun.elapsed());
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let sum = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    sum.failed.map_or(Ok(sum.tally), Err)
}

fn show(violation: &Violation) {
    for line in &violation.diary {
        println!("  {line}");
    }
    println!("{}", violation.what);
}

/// In how many scenarios what happened, and how often; first what makes them hard.
fn summarise(tally: &Tally) {
    let line = |what: &&'static str| {
        let of = |counts: &BTreeMap<&'static str, u64>| counts.get(what).copied().unwrap_or(0);
        println!("{:>9} {:>13}  {what}", of(&tally.runs), of(&tally.counts));
    };
    println!("{:>9} {:>13}", "scenarios", "times");
    HARDSHIPS.iter().for_each(line);
    println!();
    tally.counts.keys().filter(|what| !HARDSHIPS.contains(what)).for_each(line);
}

fn try_main() -> Result<bool, String> {
    let seed = number("SEED")?;
    let count = number("SCENARIOS")?.unwrap_or(if seed.is_some() { 1 } else { 100_000 });
    let values = std::env::var("SIM").unwrap_or_default();
    let first = seed.unwrap_or(0);
    Scenario::of(first).with(&values).map_err(|part| format!("{part} in SIM is no value of a scenario"))?;
    let begun = Instant::now();
    match run_all(first, count, &values) {
        Ok(tally) => {
            summarise(&tally);
            let hours = tally.ms / 3_600_000;
            println!(
                "{count} scenarios, {hours} simulated hours, in {} s: nothing failed",
                begun.elapsed().as_secs()
            );
            Ok(true)
        }
        Err(failed) => {
            println!("looking for a smaller one than {failed}");
            match shrink(&failed) {
                Some((smallest, violation)) => {
                    show(&violation);
                    println!("{smallest}");
                }
                None => println!("{failed} did not fail again"),
            }
            Ok(false)
        }
    }
}

fn main() -> ExitCode {
    match try_main() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(complaint) => {
            println!("{complaint}");
            ExitCode::from(2)
        }
    }
}
