//! Records out of an archive: what was said of versions after they were cut, taken over as it is.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use super::idempotency::is_taken;
use super::publish::next_publication;
use super::{Draft, Engine};
use crate::event::Recorded;
use crate::version::{Attributes, Publication, State, Version};
use crate::{By, StoreName, VersionId};

impl Engine {
    /// Takes over what the archive of a store has recorded: later publications of its versions, pins and tags. If the archive had all pins and tags
    /// at a moment, those here that are older and not in the archive are removed; what was set later stays as it is.
    pub(super) fn take_up(&self, draft: &mut Draft<'_>, store: &StoreName, recorded: &Recorded) {
        let said = |version: &VersionId| -> HashSet<(Timestamp, &Attributes)> {
            let entry = self.register.entry(version).into_iter();
            let later = entry.flat_map(|entry| &entry.publications).filter(|known| known.reused);
            later.map(|known| (known.at, &known.attributes)).collect()
        };
        let mut known: BTreeMap<&VersionId, HashSet<(Timestamp, &Attributes)>> = BTreeMap::new();
        for publication in &recorded.publications {
            let version = &publication.version;
            let known = known.entry(version).or_insert_with(|| said(version));
            if !known.contains(&(publication.at, &publication.attributes)) {
                publish_recorded(draft, publication);
            }
        }
        self.take_up_pins(draft, store, recorded);
        self.take_up_tags(draft, store, recorded);
    }

    fn take_up_pins(&self, draft: &mut Draft<'_>, store: &StoreName, recorded: &Recorded) {
        let history = self.register.history(store).into_iter();
        let pinned = history.flat_map(|history| history.moving()).filter(|version| version.pin.is_some());
        let mut versions: BTreeSet<VersionId> = pinned.map(|version| version.id.clone()).collect();
        versions.extend(recorded.pins.keys().cloned());
        for id in versions {
            let Some(version) = draft.known(&id) else { continue };
            let pin = recorded.pins.get(&id).cloned().map(Box::new);
            let stays = version.pin.as_ref().is_some_and(|pin| !recorded.is_older(pin.set_at));
            if version.pin != pin && !stays && (pin.is_none() || may_have_pins(&version)) {
                draft.put(Version { pin, ..version });
            }
        }
    }

    fn take_up_tags(&self, draft: &mut Draft<'_>, store: &StoreName, recorded: &Recorded) {
        let known = self.register.history(store).map(|history| history.tags.clone()).unwrap_or_default();
        let stays = |name| known.get(name).is_some_and(|tag| !recorded.is_older(tag.set_at));
        let is_there = |version: &VersionId, draft: &Draft<'_>| {
            draft.known(version).is_some_and(|it| may_have_pins(&it))
        };
        for (name, tag) in recorded.tags.iter().filter(|(name, _)| !stays(name)) {
            if known.get(name) != Some(tag) && is_there(&tag.version, draft) {
                draft.tag(tag.clone(), known.get(name).map(|before| &before.version));
            }
        }
        // A tag that leads to a version which is not known here leads nowhere: the version before would be the wrong one.
        for tag in known.values().filter(|tag| !stays(&tag.name)) {
            let now = recorded.tags.get(&tag.name);
            if !now.is_some_and(|now| is_there(&now.version, draft)) {
                draft.untag(tag);
            }
        }
    }
}

/// Whether a version may have a pin, and a tag lead to it. One that is lost may be found again.
fn may_have_pins(version: &Version) -> bool {
    matches!(version.state, State::Ready | State::Lost)
}

/// Records a publication under the next number, if its version is known.
fn publish_recorded(draft: &mut Draft<'_>, publication: &Publication) {
    if draft.known(&publication.version).is_some() {
        let key = publication.key.clone().filter(|key| !is_taken(draft, key));
        let number = next_publication(draft);
        draft.publish(By::asat(), Publication { number, key, ..publication.clone() });
    }
}
