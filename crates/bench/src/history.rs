//! `asat-bench history`: what a long history costs, beside what the same store's cost when it was short; then it is thinned to a few
//! versions, and what is left is compared with an archive into which only those were ever published.

use std::fs;
use std::ops::RangeInclusive;
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
use super::statistics::{Spread, float, ms_since, over};
use super::{Tell, api, failed};

/// So long is a history that is called short.
const SHORT: u32 = 100;
/// So many publications are looked at, at each length.
const PUBLISHED: u32 = 40;
/// So many of the oldest and of the newest versions are opened.
const OPENED: u32 = 10;
/// So often a daemon is started.
const STARTS: u32 = 9;

/// What a history of some length costs, to a daemon that was started with it.
#[derive(Serialize)]
struct Point {
    versions: u32,
    /// From the start of the daemon until it is ready.
    ready_ms: Spread,
    open_oldest_ms: Spread,
    open_newest_ms: Spread,
    publish_ms: Spread,
    archive_bytes: u64,
    files: u64,
    peak_rss_bytes: u64,
}

#[derive(Serialize)]
struct Figures {
    versions: u32,
    kept_versions: usize,
    store_bytes: u64,
    short: Point,
    long: Point,
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
    let site = Site::make(dir)?;
    let rows = rows_of(args.size);
    let changed = share_of(rows, args.changed);
    let mut history =
        History { store: fill(&site.store, rows).await?, site: &site, rows, changed, versions: 0 };
    let short = history.grow_to(SHORT, tell).await?;
    let long = history.grow_to(args.versions.max(SHORT), tell).await?;
    let versions = history.versions;
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
            short,
            long,
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
struct History<'a> {
    store: Connection,
    site: &'a Site,
    rows: i64,
    /// How many rows change before each publication.
    changed: i64,
    versions: u32,
}

impl History<'_> {
    /// Publishes until there are so many versions, and finds out what these cost.
    async fn grow_to(&mut self, versions: u32, tell: Tell<'_>) -> Result<Point, Problem> {
        let daemon = self.site.start()?;
        while self.versions < versions {
            self.publish().await?;
            if self.versions.is_multiple_of(1000) {
                tell(&format!("{} of {versions} publications", self.versions));
            }
        }
        api::until_compact(self.site, Instant::now()).await?;
        let (daemon, ready_ms) = self.start_often(daemon).await?;
        let open_oldest_ms = self.open(1..=OPENED).await?;
        let open_newest_ms = self.open(self.versions - OPENED + 1..=self.versions).await?;
        let (mut publish_ms, before) = (Vec::new(), self.versions);
        for _ in 0..PUBLISHED {
            publish_ms.push(self.publish().await?);
        }
        // Before statistics are asked for, which are of all versions.
        let peak_rss_bytes = daemon.peak_rss_bytes()?;
        let stats = api::archive_stats(self.site).await?;
        daemon.stop()?;
        Ok(Point {
            versions: before,
            ready_ms: Spread::of(&ready_ms),
            open_oldest_ms,
            open_newest_ms,
            publish_ms: Spread::of(&publish_ms),
            archive_bytes: stats.bytes,
            files: stats.files,
            peak_rss_bytes,
        })
    }

    /// Starts the daemon anew, several times, each time after the one before has nothing left to do; answers the last one, and after how
    /// many milliseconds each was ready.
    async fn start_often(&self, mut daemon: Daemon) -> Result<(Daemon, Vec<f64>), Problem> {
        let mut ready_ms = Vec::new();
        for _ in 0..STARTS {
            api::until_compact(self.site, Instant::now()).await?;
            daemon.until_idle().await?;
            daemon.stop()?;
            daemon = self.site.start()?;
            ready_ms.push(daemon.ready_ms);
        }
        // What was stored last is read before something is stored upon it.
        api::until_compact(self.site, Instant::now()).await?;
        daemon.until_idle().await?;
        Ok((daemon, ready_ms))
    }

    /// Publishes once more, after a change; answers after how many milliseconds.
    async fn publish(&mut self) -> Result<f64, Problem> {
        if self.versions > 0 {
            change(&mut self.store, self.versions + 1, self.rows, self.changed)?;
        }
        self.versions += 1;
        Ok(api::publish(self.site, &format!("round {}", self.versions)).await?.1)
    }

    /// Opens versions that nobody has open, one after another.
    async fn open(&self, numbers: RangeInclusive<u32>) -> Result<Spread, Problem> {
        let mut open_ms = Vec::new();
        for number in numbers {
            let since = Instant::now();
            let mount = api::open(self.site, &format!("report@{number}")).await?;
            open_ms.push(ms_since(since));
            api::close(self.site, &mount).await?;
        }
        Ok(Spread::of(&open_ms))
    }
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
    let Figures { versions, kept_versions, thinned_bytes, fresh_bytes, short, long, .. } = figures;
    report.line("history", format!("{versions} versions of a store of {}", mb(figures.store_bytes)));
    for point in [short, long] {
        let Point { versions, ready_ms, open_oldest_ms, open_newest_ms, publish_ms, .. } = point;
        report.line(format!("with {versions} versions: publish"), ms(publish_ms));
        let (oldest, newest) = (number(open_oldest_ms.median), number(open_newest_ms.median));
        report.line("open the oldest / the newest", format!("median {oldest} / {newest} ms"));
        report.line("start until ready", ms(ready_ms));
        let (bytes, peak) = (mb(point.archive_bytes), mb(point.peak_rss_bytes));
        report.line("kept / peak memory", format!("{bytes} in {} files / {peak}", point.files));
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
    for (what, short, long) in [
        ("publish", short.publish_ms.median, long.publish_ms.median),
        ("open the newest", short.open_newest_ms.median, long.open_newest_ms.median),
        ("open the oldest", short.open_oldest_ms.median, long.open_oldest_ms.median),
        ("start until ready", short.ready_ms.median, long.ready_ms.median),
        ("peak memory", float(short.peak_rss_bytes), float(long.peak_rss_bytes)),
    ] {
        report.target(&format!("{what}, long to short history"), 1.3, over(long, short));
    }
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
