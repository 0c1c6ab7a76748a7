//! Tags: names that lead to versions, and move. What has one is not given up.

use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::event::{Answer, Change, Reply};
use crate::version::{Tag, Version};
use crate::{Code, Problem, StoreName, TagName, VersionRef};

impl Engine {
    pub(super) fn set_tag(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        name: &TagName,
        wanted: &VersionRef,
    ) -> Result<Answer, Problem> {
        let history = self.register.history(store)?;
        let version = &self.register.resolve(wanted)?.version;
        if version.id.store != *store {
            let detail = format!("{} is no version of {store}", version.id);
            return Err(Problem::new(Code::Invalid, detail, "a tag leads to a version of its own store"));
        }
        version.check_readable()?;
        let old = history.tags.get(name);
        let before = old.map(|tag| tag.version.clone());
        let tag = match old.filter(|tag| tag.version == version.id) {
            Some(same) => same.clone(),
            None => {
                let tag = Tag { name: name.clone(), version: version.id.clone(), set_at: draft.now };
                let text = match &before {
                    Some(before) => format!("the tag {store}@{name} moved from {before} to {}", version.id),
                    None => format!("the tag {store}@{name} leads to {}", version.id),
                };
                draft.remark(&version.id, text);
                let deed = Deed::new(draft.now, draft.by.clone(), Action::Tag, version.id.clone())
                    .with("tag", name.as_str())
                    .with_some("before", before.as_ref().map(ToString::to_string));
                draft.note(deed);
                draft.changes.push(Change::Tagged(tag.clone()));
                tag
            }
        };
        Ok(Answer::Now(Ok(Reply::Tagged { tag, before })))
    }

    pub(super) fn remove_tag(
        &self,
        draft: &mut Draft<'_>,
        store: &StoreName,
        name: &TagName,
    ) -> Result<Answer, Problem> {
        let tag = self.register.history(store)?.tag(name)?;
        let text = format!("the tag {store}@{name} no longer leads to {}", tag.version);
        draft.remark(&tag.version, text);
        let deed = Deed::new(draft.now, draft.by.clone(), Action::Untag, tag.version.clone());
        draft.note(deed.with("tag", name.as_str()));
        draft.changes.push(Change::Untagged(store.clone(), name.clone()));
        let before = Some(tag.version.clone());
        Ok(Answer::Now(Ok(Reply::Tagged { tag: tag.clone(), before })))
    }

    /// Why a version may not be given up where tags lead to it.
    pub(super) fn tagged(&self, version: &Version) -> Option<Problem> {
        let history = self.register.history(&version.id.store).ok()?;
        let names: Vec<&str> =
            history.tags_on(version.id.number).map(|tag| tag.name.as_str()).take(20).collect();
        if names.is_empty() {
            return None;
        }
        let detail = format!("{} has the tag {}", version.id, names.join(", "));
        Some(Problem::new(Code::Tagged, detail, "move the tag to another version, or delete it"))
    }
}
