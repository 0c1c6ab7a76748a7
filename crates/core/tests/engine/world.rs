//! A world for the engine: a catalogue that always commits, a machine that is a few sets, and a clock that
//! stands still unless it is told to move.
//!
//! Every event goes through [`World::tell`], which checks what must always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use asat_core::event::{
    Answer, Archived, Change, Cut, CutFailure, Described, Effect, EffectId, Event, Kept, Open, Outcome,
    Publish, Reply, Restore, Retired, Survey,
};
use asat_core::register::{Entry, Register};
use asat_core::retention::Retention;
use asat_core::version::{Attributes, Content, LeaseId, State, Version};
use asat_core::{
    Code, Engine, Fingerprint, PageSize, Policy, Problem, StoreName, StorePolicy, VersionId, VersionRef,
};
use jiff::{SignedDuration, Timestamp};

use crate::invariants;

/// The size of every version's copy.
pub(crate) const COPY: u64 = 4096;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    pub(crate) archive: BTreeMap<VersionId, Described>,
    pub(crate) copies: BTreeSet<VersionId>,
    /// What each store's file holds at the moment.
    pub(crate) live: BTreeMap<StoreName, u128>,
    pub(crate) remarks: Vec<String>,
    /// The changes of every decision, in order.
    pub(crate) decided: Vec<Vec<Change>>,
    /// Every version that somebody was told of.
    pub(crate) acknowledged: BTreeSet<VersionId>,
}

pub(crate) fn store(name: &str) -> StoreName {
    name.parse().unwrap()
}

pub(crate) fn id(text: &str) -> VersionId {
    text.parse().unwrap()
}

pub(crate) fn exactly(text: &str) -> VersionRef {
    text.parse().unwrap()
}

pub(crate) fn policy(stores: &[(&str, Retention)]) -> Policy {
    let one = |(name, retention): &(&str, Retention)| {
        let path = PathBuf::from(format!("/srv/{name}.db"));
        (store(name), StorePolicy { path, retention: retention.clone() })
    };
    Policy { stores: stores.iter().map(one).collect(), max_copy_bytes: 3 * COPY, max_ttl_s: 3600 }
}

pub(crate) fn trouble(code: Code) -> Problem {
    Problem::new(code, "made up", "")
}

impl World {
    /// A daemon that has just started for the first time.
    pub(crate) fn new(stores: &[(&str, Retention)]) -> Self {
        let mut world = Self {
            engine: Engine::new(policy(stores), Register::default()),
            now: "2026-11-19T17:00:00Z".parse().unwrap(),
            archive: BTreeMap::new(),
            copies: BTreeSet::new(),
            live: BTreeMap::new(),
            remarks: Vec::new(),
            decided: Vec::new(),
            acknowledged: BTreeSet::new(),
        };
        world.restart();
        world
    }

    /// A daemon with one store, `report`, of which everything is kept.
    pub(crate) fn report() -> Self {
        Self::new(&[("report", Retention::default())])
    }

