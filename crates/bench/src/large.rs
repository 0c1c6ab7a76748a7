//! `asat-bench large`: a store of gigabytes in which few rows change before each publication, but all over it.
//!
//! A row takes 53 bytes, so that a page has 77 of them, and 0.15 % of the rows lie in 11 % of the pages.

use std::path::Path;
use std::time::Duration;

use asat_core::Problem;
use bytesize::ByteSize;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::args::LargeArgs;
use super::report::{Report, mb, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, over};
use super::workload::{ChangedPages, Random};
use super::{Tell, api, failed};

const SCHEMA: &str = "
    create table position (
        id integer primary key,
        account integer not null,
        currency text not null,
        units integer not null,
        value real not null,
        rate real not null,
        valid_from integer not null,
        valid_to integer not null
    );";
/// Mixes a row's number into numbers that compress as badly as real ones do.
const FILL: &str = "
    with recursive n(i) as (values (?1) union all select i + 1 from n where i < ?2)
    insert into position
    select i, 10000000 + (i * 7919) % 90000000, substr('EURUSDGBPJPY', 1 + (i % 4) * 3, 3),
           4294967296 + (i * 2654435761) % 140737488, ((i * 40503) % 10000019) / 97.0,
           ((i * 69069) % 1000003) / 1000033.0, 20140101 + i % 28, 99991231
    from n";
const CHANGE: &str = "update position set units = ?2, value = ?3, valid_from = ?4 where id = ?1";
const ROW_BYTES: u64 = 53;
/// Rows that are added between two looks whether somebody wants to stop.
const PIECE: i64 = 500_000;

#[derive(Serialize)]
struct Figures {
    store_bytes: u64,
    rows: i64,
    rows_changed: i64,
    /// The publication of the whole store.
    first_publish_ms: f64,
    first_kept_bytes: u64,
    publish_ms: Spread,
    publish_elapsed_ms: Spread,
    writer_blocked_ms: Spread,
    rounds: Vec<Round>,
    peak_rss_bytes: u64,
}

#[derive(Serialize)]
struct Round {
    publish_ms: f64,
    elapsed_ms: f64,
    writer_blocked_ms: f64,
    raw_changed_bytes: u64,
    kept_bytes: u64,
}

pub(super) async fn run(args: &LargeArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    let rows = rows_of(args.size);
    tell(&format!("making a store of {rows} rows"));
    let mut store = fill(&site.store, rows).await?;
    let mut pages = ChangedPages::default();
    pages.count(&site.store)?;
    let daemon = site.start()?;
    tell("publishing all of it");
    let (first, first_publish_ms) = api::publish(&site, "base").await?;
    let first_kept_bytes = api::archive_bytes(&site).await?;
    let mut kept_before = first_kept_bytes;
    let rows_changed = share_of(rows, args.changed);
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        tell(&format!("round {round} of {}", args.rounds));
        change(&mut store, round, rows, rows_changed)?;
        let (published, publish_ms) = api::publish(&site, &format!("round {round}")).await?;
        let kept = api::archive_bytes(&site).await?;
        rounds.push(Round {
            publish_ms,
            elapsed_ms: published.elapsed_ms,
            writer_blocked_ms: published.writer_blocked_ms,
            raw_changed_bytes: pages.count(&site.store)?.0,
            kept_bytes: kept.saturating_sub(kept_before),
        });
        kept_before = kept;
    }
    let peak_rss_bytes = daemon.peak_rss_bytes()?;
    daemon.stop()?;
    let each = |pick: fn(&Round) -> f64| Spread::of(&rounds.iter().map(pick).collect::<Vec<_>>());
    report(
        &site,
        &Figures {
            store_bytes: first.version.size_bytes.unwrap_or(0),
            rows,
            rows_changed,
            first_publish_ms,
            first_kept_bytes,
            publish_ms: each(|round| round.publish_ms),
            publish_elapsed_ms: each(|round| round.elapsed_ms),
            writer_blocked_ms: each(|round| round.writer_blocked_ms),
            rounds,
            peak_rss_bytes,
        },
    )
}

/// How many rows a store of this size has.
pub(super) fn rows_of(size: ByteSize) -> i64 {
    i64::try_from(size.as_u64() / ROW_BYTES).unwrap_or(i64::MAX).max(1)
}

