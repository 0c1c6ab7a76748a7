//! `asat-bench history`: what a long history costs, beside what a short one of the same store costs, in turns; then the long one is thinned to
//! a few versions, and what is left is compared with an archive into which only those were ever published.

use std::fs;
use std::path::Path;
use std::time::Instant;

use asat_core::Problem;
use rusqlite::Connection;
use serde::Serialize;

use super::args::HistoryArgs;
use super::large::{change, fill, rows_of, share_of};
use super::process::Daemon;
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, ms_since, over, ratios};
use super::turns::in_turns;
use super::{Tell, api, failed};

/// So long is a history that is called short.
const SHORT: u32 = 100;
/// So many publications are looked at, of each.
const PUBLISHED: u32 = 40;
/// So many of the oldest and of the newest versions are opened.
const OPENED: u32 = 10;
/// So often the daemon of each is started.
const STARTS: u32 = 15;

/// What takes so long with a short and with a long history, measured in turns.
#[derive(Serialize)]
struct InTurns {
    short_ms: Spread,
    long_ms: Spread,
    /// The long to the short one's, within each pair.
    ratio: Spread,
}

impl InTurns {
    /// From pairs of milliseconds, those of the short history first.
    fn of(pairs: &[(f64, f64)]) -> Self {
        let (short, long): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Self { short_ms: Spread::of(&short), long_ms: Spread::of(&long), ratio: Spread::of(&ratios(pairs)) }
    }
}

/// What a history takes, and a daemon that was started with it.
#[derive(Serialize)]
struct Size {
    versions: u32,
    archive_bytes: u64,
    files: u64,
    peak_rss_bytes: u64,
}

/// A short history beside a long one.
#[derive(Serialize)]
struct Compared {
    /// From the start of the daemon until it is ready.
    ready: InTurns,
    open_oldest: InTurns,
    open_newest: InTurns,
    publish: InTurns,
    short: Size,
    long: Size,
}

#[derive(Serialize)]
struct Figures {
    versions: u32,
    kept_versions: usize,
    store_bytes: u64,
    compared: Compared,
    /// Of all versions, and what is left after thinning.
    archive_bytes: u64,
    thinned_bytes: u64,
    thinned_files: u64,
    /// What the same few versions take that were published alone.
    fresh_bytes: u64,
    /// Until the statistics of all versions were told.
    stats_ms: f64,
    /// Until the last version was retired, and until the archive was compact.
    retire_ms: f64,
    thin_ms: f64,
    peak_rss_bytes: u64,
}

pub(super) async fn run(args: &HistoryArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let mut short = History::grown(SHORT, args, dir, tell).await?;
    let mut long = History::grown(args.versions.max(SHORT), args, dir, tell).await?;
    tell("measuring both in turns");
    let compared = compare(&mut short, &mut long).await?;
    let History { site, versions, .. } = long;
    let daemon = site.start()?;
    let store_bytes = fs::metadata(&site.store).map_err(|error| failed("look at the store", error))?.len();
    let since = Instant::now();
    let archive_bytes = api::archive_stats(&site).await?.bytes;
    let stats_ms = ms_since(since);
    tell("thinning");
    let kept = kept(versions, args.keep);
    let since = Instant::now();
    for number in (1..=versions).filter(|number| !kept.contains(number)) {
        api::retire(&site, &format!("report@{number}")).await?;
    }
    let retire_ms = ms_since(since);
    let (thin_ms, thinned_bytes, thinned_files) = api::until_compact(&site, since).await?;
    tell("publishing the same versions into an archive of their own");
    let fresh_bytes = publish_alone(&site, &kept, dir).await?;
    let peak_rss_bytes = daemon.peak_rss_bytes()?;
    daemon.stop()?;
    report(
        &site,
        &Figures {
            versions,
            kept_versions: kept.len(),
            store_bytes,
            compared,
            archive_bytes,
            thinned_bytes,
            thinned_files,
            fresh_bytes,
            stats_ms,
            retire_ms,
            thin_ms,
            peak_rss_bytes,
        },
    )
}

