//! The engine: events in, changes and effects out.
//!
//! [`Engine::decide`] looks at an event and says what it would change, without changing anything. The shell
//! commits those changes to the catalogue, hands them to [`Engine::evolve`], and performs the intents among
//! them. A catalogue that cannot commit therefore leaves engine and machine exactly as they were.

mod clock;
mod follow;
mod grace;
mod idempotency;
mod keep;
mod label;
mod leases;
mod open;
mod orphans;
mod publish;
mod recorded;
mod repair;
mod republish;
mod restore;
mod retain;
mod revoke;
mod set;
mod space;
mod start;
mod tags;
mod tiering;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use crate::audit::{self, Action, Deed};
use crate::clock::Bounds;
use crate::event::{Answer, Change, Decision, Effect, EffectId, Event, Intent, Outcome, Remark, Reply};
use crate::freshness::Expectation;
use crate::recorder::Commit;
use crate::register::Register;
use crate::retention::Retention;
use crate::snapshot::Origin;
use crate::version::{End, Lease, Publication, State, Version};
use crate::{By, Code, Problem, SetName, StoreName, VersionId};

pub use clock::Toll;
pub use grace::Waiting;
pub use leases::{LeaseBounds, LeaseUse};
pub use republish::GroupCommit;

/// What the configuration says about the history.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The stores that are watched.
    pub stores: BTreeMap<StoreName, StorePolicy>,
    /// The stores of each set.
    pub sets: BTreeMap<SetName, BTreeSet<StoreName>>,
    /// The most bytes that as-at copies may take together.
    pub max_copy_bytes: u64,
    /// The longest time for which a lease is granted, in seconds.
    pub max_ttl_s: u32,
    /// How long the pages of a version are kept that was given up on request or for its age.
    pub grace: SignedDuration,
    /// How many leases may be open.
    pub leases: LeaseBounds,
    /// How far the machine's clock is believed.
    pub clock: Bounds,
    /// Whether a snapshot that is kept although its version is archived may go where space is short.
    pub may_demote: bool,
}

/// What the configuration says about one store.
#[derive(Clone, Debug)]
pub struct StorePolicy {
    /// Where its file is.
    pub path: PathBuf,
    /// Which versions may be given up.
    pub retention: Retention,
    /// How versions are cut.
    pub backing: Backing,
    /// Of how many versions, the newest, the snapshot is kept although they are archived.
    pub keep_snapshots: usize,
    /// Whether a label is given to one version only.
    pub unique_labels: bool,
    /// By when it is expected to be published; nothing is expected where it is left out.
    pub expect: Option<Expectation>,
}

/// How a store's versions are cut.
#[derive(Clone, Debug, Default)]
pub enum Backing {
    /// By reading its pages.
    #[default]
    Pages,
    /// By a snapshot of this volume.
    Volume(Origin),
    /// Not at all, for this reason; its versions can be read all the same.
    Unusable(Problem),
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Engine {
    policy: Policy,
    register: Register,
    /// The versions that are held at this moment by what is not in any record.
    held: BTreeSet<VersionId>,
    /// The commit of the catalogue that the register was read at.
    opened: Commit,
    /// The newest commit that it has taken in.
    commit: Commit,
}

impl Engine {
    /// The longest time between two ticks, in seconds.
    pub const IDLE_TICK: SignedDuration = SignedDuration::from_secs(60);

    /// An engine over what the catalogue holds.
    #[must_use]
    pub fn new(policy: Policy, register: Register) -> Self {
        let (held, opened, commit) = (BTreeSet::new(), Commit::default(), Commit::default());
        Self { policy, register, held, opened, commit }
    }

    /// The same, if the register is what the catalogue was at this commit.
    #[must_use]
    pub fn opened_at(self, commit: Commit) -> Self {
        Self { opened: commit.clone(), commit, ..self }
    }

    /// The commit of the catalogue that the register was read at.
    #[must_use]
    pub fn opened(&self) -> &Commit {
        &self.opened
    }

    /// The newest commit that it has taken in.
    #[must_use]
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// Every record.
    #[must_use]
    pub fn register(&self) -> &Register {
        &self.register
    }

