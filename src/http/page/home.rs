//! `/`: the status page. Whoever runs the service looks once, and knows what is kept, that it is safe, or what is not.

use std::cmp::Reverse;
use std::sync::Arc;

use asat_core::query::Filter;
use asat_core::{Problem, StoreName};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::super::access::{Caller, SignedIn};
use super::super::extract::{self, Parameters};
use super::super::{Answer, Face, cursor, leases, stores};
use super::Frame;
use super::capacity::Space;
use super::plots::{self, Plot};
use super::timeline::{self, Day};
use super::verdict::{self, Verdict};
use super::version;
use super::words::Moment;
use crate::config::Role;
use crate::text::{counted, size};
use asat_wire::{Lease, Store};

/// How many versions stand on one page.
const MOST_VERSIONS: usize = 30;
/// How many open leases do, those that were taken last.
const MOST_LEASES: usize = 20;

/// Which part of the history to show.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HomeParameters {
    /// Only this store's.
    store: Option<String>,
    /// Where to go on.
    cursor: Option<String>,
}

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    frame: Frame,
    may_publish: bool,
    may_administer: bool,
    verdict: Verdict,
    newest: Option<Newest>,
    stores: Vec<Card>,
    sets: Vec<(String, String)>,
    chosen: Option<String>,
    history: History,
    plots: [Plot; 2],
    space: Space,
    leases: Vec<Row>,
    /// How many more there are.
    more_leases: usize,
}

/// The newest version of all.
struct Newest {
    id: String,
    cut: Moment,
    label: Option<String>,
}

/// A store with what is kept of it.
struct Card {
    name: String,
    path: String,
    how: String,
    versions: String,
    archive: String,
    newest: Option<Newest>,
    watch: Option<String>,
    /// How it stands to a bucket.
    bucket: Option<String>,
    can_be_published: bool,
    href: String,
}

/// A part of the time line.
struct History {
    days: Vec<Day>,
    is_newest: bool,
    newest_href: String,
    older_href: Option<String>,
}

/// An open lease.
struct Row {
    version: String,
    holder: String,
    actor: String,
    granted: Moment,
    expires: Moment,
    path: Option<String>,
}

pub(super) async fn show(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Extension(signed_in): Extension<SignedIn>,
    Parameters(HomeParameters { store, cursor }): Parameters<HomeParameters>,
) -> Answer<Response> {
    let store = store.as_deref().map(extract::store).transpose()?;
    let now = face.machine.believed().time;
    let history = History::read(&face, store.clone(), cursor.as_deref(), now)?;
    let listed = stores::listed(&face).stores;
    let capacity = face.capacity();
    let mut leases = leases::open(&face, store.as_ref(), None).leases;
    leases.sort_by_key(|lease| Reverse(lease.granted_at));
    // The engine is not held while others look at it: they would wait for a driver that waits for this.
    let engine = face.handle.engine();
    let (register, policy) = (engine.register(), engine.policy());
    let label = |id: &str| {
        let entry = register.entry(&id.parse().ok()?).ok()?;
        entry.publications.last()?.attributes.label.clone()
    };
    let cards: Vec<Card> = listed.iter().map(|store| Card::new(store, label, now)).collect();
    let newest =
        listed.iter().max_by_key(|store| store.newest_cut_at).and_then(|store| Newest::of(store, label, now));
    let sets = policy.sets.iter().map(|(name, stores)| {
        let stores: Vec<&str> = stores.iter().map(StoreName::as_str).collect();
        (name.to_string(), stores.join(", "))
    });
    let page = Home {
        frame: Frame::of(&caller, signed_in),
        may_publish: caller.role >= Role::Publish && face.machine.follows().config().is_none(),
        may_administer: caller.role >= Role::Admin,
        verdict: Verdict::new(&listed, &capacity, verdict::of_records(register, policy)),
        newest,
        stores: cards,
        sets: sets.collect(),
        plots: [plots::by_day(register, store.as_ref(), now), plots::blocked(register, store.as_ref())],
        chosen: store.map(|store| store.to_string()),
        history,
        space: Space::new(&capacity, now),
        more_leases: leases.len().saturating_sub(MOST_LEASES),
        leases: leases.into_iter().take(MOST_LEASES).map(|lease| Row::new(lease, now)).collect(),
    };
    drop(engine);
    Ok(super::answer(StatusCode::OK, &page))
}

