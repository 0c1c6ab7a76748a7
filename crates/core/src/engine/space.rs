//! Space: what the guard asks for, and what it has seen.
//!
//! The guard decides from what a moment looked like; here it is held against the records as they are now.

use jiff::Timestamp;

use super::tiering::{is_being_dropped, lose, with_lost_snapshot, without_snapshot};
use super::{Draft, Engine};
use crate::event::{Answer, Effect, EffectId, Intent, Lack, Reply};
use crate::guard::HotVersion;
use crate::snapshot::{Origin, Snapshot};
use crate::version::{State, Version};
use crate::{By, Code, Problem, VersionId};

impl Engine {
    /// The versions in snapshots of volumes that are to last, with what the guard must know of them. Those that are on their
    /// way out are not among them, and those in clones neither: clones do not run full.
    #[must_use]
    pub fn in_snapshots(&self, now: Timestamp) -> Vec<(HotVersion, Snapshot)> {
        let draft = Draft::new(&self.register, now, By::asat());
        let versions = self.moving().filter(|version| version.is_kept());
        let lasting = versions.filter_map(|version| {
            let of_volume = |snapshot: &&Snapshot| !snapshot.lost && snapshot.origin.backend.is_of_volumes();
            let snapshot = version.snapshot().filter(of_volume)?;
            let seen = HotVersion {
                id: version.id.clone(),
                cut_at: version.content.as_ref()?.cut_at,
                archived: version.is_archived(),
                needed: self.needs_snapshot(&draft, version),
                held: self.hold_on(version, now).is_some(),
                given_up: version.grace().is_some(),
            };
            (!is_being_dropped(&draft, &version.id)).then(|| (seen, snapshot.clone()))
        });
        lasting.collect()
    }

    /// Drops the snapshot of an archived version that nobody needs, though the configuration may keep it.
    pub(super) fn demote(&self, draft: &mut Draft<'_>, id: &VersionId) -> Result<Answer, Problem> {
        let version = &self.register.entry(id)?.version;
        let Some(snapshot) = version.snapshot() else {
            return Ok(Answer::Now(Ok(Reply::Version(id.clone()))));
        };
        let drops = |intent: &&Intent| matches!(&intent.effect, Effect::DropSnapshot { version, .. } if version == id);
        if let Some(intent) = self.register.intents().find(drops) {
            return Ok(Answer::After(intent.id));
        }
        let only_there = !version.is_kept() || !version.is_archived();
        if only_there || self.needs_snapshot(draft, version) {
            let detail = match only_there {
                true => format!("{id} is not in the archive"),
                false => format!("the snapshot of {id} is read, pinned or used at this moment"),
            };
            return Err(Problem::new(Code::InUse, detail, "look again, and plan anew"));
        }
        Ok(Answer::After(self.drop_snapshot(draft, version, snapshot)))
    }

    /// Drops snapshots for a cut that found no space: of archived versions that nobody needs, though the configuration may
    /// keep them, the oldest first, until so many bytes are free. Answers the last effect that frees some; nothing goes
    /// where that would not be enough.
    pub(super) fn free_space(
        &self,
        draft: &mut Draft<'_>,
        (wanted, origin): (&VersionId, &Origin),
        lack: Lack,
    ) -> Option<EffectId> {
        // What a thin snapshot gives back is not known, nor what any takes in the metadata area: one after another is dropped.
        let (missing, is_counted) = match lack {
            Lack::Bytes(missing) => (missing.max(1), true),
            Lack::GroupMetadata => (1, false),
        };
        let gives = |snapshot: &Snapshot| if is_counted { snapshot.bytes.max(1) } else { 1 };
        let shares = |snapshot: &Snapshot| match lack {
            Lack::Bytes(_) => snapshot.origin.shares_space_with(origin),
            Lack::GroupMetadata => snapshot.origin.shares_metadata_with(origin),
        };
        let (mut freed, mut last) = (0_u64, None);
        for leaving in self.register.intents() {
            if let Effect::DropSnapshot { snapshot, .. } = &leaving.effect
                && shares(snapshot)
            {
                (freed, last) = (freed.saturating_add(gives(snapshot)), last.max(Some(leaving.id)));
            }
        }
        let mut kept: Vec<(Timestamp, &Version, &Snapshot)> = Vec::new();
        if self.policy.may_demote {
            let hot = self.moving().filter_map(|version| {
                let snapshot = version.snapshot().filter(|snapshot| shares(snapshot))?;
                Some((version.content.as_ref()?.cut_at, version, snapshot))
            });
            kept.extend(hot.filter(|(_, version, _)| self.is_demotable(draft, version)));
        }
        kept.sort_by_key(|(cut_at, version, _)| (*cut_at, &version.id));
        let mut chosen = Vec::new();
        for (_, version, snapshot) in kept {
            if freed < missing {
                freed = freed.saturating_add(gives(snapshot));
                chosen.push((version, snapshot));
            }
        }
        if freed < missing {
            return None;
        }
        for (version, snapshot) in chosen {
            let text = format!("the snapshot of {} is removed, to make room for {wanted}", version.id);
            draft.remark(&version.id, text);
            last = Some(self.drop_snapshot(draft, version, snapshot));
        }
        last
    }

