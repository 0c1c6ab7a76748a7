//! Opening: leases, and the bounded cache of as-at copies behind them.

use jiff::{SignedDuration, Timestamp};

use super::revoke::note_revocation;
use super::{Draft, Engine};
use crate::event::{Answer, Change, Copied, Effect, Intent, Open, Reply};
use crate::line::check_line;
use crate::register::History;
use crate::snapshot::Snapshot;
use crate::version::{Copy, Lease, LeaseId, Version};
use crate::{Code, Problem, VersionId};

impl Engine {
    pub(super) fn open(&self, draft: &mut Draft<'_>, request: &Open) -> Result<Answer, Problem> {
        check_line("holder", Some(&request.holder), 200)?;
        self.check_ttl(request.ttl_s)?;
        let version = &self.register.resolve(&request.version)?.version;
        version.check_readable()?;
        self.check_lease_bounds(draft, &request.lease)?;
        if request.in_tree && version.is_archived() {
            let Open { lease, holder, ttl_s, .. } = request;
            return Ok(grant(draft, &version.id, lease, holder, *ttl_s));
        }
        let in_snapshot = self.is_read_in_snapshot(version);
        if version.copy.is_none() && !in_snapshot && !self.is_being_copied(&version.id) {
            self.make_room(draft, version)?;
        }
        Ok(Answer::After(draft.intend(Effect::MakeCopy {
            version: version.id.clone(),
            in_snapshot,
            lease: request.lease.clone(),
            holder: request.holder.clone(),
            ttl_s: request.ttl_s,
        })))
    }

