//! `asat-bench listing`: how soon a daemon with a long history is ready, and how fast it lists versions, to one client and to
//! many.
//!
//! The history is written into the catalogue before the daemon starts. Its archive is empty, so the daemon
//! records every version as lost; a list shows lost versions as it shows the others. What is published meanwhile is real.

mod busy;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Instant;

use asat_catalogue::Catalogue;
use asat_core::event::Change;
use asat_core::snapshot::Cost;
use asat_core::version::{Attributes, Content, Holding, Publication, State, Store, Version};
use asat_core::{Fingerprint, PageSize, Problem, StoreName, VersionId};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::args::ListingArgs;
use super::report::{Report, mb, number};
use super::setting::Setting;
use super::site::Site;
use super::statistics::{Spread, float, ms_since};
use super::{Tell, failed};
use asat_client::Request;
use asat_wire::VersionList;
use busy::Busy;

/// How many versions a page has.
const LIMIT: usize = 100;
/// Every version has one of so many labels.
const LABELS: u64 = 100;
/// The first version was cut then, and another one every hour.
const BEGIN_S: i64 = 1_388_534_400;
/// Changes that are committed at once.
const PIECE: usize = 1000;

#[derive(Serialize)]
struct Figures {
    versions: u32,
    limit: usize,
    requests: u32,
    /// The first start finds that the archive is empty, and records it; the second finds nothing to do.
    first_ready_ms: f64,
    ready_ms: f64,
    first_page_ms: Spread,
    middle_page_ms: Spread,
    labelled_page_ms: Spread,
    while_publishing: busy::Figures,
    peak_rss_bytes: u64,
}

pub(super) async fn run(args: &ListingArgs, dir: Option<&Path>, tell: Tell<'_>) -> Result<Report, Problem> {
    let site = Site::make(dir)?;
    tell(&format!("writing a history of {} versions", args.versions));
    seed(&site, args.versions)?;
    busy::make_store(&site.store)?;
    let daemon = site.start()?;
    let first_ready_ms = daemon.ready_ms;
    daemon.stop()?;
    let daemon = site.start()?;
    let lists = Lists { site: &site, requests: args.requests };
    tell("listing");
    let cursors = lists.cursors().await?;
    let middle = cursors.get(cursors.len() / 2).map_or("", String::as_str);
    let figures = Figures {
        versions: args.versions,
        limit: LIMIT,
        requests: args.requests,
        first_ready_ms,
        ready_ms: daemon.ready_ms,
        first_page_ms: lists.time(&[]).await?,
        middle_page_ms: lists.time(&[("cursor", middle)]).await?,
        labelled_page_ms: lists.time(&[("label", "close 7")]).await?,
        while_publishing: {
            tell(&format!("listing to {} clients, while versions are published", args.clients));
            let page = |cursor: &String| format!("/versions?limit={LIMIT}&cursor={cursor}");
            let first = std::iter::once(format!("/versions?limit={LIMIT}"));
            busy::measure(&site, &first.chain(cursors.iter().map(page)).collect::<Vec<_>>(), args)?
        },
        peak_rss_bytes: daemon.peak_rss_bytes()?,
    };
    daemon.stop()?;
    report(&site, &figures)
}

/// Asks for pages.
struct Lists<'a> {
    site: &'a Site,
    requests: u32,
}

impl Lists<'_> {
    /// Asks for the same page again and again; answers the milliseconds.
    async fn time(&self, query: &[(&str, &str)]) -> Result<Spread, Problem> {
        let mut times_ms = Vec::new();
        for _ in 0..self.requests {
            let since = Instant::now();
            let page = self.page(query).await?;
            times_ms.push(ms_since(since));
            if page.versions.is_empty() || (query.is_empty() && page.versions.len() < LIMIT) {
                return Err(failed("go on", format!("a page had {} versions", page.versions.len())));
            }
        }
        Ok(Spread::of(&times_ms))
    }

    /// The cursors of all pages but the first.
    async fn cursors(&self) -> Result<Vec<String>, Problem> {
        let mut next = self.page(&[]).await?.next_cursor;
        let mut cursors = Vec::new();
        while let Some(cursor) = next {
            next = self.page(&[("cursor", cursor.as_str())]).await?.next_cursor;
            cursors.push(cursor);
        }
        Ok(cursors)
    }

    async fn page(&self, query: &[(&str, &str)]) -> Result<VersionList, Problem> {
        let limit = LIMIT.to_string();
        let query: Vec<_> = [("limit", limit.as_str())].into_iter().chain(query.iter().copied()).collect();
        let plain = Request::get(&["versions"]);
        let request = query.iter().fold(plain, |request, (name, value)| request.query(name, Some(value)));
        self.site.client().ask(&request).await
    }
}

