//! Hardships: what scenarios must bring now and then, and what a plan must be under those that it can see.

use std::collections::{BTreeMap, BTreeSet};

use asat_core::guard::{
    Action, AlarmKey, AlarmKind, Assessment, HotVersion, Level, Observation, Plan, PoolMode, Rung, Scope,
    Step, Target,
};
use asat_core::version::State;
use asat_core::{StoreName, VersionId};
use jiff::Timestamp;

use crate::Violation;
use crate::sim::Sim;
use crate::world::EXTENT;

pub(crate) const FAILED: &str = "lvextend failed";
pub(crate) const HUNG: &str = "lvextend hung";
pub(crate) const LATE: &str = "lvextend succeeded after it was given up";
pub(crate) const EMPTIED: &str = "somebody else took all that the group had free";
pub(crate) const REMOVED: &str = "a snapshot was removed by hand";
pub(crate) const INVALIDATED: &str = "a snapshot was invalidated by hand";
pub(crate) const READ_ONLY: &str = "the pool was switched to read-only";
pub(crate) const CLOCK: &str = "the clock was set";
pub(crate) const DOUBTED: &str = "the clock was doubted";
pub(crate) const PAUSED: &str = "the daemon was stopped for 20 s while somebody wrote";
pub(crate) const CONTESTED: &str = "two needed the last extents at once";
pub(crate) const PINNED: &str = "all was pinned or leased, and no space was left";

/// What scenarios bring now and then, by the names under which a [`crate::Tally`] counts it.
pub const HARDSHIPS: [&str; 12] =
    [FAILED, HUNG, LATE, EMPTIED, REMOVED, INVALIDATED, READ_ONLY, CLOCK, DOUBTED, PAUSED, CONTESTED, PINNED];

/// From when on a command that does not end is told of, in milliseconds.
const STUCK_MS: u64 = 10_000;

/// What must be extended, and that somebody would miss.
#[derive(Debug)]
struct Claim {
    /// By which claims are served: the kind, whether it only may fill, then age.
    rank: (u8, bool, Option<(Timestamp, VersionId)>),
    target: Target,
    urgent: bool,
    /// Bytes in whole extents.
    needs: u64,
}

impl Sim {
    /// Of every plan: what is granted is there, and hardships are met as they should be.
    pub(crate) fn check_hardships(&mut self, seen: &Observation, plan: &Plan) -> Result<(), Violation> {
        let granted = granted(seen, plan);
        let free = free(seen);
        if granted.values().sum::<u64>() > free {
            return Err(Violation::new(format!(
                "more is granted than the {free} bytes that are known of: {granted:?}"
            )));
        }
        let claims = self.claims(seen, plan);
        self.check_contest(free, &claims, &granted)?;
        self.check_dead_end(seen, plan, &claims)?;
        self.check_broken_pools(seen, plan)?;
        // A daemon that stood still does not know how much of that time it took.
        let is_stuck = |since: u64| since.max(self.faults.paused_until) + STUCK_MS < self.world.now;
        match self.lvm.extending().filter(|(_, since)| is_stuck(*since)) {
            Some((target, _)) => self.check_alarm(plan, target, AlarmKind::Stuck),
            None => Ok(()),
        }
    }

    /// Of every store that has lost versions somebody is told, for as long as it has.
    pub(crate) fn check_losses_are_told(&mut self, plan: &Plan) -> Result<(), Violation> {
        let alarms = plan.steps.iter().filter_map(|step| match &step.action {
            Action::Alarm {
                key: AlarmKey { target: Target::Version(id), kind: AlarmKind::Lost }, ..
            } => Some(&id.store),
            _ => None,
        });
        let told: BTreeSet<&StoreName> = alarms.collect();
        let mut lost = self.versions().filter(|version| version.state == State::Lost).peekable();
        let is_any = lost.peek().is_some();
        if let Some(version) = lost.find(|version| !told.contains(&version.id.store)) {
            return Err(Violation::new(format!("{} is lost, and no alarm says so", version.id)));
        }
        drop(lost);
        if is_any {
            self.tally.count("looks at which a lost version was told of");
        }
        Ok(())
    }

    /// Of a clock that is doubted somebody is told, and of no other.
    pub(crate) fn check_doubt_is_told(&self, plan: &Plan) -> Result<(), Violation> {
        let of_clock = |step: &&Step| step.target == Target::Clock;
        let (told, doubted) = (plan.steps.iter().filter(of_clock).count(), self.believed().doubted);
        if told == usize::from(doubted) {
            return Ok(());
        }
        Err(Violation::new(format!("the clock is doubted: {doubted}; alarms that say so: {told}")))
    }

