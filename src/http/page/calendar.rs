//! A year of a store's published days on one screen: on which a publication stands, and how many.

use std::collections::BTreeMap;

use asat_core::register::Headline;
use asat_core::version::Publication;
use asat_core::{Problem, StoreName};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::encoded;
use crate::daemon::Handle;
use crate::http::Face;
use crate::text::counted;

/// How wide and high a day is in the drawing, with what is between it and the next.
const STEP: i64 = 14;
/// The room for the names of the months, and for those of the weekdays.
const TOP: i64 = 18;
const LEFT: i64 = 34;
/// So many versions are looked at before a publication can come between.
const TOGETHER: usize = 500;
/// A year and the days before it in its first week.
const WEEKS: i64 = 53;

/// The days of a year, week by week.
pub(super) struct Year {
    pub(super) store: String,
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) days: Vec<Day>,
    /// Where the name of each month stands.
    pub(super) months: Vec<(i64, String)>,
    /// What it shows, in a sentence.
    pub(super) summary: String,
    /// The published days as a list, the newest first: what they say, and where they lead.
    pub(super) listed: Vec<(String, String)>,
}

/// A day in the drawing.
pub(super) struct Day {
    pub(super) x: i64,
    pub(super) y: i64,
    /// Its name in the style sheet: `none`, `once` or `often`.
    pub(super) kind: &'static str,
    pub(super) says: String,
    /// The link to its versions, if there are any.
    pub(super) href: Option<String>,
}

impl Year {
    /// The year of a store that ends today.
    ///
    /// # Errors
    /// [`asat_core::Code::UnknownStore`]; if too many others ask for as much.
    pub(super) async fn ending(face: &Face, store: &StoreName, now: Timestamp) -> Result<Self, Problem> {
        let last = TimeZone::UTC.to_datetime(now).date();
        let first = last.checked_sub(Span::new().days(364)).unwrap_or(last);
        let (handle, of) = (face.handle.clone(), store.clone());
        let counts = face.work.run(move || counts(&handle, &of, first, last)).await?;
        Ok(Self::new(store.as_str(), &counts, first, last))
    }

    fn new(store: &str, counts: &BTreeMap<Date, u64>, first: Date, last: Date) -> Self {
        let before = i64::from(first.weekday().to_monday_zero_offset());
        let href = |day: Date| format!("/?store={}&day={day}#versions", encoded(store));
        let says = |day: Date, count: u64| {
            format!("{}: {}", day.strftime("%a %Y-%m-%d"), counted(count, "publication"))
        };
        let (mut days, mut months) = (Vec::new(), Vec::new());
        for (place, day) in (before..).zip(first.series(Span::new().days(1)).take_while(|day| *day <= last)) {
            let (x, y) = (LEFT + place / 7 * STEP, TOP + place % 7 * STEP);
            if day.day() == 1 {
                months.push((x, day.strftime("%b").to_string()));
            }
            let count = counts.get(&day).copied().unwrap_or(0);
            days.push(Day {
                x,
                y,
                kind: ["none", "once", "often"]
                    .into_iter()
                    .nth(usize::try_from(count).unwrap_or(2).min(2))
                    .unwrap_or("none"),
                says: says(day, count),
                href: (count > 0).then(|| href(day)),
            });
        }
        let all = u64::try_from(counts.len()).unwrap_or(u64::MAX);
        Self {
            store: store.to_owned(),
            width: LEFT + WEEKS * STEP,
            height: TOP + 7 * STEP,
            days,
            months,
            summary: format!("{} from {first} to {last}", counted(all, "published day")),
            listed: counts.iter().rev().map(|(day, count)| (says(*day, *count), href(*day))).collect(),
        }
    }
}

/// How many publications stand for each day. One that says no business date stands for the day on which it was made, in UTC.
fn counts(
    handle: &Handle,
    store: &StoreName,
    first: Date,
    last: Date,
) -> Result<BTreeMap<Date, u64>, Problem> {
    let mut counts = BTreeMap::new();
    // What was published before the year can stand for one of its days only if it was published again.
    let since = first.to_zoned(TimeZone::UTC).map(|begin| begin.timestamp()).unwrap_or(Timestamp::MIN);
    let is_recent = |headline: &&Headline| headline.published_at.is_some_and(|at| at >= since);
    let recent: Vec<u64> = {
        let engine = handle.engine();
        let headlines = engine.register().history(store)?.versions.headlines();
        headlines.filter(is_recent).map(|headline| headline.number).collect()
    };
    for part in recent.chunks(TOGETHER) {
        let engine = handle.engine();
        let versions = &engine.register().history(store)?.versions;
        for entry in part.iter().filter_map(|number| versions.get(*number)) {
            for day in entry.publications.iter().map(day_of).filter(|day| (first..=last).contains(day)) {
                *counts.entry(day).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

fn day_of(publication: &Publication) -> Date {
    publication.attributes.business_date.unwrap_or_else(|| TimeZone::UTC.to_datetime(publication.at).date())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_year_has_each_day_once_and_fits_its_drawing() {
        // One that begins on a Sunday, and one with 366 days.
        for (first, last, days) in [("2023-01-01", "2023-12-31", 365), ("2027-03-01", "2028-02-29", 366)] {
            let year = Year::new("report", &BTreeMap::new(), day(first), day(last));
            assert_eq!(year.days.len(), days, "{first}");
            let places: std::collections::BTreeSet<_> = year.days.iter().map(|day| (day.x, day.y)).collect();
            assert_eq!(places.len(), days, "{first}");
            assert!(places.iter().all(|(x, y)| x + STEP <= year.width && y + STEP <= year.height), "{first}");
            assert_eq!(year.months.len(), 12, "{:?}", year.months);
            assert_eq!(year.summary, format!("0 published days from {first} to {last}"));
        }
    }

    #[test]
    fn a_day_says_how_often_it_was_published_and_leads_to_its_versions() {
        let counts = [(day("2026-11-19"), 1), (day("2026-11-20"), 3)].into();
        let year = Year::new("a b", &counts, day("2026-11-18"), day("2026-11-20"));
        let days: Vec<_> =
            year.days.iter().map(|day| (day.kind, day.says.as_str(), day.href.as_deref())).collect();
        let href = |day: &str| format!("/?store=a%20b&day={day}#versions");
        let (one, more) = (href("2026-11-19"), href("2026-11-20"));
        assert_eq!(
            days,
            [
                ("none", "Wed 2026-11-18: 0 publications", None),
                ("once", "Thu 2026-11-19: 1 publication", Some(one.as_str())),
                ("often", "Fri 2026-11-20: 3 publications", Some(more.as_str())),
            ]
        );
        assert_eq!(
            year.listed.first().map(|(says, _)| says.as_str()),
            Some("Fri 2026-11-20: 3 publications")
        );
        assert_eq!(year.summary, "2 published days from 2026-11-18 to 2026-11-20");
    }
}
