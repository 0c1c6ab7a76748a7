//! Whether all is well, in one sentence, and what is not.

use asat_core::Problem;
use asat_core::register::Register;
use asat_core::{Backing, Policy};

use super::consequences::Consequences;
use crate::text::counted;
use asat_wire::{Capacity, LastingTrouble, Store};

/// How well the daemon and its stores are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Nobody has to do anything.
    #[default]
    Well,
    /// Somebody should know.
    Attention,
    /// Somebody has to do something.
    Trouble,
}

/// One thing that is not well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) level: Level,
    /// What it concerns.
    pub(super) about: String,
    /// What is wrong.
    pub(super) what: String,
    /// What to do; may be empty.
    pub(super) hint: String,
    /// What follows from it; may be empty.
    pub(super) follows: String,
    /// The alarm that a reader may acknowledge, if it is one.
    pub(super) alarm: Option<String>,
}

/// All of it, the worst first.
pub(super) struct Verdict {
    pub(super) level: Level,
    pub(super) sentence: String,
    pub(super) points: Vec<Point>,
}

impl Level {
    /// Its name in the style sheet.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Attention => "attention",
            Self::Trouble => "trouble",
        }
    }
}

impl Verdict {
    pub(super) fn new(
        stores: &[Store],
        capacity: &Capacity,
        consequences: &Consequences,
        mut points: Vec<Point>,
    ) -> Self {
        points.extend(of_guard(capacity, consequences));
        points.extend(stores.iter().filter_map(of_freshness));
        points.extend(stores.iter().filter_map(of_failure));
        points.extend(stores.iter().filter_map(of_watch));
        points.extend(stores.iter().flat_map(of_buckets));
        points.sort_by_key(|point| std::cmp::Reverse(point.level));
        let level = points.first().map_or(Level::Well, |point| point.level);
        let count = u64::try_from(points.len()).unwrap_or(u64::MAX);
        let empty = stores.iter().filter(|store| can_be_published(store) && store.versions == 0);
        let empty: Vec<&str> = empty.map(|store| store.name.as_str()).collect();
        let sentence = match level {
            Level::Well if stores.is_empty() => "No store is configured yet".to_owned(),
            Level::Well => "All is well".to_owned(),
            Level::Attention if !empty.is_empty() => match empty.as_slice() {
                [name] => format!("Nothing is kept of {name} yet"),
                _ => format!("Nothing is kept of {} stores yet", empty.len()),
            },
            Level::Attention => format!("All is well, and there {} to know of", be(count, "thing")),
            Level::Trouble => {
                let urgent = points.iter().filter(|point| point.level == Level::Trouble).count();
                let urgent = u64::try_from(urgent).unwrap_or(u64::MAX);
                format!("{} somebody to see to {}", need(urgent), if urgent == 1 { "it" } else { "them" })
            }
        };
        Self { level, sentence, points }
    }
}

fn be(count: u64, what: &str) -> String {
    format!("{} {}", if count == 1 { "is" } else { "are" }, counted(count, what))
}

fn need(count: u64) -> String {
    format!("{} {}", counted(count, "thing"), if count == 1 { "needs" } else { "need" })
}

/// What the records say: stores that cannot be published. Of what is lost or damaged the guard's alarms tell.
pub(super) fn of_records(register: &Register, policy: &Policy) -> Vec<Point> {
    let mut points = Vec::new();
    for history in register.stores() {
        let name = &history.store.name;
        if let Some(Backing::Unusable(problem)) = policy.stores.get(name).map(|store| &store.backing) {
            points.push(trouble(format!("{name} cannot be published"), problem));
        }
    }
    points
}

/// That a configuration was read again, and is not in force.
pub(super) fn of_configuration(problem: &Problem) -> Point {
    trouble("The new configuration is not in force".to_owned(), problem)
}

/// That a store is late, or was never published.
fn of_freshness(store: &Store) -> Option<Point> {
    let name = &store.name;
    let late = store.expected.as_ref().and_then(|expected| Some((expected, expected.problem(name)?)));
    let never = || format!("{name} was never published");
    if let Some((expected, problem)) = late {
        let about = if expected.published_at.is_some() { format!("{name} is late") } else { never() };
        return Some(trouble(about, &problem));
    }
    (can_be_published(store) && store.versions == 0 && store.expected.is_none()).then(|| Point {
        level: Level::Attention,
        about: never(),
        what: "nothing of it is kept yet".to_owned(),
        hint: format!("publish it: asat publish {name}"),
        ..Point::default()
    })
}