    fn takes(&self, rung: Rung) -> bool {
        self.guard.ladder.contains(&rung)
    }

    /// What is low or urgent, can be extended, and is precious, in the order of precedence.
    fn claims(&self, seen: &Observation, plan: &Plan) -> Vec<Claim> {
        let deeds = self.daemon.iter().flat_map(|daemon| &daemon.deeds);
        let leaving = deeds.filter(|(rung, _)| matches!(rung, Rung::Demote | Rung::Retire));
        let leaving: Vec<&VersionId> = leaving.map(|(_, version)| version).collect();
        let short = plan.assessments.iter().filter(|found| matches!(found.level, Level::Low | Level::Urgent));
        let origin = |target: &Target| {
            let snapshot = seen.snapshots.iter().find(|seen| Some(&seen.version.id) == target.version());
            snapshot.map(|snapshot| &snapshot.origin)
        };
        let urgent = plan.assessments.iter().filter(|found| found.level == Level::Urgent);
        let written: Vec<&String> = urgent.filter_map(|found| origin(&found.target)).collect();
        let claim = |found: &Assessment| {
            let fills = found.level == Level::Urgent
                || origin(&found.target).is_some_and(|origin| written.contains(&origin));
            let (most, kind, version) = match &found.target {
                Target::PoolMetadata(_) => (u64::MAX, 0, None),
                Target::PoolData(id) => {
                    let pool = seen.pools.iter().find(|pool| pool.id == *id)?;
                    let is_out = pool.mode == PoolMode::OutOfDataSpace && pool.data_size >= pool.data_most;
                    (if is_out { u64::MAX } else { pool.data_most }, 1, None)
                }
                Target::Snapshot(id) => {
                    let seen = seen.snapshots.iter().find(|seen| seen.version.id == *id)?;
                    let kind = if seen.version.archived { 3 } else { 2 };
                    (seen.most, kind, Some(&seen.version))
                }
                Target::Group(_)
                | Target::Folder(_)
                | Target::Version(_)
                | Target::Store(_)
                | Target::Clock => return None,
            };
            if version.is_some_and(|version| version.is_demotable() || leaving.contains(&&version.id)) {
                return None;
            }
            let needs = found.worst.saturating_add(1).min(most).saturating_sub(found.size);
            let age = version.map(|version| (version.cut_at, version.id.clone()));
            Some(Claim {
                rank: (kind, !fills, age),
                target: found.target.clone(),
                urgent: found.level == Level::Urgent,
                needs: needs.checked_next_multiple_of(EXTENT).unwrap_or(u64::MAX / EXTENT * EXTENT),
            })
        };
        let mut claims: Vec<Claim> = short.filter_map(claim).collect();
        claims.sort_by(|a, b| a.rank.cmp(&b.rank));
        claims
    }

    /// Where there is not enough for two that could each have been served alone, each gets what it must have in the
    /// order of precedence, and nobody more than that. Those of one class share all that is left. What harms readers only
    /// leaves alone what makes others last longer.
    fn check_contest(
        &mut self,
        free: u64,
        claims: &[Claim],
        granted: &BTreeMap<&Target, u64>,
    ) -> Result<(), Violation> {
        let mut left = free;
        let asked = claims.iter().map(|claim| claim.needs).fold(0, u64::saturating_add);
        if claims.iter().filter(|claim| claim.needs <= left).count() < 2 || asked <= left {
            return Ok(());
        }
        self.tally.count(CONTESTED);
        // What is under way has its share already, and what fails is asked for otherwise.
        if self.is_failing() || self.lvm.has_extension() || !self.takes(Rung::Extend) {
            return Ok(());
        }
        let given = |claim: &Claim| granted.get(&claim.target).copied().unwrap_or_default();
        for class in claims.chunk_by(|one, next| (one.rank.0, one.rank.1) == (next.rank.0, next.rank.1)) {
            let due = class.iter().map(|claim| claim.needs).fold(0, u64::saturating_add).min(left);
            let together: u64 = class.iter().map(given).sum();
            let harms_readers = |claim: &Claim| claim.rank.0 == 3;
            let is_fair = match (class.iter().all(harms_readers), claims.iter().any(harms_readers)) {
                (true, _) => together <= due,
                (false, true) => together >= due,
                (false, false) => together == due && class.iter().all(|claim| given(claim) <= claim.needs),
            };
            if !is_fair {
                let what =
                    format!("{class:?} are due {due} bytes, and get {together}: {claims:?}, {granted:?}");
                return Err(Violation::new(what));
            }
            left -= together;
        }
        Ok(())
    }

