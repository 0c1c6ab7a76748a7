//! What the archive says of a version and of the publication that it was made for.

use asat_archive::Archive;
use asat_core::check::CheckResult;
use asat_core::event::Described;
use asat_core::version::{Attributes, Content, SetPublication};
use asat_core::{Code, Problem, VersionId};
use serde::{Deserialize, Serialize};

/// What the archive says of the publication that a version was made for, so that a lost catalogue can be rebuilt.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::daemon) struct Note {
    pub(in crate::daemon) attributes: Attributes,
    pub(in crate::daemon) key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::daemon) checks: Vec<CheckResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::daemon) of_set: Option<SetPublication>,
}

impl Note {
    /// The part that every user of this machine may read, as every user can read the arguments of a command: the label, the business
    /// date and the certifier.
    pub(in crate::daemon) fn for_all(mut self) -> Self {
        (self.attributes.note, self.key) = (None, None);
        self.attributes.free.clear();
        self
    }
}

/// What the archive says of a version.
pub(in crate::daemon) fn describe(archive: &Archive, id: &VersionId) -> Result<Described, Problem> {
    let meta = archive.describe(id.number)?;
    let note: Note = serde_json::from_value(meta.note.clone()).map_err(|error| {
        let detail =
            format!("what the archive has of {id} says nothing readable of its publication: {error}");
        Problem::new(Code::Damaged, detail, "retire the version, or put the archive back from a backup")
    })?;
    let content = Content {
        cut_at: meta.cut_at,
        fingerprint: Some(meta.fingerprint),
        page_size: meta.page_size,
        page_count: meta.page_count,
        wal: meta.wal,
    };
    let bytes = archive.stored_bytes(id.number).unwrap_or(0);
    let Note { attributes, key, checks, of_set } = note;
    Ok(Described { content, bytes, attributes, key, of_set, checks })
}
