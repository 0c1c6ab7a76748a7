//! Keeping and letting go: pins, and retirement on request.

use jiff::Timestamp;

use super::repair::do_without;
use super::{Draft, Engine};
use crate::event::{Answer, Effect, EffectId, Reply, Retired};
use crate::line::check_line;
use crate::version::{Holding, Lease, Pin, State, Version};
use crate::{Code, Problem, StoreName, VersionId, VersionRef};

impl Engine {
    pub(super) fn set_pin(
        &self,
        draft: &mut Draft<'_>,
        wanted: &VersionRef,
        pin: Option<Pin>,
    ) -> Result<Answer, Problem> {
        let version = &self.register.resolve(wanted)?.version;
        if pin.is_some() {
            version.check_readable()?;
        }
        let pin = pin.map(Box::new);
        if version.pin != pin {
            draft.put(Version { pin, ..version.clone() });
            self.move_on(draft);
        }
        Ok(Answer::Now(Ok(Reply::Version(version.id.clone()))))
    }

    pub(super) fn retire(
        &self,
        draft: &mut Draft<'_>,
        wanted: &VersionRef,
        reason: Option<&str>,
        now: bool,
    ) -> Result<Answer, Problem> {
        check_line("reason", reason, 500)?;
        let version = &self.register.resolve(wanted)?.version;
        match version.state {
            State::Retired if now && version.grace().is_some() => {
                if self.is_stored_upon(version) {
                    let detail = format!(
                        "{} is being published, so that pages of {} are needed",
                        version.id.store, version.id
                    );
                    return Err(Problem::new(Code::InUse, detail, "try again in a moment"));
                }
                let effect = self.purge(draft, version, "its grace was ended on request");
                self.move_on(draft);
                return Ok(Answer::After(effect));
            }
            State::Retired => return Ok(Answer::Now(Ok(Reply::Version(version.id.clone())))),
            State::Retiring => {
                let under_way = self.register.intents().find(|intent| retires(&intent.effect, &version.id));
                return Ok(match under_way {
                    Some(intent) => Answer::After(intent.id),
                    None => Answer::After(draft.intend(Effect::Retire { version: version.id.clone() })),
                });
            }
            State::Ready | State::Lost => {}
            State::Cutting | State::Failed => version.check_readable()?,
        }
        if let Some(problem) = self.hold_on(version, draft.now) {
            return Err(problem);
        }
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let reason = format!("retired on request{reason}");
        let effect = match now {
            true => Some(self.let_go(draft, version, reason)),
            false => self.give_up_with_grace(draft, version, reason),
        };
        self.move_on(draft);
        Ok(effect.map_or_else(|| Answer::Now(Ok(Reply::Version(version.id.clone()))), Answer::After))
    }

    /// Records that a version is given up, and intends to let its copy and its pages go.
    pub(super) fn let_go(&self, draft: &mut Draft<'_>, version: &Version, reason: String) -> EffectId {
        let had_copy = version.copy.is_some();
        let version = Version { copy: None, ..draft.latest(version) };
        draft.end(&version, State::Retiring, reason);
        if had_copy {
            draft.intend(Effect::DropCopy { version: version.id.clone() });
        }
        draft.intend(Effect::Retire { version: version.id.clone() })
    }

    pub(super) fn finish_retire(
        &self,
        draft: &mut Draft<'_>,
        id: &VersionId,
        result: &Result<Retired, Problem>,
    ) -> Result<Answer, Problem> {
        let answer = self.after_retire(draft, id, result);
        // Versions wait for it on their way into the archive, however it ended.
        self.move_on(draft);
        answer
    }

    fn after_retire(
        &self,
        draft: &mut Draft<'_>,
        id: &VersionId,
        result: &Result<Retired, Problem>,
    ) -> Result<Answer, Problem> {
        let retired = result.clone()?;
        do_without(draft, self.register.history(&id.store)?, id.number);
        let version = &self.register.entry(id)?.version;
        // A version that failed or was lost keeps that as its end; only its leftovers went.
        if version.state == State::Retiring {
            let mut version = version.clone();
            version.holdings.retain(|holding| matches!(holding, Holding::Snapshot(_)));
            // Where it has a snapshot as well, it is over when that is gone.
            let state = if version.holdings.is_empty() { State::Retired } else { version.state };
            draft.put(Version { state, ..version });
        }
        if retired.worth_compacting {
            self.compact(draft, &id.store);
        }
        Ok(Answer::Now(Ok(Reply::Version(id.clone()))))
    }

