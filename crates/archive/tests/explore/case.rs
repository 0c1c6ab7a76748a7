//! A random schedule: what threads do, and which of them goes on. A failing one is made smaller, and said so that it can be run again.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::BASE;
use crate::choices::{Choices, Dice};
use crate::scenario::{self, Harm, Op, Scenario};

/// So many other choices are tried for a smaller scenario.
const TRIED: u64 = 40;

/// A random schedule, written as `SEED:CHOICES`, and `:OP,OP` with those operations that are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    seed: u64,
    choices: u64,
    left_out: Vec<usize>,
}

impl Case {
    /// What happens in it.
    fn scenario(&self) -> Scenario {
        let mut scenario = random(self.seed);
        let mut nth = 0;
        for thread in &mut scenario.threads {
            thread.retain(|_| {
                nth += 1;
                !self.left_out.contains(&(nth - 1))
            });
        }
        scenario
    }

    pub(crate) fn run(&self, told: bool) -> Result<(), String> {
        let mut dice = Dice::new(self.choices);
        let once_in = [2, 4, 12, 40][dice.below(4)];
        scenario::run(&self.scenario(), Choices::Random { dice, once_in }, told).1
    }

    /// Leaves operations out as long as some schedule fails without them.
    fn smaller(mut self, mut what: String) -> (Self, String) {
        let ops = random(self.seed).threads.iter().map(Vec::len).sum::<usize>();
        for op in 0..ops {
            let left_out = self.left_out.iter().copied().chain([op]).collect::<Vec<_>>();
            let fails = (0..TRIED).find_map(|more| {
                let case = Self { choices: self.choices + more, left_out: left_out.clone(), ..self.clone() };
                case.run(false).err().map(|what| (case, what))
            });
            if let Some(smaller) = fails {
                (self, what) = smaller;
            }
        }
        (self, what)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_out: Vec<String> = self.left_out.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}:{}", self.seed, self.choices, left_out.join(","))
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let [seed, choices, left_out] = line.split(':').collect::<Vec<_>>()[..] else {
            return Err(format!("{line:?} is not SEED:CHOICES:OP,OP"));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        let left_out = left_out.split(',').filter(|text| !text.is_empty());
        let left_out = left_out.map(|text| text.parse().map_err(|error| format!("{text:?}: {error}")));
        Ok(Self {
            seed: number(seed)?,
            choices: number(choices)?,
            left_out: left_out.collect::<Result<_, _>>()?,
        })
    }
}

/// Runs so many random schedules from a seed on, on as many threads as there are processors; one that fails is made smaller and said.
pub(crate) fn run_from(first: u64, count: u64) -> Result<(), String> {
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let work = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count || failed.lock().unwrap().is_some() {
                return;
            }
            let case = Case { seed: first + nth, choices: first + nth, left_out: Vec::new() };
            if let Err(what) = case.run(false) {
                failed.lock().unwrap().get_or_insert((nth, case, what));
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        (1..threads).for_each(|_| _ = scope.spawn(work));
        work();
    });
    let Some((nth, case, what)) = failed.into_inner().unwrap() else { return Ok(()) };
    let (case, what) = case.smaller(what);
    Err(format!(
        "schedule {} failed: {what}\n{:?}\nrun it again: SCHEDULE={case} cargo test --package asat-archive --test explore -- --ignored --nocapture",
        nth + 1,
        case.scenario(),
    ))
}

/// What a seed makes threads do.
fn random(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let version = |dice: &mut Dice| 1 + dice.next() % BASE;
    let base = dice.next() % 48;
    let harm = match dice.below(10) {
        0 => Harm::Missing(version(&mut dice)),
        1 => Harm::Flipped(version(&mut dice)),
        _ => Harm::None,
    };
    let harmed = match harm {
        Harm::Missing(number) | Harm::Flipped(number) => number,
        Harm::None => 0,
    };
    let mut retired: Vec<u64> = (0..dice.below(4)).map(|_| 1 + dice.next() % (BASE - 1)).collect();
    retired.sort_unstable();
    retired.dedup();
    retired.retain(|number| *number != harmed);
    let mut threads = vec![vec![Op::Compact]];
    for _ in 0..=dice.below(3) {
        let mut ops = Vec::new();
        for _ in 0..=dice.below(2) {
            ops.push(match dice.below(12) {
                0..=4 => Op::Retire(version(&mut dice)),
                5 | 6 => Op::Read(version(&mut dice)),
                7 => Op::Verify,
                8 => Op::Weigh,
                9 => Op::Rebuild(version(&mut dice)),
                10 => Op::Repair,
                _ => Op::PutBack,
            });
        }
        threads.push(ops);
    }
    if dice.once_in(3) {
        threads.push((0..2).map(|_| Op::Record(dice.next())).collect());
    }
    // One version is written at a time.
    if dice.once_in(2) {
        let versions = 1 + dice.below(2);
        threads.push((0..versions).map(|_| Op::Publish(dice.next())).collect());
    }
    let crash = dice.once_in(3).then(|| (dice.below(300), dice.next()));
    Scenario { base, retired, harm, threads, crash }
}
