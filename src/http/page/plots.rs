//! Plots of publications and of the time that writers were held, as rectangles, with the same in words and as a table.

use std::cmp::Reverse;

use asat_core::StoreName;
use asat_core::register::{Register, Versions};
use asat_core::version::Publication;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::words::share;
use crate::text::counted;

/// Of how many days publications are counted.
const DAYS: usize = 30;
/// Of how many publications, the newest, the blocked time is shown.
const NEWEST: usize = 60;

/// A plot of bars from left to right.
pub(super) struct Plot {
    pub(super) id: String,
    pub(super) title: String,
    /// What it shows, in a sentence.
    pub(super) summary: String,
    pub(super) bars: Vec<Bar>,
    /// The width of the drawing: ten for each bar.
    pub(super) width: usize,
    /// What stands at the top, at the left end and at the right end.
    pub(super) most: String,
    pub(super) first: String,
    pub(super) last: String,
    /// What the rows of the table are, and their values.
    pub(super) columns: (&'static str, &'static str),
    pub(super) rows: Vec<(String, String)>,
}

/// A bar in a drawing that is a thousand high.
pub(super) struct Bar {
    pub(super) x: usize,
    pub(super) y: u64,
    pub(super) height: u64,
    pub(super) says: String,
}

/// What a bar stands for.
struct Value {
    /// At the end of the axis.
    short: String,
    /// In the table.
    name: String,
    height: u64,
    /// The height in words.
    words: String,
}

/// The versions of a store, or of all, that were published, and when each was last.
fn published<'a>(
    register: &'a Register,
    store: Option<&'a StoreName>,
) -> impl Iterator<Item = (Timestamp, &'a Versions, u64)> {
    let histories =
        register.stores().filter(move |history| store.is_none_or(|store| history.store.name == *store));
    histories.flat_map(|history| {
        let versions = &history.versions;
        versions
            .headlines()
            .filter_map(move |headline| Some((headline.published_at?, versions, headline.number)))
    })
}

/// The publications of a store, or of all, by day.
pub(super) fn by_day(register: &Register, store: Option<&StoreName>, now: Timestamp) -> Plot {
    let today = now.to_zoned(TimeZone::UTC).date();
    let mut days: Vec<(Date, u64)> = vec![(today, 0)];
    while let Some((first, _)) = days.last().filter(|_| days.len() < DAYS)
        && let Ok(before) = first.yesterday()
    {
        days.push((before, 0));
    }
    let first = days.last().and_then(|(date, _)| date.to_zoned(TimeZone::UTC).ok());
    let first = first.map_or(now, |first| first.timestamp());
    // Not the last ones: what was imported or taken over is of any age.
    let recent = published(register, store).filter(|(at, ..)| *at >= first);
    let publications = recent.filter_map(|(_, versions, number)| versions.get(number));
    let publications = publications.flat_map(|entry| &entry.publications);
    let recent = publications.map(|publication| publication.at).filter(|at| *at >= first);
    for date in recent.map(|at| at.to_zoned(TimeZone::UTC).date()) {
        if let Some((_, count)) = days.iter_mut().find(|(day, _)| *day == date) {
            *count += 1;
        }
    }
    let all: u64 = days.iter().map(|(_, count)| count).sum();
    let value = |(day, count): &(Date, u64)| {
        let name = day.to_string();
        Value { short: name.clone(), name, height: *count, words: count.to_string() }
    };
    let values = days.iter().rev().map(value).collect();
    let summary = format!("{} in {} days", counted(all, "publication"), days.len());
    Plot::new("publications", "Publications by day", summary, ("Day (UTC)", "Publications"), values, |most| {
        most.to_string()
    })
}

/// For how long the newest publications of a store, or of all, could have kept a commit waiting.
pub(super) fn blocked(register: &Register, store: Option<&StoreName>) -> Plot {
    // Each of the newest publications is of one of so many versions that were published last.
    let mut last: Vec<_> = published(register, store).collect();
    last.sort_by_key(|(at, ..)| Reverse(*at));
    let entries = last.iter().take(NEWEST).filter_map(|(_, versions, number)| versions.get(*number));
    let mut newest: Vec<&Publication> = entries.flat_map(|entry| &entry.publications).collect();
    newest.sort_by_key(|publication| (publication.at, publication.number));
    let older = newest.len().saturating_sub(NEWEST);
    let newest: Vec<Value> = newest
        .split_off(older)
        .into_iter()
        .map(|publication| {
            let us = publication.cost.writer_blocked_us;
            let short = publication.version.to_string();
            let name = format!("{short}, {}", crate::text::absolute(publication.at));
            Value { short, name, height: us, words: milliseconds(us) }
        })
        .collect();
    let longest = newest.iter().map(|value| value.height).max().unwrap_or(0);
    let count = u64::try_from(newest.len()).unwrap_or(u64::MAX);
    let summary = match count {
        0 => "Nothing was published yet".to_owned(),
        count => format!("At most {} in the newest {}", milliseconds(longest), counted(count, "publication")),
    };
    Plot::new(
        "blocked",
        "How long writers could have waited",
        summary,
        ("Publication", "Blocked"),
        newest,
        milliseconds,
    )
}

