//! Starting: catalogue and machine are made to agree, whatever interrupted the last run.

use std::collections::{BTreeMap, BTreeSet};

use super::open::drop_copy;
use super::{Draft, Engine};
use crate::event::{Answer, Archived, Change, Effect, Intent, Reply, Survey};
use crate::version::{Holding, Lease, State, Store, Version};
use crate::{Problem, VersionId};

impl Engine {
    pub(super) fn start(&self, draft: &mut Draft<'_>, survey: &Survey) -> Result<Answer, Problem> {
        self.add_stores(draft);
        let archived: BTreeMap<&VersionId, &Archived> =
            survey.archived.iter().map(|a| (&a.version, a)).collect();
        let mut settled = BTreeSet::new();
        for intent in self.register.intents() {
            draft.changes.push(Change::Concluded(intent.id));
            self.settle_intent(draft, intent, &archived);
            settled.extend(intent.effect.version().filter(|_| is_cut_or_retirement(&intent.effect)));
        }
        for version in self.versions().filter(|version| !settled.contains(&version.id)) {
            self.settle_version(draft, version, archived.get(&version.id).copied());
        }
        for archived in &survey.archived {
            if self.register.entry(&archived.version).is_err() {
                self.settle_unknown(draft, archived);
            }
        }
        self.settle_copies(draft, survey);
        self.tidy_archives(draft);
        Ok(Answer::Now(Ok(Reply::Done)))
    }

    /// Gives back what interrupted retirements left in the archives.
    fn tidy_archives(&self, draft: &mut Draft<'_>) {
        for history in self.register.stores() {
            if history.versions.values().any(|entry| entry.version.state == State::Retired) {
                draft.intend(Effect::Compact { store: history.store.name.clone() });
            }
        }
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
                }));
            }
        }
    }

    /// Ends an effect that was interrupted: adopted if it had happened, undone or done again if not.
    fn settle_intent(
        &self,
        draft: &mut Draft<'_>,
        intent: &Intent,
        archived: &BTreeMap<&VersionId, &Archived>,
    ) {
        match &intent.effect {
            Effect::Cut { version: id, then_restore, .. } => {
                if let Some(wanted) = then_restore {
                    draft.remarks.push(format!(
                        "the daemon stopped before the store was brought back to {wanted}: it is as it was"
                    ));
                }
                let Ok(entry) = self.register.entry(id) else { return };
                match archived.get(id).and_then(|archived| archived.described.as_ref()) {
                    Some(described) => Self::adopt(draft, intent, &entry.version, described),
                    None => draft.end(
                        &entry.version,
                        State::Failed,
                        "the daemon stopped before it was acknowledged",
                    ),
                }
            }
            // SQLite has done all of it or nothing, and whoever asked can see which.
            Effect::Restore { version, before, .. } => draft.remarks.push(format!(
                "the daemon stopped while the store was brought back to {version}: it is as that one or as \
                 {before}, and both are kept; it is not tried again by itself"
            )),
            Effect::Retire { .. } => {
                draft.intend(intent.effect.clone());
            }
            // Where a copy is recorded, it was made anew after this one was dropped.
            Effect::DropCopy { version } => {
                if !self.has_copy(version) {
                    draft.intend(intent.effect.clone());
                }
            }
            // Nobody was told of the lease; what is left of the copy goes with the other copies. Archives are
            // tidied in any case.
            Effect::MakeCopy { .. } | Effect::Compact { .. } => {}
        }
    }

    /// Compares a record with what the archive holds.
    fn settle_version(&self, draft: &mut Draft<'_>, version: &Version, found: Option<&Archived>) {
        let archive = version.holdings.iter().any(|holding| matches!(holding, Holding::Archive { .. }));
        match (version.state, found) {
            (State::Ready, None) if archive => {
                draft.end(version, State::Lost, "its pack is not in the archive");
            }
            (State::Lost, Some(_)) => {
                draft.remarks.push(format!("{} is in the archive again", version.id));
                draft.put(Version { state: State::Ready, end: None, ..version.clone() });
            }
            (State::Failed | State::Retired | State::Retiring, Some(_)) | (State::Retiring, None) => {
                draft.intend(Effect::Retire { version: version.id.clone() });
            }
            (State::Cutting, _) => {
                draft.end(version, State::Failed, "the daemon stopped before it was acknowledged");
            }
            _ => {}
        }
    }

    /// Takes over a version that the register has never heard of, where its store is known.
    fn settle_unknown(&self, draft: &mut Draft<'_>, archived: &Archived) {
        let Archived { version, described } = archived;
        let known =
            self.policy.stores.contains_key(&version.store) || self.register.history(&version.store).is_ok();
        match described {
            Some(described) if known => Self::adopt_unknown(draft, archived, described),
            Some(_) => draft.remarks.push(format!(
                "the archive holds {version} of an unknown store; configure the store to adopt it"
            )),
            None => draft.remarks.push(format!("the archive holds {version}, but says nothing of it")),
        }
    }

    /// Removes copies that nobody leases, and makes those again that somebody does and that are gone.
    fn settle_copies(&self, draft: &mut Draft<'_>, survey: &Survey) {
        let whole: BTreeSet<&VersionId> = survey.copies.iter().collect();
        for version in self.versions().filter(|version| version.copy.is_some()) {
            let now = draft.now;
            let leases: Vec<&Lease> =
                self.register.leases_on(&version.id).filter(|lease| lease.expires_at > now).collect();
            if whole.contains(&version.id) && !leases.is_empty() {
                continue;
            }
            drop_copy(draft, version);
            if draft.latest(version).check_readable().is_ok() {
                leases.into_iter().for_each(|lease| make_again(draft, lease));
            }
        }
        for id in whole {
            let dropping = self.register.intents().any(|intent| drops(&intent.effect, id));
            if !self.has_copy(id) && !dropping {
                draft.intend(Effect::DropCopy { version: id.clone() });
            }
        }
    }

    fn has_copy(&self, id: &VersionId) -> bool {
        self.register.entry(id).is_ok_and(|entry| entry.version.copy.is_some())
    }
}

/// Has the copy made that a lease holds, for as long as the lease lasts.
fn make_again(draft: &mut Draft<'_>, lease: &Lease) {
    draft
        .remarks
        .push(format!("the copy of {} that {} leases is gone and made again", lease.version, lease.holder));
    let left_s = lease.expires_at.duration_since(draft.now).as_secs().max(1);
    draft.intend(Effect::MakeCopy {
        version: lease.version.clone(),
        lease: lease.id.clone(),
        holder: lease.holder.clone(),
        ttl_s: u32::try_from(left_s).unwrap_or(u32::MAX),
    });
}

fn drops(effect: &Effect, id: &VersionId) -> bool {
    matches!(effect, Effect::DropCopy { version } if version == id)
}

fn is_cut_or_retirement(effect: &Effect) -> bool {
    matches!(effect, Effect::Cut { .. } | Effect::Retire { .. })
}
