//! Snapshots that nothing is recorded of, although every mark says that this installation made them: the catalogue was lost, or
//! is older than they are. What they say of themselves is held against what they contain.

use std::path::Path;

use asat_core::VersionId;
use asat_core::event::{Described, Found};
use asat_core::register::Register;
use asat_core::version::{Content, State, Version};
use asat_host::store::{StillState, Told};
use jiff::Timestamp;

use crate::daemon::archives::Note;

/// What is to be written down beside a snapshot of the version: until its pages are in the archive, nothing but the catalogue knows it
/// otherwise.
pub(super) fn told(note: &Note, cut_at: Timestamp, state: &StillState, inside: Option<&Path>) -> Vec<String> {
    let note = serde_json::to_string(note).unwrap_or_default();
    Told::of(state, cut_at, inside, note).lines()
}

/// What a snapshot says of its version, as the archive would.
pub(super) fn described(told: &Told) -> Result<Described, String> {
    let note = told.note.as_deref().map_or_else(|| Ok(Note::default()), serde_json::from_str);
    let Note { attributes, key, of_set, .. } =
        note.map_err(|error| format!("it says nothing readable of its publication: {error}"))?;
    attributes.check().map_err(|problem| problem.detail)?;
    let content = Content {
        cut_at: told.cut_at,
        fingerprint: None,
        page_size: told.page_size,
        page_count: told.page_count,
        wal: told.wal,
    };
    Ok(Described { content, bytes: 0, attributes, key, of_set, checks: Vec::new() })
}

/// Whether a snapshot may hold a version that is to be had again. Of one that could not be looked into before, nothing but the
/// number may be known.
pub(super) fn is_sought(register: &Register, id: &VersionId) -> bool {
    let is_lost = |version: &Version| version.state == State::Lost && version.holdings.is_empty();
    register.stores().next().is_none() || register.entry(id).is_ok_and(|entry| is_lost(&entry.version))
}

/// What the catalogue should know, if it were this daemon's newest one.
pub(super) fn unknown(version: VersionId, name: String) -> Found {
    let why = "the catalogue does not know of it; if no other daemon does, stop this one and type: \
               asat rebuild-catalogue --replace";
    left_alone(version, name, why)
}

/// What no version is made of, for this reason. No other version has its number.
pub(super) fn left_alone(version: VersionId, name: String, why: &str) -> Found {
    Found { version, name, described: Some(Err(why.to_owned())), snapshot: Err(why.to_owned()) }
}

/// What could not be looked into this time, for this reason: a later start may find a version in it.
pub(super) fn unseen(version: VersionId, name: String, why: &str) -> Found {
    Found { version, name, described: None, snapshot: Err(why.to_owned()) }
}
