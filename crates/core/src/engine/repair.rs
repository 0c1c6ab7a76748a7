//! Repair: what a verification finds damaged is recorded, put right by an effect, and written down with what gave the content.

use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::event::{Answer, Change, Effect, Repaired, Reply};
use crate::harm::{Damage, Finding, Tried};
use crate::register::History;
use crate::version::{State, Store, Version};
use crate::{Code, Problem, StoreName, VersionId};

/// What stands in the audit trail of what cannot be put right.
const NOTHING_HAS_IT: &str = "nothing has the content any more";
/// What stands there if it is not known what put it right: somebody, or a repair that a crash kept from being recorded.
const NOTHING_IS_DAMAGED: &str = "found as it was written";

impl Engine {
    /// Has put right what a verification found. That nothing was found says something only of damage
    /// that was `known` before, and if all was read.
    pub(super) fn verified(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        whole: bool,
        known: Option<&Damage>,
        findings: &[Finding],
    ) -> Result<Answer, Problem> {
        let history = self.register.history(store)?;
        let recorded = history.store.damage.as_ref();
        if findings.is_empty() {
            if whole && recorded == known {
                note_recovered(draft, history);
                record(draft, history, None);
            }
            return Ok(Answer::Now(Ok(Reply::Done)));
        }
        if whole || recorded.is_none() {
            record(draft, history, as_found(draft, history, findings));
        }
        let repairs = |effect: &Effect| matches!(effect, Effect::Repair { store: other } if other == store);
        let open = self.register.intents().find(|intent| repairs(&intent.effect));
        let effect = open.map(|intent| intent.id);
        Ok(Answer::After(effect.unwrap_or_else(|| draft.intend(Effect::Repair { store: store.clone() }))))
    }

    pub(super) fn finish_repair(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        result: &Result<Repaired, Problem>,
    ) -> Result<Answer, Problem> {
        let history = self.register.history(store)?;
        let of = |number| VersionId { store: store.clone(), number };
        match result {
            Ok(repaired) => {
                for mended in &repaired.mended {
                    let id = of(mended.version);
                    draft.remark(
                        &id,
                        format!("{} was damaged, and is put right from {}", mended.file, mended.from),
                    );
                    note(draft, id, &mended.file, "put right", Some(&mended.from));
                }
                let mut damage = as_found(draft, history, &repaired.left);
                // The trail cannot be trimmed, and a caller with the role `read` can have the same damage found again and again.
                let is_news = damage.as_mut().is_some_and(|damage| came_to(damage, Tried::InVain));
                for finding in &repaired.left {
                    if let Some(&number) = finding.versions.last() {
                        draft.remark(&of(number), format!("{}: {NOTHING_HAS_IT}", finding.what));
                        if is_news {
                            note(draft, of(number), &finding.file, NOTHING_HAS_IT, None);
                        }
                    }
                }
                if repaired.mended.is_empty() && repaired.left.is_empty() {
                    note_recovered(draft, history);
                }
                record(draft, history, damage);
                self.find_again(draft, history, &repaired.readable);
                Ok(Answer::Now(Ok(Reply::Repaired(repaired.clone()))))
            }
            Err(problem) if problem.code == Code::Stopping => {
                draft.intend(Effect::Repair { store: store.clone() });
                Err(problem.clone())
            }
            Err(problem) => {
                if let Some(mut damage) = history.store.damage.clone()
                    && let Some(&number) = damage.versions.last()
                    && came_to(&mut damage, Tried::Failed)
                {
                    record(draft, history, Some(damage));
                    note(draft, of(number), "", &format!("failed: {}", problem.detail), None);
                }
                Err(problem.clone())
            }
        }
    }

    /// Has versions be ready again that were lost with what was put right now.
    fn find_again(&self, draft: &mut Draft<'_>, history: &History, readable: &[u64]) {
        let is_back = |version: &&Version| version.is_archived() && readable.contains(&version.id.number);
        for version in history.lost().filter(is_back) {
            draft.remark(&version.id, format!("{} can be read again", version.id));
            draft.put(Version { state: State::Ready, end: None, ..version.clone() });
        }
    }
}

/// What is damaged of a store, since it was found first, with what is known of the same already.
fn as_found(draft: &Draft<'_>, history: &History, findings: &[Finding]) -> Option<Damage> {
    let known = history.store.damage.as_ref();
    let damage = Damage::of(known.map_or(draft.now, |known| known.found_at), findings)?;
    let tried = known.filter(|known| known.is_same(&damage)).and_then(|known| known.tried);
    Some(Damage { tried, ..damage })
}

/// Has it known what has come of putting damage right; answers whether that says more than what was known.
fn came_to(damage: &mut Damage, tried: Tried) -> bool {
    let is_news = damage.tried < Some(tried);
    damage.tried = damage.tried.max(Some(tried));
    is_news
}

/// Takes a version that is given up out of what is damaged: whether it can be read is nobody's worry any more.
pub(super) fn do_without(draft: &mut Draft<'_>, history: &History, number: u64) {
    let Some(damage) = history.store.damage.clone().filter(|damage| damage.versions.contains(&number)) else {
        return;
    };
    let versions: Vec<u64> = damage.versions.iter().copied().filter(|other| *other != number).collect();
    record(draft, history, Some(Damage { versions, ..damage }).filter(|damage| !damage.versions.is_empty()));
}

fn record(draft: &mut Draft<'_>, history: &History, damage: Option<Damage>) {
    if damage != history.store.damage {
        draft.changes.push(Change::Store(Store { damage, ..history.store.clone() }));
    }
}

/// Notes that what was damaged is not any more.
fn note_recovered(draft: &mut Draft<'_>, History { store, .. }: &History) {
    if let Some(&number) = store.damage.as_ref().and_then(|damage| damage.versions.last()) {
        let id = VersionId { store: store.name.clone(), number };
        note(draft, id, "", NOTHING_IS_DAMAGED, None);
    }
}

fn note(draft: &mut Draft<'_>, id: VersionId, file: &str, outcome: &str, from: Option<&String>) {
    let deed = Deed::new(draft.now, draft.by.clone(), Action::Repair, id);
    draft.note(deed.with("file", file).with("outcome", outcome).with_some("from", from));
}