    pub(super) fn finish_copy(
        &self,
        draft: &mut Draft<'_>,
        effect: &Effect,
        result: &Result<Copied, Problem>,
    ) -> Result<Answer, Problem> {
        let Effect::MakeCopy { version, lease, holder, ttl_s, .. } = effect else {
            return Ok(Answer::Now(Ok(Reply::Done)));
        };
        let Copied { bytes, in_snapshot } = match result {
            Ok(copied) => *copied,
            Err(problem) => {
                // A snapshot that was kept for it may go.
                self.move_on(draft);
                return Err(problem.clone());
            }
        };
        let entry = self.register.entry(version)?;
        draft.put(Version {
            copy: Some(Box::new(Copy { in_snapshot, bytes, used_at: draft.now })),
            ..entry.version.clone()
        });
        Ok(grant(draft, version, lease, holder, *ttl_s))
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
        let lease = self.live_lease(version, id, draft.now)?;
        if !lease.is_of(&draft.by) {
            note_revocation(draft, lease, Some("it was closed by another than who took it"));
        }
        self.end_lease(draft, version, id);
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Ends every lease whose time is over.
    pub(super) fn sweep_leases(&self, draft: &mut Draft<'_>) {
        let now = draft.now;
        for lease in self.register.leases().filter(|lease| lease.expires_at <= now) {
            let text = format!("the lease of {} on {} has expired", lease.holder, lease.version);
            draft.remark(&lease.version, text);
            self.end_lease(draft, &lease.version, &lease.id);
        }
    }

    pub(super) fn end_lease(&self, draft: &mut Draft<'_>, version: &VersionId, id: &LeaseId) {
        draft.changes.push(Change::LeaseEnded(id.clone()));
        // The copy stays in the cache; closing it counts as using it.
        if let Ok(entry) = self.register.entry(version)
            && let Some(copy) = &entry.version.copy
        {
            let copy = Some(Box::new(Copy { used_at: draft.now, ..**copy }));
            draft.put(Version { copy, ..draft.latest(&entry.version) });
        }
        self.close_in_snapshot(draft, version);
    }

    fn live_lease(&self, version: &VersionId, id: &LeaseId, now: Timestamp) -> Result<&Lease, Problem> {
        self.register.entry(version)?;
        if let Some(other) =
            self.register.lease(id).filter(|lease| lease.version != *version && lease.expires_at > now)
        {
            let detail = format!("the lease {} is on {}, and not on {version}", id.0, other.version);
            return Err(Problem::new(
                Code::UnknownLease,
                detail,
                format!("name that version: {}", other.version),
            ));
        }
        let lease =
            self.register.lease(id).filter(|lease| lease.version == *version && lease.expires_at > now);
        lease.ok_or_else(|| {
            let detail = format!("there is no lease {} on {version}; it may have expired", id.0);
            Problem::new(
                Code::UnknownLease,
                detail,
                "asat leases lists the open ones; open the version again to read on",
            )
        })
    }

    fn check_ttl(&self, ttl_s: u32) -> Result<(), Problem> {
        let max = self.policy.max_ttl_s;
        if (1..=max).contains(&ttl_s) {
            return Ok(());
        }
        let detail =
            format!("a lease lasts from 1 to {max} seconds here, and {ttl_s} were asked for (ttl_seconds)");
        Err(Problem::new(Code::Invalid, detail, "renew the lease if you need it for longer"))
    }

    /// Lets the least recently used copies go until one more version fits into the cache.
    fn make_room(&self, draft: &mut Draft<'_>, version: &Version) -> Result<(), Problem> {
        let needed = version.content.as_ref().map_or(0, |content| content.size_bytes());
        let bound = self.policy.max_copy_bytes;
        let in_cache = |copy: &&Copy| !copy.in_snapshot;
        let copies = || self.moving().filter_map(|v| Some((v.copy.as_deref().filter(in_cache)?, v)));
        let idle = copies().filter(|(_, v)| !self.is_being_read(&v.id, draft.now));
        let mut idle: Vec<(&Copy, &Version)> = idle.collect();
        idle.sort_unstable_by_key(|(copy, v)| (copy.used_at, &v.id));
        let mut used: u64 = copies().map(|(copy, _)| copy.bytes).sum::<u64>() + self.bytes_being_copied();
        for (copy, victim) in idle {
            if used.saturating_add(needed) <= bound {
                break;
            }
            used -= copy.bytes;
            draft.drop_copy(victim);
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

    /// Whether a version is read in its snapshot: all leases on it, for as long as there is one, read the same file.
    pub(super) fn is_read_in_snapshot(&self, version: &Version) -> bool {
        let copied = |intent: &Intent| match &intent.effect {
            Effect::MakeCopy { version: id, in_snapshot, .. } if *id == version.id => Some(*in_snapshot),
            _ => None,
        };
        let stays = || {
            let dropped = |effect: &Effect| matches!(effect, Effect::DropSnapshot { version: id, .. } if *id == version.id);
            let whole = version.snapshot().is_some_and(Snapshot::can_be_shown);
            whole && !self.register.intents().any(|intent| dropped(&intent.effect))
        };
        let copy = version.copy.as_ref().map(|copy| copy.in_snapshot);
        copy.or_else(|| self.register.intents().find_map(copied)).unwrap_or_else(stays)
    }

    /// Bytes of the copies that are being made and are not recorded yet.
    fn bytes_being_copied(&self) -> u64 {
        let making = self.register.intents().filter_map(|intent| match &intent.effect {
            Effect::MakeCopy { version, in_snapshot: false, .. } => self.register.entry(version).ok(),
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
    pub(super) fn is_being_copied(&self, id: &VersionId) -> bool {
        let copying = |effect: &Effect| matches!(effect, Effect::MakeCopy { version, .. } if version == id);
        self.register.intents().any(|intent| copying(&intent.effect))
    }

    /// The versions that are not at rest: what is to be done by and by is about these.
    pub(super) fn moving(&self) -> impl Iterator<Item = &Version> {
        self.register.stores().flat_map(History::moving)
    }
}

/// Grants a lease.
fn grant(draft: &mut Draft<'_>, version: &VersionId, id: &LeaseId, holder: &str, ttl_s: u32) -> Answer {
    let lease = Lease {
        id: id.clone(),
        version: version.clone(),
        holder: holder.to_owned(),
        actor: Some(draft.by.actor.clone()),
        granted_at: draft.now,
        expires_at: later(draft.now, ttl_s),
    };
    draft.changes.push(Change::Lease(lease.clone()));
    Answer::Now(Ok(Reply::Leased(lease)))
}

fn later(now: Timestamp, ttl_s: u32) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(i64::from(ttl_s))).unwrap_or(Timestamp::MAX)
}
