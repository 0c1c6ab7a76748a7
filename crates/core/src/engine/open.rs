//! Opening: leases, and the bounded cache of as-at copies behind them.

use jiff::{SignedDuration, Timestamp};

use super::{Draft, Engine};
use crate::event::{Answer, Change, Effect, Open, Reply};
use crate::version::{Copy, Lease, LeaseId, Version, check_line};
use crate::{Code, Problem, VersionId};

impl Engine {
    pub(super) fn open(&self, draft: &mut Draft<'_>, request: &Open) -> Result<Answer, Problem> {
        check_line("holder", Some(&request.holder), 200)?;
        self.check_ttl(request.ttl_s)?;
        let version = &self.register.resolve(&request.version)?.version;
        version.check_readable()?;
        if version.copy.is_none() && !self.is_being_copied(&version.id) {
            self.make_room(draft, version)?;
        }
        Ok(Answer::After(draft.intend(Effect::MakeCopy {
            version: version.id.clone(),
            lease: request.lease.clone(),
            holder: request.holder.clone(),
            ttl_s: request.ttl_s,
        })))
    }

    pub(super) fn finish_copy(
        &self,
        draft: &mut Draft<'_>,
        effect: &Effect,
        result: &Result<u64, Problem>,
    ) -> Result<Answer, Problem> {
        let Effect::MakeCopy { version, lease, holder, ttl_s } = effect else {
            return Ok(Answer::Now(Ok(Reply::Done)));
        };
        let bytes = result.clone()?;
        let entry = self.register.entry(version)?;
        let lease = Lease {
            id: lease.clone(),
            version: version.clone(),
            holder: holder.clone(),
            granted_at: draft.now,
            expires_at: later(draft.now, *ttl_s),
        };
        draft.put(Version { copy: Some(Copy { bytes, used_at: draft.now }), ..entry.version.clone() });
        draft.changes.push(Change::Lease(lease.clone()));
        Ok(Answer::Now(Ok(Reply::Leased(lease))))
    }

    pub(super) fn renew(
        &self,
        draft: &mut Draft<'_>,
        version: &VersionId,
        id: &LeaseId,
        ttl_s: u32,
    ) -> Result<Answer, Problem> {
        self.check_ttl(ttl_s)?;
        let lease = self.live_lease(version, id, draft.now)?;
        let lease = Lease { expires_at: later(draft.now, ttl_s), ..lease.clone() };
        draft.changes.push(Change::Lease(lease.clone()));
        Ok(Answer::Now(Ok(Reply::Leased(lease))))
    }

    pub(super) fn close(
        &self,
        draft: &mut Draft<'_>,
        version: &VersionId,
        id: &LeaseId,
    ) -> Result<Answer, Problem> {
        self.live_lease(version, id, draft.now)?;
        self.end_lease(draft, version, id);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Ends every lease whose time is over.
    pub(super) fn sweep_leases(&self, draft: &mut Draft<'_>) {
        let now = draft.now;
        for lease in self.register.leases().filter(|lease| lease.expires_at <= now) {
            draft.remarks.push(format!("the lease of {} on {} has expired", lease.holder, lease.version));
            self.end_lease(draft, &lease.version, &lease.id);
        }
    }

    fn end_lease(&self, draft: &mut Draft<'_>, version: &VersionId, id: &LeaseId) {
        draft.changes.push(Change::LeaseEnded(id.clone()));
        // The copy stays in the cache; closing it counts as using it.
        if let Ok(entry) = self.register.entry(version)
            && let Some(copy) = &entry.version.copy
        {
            let copy = Some(Copy { used_at: draft.now, ..copy.clone() });
            draft.put(Version { copy, ..draft.latest(&entry.version) });
        }
    }

    fn live_lease(&self, version: &VersionId, id: &LeaseId, now: Timestamp) -> Result<&Lease, Problem> {
        self.register.entry(version)?;
        let lease =
            self.register.lease(id).filter(|lease| lease.version == *version && lease.expires_at > now);
        lease.ok_or_else(|| {
            let detail = format!("there is no lease {} on {version}; it may have expired", id.0);
            Problem::new(Code::UnknownLease, detail, "open the version again")
        })
    }

    fn check_ttl(&self, ttl_s: u32) -> Result<(), Problem> {
        let max = self.policy.max_ttl_s;
        if (1..=max).contains(&ttl_s) {
            return Ok(());
        }
        let detail = format!("ttl_seconds is {ttl_s}, and must be from 1 to {max}");
        Err(Problem::new(Code::Invalid, detail, "renew the lease where it is needed for longer"))
    }

    /// Lets the least recently used copies go until one more version fits into the cache.
    fn make_room(&self, draft: &mut Draft<'_>, version: &Version) -> Result<(), Problem> {
        let needed = version.content.as_ref().map_or(0, |content| content.size_bytes());
        let bound = self.policy.max_copy_bytes;
        let copies = || self.versions().filter_map(|v| v.copy.as_ref().map(|copy| (copy, v)));
        let idle = copies().filter(|(_, v)| !self.is_being_read(&v.id, draft.now));
        let mut idle: Vec<(&Copy, &Version)> = idle.collect();
        idle.sort_unstable_by_key(|(copy, v)| (copy.used_at, &v.id));
        let mut used: u64 = copies().map(|(copy, _)| copy.bytes).sum::<u64>() + self.bytes_being_copied();
        for (copy, victim) in idle {
            if used.saturating_add(needed) <= bound {
                break;
            }
            used -= copy.bytes;
            drop_copy(draft, victim);
        }
        if used.saturating_add(needed) <= bound {
            return Ok(());
        }
        let detail = format!(
            "an as-at copy of {} needs {needed} bytes, but {used} of the {bound} bytes for copies are in use",
            version.id
        );
        Err(Problem::new(
            Code::StorageFull,
            detail,
            "close copies that are not needed, or raise copies.max_size",
        ))
    }

    /// Bytes of the copies that are being made and are not recorded yet.
    fn bytes_being_copied(&self) -> u64 {
        let making = self.register.intents().filter_map(|intent| match &intent.effect {
            Effect::MakeCopy { version, .. } => self.register.entry(version).ok(),
            _ => None,
        });
        let mut versions: Vec<&Version> = making.map(|e| &e.version).filter(|v| v.copy.is_none()).collect();
        versions.sort_unstable_by_key(|version| &version.id);
        versions.dedup_by_key(|version| &version.id);
        versions.iter().filter_map(|v| v.content.as_ref()).map(|content| content.size_bytes()).sum()
    }

    /// Whether a copy is leased or about to be.
    pub(super) fn is_being_read(&self, id: &VersionId, now: Timestamp) -> bool {
        self.register.leases_on(id).any(|lease| lease.expires_at > now) || self.is_being_copied(id)
    }

    /// Whether a copy is being made or checked for somebody at this moment.
    fn is_being_copied(&self, id: &VersionId) -> bool {
        let copying = |effect: &Effect| matches!(effect, Effect::MakeCopy { version, .. } if version == id);
        self.register.intents().any(|intent| copying(&intent.effect))
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.register.stores().flat_map(|history| history.versions.values()).map(|entry| &entry.version)
    }
}

/// Takes a copy out of the cache: from now on it counts as gone.
pub(super) fn drop_copy(draft: &mut Draft<'_>, version: &Version) {
    draft.put(Version { copy: None, ..draft.latest(version) });
    draft.intend(Effect::DropCopy { version: version.id.clone() });
}

fn later(now: Timestamp, ttl_s: u32) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(i64::from(ttl_s))).unwrap_or(Timestamp::MAX)
}