impl Newest {
    fn of(store: &Store, label: impl Fn(&str) -> Option<String>, now: Timestamp) -> Option<Self> {
        let id = store.newest.clone()?;
        Some(Self { label: label(&id), cut: Moment::new(store.newest_cut_at?, now), id })
    }
}

impl Card {
    fn new(store: &Store, label: impl Fn(&str) -> Option<String>, now: Timestamp) -> Self {
        let watch = store.watch.as_ref().filter(|watch| watch.trouble.is_none()).map(|watch| {
            match &watch.published {
                Some(value) => format!("published by itself, last at {value}"),
                None => "published by itself as soon as something is certified".to_owned(),
            }
        });
        Self {
            name: store.name.clone(),
            path: store.path.clone(),
            how: match (store.configured, store.backend.as_str()) {
                (false, _) => "not in the configuration any more".to_owned(),
                (true, "none") => "cannot be published now".to_owned(),
                (true, "bucket") => "read from a bucket".to_owned(),
                (true, "pages") => "cut by reading its pages".to_owned(),
                (true, backend) => format!("cut by {backend}"),
            },
            versions: counted(u64::try_from(store.versions).unwrap_or(u64::MAX), "version"),
            archive: size(store.archive_bytes),
            newest: Newest::of(store, label, now),
            watch,
            bucket: bucket(store),
            can_be_published: store.configured && !matches!(store.backend.as_str(), "none" | "bucket"),
            href: format!("/?store={}", encoded(&store.name)),
        }
    }
}

/// How a store stands to the bucket that it is published to, or followed from, if there is one.
fn bucket(store: &Store) -> Option<String> {
    if let Some(followed) = &store.followed {
        let host = followed.host.as_ref()?;
        return Some(format!("published by {host}"));
    }
    let remote = store.remote.as_ref()?;
    Some(match (remote.state.as_str(), remote.pending) {
        ("stored", _) => format!("all of it is in {}", remote.url),
        ("fenced", _) => format!("another machine publishes it to {}", remote.url),
        (_, pending) => format!("{} not in {} yet", be(pending), remote.url),
    })
}

fn be(count: u64) -> String {
    format!("{} {}", counted(count, "version"), if count == 1 { "is" } else { "are" })
}

impl History {
    fn read(
        face: &Face,
        store: Option<StoreName>,
        from: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let query =
            store.as_ref().map(|store| format!("store={}&", encoded(store.as_str()))).unwrap_or_default();
        let filter = Filter { store, ..Filter::default() };
        let after = from.map(|text| cursor::read(text, &filter)).transpose()?;
        let engine = face.handle.engine();
        let register = engine.register();
        let (entries, next) = register.list(&filter, after.as_ref(), MOST_VERSIONS)?;
        let before: Vec<_> =
            entries.iter().map(|entry| version::before(register, &entry.version.id)).collect();
        let written = entries.into_iter().map(|entry| face.listed(register, entry));
        let mut days = timeline::days(written.collect(), now);
        // The engine is not held while what is known is read from the disk.
        drop(engine);
        for (item, pair) in days.iter_mut().flat_map(|day| &mut day.versions).zip(before) {
            item.changed = pair.and_then(|(before, id)| version::known(&face.comparisons, &before, &id));
        }
        Ok(Self {
            days,
            is_newest: after.is_none(),
            newest_href: format!("/?{}", query.trim_end_matches('&')),
            older_href: next.map(|place| {
                format!("/?{query}cursor={}#versions", encoded(&cursor::write(&place, &filter)))
            }),
        })
    }
}

impl Row {
    fn new(lease: Lease, now: Timestamp) -> Self {
        Self {
            version: lease.version,
            holder: lease.holder,
            actor: lease.actor.unwrap_or_else(|| "not recorded".to_owned()),
            granted: Moment::new(lease.granted_at, now),
            expires: Moment::new(lease.expires_at, now),
            path: lease.path,
        }
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
