//! Hot versions: from their snapshots into the archive, and out of their snapshots.
//!
//! A snapshot costs whoever writes to the store, so it stays no longer than it is needed. A version that is in the
//! archive as well loses nothing when its snapshot goes.

use std::collections::BTreeSet;

use super::restore::restores;
use super::{Backing, Draft, Engine, done};
use crate::event::{Answer, ArchiveFailure, Effect, EffectId, Filed, Intent, Reply};
use crate::register::History;
use crate::snapshot::Snapshot;
use crate::version::{Content, Holding, State, Version};
use crate::{Problem, StoreName, VersionId};

impl Engine {
    /// Moves hot versions on: the oldest that is not archived yet into the archive, and those out of their
    /// snapshots that need them no more.
    pub(super) fn move_on(&self, draft: &mut Draft<'_>) {
        for history in self.register.stores() {
            let hot = hot_versions(draft, history);
            // Most of the time there is none.
            if !hot.is_empty() {
                archive_next(draft, history, &hot);
                self.let_snapshots_go(draft, history, &hot);
            }
        }
    }

    /// Drops the snapshots that nobody needs: those of archived versions, unless they are leased, pinned hot, or
    /// among the newest that the configuration keeps; and all those of versions that are over. One that tells what has not
    /// changed since stays until the next version is archived.
    fn let_snapshots_go(&self, draft: &mut Draft<'_>, history: &History, hot: &[Version]) {
        let store = &history.store.name;
        let kept = self.policy.stores.get(store).map_or(0, |policy| policy.keep_snapshots);
        // Whether they still have a snapshot does not matter: an older one's is none of the newest for that.
        let newest_first = history.versions.values().rev().map(|entry| draft.latest(&entry.version));
        let newest = newest_first.filter(|version| version.state == State::Ready).take(kept);
        let newest: Vec<VersionId> = newest.map(|version| version.id).collect();
        let base = self.base(draft, store);
        for version in hot {
            let Some(snapshot) = version.snapshot() else { continue };
            let over = matches!(version.state, State::Failed | State::Retiring | State::Retired)
                && !version.is_kept();
            let demotable = version.is_kept()
                && version.is_archived()
                && !newest.contains(&version.id)
                && base.as_ref() != Some(&version.id)
                && !self.needs_snapshot(draft, version);
            if (over || demotable || snapshot.lost) && !is_being_dropped(draft, &version.id) {
                self.drop_snapshot(draft, version, snapshot);
            }
        }
    }

    /// The version whose snapshot the next one is compared with: the newest in the archive, where it has one that can tell what
    /// has changed since. This is one snapshot at a time, which goes with its version or when the next one is archived, and
    /// before that where somebody needs its space.
    fn base(&self, draft: &Draft<'_>, store: &StoreName) -> Option<VersionId> {
        let policy = self.policy.stores.get(store)?;
        let Backing::Volume(backing) = &policy.backing else { return None };
        let history = self.register.history(store).ok()?;
        let newest_first = history.versions.values().rev().map(|entry| draft.latest(&entry.version));
        let mut archived =
            newest_first.filter(|version| version.state == State::Ready && version.is_archived());
        let newest = archived.next()?;
        let tells = |snapshot: &Snapshot| snapshot.tells_changes(backing, self.policy.may_demote);
        newest.snapshot().is_some_and(tells).then_some(newest.id)
    }

    /// Whether a snapshot is in use, or kept on purpose.
    pub(super) fn needs_snapshot(&self, draft: &Draft<'_>, version: &Version) -> bool {
        let id = &version.id;
        let pinned = version.pin.as_ref().is_some_and(|pin| pin.hot && pin.counts(draft.now));
        let read = version.copy.as_ref().is_some_and(|copy| copy.in_snapshot) && draft.is_leased(id);
        let used = |effect: &Effect| match effect {
            Effect::Archive { version } | Effect::MakeCopy { version, .. } => version == id,
            effect => restores(effect, id),
        };
        pinned || read || draft.open_effects().any(used)
    }

    /// Whether a version is on its way into the archive at this moment, or another one that is written on top of it.
    pub(super) fn is_being_archived(&self, id: &VersionId) -> bool {
        let of_store = |intent: &Intent| match &intent.effect {
            Effect::Archive { version } if version.store == id.store => Some(version.number),
            _ => None,
        };
        let Some(number) = self.register.intents().find_map(of_store) else { return false };
        let versions =
            self.register.history(&id.store).into_iter().flat_map(|history| history.versions.values());
        let kept = |version: &&Version| version.is_kept() && version.is_archived();
        let newest = versions.rev().map(|entry| &entry.version).find(kept);
        number == id.number || newest.is_some_and(|version| version.id == *id)
    }

    pub(super) fn drop_snapshot(
        &self,
        draft: &mut Draft<'_>,
        version: &Version,
        snapshot: &Snapshot,
    ) -> EffectId {
        // The copy is a file in the snapshot and goes with it.
        if version.copy.as_ref().is_some_and(|copy| copy.in_snapshot) {
            draft.put(Version { copy: None, ..version.clone() });
        }
        draft.intend(Effect::DropSnapshot { version: version.id.clone(), snapshot: snapshot.clone() })
    }

