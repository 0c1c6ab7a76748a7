//! `asat-bench follow`: a daemon that follows a bucket: how soon and with how many requests it lists what is there, sees what is new, and answers
//! the first query over it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use asat_client::Request;
use asat_core::Problem;
use asat_wire::StoreList;
use serde::Serialize;

use super::args::FollowArgs;
use super::keys::Keys;
use super::large::{change, fill, rows_of, share_of};
use super::line::{self, Line};
use super::report::{Report, mb, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, ms_since, over};
use super::{Tell, api, failed, remote};

/// How often the follower asks the bucket.
const POLL: Duration = Duration::from_secs(1);
/// How long it may take to come to what is in the bucket.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Figures {
    url: String,
    /// Each request of the follower took so much longer.
    delay_ms: u64,
    store_bytes: u64,
    versions: u32,
    files: u64,
    is_encrypted: bool,
    /// Whether each version was certified once more, without a change.
    is_certified_again: bool,
    in_the_bucket_bytes: u64,
    /// From the start of the publisher until all versions are in the bucket.
    stored_all_ms: f64,
    stored_all_requests: u64,
    /// From the start of a follower that has nothing until it lists all versions.
    listed_all_ms: f64,
    start_requests: u64,
    start_bytes: u64,
    /// The first query, which reads one row of the oldest version.
    oldest_query_ms: f64,
    /// From the answer to a publication until the version is in the bucket.
    stored_ms: Spread,
    /// Requests of the publisher for each.
    stored_requests_each: f64,
    sent_bytes_each: u64,
    /// From when a version was in the bucket until the follower lists it; it asks once a second.
    listed_ms: Spread,
    /// The first query over it, which reads one row.
    first_query_ms: Spread,
    /// Requests of the follower for each publication, with that query and without the polls that find nothing.
    requests_each: f64,
    received_bytes_each: u64,
    idle_polls: f64,
    idle_requests: u64,
    peak_rss_bytes: u64,
}

pub(super) async fn run(args: &FollowArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let (site, follower) = (Site::make(dir)?, Site::make(dir)?);
    let bucket = site.path("bucket");
    fs::create_dir(&bucket).map_err(|error| failed("make a folder", error))?;
    let url = args.url.clone().unwrap_or_else(|| format!("file://{}", bucket.display()));
    let keys = args.encrypt.then(|| Keys::make(follower.path("identity.txt"))).transpose()?;
    remote::init(&url, keys.as_ref().map(|keys| keys.recipient.as_str()))?;
    let rows = rows_of(args.size);
    let changed = share_of(rows, args.changed);
    let mut store = fill(&site.store, rows).await?;
    tell(&format!("publishing {} versions", args.versions));
    let daemon = site.start()?;
    for nth in 1..=args.versions {
        if nth > 1 {
            change(&mut store, nth, rows, changed)?;
        }
        certify(&site, nth, args.again).await?;
    }
    api::until_compact(&site, Instant::now()).await?;
    let files = api::archive_stats(&site).await?.files;
    daemon.stop()?;
    site.configure(&format!(
        "backend = \"pages\"\n[remote]\nurl = \"{url}\"\n{}",
        Keys::of_publisher(keys.as_ref())
    ))?;
    tell("storing them in the bucket");
    let since = Instant::now();
    let publisher = site.start()?;
    remote::until_stored(&site).await?;
    let stored_all_ms = ms_since(since);
    let (stored_all_requests, _) = api::bucket_use(&site, "sent").await?;
    let in_the_bucket = api::in_the_bucket(&site).await?;

    let config = configuration(args.delay, &url, keys.as_ref()).await?;
    fs::write(follower.path("asat.toml"), config).map_err(|error| failed("write a configuration", error))?;
    tell("starting a follower");
    let since = Instant::now();
    let following = follower.start()?;
    until_listed(&follower, args.versions).await?;
    let listed_all_ms = ms_since(since);
    let (start_requests, start_bytes) = api::bucket_use(&follower, "received").await?;
    let oldest_query_ms = query(&follower, "report@1").await?;

    tell(&format!("{} publications that it follows", args.publications));
    let (mut stored, mut listed, mut first) = (Vec::new(), Vec::new(), Vec::new());
    let before = api::bucket_use(&follower, "received").await?;
    let sent_before = api::bucket_use(&site, "sent").await?;
    let (began, mut versions) = (Instant::now(), args.versions);
    for _ in 0..args.publications {
        versions += 1;
        change(&mut store, versions, rows, changed)?;
        certify(&site, versions, args.again).await?;
        stored.push(remote::until_stored(&site).await?);
        let since = Instant::now();
        until_listed(&follower, versions).await?;
        listed.push(ms_since(since));
        first.push(query(&follower, &format!("report@{versions}")).await?);
    }
    let (after, polls) = (
        api::bucket_use(&follower, "received").await?,
        over(float(millis(began.elapsed())), float(millis(POLL))),
    );
    let sent = api::bucket_use(&site, "sent").await?;
    tell("nothing is published");
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let idle = api::bucket_use(&follower, "received").await?;
    let peak_rss_bytes = following.peak_rss_bytes()?;
    following.stop()?;
    publisher.stop()?;
    let publications = float(u64::from(args.publications));
    let sent_requests = float(sent.0 - sent_before.0);
    let figures = Figures {
        url,
        delay_ms: args.delay,
        store_bytes: fs::metadata(&site.store).map_err(|error| failed("look at the store", error))?.len(),
        versions: args.versions,
        files,
        is_encrypted: args.encrypt,
        is_certified_again: args.again,
        in_the_bucket_bytes: in_the_bucket,
        stored_all_ms,
        stored_all_requests,
        listed_all_ms,
        start_requests,
        start_bytes,
        oldest_query_ms,
        stored_ms: Spread::of(&stored),
        stored_requests_each: over(sent_requests, publications),
        sent_bytes_each: (sent.1 - sent_before.1) / u64::from(args.publications),
        listed_ms: Spread::of(&listed),
        first_query_ms: Spread::of(&first),
        requests_each: over((float(after.0 - before.0) - polls).max(0.0), publications),
        received_bytes_each: (after.1 - before.1) / u64::from(args.publications),
        idle_polls: over(float(u64::from(args.seconds)), float(POLL.as_secs())),
        idle_requests: idle.0 - after.0,
        peak_rss_bytes,
    };
    report(&site, &figures)
}