    /// What the configuration says.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Goes by another policy from now on; answers the one before. Next it is told of [`Event::Configured`].
    pub fn configure(&mut self, policy: Policy) -> Policy {
        std::mem::replace(&mut self.policy, policy)
    }

    /// What is to be done about an event for which nobody asked. Nothing has changed yet.
    #[must_use]
    pub fn decide(&self, now: Timestamp, event: &Event) -> Decision {
        self.decide_for(now, &By::asat(), event)
    }

    /// What is to be done about what somebody wants. An effect that is over was wanted by whoever had it begun.
    #[must_use]
    pub fn decide_for(&self, now: Timestamp, by: &By, event: &Event) -> Decision {
        let began = match event {
            Event::Finished { effect, .. } => self.register.intent(*effect).map(|intent| &intent.by),
            _ => None,
        };
        let mut draft = Draft::new(&self.register, now, began.unwrap_or(by).clone());
        let answer = match event {
            Event::Started(survey) => self.start(&mut draft, survey),
            Event::Tidy(uncompacted) => self.tidy(&mut draft, uncompacted),
            Event::Pack => self.pack(&mut draft),
            Event::Configured => self.take_up_stores(&mut draft),
            Event::Publish(request) => self.publish(&mut draft, request),
            Event::PublishSet(request) => self.publish_set(&mut draft, request),
            Event::Finished { effect, outcome } => self.finish(&mut draft, *effect, outcome),
            Event::Open(request) => self.open(&mut draft, request),
            Event::Renew { version, lease, ttl_s } => self.renew(&mut draft, version, lease, *ttl_s),
            Event::Close { version, lease } => self.close(&mut draft, version, lease),
            Event::Revoke { lease, reason } => self.revoke(&mut draft, lease, reason.as_deref()),
            Event::Pin { version, reason, owner, expires_at, hot } => {
                let pin = keep::pin(now, reason, owner.as_deref(), *expires_at, *hot);
                pin.and_then(|pin| self.set_pin(&mut draft, version, Some(pin)))
            }
            Event::Unpin(version) => self.set_pin(&mut draft, version, None),
            Event::Tag { store, name, version } => self.set_tag(&mut draft, store, name, version),
            Event::Untag { store, name } => self.remove_tag(&mut draft, store, name),
            Event::Retire { version, reason, now } => {
                self.retire(&mut draft, version, reason.as_deref(), *now)
            }
            Event::Unretire { version, reason } => self.unretire(&mut draft, version, reason.as_deref()),
            Event::Restore(request) => self.restore(&mut draft, request),
            Event::Demote(version) => self.demote(&mut draft, version),
            Event::GiveUp { version, why } => self.give_up(&mut draft, version, why),
            Event::Overflowed(version) => self.overflowed(&mut draft, version),
            Event::Vanished(version) => self.vanished(&mut draft, version),
            Event::Sized { store, bytes } => self.sized(&mut draft, store, *bytes),
            Event::Clock(reading) => self.look_at_clock(&mut draft, reading),
            Event::AcceptClock { reading, reason } => {
                self.accept_clock(&mut draft, reading, reason.as_deref())
            }
            Event::Verified { store, whole, known, findings } => {
                self.verified(&mut draft, store, *whole, known.as_ref(), findings)
            }
            Event::Followed(followed) => self.follow(&mut draft, followed),
            Event::Recorded { store, recorded } => {
                self.take_up(&mut draft, store, recorded);
                Ok(Answer::Now(Ok(Reply::Done)))
            }
            Event::Tick => self.tick(&mut draft),
        };
        match answer {
            Ok(answer) => Decision { changes: draft.changes, answer, remarks: draft.remarks },
            // A refusal changes nothing, except that a finished effect is over however it ended.
            Err(problem) => Decision {
                changes: if matches!(event, Event::Finished { .. }) { draft.changes } else { Vec::new() },
                answer: Answer::Now(Err(problem)),
                remarks: draft.remarks,
            },
        }
    }

    /// Takes a committed change in.
    pub fn evolve(&mut self, change: &Change) {
        self.register.evolve(change);
    }

    /// All changes of a commit are taken in.
    pub fn committed(&mut self, commit: Commit) {
        self.commit = commit;
    }

