//! Litestream beside asat: the same book, replicated continuously to the same server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use asat_core::{Code, Problem};
use jiff::Timestamp;
use serde::Serialize;

use super::args::{JournalMode, RemoteArgs};
use super::line::{self, Line};
use super::site::Site;
use super::statistics::{Spread, float, ms_since, over};
use super::workload::{Book, Run, open_copy, totals};
use super::{Tell, failed};

/// How long something may take to come into the bucket.
const PATIENCE: Duration = Duration::from_secs(60);
/// For so long before and after the moment that is restored nothing is written.
const AROUND: Duration = Duration::from_secs(2);
/// What the paths of its newest files have.
const NEWEST: &str = "/0000/";

#[derive(Serialize)]
pub(super) struct Figures {
    version: String,
    /// From a commit until what it changed is in the bucket.
    pub(super) stored_after_ms: Spread,
    pub(super) requests_each: f64,
    pub(super) sent_bytes_each: u64,
    pub(super) idle_requests: u64,
    /// Whether the store was restored as it was at that moment.
    pub(super) is_restored: bool,
    /// Until the store is a file again as it was at a moment.
    pub(super) restored_ms: f64,
    pub(super) restore_requests: u64,
}

/// Its process. Dropped, it is ended.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already needs no killing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) async fn run(
    program: &Path,
    url: &str,
    args: &RemoteArgs,
    dir: Option<&Path>,
    tell: Tell<'_>,
) -> Result<Figures, Problem> {
    let (bucket, prefix) =
        url.strip_prefix("s3://").and_then(|url| url.split_once('/')).ok_or_else(|| {
            Problem::new(
                Code::Configuration,
                format!("{url} is no place that Litestream knows"),
                "use s3://BUCKET/PREFIX",
            )
        })?;
    let site = Site::make(dir)?;
    let line = Line::to(&line::server()?, Duration::ZERO).await?;
    let config = format!(
        "dbs:\n  - path: {}\n    replica:\n      type: s3\n      bucket: {bucket}\n      path: {prefix}-litestream\n      endpoint: {}\n      region: us-east-1\n      force-path-style: true\n",
        site.store.display(),
        line.endpoint
    );
    fs::write(site.path("litestream.yml"), config).map_err(|error| failed("write a configuration", error))?;
    let mut book = Book::create(&site.store, JournalMode::Wal)?;
    book.value_anew(&Run::new(0, args.rows))?;
    tell("the same with Litestream");
    let since = Instant::now();
    let replicating =
        command(program, &site, "replicate").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let process = Process(replicating.map_err(|error| failed("start Litestream", error))?);
    until_stored(&line, since).await?;
    let (before, mut stored, mut moment) = (line.used(), Vec::new(), None);
    for nth in 1..=args.publications {
        book.value_anew(&Run::new(nth, args.rows))?;
        let since = Instant::now();
        stored.push(until_stored(&line, since).await?);
        if nth == args.publications / 2 {
            // Services tell of times in whole seconds, so nothing happens near the moment.
            tokio::time::sleep(AROUND).await;
            moment = Some((Timestamp::now(), book.totals()?));
            tokio::time::sleep(AROUND).await;
        }
    }
    let after = line.used();
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let idle = line.used();
    drop(process);
    let (at, expected) = moment.ok_or_else(|| failed("restore", "there was no moment"))?;
    let (restored, since, before_restore) = (site.path("restored.db"), Instant::now(), line.used());
    let mut restore = command(program, &site, "restore");
    restore.arg("-timestamp").arg(at.to_string()).arg("-o").arg(&restored).arg(&site.store);
    let output = tokio::task::spawn_blocking(move || restore.output()).await;
    let output = output.map_err(|error| failed("wait for Litestream", error))?;
    let output = output.map_err(|error| failed("run Litestream", error))?;
    let restored_ms = ms_since(since);
    if !output.status.success() {
        return Err(failed("restore with Litestream", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let found = totals(&open_copy(&restored.display().to_string())?)?;
    let publications = u64::from(args.publications);
    Ok(Figures {
        version: version(program)?,
        stored_after_ms: Spread::of(&stored),
        requests_each: over(float(after.requests - before.requests), float(publications)),
        sent_bytes_each: (after.sent_bytes - before.sent_bytes) / publications,
        idle_requests: idle.requests - after.requests,
        is_restored: found == expected,
        restored_ms,
        restore_requests: line.used().requests - before_restore.requests,
    })
}

fn command(program: &Path, site: &Site, word: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(word).arg("-config").arg(site.path("litestream.yml")).stdin(Stdio::null());
    // It takes no other certificates than its own with a client of its own.
    command.env_remove("AWS_CA_BUNDLE");
    command
}

fn version(program: &Path) -> Result<String, Problem> {
    let output = Command::new(program).arg("version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed("run Litestream", error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Waits until something was stored whose storing began after this; answers how long that took, in milliseconds.
async fn until_stored(line: &Line, since: Instant) -> Result<f64, Problem> {
    loop {
        if let Some(answered) = line.stored_after(since, NEWEST) {
            return Ok((answered - since).as_secs_f64() * 1000.0);
        }
        if since.elapsed() > PATIENCE {
            return Err(failed("wait any longer", "Litestream has stored nothing"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
