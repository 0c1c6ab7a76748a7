//! `asat bench history`: a thousand versions of one store are thinned to a few, and what is left is compared with an
//! archive into which only those were ever published.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use super::args::HistoryArgs;
use super::large::{change, fill, rows_of, share_of};
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, ms_since, over};
use super::{Tell, api, failed};

/// The archive is taken to be compact when it has not changed for so long.
const QUIET: Duration = Duration::from_secs(2);
/// How long to wait between two looks at it.
const BETWEEN: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Figures {
    versions: u32,
    kept_versions: usize,
    store_bytes: u64,
    publish_ms: Spread,
    /// Of all versions, and what is left after thinning.
    archive_bytes: u64,
    thinned_bytes: u64,
    thinned_files: u64,
    /// What the same few versions take that were published alone.
    fresh_bytes: u64,
    /// From the start of the daemon until it is ready.
    ready_ms: f64,
    /// Until the statistics of all versions were told.
    stats_ms: f64,
    open_oldest_ms: f64,
    open_newest_ms: f64,
    /// Until the last version was retired, and until the archive was compact.
    retire_ms: f64,
    thin_ms: f64,
    peak_rss_bytes: u64,
}

pub(super) async fn run(args: &HistoryArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let rows = rows_of(args.size);
    let mut store = fill(&site.store, rows).await?;
    let daemon = site.start()?;
    let (mut publish_ms, mut store_bytes) = (Vec::new(), 0);
    for round in 1..=args.versions {
        if round > 1 {
            change(&mut store, round, rows, share_of(rows, args.changed))?;
        }
        let (published, waited_ms) = api::publish(&site, &format!("round {round}")).await?;
        store_bytes = published.version.size_bytes.unwrap_or(0);
        publish_ms.push(waited_ms);
        if round % 100 == 0 {
            tell(&format!("{round} of {} publications", args.versions));
        }
    }
    daemon.stop()?;
    let daemon = site.start()?;
    let ready_ms = daemon.ready_ms;
    let open_oldest_ms = open(&site, 1).await?;
    let open_newest_ms = open(&site, args.versions).await?;
    let since = Instant::now();
    let archive_bytes = api::archive_stats(&site).await?.bytes;
    let stats_ms = ms_since(since);
    tell("thinning");
    let kept = kept(args.versions, args.keep);
    let since = Instant::now();
    for number in (1..=args.versions).filter(|number| !kept.contains(number)) {
        api::retire(&site, &format!("report@{number}")).await?;
    }
    let retire_ms = ms_since(since);
    let (thin_ms, thinned_bytes, thinned_files) = until_compact(&site, since).await?;
    tell("publishing the same versions into an archive of their own");
    let fresh_bytes = publish_alone(&site, &kept, dir).await?;
    let peak_rss_bytes = daemon.peak_rss_bytes()?;
    daemon.stop()?;
    report(
        &site,
        &Figures {
            versions: args.versions,
            kept_versions: kept.len(),
            store_bytes,
            publish_ms: Spread::of(&publish_ms),
            archive_bytes,
            thinned_bytes,
            thinned_files,
            fresh_bytes,
            ready_ms,
            stats_ms,
            open_oldest_ms,
            open_newest_ms,
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

/// Opens a version that nobody has open, for milliseconds.
async fn open(site: &Site, number: u32) -> Result<f64, Problem> {
    let since = Instant::now();
    api::open(site, &format!("report@{number}")).await?;
    Ok(ms_since(since))
}

/// Waits until compaction has ended; answers when it had, after so many milliseconds, and what is left.
async fn until_compact(site: &Site, since: Instant) -> Result<(f64, u64, u64), Problem> {
    let (mut last, mut changed_at, mut changed_ms) = (0, Instant::now(), 0.0);
    while changed_at.elapsed() < QUIET {
        let bytes = api::archive_bytes(site).await?;
        if bytes != last {
            (last, changed_at, changed_ms) = (bytes, Instant::now(), ms_since(since));
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok((changed_ms, last, api::archive_stats(site).await?.files))
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
    let Figures { versions, kept_versions, thinned_bytes, fresh_bytes, .. } = figures;
    report.line("history", format!("{versions} versions of a store of {}", mb(figures.store_bytes)));
    let last = number(figures.publish_ms.last);
    report.line("publish, for the client", format!("{}, last {last}", ms(&figures.publish_ms)));
    report.line("kept for all of them", mb(figures.archive_bytes));
    report.line("start until ready", format!("{} ms", number(figures.ready_ms)));
    report.line("statistics of all versions", format!("{} ms", number(figures.stats_ms)));
    let (oldest, newest) = (number(figures.open_oldest_ms), number(figures.open_newest_ms));
    report.line("open the oldest / the newest", format!("{oldest} / {newest} ms"));
    let (retired, compact) = (number(figures.retire_ms / 1e3), number(figures.thin_ms / 1e3));
    report.line(
        format!("thinned to {kept_versions}"),
        format!("retired after {retired} s, compact after {compact} s"),
    );
    let (thinned, fresh) = (mb(*thinned_bytes), mb(*fresh_bytes));
    report
        .line("kept then", format!("{thinned} in {} files; published alone {fresh}", figures.thinned_files));
    report.line("peak memory of the daemon", mb(figures.peak_rss_bytes));
    report.target("start until ready, ms", 1000.0, figures.ready_ms);
    report.target(
        "the oldest, to the newest, opened",
        2.0,
        over(figures.open_oldest_ms, figures.open_newest_ms),
    );
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