    /// Has a store's archive compacted. One compaction may be under way and have looked already; one that waits will see what has just
    /// been changed.
    pub(super) fn compact(&self, draft: &mut Draft<'_>, store: &StoreName) {
        let compacting =
            |effect: &Effect| matches!(effect, Effect::Compact { store: other } if other == store);
        if self.register.intents().filter(|intent| compacting(&intent.effect)).count() < 2 {
            draft.intend(Effect::Compact { store: store.clone() });
        }
    }

    /// Why a version may not be given up now, where that is so.
    pub(super) fn hold_on(&self, version: &Version, now: Timestamp) -> Option<Problem> {
        let id = &version.id;
        let leases: Vec<&Lease> =
            self.register.leases_on(id).filter(|lease| lease.expires_at > now).collect();
        if let Some(first) = leases.first() {
            let others = match leases.len() {
                1 => String::new(),
                several => format!(", and by {} more", several - 1),
            };
            let Lease { holder, expires_at, id: lease, .. } = first;
            let detail =
                format!("{id} is leased by {holder} until {expires_at:.6}{others} (lease {})", lease.0);
            let hint = "wait until the lease expires, have it closed, or see `asat leases`";
            return Some(Problem::new(Code::Leased, detail, hint));
        }
        if let Some(pin) = version.pin.as_ref().filter(|pin| pin.counts(now)) {
            let owner = pin.owner.as_deref().map(|owner| format!(" by {owner}")).unwrap_or_default();
            let end = pin.expires_at.map(|end| format!(" until {end:.6}")).unwrap_or_default();
            let detail = format!("{id} is pinned{owner}{end}: {}", pin.reason);
            return Some(Problem::new(Code::Pinned, detail, format!("asat unpin {id} takes the pin away")));
        }
        if let Some(problem) = self.tagged(version) {
            return Some(problem);
        }
        let moving = self.is_being_archived(id) || self.is_being_restored(id);
        // What is lost cannot be used, and comes into no bucket.
        let is_held = version.state != State::Lost && self.held.contains(id);
        if moving || self.is_being_read(id, now) || self.may_be_reused(id) || is_held {
            let detail = format!(
                "{id} is being opened, published, archived or restored at this moment, or is not in the bucket yet"
            );
            let hint =
                "try again in a moment; what keeps a version from the bucket, `asat remote status` says";
            return Some(Problem::new(Code::InUse, detail, hint));
        }
        None
    }

    pub(super) fn tick(&self, draft: &mut Draft<'_>) -> Result<Answer, Problem> {
        self.sweep_leases(draft);
        self.sweep_pins(draft);
        self.finish_retiring(draft);
        self.end_graces(draft);
        self.retain(draft);
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    fn sweep_pins(&self, draft: &mut Draft<'_>) {
        let expired = |version: &&Version| version.pin.as_ref().is_some_and(|pin| !pin.counts(draft.now));
        let versions: Vec<&Version> = self.moving().filter(expired).collect();
        for version in versions {
            draft.remark(&version.id, format!("the pin on {} has expired", version.id));
            draft.put(Version { pin: None, ..draft.latest(version) });
        }
    }

    /// Tries again to let go what could not be let go before.
    fn finish_retiring(&self, draft: &mut Draft<'_>) {
        let waits = |v: &&Version| v.state == State::Retiring && (v.is_archived() || v.snapshot().is_none());
        for version in self.moving().filter(waits) {
            if !self.register.intents().any(|intent| retires(&intent.effect, &version.id)) {
                draft.intend(Effect::Retire { version: version.id.clone() });
            }
        }
    }
}

/// A pin as it is asked for.
pub(super) fn pin(
    now: Timestamp,
    reason: &str,
    owner: Option<&str>,
    expires_at: Option<Timestamp>,
    hot: bool,
) -> Result<Pin, Problem> {
    check_line("reason", Some(reason), 500)?;
    check_line("owner", owner, 200)?;
    if let Some(end) = expires_at.filter(|end| *end <= now) {
        let detail = format!("expires_at is {end}, which has passed");
        return Err(Problem::new(Code::Invalid, detail, "leave it out, or name a time to come"));
    }
    Ok(Pin { reason: reason.to_owned(), owner: owner.map(str::to_owned), set_at: now, expires_at, hot })
}

fn retires(effect: &Effect, id: &VersionId) -> bool {
    matches!(effect, Effect::Retire { version } if version == id)
}
