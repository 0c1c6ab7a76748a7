//! What a benchmark needs of the command line, and the daemon's calls that it makes through it.

use std::path::Path;
use std::time::Instant;

use asat_core::Problem;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::failed;
use super::statistics::ms_since;
use crate::wire::{Mount, Published, StoreList};

/// The command line's client and printer.
pub(crate) trait Face {
    /// Asks the daemon that listens on this socket.
    async fn ask<T: DeserializeOwned>(&self, socket: &Path, call: &Call<'_>) -> Result<T, Problem>;

    /// Tells people how far the benchmark is.
    fn say(&self, text: &str);
}

/// A call: a POST where it has a body, a GET where it has none.
pub(crate) struct Call<'a> {
    /// The path's segments.
    pub(crate) segments: &'a [&'a str],
    /// Names and values of the query.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// The body.
    pub(crate) body: Option<Value>,
}

/// Publishes the only store; answers also how many milliseconds the client waited.
pub(super) async fn publish(
    face: &impl Face,
    socket: &Path,
    label: &str,
) -> Result<(Published, f64), Problem> {
    let body = Some(json!({ "label": label, "certified_by": "bench" }));
    let since = Instant::now();
    let published: Published = face.ask(socket, &Call { segments: &["snapshots"], query: &[], body }).await?;
    let waited_ms = ms_since(since);
    if published.reused {
        return Err(failed("go on", format!("{label} was published as unchanged")));
    }
    Ok((published, waited_ms))
}

/// Opens a version.
pub(super) async fn open(face: &impl Face, socket: &Path, version: &str) -> Result<Mount, Problem> {
    let body = Some(json!({ "holder": "bench", "ttl_seconds": 3600 }));
    face.ask(socket, &Call { segments: &["versions", version, "mounts"], query: &[], body }).await
}

/// What the archive of the only store takes on disk.
pub(super) async fn archive_bytes(face: &impl Face, socket: &Path) -> Result<u64, Problem> {
    let list: StoreList = face.ask(socket, &Call { segments: &["stores"], query: &[], body: None }).await?;
    Ok(list.stores.iter().map(|store| store.archive_bytes).sum())
}
