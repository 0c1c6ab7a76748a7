//! How an asat that follows a bucket stands, for those who ask.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use asat_core::guard::{self, Step};
use asat_core::{Code, Problem, StoreName};
use asat_remote::{Cache, Manifest, Service};
use jiff::Timestamp;

use crate::config::{Config, FollowConfig};
use crate::daemon::machine::lock;

/// How a followed store stands.
#[derive(Clone, Debug, Default)]
pub struct FollowStanding {
    /// The newest manifest that was come to.
    pub manifest: Option<Arc<Manifest>>,
    /// When the bucket was last seen to have nothing newer.
    pub seen_at: Option<Timestamp>,
    /// What keeps it from being followed, and since when.
    pub trouble: Option<(Problem, Timestamp)>,
    /// When all was well last.
    well: Option<Instant>,
    is_recorded: bool,
    /// Why what is recorded beside the versions cannot be read.
    unrecorded: Option<Problem>,
}

/// How all of it stands. Without a `[follow]` in the configuration nothing does.
#[derive(Debug)]
pub struct Follows {
    config: Option<FollowConfig>,
    /// Where it is noted to which manifest each store has come.
    notes: PathBuf,
    stores: Mutex<BTreeMap<StoreName, FollowStanding>>,
    bucket: Mutex<BucketStanding>,
    used: ArcSwapOption<(Arc<Service>, Arc<Cache>)>,
}

/// How the bucket itself stands.
#[derive(Debug)]
struct BucketStanding {
    trouble: Option<(Problem, Timestamp)>,
    /// When a look at all of it ended last, be it with trouble in one store.
    looked: Instant,
    /// Whether one ever did.
    has_answered: bool,
}

/// What a look has changed.
pub(super) enum Turn {
    /// Something keeps it from being followed that did not before.
    Worse(Problem),
    /// Nothing does any more.
    Better,
    Same,
}

impl Follows {
    pub(in crate::daemon) fn new(config: &Config) -> Self {
        let bucket = BucketStanding { trouble: None, looked: Instant::now(), has_answered: false };
        Self {
            config: config.follow.clone(),
            notes: config.follow_notes(),
            stores: Mutex::default(),
            bucket: Mutex::new(bucket),
            used: ArcSwapOption::empty(),
        }
    }

    /// Where it is noted to which manifest a store has come. There is a note as soon as all of one is recorded.
    pub(super) fn note_of(&self, store: &StoreName) -> PathBuf {
        self.notes.join(format!("{store}.json"))
    }

    /// Whether all of a store was recorded once, in this run or an earlier one.
    #[must_use]
    pub fn is_complete(&self, store: &StoreName) -> bool {
        self.note_of(store).exists()
    }

    /// What is configured, if this daemon follows a bucket.
    #[must_use]
    pub fn config(&self) -> Option<&FollowConfig> {
        self.config.as_ref()
    }

    /// How a store stands; nothing if no bucket is followed.
    #[must_use]
    pub fn standing(&self, store: &StoreName) -> Option<FollowStanding> {
        self.config.as_ref()?;
        let mut standing = lock(&self.stores).get(store).cloned().unwrap_or_default();
        // As long as the bucket does not answer, nothing is known of its stores.
        standing.trouble = lock(&self.bucket).trouble.clone().or(standing.trouble);
        Some(standing)
    }

    /// Notes why what a store has recorded beside its versions cannot be read; nothing if it can.
    pub(super) fn lacks_records(&self, store: &StoreName, why: Option<Problem>) {
        lock(&self.stores).entry(store.clone()).or_default().unrecorded = why;
    }

    /// Why what a store has recorded beside its versions could not be read when it was looked for last.
    pub(super) fn lacking_records(&self, store: &StoreName) -> Option<Problem> {
        lock(&self.stores).get(store)?.unrecorded.clone()
    }

    /// The service and the cache, once the bucket has answered.
    #[must_use]
    pub fn used(&self) -> Option<Arc<(Arc<Service>, Arc<Cache>)>> {
        self.used.load_full()
    }

    /// Why a store's archive cannot be had, although a bucket is followed.
    #[must_use]
    pub fn unseen(&self, store: &StoreName) -> Option<Problem> {
        self.config.as_ref()?;
        let problem = self.standing(store).and_then(|standing| standing.trouble).map(|(problem, _)| problem);
        let problem = problem.or_else(|| self.unanswered()).unwrap_or_else(|| {
            let detail = "the bucket does not have it, or it is not followed";
            Problem::new(Code::RemoteUnavailable, detail, "asat remote list says which stores the bucket has")
        });
        // Whatever keeps it away: to those who ask for a version, it is away.
        let detail = format!("{store} cannot be read: {}", problem.detail);
        Some(Problem { code: Code::RemoteUnavailable, detail, ..problem })
    }