/// How many rows of a table each version has changed, the oldest first.
pub(super) fn changed(store: &StoreName, table: &str, values: Vec<(String, u64)>) -> Plot {
    let all: u64 = values.iter().map(|(_, rows)| rows).sum();
    let count = u64::try_from(values.len()).unwrap_or(u64::MAX);
    let summary = format!("{} of {store} in {}", counted(all, "row"), counted(count, "version"));
    let values = values.into_iter().map(|(version, rows)| Value {
        short: version.clone(),
        name: version,
        height: rows,
        words: rows.to_string(),
    });
    let columns = ("Version", "Rows changed");
    Plot::new(
        format!("changed-{table}"),
        format!("Changes of {table}"),
        summary,
        columns,
        values.collect(),
        |most| most.to_string(),
    )
}

impl Plot {
    fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        summary: String,
        columns: (&'static str, &'static str),
        values: Vec<Value>,
        words: impl Fn(u64) -> String,
    ) -> Self {
        let most = values.iter().map(|value| value.height).max().unwrap_or(0);
        let bar = |(n, value): (usize, &Value)| {
            // What is there is seen, however small it is beside the rest.
            let height = share(value.height, most).max(20);
            Bar { x: n * 10, y: 1000 - height, height, says: format!("{}: {}", value.name, value.words) }
        };
        let short = |value: Option<&Value>| value.map(|value| value.short.clone()).unwrap_or_default();
        let is_seen = |value: &Value| value.height > 0;
        Self {
            id: id.into(),
            title: title.into(),
            summary,
            bars: values.iter().enumerate().filter(|(_, value)| is_seen(value)).map(bar).collect(),
            width: values.len().max(1) * 10,
            most: words(most),
            first: short(values.first()),
            last: short(values.last()),
            columns,
            rows: values.into_iter().rev().filter(is_seen).map(|value| (value.name, value.words)).collect(),
        }
    }
}

/// Microseconds as milliseconds: "0.4 ms".
fn milliseconds(us: u64) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use asat_core::VersionId;
    use asat_core::event::Change;
    use asat_core::version::{Publication, State, Store, Version};

    use super::*;

    fn register(published: &[(&str, u64)]) -> Register {
        let mut register = Register::default();
        let (name, added_at): (StoreName, _) = ("report".parse().unwrap(), Timestamp::UNIX_EPOCH);
        let store = Store { name: name.clone(), path: "/report.db".into(), added_at, damage: None };
        register.evolve(&Change::Store(store));
        for (number, (at, us)) in (1..).zip(published) {
            let version = Version {
                id: VersionId { store: name.clone(), number },
                state: State::Failed,
                begun_at: added_at,
                content: None,
                holdings: Vec::new(),
                copy: None,
                pin: None,
                end: None,
            };
            register.evolve(&Change::Version(Box::new(version)));
            let publication = Publication {
                number,
                version: format!("report@{number}").parse().unwrap(),
                at: at.parse().unwrap(),
                attributes: Default::default(),
                key: None,
                of_set: None,
                reused: false,
                cost: asat_core::snapshot::Cost { writer_blocked_us: *us, ..Default::default() },
                elapsed_us: 0,
                checks: Vec::new(),
            };
            register.evolve(&Change::Published(publication));
        }
        register
    }

    #[test]
    fn days_without_publications_are_gaps_and_older_ones_are_left_out() {
        let published = [
            ("2026-10-21T00:00:00Z", 0),
            ("2026-11-19T00:00:00Z", 0),
            ("2026-11-19T17:00:00Z", 0),
            // It was imported.
            ("2026-10-20T23:59:59Z", 0),
        ];
        let plot = by_day(&register(&published), None, "2026-11-19T18:00:00Z".parse().unwrap());
        assert_eq!((plot.summary.as_str(), plot.most.as_str()), ("3 publications in 30 days", "2"));
        assert_eq!((plot.first.as_str(), plot.last.as_str(), plot.width), ("2026-10-21", "2026-11-19", 300));
        let bars: Vec<(usize, u64, &str)> =
            plot.bars.iter().map(|bar| (bar.x, bar.height, bar.says.as_str())).collect();
        assert_eq!(bars, [(0, 500, "2026-10-21: 1"), (290, 1000, "2026-11-19: 2")]);
        let other = by_day(&register(&published), Some(&"ledger".parse().unwrap()), Timestamp::UNIX_EPOCH);
        assert_eq!((other.bars.len(), other.summary.as_str()), (0, "0 publications in 30 days"));
    }

    #[test]
    fn the_longest_wait_gives_the_scale() {
        let published =
            [("2026-11-19T16:00:00Z", 400), ("2026-11-19T17:00:00Z", 0), ("2026-11-19T18:00:00Z", 120_000)];
        let plot = blocked(&register(&published), None);
        assert_eq!(plot.summary, "At most 120.0 ms in the newest 3 publications");
        let heights: Vec<(usize, u64, u64)> =
            plot.bars.iter().map(|bar| (bar.x, bar.y, bar.height)).collect();
        assert_eq!(heights, [(0, 980, 20), (20, 0, 1000)]);
        assert_eq!(plot.rows[1], ("report@1, 2026-11-19 16:00:00 UTC".to_owned(), "0.4 ms".to_owned()));
        let mut published = vec![("2026-11-19T18:00:00Z", 1); NEWEST];
        published.push(("2025-11-19T18:00:00Z", 9000));
        let plot = blocked(&register(&published), None);
        assert_eq!((plot.bars.len(), plot.most.as_str()), (NEWEST, "0.0 ms"), "what was imported is no news");
        assert_eq!(blocked(&Register::default(), None).summary, "Nothing was published yet");
    }
}