/// So many of the versions, at the same distance, the first and the last among them.
fn kept(versions: u32, keep: u32) -> Vec<u32> {
    let steps = keep.clamp(2, versions.max(2)) - 1;
    let mut kept: Vec<u32> = (0..=steps)
        .map(|nth| {
            1 + u32::try_from(u64::from(nth) * u64::from(versions - 1) / u64::from(steps)).unwrap_or(0)
        })
        .collect();
    kept.dedup();
    kept
}

/// A history that grows.
struct History {
    site: Site,
    store: Connection,
    rows: i64,
    /// How many rows change before each publication.
    changed: i64,
    versions: u32,
}

impl History {
    /// A history of so many versions, which is compact.
    async fn grown(
        versions: u32,
        args: &HistoryArgs,
        dir: Option<&Path>,
        tell: Tell<'_>,
    ) -> Result<Self, Problem> {
        let site = Site::make(dir)?;
        let rows = rows_of(args.size);
        let store = fill(&site.store, rows).await?;
        let mut history = Self { site, store, rows, changed: share_of(rows, args.changed), versions: 0 };
        let daemon = history.site.start()?;
        while history.versions < versions {
            history.publish().await?;
            if history.versions.is_multiple_of(1000) {
                tell(&format!("{} of {versions} publications", history.versions));
            }
        }
        history.rest(daemon).await?;
        Ok(history)
    }

    /// Starts a daemon; answers also after how many milliseconds it was ready.
    async fn start(&self) -> Result<(Daemon, f64), Problem> {
        let daemon = self.site.start()?;
        let ready_ms = daemon.ready_ms;
        // What was stored last is read before something is stored upon it.
        api::until_compact(&self.site, Instant::now()).await?;
        daemon.until_idle().await?;
        Ok((daemon, ready_ms))
    }

    /// Ends a daemon once it has nothing left to do.
    async fn rest(&self, daemon: Daemon) -> Result<(), Problem> {
        api::until_compact(&self.site, Instant::now()).await?;
        daemon.until_idle().await?;
        daemon.stop()
    }

    /// Publishes once more, after a change; answers after how many milliseconds.
    async fn publish(&mut self) -> Result<f64, Problem> {
        if self.versions > 0 {
            change(&mut self.store, self.versions + 1, self.rows, self.changed)?;
        }
        self.versions += 1;
        Ok(api::publish(&self.site, &format!("round {}", self.versions)).await?.1)
    }

    /// Opens a version that nobody has open; answers after how many milliseconds it was.
    async fn open(&self, number: u32) -> Result<f64, Problem> {
        let since = Instant::now();
        let mount = api::open(&self.site, &format!("report@{number}")).await?;
        let open_ms = ms_since(since);
        api::close(&self.site, &mount).await?;
        Ok(open_ms)
    }

    /// What it takes, and this daemon of it.
    async fn size(&self, daemon: &Daemon) -> Result<Size, Problem> {
        // Before statistics are asked for, which are of all versions.
        let peak_rss_bytes = daemon.peak_rss_bytes()?;
        let stats = api::archive_stats(&self.site).await?;
        Ok(Size { versions: self.versions, archive_bytes: stats.bytes, files: stats.files, peak_rss_bytes })
    }
}

/// Measures two histories in turns.
async fn compare(short: &mut History, long: &mut History) -> Result<Compared, Problem> {
    let starts = in_turns(short, long, STARTS, async |history: &mut History, _| {
        let (daemon, ready_ms) = history.start().await?;
        history.rest(daemon).await?;
        Ok(ready_ms)
    });
    let ready = InTurns::of(&starts.await?);
    let (of_short, _) = short.start().await?;
    let (of_long, _) = long.start().await?;
    let oldest = async |history: &mut History, nth| history.open(1 + nth).await;
    let open_oldest = InTurns::of(&in_turns(short, long, OPENED, oldest).await?);
    let newest = async |history: &mut History, nth| history.open(history.versions - nth).await;
    let open_newest = InTurns::of(&in_turns(short, long, OPENED, newest).await?);
    let publish = async |history: &mut History, _| history.publish().await;
    let publish = InTurns::of(&in_turns(short, long, PUBLISHED, publish).await?);
    let sizes = (short.size(&of_short).await?, long.size(&of_long).await?);
    of_short.stop()?;
    of_long.stop()?;
    Ok(Compared { ready, open_oldest, open_newest, publish, short: sizes.0, long: sizes.1 })
}

