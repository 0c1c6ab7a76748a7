//! Publishing again what has not changed: nothing is cut, and nobody is held.
//!
//! Whoever asks has seen that the store still has the content of a version. Where that is the newest one, a publication is
//! recorded under it at once; where the same was said of it before, nothing is recorded at all.

use jiff::Timestamp;

use super::idempotency::{is_promised, is_taken};
use super::publish::{Certification, publish_as};
use super::{Backing, Draft, Engine};
use crate::By;
use crate::Problem;
use crate::event::{Answer, Change, Effect, Publish, Reply};
use crate::register::{Entry, History};
use crate::snapshot::Cost;
use crate::version::{Publication, State};

/// Decisions about several requests, to be committed together.
#[derive(Clone, Debug)]
pub struct GroupCommit {
    /// What changes, in order, all or nothing.
    pub changes: Vec<Change>,
    /// What to tell each; `None`: it has to be asked alone.
    pub answers: Vec<Option<Result<Reply, Problem>>>,
}

impl Engine {
    /// The publication that has said the same of the version that the store still is. Nothing needs to be recorded then.
    #[must_use]
    pub fn known(&self, request: &Publish) -> Option<u64> {
        let history = self.wanted(request).ok()?;
        let entry = self.unchanged(history, request)?;
        entry.said(&request.attributes).filter(|_| request.key.is_none())
    }

    /// Decides about requests to publish stores that have not changed, so that one commit does for all of them.
    #[must_use]
    pub fn decide_together(&self, now: Timestamp, requests: &[(&By, &Publish)]) -> GroupCommit {
        let mut draft = Draft::new(&self.register, now, By::asat());
        let mut decide = |(by, request): &(&By, &Publish)| {
            draft.by.clone_from(by);
            if request.key.as_ref().is_some_and(|key| is_taken(&draft, key) || is_promised(&draft, key)) {
                return None;
            }
            if let Err(problem) = Self::check_request(request) {
                return Some(Err(problem));
            }
            let history = self.wanted(request).ok()?;
            match self.again(&mut draft, history, request)? {
                Answer::Now(answer) => Some(answer),
                Answer::After(_) | Answer::Again(_) => None,
            }
        };
        let answers = requests.iter().map(&mut decide).collect();
        GroupCommit { changes: draft.changes, answers }
    }

    /// Records a publication of the version that the store still is; nothing where that is not known, or no longer so.
    pub(super) fn again(
        &self,
        draft: &mut Draft<'_>,
        history: &History,
        request: &Publish,
    ) -> Option<Answer> {
        let entry = self.unchanged(history, request)?;
        let id = &entry.version.id;
        if request.key.is_none() {
            let in_draft = draft.changes.iter().find_map(|change| match change {
                Change::Published(Publication { number, version, attributes, .. })
                    if version == id && *attributes == request.attributes =>
                {
                    Some(*number)
                }
                _ => None,
            });
            if let Some(number) = entry.said(&request.attributes).or(in_draft) {
                return Some(Answer::Now(Ok(Reply::Known(number))));
            }
        }
        if let Some(answer) = self.label_again(draft, history, request, id) {
            return Some(Answer::Now(answer));
        }
        let Publish { attributes, key, .. } = request;
        let by = draft.by.clone();
        let certification = Certification { at: draft.now, by: &by, attributes, key: key.as_ref() };
        let number = publish_as(draft, certification, id.clone(), true, (Cost::default(), &[]), None);
        Some(Answer::Now(Ok(Reply::Published(number))))
    }

    /// The newest version, where the request says that the store is as it was then, and no other is being cut.
    fn unchanged<'a>(&self, history: &'a History, request: &Publish) -> Option<&'a Entry> {
        // The request is refused then.
        self.check_clock().ok()?;
        let entry = history.newest_cut().filter(|entry| entry.version.state == State::Ready)?;
        let store = &history.store.name;
        let usable = self
            .policy
            .stores
            .get(store)
            .is_some_and(|policy| !matches!(policy.backing, Backing::Unusable(_)));
        let is_cut = |effect: &Effect| match effect {
            Effect::Restore { version, .. } => version.store == *store,
            effect => effect.cuts_of(store),
        };
        // What is only in a snapshot may be lost with it, and has to be looked at.
        let is_newest = request.unchanged == Some(entry.version.id.number) && entry.version.is_archived();
        let is_still = is_newest && usable && !self.register.intents().any(|intent| is_cut(&intent.effect));
        is_still.then_some(entry)
    }
}