    /// The same with versions 1 to `count`, a minute apart.
    pub(crate) fn with_versions(count: usize) -> Self {
        let mut world = Self::report();
        for _ in 0..count {
            world.publish_new("report");
            world.pass(60);
        }
        world
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn register(&self) -> &Register {
        self.engine.register()
    }

    pub(crate) fn entry(&self, text: &str) -> &Entry {
        self.register().entry(&id(text)).unwrap()
    }

    pub(crate) fn version(&self, text: &str) -> &Version {
        &self.entry(text).version
    }

    pub(crate) fn state(&self, text: &str) -> State {
        self.version(text).state
    }

    /// Every version of a store with its state, as `1 ready, 2 failed`.
    pub(crate) fn states(&self, name: &str) -> String {
        let history = self.register().history(&store(name)).unwrap();
        let show = |entry: &Entry| format!("{} {}", entry.version.id.number, entry.version.state.text());
        history.versions.values().map(show).collect::<Vec<_>>().join(", ")
    }

    /// The effects that are open, as `cut report@3`, in order.
    pub(crate) fn open_effects(&self) -> Vec<String> {
        self.register().intents().map(|intent| show(&intent.effect)).collect()
    }

    /// Lets the engine decide and take in what it decided.
    pub(crate) fn tell(&mut self, event: &Event) -> Answer {
        let before = self.register().clone();
        let decision = self.engine.decide(self.now, event);
        assert_eq!(*self.register(), before, "deciding changes nothing");
        assert_eq!(self.engine.decide(self.now, event), decision, "the same event gives the same decision");
        for change in &decision.changes {
            if let Change::Published(publication) = change {
                self.acknowledged.insert(publication.version.clone());
            }
            self.engine.evolve(change);
        }
        invariants::check(self, &before, event);
        self.remarks.extend(decision.remarks);
        self.decided.push(decision.changes);
        decision.answer
    }

    /// An event that is answered at once.
    pub(crate) fn ask(&mut self, event: &Event) -> Result<Reply, Problem> {
        match self.tell(event) {
            Answer::Now(answer) => answer,
            Answer::After(effect) => panic!("{event:?} waits for {effect:?}"),
        }
    }

    /// An event that is answered when an effect is over.
    pub(crate) fn begin(&mut self, event: &Event) -> EffectId {
        match self.tell(event) {
            Answer::After(effect) => effect,
            Answer::Now(answer) => panic!("{event:?} is answered at once: {answer:?}"),
        }
    }

    /// An event that is refused.
    pub(crate) fn refused(&mut self, event: &Event) -> Problem {
        let before = self.register().clone();
        let Answer::Now(Err(problem)) = self.tell(event) else { panic!("{event:?} is not refused") };
        assert_eq!(*self.register(), before, "a refusal changes nothing");
        problem
    }

    pub(crate) fn finish(&mut self, effect: EffectId, outcome: Outcome) -> Result<Reply, Problem> {
        match self.tell(&Event::Finished { effect, outcome }) {
            Answer::Now(answer) => answer,
            // Who waited for this effect waits for that one.
            Answer::After(next) => {
                assert!(self.register().intent(next).is_some());
                Ok(Reply::Done)
            }
        }
    }

    /// Performs an open effect on the machine, and tells the engine.
    pub(crate) fn perform(&mut self, effect: EffectId) -> Result<Reply, Problem> {
        let intent = self.register().intent(effect).expect("an open effect").clone();
        let outcome = self.act(&intent.effect);
        self.finish(effect, outcome)
    }

    /// The open effect that was intended first.
    pub(crate) fn oldest_effect(&self) -> Option<EffectId> {
        self.register().intents().map(|intent| intent.id).next()
    }

    /// Performs everything that is open, and whatever follows from it.
    pub(crate) fn settle(&mut self) {
        while let Some(effect) = self.oldest_effect() {
            self.perform(effect).unwrap();
        }
    }

    /// What the machine does; the engine is not told.
    pub(crate) fn act(&mut self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Cut { version, attributes, key, after, .. } => {
                let content = self.live_content(&version.store, *after);
                let newest = self.archive.iter().rfind(|(id, _)| id.store == version.store);
                let kept = match newest {
                    Some((same, held)) if held.content.fingerprint == content.fingerprint => {
                        Kept::SameAs(same.number)
                    }
                    _ => {
                        let described = Described {
                            content: content.clone(),
                            bytes: 100,
                            attributes: attributes.clone(),
                            key: key.clone(),
                        };
                        self.archive.insert(version.clone(), described);
                        Kept::Stored { content, bytes: 100 }
                    }
                };
                Outcome::Cut(Ok(Cut { writer_blocked_us: 400, kept }))
            }
            Effect::Retire { version } => {
                let freed_bytes = self.archive.remove(version).map_or(0, |described| described.bytes);
                Outcome::Retire(Ok(Retired { freed_bytes, worth_compacting: false }))
            }
            Effect::Restore { version, before, .. } => {
                let name = &version.store;
                let wanted = self.archive.get(version).expect("nothing lets it go meanwhile");
                let kept = self.archive.get(before).expect("today's state is kept");
                if kept.content.fingerprint != self.live_content(name, None).fingerprint {
                    return Outcome::Restore(Err(trouble(Code::StoreBusy)));
                }
                self.live.insert(name.clone(), wanted.content.fingerprint.0);
                Outcome::Restore(Ok(700))
            }
            Effect::Compact { .. } => Outcome::Compact(Ok(())),
            Effect::MakeCopy { version, .. } if self.archive.contains_key(version) => {
                self.copies.insert(version.clone());
                Outcome::MakeCopy(Ok(COPY))
            }
            Effect::MakeCopy { .. } => Outcome::MakeCopy(Err(trouble(Code::Damaged))),
            Effect::DropCopy { version } => {
                let leased = self.register().leases_on(version).any(|lease| lease.expires_at > self.now);
                let whole = self.copies.remove(version);
                assert!(!(whole && leased), "the copy of {version} is dropped under a lease");
                Outcome::DropCopy(Ok(()))
            }
        }
    }

    /// The content of a store's file as a cut at this moment would find it.
    pub(crate) fn live_content(&self, name: &StoreName, after: Option<Timestamp>) -> Content {
        let newest = self.archive.iter().rfind(|(id, _)| id.store == *name).map(|(_, d)| d.content.cut_at);
        let floor = after.max(newest).map(|last| last + SignedDuration::from_micros(1));
        Content {
            cut_at: floor.map_or(self.now, |floor| floor.max(self.now)),
            fingerprint: Fingerprint(self.live.get(name).copied().unwrap_or(0)),
            page_size: PageSize::new(4096).unwrap(),
            page_count: 1,
            wal: true,
        }
    }