/// Writes the history into the catalogue.
fn seed(site: &Site, versions: u32) -> Result<(), Problem> {
    let cannot = |error: asat_catalogue::Error| failed("write a history", error);
    let state = site.path("state");
    DirBuilder::new().mode(0o700).create(&state).map_err(|error| failed("make a folder", error))?;
    let mut catalogue = Catalogue::open(&state.join("catalogue.db")).map_err(cannot)?;
    let name: StoreName = "report".parse().map_err(|error| failed("write a history", error))?;
    let mut changes = vec![Change::Store(Store {
        name: name.clone(),
        path: site.store.clone(),
        added_at: Timestamp::UNIX_EPOCH,
        damage: None,
    })];
    for number in 1..=u64::from(versions) {
        changes.extend(version(&name, number)?);
        if changes.len() >= PIECE {
            catalogue.record(&std::mem::take(&mut changes)).map_err(cannot)?;
        }
    }
    catalogue.record(&changes).map_err(cannot)
}

/// A version and its publication.
fn version(store: &StoreName, number: u64) -> Result<[Change; 2], Problem> {
    let id = VersionId { store: store.clone(), number };
    let hours = SignedDuration::from_hours(i64::try_from(number).unwrap_or(0));
    let begin = Timestamp::from_second(BEGIN_S).and_then(|begin| begin.checked_add(hours));
    let cut_at = begin.map_err(|error| failed("write a history", error))?;
    let page_size = PageSize::new(4096).ok_or_else(|| failed("write a history", "no such page size"))?;
    let fingerprint = Fingerprint::of_model(u128::from(number));
    let version = Version {
        id: id.clone(),
        state: State::Ready,
        begun_at: cut_at,
        content: Some(Content {
            cut_at,
            fingerprint: Some(fingerprint),
            page_size,
            page_count: 11_883,
            wal: true,
        }),
        holdings: vec![Holding::Archive { bytes: 812_344 }],
        copy: None,
        pin: None,
        end: None,
    };
    let attributes = Attributes {
        label: Some(format!("close {}", number % LABELS)),
        certified_by: Some("ops".to_owned()),
        note: Some("all positions reconciled".to_owned()),
        ..Attributes::default()
    };
    let publication = Publication {
        number,
        version: id,
        at: cut_at,
        attributes,
        key: Some(format!("key {number}")),
        of_set: None,
        reused: false,
        cost: Cost::default(),
        elapsed_us: 50_000,
        checks: Vec::new(),
    };
    Ok([Change::Version(Box::new(version)), Change::Published(publication)])
}

fn report(site: &Site, figures: &Figures) -> Result<Report, Problem> {
    let mut report = Report::new("listing", Setting::of(site.folder()), figures)?;
    let told = |spread: &Spread| format!("p50 {} ms, p99 {}", number(spread.median), number(spread.p99));
    report.line("versions", figures.versions.to_string());
    report.line("start until ready", format!("{} ms", number(figures.ready_ms)));
    report.line("  where the archive is newly empty", format!("{} ms", number(figures.first_ready_ms)));
    report.line("first page", told(&figures.first_page_ms));
    report.line("page in the middle", told(&figures.middle_page_ms));
    report.line("page of a label", told(&figures.labelled_page_ms));
    let busy = &figures.while_publishing;
    for (what, busy) in [
        ("the first page".to_owned(), &busy.first),
        ("all pages".to_owned(), &busy.through),
        (format!("all pages, {} a second", busy.rate), &busy.paced),
    ] {
        let Busy { pages, publications_per_second, .. } = busy;
        let text = format!(
            "{}, {:.0} a second; {} publications a second",
            told(&pages.waited_ms),
            pages.per_second,
            number(*publications_per_second)
        );
        report.line(format!("{} clients, {what}", figures.while_publishing.clients), text);
    }
    report.line("peak memory of the daemon", mb(figures.peak_rss_bytes));
    report.target("start until ready, ms", 1000.0, figures.ready_ms);
    for (what, spread) in [
        ("first page, p99 ms", &figures.first_page_ms),
        ("page in the middle, p99 ms", &figures.middle_page_ms),
        ("page of a label, p99 ms", &figures.labelled_page_ms),
        ("first page for all clients, p99 ms", &busy.first.pages.waited_ms),
        ("all pages at that rate, p99 ms", &busy.paced.pages.waited_ms),
    ] {
        report.target(what, 10.0, spread.p99);
    }
    report.target("peak memory of the daemon, MB", 256.0, float(figures.peak_rss_bytes) / 1e6);
    Ok(report)
}
