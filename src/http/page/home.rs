//! `/`: the status page. Whoever runs the service looks once, and knows what is kept, that it is safe, or what is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use asat_core::clock::Anchor;
use asat_core::{Code, Engine, Policy, Problem, SetName, StoreName};
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;

use super::super::access::{Caller, SignedIn};
use super::super::extract::{self, Parameters};
use super::super::{Answer, Face, stores};
use super::calendar::Year;
use super::capacity::Space;
use super::consequences::Consequences;
use super::leases::Leases;
use super::list::{History, ListParameters, Wanted};
use super::plots::{self, Plot};
use super::trail::{self, Event};
use super::verdict::{self, Verdict};
use super::words::Moment;
use super::{Frame, encoded};
use crate::config::Role;
use crate::text::{both, counted, size};
use asat_wire::Store;

/// Of how many stores a year stands on the page that shows all.
const MOST_YEARS: usize = 4;

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    frame: Frame,
    may_publish: bool,
    may_administer: bool,
    verdict: Verdict,
    newest: Option<Newest>,
    stores: Vec<Card>,
    sets: Vec<Set>,
    wanted: Wanted,
    history: History,
    years: Vec<Year>,
    plots: [Plot; 2],
    space: Space,
    leases: Leases,
    /// What was done last, for those who may know it; or why that cannot be read.
    trail: Option<Result<Vec<Event>, Problem>>,
}

/// The newest version of all.
pub(super) struct Newest {
    pub(super) id: String,
    pub(super) cut: Moment,
    pub(super) label: Option<String>,
}

/// A store with what is kept of it.
pub(super) struct Card {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) how: String,
    pub(super) versions: String,
    pub(super) archive: String,
    pub(super) newest: Option<Newest>,
    /// By when it is expected to be published, and how it stands to that.
    pub(super) expected: Option<String>,
    pub(super) is_late: bool,
    pub(super) watch: Option<String>,
    /// How it stands to a bucket.
    pub(super) bucket: Option<String>,
    /// Whether it is one that people publish here.
    pub(super) is_published_here: bool,
    /// Why it cannot be published now, if it cannot.
    pub(super) refused: Option<String>,
    /// The links to its versions and to its page.
    pub(super) href: String,
    pub(super) page: String,
}

/// Stores that are published together.
struct Set {
    name: String,
    stores: String,
    /// Why they cannot be published now, if they cannot.
    refused: Option<String>,
}

pub(super) async fn show(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Extension(signed_in): Extension<SignedIn>,
    Parameters(parameters): Parameters<ListParameters>,
) -> Answer<Response> {
    let now = face.machine.believed().time;
    let (wanted, cursor) = Wanted::read(parameters)?;
    let history = History::read(&face, &wanted, cursor.as_deref(), now)?;
    let may_administer = caller.role >= Role::Admin;
    let trail = match may_administer {
        true => Some(trail::newest(&face, wanted.store.clone(), now).await),
        false => None,
    };
    let listed = stores::listed(&face).stores;
    let (capacity, consequences) = (face.capacity(), consequences(&face));
    let leases = Leases::read(&face, &caller, wanted.store.as_ref(), now);
    let is_shown = |store: &asat_wire::Store| {
        let is_wanted = wanted.store.as_ref().is_none_or(|wanted| wanted.as_str() == store.name);
        is_wanted && store.newest_cut_at.is_some()
    };
    let mut years = Vec::new();
    for store in listed.iter().filter(|store| is_shown(store)).take(MOST_YEARS) {
        years.push(Year::ending(&face, &extract::store(&store.name)?, now).await?);
    }
    // The engine is not held while others look at it: they would wait for a driver that waits for this.
    let engine = face.handle.engine();
    let (register, policy) = (engine.register(), engine.policy());
    let newest = listed.iter().max_by_key(|store| store.newest_cut_at);
    let mut points = verdict::of_records(register, policy);
    points.extend(face.refused.problem().map(|problem| verdict::of_configuration(&problem)));
    let page = Home {
        frame: Frame::of(&caller, signed_in),
        may_publish: caller.role >= Role::Publish && face.machine.follows().config().is_none(),
        may_administer,
        verdict: Verdict::new(&listed, &capacity, &consequences, points),
        newest: newest.and_then(|store| Newest::of(store, &engine, now)),
        stores: listed.iter().map(|store| Card::new(store, &engine, &consequences, now)).collect(),
        sets: policy
            .sets
            .iter()
            .map(|(name, stores)| Set::new(name, stores, policy, &consequences))
            .collect(),
        years,
        plots: [
            plots::by_day(register, wanted.store.as_ref(), now),
            plots::blocked(register, wanted.store.as_ref()),
        ],
        wanted,
        history,
        space: Space::new(&capacity, now),
        leases,
        trail,
    };
    drop(engine);
    Ok(super::answer(StatusCode::OK, &page))
}

/// What follows from what is wrong now.
pub(super) fn consequences(face: &Face) -> Consequences {
    let recording = face.handle.recording().problem();
    let uncertain = face.handle.engine().register().clock().and_then(Anchor::uncertainty);
    let uncertain = uncertain
        .map(|why| Problem::new(Code::ClockDoubted, format!("nobody knows which time it is: {why}"), ""));
    Consequences::new(&face.handle.standing(), recording.into_iter().chain(uncertain))
}

impl Set {
    fn new(
        name: &SetName,
        stores: &BTreeSet<StoreName>,
        policy: &Policy,
        consequences: &Consequences,
    ) -> Self {
        let policies = stores.iter().filter_map(|store| policy.stores.get(store));
        let names: Vec<&str> = stores.iter().map(StoreName::as_str).collect();
        Self {
            name: name.to_string(),
            stores: names.join(", "),
            refused: policies.into_iter().find_map(|policy| consequences.refusal(policy)),
        }
    }
}

impl Newest {
    fn of(store: &Store, engine: &Engine, now: Timestamp) -> Option<Self> {
        let id = store.newest.clone()?;
        let entry = id.parse().ok().and_then(|id| engine.register().entry(&id).ok());
        let label = entry.and_then(|entry| entry.known_by()?.attributes.label.clone());
        Some(Self { label, cut: Moment::new(store.newest_cut_at?, now), id })
    }
}

impl Card {
    pub(super) fn new(store: &Store, engine: &Engine, consequences: &Consequences, now: Timestamp) -> Self {
        let policy = store.name.parse::<StoreName>().ok().and_then(|name| engine.policy().stores.get(&name));
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
            newest: Newest::of(store, engine, now),
            expected: expected(store, now),
            is_late: store.expected.as_ref().is_some_and(|expected| expected.late_since.is_some()),
            watch,
            bucket: bucket(store),
            is_published_here: policy.is_some(),
            refused: policy.and_then(|policy| consequences.refusal(policy)),
            href: format!("/?store={}#versions", encoded(&store.name)),
            page: format!("/page/stores/{}", encoded(&store.name)),
        }
    }
}

/// By when a store is expected to be published, and how it stands to that.
fn expected(store: &Store, now: Timestamp) -> Option<String> {
    let expected = store.expected.as_ref()?;
    let standing = match (expected.late_since, expected.published_at, expected.due_at) {
        (Some(_), None, _) => "never published".to_owned(),
        (Some(since), ..) => format!("late since {}", both(since, now)),
        (None, _, Some(due)) => format!("next due {}", both(due, now)),
        (None, _, None) => "in time".to_owned(),
    };
    Some(format!("Expected {}: {standing}", expected.every))
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
