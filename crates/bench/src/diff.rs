//! `asat-bench diff`: what changed between two versions of a large store, beside the tools that join whole tables; the history of a row; and a
//! query over two versions.

mod queries;
mod session;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use asat_core::Problem;
use asat_wire::{Diff, DiffLine, RowHistory};
use serde::Serialize;

use queries::{Measured, QUERIES};

use super::args::DiffArgs;
use super::large::{change, fill, rows_of, share_of};
use super::process::Daemon;
use super::report::{Report, mb, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, ms_since};
use super::{Tell, api, differs, failed, tools};
use asat_client::Request;

/// How often each figure is measured.
const TIMES: usize = 5;
/// The row whose history is asked for, and in which of the versions it changes.
const ROW: i64 = 4711;
const EVERY: u32 = 10;
/// How many rows change before each version of the long history.
const CHANGED: i64 = 100;

#[derive(Serialize)]
struct Figures {
    store_bytes: u64,
    rows: i64,
    rows_changed: u64,
    summary_ms: f64,
    rows_ms: Spread,
    more_rss_bytes: u64,
    sqldiff_ms: Option<f64>,
    session_ms: f64,
    session_changes_bytes: u64,
    history_store_bytes: u64,
    history_versions: u32,
    history_changes: usize,
    history_ms: Spread,
    queries: Vec<Measured>,
}

pub(super) async fn run(args: &DiffArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let rows = rows_of(args.size);
    tell(&format!("making a store of {rows} rows"));
    let mut store = fill(&site.store, rows).await?;
    let daemon = site.start()?;
    tell("publishing two versions of it");
    let (first, _) = api::publish(&site, "before").await?;
    change(&mut store, 1, rows, share_of(rows, args.changed))?;
    api::publish(&site, "after").await?;
    daemon.stop()?;
    // What the publications took is not what comparing takes.
    let daemon = site.start()?;
    let rss_before = settled(&daemon).await?;
    tell("comparing them");
    let mut rows_changed = 0;
    let mut rows_ms = Vec::new();
    for _ in 0..TIMES {
        let since = Instant::now();
        rows_changed = read_rows(&site).await?;
        rows_ms.push(ms_since(since));
    }
    let since = Instant::now();
    // What is known of these two is not found out again; the other way round it is.
    let back: Diff =
        site.client().ask(&Request::get(&["versions", "report@2", "diff", "report@1"]).long()).await?;
    let summary_ms = ms_since(since);
    let updated = back.tables.iter().map(|table| table.updated).sum::<u64>();
    if updated != rows_changed {
        return Err(differs(format!("{updated} rows differ one way, and {rows_changed} the other")));
    }
    let more_rss_bytes = daemon.peak_rss_bytes()?.saturating_sub(rss_before);
    tell("comparing them by sqldiff and by the session extension");
    let old = download(&site, "report@1").await?;
    // A copy of its own, in which no log is.
    let new = download(&site, "report@2").await?;
    daemon.stop()?;
    let sqldiff_ms = sqldiff(&old, &new).ok();
    let since = Instant::now();
    let session_changes_bytes = session::diff(&old, &new, "position")?;
    let session_ms = ms_since(since);
    drop((store, site));
    let long = long_history(args, dir, tell).await?;
    report(
        dir,
        &Figures {
            store_bytes: first.version.size_bytes.unwrap_or(0),
            rows,
            rows_changed,
            summary_ms,
            rows_ms: Spread::of(&rows_ms),
            more_rss_bytes,
            sqldiff_ms,
            session_ms,
            session_changes_bytes,
            history_store_bytes: long.store_bytes,
            history_versions: args.versions,
            history_changes: long.changes,
            history_ms: Spread::of(&long.history_ms),
            queries: long.queries,
        },
    )
}

/// What the daemon takes when it has read, after its start, what the next publication needs.
async fn settled(daemon: &Daemon) -> Result<u64, Problem> {
    let (mut before, mut same) = (0, 0);
    while same < 10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = daemon.rss_bytes()?;
        same = if now.abs_diff(before) < 1 << 20 { same + 1 } else { 0 };
        before = now;
    }
    Ok(before)
}

/// Reads all rows that differ; answers how many.
async fn read_rows(site: &Site) -> Result<u64, Problem> {
    let request =
        Request::get(&["versions", "report@1", "diff", "report@2"]).query("format", Some("jsonl")).long();
    let mut stream = site.client().stream(&request).await?;
    let (mut lines, mut last) = (0, Vec::new());
    while let Some(piece) = stream.next().await? {
        lines += piece.iter().filter(|&&byte| byte == b'\n').count();
        last.extend_from_slice(&piece);
        last.drain(..last.len().saturating_sub(500));
    }
    let end = last.split(|&byte| byte == b'\n').rev().nth(1).unwrap_or_default();
    let end: DiffLine =
        serde_json::from_slice(end).map_err(|error| failed("read the rows to their end", error))?;
    let rows = end.rows.unwrap_or_default();
    if u64::try_from(lines).ok() != rows.checked_add(1) {
        return Err(differs(format!("{lines} lines came, and the last one tells of {rows} rows")));
    }
    Ok(rows)
}

