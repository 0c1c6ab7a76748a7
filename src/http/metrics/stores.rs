//! The stores, and what is kept of them, as the register has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use asat_core::Engine;
use asat_core::event::Intent;
use asat_core::register::{History, Register};
use asat_core::version::{State, Version};
use jiff::Timestamp;

use crate::http::{Face, freshness, remote};
use crate::metrics::Family;

pub(super) fn families(face: &Face) -> Vec<Family> {
    let now = face.machine.believed().time;
    let (engine, mut found) = (face.handle.engine(), Stores::default());
    for history in engine.register().stores() {
        face.handle.metrics().know(&history.store.name);
        let archive = face.machine.archives().bytes(&history.store.name);
        found.add(engine.register(), history, archive, now);
        let store = &history.store.name;
        found.waiting.add([("store", store.as_str())], engine.waiting(Some(store)).bytes);
        found.add_remote(face, history, now);
        let is_late = freshness::problem(&engine, history, now).is_some();
        found.late.add([("store", store.as_str())], u64::from(is_late));
        if let Some(standing) = face.machine.follows().standing(store) {
            found.follow_failing.add([("store", store.as_str())], u64::from(standing.trouble.is_some()));
        }
    }
    found.add_effects(engine.register().intents(), now);
    found.add_lease_bounds(&engine, now);
    drop(engine);
    for (store, watched) in face.handle.watches().read().iter() {
        found.watch_failing.add([("store", store.as_str())], u64::from(watched.trouble.is_some()));
    }
    found.add_requests(face);
    found.into_families()
}

/// The metrics of stores in the making.
struct Stores {
    versions: Family,
    bytes: Family,
    newest: Family,
    late: Family,
    lag: Family,
    leases: Family,
    lease_bounds: Family,
    waiting: Family,
    watch_failing: Family,
    open_effects: Family,
    oldest_effect: Family,
    remote_pending: Family,
    remote_lag: Family,
    remote_failing: Family,
    remote_requests: Family,
    remote_bytes: Family,
    follow_failing: Family,
    cache: Family,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            versions: Family::gauge("asat_versions", "Versions, by where they stand in their lives."),
            bytes: Family::gauge(
                "asat_store_bytes",
                "What is kept of a store takes so much, by what holds it.",
            ),
            newest: Family::gauge(
                "asat_newest_version_timestamp_seconds",
                "When the newest version that can be read was cut, since 1970.",
            ),
            late: Family::gauge(
                "asat_store_late",
                "1 if a store was not published by the time at which it is expected, or never within a day, else 0.",
            ),
            lag: Family::gauge(
                "asat_archive_lag_seconds",
                "The age of the oldest version that is in its snapshot alone; 0 if there is none.",
            ),
            leases: Family::gauge("asat_leases", "Leases that are held on versions."),
            lease_bounds: Family::gauge(
                "asat_lease_bound_used_ratio",
                "How much of the bound on open leases is used: of all callers (all), and of the one that has the most (caller).",
            ),
            waiting: Family::gauge(
                "asat_grace_bytes",
                "What retired versions take whose pages stay until their grace is over.",
            ),
            watch_failing: Family::gauge(
                "asat_watch_failing",
                "Whether watch mode has trouble with a store (1), or has none (0).",
            ),
            open_effects: Family::gauge("asat_open_effects", "What is under way or waits for its turn."),
            oldest_effect: Family::gauge(
                "asat_oldest_effect_seconds",
                "For how long the oldest of what is under way, or waits for its turn, has been so.",
            ),
            remote_pending: Family::gauge(
                "asat_remote_pending_versions",
                "Versions that can be opened and are not in the bucket.",
            ),
            remote_lag: Family::gauge(
                "asat_remote_lag_seconds",
                "The age of the oldest version that can be opened and is not in the bucket; 0 if there is none.",
            ),
            remote_failing: Family::gauge(
                "asat_remote_failing",
                "Whether something keeps a store's versions from the bucket (1), or nothing (0).",
            ),
            remote_requests: Family::counter(
                "asat_remote_requests_total",
                "Requests to the bucket, by how services price them.",
            ),
            remote_bytes: Family::counter("asat_remote_bytes_total", "Bytes of objects, by where they went."),
            follow_failing: Family::gauge(
                "asat_follow_failing",
                "Whether something keeps a store from being followed (1), or nothing (0).",
            ),
            cache: Family::gauge("asat_cache_bytes", "What is kept here of the bucket that is followed."),
        }
    }
}

