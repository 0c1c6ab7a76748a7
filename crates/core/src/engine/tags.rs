//! Tags: names that lead to versions, and move. What has one is not given up.

use super::{Draft, Engine};
use crate::audit::{Action, Deed};
use crate::event::{Answer, Change, Reply};
use crate::version::{Tag, Version};
use crate::{Code, Problem, StoreName, TagName, VersionId, VersionRef};

impl Draft<'_> {
    /// Has a tag lead to its version from now on, and not to the one before.
    pub(super) fn tag(&mut self, tag: Tag, before: Option<&VersionId>) {
        let deed = Deed::new(self.now, self.by.clone(), Action::Tag, tag.version.clone())
            .with("tag", tag.name.as_str())
            .with_some("before", before.map(ToString::to_string));
        self.note(deed);
        self.changes.push(Change::Tagged(tag));
    }

    /// Has a tag lead nowhere from now on.
    pub(super) fn untag(&mut self, tag: &Tag) {
        let deed = Deed::new(self.now, self.by.clone(), Action::Untag, tag.version.clone());
        self.note(deed.with("tag", tag.name.as_str()));
        self.changes.push(Change::Untagged(tag.version.store.clone(), tag.name.clone()));
    }
}

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
                draft.tag(tag.clone(), before.as_ref());
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
        draft.untag(tag);
        let before = Some(tag.version.clone());
        Ok(Answer::Now(Ok(Reply::Tagged { tag: tag.clone(), before })))
    }

    /// Why a version may not be given up where tags lead to it.
    pub(super) fn tagged(&self, version: &Version) -> Option<Problem> {
        let history = self.register.history(&version.id.store).ok()?;
        let names: Vec<&str> =
            history.tags_on(version.id.number).map(|tag| tag.name.as_str()).take(20).collect();
        let first = names.first()?;
        let detail = format!("{} has the tag {}", version.id, names.join(", "));
        let tag = format!("{} {first}", version.id.store);
        let hint = format!(
            "asat tag {tag} VERSION has it lead to another version, and asat tag --delete {tag} deletes it"
        );
        Some(Problem::new(Code::Tagged, detail, hint))
    }
}
