//! The calls that a benchmark makes to its daemon.

use std::time::{Duration, Instant};

use asat_core::Problem;
use serde_json::{Value, json};

use super::failed;
use super::site::Site;
use super::statistics::ms_since;
use asat_client::Request;
use asat_wire::{
    ArchiveStats, Capacity, LeaseList, Mount, Published, QueryLine, Restored, StoreList, Version,
};

/// How long to wait between two looks at what the daemon does.
const BETWEEN: Duration = Duration::from_millis(50);

/// Publishes the only store; answers also how many milliseconds the client waited.
pub(super) async fn publish(site: &Site, label: &str) -> Result<(Published, f64), Problem> {
    publish_changed(site, &json!({ "label": label, "certified_by": "bench" })).await
}

/// The same of one of several stores.
pub(super) async fn publish_one(site: &Site, store: &str, label: &str) -> Result<(Published, f64), Problem> {
    publish_changed(site, &json!({ "store": store, "label": label, "certified_by": "bench" })).await
}

async fn publish_changed(site: &Site, body: &Value) -> Result<(Published, f64), Problem> {
    let since = Instant::now();
    let published: Published = site.client().ask(&snapshot(body)?).await?;
    let waited_ms = ms_since(since);
    if published.reused {
        return Err(failed("go on", format!("{body} was published as unchanged")));
    }
    Ok((published, waited_ms))
}

/// Publishes the store, whether it has changed or not.
pub(super) async fn certify(site: &Site, label: &str) -> Result<Published, Problem> {
    site.client().ask(&snapshot(&json!({ "label": label, "certified_by": "bench" }))?).await
}

fn snapshot(body: &Value) -> Result<Request, Problem> {
    Ok(Request::post(&["snapshots"]).json(body)?.long())
}

/// A version as it is now.
pub(super) async fn version(site: &Site, id: &str) -> Result<Version, Problem> {
    site.client().ask(&Request::get(&["versions", id])).await
}

/// Opens a version.
pub(super) async fn open(site: &Site, version: &str) -> Result<Mount, Problem> {
    let body = json!({ "holder": "bench", "ttl_seconds": 3600 });
    site.client().ask(&Request::post(&["versions", version, "mounts"]).json(&body)?.long()).await
}

/// Gives a lease on a version back.
pub(super) async fn close(site: &Site, mount: &Mount) -> Result<(), Problem> {
    let path = ["versions", mount.version.as_str(), "mounts", mount.lease.as_str()];
    site.client().order(&Request::delete(&path)).await
}

/// The open leases.
pub(super) async fn leases(site: &Site) -> Result<LeaseList, Problem> {
    site.client().ask(&Request::get(&["leases"])).await
}

/// Brings the only store back to a version.
pub(super) async fn restore(site: &Site, version: &str) -> Result<Restored, Problem> {
    let body = json!({ "version": version });
    site.client().ask(&Request::post(&["stores", "report", "restore"]).json(&body)?.long()).await
}

/// Gives a version up.
pub(super) async fn retire(site: &Site, version: &str) -> Result<(), Problem> {
    let _: Version =
        site.client().ask(&Request::delete(&["versions", version]).query("now", Some("true")).long()).await?;
    Ok(())
}

/// What the archive of the only store takes, version by version.
pub(super) async fn archive_stats(site: &Site) -> Result<ArchiveStats, Problem> {
    site.client().ask(&Request::get(&["stores", "report", "archive"]).long()).await
}

/// Has a version's snapshot stay, or lets it go again.
pub(super) async fn pin(site: &Site, id: &str, stays: bool) -> Result<Version, Problem> {
    let pin = Request::put(&["versions", id, "pin"]).json(&json!({ "reason": "bench", "hot": true }))?;
    let unpin = Request::delete(&["versions", id, "pin"]);
    site.client().ask(if stays { &pin } else { &unpin }).await
}

/// How the guard stands.
pub(super) async fn capacity(site: &Site) -> Result<Capacity, Problem> {
    site.client().ask(&Request::get(&["capacity"])).await
}

/// What the archive of the only store takes on disk.
pub(super) async fn archive_bytes(site: &Site) -> Result<u64, Problem> {
    let list: StoreList = site.client().ask(&Request::get(&["stores"])).await?;
    Ok(list.stores.iter().map(|store| store.archive_bytes).sum())
}

/// Waits until compaction has ended; answers when it had, after so many milliseconds, and what is left.
pub(super) async fn until_compact(site: &Site, since: Instant) -> Result<(f64, u64, u64), Problem> {
    while is_busy(site).await? {
        tokio::time::sleep(BETWEEN).await;
    }
    let compact_ms = ms_since(since);
    Ok((compact_ms, archive_bytes(site).await?, archive_stats(site).await?.files))
}

/// Whether the daemon has something to do, be it in the background.
async fn is_busy(site: &Site) -> Result<bool, Problem> {
    let metrics = metrics(site).await?;
    let is_open = |line: &str| line.starts_with("asat_open_effects{") && !line.ends_with(" 0");
    Ok(metrics.lines().any(is_open))
}

/// The metrics, as they are written.
pub(super) async fn metrics(site: &Site) -> Result<String, Problem> {
    let mut stream = site.client().stream(&Request::unversioned("metrics")).await?;
    let mut metrics = Vec::new();
    while let Some(piece) = stream.next().await? {
        metrics.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&metrics).into_owned())
}

/// How many requests a daemon made of its bucket, and how many bytes of objects went in this direction: `sent` or `received`.
pub(super) async fn bucket_use(site: &Site, direction: &str) -> Result<(u64, u64), Problem> {
    let metrics = metrics(site).await?;
    let sum = |name: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    };
    let bytes = format!("asat_remote_bytes_total{{direction=\"{direction}\"}}");
    Ok((sum("asat_remote_requests_total{"), sum(&bytes)))
}

/// What the stores take in the bucket, as their publisher knows it.
pub(super) async fn in_the_bucket(site: &Site) -> Result<u64, Problem> {
    let stores: StoreList = site.client().ask(&Request::get(&["stores"])).await?;
    Ok(stores.stores.iter().filter_map(|store| store.remote.as_ref()?.bytes).sum())
}

/// The answer to a query, and after how many milliseconds all of it was there.
pub(super) async fn query(site: &Site, sql: &str) -> Result<(Vec<u8>, f64), Problem> {
    let since = Instant::now();
    let mut stream =
        site.client().stream(&Request::post(&["query"]).json(&json!({ "sql": sql }))?.long()).await?;
    let mut answer = Vec::new();
    while let Some(piece) = stream.next().await? {
        answer.extend_from_slice(&piece);
    }
    Ok((answer, ms_since(since)))
}

/// The rows of such an answer.
pub(super) fn rows(answer: &[u8]) -> impl Iterator<Item = Result<Vec<Value>, Problem>> {
    let lines = answer.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| match serde_json::from_slice(line) {
        Ok(QueryLine::Row(row)) => Some(Ok(row)),
        Ok(_) => None,
        Err(error) => Some(Err(failed("read an answer", error))),
    })
}