fn can_be_published(store: &Store) -> bool {
    store.configured && store.followed.is_none() && store.backend != "none"
}

fn of_guard(capacity: &Capacity, consequences: &Consequences) -> Vec<Point> {
    let trouble = capacity.trouble.iter().map(|trouble| Point {
        level: Level::Trouble,
        about: "The guard is kept from its work".to_owned(),
        what: trouble.detail.clone(),
        hint: trouble.hint.clone(),
        ..Point::default()
    });
    let alarms = capacity.alarms.iter().map(|alarm| Point {
        level: if alarm.acknowledged_at.is_some() { Level::Attention } else { Level::Trouble },
        about: alarm.key.clone(),
        what: alarm.reason.clone(),
        hint: alarm.hint.clone(),
        follows: consequences.of_alarm(&alarm.key).unwrap_or_default().to_owned(),
        alarm: alarm.acknowledged_at.is_none().then(|| alarm.key.clone()),
    });
    let held = capacity.brakes.iter().filter(|brake| brake.held_now).map(|brake| Point {
        level: Level::Attention,
        about: brake.origin.clone(),
        what: "writers are held at this moment, until there is space again".to_owned(),
        ..Point::default()
    });
    trouble.chain(alarms).chain(held).collect()
}

/// That a store could not be published when that was tried last.
fn of_failure(store: &Store) -> Option<Point> {
    let failed = store.failed.as_ref().filter(|failed| !store.is_said_by_watch(failed))?;
    Some(lasting(Level::Trouble, format!("{} could not be published", store.name), failed))
}

fn of_watch(store: &Store) -> Option<Point> {
    let trouble = store.watch.as_ref()?.trouble.as_ref()?;
    Some(lasting(Level::Trouble, format!("{} is not published by itself", store.name), trouble))
}

/// What keeps versions from a bucket, or from coming from one. It may pass; if it lasts, it is an alarm.
fn of_buckets(store: &Store) -> impl Iterator<Item = Point> {
    let name = &store.name;
    let to = store.remote.as_ref().and_then(|remote| remote.trouble.as_ref());
    let to =
        to.map(|trouble| lasting(Level::Attention, format!("{name} does not come into the bucket"), trouble));
    let from = store.followed.as_ref().and_then(|followed| followed.trouble.as_ref());
    let from = from.map(|trouble| lasting(Level::Attention, format!("{name} cannot be followed"), trouble));
    to.into_iter().chain(from)
}

fn lasting(level: Level, about: String, trouble: &LastingTrouble) -> Point {
    Point { level, about, what: trouble.detail.clone(), hint: trouble.hint.clone(), ..Point::default() }
}

