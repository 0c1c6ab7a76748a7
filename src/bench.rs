//! The benchmarks: what asat costs and gives on this machine, beside what it promises.
//!
//! Each one runs a daemon of its own, started as a person would start it, in a temporary folder, and talks to it
//! over HTTP. What could be slow for other reasons than asat is measured in pairs: the same work on a store that
//! is published and on one that never is, in the same run and in alternating order. Where a version does not
//! hold what was there when it was published, the benchmark fails: a fast wrong answer is worth nothing.
//!
//! A benchmark tells people how far it is, and gives a [`Report`].

mod api;
mod args;
mod callers;
mod disk;
mod ground;
mod guard;
mod history;
mod idle;
mod large;
mod listing;
mod process;
mod publishing;
mod reading;
mod report;
mod setting;
mod site;
mod statistics;
mod tools;
mod valuation;
mod watch;
mod workload;

use std::fmt::Display;
use std::fs;

use asat_core::{Code, Problem};

pub(crate) use args::BenchArgs;
use args::What;
pub(crate) use report::Report;

/// Tells people how far a benchmark is.
pub(crate) type Tell<'a> = &'a dyn Fn(&str);

/// Runs the benchmark that the arguments name. Dropped before its end, it leaves nothing behind.
pub(crate) async fn run(args: &BenchArgs, tell: Tell<'_>) -> Result<Report, Problem> {
    if cfg!(debug_assertions) {
        tell("this build is not optimised; its figures say little");
    }
    let report = match &args.what {
        What::Valuation(what) => valuation::run(what, args.dir.as_deref(), tell).await?,
        What::Large(what) => large::run(what, args.dir.as_deref(), tell).await?,
        What::History(what) => history::run(what, args.dir.as_deref(), tell).await?,
        What::Idle(what) => idle::run(what, args.dir.as_deref(), tell).await?,
        What::Listing(what) => listing::run(what, args.dir.as_deref(), tell).await?,
        What::Publishing(what) => publishing::run(what, args.dir.as_deref(), tell).await?,
        What::Reading(what) => reading::run(what, args.dir.as_deref(), tell).await?,
        What::Watch(what) => watch::run(what, args.dir.as_deref(), tell).await?,
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
