//! A world for the engine: a catalogue that always commits, a machine that is a few sets, and a clock that
//! stands still unless it is told to move.
//!
//! Every event goes through [`World::tell`], which checks what must always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use asat_core::audit::Deed;
use asat_core::check::CheckResult;
use asat_core::event::{
    Answer, ArchiveFailure, Archived, Change, Condition, Copied, Cut, CutFailure, Damaged, Described, Effect,
    EffectId, Event, Filed, Found, Kept, Lack, Mended, Open, Outcome, Publish, Repaired, Reply, Restore,
    Retired, SetCut, SetMember, Survey, Surveyed,
};
use asat_core::harm::Finding;
use asat_core::register::{Entry, Headline, Register};
use asat_core::retention::{Part, Retention, Weight};
use asat_core::snapshot::{BackendKind, Cost, Hold, Origin, Snapshot};
use asat_core::version::{Attributes, Content, LeaseId, SetPublication, State, Version};
use asat_core::{
    Backing, By, Code, Engine, Fingerprint, PageSize, Policy, Problem, StoreName, StorePolicy, VersionId,
    VersionRef,
};
use jiff::{SignedDuration, Timestamp};

use crate::invariants;

/// The size of every version's copy.
pub(crate) const COPY: u64 = 4096;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
    pub(crate) archive: BTreeMap<VersionId, Described>,
    /// Those of them that cannot be read, and say nothing of themselves.
    pub(crate) damaged: BTreeSet<VersionId>,
    /// The stores whose archives have many files when a daemon starts.
    pub(crate) uncompacted: BTreeSet<StoreName>,
    /// The snapshots on the machine, with the content that each holds.
    pub(crate) snapshots: BTreeMap<VersionId, Volume>,
    /// Whether the volume group is there.
    pub(crate) group_is_there: bool,
    /// Whether the store's WAL belongs to the snapshots that are taken.
    pub(crate) with_wal: bool,
    pub(crate) copies: BTreeSet<VersionId>,
    /// Whether the tree of versions is mounted when a daemon starts.
    pub(crate) tree: bool,
    /// The leases whose holders were told of a copy. Others read in the tree, which needs none.
    pub(crate) told_of_copies: BTreeSet<LeaseId>,
    /// Each store's last cut since the daemon started: the next one lies after it.
    pub(crate) last_cuts: BTreeMap<StoreName, Timestamp>,
    /// What each store's file holds at the moment.
    pub(crate) live: BTreeMap<StoreName, u128>,
    /// What each store was like at its last cut, and which version that is.
    change_cache: BTreeMap<StoreName, (u64, Fingerprint)>,
    /// What each content is found to meet.
    pub(crate) checks: Vec<CheckResult>,
    pub(crate) remarks: Vec<String>,
    /// The changes of every decision, in order.
    pub(crate) decided: Vec<Vec<Change>>,
    /// What stands in the audit trail.
    pub(crate) noted: Vec<Deed>,
    /// Every version that somebody was told of.
    pub(crate) acknowledged: BTreeSet<VersionId>,
}

/// A snapshot on the machine.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) snapshot: Snapshot,
    pub(crate) content: Content,
    /// Whether it has overflowed.
    pub(crate) full: bool,
    /// Whether somebody reads the file in it.
    pub(crate) shown: bool,
}

impl Volume {
    /// It as it speaks for itself.
    pub(crate) fn found(&self, id: &VersionId) -> Found {
        let described = Described {
            content: Content { fingerprint: None, ..self.content.clone() },
            bytes: 0,
            attributes: Attributes { label: Some(format!("{id} in its snapshot")), ..Attributes::default() },
            key: None,
            of_set: None,
            checks: Vec::new(),
        };
        let snapshot = Snapshot { lost: self.full, ..self.snapshot.clone() };
        let name = snapshot.name.clone();
        Found { version: id.clone(), name, described: Some(Ok(described)), snapshot: Ok(snapshot) }
    }
}

/// The volume that every store on volumes lies on that is cut by classic snapshots.
pub(crate) fn origin() -> Origin {
    Origin {
        backend: BackendKind::LvmClassic,
        group: "group".to_owned(),
        volume: "volume".to_owned(),
        name: "vg/data".to_owned(),
        fs: "ext4".to_owned(),
        inside: PathBuf::from("/report.db"),
    }
}

