//! `asat-bench watch`: how soon a commit is noticed in watch mode, and what it costs to watch while nothing is written.
//!
//! What is measured ends with what a client hears of it: the marker's new value, which is told before the publication
//! begins, and then the publication, which is durable by then.

use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::Problem;
use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use super::args::WatchArgs;
use super::report::{Report, ms, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, ms_since};
use super::{Tell, failed};
use asat_client::sse::Parser;
use asat_client::{Request, Stream};

/// What comes after a start is over by then.
const REST: Duration = Duration::from_secs(5);
/// How the name of the thread begins that watches.
const THREAD: &str = "watch ";
/// The marker of the store, and how it is watched.
const WATCH: &str = "backend = \"pages\"\n[store.watch]\nmarker = \"select max(id) from certification\"\n";

#[derive(Serialize)]
struct Figures {
    commits: u32,
    journal_mode: &'static str,
    noticed_ms: Spread,
    published_ms: Spread,
    idle_seconds: f64,
    /// Of the thread that watches.
    idle_watching_percent: f64,
    /// Of the whole daemon, whose guard looks once a second.
    idle_processor_percent: f64,
}

pub(super) async fn run(args: &WatchArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    site.configure(WATCH)?;
    let store = open(&site, args)?;
    let daemon = site.start()?;
    let mut heard = Heard::listen(&site).await?;
    tell(&format!("{} commits that move the marker", args.commits));
    let (mut noticed, mut published) = (Vec::new(), Vec::new());
    for id in 1..=args.commits {
        store
            .execute("insert into certification values (?1)", [id])
            .map_err(|error| failed("commit", error))?;
        let since = Instant::now();
        heard.until("value", &id.to_string()).await?;
        noticed.push(ms_since(since));
        heard.until("published", &id.to_string()).await?;
        published.push(ms_since(since));
    }
    // A connection that is open keeps the WAL, as that of a server does.
    tokio::time::sleep(REST).await;
    tell(&format!("nothing is written for {} s", args.seconds));
    let (since, used, watched) =
        (Instant::now(), daemon.processor_seconds()?, daemon.thread_seconds(THREAD)?);
    tokio::time::sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let (idle_seconds, used) = (since.elapsed().as_secs_f64(), daemon.processor_seconds()? - used);
    let watched = daemon.thread_seconds(THREAD)? - watched;
    daemon.stop()?;
    let figures = Figures {
        commits: args.commits,
        journal_mode: args.journal_mode.text(),
        noticed_ms: Spread::of(&noticed),
        published_ms: Spread::of(&published),
        idle_seconds,
        idle_watching_percent: watched * 100.0 / idle_seconds,
        idle_processor_percent: used * 100.0 / idle_seconds,
    };
    report(&site, &figures)
}

fn open(site: &Site, args: &WatchArgs) -> Result<Connection, Problem> {
    let cannot = |error: rusqlite::Error| failed("make a store", error);
    let store = Connection::open(&site.store).map_err(cannot)?;
    let mode = args.journal_mode.text();
    store.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(())).map_err(cannot)?;
    store.busy_timeout(Duration::from_secs(60)).map_err(cannot)?;
    store.execute_batch("create table certification (id integer primary key)").map_err(cannot)?;
    Ok(store)
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("watch", Setting::of(site.folder()), figures)?;
    let p99 = |spread: &Spread| format!("{}, p99 {}", ms(spread), number(spread.p99));
    report.line("from a commit until its marker is known", p99(&figures.noticed_ms));
    report.line("from a commit until it is published", p99(&figures.published_ms));
    let percent = |share: f64| format!("{} % of a core", number(share));
    let seconds = number(figures.idle_seconds);
    report.line(
        format!("watching while nothing is written, {seconds} s"),
        percent(figures.idle_watching_percent),
    );
    report.line("the whole daemon meanwhile, with its guard", percent(figures.idle_processor_percent));
    report.target("ms from a commit until its marker is known, p99", 100.0, figures.noticed_ms.p99);
    report.target(
        "percent of a core for watching while nothing is written",
        0.1,
        figures.idle_watching_percent,
    );
    Ok(report)
}

/// The events of watch mode, as a client hears them.
struct Heard {
    stream: Stream,
    parser: Parser,
    /// How it stood when that was told last.
    last: Value,
}

impl Heard {
    async fn listen(site: &Site) -> Result<Self, Problem> {
        let stream = site.client().stream(&Request::get(&["events"]).long()).await?;
        Ok(Self { stream, parser: Parser::default(), last: Value::Null })
    }

    /// Waits until what is told of watch mode has this value in a field.
    async fn until(&mut self, field: &str, value: &str) -> Result<(), Problem> {
        while self.last.get(field).and_then(Value::as_str) != Some(value) {
            let piece = self.stream.next().await?;
            let piece = piece.ok_or_else(|| failed("hear of the store", "the stream of events ended"))?;
            for event in self.parser.push(&piece)? {
                if event.name == "watch" {
                    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
                    self.last = data.get("watch").cloned().unwrap_or_default();
                }
            }
        }
        Ok(())
    }
}
