//! Versions along time, newest first, day by day.

use asat_core::version::plain;
use jiff::Timestamp;

use super::words::{Moment, shortened};
use crate::text::{counted, size};
use asat_wire::{Holding, Pin, Publication, Version};

/// How much of a note stands in the list. All of it is in the version's JSON.
const MOST_OF_NOTE: usize = 240;
/// How many attributes do.
const MOST_ATTRIBUTES: usize = 8;

/// Of how many versions of a day all is shown at once; the others are folded away.
const UNFOLDED: usize = 4;

/// A day with what was cut on it, in UTC.
pub(super) struct Day {
    /// As `2026-11-19`.
    pub(super) date: String,
    /// As `Thursday, 19 November 2026`.
    pub(super) words: String,
    pub(super) versions: Vec<Item>,
    /// Those of a day that has many.
    pub(super) folded: Vec<Item>,
}

/// A version on the time line.
pub(super) struct Item {
    pub(super) id: String,
    /// The time of the day.
    pub(super) time: String,
    pub(super) cut: Moment,
    pub(super) label: Option<String>,
    /// What else was said with its newest publication, by name.
    pub(super) said: Vec<(String, String)>,
    pub(super) note: Option<String>,
    /// That it was published more than once, where it was.
    pub(super) again: Option<String>,
    pub(super) size: String,
    pub(super) holdings: Vec<HoldingShown>,
    pub(super) tags: Vec<String>,
    pub(super) pin: Option<String>,
    pub(super) leases: Option<String>,
    /// The paths at which it is open.
    pub(super) path: Option<String>,
    /// What it changed, if that is known.
    pub(super) changed: Option<String>,
    /// Why it cannot be read, where it cannot.
    pub(super) lost: Option<String>,
}

/// A publication of a version, with what was said of it.
pub(super) struct Published {
    pub(super) at: Moment,
    pub(super) label: Option<String>,
    /// What else was said, by name.
    pub(super) said: Vec<(String, String)>,
    pub(super) note: Option<String>,
}

/// What holds a version's pages.
pub(super) struct HoldingShown {
    pub(super) kind: String,
    pub(super) words: String,
}

/// Versions by day.
pub(super) fn days(versions: Vec<Version>, now: Timestamp) -> Vec<Day> {
    let mut days: Vec<Day> = Vec::new();
    for version in versions {
        let at = version.cut_at.unwrap_or(now);
        let date = at.strftime("%Y-%m-%d").to_string();
        let item = Item::new(version, at, now);
        match days.last_mut().filter(|day| day.date == date) {
            Some(day) => day.versions.push(item),
            None => {
                let words = at.strftime("%A, %-d %B %Y").to_string();
                days.push(Day { date, words, versions: vec![item], folded: Vec::new() });
            }
        }
    }
    for day in days.iter_mut().filter(|day| day.versions.len() > UNFOLDED + 1) {
        day.folded = day.versions.split_off(UNFOLDED);
    }
    days
}

impl Day {
    /// All of its versions, newest first.
    pub(super) fn versions_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.versions.iter_mut().chain(&mut self.folded)
    }
}

impl Item {
    pub(super) fn new(version: Version, at: Timestamp, now: Timestamp) -> Self {
        let known_by = version.known_by();
        let more = u64::try_from(version.publication_count.saturating_sub(1)).unwrap_or(u64::MAX);
        Self {
            time: at.strftime("%H:%M:%S").to_string(),
            cut: Moment::new(at, now),
            label: known_by.and_then(|publication| publication.label.clone()),
            said: known_by.map(said).unwrap_or_default(),
            note: known_by
                .and_then(|publication| publication.note.as_deref())
                .map(|note| shortened(note, MOST_OF_NOTE)),
            again: (more > 0).then(|| format!("and {}", counted(more, "other publication"))),
            size: version.size_bytes.map_or_else(|| "size unknown".to_owned(), size),
            holdings: version.holdings.iter().map(HoldingShown::new).collect(),
            pin: version.pin.as_ref().map(pinned),
            leases: (version.leases > 0)
                .then(|| counted(u64::try_from(version.leases).unwrap_or(u64::MAX), "open lease")),
            lost: (version.state != "ready").then(|| version.end_reason.clone().unwrap_or(version.state)),
            changed: None,
            id: version.id,
            tags: version.tags,
            path: version.path,
        }
    }
}

impl Published {
    pub(super) fn new(publication: &Publication, now: Timestamp) -> Self {
        Self {
            at: Moment::new(publication.at, now),
            label: publication.label.clone(),
            said: said(publication),
            note: publication.note.clone(),
        }
    }
}