fn trouble(about: String, problem: &Problem) -> Point {
    let Problem { detail, hint, .. } = problem.clone();
    Point { level: Level::Trouble, about, what: detail, hint, ..Point::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn store(watch: &Value) -> Store {
        let store = json!({
            "name": "report", "path": "/srv/report.db", "backend": "pages", "configured": true, "versions": 1,
            "newest": "report@1", "newest_cut_at": "2026-11-19T17:00:00Z", "archive_bytes": 4096, "watch": watch,
        });
        serde_json::from_value(store).unwrap()
    }

    fn capacity(more: Value) -> Capacity {
        let mut capacity = json!({
            "looked_at": null, "tick_ms": 0, "looks": {"full": 0, "glances": 0, "spent_ms": 0.0}, "targets": [],
            "plan": [], "last_actions": [], "brakes": [], "precedence": {"ladder": [], "says": ""}, "alarms": [],
            "trouble": null,
        });
        let Value::Object(more) = more else { panic!("{more}") };
        capacity.as_object_mut().unwrap().extend(more);
        serde_json::from_value(capacity).unwrap()
    }

    fn alarm(acknowledged_at: &Value) -> Value {
        json!([{
            "key": "group vg: short", "reason": "vg has no space", "hint": "add a disk",
            "since": "2026-11-19T17:00:00Z", "acknowledged_at": acknowledged_at,
        }])
    }

    #[test]
    fn the_sentence_says_the_worst() {
        let trouble = json!({ "code": "lvm_stuck", "detail": "`lvextend` does not end", "hint": "look" });
        let watch = json!({ "value": null, "published": null, "polls": null, "trouble": {
            "code": "marker_failed", "detail": "no such table", "hint": "mend it", "since": "2026-11-19T17:00:00Z" } });
        let brake =
            json!([{ "origin": "vg/a", "held_now": true, "holds": 1, "total_ms": 3, "longest_ms": 3 }]);
        let cases = [
            (vec![], capacity(json!({})), Level::Well, "No store is configured yet"),
            (vec![store(&Value::Null)], capacity(json!({})), Level::Well, "All is well"),
            (
                vec![],
                capacity(json!({ "brakes": brake })),
                Level::Attention,
                "All is well, and there is 1 thing to know of",
            ),
            (
                vec![],
                capacity(json!({ "alarms": alarm(&json!("2026-11-19T17:00:00Z")), "brakes": brake })),
                Level::Attention,
                "All is well, and there are 2 things to know of",
            ),
            (
                vec![],
                capacity(json!({ "alarms": alarm(&Value::Null), "brakes": brake })),
                Level::Trouble,
                "1 thing needs somebody to see to it",
            ),
            (
                vec![store(&watch)],
                capacity(json!({ "trouble": trouble })),
                Level::Trouble,
                "2 things need somebody to see to them",
            ),
        ];
        let away = json!({ "code": "remote_unavailable", "detail": "no answer", "hint": "look", "since": "2026-11-19T17:00:00Z" });
        let mut followed = store(&Value::Null);
        followed.followed = serde_json::from_value(
            json!({ "url": "s3://history", "host": null, "manifest": null, "trouble": away }),
        )
        .unwrap();
        let one_thing = "All is well, and there is 1 thing to know of";
        let cases =
            cases.into_iter().chain([(vec![followed], capacity(json!({})), Level::Attention, one_thing)]);
        for (stores, capacity, level, sentence) in cases {
            let verdict = Verdict::new(&stores, &capacity, &Consequences::default(), Vec::new());
            assert_eq!((verdict.level, verdict.sentence.as_str()), (level, sentence));
            assert!(verdict.points.is_sorted_by(|a, b| a.level >= b.level), "{:?}", verdict.points);
        }
        let alarmed = capacity(json!({ "alarms": alarm(&Value::Null) }));
        let verdict = Verdict::new(&[], &alarmed, &Consequences::default(), Vec::new());
        assert_eq!(verdict.points[0].alarm.as_deref(), Some("group vg: short"), "nobody knows of it yet");
    }

    #[test]
    fn a_store_that_is_late_or_was_never_published_is_not_well() {
        let verdict = |stores: &[Store]| {
            Verdict::new(stores, &capacity(json!({})), &Consequences::default(), Vec::new())
        };
        let expected = |published: &Value, since: &Value| {
            serde_json::from_value(json!({
                "every": "every day by 18:00", "published_at": published, "due_at": null, "late_since": since,
            }))
            .unwrap()
        };
        let (published, since) = (json!("2026-11-18T17:00:00Z"), json!("2026-11-19T18:00:00Z"));
        let with = |expected| Store { expected, ..store(&Value::Null) };

        let fresh = verdict(&[with(expected(&published, &Value::Null))]);
        assert_eq!((fresh.level, fresh.sentence.as_str()), (Level::Well, "All is well"));
        let late = verdict(&[with(expected(&published, &since))]);
        assert_eq!((late.level, late.points[0].about.as_str()), (Level::Trouble, "report is late"));
        assert!(
            late.points[0].what.contains("is late since 2026-11-19 18:00 UTC"),
            "{}",
            late.points[0].what
        );

        let never =
            Store { versions: 0, newest: None, newest_cut_at: None, ..with(expected(&Value::Null, &since)) };
        let never_published = verdict(std::slice::from_ref(&never));
        assert_eq!(never_published.level, Level::Trouble);
        assert_eq!(never_published.points[0].about, "report was never published");
        let nothing_expected = Store { expected: None, ..never };
        let said = verdict(std::slice::from_ref(&nothing_expected));
        assert_eq!(
            (said.level, said.points[0].about.as_str()),
            (Level::Attention, "report was never published")
        );
        assert_eq!(said.sentence, "Nothing is kept of report yet");
        let two = verdict(&[nothing_expected.clone(), nothing_expected.clone()]);
        assert_eq!(two.sentence, "Nothing is kept of 2 stores yet");
        let gone = Store { configured: false, ..nothing_expected };
        assert_eq!(verdict(&[gone]).points, []);
    }
}