    /// Whether nothing is lost with a version's snapshot, nobody needs it, and it is not on its way out.
    fn is_demotable(&self, draft: &Draft<'_>, version: &Version) -> bool {
        version.is_kept()
            && version.is_archived()
            && !self.needs_snapshot(draft, version)
            && !is_being_dropped(draft, &version.id)
    }

    /// Gives a version up for its space.
    pub(super) fn give_up(
        &self,
        draft: &mut Draft<'_>,
        id: &VersionId,
        why: &str,
    ) -> Result<Answer, Problem> {
        let version = &self.register.entry(id)?.version;
        if version.grace().is_some() && !self.is_stored_upon(version) {
            let effect = self.purge(draft, version, &format!("its grace was ended for space: {why}"));
            self.move_on(draft);
            return Ok(Answer::After(effect));
        }
        version.check_readable()?;
        if let Some(problem) = self.hold_on(version, draft.now) {
            return Err(problem);
        }
        let effect = self.let_go(draft, version, format!("given up for space: {why}"));
        self.move_on(draft);
        Ok(Answer::After(effect))
    }

    /// Records that a snapshot has lost its content, and with it the version where nothing else holds it.
    pub(super) fn overflowed(&self, draft: &mut Draft<'_>, id: &VersionId) -> Result<Answer, Problem> {
        let version = &self.register.entry(id)?.version;
        let known = version.snapshot().is_none_or(|snapshot| snapshot.lost);
        // Whoever reads it into the archive at this moment sees it as well, and may have been through before.
        let reads = |intent: &Intent| matches!(&intent.effect, Effect::Archive { version } if version == id);
        if known || self.register.intents().any(reads) {
            return Ok(Answer::Now(Ok(Reply::Done)));
        }
        match (version.state, version.snapshot()) {
            (State::Ready | State::Retired, Some(snapshot))
                if version.is_kept() && !version.is_archived() =>
            {
                lose(draft, version, &format!("its snapshot {} was full", snapshot.name));
            }
            _ => draft.put(with_lost_snapshot(version.clone())),
        }
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Records that a snapshot is gone, and the version with it where nothing else holds it.
    pub(super) fn vanished(&self, draft: &mut Draft<'_>, id: &VersionId) -> Result<Answer, Problem> {
        let version = &self.register.entry(id)?.version;
        let Some(snapshot) = version.snapshot() else { return Ok(Answer::Now(Ok(Reply::Done))) };
        // Whoever reads it or drops it at this moment finds out by himself.
        let at_it = |intent: &Intent| match &intent.effect {
            Effect::Archive { version } | Effect::DropSnapshot { version, .. } => version == id,
            _ => false,
        };
        if self.register.intents().any(at_it) {
            return Ok(Answer::Now(Ok(Reply::Done)));
        }
        if version.state == State::Ready && !version.is_archived() {
            let reason = format!("its snapshot {} was removed before it was in the archive", snapshot.name);
            draft.end(&without_snapshot(version), State::Lost, reason);
        } else {
            draft.remark(id, format!("{} of {id} is gone", snapshot.name));
            // A copy that is a file in the snapshot went with it.
            let copy = version.copy.clone().filter(|copy| !copy.in_snapshot);
            draft.put(Version { copy, ..without_snapshot(version) });
        }
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }
}