    /// Frees what is in memory only because somebody asked for it.
    pub fn free_unpacked(&mut self) {
        self.register.free_unpacked();
    }

    /// Says which versions somebody holds at this moment without a lease; they are not given up.
    pub fn hold(&mut self, held: BTreeSet<VersionId>) {
        self.held = held;
    }

    /// When the next [`Event::Tick`] is due after one at `last`: as a lease expires, and now and then.
    #[must_use]
    pub fn next_tick(&self, last: Timestamp) -> Timestamp {
        let leases = self.register.leases().map(|lease| lease.expires_at);
        let leases = leases.chain(self.register.graces().map(|(until, _)| until).take(1));
        let idle = last.checked_add(Self::IDLE_TICK).unwrap_or(Timestamp::MAX);
        leases.fold(idle, Timestamp::min)
    }

    /// A commit takes a few at most: a long history that was never packed is not packed at once.
    fn pack(&self, draft: &mut Draft<'_>) -> Result<Answer, Problem> {
        const AT_ONCE: usize = 4;
        draft.changes.extend(self.register.to_be_packed().take(AT_ONCE).map(Change::Packed));
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    fn finish(&self, draft: &mut Draft<'_>, id: EffectId, outcome: &Outcome) -> Result<Answer, Problem> {
        let Some(intent) = self.register.intent(id) else {
            let detail = format!("effect {} finished, but nobody intended it", id.0);
            return Err(Problem::new(Code::Internal, detail, "report this as a defect"));
        };
        draft.changes.push(Change::Concluded(id));
        match (&intent.effect, outcome) {
            (Effect::Cut { .. }, Outcome::Cut(result)) => self.finish_cut(draft, intent, result),
            (Effect::CutSet { .. }, Outcome::CutSet(result)) => self.finish_set(draft, intent, result),
            (Effect::Archive { version }, Outcome::Archive(result)) => {
                self.finish_archive(draft, version, result)
            }
            (Effect::DropSnapshot { version, snapshot }, Outcome::DropSnapshot(result)) => {
                self.finish_drop(draft, version, snapshot, result)
            }
            (Effect::Retire { version }, Outcome::Retire(result)) => {
                self.finish_retire(draft, version, result)
            }
            (Effect::Restore { version, publication, .. }, Outcome::Restore(result)) => {
                self.finish_restore(draft, version, *publication, result)
            }
            (Effect::Compact { .. }, Outcome::Compact(result)) => done(result.clone()),
            (Effect::Weigh { store }, Outcome::Weigh(result)) => self.finish_weigh(draft, store, result),
            (Effect::Repair { store }, Outcome::Repair(result)) => self.finish_repair(draft, store, result),
            (Effect::MakeCopy { .. }, Outcome::MakeCopy(result)) => {
                self.finish_copy(draft, &intent.effect, result)
            }
            (Effect::DropCopy { .. }, Outcome::DropCopy(result)) => done(result.clone()),
            _ => {
                let detail = format!("effect {} finished as another kind of effect", id.0);
                Err(Problem::new(Code::Internal, detail, "report this as a defect"))
            }
        }
    }
}

/// A decision in the making.
struct Draft<'a> {
    register: &'a Register,
    now: Timestamp,
    /// Who wants what is done.
    by: By,
    next_effect: u64,
    changes: Vec<Change>,
    /// Where in `changes` each version's newest value is.
    touched: BTreeMap<VersionId, usize>,
    remarks: Vec<Remark>,
    /// How many publications are among the changes, and their idempotency keys.
    published: u64,
    keys: BTreeSet<String>,
}

impl<'a> Draft<'a> {
    fn new(register: &'a Register, now: Timestamp, by: By) -> Self {
        let next_effect = register.next_effect().0;
        let (changes, remarks) = (Vec::new(), Vec::new());
        Self {
            register,
            now,
            by,
            next_effect,
            changes,
            touched: BTreeMap::new(),
            remarks,
            published: 0,
            keys: BTreeSet::new(),
        }
    }

    /// Takes a copy out of the cache: from now on it counts as gone.
    fn drop_copy(&mut self, version: &Version) {
        self.put(Version { copy: None, ..self.latest(version) });
        self.intend(Effect::DropCopy { version: version.id.clone() });
    }

