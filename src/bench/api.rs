//! The calls that a benchmark makes to its daemon.

use std::time::Instant;

use asat_core::Problem;
use serde_json::json;

use super::failed;
use super::site::Site;
use super::statistics::ms_since;
use crate::client::Request;
use crate::wire::{Mount, Published, StoreList};

/// Publishes the only store; answers also how many milliseconds the client waited.
pub(super) async fn publish(site: &Site, label: &str) -> Result<(Published, f64), Problem> {
    let body = json!({ "label": label, "certified_by": "bench" });
    let since = Instant::now();
    let published: Published = site.client()?.ask(&Request::post(&["snapshots"]).json(&body)?.long()).await?;
    let waited_ms = ms_since(since);
    if published.reused {
        return Err(failed("go on", format!("{label} was published as unchanged")));
    }
    Ok((published, waited_ms))
}

/// Opens a version.
pub(super) async fn open(site: &Site, version: &str) -> Result<Mount, Problem> {
    let body = json!({ "holder": "bench", "ttl_seconds": 3600 });
    site.client()?.ask(&Request::post(&["versions", version, "mounts"]).json(&body)?.long()).await
}

/// What the archive of the only store takes on disk.
pub(super) async fn archive_bytes(site: &Site) -> Result<u64, Problem> {
    let list: StoreList = site.client()?.ask(&Request::get(&["stores"])).await?;
    Ok(list.stores.iter().map(|store| store.archive_bytes).sum())
}