/// A version as a file beside the store.
async fn download(site: &Site, id: &str) -> Result<PathBuf, Problem> {
    let path = site.path(&format!("{id}.db"));
    let mut file = std::fs::File::create(&path).map_err(|error| failed("write a version", error))?;
    let mut stream = site.client().stream(&Request::get(&["versions", id, "database"]).long()).await?;
    while let Some(piece) = stream.next().await? {
        std::io::Write::write_all(&mut file, &piece).map_err(|error| failed("write a version", error))?;
    }
    Ok(path)
}

fn sqldiff(old: &Path, new: &Path) -> Result<f64, Problem> {
    let arguments: [&OsStr; 3] = ["--summary".as_ref(), old.as_ref(), new.as_ref()];
    let since = Instant::now();
    tools::run("sqldiff", &arguments)?;
    Ok(ms_since(since))
}

/// What was measured on a store with many versions.
struct Long {
    store_bytes: u64,
    changes: usize,
    history_ms: Vec<f64>,
    queries: Vec<Measured>,
}

async fn long_history(args: &DiffArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Long, Problem> {
    let site = Site::make(dir)?;
    let rows = rows_of(args.history_size);
    tell(&format!("making {} versions of a store of {rows} rows", args.versions));
    let mut store = fill(&site.store, rows).await?;
    let daemon = site.start()?;
    let mut store_bytes = 0;
    for version in 1..=args.versions {
        let (published, _) = api::publish(&site, &format!("version {version}")).await?;
        store_bytes = published.version.size_bytes.unwrap_or(0);
        change(&mut store, version, rows, CHANGED)?;
        if version % EVERY == 0 {
            let change = store.execute("update position set units = ?2 where id = ?1", [ROW, version.into()]);
            change.map_err(|error| failed("change a row", error))?;
        }
    }
    tell("asking for the history of a row");
    let path = ["stores", "report", "tables", "position", "rows", "4711", "history"];
    let (mut history_ms, mut changes) = (Vec::new(), 0);
    for _ in 0..TIMES {
        let since = Instant::now();
        let history: RowHistory =
            site.client().ask(&Request::get(&path).query("limit", Some("1000")).long()).await?;
        history_ms.push(ms_since(since));
        changes = history.changes.len();
    }
    let least = usize::try_from(args.versions / EVERY).unwrap_or(0).saturating_sub(1).min(1000);
    if changes < least {
        return Err(differs(format!("the row has {changes} changes, and not {least} at least")));
    }
    tell("asking both versions of a pair at once");
    let last = format!("report@{}", args.versions);
    let (old, new) = (download(&site, "report@1").await?, download(&site, &last).await?);
    let queries = queries::run(&site, &last, &old, &new).await?;
    daemon.stop()?;
    Ok(Long { store_bytes, changes, history_ms, queries })
}

fn report(dir: Option<&Path>, figures: &Figures) -> Result<Report, Problem> {
    let folder = dir.map_or_else(std::env::temp_dir, Path::to_owned);
    let mut report = Report::new("diff", Setting::of(&folder), figures)?;
    let Figures { store_bytes, rows, rows_changed, summary_ms, rows_ms, .. } = figures;
    let ms = |value: f64| format!("{} ms", number(value));
    report.line("store", format!("{}, {rows} rows", mb(*store_bytes)));
    report.line("rows that differ", rows_changed.to_string());
    report.line("all of them, as JSON", format!("median {}, max {}", ms(rows_ms.median), ms(rows_ms.max)));
    report.line("summary", ms(*summary_ms));
    report.line("memory that it takes besides", mb(figures.more_rss_bytes));
    let sqldiff = figures.sqldiff_ms.map_or_else(|| "is not installed (sqlite3-tools)".to_owned(), ms);
    report.line("sqldiff --summary", sqldiff);
    let changes = mb(figures.session_changes_bytes);
    report.line("session extension", format!("{}, {changes} of changes", ms(figures.session_ms)));
    let store = mb(figures.history_store_bytes);
    report.line("history of a row", format!("{} versions of a store of {store}", figures.history_versions));
    let history = &figures.history_ms;
    report.line(
        format!("  {} changes", figures.history_changes),
        format!("median {}, max {}", ms(history.median), ms(history.max)),
    );
    for Measured { what, took } in &figures.queries {
        let (asked, plain) = (ms(took.with_ms.median), ms(took.without_ms.median));
        let ratio = number(took.ratio.median);
        report.line(format!("query that {what}"), format!("{ratio} of plain files', {asked} to {plain}"));
    }
    report.target("rows that differ, ms", 1000.0, rows_ms.median);
    report.target("summary, ms", 1000.0, *summary_ms);
    report.target("memory that it takes besides, MB", 64.0, float(figures.more_rss_bytes) / 1e6);
    report.target("history of a row, ms", 1000.0, history.median);
    // What a query takes at least is no ratio.
    for Measured { what, took } in figures.queries.iter().take(QUERIES.len()) {
        report.target(&format!("query that {what}, to plain files"), 1.1, took.ratio.median);
    }
    Ok(report)
}
