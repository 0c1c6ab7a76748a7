//! Revoking: an administrator takes a lease from its holder, and that is written down.

use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::event::{Answer, Reply};
use crate::line::check_line;
use crate::version::{Copy, Lease, LeaseId};
use crate::{Code, Problem, VersionId};

impl Engine {
    /// Ends a lease at once. Where nobody else has the version open, its copy goes too, so that its path leads nowhere.
    pub(super) fn revoke(
        &self,
        draft: &mut Draft<'_>,
        id: &LeaseId,
        reason: Option<&str>,
    ) -> Result<Answer, Problem> {
        check_line("reason", reason, 500)?;
        let lease =
            self.register.lease(id).filter(|lease| lease.expires_at > draft.now).ok_or_else(|| {
                let detail = format!("there is no lease {}; it may have expired", id.0);
                Problem::new(Code::UnknownLease, detail, "see the open ones with `asat leases`")
            })?;
        note_revocation(draft, lease, reason);
        let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("the lease of {} on {} is revoked{why}", lease.holder, lease.version);
        draft.remark(&lease.version, text);
        self.end_lease(draft, &lease.version, id);
        self.drop_idle_copy(draft, &lease.version);
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Revoked(lease.clone()))))
    }

    /// Takes a version's copy out of the cache, unless somebody has it leased or it is being made.
    fn drop_idle_copy(&self, draft: &mut Draft<'_>, id: &VersionId) {
        let Ok(entry) = self.register.entry(id) else { return };
        let version = draft.latest(&entry.version);
        let in_cache = |copy: &Copy| !copy.in_snapshot;
        if version.copy.as_deref().is_some_and(in_cache) && !draft.is_leased(id) && !self.is_being_copied(id)
        {
            draft.drop_copy(&version);
        }
    }
}

/// Has it stand in the audit trail that a lease is taken from its holder.
pub(super) fn note_revocation(draft: &mut Draft<'_>, lease: &Lease, reason: Option<&str>) {
    let deed = Deed::new(draft.now, draft.by.clone(), Action::Revoke, lease.version.clone())
        .with("lease", lease.id.0.as_str())
        .with("holder", lease.holder.as_str())
        .with_some("taken_by", lease.actor.as_deref())
        .with("expires_at", format!("{:.6}", lease.expires_at))
        .with_some("reason", reason);
    draft.note(deed);
}