/// Makes the store, fast, and hands it over as a durable one in WAL mode.
pub(super) async fn fill(path: &Path, rows: i64) -> Result<Connection, Problem> {
    let cannot = |error| failed("make a store", error);
    let connection = Connection::open(path).map_err(cannot)?;
    let set = |name: &str, value: &str| connection.pragma_update(None, name, value).map_err(cannot);
    set("page_size", "4096")?;
    set("journal_mode", "off")?;
    set("synchronous", "off")?;
    connection.busy_timeout(Duration::from_secs(60)).map_err(cannot)?;
    connection.execute_batch(SCHEMA).map_err(cannot)?;
    let mut next = 1;
    while next <= rows {
        let last = rows.min(next + PIECE - 1);
        connection.execute(FILL, [next, last]).map_err(cannot)?;
        next = last + 1;
        tokio::task::yield_now().await;
    }
    set("synchronous", "full")?;
    set("journal_mode", "wal")?;
    Ok(connection)
}

/// Changes rows all over the store, in one transaction.
pub(super) fn change(store: &mut Connection, round: u32, rows: i64, count: i64) -> Result<(), Problem> {
    let mut random = Random(u64::from(round));
    let committed = store.transaction().and_then(|transaction| {
        {
            let mut change = transaction.prepare_cached(CHANGE)?;
            for _ in 0..count {
                let (id, units) = (1 + random.below(rows), 4_294_967_296 + random.below(140_737_488));
                let value = f64::from(u32::try_from(random.below(10_000_019)).unwrap_or(0)) / 97.0;
                change.execute(params![id, units, value, 20_140_201 + random.below(28)])?;
            }
        }
        transaction.commit()
    });
    committed.map_err(|error| failed("change rows", error))
}

/// How many rows so many of a hundred are; one at least.
pub(super) fn share_of(rows: i64, percent: f64) -> i64 {
    let millionths = Duration::try_from_secs_f64(percent / 100.0).map_or(0, |share| share.as_micros());
    i64::try_from(u128::from(rows.unsigned_abs()) * millionths / 1_000_000).unwrap_or(i64::MAX).max(1)
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("large", Setting::of(site.folder()), figures)?;
    let Figures { store_bytes, rows, rows_changed, .. } = figures;
    report.line("store", format!("{}, {rows} rows", mb(*store_bytes)));
    report.line("rows changed before each publication", rows_changed.to_string());
    let first = mb(figures.first_kept_bytes);
    report.line("first publication", format!("{} ms, {first} kept", number(figures.first_publish_ms)));
    for (round, nth) in figures.rounds.iter().zip(1..) {
        let share = over(float(round.raw_changed_bytes), float(*store_bytes)) * 100.0;
        let (raw, kept) = (mb(round.raw_changed_bytes), mb(round.kept_bytes));
        let took = number(round.publish_ms);
        report.line(
            format!("round {nth}"),
            format!("{took} ms, {raw} of pages changed ({share:.1} %), {kept} kept"),
        );
    }
    report.line("publish, for the daemon", ms(&figures.publish_elapsed_ms));
    report.line("writer blocked", ms(&figures.writer_blocked_ms));
    report.line("peak memory of the daemon", mb(figures.peak_rss_bytes));
    report.target("first publication, ms", 6000.0, figures.first_publish_ms);
    report.target("publish, median ms", 1500.0, figures.publish_ms.median);
    let kept: Vec<f64> = figures.rounds.iter().map(|round| float(round.kept_bytes) / 1e6).collect();
    report.target("kept a version, median MB", 3.1, Spread::of(&kept).median);
    report.target("peak memory of the daemon, MB", 256.0, float(figures.peak_rss_bytes) / 1e6);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!((share_of(2000, 0.15), share_of(10, 0.15), share_of(7, 100.0)), (3, 1, 7));
    }

    #[tokio::test]
    async fn the_changed_rows_lie_in_a_tenth_of_the_pages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.db");
        let rows = 200_000;
        let mut store = fill(&path, rows).await.unwrap();
        let mut pages = ChangedPages::default();
        let (_, all) = pages.count(&path).unwrap();
        assert!((50..=55).contains(&(all / rows.unsigned_abs())), "{all}");
        change(&mut store, 1, rows, share_of(rows, 0.15)).unwrap();
        let (changed, _) = pages.count(&path).unwrap();
        assert!((9..=12).contains(&(changed * 100 / all)), "{changed} of {all}");
    }
}
