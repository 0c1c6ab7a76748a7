//! `asat-bench remote`: what a bucket costs the publisher, how soon a version is there, and what is asked of the service.
//!
//! The same transactions are run on two stores, of which one is copied to a bucket. Their publications alternate.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use super::args::{JournalMode, RemoteArgs};
use super::follow::{PATIENCE, until_listed};
use super::process::program;
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, ms_since, over};
use super::workload::{Book, Run};
use super::{Tell, api, failed, litestream};
use asat_client::Request;
use asat_wire::StoreList;

#[derive(Serialize)]
struct Figures {
    url: String,
    publications: u32,
    without_ms: Spread,
    with_ms: Spread,
    /// Of each pair, with over without.
    ratio: Spread,
    /// From the answer until the version is in the bucket.
    stored_after_ms: Spread,
    requests_each: f64,
    sent_bytes_each: u64,
    /// Requests in this many seconds in which nothing was published.
    idle_seconds: f64,
    idle_requests: u64,
    in_the_bucket_bytes: u64,
    /// From the start of a daemon that follows the bucket and has nothing, until a version in the middle is a file.
    opened_elsewhere_ms: f64,
    opened_elsewhere_requests: u64,
    litestream: Option<litestream::Figures>,
}

pub(super) async fn run(args: &RemoteArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let (without, with) = (Site::make(dir)?, Site::make(dir)?);
    let bucket = with.path("bucket");
    fs::create_dir(&bucket).map_err(|error| failed("make a folder", error))?;
    let url = args.url.clone().unwrap_or_else(|| format!("file://{}", bucket.display()));
    init(&url, None)?;
    with.configure(&format!("backend = \"pages\"\n[remote]\nurl = \"{url}\"\n"))?;
    let mut books =
        [Book::create(&without.store, JournalMode::Wal)?, Book::create(&with.store, JournalMode::Wal)?];
    let daemons = [without.start()?, with.start()?];
    let (mut pairs, mut stored) = (Vec::new(), Vec::new());
    let mut before = (0, 0);
    tell(&format!("{} publications of each store", args.publications));
    for nth in 0..=args.publications {
        let run = Run::new(nth, args.rows);
        for book in &mut books {
            book.value_anew(&run)?;
        }
        let label = format!("run {nth}");
        let sites = if nth % 2 == 0 { [&without, &with] } else { [&with, &without] };
        let mut took = Vec::new();
        for site in sites {
            // Nothing is merged, and nothing is stored in the bucket, when a publication begins.
            for site in [&without, &with] {
                api::until_compact(site, Instant::now()).await?;
            }
            took.push(api::publish(site, &label).await?.1);
            if std::ptr::eq(site, &with) {
                stored.push(until_stored(site).await?);
            }
        }
        if nth % 2 == 1 {
            took.reverse();
        }
        match (nth, took.as_slice()) {
            // The first publication of each is of the whole store.
            (0, _) => {
                stored.clear();
                before = api::bucket_use(&with, "sent").await?;
            }
            (_, [without, with]) => pairs.push((*with, *without)),
            _ => {}
        }
    }
    let after = api::bucket_use(&with, "sent").await?;
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let idle = api::bucket_use(&with, "sent").await?;
    let in_the_bucket = api::in_the_bucket(&with).await?;
    for daemon in daemons {
        daemon.stop()?;
    }
    let (opened_elsewhere_ms, opened_elsewhere_requests) =
        open_elsewhere(args.publications, &url, dir).await?;
    let beside = match &args.litestream {
        Some(program) => Some(litestream::run(program, &url, args, dir, tell).await?),
        None => None,
    };
    let publications = u64::from(args.publications);
    let figures = Figures {
        url,
        publications: args.publications,
        without_ms: Spread::of(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>()),
        with_ms: Spread::of(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>()),
        ratio: Spread::of(&pairs.iter().map(|(with, without)| over(*with, *without)).collect::<Vec<_>>()),
        stored_after_ms: Spread::of(&stored),
        requests_each: over(float(after.0 - before.0), float(publications)),
        sent_bytes_each: (after.1 - before.1) / publications,
        idle_seconds: float(u64::from(args.seconds)),
        idle_requests: idle.0 - after.0,
        in_the_bucket_bytes: in_the_bucket,
        opened_elsewhere_ms,
        opened_elsewhere_requests,
        litestream: beside,
    };
    report(&with, &figures)
}

