//! `asat-bench idle`: what a daemon with a history takes that nobody asks anything, without watch mode and with it.
//!
//! The history is a real one, published version by version. Then the daemon is started anew, as after a boot, so that its
//! memory is not that of the work before. A program has the store open meanwhile, and writes nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use super::args::IdleArgs;
use super::large::{change, fill, rows_of};
use super::report::{Report, mb, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::float;
use super::{Tell, api};

/// What comes after a start is over by then.
const REST: Duration = Duration::from_secs(5);
/// So many rows change from version to version.
const CHANGED: i64 = 20;
/// The same store in watch mode.
const WATCHED: &str = "backend = \"pages\"\n[store.watch]\nmarker = \"select max(id) from position\"\n";

#[derive(Serialize)]
struct Figures {
    store_bytes: u64,
    versions: u32,
    ready_ms: f64,
    unwatched: Idle,
    watched: Idle,
}

/// What the daemon took for a while.
#[derive(Serialize)]
struct Idle {
    seconds: f64,
    resident_bytes: u64,
    /// Its processor time, in a hundredth of one core. The kernel counts it in hundredths of a second.
    processor_percent: f64,
    /// How often the guard looked or glanced.
    looks: u64,
}

pub(super) async fn run(args: &IdleArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let rows = rows_of(args.size);
    let mut store = fill(&site.store, rows).await?;
    let daemon = site.start()?;
    let mut store_bytes = 0;
    for round in 1..=args.versions {
        change(&mut store, round, rows, CHANGED)?;
        let (published, _) = api::publish(&site, &format!("round {round}")).await?;
        store_bytes = published.version.size_bytes.unwrap_or(0);
        if round % 100 == 0 {
            tell(&format!("{round} of {} publications", args.versions));
        }
    }
    daemon.stop()?;
    let (ready_ms, unwatched) = rest(&site, args, tell).await?;
    site.configure(WATCHED)?;
    let (_, watched) = rest(&site, args, tell).await?;
    report(&site, &Figures { store_bytes, versions: args.versions, ready_ms, unwatched, watched })
}

/// Starts a daemon, and leaves it alone for a while; answers also after how many milliseconds it was ready.
async fn rest(site: &Site, args: &IdleArgs, tell: Tell<'_>) -> Result<(f64, Idle), Problem> {
    let daemon = site.start()?;
    tokio::time::sleep(REST).await;
    tell(&format!("nothing is asked and nothing written for {} s", args.seconds));
    let looks = || async {
        let looks = api::capacity(site).await?.looks;
        Ok::<_, Problem>(looks.full + looks.glances)
    };
    let before = looks().await?;
    let (since, used) = (Instant::now(), daemon.processor_seconds()?);
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let (seconds, used) = (since.elapsed().as_secs_f64(), daemon.processor_seconds()? - used);
    let idle = Idle {
        seconds,
        resident_bytes: daemon.rss_bytes()?,
        processor_percent: used * 100.0 / seconds,
        looks: looks().await? - before,
    };
    let ready_ms = daemon.ready_ms;
    daemon.stop()?;
    Ok((ready_ms, idle))
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("idle", Setting::of(site.folder()), figures)?;
    let Figures { store_bytes, versions, ready_ms, unwatched, watched } = figures;
    report.line("history", format!("{versions} versions of a store of {}", mb(*store_bytes)));
    report.line("start until ready", format!("{} ms", number(*ready_ms)));
    for (what, idle) in [("not watched", unwatched), ("watched", watched)] {
        let Idle { seconds, resident_bytes, processor_percent, looks } = idle;
        let (resident, percent) = (mb(*resident_bytes), number(*processor_percent));
        let text = format!(
            "{resident} resident, {percent} % of a core for {seconds:.0} s, {looks} looks of the guard"
        );
        report.line(what, text);
        report.target(&format!("{what}: MB resident"), 40.0, float(*resident_bytes) / 1e6);
        report.target(&format!("{what}: percent of a core"), 0.5, *processor_percent);
    }
    Ok(report)
}
