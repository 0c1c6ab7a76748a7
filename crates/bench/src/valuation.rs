//! `asat-bench valuation`: the workload of 2014 on a store that is published after every run, and in pairs with
//! it on a control store that never is.

mod opening;
mod volumes;
mod writing;

use std::path::Path;
use std::time::Instant;

use asat_core::Problem;
use serde::Serialize;

use super::args::{Backend, ValuationArgs};
use super::ground::Kind;
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Paired, Spread, float, over};
use super::workload::{Book, ChangedPages, Run, Totals};
use super::{Tell, api};
use asat_wire::{Published, Version};
use opening::Opening;
use writing::Writing;

/// The publications at which the slow-down is told one by one.
const TOLD: [usize; 6] = [1, 10, 25, 50, 75, 95];

#[derive(Serialize)]
struct Figures {
    publications: u32,
    rows: u32,
    journal_mode: &'static str,
    backend: &'static str,
    /// Milliseconds of a run's transaction on the control store and on the published one.
    writer: Paired,
    writer_around: Vec<Around>,
    writer_blocked_ms: Spread,
    /// As the client saw it.
    publish_ms: Spread,
    /// As the daemon said.
    publish_elapsed_ms: Spread,
    store_bytes: u64,
    raw_changed_bytes: u64,
    kept_bytes: u64,
    kept_bytes_per_version: f64,
    peak_rss_bytes: u64,
    openings: Vec<Opening>,
    while_writing: Option<Writing>,
    brought_back: BroughtBack,
}

/// What it takes that the store is again what it was at a version.
#[derive(Serialize)]
struct BroughtBack {
    version: String,
    size_bytes: u64,
    archive_bytes: u64,
}

/// The writer's slow-down around one publication.
#[derive(Serialize)]
struct Around {
    publication: usize,
    ratio: f64,
}

/// What the runs gave.
#[derive(Default)]
struct Measured {
    writer: Vec<(f64, f64)>,
    blocked_ms: Vec<f64>,
    publish_ms: Vec<f64>,
    elapsed_ms: Vec<f64>,
    raw_changed_bytes: u64,
    store_bytes: u64,
    /// Of each version, when it was published.
    totals: Vec<(String, Totals)>,
}

pub(super) async fn run(args: &ValuationArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    volumes::check_options(args)?;
    match (kind(args.backend), &args.volumes.disks) {
        (Some(kind), Some(disks)) => volumes::run((args, kind, disks), dir, tell).await,
        _ => run_on_pages(args, dir, tell).await,
    }
}

/// What the backend makes snapshots of, if of anything.
fn kind(backend: Backend) -> Option<Kind> {
    match backend {
        Backend::Pages => None,
        Backend::LvmClassic => Some(Kind::Classic),
        Backend::LvmThin | Backend::Auto => Some(Kind::Thin),
    }
}

async fn run_on_pages(args: &ValuationArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let mut versioned = Book::create(&site.store, args.journal_mode)?;
    let daemon = site.start()?;
    let measured = measure(args, &site, &mut versioned, tell).await?;
    let (_, kept_bytes, _) = api::until_compact(&site, Instant::now()).await?;
    tell("opening versions");
    let openings = opening::measure(&measured.totals, &site).await?;
    let while_writing = if args.while_writing {
        tell("publishing while a writer goes on");
        Some(writing::measure(versioned, &site).await?)
    } else {
        None
    };
    tell("bringing the store back");
    let brought_back = bring_back(args.iterations.div_ceil(2), &site).await?;
    let peak_rss_bytes = daemon.peak_rss_bytes()?;
    daemon.stop()?;
    let around =
        |&publication: &usize| Around { publication, ratio: Paired::around(&measured.writer, publication) };
    report(
        &site,
        &Figures {
            publications: args.iterations,
            rows: args.rows,
            journal_mode: args.journal_mode.text(),
            backend: args.backend.text(),
            writer: Paired::of(&measured.writer),
            writer_around: TOLD.iter().filter(|&&nth| nth <= measured.writer.len()).map(around).collect(),
            writer_blocked_ms: Spread::of(&measured.blocked_ms),
            publish_ms: Spread::of(&measured.publish_ms),
            publish_elapsed_ms: Spread::of(&measured.elapsed_ms),
            store_bytes: measured.store_bytes,
            raw_changed_bytes: measured.raw_changed_bytes,
            kept_bytes,
            kept_bytes_per_version: over(float(kept_bytes), f64::from(args.iterations)),
            peak_rss_bytes,
            openings,
            while_writing,
            brought_back,
        },
    )
}

