//! Restoring: the state that is left is published first, then the store is brought back.
//!
//! Both are effects in the store's lane. The wish rides in the intent of the cut, so that a cut that fails ends it,
//! and so does a daemon that stops: nothing is brought back that nobody waits for.

use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::event::{Answer, Effect, Publish, Reply, Restore};
use crate::version::Attributes;
use crate::{Code, Problem, VersionId};

impl Engine {
    pub(super) fn restore(&self, draft: &mut Draft<'_>, request: &Restore) -> Result<Answer, Problem> {
        let history = self.register.history(&request.store)?;
        let version = &self.register.resolve(&request.version)?.version;
        let id = &version.id;
        if id.store != request.store {
            let detail = format!("{id} is no version of {}", request.store);
            return Err(Problem::new(Code::Invalid, detail, "a store is restored from its own versions"));
        }
        version.check_readable()?;
        let origin = self.origin_of(history)?;
        let attributes = Attributes {
            label: Some(format!("before restore to {id}")),
            certified_by: request.certified_by.clone(),
            note: request.note.clone(),
            ..Attributes::default()
        };
        attributes.check()?;
        let first = Publish { store: Some(request.store.clone()), attributes, ..Publish::default() };
        Ok(Answer::After(self.begin_cut(draft, history, &first, origin, Some(id.clone()))))
    }

    /// The state that is left is kept as `before`: now the store may be brought back.
    pub(super) fn go_on_to_restore(
        &self,
        draft: &mut Draft<'_>,
        wanted: &VersionId,
        before: VersionId,
        publication: u64,
    ) -> Result<Answer, Problem> {
        let version = wanted.clone();
        if version == before {
            // The store is exactly as it is wanted.
            let deed = Deed::new(draft.now, draft.by.clone(), Action::Restore, version.clone());
            draft.note(deed.with("publication", publication.to_string()).with("outcome", "it was as wanted"));
            return Ok(Answer::Now(Ok(Reply::Restored { version, publication, writer_blocked_us: 0 })));
        }
        self.register.entry(wanted)?.version.check_readable()?;
        Ok(Answer::After(draft.intend(Effect::Restore { version, before, publication })))
    }

    /// Whether a store is being brought back to this version, or from it.
    pub(super) fn is_being_restored(&self, id: &VersionId) -> bool {
        self.register.intents().any(|intent| restores(&intent.effect, id))
    }

    pub(super) fn finish_restore(
        &self,
        draft: &mut Draft<'_>,
        version: &VersionId,
        publication: u64,
        result: &Result<u64, Problem>,
    ) -> Result<Answer, Problem> {
        // The snapshots that it was read from, and that it compared with, may go.
        self.move_on(draft);
        let deed = Deed::new(draft.now, draft.by.clone(), Action::Restore, version.clone());
        let outcome = match result {
            Ok(_) => "done".to_owned(),
            Err(problem) => format!("failed: {}", problem.detail),
        };
        draft.note(deed.with("publication", publication.to_string()).with("outcome", outcome));
        let writer_blocked_us = *result.as_ref().map_err(Problem::clone)?;
        draft.remark(version, format!("{} was brought back to {version}", version.store));
        Ok(Answer::Now(Ok(Reply::Restored { version: version.clone(), publication, writer_blocked_us })))
    }
}

/// Whether an effect brings a store back to this version, or from it.
pub(super) fn restores(effect: &Effect, id: &VersionId) -> bool {
    match effect {
        Effect::Cut { then_restore, .. } => then_restore.as_ref() == Some(id),
        Effect::Restore { version, before, .. } => version == id || before == id,
        _ => false,
    }
}
