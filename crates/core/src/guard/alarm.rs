//! The last rung: what an administrator must know, and what can be done about it.

use std::collections::BTreeMap;

use super::action::{Action, AlarmKey, AlarmKind, Step};
use super::case::Case;
use super::ladder::Draft;
use super::memory::FAILING;
use super::observation::{PoolMode, PoolSeen};
use super::policy::Rung;
use super::target::Target;
use super::text::{Size, Span};
use crate::clock::{self, Believed, Bounds};
use crate::harm::{Damage, Harm};
use crate::{Problem, StoreName};

/// The text of an alarm, and its hint.
type Said = (String, String);

impl Draft<'_> {
    /// Every alarm once, by its key.
    pub(super) fn alarm(&mut self) {
        let mut alarms: BTreeMap<AlarmKey, Said> = BTreeMap::new();
        for case in &self.cases {
            for (kind, said) in self.alarms_of(case) {
                alarms.entry(AlarmKey { target: case.target.clone(), kind }).or_insert(said);
            }
        }
        for (rung, target, ms) in self.memory.stuck(self.seen.at_ms) {
            let text = format!("{target}: to {} it has been under way for {}", rung.text(), Span(ms));
            let hint =
                "look for a stuck lvm command and at the disks; nothing else is done to volumes meanwhile";
            let key = AlarmKey { target: target.clone(), kind: AlarmKind::Stuck };
            alarms.entry(key).or_insert((text, hint.to_owned()));
        }
        let least = self.policy.least_folder_free;
        for folder in self.seen.folders.iter().filter(|folder| folder.free < least) {
            let text = format!("{} has {} left of {}", folder.path, Size(folder.free), Size(folder.total));
            let hint = format!("free or add space until {} are free", Size(least));
            let target = Target::Folder(folder.path.clone());
            alarms.entry(AlarmKey { target, kind: AlarmKind::Short }).or_insert((text, hint));
        }
        self.steps.extend(alarms.into_iter().map(step));
    }

    /// What is lost or damaged, and a clock that is doubted, is told of whatever rungs there are: it is no matter of space.
    pub(super) fn tell_of_harms(&mut self) {
        self.steps.extend(self.seen.harms.iter().flat_map(of_harm).map(step));
        self.steps.extend(self.seen.clock.as_ref().map(of_clock).map(step));
    }

    fn alarms_of(&self, case: &Case<'_>) -> Vec<(AlarmKind, Said)> {
        let (target, mut found) = (&case.target, Vec::new());
        let mut say = |kind, text: String, hint: &str| found.push((kind, (text, hint.to_owned())));
        if let Some(pool) = case.pool().filter(|pool| pool.is_broken()) {
            say(AlarmKind::Broken, format!("{target}: {}", pool.trouble()), mending(pool));
        }

        let unmet = self.unmet(case);
        if unmet > 0 && case.is_precious() {
            let reason = case.assessment(self.margins).reason;
            let text = format!("{target}: {reason}, and {} cannot be had", Size(unmet));
            say(AlarmKind::Short, text, self.remedy(case));
        }
        let (failures, why) = self.memory.failures(Rung::Extend, &target.to_string());
        if failures >= FAILING && case.is_in_need() {
            let text = format!("{target} could not be extended, {failures} times: {why}");
            say(
                AlarmKind::Stuck,
                text,
                "see what LVM says to lvextend, and whether somebody changed the volume",
            );
        }
        found
    }

    /// What makes space for a case that is short.
    fn remedy(&self, case: &Case<'_>) -> &'static str {
        match case.pool() {
            Some(pool) if !pool.may_grow => {
                "extend the pool with lvextend, or let asat extend it in the configuration"
            }
            Some(_) if case.size >= case.most => {
                "metadata cannot grow further: remove snapshots from the pool"
            }
            Some(_) => "add a disk to the group with vgextend, or remove snapshots from the pool",
            None => {
                "add a disk to the group with vgextend, remove volumes, or unpin versions that are pinned hot"
            }
        }
    }
}

/// The alarm that nothing can be recorded in the state folder of this path, and why not.
#[must_use]
pub fn unrecorded(folder: &str, problem: &Problem) -> Step {
    of_folder(folder, AlarmKind::Broken, problem)
}

/// The alarm that the catalogue in the state folder of this path is not what was recorded.
#[must_use]
pub fn records_damaged(folder: &str, problem: &Problem) -> Step {
    of_folder(folder, AlarmKind::Damaged, problem)
}

/// The alarm that versions of a store do not come into the bucket.
#[must_use]
pub fn unstored(store: &StoreName, text: String, hint: String) -> Step {
    step((AlarmKey { target: Target::Store(store.clone()), kind: AlarmKind::Stuck }, (text, hint)))
}

/// The alarm that so many pages of a store had changed without that being known from its WAL.
#[must_use]
pub fn untracked(store: &StoreName, pages: u32) -> Step {
    let text = format!(
        "{pages} pages of {store} had changed, and its WAL did not tell of them: versions since the comparison before may lack \
         changes; the newest one is right, and all of the store is read from now on"
    );
    let hint = "find out what writes to the file by other means than SQLite, report this as a defect, and restart asat".to_owned();
    step((AlarmKey { target: Target::Store(store.clone()), kind: AlarmKind::Doubted }, (text, hint)))
}

/// The alarm that the bucket which is followed does not answer.
#[must_use]
pub fn unfollowed(url: &str, text: String, hint: String) -> Step {
    step((AlarmKey { target: Target::Folder(url.to_owned()), kind: AlarmKind::Stuck }, (text, hint)))
}

fn of_folder(folder: &str, kind: AlarmKind, problem: &Problem) -> Step {
    let key = AlarmKey { target: Target::Folder(folder.to_owned()), kind };
    step((key, (problem.detail.clone(), problem.hint.clone())))
}

fn step((key, (reason, hint)): (AlarmKey, Said)) -> Step {
    Step { target: key.target.clone(), action: Action::Alarm { key, hint }, reason }
}

/// What is lost and damaged of a store. Another version that is lost is another alarm, so that it is told of even where
/// somebody knows of those before; they are counted in it, and have none of their own.
fn of_harm(harm: &Harm) -> impl Iterator<Item = (AlarmKey, Said)> {
    let lost = harm.lost.as_ref().map(|lost| {
        let key = AlarmKey { target: Target::Version(lost.newest.clone()), kind: AlarmKind::Lost };
        (key, (lost.what(), lost.hint()))
    });
    let damaged = harm.damage.as_ref().map(|damage| {
        let key = AlarmKey { target: Target::Store(harm.store.clone()), kind: AlarmKind::Damaged };
        (key, (damage.what(&harm.store), Damage::hint(&harm.store)))
    });
    lost.into_iter().chain(damaged)
}

/// That the clock is doubted, and that nothing ends by it meanwhile.
fn of_clock((believed, bounds): &(Believed, Bounds)) -> (AlarmKey, Said) {
    let text = format!("{}; no lease, pin, grace or version ends by the machine's clock", believed.what());
    (AlarmKey { target: Target::Clock, kind: AlarmKind::Doubted }, (text, clock::hint(bounds)))
}

/// What mends a pool that takes no writes.
fn mending(pool: &PoolSeen) -> &'static str {
    match pool.mode {
        PoolMode::Failed => {
            "deactivate its volumes, look at the disks, and run lvconvert --repair on the pool"
        }
        _ if pool.needs_check => "deactivate its volumes and run lvconvert --repair on the pool",
        _ => {
            "extend its metadata with lvextend --poolmetadatasize; if it stays as it is, run lvconvert --repair"
        }
    }
}
