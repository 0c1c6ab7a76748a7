//! Labels that are given to one version only, where the configuration asks for that.
//!
//! Whether a label is free is looked at when a publication is asked for, and again when it is recorded: what is published by
//! watch mode has its label from the very content that was cut.

use super::{Draft, Engine};
use crate::event::{Answer, Change, Cut, Effect, Intent, Kept, Publish, Reply};
use crate::labels::folded;
use crate::register::History;
use crate::version::{Attributes, Holding, Publication, State, Version};
use crate::{Code, Problem, StoreName, VersionId, watch};

impl Engine {
    /// The publication that has the label already, where labels are given once.
    fn labelled<'a>(
        &'a self,
        draft: &'a Draft<'_>,
        history: &History,
        said: &Attributes,
    ) -> Option<&'a Publication> {
        let label = said.label.as_deref()?;
        if !self.has_unique_labels(&history.store.name) {
            return None;
        }
        let label = folded(label);
        let in_draft = |change: &'a Change| match change {
            Change::Published(said) if said.version.store == history.store.name => {
                let is_same = said.attributes.label.as_deref().is_some_and(|other| folded(other) == label);
                is_same.then_some(said)
            }
            _ => None,
        };
        let recorded = history.labelled(&label).and_then(|number| self.register.publication(number));
        recorded.or_else(|| draft.changes.iter().find_map(in_draft))
    }

    fn has_unique_labels(&self, store: &StoreName) -> bool {
        self.policy.stores.get(store).is_some_and(|policy| policy.unique_labels)
    }

    /// What is answered to somebody who publishes this version again with a label that is taken; nothing where it is free.
    pub(super) fn label_again(
        &self,
        draft: &Draft<'_>,
        history: &History,
        request: &Publish,
        id: &VersionId,
    ) -> Option<Result<Reply, Problem>> {
        let taken = self.labelled(draft, history, &request.attributes)?;
        let is_same = taken.version == *id && taken.attributes == request.attributes;
        Some(if is_same { Ok(Reply::Known(taken.number)) } else { Err(problem(taken)) })
    }

    /// Refuses a label that is taken, unless the very same may be meant, which is known when the store was looked at.
    pub(super) fn check_label(
        &self,
        draft: &Draft<'_>,
        history: &History,
        said: &Attributes,
    ) -> Result<(), Problem> {
        if let Some(taken) = self.labelled(draft, history, said) {
            let newest = history.newest_readable().map(|entry| &entry.version.id);
            let may_be_same = taken.attributes == *said && newest == Some(&taken.version);
            return if may_be_same { Ok(()) } else { Err(problem(taken)) };
        }
        let store = &history.store.name;
        let Some(label) = said.label.as_deref().filter(|_| self.has_unique_labels(store)) else {
            return Ok(());
        };
        let wanted = folded(label);
        let gives = |intent: &Intent| match &intent.effect {
            Effect::Cut { attributes, then_restore: None, .. } | Effect::CutSet { attributes, .. } => {
                let label = attributes.label.as_deref();
                intent.effect.cuts_of(store) && label.is_some_and(|other| folded(other) == wanted)
            }
            _ => false,
        };
        if self.register.intents().any(gives) {
            let detail = format!("a publication of {store} with the label {label:?} is under way");
            return Err(Problem::new(Code::InUse, detail, "try again in a moment"));
        }
        Ok(())
    }

    /// Why a version that was cut together with others may not have its label; nothing where it may. A version that has the
    /// label already may be given it again.
    pub(super) fn label_refused(
        &self,
        draft: &Draft<'_>,
        id: &VersionId,
        said: &Attributes,
    ) -> Option<Problem> {
        let history = self.register.history(&id.store).ok()?;
        self.labelled(draft, history, said).filter(|taken| taken.version != *id).map(problem)
    }

    /// How a cut ends whose label turns out to be taken; nothing where it is free.
    pub(super) fn end_with_label(
        &self,
        draft: &mut Draft<'_>,
        intent: &Intent,
        version: &Version,
        cut: &Cut,
    ) -> Option<Result<Answer, Problem>> {
        let Effect::Cut { attributes, then_restore: None, .. } = &intent.effect else { return None };
        let history = self.register.history(&version.id.store).ok()?;
        let said = watch::as_found(attributes, &cut.checks);
        let taken = self.labelled(draft, history, &said)?.clone();
        let refusal = problem(&taken);
        let left = match &cut.kept {
            Kept::SameAs(number) => {
                let entry =
                    history.versions.get(*number).filter(|entry| entry.version.state == State::Ready)?;
                draft.changes.push(Change::Discarded(version.id.clone()));
                let is_same = taken.version == entry.version.id && taken.attributes == said;
                self.move_on(draft);
                let known = || Ok(Answer::Now(Ok(Reply::Known(taken.number))));
                return Some(if is_same { known() } else { Err(refusal) });
            }
            Kept::Snapshot { snapshot, .. } => vec![Holding::Snapshot(snapshot.clone())],
            Kept::Stored { .. } => Vec::new(),
        };
        draft.end(&Version { holdings: left, ..version.clone() }, State::Failed, refusal.to_string());
        draft.intend(Effect::Retire { version: version.id.clone() });
        self.move_on(draft);
        Some(Err(refusal))
    }
}

fn problem(taken: &Publication) -> Problem {
    let label = taken.attributes.label.as_deref().unwrap_or_default();
    let detail = format!("the label {label:?} was given to {} at {}", taken.version, taken.at);
    Problem::new(
        Code::LabelTaken,
        detail,
        "choose another label; each is given to one version only (unique_labels)",
    )
}
