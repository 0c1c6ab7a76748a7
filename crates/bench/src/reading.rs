//! `asat-bench reading`: reading versions by their paths in the tree, in pairs with plain files of the same content.

mod site;
mod ways;

use std::path::Path;

use asat_core::Problem;
use serde::Serialize;

use super::args::{JournalMode, ReadingArgs};
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::statistics::{Paired, Spread, float};
use super::workload::{Book, Run, Totals};
use super::{Tell, api, failed};
use site::Shelf;
use ways::Pair;

#[derive(Serialize)]
struct Figures {
    versions: u32,
    rows: u32,
    /// The first query on each version, of which the kernel has nothing yet.
    first_query_ms: Spread,
    chosen: Vec<Chosen>,
    peak_rss_bytes: u64,
}

/// A version that was read in every way.
#[derive(Serialize)]
struct Chosen {
    version: String,
    size_bytes: u64,
    ways: Vec<Taken>,
}

/// Milliseconds of one way of reading: in the plain file, and in the tree.
#[derive(Serialize)]
struct Taken {
    way: &'static str,
    times: Paired,
}

pub(super) async fn run(args: &ReadingArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let mut shelf = Shelf::make(dir)?;
    let published = publish(args, &shelf, tell).await?;
    shelf.restart().await?;
    tell("asking every version for the first time");
    shelf.forget_archive()?;
    let mut first_ms = Vec::new();
    for (version, _) in &published {
        first_ms.push(ways::first_query(&shelf.path_of(version), args.rows)?);
    }
    let mut chosen = Vec::new();
    for (version, expected) in first_middle_last(&published) {
        tell(&format!("reading {version} in every way"));
        chosen.push(read(args, &shelf, version, expected)?);
    }
    let figures = Figures {
        versions: args.versions,
        rows: args.rows,
        first_query_ms: Spread::of(&first_ms),
        chosen,
        peak_rss_bytes: shelf.stop()?,
    };
    report(&shelf, &figures)
}

/// Publishes a book after each of its runs; answers what was in every version.
async fn publish(
    args: &ReadingArgs,
    shelf: &Shelf,
    tell: Tell<'_>,
) -> Result<Vec<(String, Totals)>, Problem> {
    let mut book = Book::create(&shelf.site.store, JournalMode::Wal)?;
    let mut published = Vec::new();
    for number in 1..=args.versions {
        book.value_anew(&Run::new(number, args.rows))?;
        let (answer, _) = api::publish(&shelf.site, &format!("run {number}")).await?;
        published.push((answer.version.id, book.totals()?));
        if number % 10 == 0 {
            tell(&format!("{number} of {} publications", args.versions));
        }
    }
    Ok(published)
}

fn first_middle_last(published: &[(String, Totals)]) -> impl Iterator<Item = (&String, &Totals)> {
    let mut chosen = vec![0, published.len() / 2, published.len().saturating_sub(1)];
    chosen.dedup();
    chosen.into_iter().filter_map(|nth| published.get(nth)).map(|(version, totals)| (version, totals))
}

/// Reads a version and a plain file of the same content in every way.
fn read(args: &ReadingArgs, shelf: &Shelf, version: &str, expected: &Totals) -> Result<Chosen, Problem> {
    let (plain, size_bytes) = shelf.plain_copy(version)?;
    let tree = shelf.path_of(version);
    let pair = Pair { shelf, plain, tree, rows: args.rows, expected };
    let measure = |way: &ways::Way| {
        let times = pair.measure(way).map_err(|problem| named(problem, version, way.name))?;
        Ok(Taken { way: way.name, times })
    };
    let ways = ways::ALL.iter().map(measure).collect::<Result<_, Problem>>()?;
    Ok(Chosen { version: version.to_owned(), size_bytes, ways })
}

/// Says where a problem was met.
fn named(problem: Problem, version: &str, way: &str) -> Problem {
    Problem { detail: format!("{version}, {way}: {}", problem.detail), ..problem }
}

fn report(shelf: &Shelf, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("reading", Setting::of(shelf.site.folder()), figures)?;
    let Figures { versions, rows, first_query_ms, chosen, peak_rss_bytes } = figures;
    report.line("workload", format!("{versions} publications, {rows} inserts and updates each"));
    report.line("first query on each version", ms(first_query_ms));
    for Chosen { version, size_bytes, ways } in chosen {
        report.line(version, mb(*size_bytes));
        for Taken { way, times } in ways {
            let text = format!(
                "{} of a plain file's, {} ms to {}",
                number(times.ratio.median),
                number(times.with_ms.median),
                number(times.without_ms.median)
            );
            report.line(format!("  {way}"), text);
        }
    }
    report.line("peak memory of the daemon", mb(*peak_rss_bytes));
    for way in &ways::ALL {
        let Some(at_most) = way.at_most else { continue };
        let taken = chosen.iter().flat_map(|chosen| &chosen.ways).filter(|taken| taken.way == way.name);
        let worst = taken.map(|taken| taken.times.ratio.median).max_by(f64::total_cmp);
        let worst = worst.ok_or_else(|| failed("go on", "nothing was read"))?;
        report.target(&format!("{}, to a plain file", way.name), at_most, worst);
    }
    report.target("first query on any version, ms", 20.0, first_query_ms.max);
    report.target("peak memory of the daemon, MB", 256.0, float(*peak_rss_bytes) / 1e6);
    Ok(report)
}
