//! `asat-bench scale`: what one daemon takes that has much to do, beside one that has little.
//!
//! One of two daemons has a single store, and the other many. Then one has a single lease open, and the other many. Both are measured in
//! turns, and are left alone at the same time. Last, more and more readers read the same versions at once.

mod leases;
mod readers;
mod stores;

use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use super::args::ScaleArgs;
use super::large::{change, fill, rows_of};
use super::process::Daemon;
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, ratios};
use super::{Tell, api, failed};

/// What comes after a start, or after much work, is over by then.
const REST: Duration = Duration::from_secs(5);
/// So many rows of a store change before each publication.
const CHANGED: i64 = 3;
/// What shows that a version holds what was published.
const SUM: &str = "select sum(units) from position";

#[derive(Serialize)]
struct Figures {
    store_bytes: u64,
    stores: stores::Figures,
    leases: leases::Figures,
    readers: readers::Figures,
}

/// What takes so long with few and with many, measured in turns.
#[derive(Serialize)]
struct InTurns {
    few_ms: Spread,
    many_ms: Spread,
    /// With many to with few, within each pair.
    ratio: Spread,
}

impl InTurns {
    /// From pairs of milliseconds, those with few first.
    fn of(pairs: &[(f64, f64)]) -> Self {
        let (few, many): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Self { few_ms: Spread::of(&few), many_ms: Spread::of(&many), ratio: Spread::of(&ratios(pairs)) }
    }

    /// Shows both to people, and the ratio.
    fn tell(&self, report: &mut Report, what: &str, [few, many]: [&str; 2]) {
        report.line(format!("{what}, {few}"), ms(&self.few_ms));
        let ratio = number(self.ratio.median);
        report.line(format!("{what}, {many}"), format!("{}; {ratio} times", ms(&self.many_ms)));
    }
}

/// What two daemons take that nobody asks anything.
#[derive(Serialize)]
struct Idle {
    few: Alone,
    many: Alone,
}

/// What a daemon takes that nobody asks anything.
#[derive(Serialize)]
struct Alone {
    seconds: f64,
    /// The processor time of its threads, in a hundredth of one processor.
    processor_percent: f64,
    resident_bytes: u64,
}

impl Idle {
    /// Leaves both daemons alone for a while, at the same time.
    async fn measure(few: &Daemon, many: &Daemon, seconds: u32) -> Result<Self, Problem> {
        tokio::time::sleep(REST).await;
        let since = Instant::now();
        let before = (few.thread_seconds("")?, many.thread_seconds("")?);
        tokio::time::sleep(Duration::from_secs(u64::from(seconds))).await;
        let alone = |daemon: &Daemon, before: f64| {
            let (used, seconds) = (daemon.thread_seconds("")? - before, since.elapsed().as_secs_f64());
            // A thread that has ended meanwhile is not counted any more.
            let processor_percent = used.max(0.0) * 100.0 / seconds;
            Ok::<_, Problem>(Alone { seconds, processor_percent, resident_bytes: daemon.rss_bytes()? })
        };
        Ok(Self { few: alone(few, before.0)?, many: alone(many, before.1)? })
    }

    /// Shows both to people, and holds the one with many against what is promised.
    fn tell(&self, report: &mut Report, names: [&str; 2]) {
        for (alone, name) in [&self.few, &self.many].into_iter().zip(names) {
            let Alone { seconds, processor_percent, resident_bytes } = alone;
            let (percent, resident) = (number(*processor_percent), mb(*resident_bytes));
            let text = format!("{percent} % of a processor for {seconds:.0} s, {resident} resident");
            report.line(format!("idle, {name}"), text);
        }
        let [_, many] = names;
        let what = format!("idle, {many}, percent of a processor");
        report.target(&what, 1.0, self.many.processor_percent);
    }
}

pub(super) async fn run(args: &ScaleArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let stores = stores::measure(args, dir, tell).await?;
    let leases = leases::measure(args, dir, tell).await?;
    let readers = readers::measure(args, dir, tell).await?;
    let folder = dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let figures = Figures { store_bytes: args.size.as_u64(), stores, leases, readers };
    let mut report = Report::new("scale", Setting::of(&folder), &figures)?;
    report.line("each store", mb(figures.store_bytes));
    figures.stores.tell(&mut report);
    figures.leases.tell(&mut report);
    figures.readers.tell(&mut report);
    Ok(report)
}

/// A version, and what is in it.
struct Expected {
    id: String,
    sum: i64,
}

/// The folder of a daemon that lets one caller have so many leases, and some more.
fn site_for(leases: u32, dir: Option<&Path>) -> Result<Site, Problem> {
    let site = Site::make(dir)?;
    site.configure(&keeping_for(leases))?;
    Ok(site)
}

/// How the store of such a daemon is kept.
fn keeping_for(leases: u32) -> String {
    let most = leases.saturating_add(100);
    format!("backend = \"pages\"\n[copies]\nmax_leases = {most}\nmax_leases_per_caller = {most}\n")
}

/// Makes the store, and publishes as many versions of it as are to be read; the daemon runs.
async fn publish_versions(site: &Site, args: &ScaleArgs) -> Result<Vec<Expected>, Problem> {
    let rows = rows_of(args.size);
    let mut store = fill(&site.store, rows).await?;
    let mut versions = Vec::new();
    for round in 1..=args.versions {
        change(&mut store, round, rows, CHANGED)?;
        let (published, _) = api::publish(site, &format!("round {round}")).await?;
        let sum = store.query_row(SUM, [], |row| row.get(0));
        let sum = sum.map_err(|error| failed("read a store", error))?;
        versions.push(Expected { id: published.version.id, sum });
    }
    Ok(versions)
}
