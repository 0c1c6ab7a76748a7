//! Starting: catalogue and machine are made to agree, whatever interrupted the last run.

use std::collections::{BTreeMap, BTreeSet};

use super::orphans::{holding, lose_pages, read_from_snapshot, record_damaged, say_damaged};
use super::publish::take_over;
use super::tiering::{archived as filed_as, lose, with_lost_snapshot, without_snapshot};
use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::event::{
    Answer, Archived, Change, Condition, Damaged, Described, Effect, Filed, Intent, Remark, Reply, Survey,
    Surveyed,
};
use crate::register::{Entry, Headline, History};
use crate::snapshot::Snapshot;
use crate::version::{Lease, State, Store, Version};
use crate::{By, Problem, StoreName, VersionId};

impl Engine {
    pub(super) fn start(&self, draft: &mut Draft<'_>, survey: &Survey) -> Result<Answer, Problem> {
        self.add_stores(draft);
        let archives = ArchiveSurvey::of(survey);
        let mut settled = BTreeSet::new();
        for intent in self.register.intents() {
            draft.changes.push(Change::Concluded(intent.id));
            if let Effect::DropSnapshot { version, .. } = &intent.effect
                && self.is_in_snapshot_alone(version, &archives)
            {
                continue;
            }
            self.settle_intent(draft, intent, &archives);
            match &intent.effect {
                Effect::Retire { version } => _ = settled.insert(version),
                effect => settled.extend(effect.cuts().into_iter().map(|(version, _)| version)),
            }
        }
        let is_whole =
            |surveyed: &&Surveyed| surveyed.condition == Condition::Whole && !surveyed.snapshot.lost;
        let whole: BTreeSet<&VersionId> =
            survey.snapshots.iter().filter(is_whole).map(|surveyed| &surveyed.version).collect();
        let unlike = self.register.stores().flat_map(|history| unlike(history, &archives));
        for version in unlike.filter(|version| !settled.contains(&version.id)) {
            let found = archives.held(&version.id);
            if whole.contains(&version.id) && self.is_in_snapshot_alone(&version.id, &archives) {
                let why = match found {
                    Held::Described(Err(damaged)) => &damaged.why,
                    _ => "no file of the archive has it",
                };
                read_from_snapshot(draft, version, why);
            } else {
                self.settle_version(draft, version, found);
            }
        }
        for archived in &survey.archived {
            if self.register.entry(&archived.version).is_err() {
                self.settle_unknown(draft, archived);
            }
        }
        survey.snapshots.iter().for_each(|surveyed| self.settle_snapshot(draft, surveyed));
        survey.found.iter().for_each(|found| self.settle_found(draft, found));
        // Before anything is given up that has a pin or a tag.
        for (store, understood) in &survey.recorded {
            let is_new = |version: &VersionId| self.register.entry(version).is_err();
            match understood.must_be_taken_over(store, &self.register, &self.opened) {
                true => self.take_up(draft, store, &understood.recorded),
                // What is recorded of versions that were not known is not known either.
                false => self.take_up(draft, store, &understood.recorded.of(is_new)),
            }
        }
        let remarks = survey.remarks.iter().map(|text| Remark { version: None, text: text.clone() });
        draft.remarks.extend(remarks);
        self.settle_copies(draft, survey);
        self.move_on(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Whether nothing but its snapshot has the pages of a version, although it is recorded as archived: that was to go, and must
    /// not now.
    fn is_in_snapshot_alone(&self, id: &VersionId, archives: &ArchiveSurvey<'_>) -> bool {
        let Ok(Entry { version, .. }) = self.register.entry(id) else { return false };
        let is_given = matches!(archives.held(id), Held::AsRecorded | Held::Described(Ok(_)));
        let is_kept = matches!(version.state, State::Ready | State::Lost);
        is_kept && version.is_archived() && version.snapshot().is_some() && !is_given
    }

    /// Gives back what interrupted retirements left in the archives, and does what interrupted compactions left to do: the next
    /// publication, after which one is due, may be far off, and until then what was published last is read from many files.
    pub(super) fn tidy(&self, draft: &mut Draft<'_>, uncompacted: &[StoreName]) -> Result<Answer, Problem> {
        let known = uncompacted.iter().filter(|store| self.register.history(store).is_ok());
        known.for_each(|store| self.compact(draft, store));
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Takes in what a changed configuration adds. What it takes away stays on record, and can be read.
    pub(super) fn take_up_stores(&self, draft: &mut Draft<'_>) -> Result<Answer, Problem> {
        self.add_stores(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Takes in stores that are new in the configuration or have moved.
    fn add_stores(&self, draft: &mut Draft<'_>) {
        for (name, policy) in &self.policy.stores {
            let known = self.register.history(name).ok().map(|history| &history.store);
            if known.is_none_or(|store| store.path != policy.path) {
                let added_at = known.map_or(draft.now, |store| store.added_at);
                draft.changes.push(Change::Store(Store {
                    name: name.clone(),
                    path: policy.path.clone(),
                    added_at,
                    damage: known.and_then(|store| store.damage.clone()),
                }));
            }
        }
    }

    /// Ends an effect that was interrupted: adopted if it had happened, undone or done again if not.
    fn settle_intent(&self, draft: &mut Draft<'_>, intent: &Intent, archives: &ArchiveSurvey<'_>) {
        match &intent.effect {
            Effect::Cut { version: id, then_restore, .. } => {
                if let Some(wanted) = then_restore {
                    let text = format!(
                        "the daemon stopped before the store was brought back to {wanted}: it is as it was"
                    );
                    draft.remark(wanted, text);
                }
                let Ok(entry) = self.register.entry(id) else { return };
                match archives.held(id) {
                    Held::Described(Ok(described)) => Self::adopt(draft, intent, &entry.version, described),
                    Held::Nothing | Held::AsRecorded => {
                        draft.end(
                            &entry.version,
                            State::Failed,
                            "the daemon stopped before it was acknowledged",
                        );
                    }
                    Held::Described(Err(Damaged { why, .. })) => {
                        let reason = format!("the daemon stopped before it was acknowledged, and {why}");
                        draft.end(&entry.version, State::Failed, reason);
                        draft.intend(Effect::Retire { version: id.clone() });
                    }
                }
            }
            Effect::CutSet { members, .. } => {
                let versions = members.iter().filter_map(|m| self.register.entry(&m.version).ok());
                for Entry { version, .. } in versions {
                    // All were to become versions together, and what of the others was to be a version that was there
                    // already is not known any more. Nobody was told of any.
                    draft.end(version, State::Failed, "the daemon stopped before its set was acknowledged");
                    if archives.held(&version.id) != Held::Nothing {
                        draft.intend(Effect::Retire { version: version.id.clone() });
                    }
                }
            }
            // SQLite has done all of it or nothing, and whoever asked can see which.
            Effect::Restore { version, before, publication } => {
                let text = format!(
                    "the daemon stopped while the store was brought back to {version}: it is as that one or as \
                     {before}, and both are kept; it is not tried again by itself"
                );
                draft.remark(version, text);
                let deed = Deed::new(draft.now, intent.by.clone(), Action::Restore, version.clone());
                let outcome = "the daemon stopped: it was done, or nothing was";
                draft.note(deed.with("publication", publication.to_string()).with("outcome", outcome));
            }
            Effect::Retire { .. } | Effect::DropSnapshot { .. } => {
                draft.intend(intent.effect.clone());
            }
            // What is damaged is found out anew, and what was put right already is not damaged any more.
            Effect::Repair { .. } => _ = draft.intend_for(intent.by.clone(), intent.effect.clone()),
            // Where a copy is recorded, it was made anew after this one was dropped.
            Effect::DropCopy { version } => {
                if !self.has_copy(version) {
                    draft.intend(intent.effect.clone());
                }
            }
            // Nobody was told of the lease, unless the copy is one that is made again; what is left of it is deleted with the other copies.
            // Archives that are not compact are compacted next, hot versions are archived in any case, and what is too large is weighed again.
            Effect::MakeCopy { .. }
            | Effect::Compact { .. }
            | Effect::Weigh { .. }
            | Effect::Archive { .. } => {}
        }
    }

    /// Compares a record with what the archive holds.
    fn settle_version(&self, draft: &mut Draft<'_>, version: &Version, found: Held<'_>) {
        match (version.state, found) {
            (State::Ready, Held::Nothing) if version.is_archived() => {
                draft.end(version, State::Lost, "no file of the archive has it");
            }
            (State::Ready, Held::Described(Err(damaged))) => {
                lose_pages(draft, version, damaged);
            }
            (State::Lost, Held::Described(Err(damaged))) => {
                say_damaged(draft, &version.id, damaged);
            }
            (State::Lost, Held::AsRecorded | Held::Described(_)) if version.is_archived() => {
                draft.remark(&version.id, format!("{} is in the archive again", version.id));
                draft.put(Version { state: State::Ready, end: None, ..version.clone() });
            }
            // It came into the archive just before the daemon ended.
            (State::Ready | State::Lost, Held::Described(Ok(described))) => {
                draft.remark(&version.id, format!("{} is complete in the archive", version.id));
                draft.put(Version { state: State::Ready, end: None, ..filed(version, described) });
                // The archive could not even say what it was published for.
                if version.content.is_none() {
                    take_over(draft, &version.id, described);
                }
            }
            (State::Retired, found) if version.grace().is_some() => self.settle_grace(draft, version, found),
            (State::Failed | State::Retired, Held::AsRecorded | Held::Described(_))
            | (State::Retiring, _) => {
                draft.intend(Effect::Retire { version: version.id.clone() });
            }
            (State::Cutting, _) => {
                draft.end(version, State::Failed, "the daemon stopped before it was acknowledged");
            }
            _ => {}
        }
    }

    /// Compares the record of a version in its grace with what the archive holds.
    fn settle_grace(&self, draft: &mut Draft<'_>, version: &Version, found: Held<'_>) {
        match found {
            Held::Nothing if version.is_archived() => {
                self.purge(draft, version, "no file of the archive has it");
            }
            // It came into the archive just before the daemon ended.
            Held::Described(Ok(described)) => draft.put(filed(version, described)),
            _ => {}
        }
    }

    /// Compares a record with what has become of a snapshot.
    fn settle_snapshot(&self, draft: &mut Draft<'_>, surveyed: &Surveyed) {
        let Surveyed { version: id, snapshot, condition } = surveyed;
        let Ok(entry) = self.register.entry(id) else { return };
        let version = draft.latest(&entry.version);
        let name = &snapshot.name;
        match condition {
            _ if version.snapshot().is_none() => {
                // It was being taken as the daemon ended, and nobody was told of it.
                if *condition != Condition::Gone {
                    let text = match condition {
                        Condition::Unseen(why) => {
                            format!(
                                "{name} of {id} may be left over, and is removed once it can be seen: {why}"
                            )
                        }
                        _ => format!("{name} of {id} is half-made or left over, and is removed"),
                    };
                    draft.remark(id, text);
                    draft.put(holding(version, snapshot));
                }
            }
            Condition::Whole if version.state == State::Lost && !snapshot.lost => {
                draft.remark(id, format!("{name} of {id} is there again"));
                draft.put(Version { state: State::Ready, end: None, ..version });
            }
            Condition::Whole => {}
            Condition::Lost if version.state == State::Ready && !version.is_archived() => {
                lose(draft, &version, &format!("its snapshot {name} was full"));
            }
            Condition::Lost => draft.put(with_lost_snapshot(version)),
            Condition::Gone if version.state == State::Ready && !version.is_archived() => {
                let reason = format!("its snapshot {name} was removed before it was in the archive");
                draft.end(&without_snapshot(&version), State::Lost, reason);
            }
            Condition::Gone => {
                draft.remark(id, format!("{name} of {id} is gone"));
                draft.put(without_snapshot(&version));
            }
            Condition::Unseen(why) if version.state == State::Ready && !version.is_archived() => {
                draft.end(&version, State::Lost, format!("its snapshot {name} cannot be seen: {why}"));
            }
            Condition::Unseen(why) => {
                draft.remark(id, format!("{name} of {id} cannot be seen: {why}"));
            }
        }
    }

    /// Takes over a version that the register has never heard of, where its store is known.
    fn settle_unknown(&self, draft: &mut Draft<'_>, archived: &Archived) {
        let Archived { version, described } = archived;
        match described {
            Ok(described) if self.is_known_store(&version.store) => {
                Self::adopt_unknown(draft, archived, described)
            }
            Err(damaged) if self.is_known_store(&version.store) => {
                record_damaged(draft, version, damaged);
            }
            _ => {
                let text = format!(
                    "the archive holds {version} of an unknown store; configure the store to adopt it"
                );
                draft.remark(version, text);
            }
        }
    }

    /// Whether a store is configured, or was.
    pub(super) fn is_known_store(&self, store: &StoreName) -> bool {
        self.policy.stores.contains_key(store) || self.register.history(store).is_ok()
    }

    /// Removes copies that nobody leases, and makes those again that somebody does and that are gone. Who read a version
    /// in the tree gets a copy where there is no tree any more.
    fn settle_copies(&self, draft: &mut Draft<'_>, survey: &Survey) {
        let mut whole: BTreeSet<&VersionId> = survey.copies.iter().collect();
        // What is at rest has no copy.
        let leased = self.register.leases().map(|lease| &lease.version);
        let moving = self.moving().map(|version| &version.id);
        let wanted: BTreeSet<&VersionId> = whole.iter().copied().chain(leased).chain(moving).collect();
        let recorded = wanted.into_iter().filter_map(|id| self.register.entry(id).ok());
        for version in recorded.map(|entry| &entry.version) {
            let (id, now) = (&version.id, draft.now);
            let is_whole = whole.remove(id);
            let mut leases: Vec<&Lease> =
                self.register.leases_on(id).filter(|lease| lease.expires_at > now).collect();
            if version.copy.is_some() {
                if is_whole && !leases.is_empty() {
                    continue;
                }
                draft.drop_copy(version);
            } else {
                leases.retain(|lease| !survey.tree || self.is_copied_for(lease));
                if is_whole {
                    self.drop_found(draft, id);
                }
            }
            if draft.latest(version).check_readable().is_ok() {
                let in_snapshot = draft.latest(version).snapshot().is_some_and(Snapshot::can_be_shown);
                leases.into_iter().for_each(|lease| make_again(draft, lease, in_snapshot));
            }
        }
        whole.into_iter().for_each(|id| self.drop_found(draft, id));
    }

    /// Removes a copy that is not recorded, unless that was intended before.
    fn drop_found(&self, draft: &mut Draft<'_>, id: &VersionId) {
        if !self.register.intents().any(|intent| drops(&intent.effect, id)) {
            draft.intend(Effect::DropCopy { version: id.clone() });
        }
    }

    /// Whether a copy was being made for a lease that there is: it was gone at an earlier start.
    fn is_copied_for(&self, wanted: &Lease) -> bool {
        let copies =
            |effect: &Effect| matches!(effect, Effect::MakeCopy { lease, .. } if *lease == wanted.id);
        self.register.intents().any(|intent| copies(&intent.effect))
    }

    fn has_copy(&self, id: &VersionId) -> bool {
        self.register.entry(id).is_ok_and(|entry| entry.version.copy.is_some())
    }
}

/// What the archives hold of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held<'a> {
    /// Nothing.
    Nothing,
    /// What is recorded.
    AsRecorded,
    /// What they say of it, as it is not recorded, or why it cannot be had.
    Described(&'a Result<Box<Described>, Damaged>),
}

/// What the archives hold, by version.
struct ArchiveSurvey<'a> {
    as_recorded: &'a BTreeMap<StoreName, BTreeSet<u64>>,
    described: BTreeMap<&'a VersionId, &'a Result<Box<Described>, Damaged>>,
}

impl<'a> ArchiveSurvey<'a> {
    fn of(survey: &'a Survey) -> Self {
        let described = survey.archived.iter().map(|found| (&found.version, &found.described)).collect();
        Self { as_recorded: &survey.as_recorded, described }
    }

    fn held(&self, id: &VersionId) -> Held<'a> {
        let is_as_recorded = || self.as_recorded.get(&id.store).is_some_and(|held| held.contains(&id.number));
        match self.described.get(id) {
            Some(described) => Held::Described(described),
            None if is_as_recorded() => Held::AsRecorded,
            None => Held::Nothing,
        }
    }
}

/// The versions of a store that may be otherwise than the archives are. Of most nothing is to be done, and it takes time to look at each:
/// they are in the archive as they are recorded, or over and not there.
fn unlike<'a>(history: &'a History, archives: &ArchiveSurvey<'a>) -> Vec<&'a Version> {
    let store = &history.store.name;
    let mut held = archives.as_recorded.get(store).into_iter().flatten().copied().peekable();
    let described: BTreeSet<u64> =
        archives.described.keys().filter(|id| id.store == *store).map(|id| id.number).collect();
    let is_unlike = |headline: &&Headline| {
        while held.next_if(|number| *number < headline.number).is_some() {}
        let is_held = held.next_if_eq(&headline.number).is_some();
        let is_like = match headline.state {
            State::Ready => headline.is_archived && is_held,
            State::Retired => !headline.is_in_grace && !is_held,
            State::Failed => !is_held,
            State::Cutting | State::Retiring | State::Lost => false,
        };
        !is_like || described.contains(&headline.number)
    };
    let unlike = history.versions.headlines().filter(is_unlike);
    unlike.filter_map(|headline| history.versions.get(headline.number)).map(|entry| &entry.version).collect()
}

/// The version with what the archive has of it.
fn filed(version: &Version, described: &Described) -> Version {
    let content = version.content.clone().or_else(|| Some(described.content.clone()));
    let version = Version { content, ..version.clone() };
    match described.content.fingerprint {
        Some(fingerprint) => {
            filed_as(&version, Filed { fingerprint, bytes: described.bytes, worth_compacting: false })
        }
        None => version,
    }
}

/// Has the copy made that a lease holds, for as long as the lease lasts.
fn make_again(draft: &mut Draft<'_>, lease: &Lease, in_snapshot: bool) {
    let text = format!("the copy of {} that {} leases is gone and made again", lease.version, lease.holder);
    draft.remark(&lease.version, text);
    let left_s = lease.expires_at.duration_since(draft.now).as_secs().max(1);
    let effect = Effect::MakeCopy {
        version: lease.version.clone(),
        in_snapshot,
        lease: lease.id.clone(),
        holder: lease.holder.clone(),
        ttl_s: u32::try_from(left_s).unwrap_or(u32::MAX),
    };
    // It stays his who took it.
    let by = lease.actor.clone().map_or_else(By::asat, |actor| By { actor, request: None });
    draft.intend_for(by, effect);
}

fn drops(effect: &Effect, id: &VersionId) -> bool {
    matches!(effect, Effect::DropCopy { version } if version == id)
}