    /// Intends an effect.
    fn intend(&mut self, effect: Effect) -> EffectId {
        self.intend_for(self.by.clone(), effect)
    }

    /// Intends an effect that another wants.
    fn intend_for(&mut self, by: By, effect: Effect) -> EffectId {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        self.changes.push(Change::Intended(Intent { id, at: self.now, by, effect }));
        id
    }

    /// Records a version's new value, and what the audit trail is to say of it.
    fn put(&mut self, version: Version) {
        let version = version.settled();
        let old = self.known(&version.id);
        let deeds = audit::deeds(self.now, &self.by, old.as_ref(), &version);
        self.changes.extend(deeds.into_iter().map(|deed| Change::Noted(Box::new(deed))));
        self.touched.insert(version.id.clone(), self.changes.len());
        self.changes.push(Change::Version(Box::new(version)));
    }

    /// The same, where somebody says why.
    fn put_for(&mut self, reason: Option<&str>, version: Version) {
        let from = self.changes.len();
        self.put(version);
        for change in self.changes.iter_mut().skip(from) {
            if let Change::Noted(deed) = change {
                **deed = (**deed).clone().with_some("reason", reason);
            }
        }
    }

    /// Says something of a version that an administrator should know.
    fn remark(&mut self, version: &VersionId, text: String) {
        self.remarks.push(Remark { version: Some(version.clone()), text });
    }

    /// Has something stand in the audit trail.
    fn note(&mut self, deed: Deed) {
        self.changes.push(Change::Noted(Box::new(deed)));
    }

    /// Records a publication, in the audit trail too.
    fn publish(&mut self, by: By, publication: Publication) {
        self.note(Deed::of_publication(self.now, by, Action::Publish, &publication));
        let key = publication.key.clone();
        self.changes.push(Change::Published(publication));
        self.published += 1;
        self.keys.extend(key);
    }

    /// The version as this draft has left it so far. One event may change it more than once.
    fn latest(&self, version: &Version) -> Version {
        self.drafted(&version.id).unwrap_or(version).clone()
    }

    /// The same of a version that may be unknown.
    fn known(&self, id: &VersionId) -> Option<Version> {
        let recorded = || self.register.entry(id).ok().map(|entry| &entry.version);
        self.drafted(id).or_else(recorded).cloned()
    }

    fn drafted(&self, id: &VersionId) -> Option<&Version> {
        match self.touched.get(id).and_then(|&index| self.changes.get(index)) {
            Some(Change::Version(changed)) => Some(changed),
            _ => None,
        }
    }

    /// Every effect that is open once the changes of this draft are committed.
    fn open_effects(&self) -> impl Iterator<Item = &Effect> {
        let over = |id: EffectId| self.changes.iter().any(|c| matches!(c, Change::Concluded(o) if *o == id));
        let before = self.register.intents().filter(move |intent| !over(intent.id));
        let drafted = self.changes.iter().filter_map(|change| match change {
            Change::Intended(intent) => Some(intent),
            _ => None,
        });
        before.chain(drafted).map(|intent| &intent.effect)
    }

    /// Whether a lease on the version is live once the changes of this draft are committed.
    fn is_leased(&self, id: &VersionId) -> bool {
        let ended =
            |lease: &Lease| self.changes.iter().any(|c| matches!(c, Change::LeaseEnded(o) if *o == lease.id));
        let granted = |change: &Change| matches!(change, Change::Lease(lease) if lease.version == *id);
        self.register.leases_on(id).any(|lease| lease.expires_at > self.now && !ended(lease))
            || self.changes.iter().any(granted)
    }

    /// Records that a version has come to an end of its life, and says so.
    fn end(&mut self, version: &Version, state: State, reason: impl Into<String>) {
        let end = End { at: self.now, reason: reason.into(), purge_after: None };
        self.remark(&version.id, format!("{} is {}: {}", version.id, state.text(), end.reason));
        self.put(Version { state, end: Some(Box::new(end)), ..version.clone() });
    }
}

/// The answer to an effect of which only success or failure is to be said.
fn done(result: Result<(), Problem>) -> Result<Answer, Problem> {
    result.map(|()| Answer::Now(Ok(Reply::Done)))
}