    pub(super) fn finish_archive(
        &self,
        draft: &mut Draft<'_>,
        id: &VersionId,
        result: &Result<Filed, ArchiveFailure>,
    ) -> Result<Answer, Problem> {
        let version = &self.register.entry(id)?.version;
        match result {
            Ok(filed) => {
                draft.put(archived(version, *filed));
                if filed.worth_compacting {
                    self.compact(draft, &id.store);
                }
                self.move_on(draft);
                done(Ok(()))
            }
            Err(ArchiveFailure { problem, lost: true }) => {
                lose(draft, version, &problem.detail);
                self.move_on(draft);
                Err(problem.clone())
            }
            // It is tried again at the next tick.
            Err(ArchiveFailure { problem, lost: false }) => Err(problem.clone()),
        }
    }

    pub(super) fn finish_drop(
        &self,
        draft: &mut Draft<'_>,
        id: &VersionId,
        snapshot: &Snapshot,
        result: &Result<(), Problem>,
    ) -> Result<Answer, Problem> {
        // It is tried again at the next tick.
        result.clone()?;
        if let Ok(entry) = self.register.entry(id)
            && entry.version.snapshot().is_some_and(|held| held.uuid == snapshot.uuid)
        {
            draft.put(without_snapshot(&entry.version));
        }
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Takes away the file that readers opened in a snapshot, once the last lease on it has ended.
    pub(super) fn close_in_snapshot(&self, draft: &mut Draft<'_>, id: &VersionId) {
        let Ok(entry) = self.register.entry(id) else { return };
        let version = draft.latest(&entry.version);
        let shown = version.copy.as_ref().is_some_and(|copy| copy.in_snapshot);
        let opening = |effect: &Effect| matches!(effect, Effect::MakeCopy { version, .. } if version == id);
        if shown && !draft.is_leased(id) && !draft.open_effects().any(opening) {
            draft.drop_copy(&version);
        }
    }
}

/// The versions of a store that have a snapshot, oldest first, as the draft has left them.
fn hot_versions(draft: &Draft<'_>, history: &History) -> Vec<Version> {
    let drafted = draft.touched.keys().filter(|id| id.store == history.store.name);
    let numbers: BTreeSet<u64> =
        history.moving().map(|version| &version.id).chain(drafted).map(|id| id.number).collect();
    let entries = numbers.into_iter().filter_map(|number| history.versions.get(number));
    let versions = entries.map(|entry| draft.latest(&entry.version));
    versions.filter(|version| version.snapshot().is_some()).collect()
}

/// Intends to archive the oldest version that is not, unless one is on its way in or out: each is stored as what
/// differs from the one before it.
fn archive_next(draft: &mut Draft<'_>, history: &History, hot: &[Version]) {
    let store = &history.store.name;
    // The archive neither takes two versions at a time, nor gives one up while another is written on top of it.
    let waits_for = |effect: &Effect| match effect {
        Effect::Archive { version } | Effect::Retire { version } => version.store == *store,
        _ => false,
    };
    if draft.open_effects().any(waits_for) {
        return;
    }
    if let Some(version) = hot.iter().find(|version| waits_for_archive(history, version)) {
        draft.intend(Effect::Archive { version: version.id.clone() });
    }
}

/// Whether a version is yet to come into the archive. One whose snapshot was out of sight while a later version was
/// archived never can: the archive takes versions in their order. It stays in its snapshot.
pub(super) fn waits_for_archive(history: &History, version: &Version) -> bool {
    let newest_first = history.versions.values().rev().map(|entry| &entry.version);
    let mut later = newest_first.take_while(|other| other.id.number > version.id.number);
    // Its fingerprint is known of a version that is in the archive, or was.
    let has_been = |other: &Version| other.content.as_ref().is_some_and(|c| c.fingerprint.is_some());
    version.is_kept() && !version.is_archived() && !later.any(has_been)
}

/// Whether a version's snapshot is on its way out.
pub(super) fn is_being_dropped(draft: &Draft<'_>, id: &VersionId) -> bool {
    draft.open_effects().any(|e| matches!(e, Effect::DropSnapshot { version, .. } if version == id))
}

/// The version as it is once its pages are in the archive as well.
pub(super) fn archived(version: &Version, filed: Filed) -> Version {
    let mut version = version.clone();
    let fingerprint = Some(filed.fingerprint);
    version.content = version.content.map(|content| Content { fingerprint, ..content });
    version.holdings.push(Holding::Archive { bytes: filed.bytes });
    version
}

/// The version as it is once its snapshot is gone. One that was given up is over then, if nothing else holds it.
pub(super) fn without_snapshot(version: &Version) -> Version {
    let version = version.clone().without_snapshot();
    let over = version.state == State::Retiring && version.holdings.is_empty();
    Version { state: if over { State::Retired } else { version.state }, ..version }
}

/// Records that a version was lost with its snapshot, before it came into the archive.
pub(super) fn lose(draft: &mut Draft<'_>, version: &Version, why: &str) {
    let version = with_lost_snapshot(draft.latest(version));
    if version.grace().is_some() {
        // It was given up already, and cannot be brought back any more.
        return draft.put(version);
    }
    draft.end(&version, State::Lost, format!("it was not in the archive yet, and {why}"));
}

/// The version with its snapshot marked as lost, so that it is dropped.
pub(super) fn with_lost_snapshot(mut version: Version) -> Version {
    for holding in &mut version.holdings {
        if let Holding::Snapshot(snapshot) = holding {
            snapshot.lost = true;
        }
    }
    version
}
