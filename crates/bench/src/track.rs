//! `asat-bench track`: publications of stores whose WAL is followed. They cost what changed, however large the store is.
//!
//! A large store and a small one are tracked, and the small one is there a third time without. As much is changed in each, all over it, and
//! each is published; the order alternates. A daemon compares the rows of what was published afterwards. That of another store would take
//! the processors that a publication has to itself on its own machine, so each publication waits until all daemons are idle.

use std::fs;
use std::path::Path;
use std::time::Instant;

use asat_core::Problem;
use bytesize::ByteSize;
use rusqlite::Connection;
use serde::Serialize;

use super::args::TrackArgs;
use super::large::{change, fill, rows_of};
use super::process::Daemon;
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Paired, Spread, float, ms_since};
use super::{Tell, api, failed};

/// The size of a page of the stores.
const PAGE: u64 = 4096;
/// Rows that one of the short transactions changes.
const FEW: i64 = 10;

#[derive(Serialize)]
struct Figures {
    store_bytes: u64,
    small_bytes: u64,
    changed_bytes: u64,
    max_wal_bytes: u64,
    /// The publication of all of the large store.
    first_publish_ms: f64,
    large_ms: Spread,
    small_ms: Spread,
    untracked_ms: Spread,
    /// Of each round, the large store's publication over the small one's.
    large_to_small: Paired,
    /// All transactions of a round on the small stores, tracked over untracked: a checkpoint may come with another transaction.
    writer: Paired,
    /// The same of each short one.
    short_writer: Paired,
    longest_wal_bytes: u64,
    peak_rss_bytes: u64,
}

/// A store with its daemon.
struct Kept {
    site: Site,
    store: Connection,
    rows: i64,
    daemon: Daemon,
    first_publish_ms: f64,
}

impl Kept {
    async fn make(dir: Option<&Path>, size: ByteSize, track: &str, tell: Tell<'_>) -> Result<Self, Problem> {
        let site = Site::make(dir)?;
        site.configure(&format!("backend = \"pages\"\n{track}"))?;
        let rows = rows_of(size);
        tell(&format!("making a store of {rows} rows"));
        let store = fill(&site.store, rows).await?;
        let daemon = site.start()?;
        tell("publishing all of it");
        let (_, first_publish_ms) = api::publish(&site, "base").await?;
        Ok(Self { site, store, rows, daemon, first_publish_ms })
    }

    /// Changes so many rows in one transaction; answers how long that took, in milliseconds.
    fn change(&mut self, round: u32, count: i64) -> Result<f64, Problem> {
        let since = Instant::now();
        change(&mut self.store, round, self.rows, count)?;
        Ok(ms_since(since))
    }

    /// Publishes it; answers how long that took, in milliseconds.
    async fn publish(&self, label: &str, daemons: [&Daemon; 3]) -> Result<f64, Problem> {
        for daemon in daemons {
            daemon.until_idle().await?;
        }
        Ok(api::publish(&self.site, label).await?.1)
    }

    fn bytes(&self, suffix: &str) -> Result<u64, Problem> {
        let mut path = self.site.store.clone().into_os_string();
        path.push(suffix);
        let metadata = fs::metadata(path).map_err(|error| failed("look at a store", error))?;
        Ok(metadata.len())
    }
}

