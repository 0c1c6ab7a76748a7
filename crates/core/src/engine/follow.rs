//! Following: what another asat has published is taken over as it is, and what that one has given up is given up here.

use super::publish::{ready, take_over, unheard_of};
use super::{Draft, Engine};
use crate::event::{Answer, Archived, Change, Described, Followed, Reply};
use crate::version::{Holding, State, Store, Version};
use crate::{Problem, VersionId};

impl Engine {
    pub(super) fn follow(&self, draft: &mut Draft<'_>, followed: &Followed) -> Result<Answer, Problem> {
        let Followed { store, place, has, gone, recorded } = followed;
        let known = self.register.history(store).ok().map(|history| &history.store);
        if known.is_none_or(|known| known.path != *place) {
            let added_at = known.map_or(draft.now, |known| known.added_at);
            let (name, path) = (store.clone(), place.clone());
            draft.changes.push(Change::Store(Store { name, path, added_at, damage: None }));
        }
        has.iter().for_each(|archived| take_up(draft, archived));
        for number in gone {
            let id = VersionId { store: store.clone(), number: *number };
            if !self.is_being_read(&id, draft.now) {
                end_followed(draft, &id);
            }
        }
        if let Some(recorded) = recorded {
            self.take_up(draft, store, recorded);
        }
        Ok(Answer::Now(Ok(Reply::Done)))
    }
}

/// Ends a version that the publisher has given up. One that is leased stays until it is not.
fn end_followed(draft: &mut Draft<'_>, id: &VersionId) {
    let Some(version) = draft.known(id) else { return };
    if !matches!(version.state, State::Ready | State::Lost) {
        return;
    }
    if version.content.is_none() {
        // It was taken for lost with others, and perhaps never was a version.
        return draft.changes.push(Change::Discarded(id.clone()));
    }
    if version.copy.is_some() {
        draft.drop_copy(&version);
    }
    draft.end(&draft.latest(&version), State::Retired, "the publisher has given it up");
}

/// Takes over a version as the archive describes it, unless it is known.
fn take_up(draft: &mut Draft<'_>, archived: &Archived) {
    let Archived { version: id, described } = archived;
    match (draft.known(id), described) {
        (None, Ok(described)) => {
            draft.put(as_described(&unheard_of(id, described.content.cut_at), described));
            take_over(draft, id, described);
        }
        (None, Err(damaged)) => {
            let reason = format!("it cannot be read from the bucket: {}", damaged.why);
            draft.end(&unheard_of(id, draft.now), State::Lost, reason);
        }
        (Some(version), Ok(described)) if is_another(&version, described) => {
            let text = format!("the bucket has another {id} than was followed: it is left as it is recorded");
            draft.remark(id, text);
        }
        (Some(version), Ok(described)) if matches!(version.state, State::Lost | State::Retired) => {
            draft.remark(id, format!("{id} can be read again"));
            let was_unknown = version.content.is_none();
            draft.put(as_described(&version, described));
            if was_unknown {
                take_over(draft, id, described);
            }
        }
        _ => {}
    }
}

/// Whether the content is known to be another one.
fn is_another(version: &Version, described: &Described) -> bool {
    let recorded = version.content.as_ref().and_then(|content| content.fingerprint);
    recorded.is_some() && recorded != described.content.fingerprint
}

/// The version with what the archive has of it.
fn as_described(version: &Version, described: &Described) -> Version {
    ready(version, &described.content, Holding::Archive { bytes: described.bytes })
}