    /// What keeps the bucket from answering, if one is followed and it has never answered since the start.
    #[must_use]
    pub fn unanswered(&self) -> Option<Problem> {
        let config = self.config.as_ref()?;
        let bucket = lock(&self.bucket);
        if bucket.has_answered {
            return None;
        }
        let yet = || {
            let detail = format!("{} has not answered yet", config.place.url);
            Problem::new(Code::RemoteUnavailable, detail, "look at the network and at the service")
        };
        // Whatever keeps it from answering: to those who ask for a version, it is away.
        let away = |(problem, _): &(Problem, Timestamp)| Problem {
            code: Code::RemoteUnavailable,
            ..problem.clone()
        };
        Some(bucket.trouble.as_ref().map_or_else(yet, away))
    }

    /// The stores that could not be followed for longer than the configuration allows, and the bucket if that is so, as alarms.
    pub(in crate::daemon) fn late(&self) -> Vec<Step> {
        let Some(config) = &self.config else { return Vec::new() };
        let (looked, trouble) = {
            let bucket = lock(&self.bucket);
            (bucket.looked.elapsed(), bucket.trouble.clone())
        };
        let minutes = |since: Duration| since.as_secs() / 60;
        if looked >= config.late_after {
            let (why, hint) = match trouble {
                Some((problem, _)) => (problem.detail, problem.hint),
                None => ("no look at it has ended since".to_owned(), "restart asat".to_owned()),
            };
            let (url, minutes) = (&config.place.url, minutes(looked));
            let text = format!("{url} has not been followed for {minutes} minutes: {why}");
            return vec![guard::unfollowed(url, text, hint)];
        }
        let late = |(store, standing): (&StoreName, &FollowStanding)| {
            let (problem, _) = standing.trouble.as_ref()?;
            let since =
                standing.well.map(|well| well.elapsed()).filter(|since| *since >= config.late_after)?;
            let text =
                format!("{store} has not been followed for {} minutes: {}", minutes(since), problem.detail);
            Some(guard::unstored(store, text, problem.hint.clone()))
        };
        lock(&self.stores).iter().filter_map(late).collect()
    }

    pub(super) fn served_by(&self, service: Arc<Service>, cache: Arc<Cache>) {
        self.used.store(Some(Arc::new((service, cache))));
    }

    /// Whether all of a manifest of this number is recorded.
    pub(super) fn is_recorded(&self, store: &StoreName, manifest: u64) -> bool {
        let is_it = |standing: &FollowStanding| {
            standing.is_recorded && standing.manifest.as_ref().is_some_and(|known| known.number == manifest)
        };
        lock(&self.stores).get(store).is_some_and(is_it)
    }

    /// Takes note of the manifest that the archive has come to.
    pub(super) fn come_to(&self, store: &StoreName, manifest: Manifest) {
        let mut stores = lock(&self.stores);
        let standing = stores.entry(store.clone()).or_default();
        (standing.manifest, standing.is_recorded) = (Some(Arc::new(manifest)), false);
    }

    /// Takes note that all of it is recorded.
    pub(super) fn recorded(&self, store: &StoreName) {
        lock(&self.stores).entry(store.clone()).or_default().is_recorded = true;
    }

    /// Has all of it be compared with the records once more.
    pub(super) fn record_again(&self) {
        lock(&self.stores).values_mut().for_each(|standing| standing.is_recorded = false);
    }

    /// Takes note of what came of a look at a store, or at the bucket.
    pub(super) fn note(&self, store: Option<&StoreName>, looked: Result<(), Problem>) -> Turn {
        let Some(store) = store else {
            let mut bucket = lock(&self.bucket);
            if looked.is_ok() {
                (bucket.has_answered, bucket.looked) = (true, Instant::now());
            }
            return turn(&mut bucket.trouble, looked);
        };
        let mut stores = lock(&self.stores);
        let standing = stores.entry(store.clone()).or_default();
        // One that was never well is counted from its first look on.
        standing.well.get_or_insert_with(Instant::now);
        if looked.is_ok() {
            (standing.seen_at, standing.well) = (Some(Timestamp::now()), Some(Instant::now()));
        }
        turn(&mut standing.trouble, looked)
    }
}

fn turn(trouble: &mut Option<(Problem, Timestamp)>, looked: Result<(), Problem>) -> Turn {
    let before = trouble.take();
    let Err(problem) = looked else {
        return if before.is_some() { Turn::Better } else { Turn::Same };
    };
    let since = before.as_ref().map_or_else(Timestamp::now, |(_, since)| *since);
    *trouble = Some((problem.clone(), since));
    // Each try may say it in other words.
    let is_known = before.is_some_and(|(before, _)| before.code == problem.code);
    if is_known { Turn::Same } else { Turn::Worse(problem) }
}
