//! Cuts by pages of stores that are tracked: only what changed since the newest version is read.
//!
//! A worker follows the store's WAL between two publications, and names each read by a token. Here it is known which version was
//! made of which read. If anything does not fit, all of the store is read, as without tracking.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use asat_core::event::{Cut, CutFailure, Kept};
use asat_core::guard::{self, Step};
use asat_core::{StoreName, VersionId};
use asat_host::store::{Followed, Following};
use asat_host::worker::Follower;

use super::configured::Store;
use super::cut::{Cutting, not_begun};
use super::{Machine, lock};
use crate::config::TrackConfig;

/// The stores that are tracked.
#[derive(Default)]
pub(super) struct Tracking(Mutex<BTreeMap<StoreName, Arc<Mutex<Tracked>>>>);

/// A store that is tracked.
#[derive(Default)]
struct Tracked {
    follower: Option<Follower>,
    base: Option<Base>,
    /// When all of the store was read last.
    read_whole: Option<Instant>,
    /// Why it cannot be tracked, as far as that was told.
    told: Option<String>,
    /// How many pages were missed. It is not tracked any more then.
    missed: u32,
}

/// What of the store is known.
#[derive(Clone, Copy)]
struct Base {
    /// A version with what the store had at this read, or later.
    version: u64,
    token: u64,
}

impl Tracking {
    fn of(&self, store: &StoreName) -> Arc<Mutex<Tracked>> {
        Arc::clone(lock(&self.0).entry(store.clone()).or_default())
    }

    /// Closes a store, of which nothing is known then.
    pub(super) fn close(&self, store: &StoreName) {
        let tracked = lock(&self.0).get(store).cloned();
        // What was missed stays an alarm.
        tracked.inspect(|tracked| lock(tracked).forget());
    }

    /// Tracks no other stores than these any more, and closes those.
    pub(super) fn keep(&self, is_tracked: impl Fn(&StoreName) -> bool) {
        let gone: Vec<_> = lock(&self.0).extract_if(.., |store, _| !is_tracked(store)).collect();
        // To end takes a moment, in which nobody is kept waiting.
        drop(gone);
    }

    /// Takes note that a version was made of all of the store, elsewhere than by its worker. What changed since an earlier read is more than
    /// what changed since that version.
    pub(super) fn read_elsewhere(&self, id: &VersionId, kept: &Kept) {
        let Some(tracked) = lock(&self.0).get(&id.store).cloned() else { return };
        if let Some(base) = &mut lock(&tracked).base {
            base.version = version_of(id, kept);
        }
    }

    /// The stores of which pages were missed, as alarms.
    fn alarms(&self) -> Vec<Step> {
        let stores = lock(&self.0).clone();
        let alarm = |(store, tracked): (StoreName, Arc<Mutex<Tracked>>)| {
            // A publication that is under way says nothing new of that.
            let missed = tracked.try_lock().ok()?.missed;
            (missed > 0).then(|| guard::untracked(&store, missed))
        };
        stores.into_iter().filter_map(alarm).collect()
    }
}

impl Tracked {
    fn forget(&mut self) {
        (self.follower, self.base) = (None, None);
    }

    /// Takes note of which version was made of what was read, and tells why the store is not tracked, once.
    fn note(&mut self, id: &VersionId, kept: &Kept, Followed { token, whole, .. }: Followed) {
        self.base = token.map(|token| Base { version: version_of(id, kept), token });
        if let Some(why) = whole.as_ref().filter(|_| token.is_some()) {
            tracing::info!(store = %id.store, "{id}: all of the store was read: {why}");
        }
        let refused = whole.filter(|_| token.is_none());
        if let Some(why) = refused.as_ref().filter(|_| self.told != refused) {
            tracing::info!(store = %id.store, "{}: it is not tracked: {why}", id.store);
        }
        self.told = refused;
    }
}

impl Machine {
    /// What is to be told of stores that are tracked, as alarms.
    pub(in crate::daemon) fn tracking_alarms(&self) -> Vec<Step> {
        self.tracking.alarms()
    }

    /// How a store is tracked; nothing if it is not.
    pub(super) fn track_of(&self, store: &Store) -> Option<TrackConfig> {
        let track = store.track?;
        let bytes = std::fs::metadata(&store.path).ok()?.len();
        (bytes >= track.least_bytes).then_some(track)
    }

    /// Fixes a version's content in the archive, and reads of the store what has changed, as far as that is known.
    pub(super) fn cut_tracked(
        &self,
        cutting: &Cutting<'_>,
        store: &Store,
        track: TrackConfig,
    ) -> Result<Cut, CutFailure> {
        let name = &cutting.id.store;
        let tracked = self.tracking.of(name);
        let mut tracked = lock(&tracked);
        if tracked.missed > 0 {
            return self.cut_whole(cutting, store);
        }
        let was_followed = tracked.follower.is_some();
        let cut = self.cut_followed(cutting, store, track, &mut tracked);
        let is_over = tracked.follower.as_ref().is_none_or(Follower::is_over);
        if is_over {
            tracked.forget();
        }
        match cut {
            Err(failure) if was_followed && is_over && !self.is_stopping() => {
                tracing::info!(store = %name, "{name}: it is tracked anew: {}", failure.problem);
                self.cut_followed(cutting, store, track, &mut tracked)
            }
            cut => cut,
        }
    }

    fn cut_followed(
        &self,
        cutting: &Cutting<'_>,
        store: &Store,
        track: TrackConfig,
        tracked: &mut Tracked,
    ) -> Result<Cut, CutFailure> {
        let id = cutting.id;
        let newest = self.archives.of(&id.store).map_err(not_begun)?.newest();
        let base = tracked.base.filter(|base| Some(base.version) == newest);
        let is_due = tracked.read_whole.is_none_or(|at| at.elapsed() >= track.check);
        let following = Following {
            bound: track.max_wal,
            since: base.map(|base| base.token),
            audit: base.is_some() && is_due,
        };
        let follower = match &mut tracked.follower {
            Some(follower) => follower,
            none => {
                let follower = self.workers.follow(&store.path);
                none.insert(follower.map_err(|error| not_begun(error.into()))?)
            }
        };
        let mut followed = None;
        let (cut, missed) =
            self.store_pages_after(cutting, base.map(|base| base.version), |checks, sink| {
                let (read, results, told) = follower.read(following, &store.limits, checks, sink)?;
                followed = Some(told);
                Ok((read, results))
            })?;
        if let Some(followed) = followed {
            let is_whole = followed.whole.is_some() || following.audit;
            self.metrics.read(&id.store, is_whole, followed.pages);
            if is_whole {
                tracked.read_whole = Some(Instant::now());
            }
            tracked.note(id, &cut.kept, followed);
        }
        if missed > 0 {
            self.metrics.missed(&id.store, missed);
            tracing::error!(store = %id.store, missed, "{id}: what changed was not known: it is not tracked any more");
            tracked.forget();
            tracked.missed = missed;
        }
        Ok(cut)
    }
}

/// The version that has what was cut.
fn version_of(id: &VersionId, kept: &Kept) -> u64 {
    match kept {
        Kept::SameAs(number) => *number,
        Kept::Snapshot { .. } | Kept::Stored { .. } => id.number,
    }
}