    /// Somebody writes to a store.
    pub(crate) fn write(&mut self, name: &str) {
        *self.live.entry(store(name)).or_default() += 1;
    }

    /// Asks for a publication with a label.
    pub(crate) fn publishing(name: &str, label: &str, key: Option<&str>) -> Event {
        let attributes = Attributes { label: Some(label.to_owned()), ..Attributes::default() };
        Event::Publish(Publish { store: Some(store(name)), attributes, key: key.map(str::to_owned) })
    }

    /// Publishes what the store holds.
    pub(crate) fn publish(&mut self, name: &str, label: &str) -> VersionId {
        let effect = self.begin(&Self::publishing(name, label, None));
        let Ok(Reply::Published(number)) = self.perform(effect) else { panic!("{name} was not published") };
        self.register().publication(number).unwrap().version.clone()
    }

    /// Writes to a store and publishes it: a new version.
    pub(crate) fn publish_new(&mut self, name: &str) -> VersionId {
        self.write(name);
        self.publish(name, "close")
    }

    /// Asks for a store to be brought back to a version of its own.
    pub(crate) fn restoring(version: &str) -> Event {
        let (version, note) = (exactly(version), Some("it went wrong".to_owned()));
        let (VersionRef::Exact(VersionId { store, .. }) | VersionRef::Latest(store)) = version.clone();
        Event::Restore(Restore { store, version, certified_by: Some("ann".to_owned()), note })
    }

    pub(crate) fn opening(version: &str, lease: &str, ttl_s: u32) -> Event {
        let (version, holder) = (exactly(version), "ann".to_owned());
        Event::Open(Open { version, lease: LeaseId(lease.to_owned()), holder, ttl_s })
    }

    /// Opens a version for an hour.
    pub(crate) fn open(&mut self, version: &str, lease: &str) {
        let effect = self.begin(&Self::opening(version, lease, 3600));
        while self.register().intent(effect).is_some() {
            let oldest = self.oldest_effect().unwrap();
            self.perform(oldest).unwrap();
        }
    }

    pub(crate) fn close(&mut self, version: &str, lease: &str) {
        let (version, lease) = (id(version), LeaseId(lease.to_owned()));
        self.ask(&Event::Close { version, lease }).unwrap();
    }

    pub(crate) fn pinning(version: &str, expires_at: Option<Timestamp>) -> Event {
        let (version, reason) = (exactly(version), "audit".to_owned());
        Event::Pin { version, reason, owner: Some("ann".to_owned()), expires_at, hot: false }
    }

    /// What a daemon sees that starts now.
    pub(crate) fn survey(&self) -> Survey {
        let known =
            |id: &VersionId| self.register().entry(id).is_ok_and(|entry| !entry.version.holdings.is_empty());
        let describe = |(id, described): (&VersionId, &Described)| Archived {
            version: id.clone(),
            described: (!known(id)).then(|| described.clone()),
        };
        Survey {
            archived: self.archive.iter().map(describe).collect(),
            copies: self.copies.iter().cloned().collect(),
        }
    }

    /// The daemon ends, however that may be, and starts again: only records and machine are left.
    pub(crate) fn restart(&mut self) {
        self.engine = Engine::new(self.engine.policy().clone(), self.register().clone());
        let survey = self.survey();
        self.ask(&Event::Started(survey)).unwrap();
        let cutting = self.versions().find(|version| version.state == State::Cutting);
        assert_eq!(cutting, None, "after a start nothing is being cut");
    }

    /// The same with another configuration.
    pub(crate) fn restart_with(&mut self, stores: &[(&str, Retention)]) {
        self.engine = Engine::new(policy(stores), self.register().clone());
        self.restart();
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = &Version> {
        let histories = self.register().stores();
        histories.flat_map(|history| history.versions.values()).map(|entry| &entry.version)
    }

    pub(crate) fn fail_cut(code: Code, begun: bool) -> Outcome {
        Outcome::Cut(Err(CutFailure { problem: trouble(code), begun }))
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Cut { version, .. } => format!("cut {version}"),
        Effect::Restore { version, before, .. } => format!("restore {version} from {before}"),
        Effect::Retire { version } => format!("retire {version}"),
        Effect::Compact { store } => format!("compact {store}"),
        Effect::MakeCopy { version, lease, .. } => format!("copy {version} for {}", lease.0),
        Effect::DropCopy { version } => format!("drop {version}"),
    }
}