/// Publishes what has changed, and certifies it once more if that is wanted.
async fn certify(site: &Site, nth: u32, again: bool) -> Result<(), Problem> {
    api::publish(site, &format!("round {nth}")).await?;
    if again {
        api::certify(site, &format!("round {nth}, again")).await?;
    }
    Ok(())
}

/// The follower's, each of whose requests takes so many milliseconds longer.
async fn configuration(delay: u64, url: &str, keys: Option<&Keys>) -> Result<String, Problem> {
    let options = match delay {
        0 => String::new(),
        delay => {
            let line = Line::to(&line::server()?, Duration::from_millis(delay)).await?;
            format!("options = {{ endpoint = \"{}\" }}\n", line.endpoint)
        }
    };
    let fuse = match Path::new("/dev/fuse").exists() {
        true => "[fuse]\nroot = \"versions\"\n",
        false => "",
    };
    Ok(format!(
        "state = \"state\"\n{fuse}[listen]\nunix = \"asat.sock\"\n[follow]\nurl = \"{url}\"\npoll = \"1s\"\n{}{options}",
        Keys::of_follower(keys)
    ))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Waits until the follower lists so many versions.
pub(super) async fn until_listed(site: &Site, versions: u32) -> Result<(), Problem> {
    let since = Instant::now();
    loop {
        let stores: StoreList = site.client().ask(&Request::get(&["stores"])).await?;
        let listed: usize = stores.stores.iter().map(|store| store.versions).sum();
        if u32::try_from(listed) == Ok(versions) {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            return Err(failed(
                "wait any longer",
                format!("the follower lists {listed} of {versions} versions"),
            ));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads one row of a version; answers after how many milliseconds it was there.
async fn query(site: &Site, version: &str) -> Result<f64, Problem> {
    let sql = format!("select id, units from {version}.position where id = 1");
    let (answer, took) = api::query(site, &sql).await?;
    match api::rows(&answer).collect::<Result<Vec<_>, _>>()?.len() {
        1 => Ok(took),
        rows => Err(failed("read a row", format!("{version} answers {rows}"))),
    }
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("follow", Setting::of(site.folder()), figures)?;
    let long = |ms: f64| format!("{} ms", number(ms));
    let spread = |spread: &Spread| super::report::ms(spread);
    report.line("each request takes longer by", format!("{} ms", figures.delay_ms));
    report.line("store", mb(figures.store_bytes));
    report.line(
        "versions, files, in the bucket",
        format!("{}, {}, {}", figures.versions, figures.files, mb(figures.in_the_bucket_bytes)),
    );
    let said = |is_so| if is_so { "yes" } else { "no" }.to_owned();
    report.line("that is encrypted", said(figures.is_encrypted));
    report.line("each version is certified twice", said(figures.is_certified_again));
    report.line(
        "all is in the bucket after",
        format!("{}, {} requests", long(figures.stored_all_ms), figures.stored_all_requests),
    );
    report.line("a follower with nothing lists all after", long(figures.listed_all_ms));
    report.line(
        "requests and bytes for that",
        format!("{}, {}", figures.start_requests, mb(figures.start_bytes)),
    );
    report.line("first query, over the oldest version", long(figures.oldest_query_ms));
    report.line("from the answer until a version is in the bucket", spread(&figures.stored_ms));
    report.line(
        "requests and bytes of the publisher for each",
        format!("{}, {}", number(figures.stored_requests_each), mb(figures.sent_bytes_each)),
    );
    report.line("a version that is in the bucket is listed after", spread(&figures.listed_ms));
    report.line("first query over it", spread(&figures.first_query_ms));
    report.line(
        "requests and bytes for each",
        format!("{}, {}", number(figures.requests_each), mb(figures.received_bytes_each)),
    );
    report
        .line(format!("requests in {} polls", number(figures.idle_polls)), figures.idle_requests.to_string());
    report.line("the follower's memory", mb(figures.peak_rss_bytes));
    report.target("seconds until a follower with nothing lists all", 5.0, figures.listed_all_ms / 1000.0);
    report.target("requests until then", 20.0, float(figures.start_requests));
    report.target("seconds until a version is in the bucket", 2.0, figures.stored_ms.median / 1000.0);
    report.target(
        "seconds until a version is listed, at a poll a second",
        1.0 + 0.3,
        figures.listed_ms.median / 1000.0,
    );
    report.target("milliseconds of the first query over it", 300.0, figures.first_query_ms.median);
    Ok(report)
}
