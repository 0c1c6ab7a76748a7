//! `asat-bench publishing`: how many publications of a store that has not changed are answered, beside as many questions
//! that need nothing at all.
//!
//! Callers are threads with a connection of their own, which share the processors with the daemon. What was promised to be
//! durable is counted again after the daemon was killed.

mod holding;

use std::path::Path;
use std::time::Duration;

use asat_core::Problem;
use rusqlite::Connection;
use serde::Serialize;

use super::args::PublishingArgs;
use super::callers::{Callers, Load, Request, call};
use super::report::{Report, mb, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, over};
use super::{Tell, api, failed};
use asat_wire::Version;
use holding::hold;

/// So many callers ask for what is known already.
const CALLERS: u32 = 8;
/// So many say something new, and are compared with one.
const MANY: u32 = 64;
/// So many threads hold the newest version and let it go, this often each.
const HOLDERS: usize = 8;
const HOLDS: u32 = 1_000_000;

#[derive(Serialize)]
struct Figures {
    seconds: u64,
    rounds: u32,
    callers: u32,
    /// Answers in a second, round by round.
    healthz: Vec<Load>,
    same: Vec<Load>,
    /// Throughput of publishing the same, over that of `/healthz`.
    share: Spread,
    many_callers: u32,
    new_alone: Vec<Load>,
    new_many: Vec<Load>,
    /// Throughput of many callers, over that of one.
    gain: Spread,
    /// Publications that were answered, and those that were there after the daemon was killed.
    answered: u64,
    found: u64,
    peak_rss_bytes: u64,
    /// Holding the newest version within the process: how long all threads took.
    held_ms: Spread,
    /// How long two threads took for as much each as one, over the time of that one.
    held_by_two: Spread,
}

pub(super) async fn run(
    args: &PublishingArgs,
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let store = Connection::open(&site.store).map_err(|error| failed("make a store", error))?;
    let filled =
        store.execute_batch("pragma journal_mode = wal; create table t(n integer); insert into t values (1)");
    filled.map_err(|error| failed("make a store", error))?;
    let daemon = site.start()?;
    let version = known(&site).await?;
    let callers = |count| Callers { count, time: Duration::from_secs(args.seconds), pace: None };
    let (mut healthz, mut same, mut new_alone, mut new_many) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        tell(&format!("round {round} of {}", args.rounds));
        healthz.push(call(&site.socket, callers(CALLERS), |_, _| Request::get("/healthz"))?);
        same.push(call(&site.socket, callers(CALLERS), |_, _| publication("close"))?);
        let new = |caller: u32, nth: u64| publication(&format!("round {round}, {caller} says {nth}"));
        new_alone.push(call(&site.socket, callers(1), |_, nth| new(MANY, nth))?);
        new_many.push(call(&site.socket, callers(MANY), new)?);
    }
    let (mut held_ms, mut held_by_two) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        held_ms.push(hold(HOLDERS, HOLDS)?);
        let alone = hold(1, HOLDS)?;
        held_by_two.push(over(hold(2, HOLDS)?, alone));
    }
    let peak_rss_bytes = daemon.peak_rss_bytes()?;
    daemon.kill()?;
    let daemon = site.start()?;
    let found = publications(&api::version(&site, &version.id).await?);
    daemon.stop()?;
    let figures = Figures {
        seconds: args.seconds,
        rounds: args.rounds,
        callers: CALLERS,
        share: ratios(&same, &healthz),
        healthz,
        same,
        many_callers: MANY,
        gain: ratios(&new_many, &new_alone),
        answered: publications(&version)
            + new_alone.iter().chain(&new_many).map(|load| load.answers).sum::<u64>(),
        new_alone,
        new_many,
        found,
        peak_rss_bytes,
        held_ms: Spread::of(&held_ms),
        held_by_two: Spread::of(&held_by_two),
    };
    if figures.found != figures.answered {
        let what =
            format!("{} publications were answered, and {} are there", figures.answered, figures.found);
        return Err(super::differs(what));
    }
    report(&site, &figures)
}

fn publications(version: &Version) -> u64 {
    u64::try_from(version.publication_count).unwrap_or(u64::MAX)
}

fn publication(label: &str) -> Request {
    Request::post("/snapshots", &format!("{{\"label\":\"{label}\",\"certified_by\":\"bench\"}}"))
}

/// Publishes until that is known to be nothing new: right after a store was written to, that is not sure. Answers the version.
async fn known(site: &Site) -> Result<Version, Problem> {
    let mut before = None;
    loop {
        let published = api::certify(site, "close").await?;
        if before.replace(published.publication.at) == Some(published.publication.at) {
            return api::version(site, &published.version.id).await;
        }
    }
}

/// The throughput of each round over that of its other half.
fn ratios(these: &[Load], those: &[Load]) -> Spread {
    let ratio = |(this, that): (&Load, &Load)| over(this.per_second, that.per_second);
    Spread::of(&these.iter().zip(those).map(ratio).collect::<Vec<_>>())
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("publishing", Setting::of(site.folder()), figures)?;
    let Figures { callers, many_callers, seconds, rounds, share, gain, .. } = figures;
    report.line("rounds", format!("{rounds}, {seconds} s for each kind of question"));
    for (what, loads) in [
        (format!("/healthz, {callers} callers"), &figures.healthz),
        (format!("the same publication again, {callers} callers"), &figures.same),
        ("a new publication each time, one caller".to_owned(), &figures.new_alone),
        (format!("a new publication each time, {many_callers} callers"), &figures.new_many),
    ] {
        let middle = middle(loads);
        let text = format!(
            "{:.0} a second, p50 {} ms, p99 {}",
            middle.per_second,
            number(middle.waited_ms.median),
            number(middle.waited_ms.p99)
        );
        report.line(what, text);
    }
    report.line(
        "held and let go in process",
        format!("{HOLDERS} threads, {HOLDS} times each: {} ms", number(figures.held_ms.median)),
    );
    report.line("publications found after a kill", figures.found.to_string());
    report.line("peak memory of the daemon", mb(figures.peak_rss_bytes));
    let same = middle(&figures.same);
    report.target_at_least("the same again, a second", 20_000.0, same.per_second);
    report.target_at_least("the same again, to /healthz", 0.7, share.median);
    report.target("the same again, p99 ms", 5.0, same.waited_ms.p99);
    report.target_at_least(&format!("new, {many_callers} callers to one"), 20.0, gain.median);
    report.target("held and let go by 8 threads, ms", 2000.0, figures.held_ms.median);
    report.target("the same by two threads, to one", 1.3, figures.held_by_two.median);
    Ok(report)
}

/// The round with the median throughput.
fn middle(loads: &[Load]) -> Load {
    let mut sorted = loads.to_vec();
    sorted.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    sorted.get(sorted.len() / 2).cloned().unwrap_or_default()
}
