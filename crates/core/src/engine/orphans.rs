//! Snapshots, and files of archives that cannot be read, that nothing is recorded of: the catalogue was lost with what it knew of them, or was
//! put back from an older copy.
//! Whether anybody was told of such a version cannot be known any more, so it is kept like one of which somebody was.

use super::publish::{ready, take_over, unheard_of};
use super::{Draft, Engine};
use crate::VersionId;
use crate::event::{Damaged, Described, Found};
use crate::snapshot::Snapshot;
use crate::version::{Holding, State, Version};

/// Higher numbers than any store comes to. A number that is taken must leave room for those that follow it.
const TOO_HIGH: u64 = 1 << 40;

impl Engine {
    /// Makes of a snapshot the version that it was taken for; or has at least its number stay with it.
    pub(super) fn settle_found(&self, draft: &mut Draft<'_>, found: &Found) {
        let Found { version: id, name, described, snapshot } = found;
        if id.number >= TOO_HIGH {
            left_alone(draft, id, name, "no version comes to so high a number");
            return;
        }
        let known = draft.known(id);
        if !self.is_known_store(&id.store) {
            draft.remark(
                id,
                format!("{name} holds {id} of an unknown store; configure the store to adopt it"),
            );
            return;
        }
        match (known, described, snapshot) {
            (None, None, snapshot) => {
                let why = snapshot.as_ref().err().map_or("it cannot be looked into", String::as_str);
                // The start at which it can be looked into has it again. Until then no other version may have the number.
                draft.end(
                    &unheard_of(id, draft.now),
                    State::Lost,
                    format!("its snapshot {name} cannot be read: {why}"),
                );
            }
            (Some(_), None, Ok(_)) => left_alone(draft, id, name, "it cannot be looked into"),
            (Some(_), None, Err(why)) => left_alone(draft, id, name, why),
            (None, Some(Err(why)), _) => {
                left_alone(draft, id, name, why);
                // No other version may have the number: its snapshot would have the same name.
                draft.end(
                    &unheard_of(id, draft.now),
                    State::Failed,
                    format!("of its snapshot {name}: {why}"),
                );
            }
            (Some(_), Some(Err(why)), _) => left_alone(draft, id, name, why),
            (None, Some(Ok(described)), snapshot) => {
                Self::adopt_found(draft, found, described, snapshot.as_ref());
            }
            (Some(version), Some(Ok(described)), snapshot) => {
                // Of one that could not be read, nothing may be known but the number.
                let is_unknown = version.content.is_none() && version.state == State::Lost;
                let same = version.content.as_ref().is_some_and(|c| c.cut_at == described.content.cut_at);
                let is_kept = matches!(version.state, State::Ready | State::Lost);
                match snapshot {
                    Err(why) => left_alone(draft, id, name, why),
                    Ok(snapshot) if (same || is_unknown) && is_kept && version.snapshot().is_none() => {
                        draft.remark(id, format!("{name} holds {id}, and is its snapshot again"));
                        let is_ready = version.state == State::Ready || !snapshot.lost;
                        let state = if is_ready { State::Ready } else { State::Lost };
                        let end = version.end.clone().filter(|_| !is_ready);
                        let content = version.content.clone().or_else(|| Some(described.content.clone()));
                        draft.put(Version { state, end, content, ..holding(version, snapshot) });
                        if is_unknown {
                            take_over(draft, id, described);
                        }
                    }
                    Ok(_) => left_alone(draft, id, name, "another version has this number, or it has ended"),
                }
            }
        }
    }

    /// Takes over a version that is in its snapshot alone.
    fn adopt_found(
        draft: &mut Draft<'_>,
        found: &Found,
        described: &Described,
        snapshot: Result<&Snapshot, &String>,
    ) {
        let Found { version: id, name, .. } = found;
        let content = &described.content;
        let version = unheard_of(id, content.cut_at);
        match snapshot {
            Ok(snapshot) => {
                let held = ready(&version, content, Holding::Snapshot(Box::new(snapshot.clone())));
                if snapshot.lost {
                    draft.end(&held, State::Lost, format!("its snapshot {name} was full"));
                } else {
                    draft.remark(id, format!("{id} was found in its snapshot {name}, and is adopted"));
                    draft.put(held);
                }
            }
            Err(why) => {
                let reason = format!("its snapshot {name} cannot be read: {why}");
                draft.end(&Version { content: Some(content.clone()), ..version }, State::Lost, reason);
            }
        }
        take_over(draft, id, described);
    }
}

/// Records a version of which the archive cannot give the pages. No other gets its number, and it can be read again from the start
/// on at which its pages can be had.
pub(super) fn record_damaged(draft: &mut Draft<'_>, id: &VersionId, damaged: &Damaged) {
    let Damaged { why, described } = damaged;
    let content = described.as_ref().map(|described| described.content.clone());
    let begun_at = content.as_ref().map_or(draft.now, |content| content.cut_at);
    let version = Version { content, ..unheard_of(id, begun_at) };
    draft.end(&version, State::Lost, format!("the archive cannot give its pages: {why}"));
    say_what_mends(draft, id);
    if let Some(described) = described {
        take_over(draft, id, described);
    }
}

/// Records that the archive cannot give the pages of a version any more. One that was not recorded as archived yet is in its
/// snapshot, and comes into the archive again.
pub(super) fn lose_pages(draft: &mut Draft<'_>, version: &Version, damaged: &Damaged) {
    let (id, why) = (&version.id, &damaged.why);
    if version.is_archived() {
        draft.end(version, State::Lost, format!("the archive cannot give its pages: {why}"));
        say_what_mends(draft, id);
    } else {
        say_in_snapshot(draft, id, why);
    }
}

/// Has a version be in its snapshot alone, as it was before it came into the archive: that cannot give its pages any more. It
/// comes into it again, unless a later one has by now.
pub(super) fn read_from_snapshot(draft: &mut Draft<'_>, version: &Version, why: &str) {
    say_in_snapshot(draft, &version.id, why);
    draft.put(version.clone().without_pages());
}

fn say_in_snapshot(draft: &mut Draft<'_>, id: &VersionId, why: &str) {
    let text =
        format!("what the archive has of {id} is damaged, and it is read from its snapshot again: {why}");
    draft.remark(id, text);
}

/// Says what is wrong with such a version, which is recorded already.
pub(super) fn say_damaged(draft: &mut Draft<'_>, id: &VersionId, Damaged { why, .. }: &Damaged) {
    draft.remark(id, format!("the archive cannot give the pages of {id}: {why}"));
    say_what_mends(draft, id);
}

fn say_what_mends(draft: &mut Draft<'_>, id: &VersionId) {
    let text = format!(
        "to have {id} again, put the archive's file back from a backup and start asat again; or give it up: asat retire {id}"
    );
    draft.remark(id, text);
}

fn left_alone(draft: &mut Draft<'_>, id: &VersionId, name: &str, why: &str) {
    draft.remark(id, format!("{name} was taken for {id}, and is left alone: {why}"));
}

/// The version with a snapshot that it was not known to have.
pub(super) fn holding(mut version: Version, snapshot: &Snapshot) -> Version {
    version.holdings.push(Holding::Snapshot(Box::new(snapshot.clone())));
    version
}
