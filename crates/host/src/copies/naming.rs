//! The names in the folder of copies, made and parsed in one place. What is not spelled exactly as here is
//! somebody else's.

use std::ffi::OsStr;

use asat_core::VersionId;

/// What an entry of the folder is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// `report@12`: a copy.
    Copy(VersionId),
    /// `report@12.tmp`: a copy that is not finished, or one that was replaced.
    Temporary(VersionId),
}

impl Name {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Copy(id) => id.to_string(),
            Self::Temporary(id) => format!("{id}.tmp"),
        }
    }

    pub(crate) fn parse(name: &OsStr) -> Option<Self> {
        let text = name.to_str()?;
        match text.strip_suffix(".tmp") {
            Some(stem) => stem.parse().ok().map(Self::Temporary),
            None => text.parse().ok().map(Self::Copy),
        }
    }
}

/// The name of the database within its folder: that of the store, so that a client's prompt says what it is.
/// A mounted version has the same name.
pub(crate) fn file_name(id: &VersionId) -> String {
    format!("{}.db", id.store)
}

/// The files that a copy's folder may hold: the database, and what a writing client could have left beside it.
pub(super) fn file_names(id: &VersionId) -> [String; 4] {
    ["", "-journal", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", file_name(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for id in ["report@12", "r.tmp@1", "a.b-c_d@18446744073709551615"] {
            let id: VersionId = id.parse().unwrap();
            for name in [Name::Copy(id.clone()), Name::Temporary(id)] {
                assert_eq!(Name::parse(OsStr::new(&name.text())), Some(name));
            }
        }
        for foreign in [
            "",
            ".",
            "..",
            ".identities",
            "report",
            "report@",
            "report@0",
            "report@1.TMP",
            ".tmp",
            "report@1.tmp.tmp",
            "report@latest",
            "lost+found",
            "report@1~",
            "report@01",
        ] {
            assert_eq!(Name::parse(OsStr::new(foreign)), None, "{foreign}");
        }
    }
}