/// Publishes versions of one site into another; answers what they take there.
async fn publish_alone(site: &Site, kept: &[u32], dir: Option<&Path>) -> Result<u64, Problem> {
    let fresh = Site::make(dir)?;
    let daemon = fresh.start()?;
    let next = fresh.path("next.db");
    for number in kept {
        let mount = api::open(site, &format!("report@{number}")).await?;
        fs::copy(&mount.path, &next).map_err(|error| failed("copy a version", error))?;
        api::close(site, &mount).await?;
        fs::rename(&next, &fresh.store).map_err(|error| failed("put a version in place", error))?;
        api::publish(&fresh, &format!("version {number}")).await?;
    }
    let bytes = api::archive_bytes(&fresh).await?;
    daemon.stop()?;
    Ok(bytes)
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("history", Setting::of(site.folder()), figures)?;
    let Figures { versions, kept_versions, thinned_bytes, fresh_bytes, compared, .. } = figures;
    report.line("history", format!("{versions} versions of a store of {}", mb(figures.store_bytes)));
    let Compared { ready, open_oldest, open_newest, publish, short, long } = compared;
    let timed = [
        ("publish", publish),
        ("open the newest", open_newest),
        ("open the oldest", open_oldest),
        ("start until ready", ready),
    ];
    let each = [
        (short, timed.map(|(what, of)| (what, &of.short_ms))),
        (long, timed.map(|(what, of)| (what, &of.long_ms))),
    ];
    for (size, timed) in each {
        report.line("with so many versions", size.versions.to_string());
        for (what, spread) in timed {
            report.line(what, ms(spread));
        }
        let (bytes, peak) = (mb(size.archive_bytes), mb(size.peak_rss_bytes));
        report.line("kept / peak memory", format!("{bytes} in {} files / {peak}", size.files));
    }
    report.line("kept for all of them", mb(figures.archive_bytes));
    report.line("statistics of all versions", format!("{} ms", number(figures.stats_ms)));
    let (retired, compact) = (number(figures.retire_ms / 1e3), number(figures.thin_ms / 1e3));
    report.line(
        format!("thinned to {kept_versions}"),
        format!("retired after {retired} s, compact after {compact} s"),
    );
    let (thinned, fresh) = (mb(*thinned_bytes), mb(*fresh_bytes));
    report
        .line("kept then", format!("{thinned} in {} files; published alone {fresh}", figures.thinned_files));
    report.line("peak memory of the daemon", mb(figures.peak_rss_bytes));
    for (what, InTurns { ratio, .. }) in timed {
        report.target(&format!("{what}, long to short history"), 1.3, ratio.median);
    }
    let memory = over(float(long.peak_rss_bytes), float(short.peak_rss_bytes));
    report.target("peak memory, long to short history", 1.3, memory);
    report.target("thinned and compact, s", 60.0, figures.thin_ms / 1e3);
    report.target("kept, to published alone", 1.2, over(float(*thinned_bytes), float(*fresh_bytes)));
    report.target("peak memory of the daemon, MB", 256.0, float(figures.peak_rss_bytes) / 1e6);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_kept_and_so_many_between() {
        assert_eq!(kept(9, 3), [1, 5, 9]);
        assert_eq!(kept(3, 60), [1, 2, 3]);
        let kept = kept(1000, 60);
        assert_eq!((kept.len(), kept.first(), kept.last()), (60, Some(&1), Some(&1000)));
    }
}