/// Restores a version, and publishes that.
async fn bring_back(number: u32, site: &Site) -> Result<BroughtBack, Problem> {
    let version = format!("report@{number}");
    api::restore(site, &version).await?;
    let (published, _) = api::publish(site, "brought back").await?;
    let Published { version: Version { size_bytes, holdings, .. }, .. } = published;
    let archive_bytes = holdings.iter().map(|holding| holding.bytes).sum();
    Ok(BroughtBack { version, size_bytes: size_bytes.unwrap_or(0), archive_bytes })
}

/// The runs: each on both stores, the one first that was second before, and then a publication.
async fn measure(
    args: &ValuationArgs,
    site: &Site,
    versioned: &mut Book,
    tell: Tell<'_>,
) -> Result<Measured, Problem> {
    let control_path = site.path("control.db");
    let mut control = Book::create(&control_path, args.journal_mode)?;
    let (mut measured, mut pages) = (Measured::default(), ChangedPages::default());
    for number in 1..=args.iterations {
        let run = Run::new(number, args.rows);
        let pair = if number % 2 == 0 {
            let with = versioned.value_anew(&run)?;
            (control.value_anew(&run)?, with)
        } else {
            (control.value_anew(&run)?, versioned.value_anew(&run)?)
        };
        measured.writer.push(pair);
        let (published, waited_ms) = api::publish(site, &format!("run {number}")).await?;
        measured.blocked_ms.push(published.writer_blocked_ms);
        measured.elapsed_ms.push(published.elapsed_ms);
        measured.publish_ms.push(waited_ms);
        measured.totals.push((published.version.id, versioned.totals()?));
        // Both stores have the same pages, and the look at them disturbs only the one that nobody publishes.
        let (changed, all) = pages.count(&control_path)?;
        measured.raw_changed_bytes += changed;
        measured.store_bytes = all;
        if number % 10 == 0 {
            tell(&format!("{number} of {} publications", args.iterations));
        }
    }
    Ok(measured)
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("valuation", Setting::of(site.folder()), figures)?;
    let Figures { writer, publications, rows, journal_mode, openings, .. } = figures;
    report.line(
        "workload",
        format!("{publications} publications, {rows} inserts and updates each, {journal_mode}"),
    );
    report.line("store at the end", mb(figures.store_bytes));
    report.line("writer slow-down, all runs", number(writer.ratio_of_sums));
    let Spread { median, p10, p90, .. } = &writer.ratio;
    report.line(
        "  median of the runs",
        format!("{} (p10 {}, p90 {})", number(*median), number(*p10), number(*p90)),
    );
    for Around { publication, ratio } in &figures.writer_around {
        report.line(format!("  around publication {publication}"), number(*ratio));
    }
    report.line("run without asat", ms(&writer.without_ms));
    report.line("run with asat", ms(&writer.with_ms));
    report.line("writer blocked", ms(&figures.writer_blocked_ms));
    let last = |spread: &Spread| format!("{}, last {}", ms(spread), number(spread.last));
    report.line("publish, for the client", last(&figures.publish_ms));
    report.line("publish, for the daemon", last(&figures.publish_elapsed_ms));
    report.line("raw changed pages", mb(figures.raw_changed_bytes));
    let share = over(float(figures.kept_bytes), float(figures.raw_changed_bytes)) * 100.0;
    let each = figures.kept_bytes_per_version / 1e6;
    report.line("kept", format!("{}, {each:.2} MB a version, {share:.0} % of raw", mb(figures.kept_bytes)));
    report.line("peak memory of the daemon", mb(figures.peak_rss_bytes));
    for opening in openings {
        report.line(format!("{} ({})", opening.version, mb(opening.size_bytes)), opening.text());
    }
    if let Some(writing) = &figures.while_writing {
        report.line("small commits while publishing", writing.text());
    }
    let back = &figures.brought_back;
    let size = mb(back.size_bytes);
    report.line(format!("kept for {} again ({size})", back.version), mb(back.archive_bytes));
    report.target("writer slow-down, median of the runs", 1.05, writer.ratio.median);
    report.target("writer slow-down, all runs", 1.05, writer.ratio_of_sums);
    report.target("writer blocked, median ms", 5.0, figures.writer_blocked_ms.median);
    report.target("publish, the last, ms", 100.0, figures.publish_ms.last);
    report.target("kept, MB", 113.0, float(figures.kept_bytes) / 1e6);
    if let Some(first) = openings.first() {
        report.target("version 1 to its first answer, ms", 150.0, first.first_answer_ms);
    }
    if let Some(last) = openings.last() {
        report.target("warm scan of the last, to a plain file", 1.1, last.scan.ratio_of_sums);
    }
    Ok(report)
}