/// The volume that every store lies on that is cut by thin snapshots.
pub(crate) fn thin_origin() -> Origin {
    Origin {
        backend: BackendKind::LvmThin,
        volume: "thin".to_owned(),
        name: "vg/thin".to_owned(),
        ..origin()
    }
}

/// The folder of every clone.
pub(crate) fn folder() -> Origin {
    Origin {
        backend: BackendKind::Reflink,
        group: String::new(),
        volume: String::new(),
        name: "/srv/clones/1".to_owned(),
        fs: "xfs".to_owned(),
        inside: PathBuf::from("cloned.db"),
    }
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
        // A name that begins with `hot` or `thin` is that of a store on a volume, and `cloned` that of one that is cloned.
        let backing = match *name {
            name if name.starts_with("hot") => Backing::Volume(origin()),
            name if name.starts_with("thin") => Backing::Volume(thin_origin()),
            name if name.starts_with("cloned") => Backing::Volume(folder()),
            _ => Backing::Pages,
        };
        (store(name), {
            let (retention, unique_labels) = (retention.clone(), name.ends_with("unique"));
            StorePolicy { path, retention, backing, keep_snapshots: 0, unique_labels, expect: None }
        })
    };
    Policy {
        stores: stores.iter().map(one).collect(),
        sets: BTreeMap::new(),
        max_copy_bytes: 3 * COPY,
        max_ttl_s: 3600,
        may_demote: true,
        ..Policy::default()
    }
}