/// What was said of a publication besides its label and its note.
fn said(publication: &Publication) -> Vec<(String, String)> {
    let named = |name: &str, value: &Option<String>| value.clone().map(|value| (name.to_owned(), value));
    let fixed = [
        named("business date", &publication.business_date),
        named("certified by", &publication.certified_by),
        publication.set.as_ref().map(|set| ("set".to_owned(), set.name.clone())),
    ];
    let checks = u64::try_from(publication.checks.len()).unwrap_or(u64::MAX);
    let checks = (checks > 0).then(|| ("checks".to_owned(), format!("{checks} met")));
    let free =
        publication.attributes.iter().map(|(name, value)| (name.clone(), shortened(&plain(value), 80)));
    let more = publication.attributes.len().saturating_sub(MOST_ATTRIBUTES);
    let more = (more > 0).then(|| ("attributes".to_owned(), format!("{more} more")));
    fixed.into_iter().flatten().chain(checks).chain(free.take(MOST_ATTRIBUTES)).chain(more).collect()
}

fn pinned(pin: &Pin) -> String {
    let owner = pin.owner.as_ref().map(|owner| format!(", by {owner}")).unwrap_or_default();
    let until = pin.expires_at.map(|at| format!(", until {}", crate::text::absolute(at))).unwrap_or_default();
    format!("{}{owner}{until}", pin.reason)
}

impl HoldingShown {
    fn new(holding: &Holding) -> Self {
        let words = match (&holding.backend, &holding.name) {
            (Some(backend), Some(name)) => format!("{backend} {name}"),
            _ => size(holding.bytes),
        };
        Self { kind: holding.kind.clone(), words }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(number: u64, cut_at: &str) -> Version {
        let version = json!({
            "id": format!("report@{number}"), "store": "report", "number": number, "state": "ready", "cut_at": cut_at,
            "fingerprint": null, "size_bytes": 8192, "page_size": 4096, "leases": 2, "path": "/mnt/report.db",
            "holdings": [
                { "kind": "snapshot", "backend": "lvm-thin", "name": "vg/a", "bytes": 0 }, { "kind": "archive", "bytes": 2048 },
            ],
            "publication_count": 3, "known_by": 0, "publications": [{
                "at": cut_at, "label": "<b>", "certified_by": "ops", "business_date": "2026-11-18",
                "note": "n".repeat(300), "attributes": { "batch": 41 }, "checks": [],
            }],
            "pin": { "reason": "audit", "owner": "finance", "expires_at": null, "hot": false }, "tags": ["month-end"],
        });
        serde_json::from_value(version).unwrap()
    }

    #[test]
    fn versions_stand_by_their_days_in_their_order() {
        let now = "2026-11-20T09:00:00Z".parse().unwrap();
        let instants = ["2026-11-20T00:00:00Z", "2026-11-19T23:59:59.999999Z", "2026-11-19T17:00:00Z"];
        let versions = instants.iter().zip((1..=3).rev()).map(|(at, number)| version(number, at)).collect();
        let days = days(versions, now);
        let ids: Vec<(&str, Vec<&str>)> = days
            .iter()
            .map(|day| (day.date.as_str(), day.versions.iter().map(|v| v.id.as_str()).collect()))
            .collect();
        assert_eq!(ids, [("2026-11-20", vec!["report@3"]), ("2026-11-19", vec!["report@2", "report@1"])]);
        assert_eq!(days[1].words, "Thursday, 19 November 2026");

        let item = &days[1].versions[1];
        assert_eq!((item.time.as_str(), item.cut.ago.as_str()), ("17:00:00", "16 hours ago"));
        let said: Vec<String> = item.said.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(said, ["business date: 2026-11-18", "certified by: ops", "batch: 41"]);
        assert_eq!(item.again.as_deref(), Some("and 2 other publications"));
        assert_eq!(item.note.as_ref().map(|note| note.chars().count()), Some(MOST_OF_NOTE + 1));
        let held: Vec<String> =
            item.holdings.iter().map(|held| format!("{} {}", held.kind, held.words)).collect();
        assert_eq!(held, ["snapshot lvm-thin vg/a", "archive 2.0 KiB"]);
        assert_eq!(item.pin.as_deref(), Some("audit, by finance"));
        assert_eq!(item.leases.as_deref(), Some("2 open leases"));
        assert_eq!(item.lost, None);
    }

    #[test]
    fn of_a_day_with_many_versions_the_older_ones_are_folded_away() {
        let now = "2026-11-20T09:00:00Z".parse().unwrap();
        let of = |count: u64| {
            days((1..=count).rev().map(|number| version(number, "2026-11-19T17:00:00Z")).collect(), now)
        };
        for (count, unfolded, folded) in [(1, 1, 0), (5, 5, 0), (6, 4, 2), (30, 4, 26)] {
            let mut days = of(count);
            assert_eq!(
                (days.len(), days[0].versions.len(), days[0].folded.len()),
                (1, unfolded, folded),
                "{count}"
            );
            let ids: Vec<String> = days[0].versions_mut().map(|item| item.id.clone()).collect();
            assert_eq!(ids, (1..=count).rev().map(|number| format!("report@{number}")).collect::<Vec<_>>());
        }
    }
}