/// Makes the repository, with the credentials of this environment; encrypted, if there is somebody to encrypt to.
pub(super) fn init(url: &str, recipient: Option<&str>) -> Result<(), Problem> {
    let mut command = Command::new(program()?);
    command.args(["remote", "init", "--url", url]).stdin(Stdio::null());
    command.args(recipient.iter().flat_map(|recipient| ["--recipient", recipient]));
    let output = command.output().map_err(|error| failed("make a repository", error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(failed("make a repository", said.trim())) }
}

/// Waits until all versions are in the bucket; answers how long that took, in milliseconds. It asks twice in a millisecond, as a
/// certification that waits would have to be stored as well.
pub(super) async fn until_stored(site: &Site) -> Result<f64, Problem> {
    let since = Instant::now();
    loop {
        let stores: StoreList = site.client().ask(&Request::get(&["stores"])).await?;
        let mut remotes = stores.stores.iter().filter_map(|store| store.remote.as_ref());
        if remotes.all(|remote| remote.pending == 0 && remote.stored > 0) {
            return Ok(ms_since(since));
        }
        if since.elapsed() > PATIENCE {
            return Err(failed("wait any longer", "versions are not in the bucket"));
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}

/// On another machine: opens the version in the middle as a file. Answers how long that took from the start of a daemon that has nothing, in
/// milliseconds, and with how many requests.
async fn open_elsewhere(publications: u32, url: &str, dir: Option<&Path>) -> Result<(f64, u64), Problem> {
    let site = Site::make(dir)?;
    let config = format!("state = \"state\"\n[listen]\nunix = \"asat.sock\"\n[follow]\nurl = \"{url}\"\n");
    fs::write(site.path("asat.toml"), config).map_err(|error| failed("write a configuration", error))?;
    let since = Instant::now();
    let daemon = site.start()?;
    until_listed(&site, publications + 1).await?;
    let mount = api::open(&site, &format!("report@{}", publications / 2 + 1)).await?;
    let took = ms_since(since);
    let (requests, _) = api::bucket_use(&site, "received").await?;
    api::close(&site, &mount).await?;
    daemon.stop()?;
    Ok((took, requests))
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("remote", Setting::of(site.folder()), figures)?;
    report.line("publications of each store", figures.publications.to_string());
    report.line("publishing without a bucket", ms(&figures.without_ms));
    report.line("publishing with one", ms(&figures.with_ms));
    report.line("from the answer until it is in the bucket", ms(&figures.stored_after_ms));
    report.line("requests a publication", number(figures.requests_each));
    report.line("sent a publication", mb(figures.sent_bytes_each));
    report.line(
        format!("requests in {} s without a publication", number(figures.idle_seconds)),
        figures.idle_requests.to_string(),
    );
    report.line("in the bucket", mb(figures.in_the_bucket_bytes));
    report.line(
        "a version in the middle, a file elsewhere",
        after(figures.opened_elsewhere_ms, figures.opened_elsewhere_requests),
    );
    if let Some(litestream) = &figures.litestream {
        report.line("Litestream: from a commit until it is in the bucket", ms(&litestream.stored_after_ms));
        report.line("Litestream: requests a commit", number(litestream.requests_each));
        report.line("Litestream: sent a commit", mb(litestream.sent_bytes_each));
        report.line(
            format!("Litestream: requests in {} s without a commit", number(figures.idle_seconds)),
            litestream.idle_requests.to_string(),
        );
        report.line(
            "Litestream: a moment in the middle, a file elsewhere",
            after(litestream.restored_ms, litestream.restore_requests),
        );
        let is_restored = if litestream.is_restored { "yes" } else { "NO" };
        report.line("Litestream: that is what the store was then", is_restored.to_owned());
    }
    report.target("publishing with a bucket, to without", 1.02, figures.ratio.median);
    report.target("requests a publication", 3.0, figures.requests_each);
    Ok(report)
}

fn after(ms: f64, requests: u64) -> String {
    format!("{} ms, {requests} requests", number(ms))
}