/// The rules of a store that keeps what these words say.
pub(crate) fn keeping(words: &str) -> Retention {
    Retention { keep: Some(words.parse().unwrap()), ..Retention::default() }
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
            damaged: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            group_is_there: true,
            with_wal: false,
            copies: BTreeSet::new(),
            uncompacted: BTreeSet::new(),
            tree: false,
            told_of_copies: BTreeSet::new(),
            last_cuts: BTreeMap::new(),
            live: BTreeMap::new(),
            change_cache: BTreeMap::new(),
            checks: Vec::new(),
            remarks: Vec::new(),
            decided: Vec::new(),
            noted: Vec::new(),
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

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Somebody holds these versions without a lease, and no others.
    pub(crate) fn hold(&mut self, versions: &[&str]) {
        self.engine.hold(versions.iter().copied().map(id).collect());
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
        self.tell_for(&By::asat(), event)
    }

    /// The same, where somebody asked.
    pub(crate) fn tell_for(&mut self, by: &By, event: &Event) -> Answer {
        let before = self.register().clone();
        let decision = self.engine.decide_for(self.now, by, event);
        assert_eq!(*self.register(), before, "deciding changes nothing");
        assert_eq!(
            self.engine.decide_for(self.now, by, event),
            decision,
            "the same event gives the same decision"
        );
        for change in &decision.changes {
            if let Change::Published(publication) = change {
                self.acknowledged.insert(publication.version.clone());
            }
            if let Change::Noted(deed) = change {
                self.noted.push((**deed).clone());
            }
            self.engine.evolve(change);
        }
        invariants::check_trail(&before, &decision.changes);
        if let Answer::Now(Ok(Reply::Leased(lease))) = &decision.answer {
            match event {
                Event::Finished { .. } => self.told_of_copies.insert(lease.id.clone()),
                Event::Open(_) => self.told_of_copies.remove(&lease.id),
                _ => false,
            };
        }
        if let Answer::Now(Ok(Reply::Published(number))) = decision.answer
            && number >= before.next_publication()
        {
            invariants::check_published(self, number);
        }
        invariants::check(self, &before, event);
        self.remarks.extend(decision.remarks.into_iter().map(|remark| remark.text));
        self.decided.push(decision.changes);
        decision.answer
    }

    /// An event that is answered at once.
    pub(crate) fn ask(&mut self, event: &Event) -> Result<Reply, Problem> {
        match self.tell(event) {
            Answer::Now(answer) => answer,
            Answer::After(effect) | Answer::Again(effect) => panic!("{event:?} waits for {effect:?}"),
        }
    }

    /// An event that is answered when an effect is over.
    pub(crate) fn begin(&mut self, event: &Event) -> EffectId {
        match self.tell(event) {
            Answer::After(effect) => effect,
            answer => panic!("{event:?} waits for nothing: {answer:?}"),
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
            Answer::After(next) | Answer::Again(next) => {
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
            Effect::Cut { version, attributes, key, after, origin, anew, .. } => {
                let said = (attributes.clone(), key.clone(), None);
                let member = SetMember { version: version.clone(), origin: origin.clone(), anew: *anew };
                Outcome::Cut(Ok(self.cut_version(&member, said, *after)))
            }
            Effect::CutSet { .. } => Outcome::CutSet(Ok(self.cut_set(effect))),
            Effect::Archive { version } => Outcome::Archive(self.file(version)),
            Effect::DropSnapshot { version, snapshot } => {
                let same = |volume: &Volume| volume.snapshot.uuid == snapshot.uuid;
                let Some(volume) = self.snapshots.get(version).filter(|volume| same(volume)) else {
                    return Outcome::DropSnapshot(Ok(()));
                };
                if !self.group_is_there {
                    return Outcome::DropSnapshot(Err(trouble(Code::Internal)));
                }
                let is_sound = self.archive.contains_key(version) && !self.damaged.contains(version);
                let is_read = !volume.full && self.state(&version.to_string()) == State::Ready;
                assert!(is_sound || !is_read, "the snapshot of {version} is all that can be read of it");
                let read = self
                    .register()
                    .entry(version)
                    .is_ok_and(|entry| entry.version.copy.as_ref().is_some_and(|copy| copy.in_snapshot));
                assert!(!(volume.shown && read), "{version} is dropped while it is read");
                self.snapshots.remove(version);
                Outcome::DropSnapshot(Ok(()))
            }
            Effect::Retire { version } => {
                self.damaged.remove(version);
                let freed_bytes = self.archive.remove(version).map_or(0, |described| described.bytes);
                Outcome::Retire(Ok(Retired { freed_bytes, worth_compacting: false }))
            }
            Effect::Restore { version, before, .. } => {
                let name = &version.store;
                let (Some(wanted), Some(kept)) = (self.held(version), self.held(before)) else {
                    let overflowed = |id: &&VersionId| self.has_overflowed(id);
                    assert!([version, before].iter().any(overflowed), "nothing else lets one go meanwhile");
                    return Outcome::Restore(Err(trouble(Code::NotReadable)));
                };
                if kept != Some(self.live_content(name)) {
                    return Outcome::Restore(Err(trouble(Code::StoreBusy)));
                }
                self.live.insert(name.clone(), number_of(wanted.unwrap()));
                Outcome::Restore(Ok(700))
            }
            Effect::Compact { .. } => Outcome::Compact(Ok(())),
            Effect::Weigh { store } => Outcome::Weigh(Ok(self.weigh(store))),
            Effect::Repair { store } => Outcome::Repair(Ok(self.repair(store))),
            Effect::MakeCopy { version, in_snapshot: true, .. } if self.can_be_shown(version) => {
                self.snapshots.get_mut(version).unwrap().shown = true;
                Outcome::MakeCopy(Ok(Copied { bytes: COPY, in_snapshot: true }))
            }
            Effect::MakeCopy { version, .. }
                if self.archive.contains_key(version)
                    || self.is_in_snapshot(version) && !self.can_be_shown(version) =>
            {
                self.copies.insert(version.clone());
                Outcome::MakeCopy(Ok(Copied { bytes: COPY, in_snapshot: false }))
            }
            Effect::MakeCopy { .. } => Outcome::MakeCopy(Err(trouble(Code::Damaged))),
            Effect::DropCopy { version } => {
                // What is in a snapshot that is full cannot be read any more, whoever leases it.
                let hide = |volume: &mut Volume| std::mem::take(&mut volume.shown) && !volume.full;
                let shown = self.snapshots.get_mut(version).is_some_and(hide);
                let whole = self.copies.remove(version) || shown;
                assert!(
                    !(whole && self.is_read_in_copy(version)),
                    "the copy of {version} is dropped under a lease"
                );
                Outcome::DropCopy(Ok(()))
            }
        }
    }

    /// Puts those versions of a store right that the store is still, or that are in a snapshot.
    fn repair(&mut self, store: &StoreName) -> Repaired {
        let mut repaired = Repaired::default();
        for id in self.damaged.clone().iter().filter(|id| id.store == *store) {
            let is_live = self.archive[id].content.fingerprint == Some(self.live_content(store));
            let from = match (is_live, self.is_in_snapshot(id)) {
                (true, _) => "the store".to_owned(),
                (false, true) => format!("the snapshot of {id}"),
                (false, false) => {
                    repaired.left.push(finding(id));
                    continue;
                }
            };
            self.damaged.remove(id);
            repaired.mended.push(Mended { version: id.number, file: segment(id), from });
        }
        let sound = self.archive.keys().filter(|id| id.store == *store && !self.damaged.contains(id));
        repaired.readable = sound.map(|id| id.number).collect();
        repaired
    }

    /// The event that all that is kept of a store was verified.
    pub(crate) fn verified(&self, name: &str) -> Event {
        let damaged = self.damaged.iter().filter(|id| id.store == store(name));
        let known =
            self.register().history(&store(name)).ok().and_then(|history| history.store.damage.clone());
        Event::Verified { store: store(name), whole: true, known, findings: damaged.map(finding).collect() }
    }

    fn is_read_in_copy(&self, id: &VersionId) -> bool {
        let mut leases = self.register().leases_on(id).filter(|lease| lease.expires_at > self.now);
        leases.any(|lease| self.told_of_copies.contains(&lease.id))
    }

    /// Cuts all stores of a set at one instant.
    pub(crate) fn cut_set(&mut self, effect: &Effect) -> SetCut {
        let Effect::CutSet { set, members, attributes, key, after } = effect else { unreachable!() };
        let lasts = members.iter().filter_map(|member| self.last_cuts.get(&member.version.store).copied());
        let tick = SignedDuration::from_micros(1);
        let last = lasts.chain(*after).max();
        let cut_at = last.map_or(self.now, |last| self.now.max(last + tick));
        let of_set = SetPublication { set: set.clone(), cut_at };
        let cut = |member: &SetMember| {
            let said = (attributes.clone(), key.clone(), Some(of_set.clone()));
            Ok(self.cut_version(member, said, Some(cut_at - tick)))
        };
        SetCut { cut_at, cuts: members.iter().map(cut).collect() }
    }

    /// Cuts one store.
    pub(crate) fn cut_version(
        &mut self,
        SetMember { version, origin, anew }: &SetMember,
        (attributes, key, of_set): (Attributes, Option<String>, Option<SetPublication>),
        after: Option<Timestamp>,
    ) -> Cut {
        if let Some(origin) = origin {
            self.change_cache
                .insert(version.store.clone(), (version.number, self.live_content(&version.store)));
            return self.take_snapshot(version, after, origin);
        }
        let content = self.cut(&version.store, after);
        let newest = self.archive.iter().rfind(|(id, _)| id.store == version.store);
        let checks = self.checks.clone();
        let kept = match newest {
            Some((same, held)) if !anew && held.content.fingerprint == content.fingerprint => {
                Kept::SameAs(same.number)
            }
            _ => {
                let checks = checks.clone();
                let described =
                    Described { content: content.clone(), bytes: 100, attributes, key, of_set, checks };
                self.archive.insert(version.clone(), described);
                Kept::Stored { content, bytes: 100, worth_compacting: false }
            }
        };
        let number = if let Kept::SameAs(number) = kept { number } else { version.number };
        self.change_cache.insert(version.store.clone(), (number, self.live_content(&version.store)));
        Cut { cost: Cost { writer_blocked_us: 400, hold: Hold::Read, snapshot_us: 0 }, kept, checks }
    }

    fn take_snapshot(&mut self, id: &VersionId, after: Option<Timestamp>, origin: &Origin) -> Cut {
        let content = self.cut(&id.store, after);
        let snapshot = Snapshot {
            origin: origin.clone(),
            name: format!("vg/{id}"),
            uuid: format!("{id} at {}", content.cut_at),
            with_wal: self.with_wal,
            bytes: if origin.backend == BackendKind::LvmClassic { 64 } else { 0 },
            lost: false,
            not_before: None,
        };
        let kept = content.clone();
        let volume = Volume { snapshot: snapshot.clone(), content, full: false, shown: false };
        assert!(self.snapshots.insert(id.clone(), volume).is_none(), "{id} has a snapshot already");
        let content = Content { fingerprint: None, ..kept };
        let cost = Cost { writer_blocked_us: 0, hold: Hold::Nobody, snapshot_us: 300_000 };
        Cut {
            cost,
            kept: Kept::Snapshot { content, snapshot: Box::new(snapshot) },
            checks: self.checks.clone(),
        }
    }

    /// Puts a version into the archive, out of its snapshot. One that is in the archive is left as it is: a repair can have put it
    /// right meanwhile.
    fn file(&mut self, id: &VersionId) -> Result<Filed, ArchiveFailure> {
        if let Some(kept) = self.archive.get(id).filter(|_| !self.damaged.contains(id)) {
            let fingerprint = kept.content.fingerprint.unwrap();
            return Ok(Filed { fingerprint, bytes: kept.bytes, worth_compacting: false });
        }
        let lost = |lost| ArchiveFailure { problem: trouble(Code::Damaged), lost };
        let volume = self.snapshots.get(id).ok_or_else(|| lost(true))?;
        if !self.group_is_there || volume.full {
            return Err(lost(volume.full));
        }
        if self.damaged.remove(id) {
            self.archive.remove(id);
        }
        let newest = self.archive.keys().rfind(|other| other.store == id.store);
        assert!(newest.is_none_or(|newest| newest < id), "{id} comes into the archive after {newest:?}");
        let fingerprint = volume.content.fingerprint.unwrap();
        let (attributes, key) = (Attributes::default(), None);
        let described = Described {
            content: volume.content.clone(),
            bytes: 100,
            attributes,
            key,
            of_set: None,
            checks: Vec::new(),
        };
        self.archive.insert(id.clone(), described);
        Ok(Filed { fingerprint, bytes: 100, worth_compacting: false })
    }

    /// The content that the machine can still read of a version, wherever.
    fn held(&self, id: &VersionId) -> Option<Option<Fingerprint>> {
        let sound = self.archive.get(id).filter(|_| !self.damaged.contains(id));
        let archived = sound.map(|described| described.content.fingerprint);
        let whole = || self.snapshots.get(id).filter(|volume| !volume.full);
        archived.or_else(|| whole().map(|volume| volume.content.fingerprint))
    }

    fn has_overflowed(&self, id: &VersionId) -> bool {
        let full = self.snapshots.get(id).is_some_and(|volume| volume.full);
        full || self.register().entry(id).is_ok_and(|entry| entry.version.state == State::Lost)
    }

    fn can_be_shown(&self, id: &VersionId) -> bool {
        let snapshot = |volume: &Volume| volume.snapshot.can_be_shown();
        self.is_in_snapshot(id) && self.snapshots.get(id).is_some_and(snapshot)
    }

    fn is_in_snapshot(&self, id: &VersionId) -> bool {
        let recorded = self.register().entry(id).is_ok_and(|entry| entry.version.snapshot().is_some());
        recorded && self.group_is_there && self.snapshots.get(id).is_some_and(|volume| !volume.full)
    }

    /// What a cut at this moment finds in a store's file.
    fn cut(&mut self, name: &StoreName, after: Option<Timestamp>) -> Content {
        let last = self.last_cuts.get(name).copied().max(after);
        let floor = last.map(|last| last + SignedDuration::from_micros(1));
        let cut_at = floor.map_or(self.now, |floor| floor.max(self.now));
        self.last_cuts.insert(name.clone(), cut_at);
        Content {
            cut_at,
            fingerprint: Some(self.live_content(name)),
            page_size: PageSize::new(4096).unwrap(),
            page_count: 1,
            wal: true,
        }
    }

    fn live_content(&self, name: &StoreName) -> Fingerprint {
        Fingerprint::of_model(self.live.get(name).copied().unwrap_or(0))
    }

    /// Somebody writes to a store.
    pub(crate) fn write(&mut self, name: &str) {
        *self.live.entry(store(name)).or_default() += 1;
    }

    /// Asks for a publication with a label.
    pub(crate) fn publishing(name: &str, label: &str, key: Option<&str>) -> Event {
        let attributes = Attributes { label: Some(label.to_owned()), ..Attributes::default() };
        Event::Publish(Publish {
            store: Some(store(name)),
            attributes,
            key: key.map(str::to_owned),
            unchanged: None,
        })
    }

    /// The same, with the version that the store's files show to be what it is.
    pub(crate) fn publishing_as_seen(&self, name: &str) -> Event {
        let store = store(name);
        let seen = self.change_cache.get(&store).filter(|(_, content)| *content == self.live_content(&store));
        let attributes = Attributes { label: Some("close".to_owned()), ..Attributes::default() };
        let unchanged = seen.map(|(number, _)| *number);
        Event::Publish(Publish { store: Some(store), attributes, key: None, unchanged })
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
        let store = version.store().clone();
        Event::Restore(Restore { store, version, certified_by: Some("ann".to_owned()), note })
    }

    pub(crate) fn opening(version: &str, lease: &str, ttl_s: u32) -> Event {
        let (version, holder) = (exactly(version), "ann".to_owned());
        Event::Open(Open { version, lease: LeaseId(lease.to_owned()), holder, ttl_s, in_tree: false })
    }

    /// The same, in the tree of versions where that can be.
    pub(crate) fn opening_in_tree(version: &str, lease: &str, ttl_s: u32) -> Event {
        let Event::Open(open) = Self::opening(version, lease, ttl_s) else { unreachable!() };
        Event::Open(Open { in_tree: true, ..open })
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
        let known = |id: &VersionId| {
            let version = self.register().entry(id).map(|entry| &entry.version);
            version.is_ok_and(|version| version.is_archived() && version.state != State::Lost)
        };
        let mut as_recorded: BTreeMap<StoreName, BTreeSet<u64>> = BTreeMap::new();
        let mut archived = Vec::new();
        for (id, described) in &self.archive {
            let damaged = Damaged { why: "it was cut short".to_owned(), described: None };
            let described = match self.damaged.contains(id) {
                true => Err(damaged),
                false if known(id) => {
                    as_recorded.entry(id.store.clone()).or_default().insert(id.number);
                    continue;
                }
                false => Ok(Box::new(described.clone())),
            };
            archived.push(Archived { version: id.clone(), described });
        }
        Survey {
            as_recorded,
            archived,
            uncompacted: self.uncompacted(),
            copies: self.copies.iter().chain(self.shown()).cloned().collect(),
            snapshots: self.surveyed(),
            found: self.found(),
            tree: self.tree,
            remarks: Vec::new(),
            recorded: BTreeMap::new(),
        }
    }

    /// The stores whose archives have something that nobody needs, or too many files.
    fn uncompacted(&self) -> Vec<StoreName> {
        let is_over = |headline: &Headline| headline.state == State::Retired && !headline.is_in_grace;
        let given_up = self.register().stores().filter(|history| history.versions.headlines().any(is_over));
        let given_up: BTreeSet<StoreName> = given_up.map(|history| history.store.name.clone()).collect();
        given_up.union(&self.uncompacted).cloned().collect()
    }

    /// The snapshots that the register does not speak of, as they speak for themselves.
    fn found(&self) -> Vec<Found> {
        let spoken: Vec<VersionId> = self.surveyed().into_iter().map(|surveyed| surveyed.version).collect();
        let unknown = self.snapshots.iter().filter(|(id, _)| self.group_is_there && !spoken.contains(id));
        unknown.map(|(id, volume)| volume.found(id)).collect()
    }

    pub(crate) fn shown(&self) -> impl Iterator<Item = &VersionId> {
        self.snapshots.iter().filter(|(_, volume)| volume.shown).map(|(id, _)| id)
    }

    /// What has become of every snapshot that the register speaks of.
    fn surveyed(&self) -> Vec<Surveyed> {
        let mut found: BTreeMap<VersionId, Surveyed> = BTreeMap::new();
        let recorded = self.versions().filter_map(|version| Some((&version.id, version.snapshot()?)));
        let intended = self.register().intents().flat_map(|intent| match &intent.effect {
            Effect::DropSnapshot { version, snapshot } => vec![(version, snapshot)],
            effect => {
                let by_snapshot = effect.cuts().into_iter().filter(|(_, origin)| origin.is_some());
                let taken = |(version, _)| Some((version, &self.snapshots.get(version)?.snapshot));
                by_snapshot.filter_map(taken).collect()
            }
        });
        for (id, snapshot) in recorded.chain(intended) {
            let there = self.snapshots.get(id).filter(|volume| volume.snapshot.uuid == snapshot.uuid);
            let condition = match there {
                _ if !self.group_is_there => Condition::Unseen("vg is not there".to_owned()),
                None => Condition::Gone,
                Some(volume) if volume.full => Condition::Lost,
                Some(_) => Condition::Whole,
            };
            let surveyed = Surveyed { version: id.clone(), snapshot: snapshot.clone(), condition };
            found.insert(id.clone(), surveyed);
        }
        found.into_values().collect()
    }

    /// The daemon ends, however that may be, and starts again: only records and machine are left.
    pub(crate) fn restart(&mut self) {
        self.engine = Engine::new(self.engine.policy().clone(), self.register().clone());
        self.last_cuts.clear();
        self.change_cache.clear();
        // What cannot be seen to be whole is unmounted.
        for volume in self.snapshots.values_mut() {
            volume.shown &= self.group_is_there && !volume.full;
        }
        // Whose copy is gone waits for it to be made again.
        let copied: BTreeSet<&VersionId> = self.copies.iter().chain(self.shown()).collect();
        let leases = self.register().leases().filter(|lease| copied.contains(&lease.version));
        let still =
            leases.map(|lease| lease.id.clone()).filter(|id| self.told_of_copies.contains(id)).collect();
        self.told_of_copies = still;
        let survey = self.survey();
        let uncompacted = survey.uncompacted.clone();
        self.ask(&Event::Started(survey)).unwrap();
        self.ask(&Event::Tidy(uncompacted)).unwrap();
        let cutting = self.versions().find(|version| version.state == State::Cutting);
        assert_eq!(cutting, None, "after a start nothing is being cut");
        let lost = |version: &&Version| version.state == State::Lost && self.group_is_there;
        for version in self.versions().filter(lost).filter(|version| !version.holdings.is_empty()) {
            assert_eq!(self.held(&version.id), None, "{version:?} can be read");
        }
    }

    /// What the archive of a store takes, where versions share nothing.
    pub(crate) fn weigh(&self, store: &StoreName) -> Weight {
        let archived = self.archive.iter().filter(|(id, _)| id.store == *store);
        let part = |(id, described): (&VersionId, &Described)| Part {
            first: id.number,
            last: id.number,
            bytes: described.bytes,
        };
        let parts: Vec<Part> = archived.map(part).collect();
        Weight { bytes: parts.iter().map(|part| part.bytes).sum(), parts }
    }

    /// The event that the archive of a store takes what it takes.
    pub(crate) fn sized(&self, store: &str) -> Event {
        let store: StoreName = store.parse().unwrap();
        Event::Sized { bytes: self.weigh(&store).bytes, store }
    }

    pub(crate) fn restart_with(&mut self, stores: &[(&str, Retention)]) {
        self.engine = Engine::new(policy(stores), self.register().clone());
        self.restart();
    }

    pub(crate) fn versions(&self) -> impl Iterator<Item = &Version> {
        let histories = self.register().stores();
        histories.flat_map(|history| history.versions.values()).map(|entry| &entry.version)
    }

    pub(crate) fn fail_cut(code: Code, begun: bool) -> Outcome {
        Outcome::Cut(Err(CutFailure { problem: trouble(code), begun, left: None, lacks: None }))
    }

    /// A cut that found no space, and so many bytes missing.
    pub(crate) fn short_cut(missing: u64) -> Outcome {
        Self::lacking(Lack::Bytes(missing))
    }

    /// A cut that was not made for want of that.
    pub(crate) fn lacking(lack: Lack) -> Outcome {
        let problem = trouble(Code::StorageFull);
        Outcome::Cut(Err(CutFailure { problem, begun: false, left: None, lacks: Some(lack) }))
    }
}

/// The file of a version in the archive.
fn segment(id: &VersionId) -> String {
    format!("{:012}.segment", id.number)
}

/// What is found of a damaged version.
pub(crate) fn finding(id: &VersionId) -> Finding {
    Finding { file: segment(id), what: format!("{} is damaged", segment(id)), versions: vec![id.number] }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Cut { version, .. } => format!("cut {version}"),
        Effect::CutSet { members, .. } => {
            let members: Vec<String> = members.iter().map(|member| member.version.to_string()).collect();
            format!("cut {} together", members.join(" and "))
        }
        Effect::Restore { version, before, .. } => format!("restore {version} from {before}"),
        Effect::Archive { version } => format!("archive {version}"),
        Effect::DropSnapshot { version, .. } => format!("drop snapshot of {version}"),
        Effect::Retire { version } => format!("retire {version}"),
        Effect::Compact { store } => format!("compact {store}"),
        Effect::Weigh { store } => format!("weigh {store}"),
        Effect::Repair { store } => format!("repair {store}"),
        Effect::MakeCopy { version, lease, .. } => format!("copy {version} for {}", lease.0),
        Effect::DropCopy { version } => format!("drop {version}"),
    }
}

/// The number of a content, of which this is the fingerprint.
pub(crate) fn number_of(fingerprint: Fingerprint) -> u128 {
    fingerprint.0[16..].iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
