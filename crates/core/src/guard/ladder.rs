//! The ladder: what is done about space that runs short, rung by rung.
//!
//! Each rung looks at what those before it have left unmet. Nothing here takes time or fails: that a step was
//! taken is seen at the next look, and that it failed is remembered.

use std::collections::BTreeSet;

use super::action::{Action, Level, Scope, Step};
use super::case::{Case, Kind, Margins, cases};
use super::memory::{FAILING, Memory};
use super::observation::{HotVersion, Observation};
use super::policy::{Policy, Rung};
use super::share::Rooms;
use super::target::Target;
use super::text::{Size, Span};
use crate::VersionId;

/// A plan in the making.
pub(super) struct Draft<'a> {
    pub(super) policy: &'a Policy,
    pub(super) memory: &'a Memory,
    pub(super) seen: &'a Observation,
    pub(super) margins: Margins,
    pub(super) cases: Vec<Case<'a>>,
    pub(super) rooms: Rooms<'a>,
    pub(super) steps: Vec<Step>,
    /// The origins whose writers must wait.
    held: BTreeSet<&'a str>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(policy: &'a Policy, memory: &'a Memory, seen: &'a Observation) -> Self {
        let (margins, cases) = cases(policy, memory, seen);
        let rooms = Rooms::new(seen, margins, &cases);
        Self { policy, memory, seen, margins, cases, rooms, steps: Vec::new(), held: BTreeSet::new() }
    }

    pub(super) fn climb(&mut self, rung: Rung) {
        match rung {
            Rung::Extend => self.extend(),
            Rung::Demote => self.demote(),
            Rung::Hurry => self.hurry(),
            Rung::Brake => self.brake(),
            Rung::Retire => {
                self.retire();
                self.end_grace();
            }
            Rung::Refuse => self.refuse(),
            Rung::Alarm => self.alarm(),
        }
    }

    fn add(&mut self, target: Target, action: Action, reason: String) {
        self.steps.push(Step { target, action, reason });
    }

    fn extend(&mut self) {
        self.rooms.divide(self.memory, self.seen.at_ms, self.margins, &mut self.cases);
        let begun = |case: &Case<'_>| case.later || self.memory.extending(&case.target).is_some();
        let extended = |case: &&Case<'_>| case.to > case.size && !begun(case);
        let mut cases: Vec<&Case<'a>> = self.cases.iter().filter(extended).collect();
        // The one that is full first goes first; the order of precedence decides between equals.
        cases.sort_by_key(|case| case.assessment(self.margins).full_in_ms.unwrap_or(0));
        let step = |case: &Case<'a>| {
            let more = Size(case.to.saturating_sub(case.size));
            let reason = format!("{}; it gets {more} more", case.assessment(self.margins).reason);
            let target = case.target.clone();
            Step { target: target.clone(), action: Action::Extend { target, to: case.to }, reason }
        };
        let steps: Vec<Step> = cases.into_iter().map(step).collect();
        self.steps.extend(steps);
    }

    /// What a case still needs after all that was granted, in bytes.
    pub(super) fn unmet(&self, case: &Case<'_>) -> u64 {
        if !case.is_in_need() {
            return 0;
        }
        let failing = self.memory.failures(Rung::Extend, &case.target.to_string()).0 >= FAILING;
        let has = if failing { case.size } else { case.to };
        self.rooms.above(case, case.must(self.margins.horizon)).saturating_sub(has)
    }

    /// What a group lacks: for those that somebody would miss, and for the reserve, which has that in it unless
    /// extensions fail.
    fn lacks(&self, group: &str) -> u64 {
        let missed = self.cases.iter().filter(|case| case.group == group && case.is_precious());
        let growable = missed.filter(|case| case.growable);
        let unmet = growable.map(|case| self.unmet(case)).fold(0, u64::saturating_add);
        unmet.max(self.rooms.of(group).shortfall())
    }

    fn groups(&self) -> BTreeSet<&'a str> {
        self.cases.iter().map(|case| case.group).collect()
    }

    /// Drops snapshots that nobody would miss: those that would overflow, and as many as the others need.
    fn demote(&mut self) {
        for group in self.groups() {
            let lacks = self.lacks(group);
            let mut freed = 0_u64;
            for index in 0..self.cases.len() {
                let Some(case) = self.cases.get(index).filter(|case| case.group == group) else { continue };
                let Some(version) = case.version().filter(|version| version.is_demotable()) else { continue };
                let why = if self.unmet(case) > 0 {
                    "its snapshot would overflow, and it is in the archive".to_owned()
                } else if freed < lacks {
                    let short = Size(lacks);
                    format!("it is in the archive, and its group lacks {short} for others")
                } else {
                    continue;
                };
                freed = freed.saturating_add(case.size);
                self.demote_one(case.target.clone(), version, &why);
            }
        }
        for (pool, target) in self.short_pools() {
            let mut thin: Vec<&HotVersion> = pool.iter().filter(|version| version.is_demotable()).collect();
            thin.sort_by_key(|version| version.age());
            for version in thin {
                self.demote_one(
                    target.clone(),
                    version,
                    &format!("it is in the archive, and {target} is short"),
                );
            }
        }
    }

    fn demote_one(&mut self, target: Target, version: &HotVersion, why: &str) {
        let id = &version.id;
        let action = Action::Demote { version: id.clone() };
        let planned = self.steps.iter().any(|step| step.action == action);
        if !planned && self.memory.may_begin(Rung::Demote, &id.to_string(), self.seen.at_ms) {
            self.add(target, action, format!("{id}: {why}"));
        }
    }

    /// The pools that need what they do not get, with the versions in them.
    fn short_pools(&self) -> Vec<(&'a [HotVersion], Target)> {
        let short = self.cases.iter().filter(|case| self.unmet(case) > 0);
        short.filter_map(|case| Some((case.pool()?.versions.as_slice(), case.target.clone()))).collect()
    }

    /// Has the oldest version of each store archived that nothing but a short snapshot or pool holds.
    fn hurry(&mut self) {
        let mut oldest: Vec<(Target, &'a HotVersion)> = Vec::new();
        for group in self.groups() {
            if self.lacks(group) > 0 {
                let snapshots = self.cases.iter().filter(|case| case.group == group);
                oldest.extend(snapshots.filter_map(|case| Some((case.target.clone(), case.version()?))));
            }
        }
        for (pool, target) in self.short_pools() {
            oldest.extend(pool.iter().map(|version| (target.clone(), version)));
        }
        oldest.retain(|(_, version)| !version.archived);
        oldest.sort_by_key(|(_, version)| version.age());
        let mut stores = BTreeSet::new();
        for (target, version) in oldest {
            let name = version.id.to_string();
            let first = stores.insert(&version.id.store);
            if first && self.memory.may_begin(Rung::Hurry, &name, self.seen.at_ms) {
                let reason = format!(
                    "{name} is the oldest of its store that is not in the archive, and space is short"
                );
                self.add(target, Action::Hurry { version: version.id.clone() }, reason);
            }
        }
    }

    /// Holds the writes that would overflow a snapshot or a pool's metadata before help comes. A pool without data
    /// space needs none: the kernel lets writes wait there by itself, for longer than any brake.
    fn brake(&mut self) {
        if self.policy.brake_ms == 0 {
            return;
        }
        for index in 0..self.cases.len() {
            let Some(case) = self.cases.get(index) else { return };
            if case.level != Level::Urgent || !case.is_precious() || !self.is_helped(case) {
                continue;
            }
            let origins: Vec<&'a str> = match case.kind {
                Kind::Snapshot(seen) => vec![&seen.origin],
                Kind::Metadata(pool) => pool.origins.iter().map(String::as_str).collect(),
                Kind::Data(_) => continue,
            };
            let (target, full) = (case.target.clone(), case.assessment(self.margins).reason);
            for origin in origins {
                if self.may_hold(origin)
                    && self.held.insert(origin)
                    && self.memory.may_begin(Rung::Brake, origin, self.seen.at_ms)
                {
                    let most_ms = self.policy.brake_ms;
                    let reason = format!("{full}; its origin is held for at most {}", Span(most_ms));
                    self.add(target.clone(), Action::Brake { origin: origin.to_owned(), most_ms }, reason);
                }
            }
        }
    }

    /// Whether an origin's writers may be held. To hold those of a volume that has LVM's own files on it would hold up the help,
    /// too, and the machine with it.
    fn may_hold(&self, origin: &str) -> bool {
        self.seen.origins.iter().all(|seen| seen.id != origin || seen.may_hold)
    }

    /// The origins whose writers are held, and need not be any longer.
    pub(super) fn released(&self) -> Vec<String> {
        let held = self.memory.braked().filter(|origin| !self.held.contains(origin));
        held.map(str::to_owned).collect()
    }

    /// Whether something is done that may help before a brake ends: writers are not held for nothing.
    fn is_helped(&self, case: &Case<'_>) -> bool {
        let frees = |rung| matches!(rung, Rung::Demote | Rung::Hurry | Rung::Retire);
        let of = |target: &Target| self.cases.iter().find(|other| other.target == *target);
        let for_it =
            |target: &Target| *target == case.target || of(target).is_some_and(|of| of.group == case.group);
        let planned = |step: &Step| frees(step.action.rung()) && for_it(&step.target);
        // What is dropped is not seen any more while that is under way, and which group it was in is not known then.
        let leaves =
            |rung: Rung, target: &Target| matches!(rung, Rung::Demote | Rung::Retire) && of(target).is_none();
        let begun = |(rung, target): (Rung, &Target)| frees(rung) && for_it(target) || leaves(rung, target);
        case.to > case.size
            || self.memory.extending(&case.target).is_some()
            || self.steps.iter().any(planned)
            || self.memory.under_way().any(begun)
    }

    /// Gives one version up in each pool that would fill, and, where the policy says so, in each group in which a
    /// younger one would overflow. What it frees is seen before another one goes.
    fn retire(&mut self) {
        for index in 0..self.cases.len() {
            let Some(case) = self.cases.get(index) else { return };
            let urgent = case.level == Level::Urgent && self.unmet(case) > 0;
            if !urgent || (case.pool().is_some() && !case.is_nearly_full()) {
                continue;
            }
            let among: Vec<&'a HotVersion> = match (case.pool(), case.version()) {
                (Some(pool), _) => pool.versions.iter().collect(),
                (None, Some(version)) if !version.archived => {
                    let group = self.cases.iter().filter(|other| other.group == case.group);
                    let versions = group.filter_map(Case::version);
                    let older = |other: &HotVersion| {
                        self.policy.space_before_retention && other.age() < version.age()
                    };
                    versions.filter(|other| other.given_up || older(other)).collect()
                }
                _ => continue,
            };
            let leaving = among.iter().any(|version| self.is_leaving(version))
                || self.memory.under_way().any(|begun| begun == (Rung::Retire, &case.target));
            let may = |id: &VersionId| self.memory.may_begin(Rung::Retire, &id.to_string(), self.seen.at_ms);
            let retirable = among.into_iter().filter(|version| version.is_retirable() && may(&version.id));
            let oldest = retirable.min_by_key(|version| version.order_of_going());
            let (target, full) = (case.target.clone(), case.assessment(self.margins).reason);
            if let Some(version) = oldest.filter(|_| !leaving) {
                let why =
                    if version.given_up { "was given up before" } else { "is the oldest that nobody holds" };
                let reason = format!("{target}: {full}; {} {why}", version.id);
                self.add(target, Action::Retire { version: version.id.clone() }, reason);
            }
        }
    }

    /// Ends the grace of one version where a folder is short: what was given up goes before publications are refused. What
    /// it frees is seen before another one goes.
    fn end_grace(&mut self) {
        let least = self.policy.least_folder_free;
        for folder in self.seen.folders.iter().filter(|folder| folder.free < least) {
            let target = Target::Folder(folder.path.clone());
            let begun = self.memory.under_way().any(|begun| begun == (Rung::Retire, &target));
            let Some(version) = folder.waiting.as_ref().filter(|_| !begun) else { continue };
            if self.memory.may_begin(Rung::Retire, &version.to_string(), self.seen.at_ms) {
                let (free, least) = (Size(folder.free), Size(least));
                let reason =
                    format!("{target} has {free} left, and needs {least}; {version} was given up before");
                self.add(target, Action::Retire { version: version.clone() }, reason);
            }
        }
    }

    /// Whether a version's snapshot is on its way out, or is about to be.
    fn is_leaving(&self, version: &HotVersion) -> bool {
        let name = version.id.to_string();
        let under_way =
            [Rung::Demote, Rung::Retire].iter().any(|rung| self.memory.is_under_way(*rung, &name));
        let planned = |step: &Step| match &step.action {
            Action::Demote { version: other } | Action::Retire { version: other } => *other == version.id,
            _ => false,
        };
        under_way || self.steps.iter().any(planned)
    }

    fn refuse(&mut self) {
        let mut refused = BTreeSet::new();
        for index in 0..self.cases.len() {
            let Some(case) = self.cases.get(index) else { return };
            let unmet = self.unmet(case);
            let reason = match case.pool() {
                Some(pool) if pool.is_broken() => pool.trouble().to_owned(),
                _ if unmet > 0 && case.is_precious() => {
                    format!("{} lacks {} already", case.target, Size(unmet))
                }
                _ => continue,
            };
            let scope = match case.pool() {
                Some(pool) => Scope::Pool(pool.id.clone()),
                None => Scope::Group(case.group.to_owned()),
            };
            if refused.insert(scope.clone()) {
                self.add(case.target.clone(), Action::Refuse { scope }, reason);
            }
        }
        let least = self.policy.least_folder_free;
        for folder in self.seen.folders.iter().filter(|folder| folder.free < least) {
            let reason = format!("{} has {} left, and needs {}", folder.path, Size(folder.free), Size(least));
            let step = Action::Refuse { scope: Scope::Everywhere };
            if refused.insert(Scope::Everywhere) {
                self.steps.push(Step { target: Target::Folder(folder.path.clone()), action: step, reason });
            }
        }
    }
}