pub(super) async fn run(args: &TrackArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let tracked = format!("track = \"wal\"\n[track]\nmax_wal = \"{}\"\n", args.max_wal.as_u64());
    let mut large = Kept::make(dir, args.size, &tracked, tell).await?;
    let mut small = Kept::make(dir, args.small, &tracked, tell).await?;
    let mut plain = Kept::make(dir, args.small, "track = \"off\"\n", tell).await?;
    let many = i64::try_from(args.changed.as_u64() / PAGE).unwrap_or(i64::MAX).max(1);
    let (mut publications, mut untracked) = (Vec::new(), Vec::new());
    let (mut short, mut all) = (Vec::new(), Vec::new());
    let (mut longest_wal, mut before) = (0, large.bytes("")?);
    for round in 0..=args.rounds {
        tell(&format!("round {round} of {}", args.rounds));
        let rounds = round * (args.transactions + 1);
        large.change(rounds, many)?;
        let mut in_round = (0.0, 0.0);
        for nth in 0..=args.transactions {
            let count = if nth == 0 { many } else { FEW };
            let (with, without) = match nth % 2 {
                0 => (small.change(rounds + nth, count)?, plain.change(rounds + nth, count)?),
                _ => {
                    let without = plain.change(rounds + nth, count)?;
                    (small.change(rounds + nth, count)?, without)
                }
            };
            in_round = (in_round.0 + without, in_round.1 + with);
            if round > 0 && nth > 0 {
                short.push((without, with));
            }
        }
        longest_wal = longest_wal.max(large.bytes("-wal")?).max(small.bytes("-wal")?);
        let label = format!("round {round}");
        let daemons = [&large.daemon, &small.daemon, &plain.daemon];
        let pair = match round % 2 {
            0 => (small.publish(&label, daemons).await?, large.publish(&label, daemons).await?),
            _ => {
                let large = large.publish(&label, daemons).await?;
                (small.publish(&label, daemons).await?, large)
            }
        };
        let plain = plain.publish(&label, daemons).await?;
        // The first round warms up.
        if round > 0 {
            publications.push(pair);
            all.push(in_round);
            untracked.push(plain);
        }
        before = before.max(large.bytes("")?);
    }
    let figures = Figures {
        store_bytes: before,
        small_bytes: small.bytes("")?,
        changed_bytes: args.changed.as_u64(),
        max_wal_bytes: args.max_wal.as_u64(),
        first_publish_ms: large.first_publish_ms,
        large_ms: Spread::of(&publications.iter().map(|pair| pair.1).collect::<Vec<_>>()),
        small_ms: Spread::of(&publications.iter().map(|pair| pair.0).collect::<Vec<_>>()),
        untracked_ms: Spread::of(&untracked),
        large_to_small: Paired::of(&publications),
        writer: Paired::of(&all),
        short_writer: Paired::of(&short),
        longest_wal_bytes: longest_wal,
        peak_rss_bytes: large.daemon.peak_rss_bytes()?,
    };
    let report = report(&large.site, &figures)?;
    for kept in [large, small, plain] {
        kept.daemon.stop()?;
    }
    Ok(report)
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("track", Setting::of(site.folder()), figures)?;
    let Figures { large_to_small, writer, short_writer, .. } = figures;
    report.line("stores", format!("{} and {}", mb(figures.store_bytes), mb(figures.small_bytes)));
    report.line("pages changed before each publication", mb(figures.changed_bytes));
    report.line("first publication of the large one", format!("{} ms", number(figures.first_publish_ms)));
    report.line("publishing the large one", ms(&figures.large_ms));
    report.line("publishing the small one", ms(&figures.small_ms));
    report.line("publishing the small one, not tracked", ms(&figures.untracked_ms));
    report.line("all transactions of a round, tracked to not tracked", number(writer.ratio.median));
    report.line("a short transaction, the same", number(short_writer.ratio.median));
    report.line("the longest WAL", mb(figures.longest_wal_bytes));
    report.line("peak memory of the large one's daemon", mb(figures.peak_rss_bytes));
    report.target("publishing the large one, median ms", 150.0, figures.large_ms.median);
    report.target("publishing the large one, to the small one", 1.3, large_to_small.ratio.median);
    report.target("the writer, tracked to not tracked", 1.02, writer.ratio_of_sums);
    let most = float(figures.max_wal_bytes + figures.changed_bytes + figures.changed_bytes / 10) / 1e6;
    report.target("the longest WAL, MB", most, float(figures.longest_wal_bytes) / 1e6);
    Ok(report)
}