    /// Where everything is pinned or leased, and there is no space, what runs short is alarmed for, publications are
    /// refused, and writers are not held for nothing.
    fn check_dead_end(&mut self, seen: &Observation, plan: &Plan, claims: &[Claim]) -> Result<(), Violation> {
        let thin = seen.pools.iter().flat_map(|pool| &pool.versions);
        let mut hot = seen.snapshots.iter().map(|seen| &seen.version).chain(thin).peekable();
        let stays = |version: &HotVersion| version.held || version.needed;
        let is_dead_end = free(seen) < EXTENT && hot.peek().is_some() && hot.all(stays);
        let urgent: Vec<&Claim> = claims.iter().filter(|claim| claim.urgent).collect();
        if !is_dead_end || urgent.is_empty() || self.lvm.has_extension() {
            return Ok(());
        }
        self.tally.count(PINNED);
        for claim in urgent {
            let scope = match &claim.target {
                Target::PoolData(id) | Target::PoolMetadata(id) => Scope::Pool(id.clone()),
                _ => Scope::Group("vg".to_owned()),
            };
            self.check_told(plan, &claim.target, AlarmKind::Short, &scope)?;
        }
        let helps = |rung| matches!(rung, Rung::Extend | Rung::Demote | Rung::Hurry | Rung::Retire);
        let under_way = self.daemon.iter().any(|daemon| !daemon.deeds.is_empty());
        let held = plan.steps.iter().find(|step| step.action.rung() == Rung::Brake);
        match held.filter(|_| !under_way && !plan.steps.iter().any(|step| helps(step.action.rung()))) {
            Some(step) => Err(Violation::new(format!("writers are held for nothing: {step:?}"))),
            None => Ok(()),
        }
    }

    /// A pool that takes no writes is alarmed for, takes no publications, and costs no version.
    fn check_broken_pools(&self, seen: &Observation, plan: &Plan) -> Result<(), Violation> {
        for pool in seen.pools.iter().filter(|pool| pool.mode == PoolMode::ReadOnly) {
            let data = Target::PoolData(pool.id.clone());
            self.check_told(plan, &data, AlarmKind::Broken, &Scope::Pool(pool.id.clone()))?;
            let vain = plan.steps.iter().find(|step| match &step.action {
                Action::Extend { target, .. } => *target == data,
                Action::Retire { version } => pool.versions.iter().any(|held| held.id == *version),
                _ => false,
            });
            if let Some(step) = vain {
                return Err(Violation::new(format!("for a pool that takes no writes: {step:?}")));
            }
        }
        Ok(())
    }

    fn check_alarm(&self, plan: &Plan, of: &Target, kind: AlarmKind) -> Result<(), Violation> {
        let wanted = AlarmKey { target: of.clone(), kind };
        let tells = |step: &Step| matches!(&step.action, Action::Alarm { key, .. } if *key == wanted);
        if !self.takes(Rung::Alarm) || plan.steps.iter().any(tells) {
            return Ok(());
        }
        Err(Violation::new(format!("nobody is told of {wanted}: {:?}", plan.steps)))
    }

    /// An administrator is told of a target, and publications are refused for its sake.
    fn check_told(&self, plan: &Plan, of: &Target, kind: AlarmKind, scope: &Scope) -> Result<(), Violation> {
        self.check_alarm(plan, of, kind)?;
        let refuses = |step: &Step| matches!(&step.action, Action::Refuse { scope: of } if of == scope);
        if !self.takes(Rung::Refuse) || plan.steps.iter().any(refuses) {
            return Ok(());
        }
        Err(Violation::new(format!("publications are not refused in {scope:?} for {of}: {:?}", plan.steps)))
    }
}

/// What the guard knows to be free.
pub(crate) fn free(seen: &Observation) -> u64 {
    seen.groups.iter().map(|group| group.free).sum()
}

/// What a plan gives to whom, in bytes.
fn granted<'a>(seen: &Observation, plan: &'a Plan) -> BTreeMap<&'a Target, u64> {
    let size = |target: &Target| match target {
        Target::Snapshot(id) => {
            seen.snapshots.iter().find(|seen| seen.version.id == *id).map(|seen| seen.size)
        }
        Target::PoolData(id) => seen.pools.iter().find(|seen| seen.id == *id).map(|seen| seen.data_size),
        Target::PoolMetadata(id) => {
            seen.pools.iter().find(|seen| seen.id == *id).map(|seen| seen.metadata_size)
        }
        Target::Group(_) | Target::Folder(_) | Target::Version(_) | Target::Store(_) | Target::Clock => None,
    };
    let extensions = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Extend { target, to } => Some((target, to.saturating_sub(size(target)?))),
        _ => None,
    });
    extensions.collect()
}