impl Stores {
    fn add(&mut self, register: &Register, history: &History, archive_bytes: u64, now: Timestamp) {
        let store = history.store.name.as_str();
        let mut states = BTreeMap::<&str, u64>::new();
        let (mut snapshots, mut copies, mut waits_since) = (0_u64, 0_u64, None::<Timestamp>);
        for headline in history.versions.headlines() {
            *states.entry(headline.state.text()).or_default() += 1;
        }
        for version in history.moving() {
            snapshots = snapshots.saturating_add(version.snapshot().map_or(0, |snapshot| snapshot.bytes));
            let copy = version.copy.as_ref().filter(|copy| !copy.in_snapshot);
            copies = copies.saturating_add(copy.map_or(0, |copy| copy.bytes));
            if let Some(cut_at) = waits(version) {
                waits_since = Some(waits_since.map_or(cut_at, |since| since.min(cut_at)));
            }
        }
        for state in State::ALL.map(State::text) {
            self.versions.add([("store", store), ("state", state)], states.get(state).copied().unwrap_or(0));
        }
        for (holding, bytes) in [("archive", archive_bytes), ("snapshot", snapshots), ("copy", copies)] {
            self.bytes.add([("store", store), ("holding", holding)], bytes);
        }
        if let Some(entry) = history.newest_readable() {
            let cut_at = entry.version.content.as_ref().map(|content| content.cut_at);
            let at = cut_at.unwrap_or(entry.version.begun_at).as_duration().as_secs_f64();
            self.newest.add_real([("store", store)], at);
        }
        self.lag.add_real([("store", store)], waits_since.map_or(0.0, |since| age(since, now)));
        let of_store = register.leases().filter(|lease| lease.version.store == history.store.name);
        let leases = of_store.filter(|lease| now < lease.expires_at).count();
        self.leases.add([("store", store)], u64::try_from(leases).unwrap_or(u64::MAX));
    }

    fn add_remote(&mut self, face: &Face, history: &History, now: Timestamp) {
        let Some(standing) = face.machine.remotes().standing(&history.store.name) else { return };
        let labels = || [("store", history.store.name.as_str())];
        let (_, pending, oldest) = remote::counted(history, &standing);
        let since = oldest.and_then(|number| remote::cut_at(history, number));
        self.remote_pending.add(labels(), pending);
        self.remote_lag.add_real(labels(), since.map_or(0.0, |since| age(since, now)));
        self.remote_failing.add(labels(), u64::from(standing.trouble.is_some()));
    }

    fn add_requests(&mut self, face: &Face) {
        let followed = face.machine.follows().used();
        if let Some(used) = &followed {
            self.cache.add([], used.1.bytes());
        }
        let service = followed.map(|used| Arc::clone(&used.0)).or_else(|| face.machine.remotes().service());
        let Some(service) = service else { return };
        let asked = service.requests();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.remote_requests.add([("kind", "write")], count(&asked.writes));
        self.remote_requests.add([("kind", "read")], count(&asked.reads));
        self.remote_bytes.add([("direction", "sent")], count(&asked.sent_bytes));
        self.remote_bytes.add([("direction", "received")], count(&asked.received_bytes));
    }

    fn add_lease_bounds(&mut self, engine: &Engine, now: Timestamp) {
        let (bounds, used) = (engine.policy().leases, engine.lease_use(now));
        let most = used.callers.values().copied().max().unwrap_or(0);
        for (of, bound, open) in [("all", bounds.in_all, used.in_all), ("caller", bounds.per_caller, most)] {
            let [open, bound] = [open, bound].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            self.lease_bounds.add_real([("of", of)], f64::from(open) / f64::from(bound.max(1)));
        }
    }

    fn add_effects<'a>(&mut self, intents: impl Iterator<Item = &'a Intent>, now: Timestamp) {
        let mut kinds = BTreeMap::<&str, (u64, f64)>::new();
        for intent in intents {
            let (count, oldest) = kinds.entry(intent.effect.text()).or_default();
            *count += 1;
            *oldest = oldest.max(age(intent.at, now));
        }
        for (effect, (count, oldest)) in kinds {
            self.open_effects.add([("effect", effect)], count);
            self.oldest_effect.add_real([("effect", effect)], oldest);
        }
    }

    fn into_families(self) -> Vec<Family> {
        vec![
            self.versions,
            self.bytes,
            self.newest,
            self.late,
            self.lag,
            self.leases,
            self.lease_bounds,
            self.waiting,
            self.watch_failing,
            self.open_effects,
            self.oldest_effect,
            self.remote_pending,
            self.remote_lag,
            self.remote_failing,
            self.remote_requests,
            self.remote_bytes,
            self.follow_failing,
            self.cache,
        ]
    }
}

/// When a version was cut that is in its snapshot alone.
fn waits(version: &Version) -> Option<Timestamp> {
    let is_waiting = version.state == State::Ready && !version.is_archived();
    version.content.as_ref().filter(|_| is_waiting).map(|content| content.cut_at)
}

/// How long ago something was, in seconds; nothing if the clock went back.
fn age(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}
