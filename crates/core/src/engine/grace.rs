//! The grace of versions that were given up: for a while they can be brought back.
//!
//! Giving up is recorded at once: the version is retired, and nobody opens it any more. Its pages stay until its grace is over;
//! what is then done to let them go is the same as where there is no grace. Space ends it early: what was given up goes before
//! anything else does.

use jiff::Timestamp;

use super::{Draft, Engine};
use crate::event::{Answer, Effect, EffectId, Reply};
use crate::line::check_line;
use crate::register::History;
use crate::version::{End, State, Version};
use crate::{Code, Problem, StoreName, VersionId, VersionRef};

/// What waits for the end of its grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many versions.
    pub versions: usize,
    /// What they have added to archives, in bytes.
    pub bytes: u64,
    /// When the first of them is let go.
    pub next: Option<Timestamp>,
}

impl Engine {
    /// The versions in their grace, of one store or of all, that which is let go first first.
    pub(super) fn in_grace<'a>(
        &'a self,
        store: Option<&'a StoreName>,
    ) -> impl Iterator<Item = (Timestamp, &'a Version)> {
        let of_store = move |id: &VersionId| store.is_none_or(|store| id.store == *store);
        let graces = self.register.graces().filter(move |(_, id)| of_store(id));
        graces.filter_map(|(until, id)| Some((until, &self.register.entry(id).ok()?.version)))
    }

    /// What waits for the end of its grace, of one store or of all.
    #[must_use]
    pub fn waiting(&self, store: Option<&StoreName>) -> Waiting {
        let mut waiting = Waiting::default();
        for (until, version) in self.in_grace(store) {
            waiting.versions += 1;
            waiting.bytes = waiting.bytes.saturating_add(version.archived_bytes());
            waiting.next = waiting.next.or(Some(until));
        }
        waiting
    }

    /// The version whose grace ends first, where space is short.
    #[must_use]
    pub fn first_in_grace(&self) -> Option<VersionId> {
        let mut waiting = self.in_grace(None).map(|(_, version)| version);
        waiting.find(|version| !self.is_stored_upon(version)).map(|version| version.id.clone())
    }

    /// Gives a version up: its pages go after the grace, or at once where there is none. The effect that lets them go is
    /// answered where it has begun.
    pub(super) fn give_up_with_grace(
        &self,
        draft: &mut Draft<'_>,
        version: &Version,
        reason: String,
    ) -> Option<EffectId> {
        // What is lost has nothing that could be brought back.
        if self.policy.grace.is_zero() || version.state != State::Ready {
            return Some(self.let_go(draft, version, reason));
        }
        let until = draft.now.checked_add(self.policy.grace).unwrap_or(Timestamp::MAX);
        let (had_copy, version) = (version.copy.is_some(), draft.latest(version));
        draft.remark(
            &version.id,
            format!("{} is retired, and its pages stay until {until:.6}: {reason}", version.id),
        );
        let end = Some(Box::new(End { at: draft.now, reason, purge_after: Some(until) }));
        draft.put(Version { state: State::Retired, copy: None, end, ..version.clone() });
        if had_copy {
            draft.intend(Effect::DropCopy { version: version.id });
        }
        None
    }

    /// Brings a version back that waits for the end of its grace. Its tags, its pin and its leases do not come back.
    pub(super) fn unretire(
        &self,
        draft: &mut Draft<'_>,
        wanted: &VersionRef,
        reason: Option<&str>,
    ) -> Result<Answer, Problem> {
        check_line("reason", reason, 500)?;
        let version = &self.register.resolve(wanted)?.version;
        let id = &version.id;
        match version.state {
            State::Ready => {}
            State::Retired if version.grace().is_some() => {
                draft.put_for(reason, Version { state: State::Ready, end: None, ..version.clone() });
                draft.remark(id, format!("{id} is brought back"));
                self.move_on(draft);
            }
            State::Retired | State::Retiring => {
                let why = version.end.as_ref().map(|end| format!(" ({})", end.reason)).unwrap_or_default();
                let detail = format!("{id} was retired{why}, and its pages are gone or on their way out");
                let hint = "publish again; retention.grace in the configuration says for how long pages stay";
                return Err(Problem::new(Code::Purged, detail, hint));
            }
            State::Cutting | State::Failed | State::Lost => version.check_readable()?,
        }
        Ok(Answer::Now(Ok(Reply::Version(id.clone()))))
    }

    /// Lets the pages go of a version in its grace.
    pub(super) fn purge(&self, draft: &mut Draft<'_>, version: &Version, why: &str) -> EffectId {
        let version = draft.latest(version);
        draft.remark(&version.id, format!("the pages of {} are deleted: {why}", version.id));
        let (at, reason) =
            version.end.as_ref().map_or((draft.now, String::new()), |end| (end.at, end.reason.clone()));
        let end = Some(Box::new(End { at, reason: format!("{reason}; {why}"), purge_after: None }));
        let id = version.id.clone();
        draft.put(Version { state: State::Retiring, end, ..version });
        draft.intend(Effect::Retire { version: id })
    }

    /// Lets the pages go of all whose grace is over.
    pub(super) fn end_graces(&self, draft: &mut Draft<'_>) {
        let now = draft.now;
        let over = self.in_grace(None).take_while(|(until, _)| *until <= now).map(|(_, version)| version);
        for version in over.filter(|version| !self.is_stored_upon(version)) {
            self.purge(draft, version, "its grace is over");
        }
    }

    /// Ends graces of a store, the first to end first, until so many bytes may come back; whether there were any.
    pub(super) fn end_graces_for_space(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        bytes: u64,
        why: &str,
    ) -> bool {
        let (mut freed, mut any) = (0_u64, false);
        for (_, version) in self.in_grace(Some(store)) {
            if freed < bytes && !self.is_stored_upon(version) {
                freed = freed.saturating_add(version.archived_bytes());
                self.purge(draft, version, why);
                any = true;
            }
        }
        any
    }

    /// Whether another version may be written upon this one at this moment, so that its pages have to stay.
    pub(super) fn is_stored_upon(&self, version: &Version) -> bool {
        let store = &version.id.store;
        let writes = |effect: &Effect| match effect {
            Effect::Archive { version } => version.store == *store,
            effect => effect.cuts_of(store),
        };
        self.held.contains(&version.id) || self.register.intents().any(|intent| writes(&intent.effect))
    }

    /// Whether the next version of a store becomes one of its own even if nothing has changed: the newest cannot be read any more. What
    /// the store is then was published by nobody, or by an older version, and as of the next cut the newest one would be found.
    pub(super) fn is_cut_anew(&self, store: &StoreName) -> bool {
        let newest = self.register.history(store).ok().and_then(History::newest_cut);
        newest.is_some_and(|entry| entry.version.state != State::Ready)
    }
}
