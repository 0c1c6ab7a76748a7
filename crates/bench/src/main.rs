//! `asat-bench`, the benchmarks: what asat costs and gives on this machine, beside what it promises.
//!
//! Each one runs a daemon of its own, started as a person would start it, in a temporary folder, and talks to it
//! over HTTP. What could be slow for other reasons than asat is measured in pairs: the same work on a store that
//! is published and on one that never is, in the same run and in alternating order. Where a version does not
//! hold what was there when it was published, the benchmark fails: a fast wrong answer is worth nothing.
//!
//! A benchmark tells people how far it is, and gives a [`Report`]. The program that it measures is the `asat` in the same folder.

mod api;
mod args;
mod callers;
mod compare;
mod diff;
mod disk;
mod follow;
mod ground;
mod guard;
mod history;
mod idle;
mod keys;
mod large;
mod line;
mod listing;
mod litestream;
mod process;
mod publishing;
mod reading;
mod remote;
mod report;
mod scale;
mod setting;
mod site;
mod statistics;
mod tools;
mod track;
mod turns;
mod valuation;
mod watch;
mod workload;

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use asat_core::{Code, Problem};
use clap::Parser as _;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use args::{BenchArgs, What};
use report::Report;

/// Added to the number of the signal that stopped a benchmark, as shells do.
const INTERRUPTED: u8 = 128;

/// Tells people how far a benchmark is.
type Tell<'a> = &'a dyn Fn(&str);

/// Why there is no report.
enum Failure {
    Problem(Problem),
    /// A signal of this number stopped it.
    Interrupted(u8),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

fn main() -> ExitCode {
    let args = BenchArgs::parse();
    match report_of(&args).and_then(|report| Ok(print(&report, args.json)?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Problem(problem)) => {
            let text = match serde_json::to_string(&problem) {
                Ok(line) if args.json => line,
                _ if problem.hint.is_empty() => format!("asat-bench: {}", clean(&problem.detail)),
                _ => format!("asat-bench: {}\nhint: {}", clean(&problem.detail), clean(&problem.hint)),
            };
            // If even this cannot be printed, the exit code still says it.
            let _ = writeln!(io::stderr().lock(), "{text}");
            ExitCode::from(asat::cli::exit_code(problem.code))
        }
        Err(Failure::Interrupted(signal)) => ExitCode::from(INTERRUPTED.saturating_add(signal)),
    }
}

/// Runs a benchmark. If somebody stops it, what it holds is dropped, and so it leaves nothing behind either.
fn report_of(args: &BenchArgs) -> Result<Report, Failure> {
    let tell = |text: &str| {
        if !args.json {
            // A remark that cannot be shown is not worth failing for.
            let _ = writeln!(io::stderr().lock(), "asat-bench: {}", clean(text));
        }
    };
    let cannot = |error| failed("begin", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        tokio::select! {
            report = run(args, &tell) => Ok(report?),
            _ = interrupt.recv() => Err(Failure::Interrupted(2)),
            _ = terminate.recv() => Err(Failure::Interrupted(15)),
        }
    })
}

/// Prints a report for people, or as JSON on one line. A reader who has seen enough closes the pipe, which is no error.
fn print(report: &Report, json: bool) -> Result<(), Problem> {
    let text = if json { line(report)? } else { report.text() };
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(failed("print the report", error)),
        _ => Ok(()),
    }
}

fn line(value: &impl Serialize) -> Result<String, Problem> {
    let json = serde_json::to_string(value).map_err(|error| failed("write the report", error))?;
    Ok(json + "\n")
}

/// A text on one line; what another program has said cannot steer a terminal in it.
fn clean(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    lines
        .chars()
        .map(|c| if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() })
        .collect()
}

/// Runs the benchmark that the arguments name. Dropped before its end, it leaves nothing behind.
async fn run(args: &BenchArgs, tell: Tell<'_>) -> Result<Report, Problem> {
    process::program()?;
    if cfg!(debug_assertions) {
        tell("this build is not optimised; its figures say little");
    }
    let report = match &args.what {
        What::Valuation(what) => valuation::run(what, args.dir.as_deref(), tell).await?,
        What::Diff(what) => diff::run(what, args.dir.as_deref(), tell).await?,
        What::Large(what) => large::run(what, args.dir.as_deref(), tell).await?,
        What::Track(what) => track::run(what, args.dir.as_deref(), tell).await?,
        What::History(what) => history::run(what, args.dir.as_deref(), tell).await?,
        What::Idle(what) => idle::run(what, args.dir.as_deref(), tell).await?,
        What::Listing(what) => listing::run(what, args.dir.as_deref(), tell).await?,
        What::Publishing(what) => publishing::run(what, args.dir.as_deref(), tell).await?,
        What::Reading(what) => reading::run(what, args.dir.as_deref(), tell).await?,
        What::Follow(what) => follow::run(what, args.dir.as_deref(), tell).await?,
        What::Remote(what) => remote::run(what, args.dir.as_deref(), tell).await?,
        What::Watch(what) => watch::run(what, args.dir.as_deref(), tell).await?,
        What::Scale(what) => scale::run(what, args.dir.as_deref(), tell).await?,
        What::Compare(what) => compare::run(what, args.dir.as_deref(), tell).await?,
        What::Guard(what) => guard::run(what, args.dir.as_deref(), tell).await?,
    };
    if let Some(out) = &args.out {
        let json = serde_json::to_vec_pretty(&report).map_err(|error| failed("write the report", error))?;
        fs::write(out, json).map_err(|error| failed(&format!("write {}", out.display()), error))?;
    }
    Ok(report)
}

/// A step of a benchmark that did not work.
fn failed(what: &str, why: impl Display) -> Problem {
    Problem::new(Code::Internal, format!("the benchmark cannot {what}: {why}"), "")
}

/// A version that does not hold what was published.
fn differs(what: String) -> Problem {
    Problem::new(Code::Damaged, what, "report this as a defect")
}
